"""Scores and gains as functions of records, with their uncertainty.

Legend: N test images, S seeds.
"""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np
from scipy import special

from aen.train import recipe as recipe_lib
from aen.train.store import Record

Z_95 = 1.959964  # two-sided 95 % quantile of the normal distribution


@dataclasses.dataclass(frozen=True)
class Gain:
  """A difference of test accuracies, with its 95 % confidence interval.

  The interval accounts for the variance over test images and over seeds; both
  networks have the same images and seeds. `seed_error` is the part of the
  standard error that is due to seeds.
  """

  mean: float
  low: float
  high: float
  standard_error: float
  seed_error: float = 0.0

  @classmethod
  def between(cls, best: np.ndarray, baseline: np.ndarray) -> 'Gain':
    """Compares two networks by which images they classify correctly, [S, N].

    In regression, the entries are 1 - squared error / variance, whose mean is
    R². The variance of the mean is the sum of the variances over images and
    over seeds; the interval is Student's t with Satterthwaite's degrees of
    freedom, ν = (Σ vᵢ)² / Σ (vᵢ² / (nᵢ - 1)).
    """
    difference = best.astype(float) - baseline  # [S, N]
    mean = float(difference.mean())
    if difference.shape[1] < 2:  # one image has no variance
      return cls(mean, -1.0, 1.0, 1.0)
    samples = [difference.mean(axis=0)]  # by image
    if len(difference) > 1:
      samples.append(difference.mean(axis=1))  # by seed
    variances = [sample.var(ddof=1) / sample.size for sample in samples]
    total = sum(variances)
    if total == 0:
      return cls(mean, mean, mean, 0.0)
    freedom = total**2 / sum(
      variance**2 / (sample.size - 1)
      for variance, sample in zip(variances, samples, strict=True)
    )
    margin = float(special.stdtrit(freedom, 0.975)) * math.sqrt(total)
    seed_error = math.sqrt(sum(variances[1:]))
    return cls(mean, mean - margin, mean + margin, math.sqrt(total), seed_error)

  @property
  def is_clear(self) -> bool:
    """Whether the whole interval, as printed, lies above 0."""
    return round(100 * self.low, 1) > 0

  def images_needed(self, num_images: int) -> int | None:
    """Returns how many test images would make the same gain clear.

    The variance over images falls as 1 / N, that over seeds is constant, and
    the quantile of the interval stays the same. None if no number of images
    suffices. `num_images` is the N of this gain.
    """
    if self.mean <= 0 or self.standard_error == 0:
      return None
    of_images = (self.standard_error**2 - self.seed_error**2) * num_images
    quantile = max(Z_95, (self.high - self.mean) / self.standard_error)
    left = (self.mean / quantile) ** 2 - self.seed_error**2
    if left <= 0:
      return None
    return max(num_images + 1, math.ceil(of_images / left))

  def __str__(self) -> str:
    return (
      f'{100 * self.mean:+.1f} points (95 % interval {100 * self.low:+.1f} …'
      f' {100 * self.high:+.1f})'
    )


@dataclasses.dataclass(frozen=True)
class Score:
  """The results of a network in its best epochs, means over seeds."""

  value: float  # by the recipe's criterion, from 0 to 1
  accuracy: float  # on the validation images; R² in regression
  standard_error: float  # of the accuracy, over images and seeds
  loss: float  # on the validation images
  num_seeds: int
  num_diverged: int

  @classmethod
  def of(
    cls,
    records: Sequence[Record],
    criterion: str,
    num_images: int,
    numbers: bool = False,
  ) -> 'Score':
    """Returns the score of a network's children on `num_images` images.

    `numbers` is True for regression.
    """
    best = [recipe_lib.best_epoch(record, criterion) for record in records]
    pairs = list(zip(records, best, strict=True))
    accuracies = np.array([r.validation_accuracy[e] for r, e in pairs])
    accuracy = float(accuracies.mean())
    # Agresti and Coull: two more right, two more wrong, so that the error of a
    # perfect score on few images is not 0.
    share = (accuracy * num_images + 2) / (num_images + 4)
    variance = share * (1 - share) / (num_images + 4)
    if numbers:  # of R² in large samples (Olkin and Finn)
      variance = 4 * accuracy * (1 - accuracy) ** 2 / num_images
    if len(records) > 1:
      variance += float(accuracies.var(ddof=1)) / len(records)
    return cls(
      value=value(records, criterion),
      accuracy=accuracy,
      standard_error=math.sqrt(variance),
      loss=float(np.mean([r.validation_loss[e] for r, e in pairs])),
      num_seeds=len(records),
      num_diverged=sum(record.diverged for record in records),
    )


def value(
  records: Sequence[Record], criterion: str, epochs: int | None = None
) -> float:
  """Returns the best epoch's score, mean over seeds.

  Only the first `epochs` count, if given.
  """
  scores = [recipe_lib.scores(record, criterion)[:epochs] for record in records]
  return float(np.mean([float(np.max(curve)) for curve in scores]))


def paper_protocol(record: Record) -> float:
  """Returns the best accuracy of any epoch on the paper's 1000 test images.

  This estimate is optimistic, because the epoch is selected on the same images;
  `validation_protocol` is not.
  """
  return max(record.few_test_accuracy)


def validation_protocol(record: Record, criterion: str) -> float:
  """Returns the test accuracy in the best epoch by validation."""
  return record.test_accuracy[recipe_lib.best_epoch(record, criterion)]


def balanced(right: np.ndarray, labels: np.ndarray) -> float:
  """Returns the mean over classes of the accuracy within each class.

  `right` says which images each child classifies correctly, bool [S, N]; labels
  are the classes of the images, [N].

  >>> balanced(np.array([[True, True, True, False]]), np.array([0, 0, 0, 1]))
  0.5
  """
  by_image = right.mean(axis=0)
  return float(
    np.mean([by_image[labels == label].mean() for label in np.unique(labels)])
  )
