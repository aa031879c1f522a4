"""Runs small searches whose workers, or whose head, are killed at random.

A process of its own:
  python -m tests.search.workers_driver DIRECTORY EXECUTOR WORKERS HEADS
kills WORKERS workers by SIGKILL, each at a random moment of some search, then
HEADS heads, and prints what became of it.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import jax

from aen.data import load as load_lib
from aen.search import explore as explore_lib
from aen.search import mlp_space
from aen.search import search as search_lib
from aen.train import executors
from aen.train import store as store_lib
from tests.search import search_test

SYMMETRIES = ('rotation', 'horizontal_flip', 'vertical_flip')
FILES = ('ranking.csv', 'trace.csv', 'result.json')
RETRIES = 50  # more than a job can have bad luck
KILLED = -signal.SIGKILL
os.environ.setdefault('RAY_worker_niceness', '0')  # on a busy machine


def search(run_dir, executor, strategy='exhaustive'):
  """Searches, in this process or with two workers."""
  use_cache(run_dir.parent)
  data = load_lib.from_arrays(*search_test.flipped_images())
  space = mlp_space.mlp_space(data.image_shape, data.num_classes, SYMMETRIES)
  config = explore_lib.SearchConfig(
    **search_test.OPTIONS, num_seeds=2, strategy=strategy
  )
  if executor in ('processes', 'ray'):
    executor = executors.Workers(executor, 2, retries=RETRIES)
  return search_lib.search(data, space, config, run_dir, executor=executor)


def use_cache(directory):
  jax.config.update('jax_compilation_cache_dir', str(directory / 'xla'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)


def worker_pids(executor):
  """Returns the ids of the workers that this process has started."""
  if isinstance(executor, executors.Processes):
    return executor.pids()
  parents, names = {}, {}
  for folder in pathlib.Path('/proc').glob('[0-9]*'):
    try:
      names[int(folder.name)] = (folder / 'cmdline').read_bytes()
      status = (folder / 'stat').read_text().rpartition(')')[2].split()
      parents[int(folder.name)] = int(status[1])
    except OSError:  # it has just ended
      continue

  def ours(pid):
    return pid == os.getpid() or (pid in parents and ours(parents[pid]))

  is_worker = (b'ray::_with_data', b'ray::IDLE')  # not Ray's own agents
  return [p for p, n in names.items() if n.startswith(is_worker) and ours(p)]


def kill_workers(directory, name, kills, rng, pause):
  """Searches until enough workers were killed; returns the run directories.

  The time between two kills is `pause` seconds on average.
  """
  runs, killed = [], 0

  def killer():
    nonlocal killed
    while not over.wait(rng.uniform(0, 2 * pause)):
      if killed < kills and (pids := worker_pids(executor)):
        try:
          os.kill(rng.choice(pids), signal.SIGKILL)
          killed += 1
        except ProcessLookupError:
          continue

  while killed < kills:
    runs.append(directory / f'{name}_{len(runs)}')
    with executors.EXECUTORS[name](2) as executor:
      over = threading.Event()
      thread = threading.Thread(target=killer)
      thread.start()
      try:
        search(runs[-1], executors.Workers(executor, retries=RETRIES))
      finally:
        over.set()
        thread.join()
    print(f'{killed} workers killed in {len(runs)} searches', flush=True)
  return runs, killed


def kill_heads(directory, name, kills, rng):
  """Starts one search again and again, killed each time, until it is done.

  A head is killed when it has stored up to five children more, so that every
  part of a search has its turn.
  """
  runs, killed = [directory / f'{name}_head_0'], 0
  while True:
    run_dir, known = runs[-1], children(runs[-1])
    command = [sys.executable, '-m', __spec__.name, 'head', run_dir, name]
    head = subprocess.Popen([str(word) for word in command])
    more = rng.randint(0, 5) if killed < kills else sys.maxsize
    if not more:
      time.sleep(rng.uniform(0, 20))  # it may not have begun
    while head.poll() is None and len(children(run_dir)) < len(known) + more:
      time.sleep(rng.uniform(0.05, 0.5))
    head.kill()
    # What was known has not been trained again.
    assert known.items() <= children(run_dir).items()
    if head.wait() == KILLED:
      killed += 1
      found = len(children(run_dir))
      print(f'{killed} heads killed, {found} children', flush=True)
      continue
    assert head.returncode == 0, 'the search failed'
    if killed == kills:
      return runs, killed
    runs.append(directory / f'{name}_head_{len(runs)}')


def children(run_dir):
  """Returns when and where each stored child was trained."""
  path = run_dir / 'results.sqlite'
  try:
    with contextlib.closing(
      sqlite3.connect(f'file:{path}?mode=ro', uri=True)
    ) as store:
      rows = store.execute(
        'SELECT network, data, recipe, seed, origin FROM results'
      )
      return {row[:4]: row[4] for row in rows}
  except sqlite3.OperationalError:  # there is none yet
    return {}


def main(directory, name, workers, heads):
  rng = random.Random(0)
  whole = directory / 'whole'
  search(whole, None)
  start = time.perf_counter()
  search(directory / 'warm', name)
  seconds, stored = time.perf_counter() - start, []
  put = store_lib.Results.put

  def counting_put(store, records):
    records = list(records)
    stored.extend((store.path, record.key) for record in records)
    put(store, records)

  store_lib.Results.put = counting_put
  runs, killed = kill_workers(directory, name, workers, rng, seconds / 5)
  assert len(stored) == len(set(stored)), 'a child was stored twice'
  more, killed_heads = kill_heads(directory, name, heads, rng)
  same = [
    (run / file).read_bytes() == (whole / file).read_bytes()
    for run in (*runs, *more)
    for file in FILES
  ]
  lost = [
    children(run).keys() ^ children(whole).keys() for run in (*runs, *more)
  ]
  print(
    json.dumps(
      {
        'killed': killed,
        'heads': killed_heads,
        'runs': len(runs) + len(more),
        'same': all(same),
        'lost': sum(map(len, lost)),
        'seconds': round(time.perf_counter() - start),
      }
    )
  )


if __name__ == '__main__':
  if sys.argv[1] == 'head':
    search(pathlib.Path(sys.argv[2]), sys.argv[3])
  else:
    words = sys.argv[1:]
    main(pathlib.Path(words[0]), words[1], int(words[2]), int(words[3]))
