"""Which images are used: chosen by seed, validation always out of train.

Choices with the same seed are nested: a larger training split contains the
smaller ones, and the training split does not depend on the number of validation
images.

Legend: N images of a part.
"""

from collections.abc import Mapping
import dataclasses
import numbers
import types
from typing import Any

import numpy as np

from aen.data import draws
from aen.data import errors

# By default, one image in six of the training part is for validation, and one
# in six of a user's images for testing.
SHARE = 6


@dataclasses.dataclass(frozen=True)
class Sizes:
  """Number of images to use; None means all there are."""

  train: int | None = None
  validation: int | None = None  # None: a sixth, or what `train` leaves
  test: int | None = None
  paper: str = dataclasses.field(default='', compare=False)  # for messages

  def check(self, option: str, size: int, total: int) -> None:
    """Raises ValueError if a part of `total` images is too small for a size."""
    if not isinstance(size, numbers.Integral):
      raise ValueError(
        f'{option}={size!r}: expected a whole number of images, got'
        f' {type(size).__name__}; ask for 0…{total}'
      )
    if not 0 <= size <= total:
      raise ValueError(
        f'{option}={size} is impossible: that part has {total} images; ask for'
        f' 0…{total}{self.hint}'
      )

  @property
  def hint(self) -> str:
    """What to do if there are too few images for a size of the paper."""
    if not self.paper:
      return ''
    return (
      f' (numbers not given come from size={self.paper!r}; give num_train,'
      ' num_validation or num_test to override it)'
    )


# The paper's experiments: children of the MLP search, networks trained again,
# and children of the G-CNN search. Scores that steer a search come from
# validation images here, never from the test set.
PAPER_SIZES: Mapping[str, Sizes] = types.MappingProxyType(
  {
    'search': Sizes(train=4000, validation=1000, paper='search'),
    'retrain': Sizes(train=10000, test=1000, paper='retrain'),
    'gcnn': Sizes(train=6000, validation=1000, paper='gcnn'),
  }
)


def paper_sizes(name: str | None, **given: int | None) -> Sizes:
  """Returns the sizes of one of the paper's experiments, if one is named.

  Args:
    name: A key of `PAPER_SIZES`, or None.
    **given: Fields of `Sizes` that override them, unless they are None.
  """
  if name and name not in PAPER_SIZES:
    raise errors.unknown('size', name, PAPER_SIZES)
  overrides: Any = {key: n for key, n in given.items() if n is not None}
  return dataclasses.replace(PAPER_SIZES.get(name or '', Sizes()), **overrides)


def choose_train(
  labels: np.ndarray,
  groups: np.ndarray | None,
  sizes: Sizes,
  *,
  seed: int,
  stratified: bool,
) -> tuple[np.ndarray, np.ndarray]:
  """Divides a training part.

  Args:
    labels: int [N].
    groups: Images of one group are never divided between splits. int [N], or
      None.
    sizes: Number of images to use.
    seed: Fixes the choice.
    stratified: Keep the proportions of the classes.

  Returns:
    Rows for training and rows for validation, disjoint, each in ascending
    order.
  """
  total = len(labels)
  if sizes.train is not None:
    sizes.check('num_train', sizes.train, total)
  num_validation = sizes.validation
  if num_validation is None:
    left = total if sizes.train is None else total - sizes.train
    num_validation = min(total // SHARE, left)
  sizes.check('num_validation', num_validation, total)
  order = draws.order(seed, draws.CHOOSE_TRAIN, labels, stratified)
  cut = total - num_validation
  if groups is None:
    free, held = order[:cut], order[cut:]
  else:
    held = _group_order(labels, groups, seed, stratified)[cut:]
    # The rest of a group that was cut in two is used on neither side.
    free = order[~np.isin(groups, groups[held])[order]]
  num_train = len(free) if sizes.train is None else sizes.train
  if num_train > len(free):
    raise ValueError(
      f'num_train={num_train} and num_validation={num_validation} need more'
      f' images than there are: {len(free)} of {total} are left to train on;'
      f' ask for fewer{sizes.hint}'
    )
  return np.sort(free[:num_train]), np.sort(held)


def _group_order(
  labels: np.ndarray, groups: np.ndarray, seed: int, stratified: bool
) -> np.ndarray:
  """Returns all rows, group by group in random order."""
  _, first, group = np.unique(groups, return_index=True, return_inverse=True)
  order = draws.order(seed, draws.CHOOSE_TRAIN, labels[first], stratified)
  return np.argsort(np.argsort(order)[group], kind='stable')


def choose_test(
  labels: np.ndarray, sizes: Sizes, *, seed: int, stratified: bool
) -> np.ndarray:
  """Returns the rows of a test part to use, in ascending order."""
  if sizes.test is None:
    return np.arange(len(labels))
  sizes.check('num_test', sizes.test, len(labels))
  order = draws.order(seed, draws.CHOOSE_TEST, labels, stratified)
  return np.sort(order[: sizes.test])


def hold_out(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows for training and `count` rows for testing, stratified.

  The division is fixed: it belongs to the definition of a data set that comes
  without a test part.
  """
  order = draws.order(0, draws.CHOOSE_TEST, labels, stratified=True)
  cut = len(order) - count
  return np.sort(order[:cut]), np.sort(order[cut:])
