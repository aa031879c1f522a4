"""What the scripts of all peers share: tasks on demand, timed.

A script runs in the environment of its library, without `aen`. Each line on
standard input names a task; the answer, one line of JSON, holds the processor
time of the task and of the whole process, in seconds, and the peak memory in
MiB. A task's first run includes its preparation. `serve` is the script's side,
`Worker` that of the calling process.
"""

import contextlib
import functools
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SIDES = 28, 20, 20  # of the grids of the MLP, before its 10 classes
BATCH = 64
STEPS = 250  # of a child: 4000 images, 4 epochs
CNN = dict(group='D4', shape=(28, 28, 1), batch=32, channels=3, dense=106)
SMALL = 7  # side of the grids of emlp's MLP
_SCRIPTS = pathlib.Path(__file__).parent
_LIMIT = 600.0  # seconds; a process that takes longer to answer is killed


def serve(version, tasks):
  """Prints the version, then runs tasks, a dict of functions, on demand."""
  answers = sys.stdout
  about = {'version': version, 'tasks': sorted(tasks), **usage()}
  print(json.dumps(about), file=answers, flush=True)
  for line in sys.stdin:
    start = time.process_time()
    with contextlib.redirect_stdout(sys.stderr):
      tasks[line.strip()]()
    answer = {'seconds': time.process_time() - start, **usage()}
    print(json.dumps(answer), file=answers, flush=True)


def prepared(make):
  """Returns a task that is made on its first run."""
  made = functools.cache(make)
  return lambda: made()()


def usage():
  """Returns the processor time and the peak memory of this process."""
  # getrusage would include the peak memory of the parent process.
  status, peak = pathlib.Path('/proc/self/status'), math.nan
  if status.exists():
    peak = int(re.search(r'VmHWM:\s*(\d+)', status.read_text())[1]) / 1024
  return {'total': time.process_time(), 'peak': peak}


class Failed(ValueError):
  """A library cannot be imported, or its process has ended."""


class Worker(contextlib.AbstractContextManager):
  """A process that runs the tasks of a script in the Python of a library."""

  def __init__(self, python, script, spec, path=''):
    """Starts a script with the argument `spec` and `path` as PYTHONPATH."""
    self._errors = tempfile.TemporaryFile('w+')  # noqa: SIM115, see __exit__
    self._process = subprocess.Popen(
      [python, str(_SCRIPTS / f'with_{script}.py'), json.dumps(spec)],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._errors,
      text=True,
      env={**os.environ, 'PYTHONPATH': path},
    )
    self.about = self._answer()

  def __exit__(self, *_):
    """Ends the process."""
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()
    self._process.wait()
    self._errors.close()

  def run(self, task):
    """Runs a task; returns seconds, total seconds and peak memory."""
    try:
      self._process.stdin.write(f'{task}\n')
      self._process.stdin.flush()
    except BrokenPipeError:
      raise Failed('ended in an earlier task') from None
    return self._answer()

  def fastest(self, task, seconds):
    """Repeats a task for some seconds; returns the shortest time."""
    times = [self.run(task)['seconds']]
    while sum(times) < seconds:
      times.append(self.run(task)['seconds'])
    return min(times)

  def cpu_time(self):
    """Returns the processor time of both processes, in seconds."""
    return time.process_time() + self._used

  def _answer(self):
    timer = threading.Timer(_LIMIT, self._process.kill)
    timer.start()
    line = self._process.stdout.readline()
    timer.cancel()
    if line:
      answer = json.loads(line)
      self._used = answer.get('total', 0.0)
      return answer
    if self._process.wait() == -signal.SIGKILL:
      raise Failed(f'ended: no answer within {_LIMIT:.0f} s, or no memory')
    self._errors.seek(0)
    raise Failed(f'failed: {last_line(self._errors.read())}')


def last_line(text):
  """Returns the last line that is not empty, short enough for a table."""
  lines = [line for line in text.splitlines() if line.strip()] or ['no message']
  return lines[-1].replace('|', '/')[:120]
