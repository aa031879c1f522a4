"""Runs one small search again and again, killed each time, until it is done.

A process of its own: `python -m tests.search.crash_driver DIRECTORY CASE`, with
`RANDOM CHOSEN SEED` for other numbers of kills. An attempt is a fork, made
before JAX has started any thread; SIGKILL ends it at a chosen moment.
"""

import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time
from typing import NamedTuple

import jax

from aen.search import result as result_lib
from aen.search import strategies
from aen.train import store as store_lib
from tests.search import search_test

AGENT = (('max_steps', 40), ('batch_size', 8), ('hidden_sizes', (16,)))
COMMITS = ('before', 'inside', 'after')


class Case(NamedTuple):
  """What to search and when to kill."""

  kind: str = 'mlp'
  changes: dict[str, object] = {}
  commits: tuple[str, ...] = COMMITS  # moments of the second one
  num_random: int = 10  # other moments


CASES = {
  **{name: Case(changes={'strategy': name}) for name in strategies.STRATEGIES},
  'dqn': Case(changes={'strategy': 'dqn', 'options': AGENT}),
  'gcnn': Case('gcnn', commits=('inside',), num_random=0),
}
TRIES = 30  # to be killed, before a moment is given up
FILES = ('ranking.csv', 'trace.csv', 'result.json')
STORED = store_lib.Results.put
TRANSACTION = store_lib.Results._transaction


def die():
  os.kill(os.getpid(), signal.SIGKILL)


def kill_at_commit(number, moment):
  """Dies before, inside or after the transaction of a batch."""
  batches = []

  def put(store, records):
    batches.append(records)
    last = len(batches) == number
    if last and moment == 'before':
      die()
    if last and moment == 'inside':
      store._transaction = lambda: dying_transaction(store)
    STORED(store, records)
    if last:
      die()

  store_lib.Results.put = put


@contextlib.contextmanager
def dying_transaction(store):
  with TRANSACTION(store):
    yield
    die()


def kill_at_call(owner, name, number, moment):
  """Dies before or after a call of a function."""
  real, calls = getattr(owner, name), []

  def dying(*args, **kwargs):
    calls.append(name)
    if len(calls) == number and moment == 'before':
      die()
    result = real(*args, **kwargs)
    if len(calls) == number:
      die()
    return result

  setattr(owner, name, dying)


# Every step of saving: files appear by `replace`, checkpoints by `rename`.
SAVING = [
  *itertools.product([kill_at_commit], (1, 2), COMMITS),
  *(
    (kill_at_call, owner, name, number, moment)
    for owner, name, numbers in (
      (os, 'replace', (1, 2, 3, 4)),
      (os, 'rename', (1, 2)),
      (result_lib, 'save_params', (1,)),
      (store_lib.Results, 'forget_params', (1,)),
      (store_lib.Results, 'close', (1,)),
    )
    for number in numbers
    for moment in ('before', 'after')
  ),
]


def kill_in_time(seconds):
  """Dies whatever it is doing."""
  timer = threading.Timer(seconds, die)
  timer.daemon = True
  timer.start()


def attempt(run_dir, case, sabotage=None):
  """Runs the search in a fork; returns whether it got through."""
  child = os.fork()
  if not child:
    status = 1
    try:
      if sabotage:
        sabotage[0](*sabotage[1:])
      search_and_check(run_dir, case)
      status = 0
    finally:
      os._exit(status)
  _, status = os.waitpid(child, 0)
  if os.WIFEXITED(status):
    assert os.WEXITSTATUS(status) == 0, 'the search failed'
    return True
  return False


def search_and_check(run_dir, case):
  """Searches; trains nothing that the store holds already."""
  path = run_dir / 'results.sqlite'
  known = set()
  if path.exists():
    with store_lib.Results(path) as store:
      known = set(store._run('SELECT network, data, recipe, seed FROM results'))
  put = store_lib.Results.put

  def checking_put(store, records):
    for record in records:
      key = record.key
      assert (key.network, key.data, key.recipe, key.seed) not in known
    put(store, records)

  store_lib.Results.put = checking_put
  search_test.start(run_dir, case.kind, **case.changes)


def main(directory, case, num_random=None, num_chosen=None, seed=0):
  """Kills at commits and at random moments, then lets it finish."""
  jax.config.update('jax_compilation_cache_dir', str(directory / 'xla'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
  whole, warm = directory / 'whole', directory / 'warm'
  assert attempt(whole, case)  # compiles
  start = time.perf_counter()
  assert attempt(warm, case)
  seconds = time.perf_counter() - start
  rng = random.Random(seed)
  chosen = [(kill_at_commit, 2, moment) for moment in case.commits]
  if num_chosen is not None:
    chosen = [SAVING[(seed + i) % len(SAVING)] for i in range(num_chosen)]
  moments = [lambda m=m: m for m in chosen]
  for _ in range(case.num_random if num_random is None else num_random):
    moments.append(lambda: (kill_in_time, rng.uniform(0.1, seconds)))
  rng.shuffle(moments)
  runs, killed = [directory / 'run_0'], 0
  for moment in moments:
    for _ in range(TRIES):
      if not attempt(runs[-1], case, moment()):
        killed += 1
        break
      runs.append(directory / f'run_{len(runs)}')  # it was through: a new one
  assert attempt(runs[-1], case)
  same = [
    all((whole / n).read_bytes() == (run / n).read_bytes() for run in runs)
    for n in FILES
  ]
  print(json.dumps({'killed': killed, 'runs': len(runs), 'same': same}))


if __name__ == '__main__':
  main(pathlib.Path(sys.argv[1]), CASES[sys.argv[2]], *map(int, sys.argv[3:]))
