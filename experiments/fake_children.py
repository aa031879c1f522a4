"""Children that are not trained at all, to measure everything else."""

from collections.abc import Callable
from concurrent import futures
import functools
import heapq
import pickle
import threading
import time
from typing import Any

from flax import linen as nn
import jax.numpy as jnp
import numpy as np

from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib


class Space:
  """Networks without a program."""

  factory = f'{__name__}:Space'
  symmetries = ()

  def spec(self) -> dict[str, Any]:
    """Returns nothing: there is nothing to describe."""
    return {}

  def key(self, network: int) -> str:
    """Returns a key as long as a real one."""
    return f'{network:064}'

  def program(self, network: int) -> nn.Module:
    """Returns the same for all."""
    del network
    return nn.Dense(1)

  def names(self, network: int) -> tuple[str, ...]:
    """Returns some name."""
    return (str(network),)


def evaluator(
  executor: Any,
  store: store_lib.Results,
  folder: str,
  on_trained: Callable[[Any], None] = lambda records: None,
) -> evaluate_lib.Evaluator:
  """Returns an evaluator of such networks."""
  space: Any = Space()
  nothing = child_lib.Examples(jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32))
  return evaluate_lib.Evaluator(
    space=space,
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
  now, space = time.time(), Space()
  recipe = _recipe_key(**job['recipe'])
  return [
    store_lib.Record(
      *_curves(job['recipe']['epochs']),
      key=store_lib.ChildKey(
        space.key(network), job['fingerprint'], recipe, seed
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


class Instead:
  """An executor whose workers do not train."""

  def __init__(self, executor: Any) -> None:
    """Wraps an executor."""
    self._executor = executor

  def submit(self, _: Any, job: executors.Job, /) -> Any:
    """Runs `train` in place of the real function."""
    return self._executor.submit(train, job)


class Simulated:
  """Workers that take a given time for a job, all simulated by one thread.

  Jobs and records are pickled and unpickled, as they would be on their way.
  """

  def __init__(self, workers: int, seconds: float) -> None:
    """Starts that thread.

    Args:
      workers: How many to simulate.
      seconds: How long a job takes.
    """
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
