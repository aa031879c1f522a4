"""Which images are used: chosen by seed, validation always out of train.

Choices for the same seed are nested: more training images contain the fewer
ones, and the training images do not depend on how many validate.
"""

from collections.abc import Mapping
import dataclasses
import numbers
import types

import numpy as np

from aen.data import draws
from aen.data import errors
from aen.data.arrays import Part

# Without a number, one image in six of the training part is for validation.
VALIDATION_SHARE = 6


@dataclasses.dataclass(frozen=True)
class Sizes:
  """How many images to use; None means all there are."""

  train: int | None = None
  validation: int | None = None  # None: a sixth, or what `train` leaves
  test: int | None = None
  paper: str = dataclasses.field(default='', compare=False)  # for messages

  @property
  def hint(self) -> str:
    """How to go on if there are too few images."""
    if not self.paper:
      return ''
    return (
      f' (numbers not given come from size={self.paper!r}; give num_train,'
      ' num_validation or num_test to override it)'
    )


# What the paper trains and scores on: children of the MLP search, networks
# trained again, and children of the G-CNN search. Scores that steer a search
# come from validation images here, never from the test set.
PAPER_SIZES: Mapping[str, Sizes] = types.MappingProxyType(
  {
    'search': Sizes(train=4000, validation=1000, paper='search'),
    'retrain': Sizes(train=10000, test=1000, paper='retrain'),
    'gcnn': Sizes(train=6000, validation=1000, paper='gcnn'),
  }
)


def paper_sizes(name: str) -> Sizes:
  """Returns the sizes of one of the paper's experiments."""
  if name not in PAPER_SIZES:
    raise errors.unknown('size', name, PAPER_SIZES)
  return PAPER_SIZES[name]


def choose_train(
  part: Part, sizes: Sizes, *, seed: int, stratified: bool
) -> tuple[np.ndarray, np.ndarray]:
  """Divides a training part.

  Args:
    part: N images; those of one group never fall on both sides.
    sizes: How many to use.
    seed: Fixes the choice.
    stratified: Keep the proportions of the classes.

  Returns:
    Rows for training and rows for validation, disjoint, each in ascending
    order.
  """
  total = len(part)
  _check_size('num_train', sizes.train, total, sizes.hint)
  num_validation = sizes.validation
  if num_validation is None:
    left = total if sizes.train is None else total - sizes.train
    num_validation = min(total // VALIDATION_SHARE, left)
  _check_size('num_validation', num_validation, total, sizes.hint)
  held, free = _hold_out(part, num_validation, seed, stratified)
  num_train = len(free) if sizes.train is None else sizes.train
  if num_train > len(free):
    raise ValueError(
      f'num_train={num_train} and num_validation={num_validation} need more'
      f' images than there are: {len(free)} of {total} are left to train on;'
      f' ask for fewer{sizes.hint}'
    )
  return np.sort(free[:num_train]), np.sort(held)


def choose_test(
  part: Part, sizes: Sizes, *, seed: int, stratified: bool
) -> np.ndarray:
  """Returns the rows of a test part to use, in ascending order."""
  _check_size('num_test', sizes.test, len(part), sizes.hint)
  if sizes.test is None:
    return np.arange(len(part))
  order = draws.order(seed, draws.CHOOSE_TEST, part.labels, stratified)
  return np.sort(order[: sizes.test])


def _check_size(option: str, size: int | None, total: int, hint: str) -> None:
  if size is None:
    return
  if not isinstance(size, numbers.Integral):
    raise ValueError(
      f'{option}={size!r}: expected a whole number of images, got'
      f' {type(size).__name__}; ask for 0…{total}'
    )
  if not 0 <= size <= total:
    raise ValueError(
      f'{option}={size} is impossible: that part has {total} images; ask for'
      f' 0…{total}{hint}'
    )


def _hold_out(
  part: Part, count: int, seed: int, stratified: bool
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `count` rows to hold out and the rows that may be trained on."""
  order = draws.order(seed, draws.CHOOSE_TRAIN, part.labels, stratified)
  if part.groups is None:
    cut = len(order) - count
    return order[cut:], order[:cut]
  by_group = _in_group_order(part, seed, stratified)
  held = by_group[len(by_group) - count :]
  # The rest of a group that was cut in two is used on neither side.
  apart = ~np.isin(part.groups, part.groups[held])
  return held, order[apart[order]]


def _in_group_order(part: Part, seed: int, stratified: bool) -> np.ndarray:
  """Returns all rows, whole groups after each other in random order."""
  assert part.groups is not None
  _, first, group = np.unique(
    part.groups, return_index=True, return_inverse=True
  )
  order = draws.order(seed, draws.CHOOSE_TRAIN, part.labels[first], stratified)
  position = np.empty(len(order), np.int64)
  position[order] = np.arange(len(order))
  return np.argsort(position[group], kind='stable')
