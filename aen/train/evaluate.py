"""Evaluating networks: looked up in the store, or trained in batches.

A search asks for (network, seed) pairs and gets records. What is missing in the
store is trained in this process, or becomes jobs for an executor. A job is JSON
and names a file of arrays; `run` is the pure function from a job to records,
and what a job contains does not depend on the number of workers.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
import contextlib
import dataclasses
import faulthandler
import functools
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import platform
import queue
import socket
import threading
import time
from typing import Any
from typing import Protocol

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.groups import symmetries as symmetries_lib
from aen.train import child as child_lib
from aen.train import executors as executors_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from aen.train.store import Record

Request = tuple[int, int]  # a network and a seed
# (requests, epochs or None for the recipe's) -> one record per request
Evaluate = Callable[[Sequence[Request], int | None], list[Record]]

# Settings of JAX that workers take over: those that change numbers, and the
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
_KEPT = 2  # data sets in the memory of a worker
_AHEAD = 10_000  # jobs that an executor has at once


class Networks(Protocol):
  """What an evaluator needs of a search space; see `aen.search.space.Space`."""

  factory: str  # as module:function, makes the space of (spec(), symmetries)
  symmetries: tuple[symmetries_lib.Symmetry, ...]

  def spec(self) -> dict[str, Any]:
    """Returns the space as JSON."""

  def key(self, network: int, /) -> str:
    """Returns a name that equal networks share."""

  def names(self, network: int, /) -> tuple[str, ...]:
    """Returns the shortest names of a network."""

  def num_weights(self, network: int, /) -> int:
    """Returns the number of free weights."""

  def program(self, network: int, /) -> nn.Module:
    """Returns the model that trains it, padded."""

  def inputs(self, network: int, /) -> child_lib.ChildInputs:
    """Returns what makes the program this network."""

  def unpad(self, network: int, params: Any, /) -> Any:
    """Returns the program's parameters as the network's."""


@dataclasses.dataclass(frozen=True)
class Scaling:
  """Standardises pixels: (x - mean) / std."""

  mean: float
  std: float

  def __call__(self, images: np.ndarray) -> np.ndarray:
    """Returns float32 images."""
    scaled = (np.asarray(images, np.float32) - self.mean) / self.std
    return scaled.astype(np.float32, copy=False)


def scaling_of(images: np.ndarray) -> Scaling:
  """Returns the published scaling of grey levels, else mean 0, variance 1."""
  if images.dtype == np.uint8 and images.ndim == 3:
    mean, std = dataset_lib.PUBLISHED_MEAN, dataset_lib.PUBLISHED_STD
    return Scaling(255 * mean, 255 * std)
  std = float(images.std(dtype=np.float64))
  if std == 0:
    raise ValueError(
      'all pixels of all training images have the same value; give images that'
      ' differ'
    )
  return Scaling(float(images.mean(dtype=np.float64)), std)


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluator:
  """Trains the children that are not in the store yet.

  Attributes:
    space: What the numbers of networks mean.
    data: The images.
    fingerprint: The fingerprint of these images.
    recipe: The children's hyperparameters.
    store: Where records are kept; each batch is one transaction.
    keep_params: Whether to keep the parameters too.
    children_per_batch: As in `train_children`.
    on_trained: Called with the records of every batch.
    executor: Where children are trained; None for this process.
    workers: What to do when a worker fails, and the children of a job.
    folder: Where the data set is written for workers, which must see it.
  """

  space: Networks
  data: child_lib.ChildData
  fingerprint: str
  recipe: recipe_lib.Recipe
  store: store_lib.Results
  keep_params: bool = False
  children_per_batch: int | None = None
  on_trained: Callable[[Sequence[Record]], None] = lambda records: None
  executor: executors_lib.Executor | None = None
  workers: executors_lib.Workers = executors_lib.Workers()
  folder: io_lib.PathLike | None = None

  def __call__(
    self, requests: Sequence[Request], epochs: int | None = None
  ) -> list[Record]:
    """Returns one record per request, in order.

    Args:
      requests: The children.
      epochs: How long to train them, instead of the recipe's.
    """
    recipe = self.recipe
    if epochs is not None:
      recipe = dataclasses.replace(recipe, epochs=epochs)
    found: dict[Request, Record] = {}
    trained: dict[store_lib.ChildKey, Record] = {}
    missing = []
    for request in dict.fromkeys(requests):
      record = self.store.get(self._key(request, recipe), self.keep_params)
      if record is None or (self.keep_params and record.params is None):
        missing.append(request)
      else:
        found[request] = record
    for records in self._trained(missing, recipe):
      self.store.put(records)
      self.on_trained(records)
      trained |= {record.key: record for record in records}
    return [found.get(r) or trained[self._key(r, recipe)] for r in requests]

  def _key(
    self, request: Request, recipe: recipe_lib.Recipe
  ) -> store_lib.ChildKey:
    network, seed = request
    return store_lib.ChildKey(
      network=self._network_key(network),
      data=self.fingerprint,
      recipe=recipe_lib.recipe_key(recipe),
      seed=int(seed),
    )

  @functools.cached_property
  def _network_key(self) -> Callable[[int], str]:
    return functools.lru_cache(maxsize=None)(self.space.key)

  def _trained(
    self, requests: Sequence[Request], recipe: recipe_lib.Recipe
  ) -> Iterator[list[Record]]:
    """Trains children; yields the records of some as soon as there are any."""
    each = self.children_per_batch or child_lib.default_batch(jax.devices()[0])
    by_program: dict[nn.Module, list[Request]] = {}
    for request in requests:
      program = self._program(request[0])
      by_program.setdefault(program, []).append(request)
    if self.executor is None:
      for same in by_program.values():
        devices = jax.devices()[: -(-len(same) // each)]  # none is idle
        for batch in _divided(same, each * len(devices)):
          started = time.time()
          yield _with_origin(self._train(batch, devices, recipe), started)
    elif requests:
      size = max(each, self.workers.children_per_job or 0)
      jobs = [j for same in by_program.values() for j in _divided(same, size)]
      yield from self._run_jobs(jobs, each, recipe)

  @functools.cached_property
  def _program(self) -> Callable[[int], nn.Module]:
    return functools.lru_cache(maxsize=None)(self.space.program)

  def _run_jobs(
    self,
    batches: Sequence[Sequence[Request]],
    children_per_batch: int,
    recipe: recipe_lib.Recipe,
  ) -> Iterator[list[Record]]:
    """Has an executor train batches; yields records as they arrive.

    A job that fails is submitted again, `retries` times at most.

    Raises:
      executors.WorkerError: Some job failed every time. By then all others have
        been yielded.
    """
    assert (executor := self.executor) is not None
    common = self._job(children_per_batch, recipe)
    attempts, failures = [0] * len(batches), dict[int, str]()
    pending: dict[int, Any] = {}
    finished = _Finished()

    def submit(number: int) -> None:
      # The attempt makes each job another one, also for Dask, which would
      # otherwise return the error of the first.
      requests = [[int(n), int(seed)] for n, seed in batches[number]]
      attempts[number] += 1
      job = common | {'requests': requests, 'attempt': attempts[number]}
      pending[number] = executor.submit(run, job)
      finished.watch(number, pending[number])

    left = iter(range(len(batches)))
    try:
      while True:
        for number in itertools.islice(left, _AHEAD - len(pending)):
          submit(number)
        if not pending:
          break
        arrived = []
        for number in finished.wait():
          try:
            records = pending.pop(number).result()
            self._check(records, batches[number], recipe)
          except ValueError:  # of the user: the same everywhere
            raise
          except futures.BrokenExecutor:
            raise
          except Exception as error:
            reason = f'{type(error).__name__}: {error}'.strip()
            if attempts[number] <= self.workers.retries:
              submit(number)
            else:
              failures[number] = reason
          else:
            arrived += records
        if arrived:
          yield arrived
    except futures.BrokenExecutor as error:
      raise executors_lib.WorkerError(
        'a process of the executor died, and such an executor takes no more'
        f" jobs ({error}); use executor='processes', which replaces a process"
        ' that dies, or run it again with a new one: finished children are kept'
      ) from error
    finally:
      for future in pending.values():
        if hasattr(future, 'cancel'):
          future.cancel()
    for number, reason in failures.items():
      for request in batches[number]:
        self.store.put_failure(self._key(request, recipe), reason)
    if failures:
      number, reason = next(iter(failures.items()))
      network, seed = batches[number][0]
      name = ' + '.join(self.space.names(network)) or 'no symmetry'
      raise executors_lib.WorkerError(
        f'{len(failures)} of {len(batches)} jobs failed {attempts[number]}'
        f' times each; the first, of {name} with seed {seed}: {reason}. All'
        ' other children are kept: run it again to retry'
      )

  def _job(
    self, children_per_batch: int, recipe: recipe_lib.Recipe
  ) -> dict[str, Any]:
    """Returns what all jobs of a call have in common, for JSON."""
    own = {
      symmetry.name: _importable(symmetry)
      for symmetry in self.space.symmetries
      if symmetries_lib.SYMMETRIES.get(symmetry.name) != symmetry
    }
    return {
      'space': [self.space.factory, self.space.spec(), own],
      'data': str(self._data_file),
      'fingerprint': self.fingerprint,
      'recipe': dataclasses.asdict(recipe),
      'children_per_batch': children_per_batch,
      'keep_params': self.keep_params,
      'time_limit': self.workers.time_limit,
      'workers': self._num_workers,
      'settings': {name: getattr(jax.config, name) for name in _SETTINGS},
      'environment': {
        'XLA_FLAGS': os.environ.get('XLA_FLAGS', ''),
        'PJRT_NPROC': str(self.workers.threads or _num_threads()),
      },
      'head': _process(),
    }

  @property
  def _num_workers(self) -> int:
    number = getattr(self.executor, 'workers', 0)
    return number if isinstance(number, int) else 0

  @functools.cached_property
  def _data_file(self) -> pathlib.Path:
    """Writes the data set for workers, under the hash of its content."""
    packed = store_lib.pack(_as_arrays(self.data))
    digest = hashlib.sha256(packed).hexdigest()[:32]
    path = pathlib.Path(self.folder or '.').absolute() / f'{digest}.npz'
    if not path.exists():
      with io_lib.written_whole(path) as file:
        file.write(packed)
    return path

  def _check(
    self,
    records: Any,
    requests: Sequence[Request],
    recipe: recipe_lib.Recipe,
  ) -> None:
    """Raises unless a worker returned the records that it was asked for."""
    expected = [self._key(request, recipe) for request in requests]
    try:
      got = [record.key for record in records]
      lengths = {len(record.validation_loss) for record in records}
    except (AttributeError, TypeError) as error:
      raise executors_lib.WorkerError(
        f'expected records from the worker, got {records!r:.80}'
      ) from error
    if got != expected or lengths != {recipe.epochs}:
      raise executors_lib.WorkerError(
        'the worker returned records of other children than it was asked for'
      )

  def _train(
    self,
    batch: Sequence[Request],
    devices: Sequence[jax.Device],
    recipe: recipe_lib.Recipe,
  ) -> list[Record]:
    start = time.perf_counter()
    networks, seeds = zip(*batch, strict=True)
    inputs = jax.tree.map(
      lambda *leaves: jnp.stack(leaves), *map(self.space.inputs, networks)
    )
    kernel_init = recipe_lib.INITIALIZERS[recipe.initializer].kernel_init
    trained = child_lib.train_children(
      jnp.stack([jax.random.key(seed) for seed in seeds]),
      inputs.collections,
      self.data,
      child_lib.ChildConfig(
        self._program(networks[0]).clone(kernel_init=kernel_init),
        recipe,
        self.keep_params,
      ),
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
    """Adds who the child is; curves become tuples of floats."""
    network, _ = request
    test = 0 if self.data.test is None else len(self.data.test.labels)
    few = 0 if self.data.few is None else int(self.data.few.sum())

    def accuracy(curve: Any, total: int) -> tuple[float, ...]:
      """Returns count / total in double precision."""
      return tuple(round(float(value) * total) / total for value in curve)

    params = trained.params
    return trained.replace(
      train_loss=tuple(map(float, trained.train_loss)),
      validation_accuracy=accuracy(
        trained.validation_accuracy, len(self.data.validation.labels)
      ),
      validation_loss=tuple(map(float, trained.validation_loss)),
      test_accuracy=accuracy(trained.test_accuracy, test),
      few_test_accuracy=accuracy(trained.few_test_accuracy, few),
      diverged=bool(trained.diverged),
      params=None if params is None else self.space.unpad(network, params),
      key=self._key(request, recipe),
      symmetries=' + '.join(self.space.names(network)),
      num_weights=self.space.num_weights(network),
    )


def run(
  job: executors_lib.Job, read: Callable[[], bytes] | None = None
) -> list[Record]:
  """Trains the children of a job: a pure function, in whatever process.

  Args:
    job: As made by an evaluator.
    read: Returns the content of the data file; by default it is read.

  Returns:
    One record per request, in order.
  """
  started = time.time()
  if job['head'] != _process():
    _take_over(job)
  limit = job['time_limit'] if job['head'] != _process() else None
  if limit is not None:
    # Even if it hangs outside Python.
    faulthandler.dump_traceback_later(limit, exit=True)
  try:
    evaluator = Evaluator(
      space=_space(json.dumps(job['space'])),
      data=_data(job['data'], read),
      fingerprint=job['fingerprint'],
      recipe=recipe_lib.Recipe(**job['recipe']),
      store=store_lib.Results(),
      keep_params=job['keep_params'],
      children_per_batch=job['children_per_batch'],
    )
    requests = [(network, seed) for network, seed in job['requests']]
    records = []
    for batch in _divided(requests, job['children_per_batch']):
      records += evaluator._train(batch, jax.devices()[:1], evaluator.recipe)
    return _with_origin(records, started, job['workers'])
  finally:
    if limit is not None:
      faulthandler.cancel_dump_traceback_later()


def _take_over(job: executors_lib.Job) -> None:
  """Gives a worker the settings of the head.

  XLA reads the environment when a process uses JAX for the first time.
  """
  os.environ.update(job['environment'])
  for name, value in job['settings'].items():
    if getattr(jax.config, name) != value:
      jax.config.update(name, value)


@functools.lru_cache(maxsize=_KEPT)
def _space(described: str) -> Any:
  """Makes a space from its description."""
  factory, spec, own = json.loads(described)
  symmetries = [
    symmetries_lib.Symmetry(name, _imported(path)) for name, path in own.items()
  ]
  return _imported(factory)(spec, symmetries)


def _imported(path: str) -> Any:
  """Returns what is written module:name."""
  module, name = path.split(':')
  return getattr(importlib.import_module(module), name)


def _importable(symmetry: symmetries_lib.Symmetry) -> str:
  """Returns a symmetry's function as module:function; raises if it has none."""
  function = symmetry.fn
  module = getattr(function, '__module__', None)
  path = f'{module}:{getattr(function, "__qualname__", "")}'
  found = None
  with contextlib.suppress(ImportError, AttributeError, ValueError):
    found = _imported(path)
  if found is not function or module == '__main__':
    raise ValueError(
      f'workers cannot import the symmetry {symmetry.name} ({path}); write it'
      ' as a function of a module that they can import, or search with'
      " executor='local'"
    )
  return path


