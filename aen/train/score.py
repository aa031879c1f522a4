"""What networks are worth, and how sure that is.

Legend: N test images, S seeds.
"""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np

from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

Z_95 = 1.959964  # two-sided 95 % of a normal distribution


@dataclasses.dataclass(frozen=True)
class Gain:
  """A difference of test accuracies, with its 95 % interval.

  The interval covers both chances: of drawing these test images, and of drawing
  these seeds. Both networks answer the same images and share their seeds.
  """

  mean: float
  low: float
  high: float
  standard_error: float

  @classmethod
  def between(cls, best: np.ndarray, base: np.ndarray) -> 'Gain':
    """Compares two networks by which images they get right, bool [S, N]."""
    difference = best.astype(float) - base  # [S, N]
    mean = float(difference.mean())
    means = [difference.mean(axis=0)]  # by image
    if len(difference) > 1:
      means.append(difference.mean(axis=1))  # by seed
    variances = [part.var(ddof=1) / part.size for part in means]
    margin = _margin(variances, means)
    return cls(mean, mean - margin, mean + margin, math.sqrt(sum(variances)))

  @property
  def is_clear(self) -> bool:
    """Whether the whole interval lies above 0."""
    return self.low > 0

  def __str__(self) -> str:
    return (
      f'{100 * self.mean:+.1f} points (95 % interval {100 * self.low:+.1f} …'
      f' {100 * self.high:+.1f})'
    )


def _margin(variances: Sequence[float], samples: Sequence[np.ndarray]) -> float:
  """Returns half a 95 % interval, by Student's t as Satterthwaite has it."""
  from scipy import stats  # takes a while to load

  total = sum(variances)
  if total == 0:
    return 0.0
  freedom = total**2 / sum(
    variance**2 / (sample.size - 1)
    for variance, sample in zip(variances, samples, strict=True)
  )
  return float(stats.t.ppf(0.975, freedom)) * math.sqrt(total)


@dataclasses.dataclass(frozen=True)
class Score:
  """What a network's children reached in their best epochs; means over seeds.

  Attributes:
    value: By the recipe's criterion, from 0 to 1.
    accuracy: On the validation images.
    standard_error: Of that accuracy: the images' and the seeds'.
    loss: On the validation images.
    num_seeds: How many children.
    num_diverged: How many of them diverged.
  """

  value: float
  accuracy: float
  standard_error: float
  loss: float
  num_seeds: int
  num_diverged: int

  @classmethod
  def of(
    cls, records: Sequence[store_lib.Record], criterion: str, num_images: int
  ) -> 'Score':
    """Returns the score of a network's children."""
    values, accuracies, losses = np.array(
      [_best(record, criterion) for record in records]
    ).T
    accuracy = float(accuracies.mean())
    # As if two more images were right and two wrong (Agresti and Coull), so
    # that all of a few images right is no certainty.
    share = (accuracy * num_images + 2) / (num_images + 4)
    variance = share * (1 - share) / (num_images + 4)
    if len(records) > 1:
      variance += float(accuracies.var(ddof=1)) / len(records)
    return cls(
      value=float(values.mean()),
      accuracy=accuracy,
      standard_error=math.sqrt(variance),
      loss=float(losses.mean()),
      num_seeds=len(records),
      num_diverged=sum(record.diverged for record in records),
    )


def _best(
  record: store_lib.Record, criterion: str
) -> tuple[float, float, float]:
  """Returns value, accuracy and loss of the best epoch."""
  best = recipe_lib.best_epoch(record, criterion)
  return (
    float(recipe_lib.scores(record, criterion)[best]),
    record.validation_accuracy[best],
    record.validation_loss[best],
  )


def paper_protocol(record: store_lib.Record) -> float:
  """Returns the best accuracy of any epoch on the paper's 1000 test images.

  The epoch is chosen on the images that are reported, so this is an optimistic
  estimate; `validation_protocol` is not.
  """
  return max(record.few_test_accuracy)


def validation_protocol(record: store_lib.Record, criterion: str) -> float:
  """Returns the test accuracy in the epoch that is best in validation."""
  return record.test_accuracy[recipe_lib.best_epoch(record, criterion)]
