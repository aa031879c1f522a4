"""What loading gives: three splits, class names and a fingerprint.

Legend: N images of H x W pixels, with C channels if they are coloured.
"""

from collections.abc import Sequence
import dataclasses
import functools
import hashlib

import numpy as np

from aen.data import splits
from aen.data import transform
from aen.data.arrays import Part
from aen.data.arrays import Parts

# How the published experiments normalise every image, after transforming it.
PUBLISHED_MEAN = 0.1307
PUBLISHED_STD = 0.3081


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
  """Images that are used together.

  Attributes:
    images: uint8 [N, H, W] or [N, H, W, C]; float32 once normalised.
    labels: int32 [N].
    indices: The images' positions in the official part they come from (that of
      validation images is the training part). int64 [N].
    record: What was done to each image of a G-data set, else None.
    groups: Images with equal numbers belong together, as in `arrays.Part`.
  """

  images: np.ndarray
  labels: np.ndarray
  indices: np.ndarray
  record: transform.Record | None = None
  groups: np.ndarray | None = None

  def __len__(self) -> int:
    return len(self.images)

  def take(self, rows: np.ndarray) -> 'Split':
    """Returns some of the images."""
    record = None if self.record is None else self.record[rows]
    groups = None if self.groups is None else self.groups[rows]
    return Split(
      self.images[rows],
      self.labels[rows],
      self.indices[rows],
      record,
      groups,
    )


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
    return 'partial-' * self.partial + found

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
    """Divides training and validation images anew, in the same numbers.

    Images that belong together stay on one side. The test images stay.
    """
    both = (self.train, self.validation)
    groups = None
    if self.train.groups is not None:
      groups = np.concatenate([split.groups for split in both])
    images, labels, indices = (
      np.concatenate([getattr(split, name) for split in both])
      for name in ('images', 'labels', 'indices')
    )
    pool = Split(images, labels, indices, groups=groups)
    train, validation = splits.choose_train(
      Part(pool.images, pool.labels, groups),
      splits.Sizes(validation=len(self.validation)),
      seed=seed,
      stratified=True,
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
  sizes: splits.Sizes,
  seed: int,
  stratified: bool,
  config: transform.Config | None = None,
  partial: bool = False,
) -> Dataset:
  """Divides official parts into splits, and transforms the images chosen."""
  train, validation = splits.choose_train(
    parts.train, sizes, seed=seed, stratified=stratified
  )
  test = splits.choose_test(parts.test, sizes, seed=seed, stratified=stratified)
  return Dataset(
    name=name,
    train=_split(parts.train, train, 'train', config),
    validation=_split(parts.train, validation, 'train', config),
    test=_split(parts.test, test, 'test', config),
    class_names=tuple(class_names),
    partial=partial,
  )


def _split(
  part: Part,
  rows: np.ndarray,
  split: str,
  config: transform.Config | None,
) -> Split:
  chosen = part[rows]
  images, record = chosen.images, chosen.record
  if config is not None and record is None:
    record = transform.draw(config, images.shape[1], rows, split=split)
    images = transform.transform(images, record)
  return Split(images, chosen.labels, rows, record, chosen.groups)