_loaded: dict[str, child_lib.ChildData] = {}
_loading = threading.Lock()


def _data(path: str, read: Callable[[], bytes] | None) -> child_lib.ChildData:
  """Returns a data set, read once per process."""
  with _loading:
    if path not in _loaded:
      try:
        content = read() if read else pathlib.Path(path).read_bytes()
      except FileNotFoundError as error:
        raise ValueError(
          f'{socket.gethostname()} does not see the data set {path}; give a'
          ' run_dir that all machines share'
        ) from error
      while len(_loaded) >= _KEPT:
        _loaded.pop(next(iter(_loaded)))
      _loaded[path] = _from_arrays(store_lib.unpack(content))
    return _loaded[path]


def _as_arrays(data: child_lib.ChildData) -> dict[str, Any]:
  """Returns a data set as nested arrays."""
  return {
    name: value._asdict() if isinstance(value, child_lib.Examples) else value
    for name, value in data._asdict().items()
    if value is not None
  }


def _from_arrays(arrays: dict[str, Any]) -> child_lib.ChildData:
  """Returns the data set of `_as_arrays`."""
  data: dict[str, Any] = {
    name: child_lib.Examples(**jax.tree.map(jnp.asarray, value))
    if isinstance(value, dict)
    else value
    for name, value in arrays.items()
  }
  few = data.get('few')
  return child_lib.ChildData(**data)._replace(
    black=float(data['black']), few=None if few is None else jnp.asarray(few)
  )


