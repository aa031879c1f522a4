"""Scores: two protocols for the same child, from one training."""

import numpy as np
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


@pytest.mark.parametrize('seed', range(50))
def test_as_many_images_as_needed_make_the_interval_clear(seed):
  rng = np.random.default_rng(seed)
  error, quantile = rng.uniform(0.01, 0.1), rng.uniform(score.Z_95, 4)
  of_seeds = error * rng.uniform(0, 0.9)
  mean, margin = quantile * error * rng.uniform(0.2, 0.99), quantile * error
  gain = score.Gain(mean, mean - margin, mean + margin, error, of_seeds)

  def low(num_images):
    of_images = (error**2 - of_seeds**2) * 100 / num_images
    return mean - quantile * np.sqrt(of_seeds**2 + of_images)

  needed = gain.images_needed(100)
  if needed is None:
    assert low(np.inf) <= 0
  else:
    assert needed > 100
    assert low(needed + 1) > 0 >= low(needed - 1)


def test_a_gain_without_error_or_from_one_image_is_no_division_by_zero():
  assert score.Gain(0.1, 0.1, 0.1, 0.0).images_needed(10) is None
  assert score.Gain(1.0, -1.0, 1.0, 1.0).images_needed(1) == 4
