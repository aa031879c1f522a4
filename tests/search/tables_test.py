"""Tables: both ways to judge a child, from one training."""

import numpy as np
import pytest

import aen
from aen.search import mlp_space
from aen.search import tables
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

RECORD = store_lib.Record(
  key=store_lib.ChildKey('network', 'data', '{}', 3),
  symmetries='rotation',
  num_weights=9,
  train_loss=(2.0, 1.0, 0.5),
  validation_accuracy=(0.5, 0.75, 0.625),
  validation_loss=(1.0, 0.5, 0.25),
  test_accuracy=(0.3, 0.4, 0.5),
  few_test_accuracy=(0.1, 0.2, 0.9),
  diverged=False,
  seconds=1.5,
)


@pytest.mark.parametrize(
  ('criterion', 'honest', 'validation'),
  [('accuracy', 0.4, 0.75), ('likelihood', 0.5, 0.625)],
)
def test_the_paper_takes_the_best_test_epoch_we_the_best_validation_epoch(
  criterion, honest, validation
):
  names = ('rotation', 'vertical_flip')
  judged = tables.judge(RECORD, 'digits', names, criterion)
  assert judged == tables.Judged(
    dataset='digits',
    symmetries='rotation vertical_flip',
    seed=3,
    weights=9,
    published=0.9,
    honest=honest,
    validation=validation,
    seconds=1.5,
  )


def load(**options):
  return aen.load_dataset('g_digits/aug2', num_train=64, **options)


def test_the_few_are_the_test_images_of_the_part():
  data, part = load(), load(num_test=20)
  few = tables.few_of(data, part)
  assert few.shape == (297,)
  np.testing.assert_array_equal(data.test.images[few], part.test.images)
  with pytest.raises(ValueError, match='lacks; load both with the same name'):
    tables.few_of(part, data)


def test_a_table_is_trained_once():
  data = load(num_validation=20)
  few = tables.few_of(data, load(num_test=20))
  space = mlp_space.mlp_space(
    data.image_shape, 10, ('rotation', 'vertical_flip'), head='dense'
  )
  networks, trained = [(), ('rotation',)], []
  store = store_lib.Results()

  def table():
    return tables.train_table(
      data,
      few,
      space,
      networks,
      [0, 1],
      recipe_lib.Recipe(epochs=2, batch_size=16),
      store,
      trained.extend,
    )

  rows = table()
  assert len(trained) == 4
  assert [(row.symmetries, row.seed) for row in rows] == [
    *(('', 0), ('', 1), ('rotation', 0), ('rotation', 1))
  ]
  for row in rows:
    assert row.dataset == 'g_digits/aug2'
    for share, total in (
      (row.published, 20),
      (row.honest, 297),
      (row.validation, 20),
    ):
      assert share == round(share * total) / total  # no float32 left in it
      assert 0 <= share <= 1
  assert table() == rows
  assert len(trained) == 4
