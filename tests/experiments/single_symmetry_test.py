"""The tables of single symmetries: a small one trained for real."""

import csv
import dataclasses
import pathlib

from absl.testing import flagsaver
import numpy as np
import pytest

import aen
from tests import launchers

RESULTS = pathlib.Path(__file__).parents[2] / 'results/mlp'


@pytest.fixture
def launcher():
  return launchers.load('single_symmetry')


def test_the_published_recipe_is_the_default(launcher):
  assert launcher._RECIPE(10000) == launcher.published_mlp.RECIPE


def test_columns_go_back_to_where_the_paper_has_them(launcher):
  paper = launcher.published_mlp
  columns = [int(c.column[2:]) for c in list(paper.printed())[:13]]
  assert columns == list(range(13))
  first = [c.test_accuracy for c in list(paper.printed())[:13]]
  corrected = paper.table('g_mnist', ['iaug0'])
  np.testing.assert_array_equal(paper.literally(corrected), [first])
  assert paper.diagonal_p(np.eye(13)) == pytest.approx(1 / 5040)
  assert paper.diagonal_p(np.zeros((13, 13))) == 1


@pytest.mark.slow
def test_a_small_table_is_trained_and_compared(
  launcher, tmp_path, monkeypatch, capsys
):
  def load(name, places):
    config = name.split('/')[1]
    data = aen.load_dataset(
      f'g_digits/{config}', num_train=64, num_validation=10, num_test=30
    )
    return dataclasses.replace(data, name=name), np.arange(30) < 10

  monkeypatch.setattr(launcher.retraining, 'load', load)
  monkeypatch.setitem(launcher._CONFIGS, 'multiple', ('aug0', 'aug1'))
  with flagsaver.flagsaver(
    run_dir=str(tmp_path), base=['g_mnist'], table=['multiple'], epochs=1
  ):
    launcher.main([])
    words = capsys.readouterr().out
    before = (tmp_path / 'tables.csv').read_bytes()
    launcher.main([])
  assert (tmp_path / 'tables.csv').read_bytes() == before
  assert 'g_mnist, multiple: 26 cells, mean absolute difference' in words
  with open(tmp_path / 'tables.csv', newline='') as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 26
  with open(RESULTS / 'tables.csv', newline='') as file:
    assert list(rows[0]) == next(csv.reader(file))
  assert (tmp_path / 'g_mnist_multiple.png').stat().st_size > 10_000
