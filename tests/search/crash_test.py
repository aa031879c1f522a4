"""A search that is killed at any moment resumes, to the same bytes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
  ('case', 'kills'), [('exhaustive', 13), ('dqn', 13), ('gcnn', 1)]
)
def test_a_search_survives_being_killed(tmp_path, case, kills):
  run = subprocess.run(
    [sys.executable, '-m', 'tests.search.crash_driver', str(tmp_path), case],
    cwd=ROOT,
    env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 0, run.stderr[-2000:]
  found = json.loads(run.stdout.splitlines()[-1])
  assert found['same'] == [True] * 3
  assert found['killed'] == kills