def _num_threads() -> int:
  """Returns the number of threads that XLA uses on the CPU."""
  chosen = os.environ.get('PJRT_NPROC') or os.environ.get('NPROC')
  return int(chosen or executors_lib.num_cores())


def _process() -> str:
  """Returns the name of this process, as host:process."""
  return f'{socket.gethostname()}:{os.getpid()}'


def _with_origin(
  records: Sequence[Record], started: float, workers: int = 0
) -> list[Record]:
  """Adds where and when children were trained: here, until now."""
  device = jax.devices()[0]
  kind = _cpu() if device.platform == 'cpu' else device.device_kind
  origin = store_lib.Origin(
    kind, jax.__version__, _process(), started, time.time(), workers
  )
  return [record.replace(origin=origin) for record in records]


@functools.cache
def _cpu() -> str:
  """Returns the model of the CPU, on which the code of XLA depends."""
  model = platform.processor() or platform.machine()
  with contextlib.suppress(OSError, StopIteration):  # Linux
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    line = next(line for line in lines if line.startswith('model name'))
    model = line.partition(':')[2].strip()
  return f'cpu ({model})'


def _divided(requests: Sequence[Request], size: int) -> list[list[Request]]:
  """Divides requests into batches of a size; the last may be smaller."""
  starts = range(0, len(requests), size)
  return [list(requests[i : i + size]) for i in starts]


