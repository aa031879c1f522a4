import csv

import pytest

from aen.search import agent as agent_lib
from aen.search import strategies
from tests import launchers


@pytest.fixture(scope='module')
def benchmark():
  return launchers.load('agent_benchmark')


@pytest.mark.slow
def test_a_small_run_times_everything(benchmark, tmp_path, capsys):
  benchmark.run(
    benchmark.Config(
      steps=20,
      repeats=1,
      seeds=2,
      out=tmp_path,
      agent=agent_lib.DQNConfig(num_bits=3, hidden_sizes=(4,), batch_size=8),
      others=('random', 'local'),
      rounds=20,
    )
  )
  assert 'times its bare updates' in capsys.readouterr().out
  with open(tmp_path / 'agent.csv') as file:
    rows = {row['what']: row for row in csv.DictReader(file)}
  assert set(rows) == {'dqn', 'random', 'local'}
  others = benchmark.Config(1, 1, 1, tmp_path).others
  assert {'dqn', *others} == set(strategies.STRATEGIES)
  assert (rows['dqn']['steps'], rows['dqn']['updates']) == ('20', '13')
  ratio = float(rows['dqn']['seconds']) / float(rows['dqn']['bare_seconds'])
  assert float(rows['dqn']['ratio']) == pytest.approx(ratio)
