"""Children that are not trained at all, to measure everything else."""

from collections.abc import Callable
from concurrent import futures
import functools
import heapq
import pickle
import threading
import time
import types
from typing import Any

from flax import linen as nn
import jax.numpy as jnp
import numpy as np

from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

# Networks that all have one program, with keys as long as real ones.
_SPACE: Any = types.SimpleNamespace(
  factory='none',
  symmetries=(),
  spec=dict,
  key='{:064}'.format,
  program=lambda network: nn.Dense(1),
  names=lambda network: (str(network),),
)


def evaluator(
  executor: Any,
  store: store_lib.Results,
  folder: str,
  on_trained: Callable[[Any], None],
) -> evaluate_lib.Evaluator:
  """Returns an evaluator of such networks."""
  nothing = child_lib.Examples(jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32))
  return evaluate_lib.Evaluator(
    space=_SPACE,
    data=child_lib.ChildData(nothing, nothing),
    fingerprint='fake data',
    recipe=recipe_lib.Recipe(),
    store=store,
    on_trained=on_trained,
    executor=executor,
    workers=executors.Workers(executor),
    folder=folder,
  )


def train(job: executors.Job, read: Any = None) -> list[store_lib.Record]:
  """Returns records of a job at once, with numbers as long as real ones."""
  del read
  now = time.time()
  recipe = _recipe_key(**job['recipe'])
  return [
    store_lib.Record(
      *_curves(job['recipe']['epochs']),
      key=store_lib.ChildKey(
        _SPACE.key(network), job['fingerprint'], recipe, seed
      ),
      origin=store_lib.Origin('fake', '', 'fake', now, now, job['workers']),
    )
    for network, seed in job['requests']
  ]


@functools.cache
def _recipe_key(**fields: Any) -> str:
  return recipe_lib.recipe_key(recipe_lib.Recipe(**fields))


@functools.cache
def _curves(epochs: int) -> tuple[tuple[float, ...], ...]:
  curves = np.random.default_rng(0).random((3, epochs))
  return tuple(tuple(curve) for curve in curves.tolist())


def instead(executor: Any) -> Any:
  """Returns an executor that runs `train` in place of the real function."""
  return types.SimpleNamespace(
    submit=lambda _, job: executor.submit(train, job)
  )


class Simulated:
  """Workers that take a given time for a job, all simulated by one thread.

  Jobs and records are pickled and unpickled, as they would be on their way.
  """

  def __init__(self, workers: int, seconds: float) -> None:
    """Starts the thread; every job takes the given number of seconds."""
    self.workers = workers
    self._seconds = seconds
    self._free = [0.0] * workers  # when each worker is idle again
    self._jobs: list[tuple[float, int, bytes, futures.Future[Any]]] = []
    self._count = 0
    self._changed = threading.Condition()
    threading.Thread(target=self._deliver, daemon=True).start()

  def submit(self, _: Any, job: executors.Job, /) -> futures.Future[Any]:
    """Gives the job to the worker that is idle first."""
    future: futures.Future[Any] = futures.Future()
    message = pickle.dumps(job)
    with self._changed:
      end = max(time.time(), self._free[0]) + self._seconds
      heapq.heapreplace(self._free, end)
      self._count += 1
      heapq.heappush(self._jobs, (end, self._count, message, future))
      self._changed.notify()
    return future

  def _deliver(self) -> None:
    while True:
      with self._changed:
        while not self._jobs or self._jobs[0][0] > time.time():
          wait = self._jobs[0][0] - time.time() if self._jobs else None
          self._changed.wait(wait)
        end, _, message, future = heapq.heappop(self._jobs)
      job = pickle.loads(message)
      origin = store_lib.Origin(
        'fake', '', 'fake', end - self._seconds, end, self.workers
      )
      records = [record.replace(origin=origin) for record in train(job)]
      future.set_result(pickle.loads(pickle.dumps(records)))
