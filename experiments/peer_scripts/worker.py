"""What the scripts of all peers share: tasks on demand, timed.

A script runs in the environment of its library, without `aen`. Each line on
standard input names a task; the answer, one line of JSON, holds the processor
time of the task and of the whole process, in seconds, and the peak memory in
MiB. The first time that a task runs includes what it has to prepare.
"""

import contextlib
import json
import pathlib
import re
import sys
import time

SIDES = 28, 20, 20  # of the grids of the MLP, before its 10 classes
BATCH = 64
STEPS = 250  # of a child: 4000 images, 4 epochs
CNN = dict(group='D4', shape=(28, 28, 1), batch=32, channels=3, dense=106)
SMALL = 7  # side of the grids of emlp's MLP


def serve(version, tasks):
  """Answers tasks, a dict of functions; first the versions, once imported."""
  answers = sys.stdout
  about = {'version': version, 'tasks': sorted(tasks), **usage()}
  print(json.dumps(about), file=answers, flush=True)
  for line in sys.stdin:
    start = time.process_time()
    with contextlib.redirect_stdout(sys.stderr):
      tasks[line.strip()]()
    seconds = time.process_time() - start
    answer = {'seconds': seconds, **usage()}
    print(json.dumps(answer), file=answers, flush=True)


def usage():
  """Returns the processor time and the peak memory of this process."""
  status = pathlib.Path('/proc/self/status').read_text()
  peak = int(re.search(r'VmHWM:\s*(\d+)', status)[1]) / 1024
  return {'total': time.process_time(), 'peak': peak}
