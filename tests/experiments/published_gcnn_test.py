"""The paper's table of group CNNs, and a small one trained for real."""

import json
import pathlib

from absl.testing import flagsaver
import pytest
from scipy import stats

import aen
from aen.search import gcnn_space
from experiments import results
from experiments import rows as rows_lib
from tests import launchers

PAPERS_NAMES = {
  'P4': 'rotation',
  'H2': 'horizontal_flip',
  'V2': 'vertical_flip',
  'Rot (30)': 'random_rotation',
  'HFlip (0.5)': 'random_horizontal_flip',
  'VFlip (0.5)': 'random_vertical_flip',
  'Trans (0.2)': 'random_translation',
  'Scale (0.1)': 'random_scaling',
  'Shear (10)': 'random_shear',
}


@pytest.fixture
def launcher():
  return launchers.load('published_gcnn')


def test_the_table_has_24_found_and_6_baseline_networks(launcher):
  table = launcher.configurations()
  assert list(table) == [
    *('cifar10', 'svhn_cropped', 'rot_mnist', 'sign_language_mnist'),
    *('emnist/letters', 'kmnist', *launcher.VARIANTS),
  ]
  space = gcnn_space.gcnn_space((28, 28), 10, as_published=True)
  for rows in table.values():
    *found, baseline = [space.network(launcher.names(row)) for row in rows]
    assert len(found) == 4
    assert baseline == space.network(['large'])
    assert all(space.names(network)[0] == 'rotation' for network in found)


def test_these_are_the_numbers_of_the_paper(launcher):
  tables = pathlib.Path(__file__).parents[3] / 'shared/paper/tables.json'
  if not tables.exists():
    pytest.skip('the tables of the paper are not at hand')
  printed = json.loads(tables.read_text())['gcnn'].values()
  table = launcher.configurations()
  known = [
    rows for name, rows in table.items() if name not in launcher.VARIANTS
  ]
  for ours, paper in zip(known, printed, strict=True):
    for row, theirs in zip(ours, paper, strict=True):
      names = [*theirs['equivariances'], *theirs['augmentations']]
      words = [PAPERS_NAMES[name] for name in names if name != 'Zn']
      large = ['large'] * (theirs['size'] == 'Large')
      assert launcher.names(row) == words + large
      assert float(row['test_accuracy']) == theirs['test_accuracy']


@pytest.mark.slow
def test_a_small_table_is_trained_once(launcher, tmp_path, monkeypatch, capsys):
  table = tmp_path / 'table.csv'
  table.write_text(
    'dataset,symmetries,augmentations,size,test_accuracy\n'
    'nowhere,,,small,50\n'
    'digits,,,small,90\n'
    'digits,,random_shear random_scaling,small,91.5\n'
  )
  monkeypatch.setattr(launcher, 'TABLE', table)

  def load(name):
    if name == 'nowhere':
      raise FileNotFoundError('nowhere: expected some files')
    return aen.load_dataset(name, num_train=65, num_validation=9, num_test=20)

  monkeypatch.setattr(launcher._DATA, 'load', load)
  small = {'run_dir': str(tmp_path), 'epochs': 2}
  with flagsaver.flagsaver(**small):
    launcher.main([])
    first = capsys.readouterr().out
    before = (tmp_path / 'published_gcnn.csv').read_bytes()
    (tmp_path / 'results.sqlite').unlink()  # rows of the file are enough
    launcher.main([])
  assert (tmp_path / 'published_gcnn.csv').read_bytes() == before
  assert 'nowhere is not there: nowhere: expected' in first
  assert '65 + 9 / 20 | none | random_shear + random_scaling | small' in first
  rows = rows_lib.read(tmp_path / 'published_gcnn.csv')
  assert [row['paper'] for row in rows] == ['90', '91.5']
  for row in rows:
    curve = [float(value) for value in row['test_accuracy'].split()]
    assert len(curve) == 2
    assert all(0 <= value <= 100 for value in curve)
  assert results.gcnn_table(rows) in first
  controls = {'networks': ['controls'], 'initializer': 'unit_variance'}
  with flagsaver.flagsaver(**small, **controls, num_seeds=2):
    launcher.main([])
  more = rows_lib.read(tmp_path / 'published_gcnn.csv')
  assert more[:2] == rows
  assert [row['seed'] for row in more[2:]] == ['0', '1'] * 2
  assert {row['recipe'] for row in more[2:]} == {
    'epochs=2 initializer=unit_variance'
  }
  assert (
    '| digits | epochs=2 initializer=unit_variance |'
    in results.gcnn_gains(more)
  )