class _Finished:
  """Says which futures have finished, as soon as they have.

  Futures that call nobody back, such as those of submitit, are waited for in
  order by a thread.
  """

  def __init__(self) -> None:
    self._numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    self._waited: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    self._thread: threading.Thread | None = None

  def watch(self, number: int, future: Any) -> None:
    """Reports a number when its future has finished."""
    if hasattr(future, 'add_done_callback'):
      future.add_done_callback(lambda _: self._numbers.put(number))
      return
    self._waited.put((number, future))
    if self._thread is None:
      self._thread = threading.Thread(target=self._wait, daemon=True)
      self._thread.start()

  def _wait(self) -> None:
    while True:
      number, future = self._waited.get()
      with contextlib.suppress(Exception):
        future.result()
      self._numbers.put(number)

  def wait(self) -> list[int]:
    """Returns the numbers of all that have finished, at least one."""
    numbers = [self._numbers.get()]
    with contextlib.suppress(queue.Empty):
      while True:
        numbers.append(self._numbers.get_nowait())
    return numbers


def make_evaluator(
  data: dataset_lib.Dataset,
  scaling: Scaling | None = None,
  *,
  measure_test: bool = False,
  few: np.ndarray | None = None,
  **options: Any,
) -> Evaluator:
  """Returns an evaluator that trains on a data set.

  Args:
    data: The images.
    scaling: Applied to all images; `scaling_of` by default.
    measure_test: Whether to measure test accuracy after every epoch.
    few: Test images whose accuracy is also measured apart. bool [N]
    **options: The other fields of `Evaluator`.
  """
  scaling = scaling or scaling_of(data.train.images)
  check_batch(data, options['recipe'])
  splits = [data.train, data.validation]
  if measure_test:
    splits.append(data.test)
  examples: list[Any] = [
    child_lib.Examples(
      jnp.asarray(scaling(split.images)), jnp.asarray(split.labels)
    )
    for split in splits
  ]
  black = min(0, data.train.images.min())  # unless pixels may be negative
  if few is not None:
    splits.append(data.test.take(np.flatnonzero(few)))
    few = jnp.asarray(few, bool)
  return Evaluator(
    data=child_lib.ChildData(*examples)._replace(
      few=few, black=float(scaling(black))
    ),
    fingerprint=dataset_lib.fingerprint(*splits),
    **options,
  )


