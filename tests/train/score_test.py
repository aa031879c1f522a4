"""Scores: two protocols for the same child, from one training."""

import pytest

from aen.train import score
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
  ('criterion', 'expected'), [('accuracy', 0.4), ('likelihood', 0.5)]
)
def test_the_paper_takes_the_best_test_epoch_we_the_best_validation_epoch(
  criterion, expected
):
  assert score.paper_protocol(RECORD) == 0.9
  assert score.validation_protocol(RECORD, criterion) == expected
