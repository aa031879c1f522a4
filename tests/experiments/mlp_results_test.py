"""Statistics of the reproduction, on numbers whose answer is known."""

import numpy as np
import pytest

from aen.search import tables
from experiments import mlp_figures
from experiments import mlp_results
from experiments import published_mlp


def lines(dataset, role, symmetries, published, honest, validation):
  return [
    published_mlp.Line(
      role,
      tables.Judged(dataset, symmetries, seed, 7, *accuracies, seconds=1.5),
    )
    for seed, accuracies in enumerate(
      zip(published, honest, validation, strict=True)
    )
  ]


def test_lines_are_read_as_they_were_written(tmp_path):
  written = lines('a/b', 'search 1', 'rotation', [0.1], [1 / 3], [0.25])
  published_mlp.write(tmp_path / 'x.csv', written)
  assert published_mlp.read(tmp_path / 'x.csv') == written
  assert published_mlp.read(tmp_path / 'nothing.csv') == []


def test_seeds_are_gathered_into_networks():
  (network,) = mlp_results.networks(
    lines('a', 'plain', '', [0.5, 0.7], [0.4, 0.4], [0.1, 0.3])
  )
  assert network.weights == 7
  assert network.num_seeds == 2
  assert network.published.mean == pytest.approx(60)
  assert network.published.spread == pytest.approx(200**0.5)
  assert network.published.standard_error == pytest.approx(10)
  assert str(network.honest) == '40.0 ± 0.0'


@pytest.mark.parametrize('base', published_mlp.BASES)
def test_the_papers_own_table_differs_by_nothing_from_itself(base):
  configs = published_mlp.SINGLE
  paper = published_mlp.table(base, configs)
  made = [
    line
    for config, row in zip(configs, paper, strict=True)
    for names, value in zip(published_mlp.NETWORKS, row, strict=True)
    for line in lines(
      f'{base}/{config}',
      ' '.join(names),
      ' '.join(names),
      [value / 100],
      [0],
      [0],
    )
  ]
  ours = mlp_results.grid(made, base, configs)
  np.testing.assert_allclose(ours, paper)
  assert 'difference from the paper 0.00 points' in mlp_results.compare(
    ours, paper
  )
  words = mlp_results.diagonals(ours, paper)
  assert words.count('p = 0.0') == 2  # but not with the columns as printed
  assert mlp_figures.tables(base, configs, ours).axes


def test_each_protocol_chooses_by_its_own_numbers():
  data = 'g_mnist/aug5'
  searched = [
    *lines(data, 'search 1', 'rotation', [0.6], [0.5], [0.7]),
    *lines(data, 'search 2', 'vertical_flip', [0.7], [0.4], [0.6]),
    *lines(data, 'best', 'horizontal_flip', [0.9], [0.9], [0.9]),
  ]
  singles = [
    *lines(data, 'plain', '', [0.9], [0.1], [0.2]),
    *lines(data, 'rotation', 'rotation', [0.6], [0.5], [0.3]),
  ]
  better = [
    *lines(data, 'plain, our recipe', '', [0.99], [0.9], [0.9]),
    *lines(data, 'search 1, fan-in', 'rotation', [0.99], [0.9], [0.9]),
    *lines(data, 'search 1, our recipe', 'rotation', [0.8], [0.5], [0.7]),
    *lines(data, 'search 2, our recipe', 'rotation', [0.7], [0.9], [0.9]),
  ]
  assert mlp_results.found(singles, searched)[0].better is None
  (row,) = mlp_results.found(singles, searched, better)
  assert row.better.role == 'search 1, our recipe'
  assert row.paper == 69.4
  assert row.published.role == 'search 2'
  assert row.honest.role == 'search 1'
  assert row.single.role == 'rotation'


def test_the_paired_interval_is_students():
  mean, half = mlp_results.paired([1.0, 2.0, 3.0])
  assert mean == 2
  assert half == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
