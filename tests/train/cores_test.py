"""The numbers of workers do not depend on the cores."""

import os
import pathlib
import subprocess
import sys

import pytest

from aen.train import executors

ROOT = pathlib.Path(__file__).parents[2]


def trained(executor, cores):
  environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
  run = subprocess.run(
    [sys.executable, '-m', 'tests.train.cores_driver', executor, cores],
    cwd=ROOT,
    env=environment,
    capture_output=True,
    text=True,
    check=True,
  )
  return run.stdout


@pytest.mark.slow
def test_the_same_bits_on_one_core_and_in_workers_on_two():
  """An MLP and a group CNN, whose convolutions XLA would divide."""
  cores = sorted(os.sched_getaffinity(0))
  if len(cores) < 2:
    pytest.skip('needs two cores')
  both = f'{cores[0]},{cores[1]}'
  one_core = trained('local', str(cores[0]))
  assert one_core.split()[1:] == ['1']  # one thread
  assert trained('processes', both) == one_core


def test_the_environment_of_one_thread_and_of_several(monkeypatch):
  flags = '--xla_a=1 --xla_cpu_multi_thread_eigen=true'
  single = '--xla_a=1 --xla_cpu_multi_thread_eigen=false'
  for given in (flags, single):
    monkeypatch.setenv('XLA_FLAGS', given)
    one = executors.thread_environment()
    assert one == {'XLA_FLAGS': single, 'PJRT_NPROC': '1'}
    several = executors.thread_environment(3)
    assert several == {'XLA_FLAGS': '--xla_a=1', 'PJRT_NPROC': '3'}


def test_the_number_of_threads(monkeypatch):
  for threads in (1, 3):
    for name, value in executors.thread_environment(threads).items():
      monkeypatch.setenv(name, value)
    assert executors.num_threads() == threads
  monkeypatch.delenv('PJRT_NPROC')
  monkeypatch.delenv('NPROC', raising=False)
  assert executors.num_threads() == executors.num_cores()
