"""Statistics of the reproduction, on numbers whose answer is known."""

import numpy as np
import pytest

from experiments import figures
from experiments import published_mlp
from experiments import results
from experiments import rows as rows_lib


def rows(dataset, role, symmetries, published, validated, validation):
  return [
    {
      'role': role,
      'dataset': dataset,
      'symmetries': symmetries,
      'seed': str(seed),
      'weights': '7',
      'published': str(accuracies[0]),
      'validation_protocol': str(accuracies[1]),
      'validation': str(accuracies[2]),
      'seconds': '1.5',
    }
    for seed, accuracies in enumerate(
      zip(published, validated, validation, strict=True)
    )
  ]


def test_rows_are_read_as_they_were_written(tmp_path):
  written = rows('a/b', 'search 1', 'rotation', [0.1], [1 / 3], [0.25])
  rows_lib.write(tmp_path / 'x.csv', written)
  assert rows_lib.read(tmp_path / 'x.csv') == written
  assert rows_lib.read(tmp_path / 'nothing.csv') == []


def test_seeds_are_gathered_into_networks():
  (network,) = results.networks(
    rows('a', 'plain', '', [0.5, 0.7], [0.4, 0.4], [0.1, 0.3])
  )
  assert network.weights == 7
  assert network.num_seeds == 2
  assert network.paper.mean == pytest.approx(60)
  assert network.paper.spread == pytest.approx(200**0.5)
  assert network.paper.standard_error == pytest.approx(10)
  assert str(network.test) == '40.0 ± 0.0'


@pytest.mark.parametrize('base', published_mlp.BASES)
def test_the_papers_own_table_differs_by_nothing_from_itself(base):
  configs = published_mlp.SINGLE
  paper = published_mlp.table(base, configs)
  made = [
    made_row
    for config, row in zip(configs, paper, strict=True)
    for names, value in zip(published_mlp.NETWORKS, row, strict=True)
    for made_row in rows(
      f'{base}/{config}',
      ' '.join(names),
      ' '.join(names),
      [value / 100],
      [0],
      [0],
    )
  ]
  ours = results.grid(made, base, configs)
  np.testing.assert_allclose(ours, paper)
  assert 'difference from the paper 0.00 points' in results.compare(ours, paper)
  words = results.diagonals(ours, paper)
  assert words.count('p = 0.0') == 2  # but not with the columns as printed
  assert figures.tables(base, configs, ours).axes


def test_each_protocol_chooses_by_its_own_numbers():
  data = 'g_mnist/aug5'
  searched = [
    *rows(data, 'search 1', 'rotation', [0.6], [0.5], [0.7]),
    *rows(data, 'search 2', 'vertical_flip', [0.7], [0.4], [0.6]),
    *rows(data, 'best', 'horizontal_flip', [0.9], [0.9], [0.9]),
  ]
  singles = [
    *rows(data, 'plain', '', [0.9], [0.1], [0.2]),
    *rows(data, 'rotation', 'rotation', [0.6], [0.5], [0.3]),
  ]
  better = [
    *rows(data, 'plain, our recipe', '', [0.99], [0.9], [0.9]),
    *rows(data, 'search 1, fan-in', 'rotation', [0.99], [0.9], [0.9]),
    *rows(data, 'search 1, our recipe', 'rotation', [0.8], [0.5], [0.7]),
    *rows(data, 'search 2, our recipe', 'rotation', [0.7], [0.9], [0.9]),
  ]
  assert results.found(singles, searched)[0].ours is None
  (row,) = results.found(singles, searched, better)
  assert row.ours.role == 'search 1, our recipe'
  assert row.printed == 69.4
  assert row.paper.role == 'search 2'
  assert row.validation.role == 'search 1'
  assert row.single.role == 'rotation'


def test_the_paired_interval_is_students():
  mean, half = results.paired([1.0, 2.0, 3.0])
  assert mean == 2
  assert half == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
