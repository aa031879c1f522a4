"""The benchmark of executors, on few children that take no time."""

from absl.testing import flagsaver
import pytest

from tests import launchers


@pytest.mark.slow
def test_it_measures_and_simulates(tmp_path, capsys):
  launcher = launchers.load('executor_benchmark')
  flags = {
    'out': str(tmp_path),
    'jobs': 4,
    'children': 40,
    'seconds': 0.02,
    'simulated': [1, 4],
  }
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  assert 'processes' in capsys.readouterr().out
  lines = (tmp_path / 'simulation.csv').read_text().splitlines()
  assert [line.split(',')[:2] for line in lines[1:]] == [
    *(['1', '10'], ['4', '40'], ['no limit', '8'])
  ]
  for line in lines[1:3]:
    assert float(line.split(',')[-1]) <= 100.01  # no more than all workers
  assert (tmp_path / 'scaling.png').stat().st_size > 10_000


def test_simulated_workers_take_their_time(tmp_path):
  launcher = launchers.load('executor_benchmark')
  executor = launcher.fake_children.Simulated(3, 0.05)
  with launcher.evaluated(executor) as (evaluate, times):
    records = evaluate(launcher.requests(7))
  assert [record.key.seed for record in records] == [0] * 7
  starts = sorted(record.origin.started for record in records)
  ends = sorted(record.origin.finished for record in records)
  assert len(times) == 7
  assert all(stored >= finished for finished, stored in times)
  # The fourth starts when the first has finished, and so on.
  assert all(s >= e - 1e-6 for s, e in zip(starts[3:], ends, strict=False))
