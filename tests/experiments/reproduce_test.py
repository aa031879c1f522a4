"""The whole reproduction, small: interrupted, resumed, and repeated."""

import csv
import dataclasses
import pathlib

from absl.testing import flagsaver
import numpy as np
import pytest

import aen
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import strategies
from aen.train import child as child_lib
from experiments import traces
from tests import launchers

RESULTS = pathlib.Path(__file__).parents[2] / 'results/mlp'


@pytest.fixture
def launcher():
  return launchers.load('reproduce')


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


def make_landscape():
  """Four states of two symmetries that are three networks."""
  return landscape_lib.Landscape(
    name='g_mnist/aug1',
    symmetries=('rotation', 'vertical_flip'),
    network_of=np.array([0, 1, 2, 2]),
    weights=np.array([9, 5, 3]),
    seeds=np.array([0]),
    validation=np.array([[[0.1, 0.2]], [[0.5, 0.4]], [[0.3, 0.3]]]),
    test=np.array([[[0.1, 0.2]], [[0.5, 0.4]], [[0.3, 0.3]]]),
    seconds=np.ones((3, 1)),
  )


def test_the_top_networks_are_the_best_seen_each_once():
  trace = compare.Trace(
    states=np.array([0, 3, 2, 1, strategies.NO_STATE]),
    epochs=np.array([2, 2, 2, 2, 0]),
    values=np.array([0.2, 0.3, 0.3, 0.5, 9.0], np.float32),
  )
  landscape = make_landscape()
  found = traces.top_networks(trace, landscape, 2)
  assert found == [1, 2]
  names = [landscape.names(network) for network in found]
  assert names == [('rotation',), ('vertical_flip',)]


def test_means_are_taken_of_the_steps_with_the_same_epsilon():
  trace = compare.Trace(
    states=np.array([1, 1, 2, 0, 3, strategies.NO_STATE]),
    epochs=np.full(6, 2),
    values=np.array([0.1, 0.3, 0.5, 0.2, 0.6, 9.0], np.float32),
  )
  # The empty state counts as seen: ε changes with the second new one.
  config = agent_lib.DQNConfig(num_bits=2, epsilons=(1.0, 0.1), models=(2, 9))
  np.testing.assert_allclose(
    traces.epsilons(trace, config), [1, 0.1, 0.1, 0.1, 0.1, 0.1]
  )
  levels, means = traces.means(trace, config)
  np.testing.assert_allclose(levels, [1, 0.1])
  np.testing.assert_allclose(means, [0.1, 0.4])


def test_rows_are_added_to_those_of_other_data(launcher, tmp_path):
  path, add = tmp_path / 'tables.csv', launcher.rows_lib.add

  def row(dataset, seconds):
    return {'role': 'plain', 'dataset': dataset, 'seed': '0', 'time': seconds}

  key = launcher.KEY
  add(path, [row('g_mnist/aug0', '1'), row('g_mnist/aug1', '1')], key)
  add(path, [row('g_mnist/aug1', '2'), row('g_mnist/aug2', '2')], key)
  seconds = [each['time'] for each in launcher.rows_lib.read(path)]
  assert seconds == ['1', '2', '2']


def few_images(name):
  data = aen.load_dataset(
    f'g_digits/{name.split("/")[1]}', num_train=64, num_test=20
  )
  return dataclasses.replace(data, name=name)


@pytest.fixture
def small(launcher, tmp_path, monkeypatch):
  """One base, two data sets of few images, a short search."""
  published = launcher.published_mlp
  recipe = dataclasses.replace(published.RECIPE, epochs=1)
  for name, value in (
    ('TABLES', {'single': ('iaug1',), 'multiple': ('aug1',)}),
    ('RECIPE', recipe),
  ):
    monkeypatch.setattr(published, name, value)
  monkeypatch.setattr(
    launcher,
    'load',
    lambda name: (few_images(name), np.arange(20) < 5),
  )
  agent = {'hidden_sizes': (4,), 'batch_size': 4, 'max_steps': 10}
  monkeypatch.setattr(launcher, '_AGENT', agent)
  monkeypatch.setattr(launcher, '_SEARCH_RECIPE', aen.Recipe(epochs=1))
  monkeypatch.setattr(launcher, 'load_for_search', few_images)
  with flagsaver.flagsaver(
    run_dir=str(tmp_path / 'run'),
    results=str(tmp_path / 'results'),
    base=['g_mnist'],
    num_seeds=1,
    top=1,
    epochs=1,
  ):
    yield tmp_path


