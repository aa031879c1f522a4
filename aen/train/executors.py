"""Executors: where jobs run.

An executor is an object with `submit(function, job)` that returns an object
with `result()`, such as those of `concurrent.futures` and submitit and Dask's
`Client`. This module adds processes of this machine and an adapter for Ray.
"""

import collections
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
import contextlib
import dataclasses
import itertools
import logging
import multiprocessing
from multiprocessing import connection
import os
import pathlib
import queue
import shutil
import signal
import tempfile
import threading
from typing import Any
import warnings

import jax

from aen import io as io_lib

# JSON, see `aen.train.jobs`.
Job = Mapping[str, Any]
_MANY = 100  # assumed number of workers of a cluster
_AHEAD = 10_000  # jobs submitted at once


class WorkerError(OSError):
  """A job failed; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Workers:
  """Where children are trained, and what happens when a worker fails.

  Attributes:
    executor: Where children are trained: local (in this process, on all of its
      devices), processes (of this machine) or ray (a cluster).
    workers: The number of processes; by default one per core. For ray, the
      number of CPUs of the cluster that is started, if none is running.
    threads: Threads of XLA in each worker, on CPUs; by default 1, so that
      results do not depend on the number of cores. With more, the results of
      convolutions may depend on their number.
    retries: How often a job is repeated whose worker died, exceeded the time
      limit or returned invalid records.
    time_limit: Seconds after which a worker that has not finished its job is
      killed; no limit by default.
    children_per_job: Children that a worker trains before it returns them; by
      default one batch. Results do not depend on it.
  """

  executor: Any = 'local'
  workers: int | None = None
  threads: int | None = None
  retries: int = 3
  time_limit: float | None = None
  children_per_job: int | None = None

  def __post_init__(self) -> None:
    by_name = isinstance(self.executor, str) and self.executor in EXECUTORS
    if not by_name and not hasattr(self.executor, 'submit'):
      raise ValueError(
        f'executor must be one of {", ".join(EXECUTORS)} or have a method'
        f' submit(function, job), got {self.executor!r}'
      )
    for name in ('workers', 'threads', 'children_per_job'):
      if getattr(self, name) is not None:
        io_lib.positive(getattr(self, name), name)
    if self.retries < 0:
      raise ValueError(f'retries must be at least 0, got {self.retries!r}')
    if self.time_limit is not None and not self.time_limit > 0:
      raise ValueError(f'time_limit must be positive, got {self.time_limit!r}')
    if self.workers is not None and self.executor not in ('processes', 'ray'):
      raise ValueError(
        f'workers={self.workers} is for the executors processes and ray, got'
        f' executor={self.executor!r}; leave one of them out'
      )

  @property
  def count(self) -> int:
    """The number of workers; a guess for clusters, which may grow."""
    if self.executor == 'local':
      return 1
    own = self.executor == 'processes'
    return self.workers or (num_cores() if own else _MANY)

  @contextlib.contextmanager
  def started(
    self, run_dir: io_lib.PathLike | None = None
  ) -> Iterator[dict[str, Any]]:
    """Starts the executor, if it was given by name, and closes it afterwards.

    Yields fields of an `Evaluator`; none for the executor local. Workers read
    data sets from the run directory, by default a temporary one, which other
    machines do not see.
    """
    if self.executor == 'local':
      yield {}
      return
    with contextlib.ExitStack() as stack:
      executor = self.executor
      if isinstance(executor, str):
        executor = stack.enter_context(EXECUTORS[executor](self.workers))
      if run_dir is None:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='aen_'))
      else:
        folder = os.path.join(run_dir, 'jobs')
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
      yield {'executor': executor, 'workers': self, 'folder': folder}


def as_workers(executor: Any) -> Workers:
  """Converts None, a name or an executor to `Workers`."""
  if isinstance(executor, Workers):
    return executor
  return Workers('local' if executor is None else executor)


def num_cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):  # Linux
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


# Sums that XLA splits among threads depend on the number of threads.
_THREADS = '--xla_cpu_multi_thread_eigen='


def thread_environment(threads: int = 1) -> dict[str, str]:
  """Returns environment variables that limit XLA to a number of threads.

  They must be set before the first use of JAX. With one thread and one device,
  results do not depend on the number of cores.
  """
  flags = os.environ.get('XLA_FLAGS', '').split()
  kept = [flag for flag in flags if not flag.startswith(_THREADS)]
  single = [f'{_THREADS}false'] if threads == 1 else []
  # The code that XLA generates depends on the number of threads too.
  return {'XLA_FLAGS': ' '.join(kept + single), 'PJRT_NPROC': str(threads)}


def num_threads() -> int:
  """Returns the number of threads that XLA uses for a device on the CPU."""
  if f'{_THREADS}false' in os.environ.get('XLA_FLAGS', ''):
    return 1
  chosen = os.environ.get('PJRT_NPROC') or os.environ.get('NPROC')
  return int(chosen or num_cores())


def keep_compilations() -> None:
  """Enables JAX's compilation cache, unless the user has configured it.

  It is the folder `xla` in `io.cache_dir()`; programs that compile in less than
  0.05 s are not cached.
  """
  folder, setting = io_lib.cache_dir(), 'jax_compilation_cache_dir'
  if folder and getattr(jax.config, setting) is None:
    jax.config.update(setting, str(folder / 'xla'))
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.05)


def run_all(
  executor: Any,
  function: Callable[[Job], Any],
  jobs: Iterator[Job],
  check: Callable[[Job, Any], None],
  retries: int,
) -> Iterator[list[tuple[Job, Any]]]:
  """Runs jobs; yields them with their results, or errors, as they finish.

  The first list is empty; it is yielded when jobs have been submitted. A job
  that fails, or whose result does not pass the check, is submitted again, up to
  `retries` times. A `ValueError` would be the same everywhere, so it is raised
  at once.
  """
  numbers = itertools.count()
  pending: dict[int, tuple[Job, Any]] = {}  # jobs and their futures
  finished: queue.SimpleQueue[int] = queue.SimpleQueue()
  # Futures without callbacks, such as those of submitit, are awaited in order.
  silent: collections.deque[int] = collections.deque()

  def submit(job: Job, attempt: int) -> None:
    # The attempt makes jobs differ: for equal ones, Dask would return the error
    # of the first.
    job, number = {**job, 'attempt': attempt}, next(numbers)
    future = executor.submit(function, job)
    pending[number] = job, future
    if hasattr(future, 'add_done_callback'):
      future.add_done_callback(lambda _: finished.put(number))
    else:
      silent.append(number)

  done: list[tuple[Job, Any]] = []
  fatal = None
  try:
    while fatal is None:
      for job in itertools.islice(jobs, _AHEAD - len(pending)):
        submit(job, attempt=1)
      yield done
      done = []
      if not pending:
        break
      for _ in range(1 if silent else max(1, finished.qsize())):
        number = silent.popleft() if silent else finished.get()
        job, future = pending[number]
        try:
          result = future.result()
          check(job, result)
          done.append((job, result))
        except Exception as error:
          error = getattr(error, 'cause', None) or error  # Ray wraps it
          if isinstance(error, ValueError | futures.BrokenExecutor):
            fatal = error
          elif job['attempt'] <= retries:
            submit(job, job['attempt'] + 1)
          else:
            done.append((job, error))
        del pending[number]
    yield done
    if fatal is not None:
      raise fatal
  except futures.BrokenExecutor as error:
    raise WorkerError(
      f'a process of the executor died, so it accepts no more jobs ({error});'
      " use executor='processes', which replaces processes that die, or run it"
      ' again with a new executor: finished children are kept'
    ) from error
  finally:
    for _, future in pending.values():
      if hasattr(future, 'cancel'):
        future.cancel()


class Processes(contextlib.AbstractContextManager['Processes']):
  """Processes of this machine that keep their compiled programs between jobs.

  If a process dies, only its own job fails, and a new process replaces it. (A
  `ProcessPoolExecutor` would fail all jobs and accept no others.) Like all
  spawned processes they import the main module: a script must create them under
  `if __name__ == '__main__'`.
  """

  def __init__(self, workers: int | None = None) -> None:
    """Sets up processes, one per core by default; they start when needed."""
    self.workers = workers or num_cores()
    self._closed = False
    self._threads = futures.ThreadPoolExecutor(self.workers, 'aen-worker')
    # Processes and their pipes. The one that finished last gets the next job,
    # because it has compiled the most.
    self._idle: list[tuple[Any, connection.Connection]] = []
    self._started: set[Any] = set()

  def submit(
    self, function: Callable[[Any], Any], job: Any, /
  ) -> futures.Future[Any]:
    """Runs function(job) in the next process that is idle."""
    return self._threads.submit(self._run, function, job)

  def _run(self, function: Callable[[Any], Any], job: Any) -> Any:
    try:
      process, pipe = self._idle.pop()
    except IndexError:
      process, pipe = _start()
      self._started.add(process)
    try:
      if self._closed:
        raise EOFError
      pipe.send((function, job))
      succeeded, value = pipe.recv()
    except BaseException as error:
      self._started.discard(process)
      died = isinstance(error, EOFError | ConnectionError)
      code = _end(process, wait=1 if died else 0)
      if died:
        raise WorkerError(f'the worker died (exit code {code})') from error
      raise
    self._idle.append((process, pipe))
    if succeeded:
      return value
    raise value

  def pids(self) -> list[int]:
    """Returns the ids of the processes that have been started."""
    return [process.pid for process in list(self._started)]

  def close(self) -> None:
    """Kills all processes, even in the middle of a job."""
    self._closed = True
    self._threads.shutdown(wait=False, cancel_futures=True)
    for process in list(self._started):
      _end(process)
    self._threads.shutdown()

  def __exit__(self, *_: object) -> None:
    self.close()


def _start() -> tuple[Any, connection.Connection]:
  """Starts a process that runs one job at a time; returns it and its pipe."""
  context = multiprocessing.get_context('spawn')  # JAX has threads: no fork
  pipe, theirs = context.Pipe()
  process = context.Process(target=_serve, args=(theirs,), daemon=True)
  process.start()
  theirs.close()  # only the process keeps it open
  return process, pipe


def _end(process: Any, wait: float = 0) -> int:
  """Kills a process unless it ends within `wait` seconds; returns its code."""
  process.join(wait)
  process.kill()
  process.join()
  return process.exitcode


def _serve(pipe: connection.Connection) -> None:
  """Runs jobs until the head closes the pipe."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the head
  threading.Thread(target=_end_with_the_head, daemon=True).start()
  with contextlib.suppress(EOFError, ConnectionError):
    while True:
      function, job = pipe.recv()
      try:
        answer = True, function(job)
      except Exception as error:
        answer = False, error
      pipe.send(answer)


