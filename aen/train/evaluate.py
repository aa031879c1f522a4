"""Evaluating networks: looked up in the store, or trained in batches.

A search asks for (network, seed) pairs and gets records. Children that are not
in the store are trained in this process, or become jobs of an executor, which
are the same for any number of workers.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import functools
import textwrap
import time
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.train import child as child_lib
from aen.train import executors as executors_lib
from aen.train import jobs as jobs_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from aen.train.jobs import Request
from aen.train.store import Record

# (requests, epochs or None for the recipe's) -> one record per request
Evaluate = Callable[[Sequence[Request], int | None], list[Record]]

_REASON = 300  # characters of an error message


@dataclasses.dataclass(frozen=True)
class Scaling:
  """Standardises pixels: (x - mean) / std."""

  mean: float
  std: float

  def __call__(self, images: np.ndarray) -> np.ndarray:
    """Returns float32 images."""
    scaled = (np.asarray(images, np.float32) - self.mean) / self.std
    return scaled.astype(np.float32, copy=False)


def scaling_of(images: np.ndarray, how: str = 'auto') -> Scaling:
  """Returns the scaling of pixels that one of `recipe.SCALINGS` stands for.

  'auto' is the published scaling for grey levels, mean 0 and variance 1 for
  other images; 'symmetric' maps 0…255 to -1…1.
  """
  if how == 'symmetric':
    if images.dtype != np.uint8:
      raise ValueError(
        "scaling='symmetric' needs uint8 images, got"
        f" {images.dtype}; choose scaling='auto'"
      )
    return Scaling(127.5, 127.5)
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


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Evaluator(jobs_lib.Trainer):
  """Trains the children that are not in the store yet.

  Each batch is one transaction of the store, after which `on_trained` is called
  with its records. Without an executor, children are trained in this process.
  The data set is written to the folder, which workers must be able to read.
  """

  store: store_lib.Results
  on_trained: Callable[[Sequence[Record]], None] = lambda records: None
  executor: Any = None
  workers: executors_lib.Workers = executors_lib.Workers()
  folder: io_lib.PathLike = '.'

  def __call__(
    self, requests: Sequence[Request], epochs: int | None = None
  ) -> list[Record]:
    """Returns a record per request, in order; `epochs` overrides the recipe."""
    return self.start(requests, epochs)()

  def start(
    self, requests: Sequence[Request], epochs: int | None = None
  ) -> Callable[[], list[Record]]:
    """Submits jobs; returns a function that waits for their records.

    Without an executor, children are trained before `start` returns.
    """
    recipe = self.recipe
    if epochs is not None:
      recipe = dataclasses.replace(recipe, epochs=epochs)
    found: dict[Request, Record] = {}

    def missing() -> Iterator[Request]:
      for request in dict.fromkeys(requests):
        record = self.store.get(self._key(request, recipe), self.keep_params)
        if record is None or (self.keep_params and record.params is None):
          yield request
        else:
          found[request] = record

    here = self.executor is None
    train = self._train_here if here else self._run_jobs
    batches = train(missing(), recipe)

    def wait() -> list[Record]:
      trained: dict[store_lib.ChildKey, Record] = {}
      for records in filter(None, batches):
        self.store.put(records)
        self.on_trained(records)
        trained |= {record.key: record for record in records}
      return [found.get(r) or trained[self._key(r, recipe)] for r in requests]

    if here:
      records = wait()
      return lambda: records
    next(batches)  # submits jobs
    return wait

  def prepare(
    self, requests: Sequence[Request]
  ) -> Callable[[], Sequence[Record]]:
    """Warms up workers: they read the data, make the space and train requests.

    Does nothing without an executor. Executors given by name also get a job
    without children per worker; for those given as objects, such as SLURM's, a
    job may be expensive. Returns a function that waits until the requested
    children are in the store.
    """
    if self.executor is None:
      return lambda: ()
    if isinstance(self.workers.executor, str):
      common = jobs_lib.describe(self, self.recipe)
      for number in range(getattr(self.executor, 'workers', 0)):
        job = common | {'requests': [], 'attempt': -number}
        self.executor.submit(jobs_lib.run, job)
    return self.start(requests)

  def _train_here(
    self, requests: Iterator[Request], recipe: recipe_lib.Recipe
  ) -> Iterator[list[Record]]:
    """Trains children in this process; yields the records of each batch."""
    each = self.batch_size
    for same in self._batches(requests):
      devices = jax.devices()[: -(-len(same) // each)]  # none is idle
      for batch in jobs_lib.divided(same, each * len(devices)):
        started = time.time()
        records = self._train(batch, devices, recipe)
        yield jobs_lib.with_origin(records, started)

  def _batches(
    self, requests: Iterator[Request], size: int | None = None
  ) -> Iterator[list[Request]]:
    """Yields requests of one program each, as soon as there are `size`."""
    by_program: dict[nn.Module, list[Request]] = {}
    for request in requests:
      program = self.program(request[0])
      same = by_program.setdefault(program, [])
      same.append(request)
      if len(same) == size:
        yield by_program.pop(program)
    yield from by_program.values()

  def _run_jobs(
    self, requests: Iterator[Request], recipe: recipe_lib.Recipe
  ) -> Iterator[list[Record]]:
    """Trains children in the executor; yields records as they arrive.

    The first list is empty; it is yielded when jobs have been submitted. If a
    job fails in all attempts, raises a `WorkerError` after all other records.
    """
    common = functools.cache(lambda: jobs_lib.describe(self, recipe))
    size = max(self.batch_size, self.workers.children_per_job or 0)

    def jobs() -> Iterator[executors_lib.Job]:
      for batch in self._batches(requests, size):
        pairs = [[int(network), int(seed)] for network, seed in batch]
        yield common() | {'requests': pairs}

    def check(job: executors_lib.Job, records: Any) -> None:
      """Raises unless a worker returned the requested records."""
      if not isinstance(records, list | tuple) or not all(
        isinstance(record, Record) for record in records
      ):
        raise executors_lib.WorkerError(
          f'expected records from the worker, got {records!r:.80}'
        )
      found = [(r.key, len(r.validation_loss)) for r in records]
      keys = [self._key(request, recipe) for request in job['requests']]
      if found != [(key, recipe.epochs) for key in keys]:
        raise executors_lib.WorkerError(
          'the worker returned records of other children than requested'
        )

    retries, limit = self.workers.retries, self.workers.time_limit
    note = f' (time limit: {limit:g} seconds)' if limit else ''
    num_jobs, failures = 0, []
    for outcomes in executors_lib.run_all(
      self.executor, jobs_lib.run, jobs(), check, retries
    ):
      records: list[Record] = []
      for job, outcome in outcomes:
        if isinstance(outcome, Exception):
          reason = f'{type(outcome).__name__}: {outcome}{note}'
          failures.append((job['requests'], reason))
        else:
          records += outcome
      num_jobs += len(outcomes)
      yield records
    for failed, reason in failures:
      for request in failed:
        self.store.put_failure(self._key(request, recipe), reason)
    if failures:
      ((network, seed), *_), reason = failures[0]
      name = ' + '.join(self.space.names(network)) or 'no symmetry'
      raise executors_lib.WorkerError(
        f'{len(failures)} of {num_jobs} jobs failed {retries + 1} times each;'
        f' the first, of {name} with seed {seed}:'
        f' {textwrap.shorten(reason, _REASON)}; all other children are kept:'
        ' run it again to retry'
      )

  @functools.cached_property
  def data_file(self) -> str:
    """The file from which workers read the data set."""
    return jobs_lib.write_data(self.data, self.folder)


def start(
  evaluate: Evaluate, requests: Sequence[Request]
) -> Callable[[], list[Record]]:
  """As `Evaluator.start`; other functions are evaluated before it returns."""
  if isinstance(evaluate, Evaluator):
    return evaluate.start(requests)
  records = evaluate(requests, None)
  return lambda: records


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
    scaling: Applied to all images; by default the recipe's.
    measure_test: Whether to measure test accuracy after every epoch.
    few: Test images whose accuracy is also measured apart. bool [N]
    **options: Fields of `Evaluator`.
  """
  recipe: recipe_lib.Recipe = options['recipe']
  scaling = scaling or scaling_of(data.train.images, recipe.scaling)
  check_batch(data, recipe)
  splits = [data.train, data.validation]
  if measure_test:
    splits.append(data.test)
  examples: list[Any] = [
    child_lib.Examples(
      jnp.asarray(scaling(split.images)), jnp.asarray(split.labels)
    )
    for split in splits
  ]
  black = min(0, data.train.images.min())  # less than 0 if pixels are
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
  """Raises a `ValueError` if there are too few training images for a batch."""
  if len(data.train) < recipe.batch_size:
    raise ValueError(
      f'{len(data.train)} training images are fewer than a batch of'
      f' {recipe.batch_size}; give more images, or a smaller batch_size (of the'
      ' recipe, or as a flag)'
    )


@contextlib.contextmanager
def progress_bar(
  what: str, total: int | None, *also: Callable[[Sequence[Record]], None] | None
) -> Iterator[Callable[[Sequence[Record]], None]]:
  """Shows a progress bar of children on a terminal; silent elsewhere.

  Yields an `on_trained` that counts children and calls `also`.
  """
  best = 0.0
  with tqdm.tqdm(total=total, desc=what, unit='child', disable=None) as bar:
    bar.set_postfix_str('compiling')

    def on_trained(records: Sequence[Record]) -> None:
      nonlocal best
      best = max(best, *(max(r.validation_accuracy) for r in records))
      bar.set_postfix_str(f'best {100 * best:.1f} %', refresh=False)
      bar.update(len(records))
      for function in filter(None, also):
        function(records)

    yield on_trained
