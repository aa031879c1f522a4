"""Jobs: children that one process trains, described as JSON.

A job names the space, the data set, the recipe and the children. `run` is a
pure function from a job to records, with the same results in any process on the
same kind of device. The data set is a file named by the hash of its content.
Workers never open the store.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import faulthandler
import functools
import hashlib
import json
import os
import pathlib
import pkgutil
import platform
import socket
import threading
import time
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups import symmetries as symmetries_lib
from aen.train import child as child_lib
from aen.train import executors as executors_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from aen.train.store import Record

Request = tuple[int, int]  # a network and a seed

# Settings of JAX that workers adopt: those that affect results, and the
# compilation cache.
_SETTINGS = (
  'jax_default_matmul_precision',
  'jax_default_prng_impl',
  'jax_enable_x64',
  'jax_threefry_partitionable',
  'jax_compilation_cache_dir',
  'jax_persistent_cache_min_compile_time_secs',
  'jax_persistent_cache_min_entry_size_bytes',
)
_KEPT = 2  # trainers, with their data sets, in the memory of a worker


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Trainer:
  """Trains children in this process."""

  space: Any  # an `aen.search.space.Space`
  data: child_lib.ChildData
  fingerprint: str  # of the images
  recipe: recipe_lib.Recipe
  keep_params: bool = False  # whether to return the parameters too
  children_per_batch: int | None = None  # as in `train_children`

  @functools.cached_property
  def program(self) -> Callable[[int], nn.Module]:
    """Maps a network to its program, the same object for equal programs."""
    how = recipe_lib.INITIALIZERS[self.recipe.initializer]

    @functools.cache
    def initialised(model: nn.Module) -> nn.Module:
      return model.clone(kernel_init=how.kernel_init)

    return functools.cache(lambda n: initialised(self.space.program(n)))

  @functools.cached_property
  def _network_key(self) -> Callable[[int], str]:
    return functools.cache(self.space.key)

  @property
  def batch_size(self) -> int:
    """The number of children per batch and device."""
    default = child_lib.default_batch(jax.devices()[0])
    return self.children_per_batch or default

  def _key(
    self, request: Request, recipe: recipe_lib.Recipe
  ) -> store_lib.ChildKey:
    network, seed = self._network_key(request[0]), int(request[1])
    key = recipe_lib.recipe_key(recipe)
    return store_lib.ChildKey(network, self.fingerprint, key, seed)

  def _train(
    self,
    batch: Sequence[Request],
    devices: Sequence[jax.Device],
    recipe: recipe_lib.Recipe,
  ) -> list[Record]:
    start = time.perf_counter()
    networks, seeds = zip(*batch, strict=True)
    inputs = jax.tree.map(
      lambda *leaves: np.stack(leaves), *map(self.space.inputs, networks)
    )
    model = self.program(networks[0])
    trained = child_lib.train_children(
      jnp.stack([jax.random.key(seed) for seed in seeds]),
      inputs.collections,
      self.data,
      child_lib.ChildConfig(model, recipe, self.keep_params),
      children_per_batch=self.children_per_batch,
      devices=devices,
      augmentations=inputs.augmentations,
    )
    trained = jax.device_get(trained)
    seconds = (time.perf_counter() - start) / len(batch)
    return [
      self._record(
        request, jax.tree.map(lambda leaf, i=i: leaf[i], trained), recipe
      ).replace(seconds=seconds)
      for i, request in enumerate(batch)
    ]

  def _record(
    self, request: Request, trained: Record, recipe: recipe_lib.Recipe
  ) -> Record:
    """Adds the identity of the child; converts curves to tuples of floats."""
    network, _ = request
    few, test, validation = self.data.few, self.data.test, self.data.validation
    # The denominator of each accuracy.
    totals = {
      'validation_accuracy': len(validation.labels),
      'test_accuracy': 0 if test is None else len(test.labels),
      'few_test_accuracy': 0 if few is None else int(few.sum()),
    }
    numbers = validation.labels.dtype.kind == 'f'
    if numbers or recipe.criterion == 'balanced_accuracy':
      totals = {}
    curves = {}
    for name in store_lib.CURVES:
      curve = np.asarray(getattr(trained, name), np.float64)
      if total := totals.get(name):  # exact in double precision
        curve = np.rint(curve * total) / total
      curves[name] = tuple(curve.tolist())
    params = trained.params
    return trained.replace(
      **curves,
      diverged=bool(trained.diverged),
      params=None if params is None else self.space.unpad(network, params),
      key=self._key(request, recipe),
      symmetries=' + '.join(self.space.names(network)),
      num_weights=self.space.num_weights(network),
    )


def describe(evaluator: Any, recipe: recipe_lib.Recipe) -> dict[str, Any]:
  """Returns what an `Evaluator`'s jobs have in common, for JSON."""
  own = {
    symmetry.name: _importable(symmetry)
    for symmetry in evaluator.space.symmetries
    if symmetries_lib.NAMED.get(symmetry.name) != symmetry
  }
  workers = evaluator.workers
  number = getattr(evaluator.executor, 'workers', 0)
  return {
    'space': [evaluator.space.factory, evaluator.space.spec(), own],
    'data': evaluator.data_file,
    'fingerprint': evaluator.fingerprint,
    'recipe': dataclasses.asdict(recipe),
    'keep_params': evaluator.keep_params,
    'children_per_batch': evaluator.batch_size,
    'time_limit': workers.time_limit,
    'workers': number if isinstance(number, int) else 0,
    'settings': {name: getattr(jax.config, name) for name in _SETTINGS},
    'environment': executors_lib.thread_environment(workers.threads or 1),
    'head': _process(),
  }


