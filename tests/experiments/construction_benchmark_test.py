import csv

from absl.testing import flagsaver
import numpy as np
import pytest

from tests import launchers


@pytest.fixture(scope='module')
def benchmark():
  return launchers.load('construction_benchmark')


def read(path):
  with open(path) as file:
    return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_small_run_writes_its_table_and_figure(benchmark, tmp_path, capsys):
  with flagsaver.flagsaver(
    out=str(tmp_path),
    families=['single', 'product'],
    max_points=1000,
    repeats=1,
    quick=True,
  ):
    benchmark.main([])
  rows = read(tmp_path / 'construction.csv')
  assert {row['family'] for row in rows} == {'single', 'product'}
  assert {row['num_points'] for row in rows} == {'1000'}
  assert {row['group_order'] for row in rows} == {'2', '10', '100', '1000'}
  assert all(float(row['aen_seconds']) > 0 for row in rows)
  assert (tmp_path / 'construction.png').stat().st_size > 10_000
  assert (
    '4096 states of 784→400→400 are 216 networks' in capsys.readouterr().out
  )


def test_long_runs_are_predicted_and_not_run(benchmark):
  watch = benchmark.Stopwatch(limit=1.0, repeats=1)
  timing, result = watch.run('alg1', 10**9, 1, lambda: pytest.fail('it ran'))
  assert not timing.measured
  assert timing.seconds > 1.0
  assert result is None
  timing, result = watch.run('alg1', 1, 10**12, lambda: pytest.fail('it ran'))
  assert not timing.measured


def test_the_fastest_run_counts_and_its_result_is_returned(benchmark):
  watch = benchmark.Stopwatch(limit=1.0, repeats=2)
  timing, result = watch.run('aen', 0, 0, lambda: np.arange(3))
  assert timing.measured
  assert timing.seconds > 0
  np.testing.assert_array_equal(result, [0, 1, 2])


def test_disagreement_is_noticed(benchmark):
  case = benchmark._shifts('single', (10, 100), 1)
  labels = benchmark.aen.orbits(case.generators, 1000)
  benchmark._check(labels, labels)
  with pytest.raises(AssertionError, match='disagree'):
    benchmark._check(labels + 1, labels)


def test_beside_scipy_has_a_row_for_each_symmetry_and_all(benchmark):
  rows = list(benchmark.beside_scipy([(4, 2)], repeats=1))
  assert {row['layer'] for row in rows} == {'16×4'}
  assert [row['case'] for row in rows] == [
    *benchmark.PAPER_SYMMETRIES,
    'all twelve',
  ]
  for row in rows:
    assert row['aen / scipy'] == pytest.approx(row['aen_ms'] / row['scipy_ms'])
    assert bool(row['dense_sharing / aen']) == (row['case'] == 'all twelve')