def check_batch(data: dataset_lib.Dataset, recipe: recipe_lib.Recipe) -> None:
  """Raises unless there are enough training images for a batch."""
  if len(data.train) < recipe.batch_size:
    raise ValueError(
      f'{len(data.train)} training images are fewer than a batch of'
      f' {recipe.batch_size}; give more images, or a smaller batch_size (of the'
      ' recipe, or as a flag)'
    )


class ProgressBar:
  """A progress bar of children on a terminal; silent elsewhere."""

  def __init__(
    self,
    what: str,
    total: int | None,
    also: Callable[[Sequence[Record]], None] | None = None,
  ) -> None:
    """Starts the bar.

    Args:
      what: The label before the bar.
      total: The number of children; None if unknown.
      also: Called with the same records.
    """
    self._also = also
    self._bar = tqdm.tqdm(total=total, desc=what, unit='child', disable=None)
    self._best = 0.0

  def __call__(self, records: Sequence[Record]) -> None:
    """Counts children that were trained."""
    self._best = max(
      self._best, *(max(record.validation_accuracy) for record in records)
    )
    self._bar.set_postfix_str(f'best {100 * self._best:.1f} %', refresh=False)
    self._bar.update(len(records))
    if self._also is not None:
      self._also(records)

  def __enter__(self) -> 'ProgressBar':
    return self

  def __exit__(self, *_: object) -> None:
    self._bar.close()
