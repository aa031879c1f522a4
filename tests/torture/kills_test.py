"""Searches killed at random and at every step of saving."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.search import crash_driver
from tests.torture import figures

ROOT = pathlib.Path(__file__).parents[2]
RANDOM, CHOSEN = 100, 50

pytestmark = pytest.mark.torture


def test_killed_searches_end_with_the_same_bytes(tmp_path):
  known = crash_driver.strategies.STRATEGIES
  names = sorted(known, key=lambda name: name != 'dqn')  # remembers the most
  num_random, num_chosen = figures.size(RANDOM), figures.size(CHOSEN)
  names = names[: max(1, num_chosen // 3)]  # a whole run of each takes time
  killed = runs = 0
  os.environ['JAX_COMPILATION_CACHE_DIR'] = str(tmp_path / 'xla')
  for i, name in enumerate(names):
    share = [
      len(range(i, number, len(names))) for number in (num_random, num_chosen)
    ]
    seed = figures.SEED + 7 * i
    run = subprocess.run(
      [
        *(sys.executable, '-m', 'tests.search.crash_driver'),
        *(str(tmp_path / name), name, *map(str, (*share, seed))),
      ],
      cwd=ROOT,
      env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
      capture_output=True,
      text=True,
      check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    print(f'{name}: {sum(share)} kills, seed {seed}: {found}', flush=True)
    assert found['same'] == [True] * 3
    assert found['killed'] == sum(share)
    killed, runs = killed + found['killed'], runs + found['runs']
  figures.write(
    'summary',
    'searches killed (SIGKILL) and resumed',
    f'{killed} kills ({num_random} at random, {num_chosen} while saving),'
    f' {len(names)} strategies',
    f'{runs} of {runs} searches byte-identical, no child trained twice',
  )
