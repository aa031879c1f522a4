"""Networks at the paper's size: both protocols, from one training."""

import numpy as np
import pytest

import aen
from aen.train import child as child_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from tests import launchers
from tests.train import score_test


@pytest.fixture(scope='module')
def reproduce():
  return launchers.load('reproduce')


@pytest.mark.parametrize(
  ('criterion', 'validated', 'validation'),
  [('accuracy', '0.4', '0.75'), ('likelihood', '0.5', '0.625')],
)
def test_a_row_has_both_protocols(reproduce, criterion, validated, validation):
  names = ('rotation', 'vertical_flip')
  row = reproduce.row(score_test.RECORD, 'best', 'digits', names, criterion)
  assert row == {
    'role': 'best',
    'dataset': 'digits',
    'symmetries': 'rotation vertical_flip',
    'seed': '3',
    'weights': '9',
    'published': '0.9',
    'validation_protocol': validated,
    'validation': validation,
    'seconds': '1.5',
  }


def load(**options):
  return aen.load_dataset('g_digits/aug2', num_train=64, **options)


def test_the_few_are_the_test_images_of_the_part(reproduce):
  data, part = load(), load(num_test=20)
  few = reproduce.few_of(data, part)
  assert few.shape == (297,)
  np.testing.assert_array_equal(data.test.images[few], part.test.images)
  with pytest.raises(ValueError, match='lacks; load both with the same name'):
    reproduce.few_of(part, data)


def test_a_table_is_trained_once(reproduce, monkeypatch):
  data = load(num_validation=20)
  few = reproduce.few_of(data, load(num_test=20))
  monkeypatch.setattr(reproduce, 'load', lambda *_: (data, few))
  trained, train_children = [], child_lib.train_children

  def counted(keys, *args, **options):
    trained.extend(keys)
    return train_children(keys, *args, **options)

  monkeypatch.setattr(child_lib, 'train_children', counted)
  store = store_lib.Results()
  task = reproduce.Task(
    'g_digits/aug2',
    {'plain': (), 'rotation': ('rotation',)},
    [0, 1],
    recipe_lib.Recipe(epochs=2, batch_size=16),
    options={'symmetries': ('rotation', 'vertical_flip')},
  )
  rows = reproduce.train(task, store)
  assert len(trained) == 4
  asked = [(row['role'], row['symmetries'], row['seed']) for row in rows]
  assert asked == [
    ('plain', '', '0'),
    ('plain', '', '1'),
    ('rotation', 'rotation', '0'),
    ('rotation', 'rotation', '1'),
  ]
  for row in rows:
    assert row['dataset'] == 'g_digits/aug2'
    for column, total in (
      ('published', 20),
      ('validation_protocol', 297),
      ('validation', 20),
    ):
      share = float(row[column])
      assert share == round(share * total) / total  # no float32 left in it
      assert 0 <= share <= 1
  changed = task._replace(change='twice')
  again = reproduce.train(changed, store)
  assert [row['role'] for row in again[::2]] == [
    'plain, twice',
    'rotation, twice',
  ]
  assert [{**row, 'role': ''} for row in again] == [
    {**row, 'role': ''} for row in rows
  ]
  assert len(trained) == 4
