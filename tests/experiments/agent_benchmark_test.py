import csv
import types

from absl.testing import flagsaver
import pytest

from aen.search import agent as agent_lib
from aen.search import strategies
from tests import launchers


@pytest.fixture(scope='module')
def benchmark():
  return launchers.load('agent_benchmark')


@pytest.mark.slow
def test_a_small_run_times_everything(benchmark, tmp_path, capsys, monkeypatch):
  small = agent_lib.DQNConfig(num_bits=3, hidden_sizes=(4,), batch_size=8)
  monkeypatch.setattr(benchmark.agent_lib, 'DQNConfig', lambda: small)
  monkeypatch.setattr(benchmark, 'ROUNDS', {'random': 20, 'local': 20})
  few = types.SimpleNamespace(steps=20, repeats=1, seeds=2)
  monkeypatch.setattr(benchmark, '_FLAGS', few)
  with flagsaver.flagsaver(out=str(tmp_path)):
    benchmark.main([])
  assert 'times its bare updates' in capsys.readouterr().out
  with open(tmp_path / 'agent.csv') as file:
    rows = {row['what']: row for row in csv.DictReader(file)}
  assert set(rows) == {'dqn', 'random', 'local'}
  assert (rows['dqn']['steps'], rows['dqn']['updates']) == ('20', '13')
  ratio = float(rows['dqn']['seconds']) / float(rows['dqn']['bare_seconds'])
  assert float(rows['dqn']['ratio']) == pytest.approx(ratio)


def test_every_strategy_is_timed(benchmark):
  assert {'dqn', *benchmark.ROUNDS} == set(strategies.STRATEGIES)
