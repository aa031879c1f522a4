"""Images with labels: splits, parts, and the data set made of them.

A part is what a source publishes, train or test; a split is what is used of it.

Legend: N images of H x W pixels, with C channels if they are coloured.
"""

from collections.abc import Sequence
import dataclasses
import functools
import hashlib
import pathlib
from typing import NamedTuple

import numpy as np

from aen.data import splits as splits_lib
from aen.data import transform

# How the published experiments normalise every image, after transforming it.
PUBLISHED_MEAN = 0.1307
PUBLISHED_STD = 0.3081

Rows = np.ndarray | slice

NUMBERING = (
  'number the classes of train and test together, say by np.unique(labels,'
  ' return_inverse=True)[1]'
)


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
  """Images that are used together.

  Attributes:
    images: uint8 [N, H, W] or [N, H, W, C]; float32 once normalised, or if a
      user's own are.
    labels: int32 [N], from 0.
    indices: The images' positions in the official part they come from (that of
      validation images is the training part). int64 [N].
    record: What was done to each image of a G-data set, else None.
    groups: Images with equal numbers belong together (say, copies of one
      photograph) and are never divided between splits. int [N], or None.
  """

  images: np.ndarray
  labels: np.ndarray
  indices: np.ndarray
  record: transform.Transformations | None = None
  groups: np.ndarray | None = None

  def __len__(self) -> int:
    return len(self.images)

  def take(self, rows: Rows) -> 'Split':
    """Returns some of the images."""
    return Split(
      self.images[rows],
      self.labels[rows],
      self.indices[rows],
      None if self.record is None else self.record[rows],
      None if self.groups is None else self.groups[rows],
    )


class Parts(NamedTuple):
  """The training and test parts of a data set, as its source gives them."""

  train: Split
  test: Split


def part(
  images: np.ndarray,
  labels: np.ndarray,
  groups: np.ndarray | None = None,
  record: transform.Transformations | None = None,
  *,
  where: str | pathlib.Path,
) -> Split:
  """Checks and normalises the types of one part.

  Args:
    images: uint8 or float [N, H, W] or [N, H, W, C]; an axis of one channel is
      dropped.
    labels: Whole numbers from 0. [N].
    groups: [N], or None.
    record: What was done to images that are transformed already, or None.
    where: What error messages call the source.
  """
  images, labels = np.asarray(images), np.asarray(labels)
  if images.dtype.kind == 'f':
    with np.errstate(over='ignore'):
      images = images.astype(np.float32)
    if not np.isfinite(images).all():
      raise ValueError(
        f'{where}: expected finite pixels, got NaN or infinity; replace them,'
        ' say by np.nan_to_num(images)'
      )
  elif images.dtype != np.uint8:
    raise ValueError(
      f'{where}: expected images as uint8 (values 0…255) or float, got'
      f' {images.dtype}; convert them with images.astype'
    )
  if images.ndim not in (3, 4):
    raise ValueError(
      f'{where}: expected images [N, H, W] or [N, H, W, C], got shape'
      f' {images.shape}; reshape them'
    )
  if labels.shape != images.shape[:1]:
    raise ValueError(
      f'{where}: expected one label per image, got labels of shape'
      f' {labels.shape} for {len(images)} images; give as many labels as images'
    )
  if not images.size:
    raise ValueError(
      f'{where}: expected at least one image, got an array of shape'
      f' {images.shape}; add images'
    )
  wrong = ''
  if labels.dtype.kind not in 'iu':
    wrong = f'dtype {labels.dtype}'
  elif (low := labels.min()) < 0:
    wrong = str(low)
  elif (high := labels.max()) > np.iinfo(np.int32).max:
    wrong = str(high)
  if wrong:
    raise ValueError(
      f'{where}: expected whole labels from 0, got {wrong}; {NUMBERING}'
    )
  if images.ndim == 4 and images.shape[-1] == 1:
    images = images[..., 0]
  indices = np.arange(len(images))
  return Split(images, labels.astype(np.int32), indices, record, groups)


def cut(images: Split, train: Rows, test: Rows) -> Parts:
  """Divides images into parts, each with positions of its own from 0."""

  def take(rows: Rows) -> Split:
    some = images.take(rows)
    return dataclasses.replace(some, indices=np.arange(len(some)))

  return Parts(take(train), take(test))


