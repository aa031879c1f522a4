"""Which images are used: chosen by seed, validation always out of train.

Splits of one seed are nested: a larger training split contains the smaller
ones, and it does not depend on the number of validation images.

Legend: N images of a part.
"""

from collections.abc import Mapping
import dataclasses
import numbers
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import draws

# By default, one image in six of the training part is used for validation, and
# one in six of a user's images for testing.
SHARE = 6


@dataclasses.dataclass(frozen=True)
class Choice:
  """How many images to use (None for all), and which."""

  train: int | None = None
  validation: int | None = None  # None: a sixth, or what `train` leaves
  test: int | None = None
  seed: int = 0
  stratified: bool = True  # the classes keep their proportions
  hint: str = dataclasses.field(default='', compare=False)  # of error messages

  def checked(self, split: str, default: int, total: int) -> int:
    """Returns the size of a split, checked to be at most `total`."""
    size: int | None = getattr(self, split)
    if size is None:
      return default
    if not isinstance(size, numbers.Integral) or not 0 <= size <= total:
      raise ValueError(
        f'num_{split}={size!r} is impossible: expected a whole number of images'
        f' out of a part of {total} images; ask for 0…{total}{self.hint}'
      )
    return int(size)


# The paper's experiments: children of the MLP search, retrained networks, and
# children of the G-CNN search. Here, searches are guided by scores on
# validation images, never on the test set.
PAPER_SIZES: Mapping[str, Choice] = {
  'search': Choice(train=4000, validation=1000),
  'retrain': Choice(train=10000, test=1000),
  'gcnn': Choice(train=6000, validation=1000),
}


def paper_sizes(name: str | None, **given: int | None) -> Choice:
  """Returns the named sizes of the paper, if any; given numbers override."""
  changes: Any = {key: n for key, n in given.items() if n is not None}
  if not name:
    return Choice(**changes)
  if name not in PAPER_SIZES:
    raise io_lib.unknown('size', name, PAPER_SIZES)
  changes['hint'] = (
    f' (numbers not given come from size={name!r}; give num_train,'
    ' num_validation or num_test to override it)'
  )
  return dataclasses.replace(PAPER_SIZES[name], **changes)


def choose_train(
  labels: np.ndarray, groups: np.ndarray | None, choice: Choice
) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows for training and for validation, disjoint and ascending.

  Images of one group (int [N]; by default, each is its own) are never divided
  between the two.
  """
  total = len(labels)
  left = total - choice.checked('train', 0, total)
  default = min(total // SHARE, left)
  num_validation = choice.checked('validation', default, total)
  if groups is None:
    groups = np.arange(total)
  # Groups are taken in random order until validation has its size.
  _, first, group = np.unique(groups, return_index=True, return_inverse=True)
  which = choice.seed, draws.CHOOSE_TRAIN
  order = draws.order(*which, labels[first], choice.stratified)
  by_group = np.argsort(np.argsort(order)[group], kind='stable')
  held = by_group[total - num_validation :]
  # The rest of a group that is only partly needed is not used at all.
  order = draws.order(*which, labels, choice.stratified)
  free = order[~np.isin(groups, groups[held])[order]]
  num_train = len(free) if choice.train is None else choice.train
  if num_train > len(free):
    raise ValueError(
      f'num_train={num_train} and num_validation={num_validation} need more'
      f' images than there are: {len(free)} of {total} are left to train on;'
      f' ask for fewer{choice.hint}'
    )
  return np.sort(free[:num_train]), np.sort(held)


def choose_test(labels: np.ndarray, choice: Choice) -> np.ndarray:
  """Returns the rows of a test part to use, in ascending order."""
  num_test = choice.checked('test', len(labels), len(labels))
  which = choice.seed, draws.CHOOSE_TEST
  order = draws.order(*which, labels, choice.stratified)
  return np.sort(order[:num_test])


def near_copies(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Groups near-duplicate images of the same class; returns int [N].

  Groups are the connected components of the graph that joins two images of a
  class if their pixels have a correlation above 0.9.
  """
  from scipy import sparse  # slow to import

  groups = np.zeros(len(labels), np.int64)
  for label in np.unique(labels):
    rows = np.flatnonzero(labels == label)
    pixels = images[rows].reshape(len(rows), -1).astype(np.float64)
    # Sums of integers are exact, so the result is the same on all machines.
    sums, count = pixels.sum(1), pixels.shape[1]
    covariances = count * (pixels @ pixels.T) - np.outer(sums, sums)
    deviations = np.sqrt(np.diagonal(covariances))
    near = covariances > 0.9 * np.outer(deviations, deviations)
    np.fill_diagonal(near, True)  # also of constant images
    _, found = sparse.csgraph.connected_components(near, directed=False)
    groups[rows] = groups.max() + 1 + found
  return groups


def hold_out(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows for training and `count` rows for testing, stratified.

  The division has no seed: it is part of the definition of a data set that is
  published without a test part.
  """
  order = draws.order(0, draws.CHOOSE_TEST, labels, stratified=True)
  cut = len(order) - count
  return np.sort(order[:cut]), np.sort(order[cut:])