def test_controls_are_added_once(launcher):
  table = launcher.configurations()['cifar10']
  both = launcher.networks(['table', 'controls'], table)
  assert both[:5] == table
  assert [row['symmetries'] for row in both[5:]] == ['rotation horizontal_flip']
  with pytest.raises(ValueError, match="some of table, controls, got 'x'"):
    launcher.networks(['x'], table)


def test_unknown_data_sets_are_refused(launcher):
  with pytest.raises(ValueError, match="some of a, b; got 'c'"):
    launcher.chosen('a,c', ['a', 'b'])
  assert launcher.chosen('all', ['a', 'b']) == ['a', 'b']


def child(symmetries, test, validation, **other):
  return {
    'dataset': 'kmnist',
    'recipe': '',
    'symmetries': symmetries,
    'augmentations': '',
    'size': 'large',
    'train': '2',
    'validation': '2',
    'test': '2',
    'weights': '5',
    'paper': '',
    'test_accuracy': test,
    'validation_accuracy': validation,
    **other,
  }


def test_epochs_are_chosen_in_three_ways():
  rows = [child('', '50 70 60', '50 60 70'), child('', '30 20 10', '1 2 2')]
  found = results.gcnn_accuracies(rows)
  assert found == ([60, 10], [70, 30], [60, 20])
  assert '| 35.00 ± 25.00 (2 seeds) |' in results.gcnn_table(rows)
  rows.append(child('', '9 9 9', '1 2 3'))
  table = results.gcnn_table(rows)
  assert '| 35.00 ± 25.00 (2 seeds) |' in table
  assert table.endswith('| 1 of 3 |')


def test_gains_compare_networks_of_equal_start():
  rows = [
    child(names, str(value), '1', recipe=recipe)
    for recipe, names, values in [
      ('', '', (60, 62)),
      ('', 'rotation horizontal_flip', (70, 74)),
      ('initializer=he', '', (65, 67)),
    ]
    for value in values
  ]
  last = results.gcnn_gains(rows).splitlines()[-1]
  low, high = stats.ttest_ind(
    (70, 74), (60, 62), equal_var=False
  ).confidence_interval()
  assert last.endswith(f'| +11.00 ({low:+.2f} … {high:+.2f}) |')


def test_shortfalls_and_excesses_are_apart():
  rows = [
    child('', '60', '1', paper='62', dataset='cifar10'),
    child('rotation', '66', '1', paper='65', dataset='cifar10'),
    child('', '10', '1', paper='90'),  # of the same data set: a part of it
  ]
  rows[-1]['dataset'] = 'kmnist-partial-2-2'
  found = results.gcnn_shortfall(rows)
  assert 'Over 2 rows the mean shortfall is 1.00 points' in found
  assert 'mean excess 0.50' in found
  rows.append(child('', '9 9', '1 1', paper='62', dataset='svhn'))
  assert results.gcnn_shortfall(rows) == (
    f'{found} Children that never left their start (see the errata) are not'
    ' counted: 1.'
  )


def test_the_negative_of_asl_is_compared():
  rows = [
    child('', '60', '1', paper='70', dataset='sign_language_mnist'),
    child('', '64', '1', dataset='sign_language_mnist/negative'),
  ]
  assert not results.gcnn_negative(rows[:1])
  found = results.gcnn_negative(rows)
  assert 'reach 64.00 % on' in found
  assert 'explains 40 % of the difference' in found


def test_a_file_of_another_version_is_refused(launcher, tmp_path):
  path = tmp_path / 'published_gcnn.csv'
  path.write_text('dataset,size\ndigits,small\n')
  with pytest.raises(ValueError, match="lacks the column 'augmentations'"):
    rows_lib.read(path, launcher.KEY)
