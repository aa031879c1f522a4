"""The paper's table of group CNNs, and a small one trained for real."""

import json
import pathlib

from absl.testing import flagsaver
import pytest

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
    *('emnist/letters', 'kmnist'),
  ]
  space = gcnn_space.gcnn_space((28, 28), 10)
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
  for ours, paper in zip(
    launcher.configurations().values(), printed, strict=True
  ):
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

  def load(name, num_test=None):
    if name == 'nowhere':
      raise FileNotFoundError('nowhere: expected some files')
    return aen.load_dataset(
      name, num_train=64, num_validation=9, num_test=num_test
    )

  monkeypatch.setattr(launcher._DATA, 'load', load)
  small = {'run_dir': str(tmp_path), 'epochs': 1, 'max_test': 20}
  with flagsaver.flagsaver(**small):
    launcher.main([])
    first = capsys.readouterr().out
    before = (tmp_path / 'published_gcnn.csv').read_bytes()
    launcher.main([])
  assert (tmp_path / 'published_gcnn.csv').read_bytes() == before
  assert 'nowhere is not there: nowhere: expected' in first
  assert '64 + 9 / 20 | none | random_shear + random_scaling | small' in first
  rows = rows_lib.read(tmp_path / 'published_gcnn.csv')
  assert [row['paper'] for row in rows] == ['90', '91.5', '', '']
  assert all(0 <= float(row['ours']) <= 100 for row in rows)
  assert results.gcnn_table(rows) in first
  with flagsaver.flagsaver(**small, initializer='he', comparisons=False):
    launcher.main([])
  more = rows_lib.read(tmp_path / 'published_gcnn.csv')
  assert more[:4] == rows
  assert [row['initializer'] for row in more[4:]] == ['he', 'he']


def test_comparisons_are_what_the_table_lacks(launcher):
  respected = 'rotation horizontal_flip vertical_flip'
  augmented = 'random_rotation random_horizontal_flip random_vertical_flip'
  lacking = {
    name: [(row['symmetries'], row['augmentations']) for row in found]
    for name, rows in launcher.configurations().items()
    if (found := list(launcher.comparisons(rows)))
  }
  assert lacking['cifar10'] == [('', ''), ('', augmented), (respected, '')]
  assert lacking['kmnist'] == [('', ''), ('', augmented)]


def test_unknown_data_sets_are_refused(launcher):
  with pytest.raises(ValueError, match="some of a, b; got 'c'"):
    launcher.chosen('a,c', ['a', 'b'])
  assert launcher.chosen('all', ['a', 'b']) == ['a', 'b']


def test_contrasts_lay_the_same_data_side_by_side():
  def row(accuracy, symmetries, augmentations, size):
    return {
      'dataset': 'kmnist',
      'initializer': 'he',
      'symmetries': symmetries,
      'augmentations': augmentations,
      'size': size,
      'epochs': '10',
      'train': '2',
      'test': '1250',
      'seeds': '1',
      'ours': accuracy,
      'standard_error': '',
    }

  symmetric = results.ROTATIONS_AND_FLIPS
  rows = [
    row('90.00', '', '', 'small'),
    row('95.00', symmetric, 'random_shear', 'large'),  # no part of it
    row('90.00', symmetric, '', 'small'),
  ]
  last = results.gcnn_contrasts(rows).splitlines()[-1]
  assert last == '| kmnist | he | 90.00 |  | 90.00 |  |  | 1.2 |'


def test_a_file_of_another_version_is_refused(launcher, tmp_path):
  path = tmp_path / 'published_gcnn.csv'
  path.write_text('dataset,size\ndigits,small\n')
  with pytest.raises(ValueError, match="lacks the column 'augmentations'"):
    rows_lib.read(path, launcher.KEY)