def fingerprint(*splits: Split) -> str:
  """Returns a hash of exactly the images and labels in some splits."""
  digest = hashlib.sha256()
  for split in splits:
    for array in (split.images, split.labels):
      digest.update(f'{array.dtype.str}{array.shape}'.encode())
      digest.update(np.ascontiguousarray(array).data)
  return digest.hexdigest()[:32]


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
  """A data set, ready to train on.

  Attributes:
    name: What was loaded; it says so if that is only a part of a set.
    train: Images to train on.
    validation: Images to choose by, out of the official training part.
    test: Images to report on.
    class_names: One per label.
    partial: Whether this is a part of an official set, not the whole.
  """

  name: str
  train: Split
  validation: Split
  test: Split
  class_names: tuple[str, ...]
  partial: bool = False

  @property
  def num_classes(self) -> int:
    """The number of classes."""
    return len(self.class_names)

  @property
  def image_shape(self) -> tuple[int, ...]:
    """The shape of one image."""
    return self.train.images.shape[1:]

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of exactly the images and labels in the three splits."""
    found = fingerprint(self.train, self.validation, self.test)
    return f'partial-{found}' if self.partial else found

  def normalised(
    self, mean: float = PUBLISHED_MEAN, std: float = PUBLISHED_STD
  ) -> 'Dataset':
    """Returns the data set with float32 images (x / 255 - mean) / std.

    The defaults are those of the published experiments, for every set. Float
    images are used as they are, and refused here.
    """
    if self.train.images.dtype != np.uint8:
      raise ValueError(
        f'normalised() needs uint8 images, got {self.train.images.dtype}:'
        ' float images are used as they are; leave it out, or call it once, on'
        ' uint8 images as loaded'
      )
    # One value per grey level: a gather is faster than arithmetic on pixels.
    levels = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
    train, validation, test = (
      dataclasses.replace(split, images=levels[split.images])
      for split in (self.train, self.validation, self.test)
    )
    return dataclasses.replace(
      self, train=train, validation=validation, test=test
    )

  def refold(self, seed: int) -> 'Dataset':
    """Redraws the division into training and validation images.

    The numbers of images and the test images stay the same, and images of one
    group stay on one side.
    """
    both = (self.train, self.validation)
    images, labels, indices = (
      np.concatenate([getattr(split, name) for split in both])
      for name in ('images', 'labels', 'indices')
    )
    groups = None
    if self.train.groups is not None:
      groups = np.concatenate([split.groups for split in both])
    pool = Split(images, labels, indices, groups=groups)
    sizes = splits_lib.Sizes(validation=len(self.validation))
    train, validation = splits_lib.choose_train(
      labels, groups, sizes, seed=seed, stratified=True
    )
    return dataclasses.replace(
      self, train=pool.take(train), validation=pool.take(validation)
    )

  def __repr__(self) -> str:
    counts = '/'.join(
      str(len(split)) for split in (self.train, self.validation, self.test)
    )
    shape = ' x '.join(str(side) for side in self.image_shape)
    return (
      f'Dataset({self.name!r}, {counts} train/validation/test images of'
      f' {shape}, {self.num_classes} classes)'
    )


def divide(
  parts: Parts,
  name: str,
  class_names: Sequence[str],
  *,
  sizes: splits_lib.Sizes,
  seed: int,
  stratified: bool,
  config: transform.Config | None = None,
  partial: bool = False,
) -> Dataset:
  """Divides official parts into splits, and transforms the images chosen."""
  train, validation = splits_lib.choose_train(
    parts.train.labels,
    parts.train.groups,
    sizes,
    seed=seed,
    stratified=stratified,
  )
  test = splits_lib.choose_test(
    parts.test.labels, sizes, seed=seed, stratified=stratified
  )
  return Dataset(
    name=name,
    train=transformed(parts.train.take(train), config, 'train'),
    validation=transformed(parts.train.take(validation), config, 'train'),
    test=transformed(parts.test.take(test), config, 'test'),
    class_names=tuple(class_names),
    partial=partial,
  )


def transformed(
  split: Split, config: transform.Config | None, part_name: str
) -> Split:
  """Returns images of the part train or test, as a config transforms them.

  Images that were transformed when they were prepared stay as they are.
  """
  if config is None or split.record is not None:
    return split
  side = split.images.shape[1]
  record = transform.draw(config, side, split.indices, split=part_name)
  images = transform.transform(split.images, record)
  return dataclasses.replace(split, images=images, record=record)
