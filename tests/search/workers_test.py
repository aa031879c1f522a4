"""A search gives the same bytes wherever it trains, and whoever is killed."""

import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from aen.train import executors
from tests.search import workers_driver

ROOT = pathlib.Path(__file__).parents[2]
HEAD = 'AEN_TEST_HEAD'


def needs(package):
  missing = importlib.util.find_spec(package) is None
  return pytest.mark.skipif(missing, reason=f'{package} is not installed')


def dask(tmp_path):
  from dask import distributed

  cluster = distributed.LocalCluster(
    n_workers=2, threads_per_worker=1, dashboard_address=None
  )
  return distributed.Client(cluster)


def submitit(tmp_path):
  import submitit

  local = submitit.LocalExecutor(folder=tmp_path / 'logs')
  local.update_parameters(timeout_min=30)
  return executors.Workers(local, children_per_job=5)


def ours(name, workers, _):
  return executors.Workers(name, workers)


EXECUTORS = [
  pytest.param(functools.partial(ours, 'processes', 1), id='1 process'),
  pytest.param(functools.partial(ours, 'processes', 2), id='2 processes'),
  pytest.param(functools.partial(ours, 'processes', 4), id='4 processes'),
  pytest.param(functools.partial(ours, 'ray', 2), id='ray', marks=needs('ray')),
  pytest.param(dask, id='dask', marks=needs('distributed')),
  pytest.param(submitit, id='submitit', marks=needs('submitit')),
]


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  directory = tmp_path_factory.mktemp('workers') / 'whole'
  workers_driver.search(directory, None, 'local')
  return directory


@pytest.mark.slow
@pytest.mark.parametrize('make', EXECUTORS)
def test_every_executor_gives_the_same_bytes(tmp_path, whole, make):
  executor = make(tmp_path)
  run_dir = whole.parent / tmp_path.name
  workers_driver.search(run_dir, executor, 'local')
  for name in workers_driver.FILES:
    assert (run_dir / name).read_bytes() == (whole / name).read_bytes()
  found = workers_driver.children(run_dir)
  assert found.keys() == workers_driver.children(whole).keys()
  origins = [json.loads(origin) for origin in found.values()]
  head = f'{os.uname().nodename}:{os.getpid()}'
  assert head not in {origin['worker'] for origin in origins}
  assert not (run_dir / 'jobs').exists()
  if hasattr(executor, 'close'):
    executor.close()


@pytest.mark.slow
@pytest.mark.parametrize(
  'name', ['processes', pytest.param('ray', marks=needs('ray'))]
)
def test_a_search_survives_the_death_of_workers_and_head(tmp_path, name):
  run = subprocess.run(
    [sys.executable, '-m', workers_driver.__name__, tmp_path, name, '3', '2'],
    cwd=ROOT,
    env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 0, run.stderr[-2000:]
  found = json.loads(run.stdout.splitlines()[-1])
  assert (found['killed'], found['heads']) == (3, 2)
  assert (found['same'], found['lost']) == (True, 0)


def hanging(array):
  """A symmetry on which workers hang until there is a certain file."""
  head, _, path = os.environ[HEAD].partition(':')
  if int(head) != os.getpid() and not os.path.exists(path):
    pathlib.Path(path).touch()
    time.sleep(1e6)
  return array[::-1]


@pytest.mark.slow
def test_a_worker_that_hangs_is_ended(tmp_path, monkeypatch):
  hung = tmp_path / 'hung'
  monkeypatch.setenv(HEAD, f'{os.getpid()}:{hung}')
  monkeypatch.setattr(workers_driver, 'SYMMETRIES', [hanging])
  workers = executors.Workers('processes', 1, time_limit=60, retries=20)
  result = workers_driver.search(tmp_path / 'run', workers)
  assert hung.exists()
  assert {entry.name for entry in result.ranking} == {'no symmetry', 'hanging'}
