"""Children that are not trained, to measure everything else."""

import collections
from concurrent import futures
import pickle
import queue
import threading
import time
import types
from typing import Any

from flax import linen as nn
import numpy as np

from aen.train import executors
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

# Networks that share one program, with keys as long as real ones.
SPACE: Any = types.SimpleNamespace(
  factory='none',
  symmetries=(),
  spec=dict,
  key='{:064}'.format,
  program=lambda network: nn.Dense(1),
  names=lambda network: (str(network),),
)
RECIPE = recipe_lib.Recipe()
_RECIPE_KEY = recipe_lib.recipe_key(RECIPE)
# Numbers as long as real ones.
_CURVES = np.random.default_rng(0).random((3, RECIPE.epochs)).tolist()


def train(job: executors.Job, read: Any = None) -> list[store_lib.Record]:
  """Returns a job's records at once; Ray also passes a reader of its data."""
  del read
  now = time.time()
  return _records(job, now, now, job['workers'])


def _records(
  job: executors.Job, started: float, finished: float, workers: int
) -> list[store_lib.Record]:
  origin = store_lib.Origin('fake', '', 'fake', started, finished, workers)
  keys = (
    store_lib.ChildKey(SPACE.key(n), job['fingerprint'], _RECIPE_KEY, seed)
    for n, seed in job['requests']
  )
  return [store_lib.Record(*_CURVES, key=key, origin=origin) for key in keys]


def instead(executor: Any) -> Any:
  """Returns an executor that runs `train` in place of the real function."""
  return types.SimpleNamespace(
    submit=lambda _, job: executor.submit(train, job)
  )


class Simulated:
  """Workers that take a fixed time per job, all simulated by one thread.

  Jobs and records are pickled and unpickled, as if sent to other processes.
  """

  def __init__(self, workers: int, seconds: float) -> None:
    """Starts the thread; every job takes `seconds`."""
    self._seconds = seconds
    # When each worker becomes idle. All jobs take equally long, so they end in
    # the order in which they start, and the first worker is idle first.
    self._idle = collections.deque([0.0] * workers, maxlen=workers)
    self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=self._deliver, daemon=True).start()

  def submit(self, _: Any, job: executors.Job, /) -> futures.Future[Any]:
    """Assigns the job to the worker that becomes idle first."""
    future: futures.Future[Any] = futures.Future()
    end = max(time.time(), self._idle[0]) + self._seconds
    self._idle.append(end)
    self._jobs.put((end, pickle.dumps(job), future))
    return future

  def _deliver(self) -> None:
    while True:
      end, message, future = self._jobs.get()
      if (wait := end - time.time()) > 0:  # sleep(0) would cost the head time
        time.sleep(wait)
      job, start = pickle.loads(message), end - self._seconds
      records = _records(job, start, end, len(self._idle))
      future.set_result(pickle.loads(pickle.dumps(records)))