def _end_with_the_head() -> None:
  """Ends this process when its parent has been killed."""
  head = multiprocessing.parent_process()
  assert head is not None
  head.join()
  os._exit(1)


class Ray(contextlib.AbstractContextManager['Ray']):
  """Tasks of a Ray cluster.

  The data set is put into Ray's object store once, so every node gets one copy.
  Ray does not retry tasks; the evaluator does.
  """

  def __init__(self, workers: int | None = None, **resources: Any) -> None:
    """Connects to the cluster; starts one on this machine if there is none.

    A new cluster has `workers` CPUs, all by default. `resources` are what a job
    requires, options of `ray.remote` such as num_gpus=1; one CPU by default.
    """
    with io_lib.needed_for("executor='ray'", 'ray'):
      import ray
    self._ray = ray
    self._started_here = not ray.is_initialized()
    if self._started_here:
      with warnings.catch_warnings():  # it forks to start a program
        warnings.filterwarnings('ignore', 'os.fork', RuntimeWarning)
        ray.init(
          num_cpus=workers,
          include_dashboard=False,
          log_to_driver=False,
          logging_level=logging.ERROR,
        )
    self.workers = workers or int(ray.cluster_resources().get('CPU', 1))
    self._task = ray.remote(_with_data).options(max_retries=0, **resources)
    self._data: dict[str, Any] = {}  # references, by path

  def submit(
    self, function: Callable[..., Any], job: Job, /
  ) -> futures.Future[Any]:
    """Runs function(job) with the data set from the object store."""
    path = job['data']
    if path not in self._data:
      self._data[path] = self._ray.put(pathlib.Path(path).read_bytes())
    # In a list the reference is not resolved until it is needed.
    return self._task.remote(function, job, [self._data[path]]).future()

  def close(self) -> None:
    """Disconnects; shuts the cluster down if it was started here."""
    self._data.clear()
    if self._started_here:
      self._ray.shutdown()

  def __exit__(self, *_: object) -> None:
    self.close()


def _with_data(function: Callable[..., Any], job: Job, refs: list[Any]) -> Any:
  import ray

  return function(job, lambda: ray.get(refs[0]))


EXECUTORS: Mapping[str, Any] = {
  'local': None,
  'processes': Processes,
  'ray': Ray,
}
