"""Four processes on one run directory, some of them killed."""

import collections
import contextlib
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.torture import figures

ROOT = pathlib.Path(__file__).parents[2]
TRIALS, PROCESSES = 20, 4
FILES = ('ranking.csv', 'trace.csv', 'result.json')

pytestmark = pytest.mark.torture

# Forks before JAX starts, so that all begin at once; prints the children that
# each process trained, as keys of the store.
_WORKER = """
import sys, os
from aen.train import store as store_lib
from tests.search import search_test
run_dir, count, delays = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(',')
put = store_lib.Results.put
def telling_put(store, records):
  put(store, records)
  for record in records:
    line = f'{record.key.network} {record.key.seed} {record.key.data}\\n'
    os.write(1, line.encode())
store_lib.Results.put = telling_put
import time
pids = []
for i in range(count):
  pid = os.fork()
  if not pid:
    status = 1
    try:
      time.sleep(float(delays[i]))
      search_test.start(run_dir)
      status = 0
    finally:
      os._exit(status)
  pids.append(pid)
os.write(1, ('pids ' + ' '.join(map(str, pids)) + '\\n').encode())
statuses = [os.waitpid(pid, 0)[1] for pid in pids]
os.write(1, ('statuses ' + ' '.join(map(str, statuses)) + '\\n').encode())
"""


def run(run_dir, rng, kill_first=False):
  """Returns the exit statuses, how often children were trained, the bytes."""
  delays = [0, *(rng.choice([0, 0, 0.5, 2]) for _ in range(PROCESSES - 1))]
  process = subprocess.Popen(
    [
      *(sys.executable, '-c', _WORKER, str(run_dir), str(PROCESSES)),
      ','.join(map(str, delays)),
    ],
    cwd=ROOT,
    env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  if kill_first:
    pids = process.stdout.readline().split()[1:]
    time.sleep(rng.uniform(1, 6))
    with contextlib.suppress(ProcessLookupError):  # it was quicker
      os.kill(int(pids[0]), signal.SIGKILL)
  output, errors = process.communicate()
  *trained, statuses = output.splitlines()
  trained = [line for line in trained if not line.startswith('pids')]
  assert 'Traceback' not in errors, errors[-2000:]
  twice = [c for c, n in collections.Counter(trained).items() if n > 1]
  digests = [
    hashlib.sha256((run_dir / name).read_bytes()).hexdigest() for name in FILES
  ]
  return list(map(int, statuses.split()[1:])), len(trained), twice, digests


def test_four_processes_on_one_run_directory(tmp_path):
  rng, trials = random.Random(figures.SEED), figures.size(TRIALS)
  os.environ['JAX_COMPILATION_CACHE_DIR'] = str(tmp_path / 'xla')
  whole, ended = None, 0
  for trial in range(trials):
    statuses, trained, twice, digests = run(tmp_path / f'{trial}', rng)
    print(f'trial {trial}: {statuses}, {trained} children', flush=True)
    assert statuses == [0] * PROCESSES
    assert not twice
    whole = whole or (trained, digests)
    assert (trained, digests) == whole
    ended += len(statuses)
  figures.write(
    'summary',
    'four processes started on one run directory',
    f'{trials} trials',
    f'{ended} of {ended} ended with exit code 0 and the same bytes, each child'
    ' trained once',
  )


def test_the_next_process_takes_over_from_one_that_was_killed(tmp_path):
  rng, trials = random.Random(figures.SEED), figures.size(10)
  os.environ['JAX_COMPILATION_CACHE_DIR'] = str(tmp_path / 'xla')
  whole, killed = run(tmp_path / 'whole', rng)[-1], 0
  for trial in range(trials):
    statuses, _, twice, digests = run(tmp_path / f'{trial}', rng, True)
    print(f'trial {trial}: {statuses}', flush=True)
    assert statuses[1:] == [0] * (PROCESSES - 1)
    killed += statuses[0] != 0
    assert not twice
    assert digests == whole
  figures.write(
    'summary',
    'four processes, the first of them killed',
    f'{trials} trials, {killed} killed before the end',
    f'{3 * trials} of {3 * trials} ended with exit code 0 and the same bytes,'
    ' no child trained twice',
  )