def write_data(data: child_lib.ChildData, folder: io_lib.PathLike) -> str:
  """Writes a data set for workers, named by the hash of its content."""
  arrays = {
    name: value._asdict() if isinstance(value, child_lib.Examples) else value
    for name, value in data._asdict().items()
    if value is not None
  }
  packed = store_lib.pack(arrays)
  digest = hashlib.sha256(packed).hexdigest()[:32]
  path = pathlib.Path(folder).absolute() / f'{digest}.npz'
  if not path.exists():
    with io_lib.written_whole(path) as file:
      file.write(packed)
  return str(path)


def _importable(symmetry: symmetries_lib.Symmetry) -> str:
  """Returns the import path module:function of a symmetry; raises if none."""
  function = symmetry.fn
  module = getattr(function, '__module__', None)
  path = f'{module}:{getattr(function, "__qualname__", "")}'
  found = None
  with contextlib.suppress(ImportError, AttributeError, ValueError):
    found = pkgutil.resolve_name(path)
  if found is not function or module == '__main__':
    raise ValueError(
      f'workers cannot import the symmetry {symmetry.name} ({path}); write it'
      ' as a function of a module that they can import, or search with'
      " executor='local'"
    )
  return path


def run(
  job: executors_lib.Job, read: Callable[[], bytes] | None = None
) -> list[Record]:
  """Trains the children of a job, in any process.

  A job is what `describe` returns plus `requests`, a list of (network, seed)
  pairs; an empty list only warms up the worker. `read` returns the content of
  the data file, which is read from disk by default.
  """
  started, limit = time.time(), None
  if job['head'] != _process():  # a worker adopts the settings of the head
    limit = job['time_limit']
    # XLA reads these at the first use of JAX in a process.
    os.environ.update(job['environment'])
    for name, value in job['settings'].items():
      if getattr(jax.config, name) != value:
        jax.config.update(name, value)
  if limit is not None:  # kills this process even if it hangs outside Python
    faulthandler.dump_traceback_later(limit, exit=True)
  try:
    trainer = _trainer(job, read)
    trainer.program(0)  # makes the programs of all networks
    records = []
    for batch in divided(job['requests'], job['children_per_batch']):
      records += trainer._train(batch, jax.devices()[:1], trainer.recipe)
    return with_origin(records, started, job['workers'])
  finally:
    if limit is not None:
      faulthandler.cancel_dump_traceback_later()


_trainers: dict[str, Trainer] = {}
_making = threading.Lock()


def _trainer(
  job: executors_lib.Job, read: Callable[[], bytes] | None
) -> Trainer:
  """Returns the trainer of a job; the latest `_KEPT` are cached."""
  fields = {
    field.name: job[field.name] for field in dataclasses.fields(Trainer)
  }
  described = json.dumps(fields)
  with _making:
    if described not in _trainers:
      fields |= {
        'space': _space(json.dumps(job['space'])),
        'data': _data(job['data'], read),
        'recipe': recipe_lib.Recipe(**job['recipe']),
      }
      while len(_trainers) >= _KEPT:
        _trainers.pop(next(iter(_trainers)))
      _trainers[described] = Trainer(**fields)
    return _trainers[described]


@functools.lru_cache(maxsize=_KEPT)
def _space(described: str) -> Any:
  """Makes a space from its description."""
  factory, spec, own = json.loads(described)
  symmetries = [
    symmetries_lib.Symmetry(name, pkgutil.resolve_name(path))
    for name, path in own.items()
  ]
  return pkgutil.resolve_name(factory)(spec, symmetries)


def _data(path: str, read: Callable[[], bytes] | None) -> child_lib.ChildData:
  """Reads what `write_data` wrote."""
  try:
    content = read() if read else pathlib.Path(path).read_bytes()
  except FileNotFoundError as error:
    raise ValueError(
      f'{socket.gethostname()} does not see the data set {path}; give a run_dir'
      ' that all machines share'
    ) from error
  data: dict[str, Any] = jax.tree.map(jnp.asarray, store_lib.unpack(content))
  for name, value in data.items():
    if isinstance(value, dict):
      data[name] = child_lib.Examples(**value)
  return child_lib.ChildData(**data | {'black': float(data['black'])})


def _process() -> str:
  """Returns the name of this process, as host:process."""
  return f'{socket.gethostname()}:{os.getpid()}'


def with_origin(
  records: Sequence[Record], started: float, workers: int = 0
) -> list[Record]:
  """Adds this process and the time until now as the records' origin."""
  device = jax.devices()[0]
  on_cpu = device.platform == 'cpu'
  kind = _cpu() if on_cpu else device.device_kind
  threads = executors_lib.num_threads() if on_cpu else 0
  origin = store_lib.Origin(
    kind, jax.__version__, _process(), started, time.time(), workers, threads
  )
  return [record.replace(origin=origin) for record in records]


@functools.cache
def _cpu() -> str:
  """Returns the CPU model, for which XLA generates code."""
  model = platform.processor() or platform.machine()
  with contextlib.suppress(OSError, StopIteration):  # Linux
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    line = next(line for line in lines if line.startswith('model name'))
    model = line.partition(':')[2].strip()
  return f'cpu ({model})'


def divided(
  requests: Sequence[Request], size: int
) -> Iterator[Sequence[Request]]:
  """Yields batches of a given size; the last may be smaller."""
  for start in range(0, len(requests), size):
    yield requests[start : start + size]