def contents(folder):
  return {
    path.name: path.read_bytes()
    for path in folder.rglob('*')
    if path.is_file() and path.name != 'times.csv'
  }


@pytest.mark.slow
def test_results_count_as_known(launcher, small, capsys, monkeypatch):
  launcher.main([])
  first = contents(small / 'results')
  assert {'tables.csv', 'networks.csv', 'lessons.csv', 'children.csv.gz'} <= {
    *first
  }
  with open(small / 'results/networks.csv', newline='') as file:
    roles = [row['role'] for row in csv.DictReader(file)]
  assert roles == ['search 1', 'best', 'paper', 'generating', 'plain']
  with open(small / 'results/recipes.csv', newline='') as file:
    roles = [row['role'] for row in csv.DictReader(file)]
  assert roles == [
    *('search 1, sgd', 'search 1, fan-in', 'search 1, fan-in, fresh order'),
    *('search 1, our recipe', 'plain, our recipe'),
  ]
  halves = launcher.rows_lib.read(small / 'results/halves.csv')
  baseline = [row for row in halves if row['role'].startswith('plain, ')]
  assert len(baseline) == len(halves) / 2 == 2
  # The same child, and halves of 10 images whose mean is all 20.
  assert len({row['validation_protocol'] for row in baseline}) == 1
  mean = np.mean([float(row['published']) for row in baseline])
  assert mean == pytest.approx(float(baseline[0]['validation_protocol']))
  capsys.readouterr()
  with flagsaver.flagsaver(verify=2), pytest.raises(SystemExit) as stop:
    launcher.main([])
  assert stop.value.code == 0
  said = capsys.readouterr().out.splitlines()
  assert len(said) == 2
  assert all(line.endswith('the same') for line in said)

  path = small / 'results/tables.csv'
  told = path.read_text()
  path.write_text(told.replace(',0.', ',0.0'))
  with flagsaver.flagsaver(verify=1), pytest.raises(SystemExit) as stop:
    launcher.main([])
  assert stop.value.code == 1
  path.write_text(told)
  with (
    flagsaver.flagsaver(num_seeds=2, stage=['landscapes']),
    pytest.raises(ValueError, match='has landscapes of 1 seeds'),
  ):
    launcher.main([])

  def refuse(*_, **__):
    raise AssertionError('trained again')

  # As on another machine, which has the results and no store.
  monkeypatch.setattr(child_lib, 'train_children', refuse)
  with flagsaver.flagsaver(run_dir=str(small / 'other')):
    launcher.main([])
  assert contents(small / 'results') == first


@pytest.mark.slow
def test_a_small_table_is_trained_and_compared(
  launcher, tmp_path, monkeypatch, capsys
):
  def load(name):
    config = name.split('/')[1]
    data = aen.load_dataset(
      f'g_digits/{config}', num_train=64, num_validation=10, num_test=30
    )
    return dataclasses.replace(data, name=name), np.arange(30) < 10

  monkeypatch.setattr(launcher, 'load', load)
  tables = launcher.published_mlp.TABLES
  monkeypatch.setitem(tables, 'multiple', ('aug0', 'aug1'))
  with flagsaver.flagsaver(
    stage=['tables'],
    run_dir=str(tmp_path),
    results=str(tmp_path / 'known'),
    base=['g_mnist'],
    table=['multiple'],
    num_seeds=1,
    epochs=1,
  ):
    launcher.main([])
    words = capsys.readouterr().out
    before = (tmp_path / 'tables.csv').read_bytes()
    launcher.main([])
  assert (tmp_path / 'tables.csv').read_bytes() == before
  assert not (tmp_path / 'known').exists()  # by the published recipe only
  assert 'g_mnist, multiple: 26 cells, mean absolute difference' in words
  with open(tmp_path / 'tables.csv', newline='') as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 26
  with open(RESULTS / 'tables.csv', newline='') as file:
    assert list(rows[0]) == next(csv.reader(file))
  assert (tmp_path / 'g_mnist_multiple.png').stat().st_size > 10_000
