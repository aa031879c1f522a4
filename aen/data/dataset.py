"""Images with labels: splits, parts, and the data set made of them.

A part is train or test as published; a split is the portion of it in use.
Sequences, volumes and rows of tables count as images, on another grid than
(H, W); labels may be numbers to predict instead of classes.

Legend: N images of H x W pixels, with C channels if they are coloured.
"""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

from aen.data import splits as splits_lib
from aen.data import transform

# How the published experiments normalise every image, after transforming it.
PUBLISHED_MEAN = 0.1307
PUBLISHED_STD = 0.3081

_AXES = {1: ('L',), 2: ('H', 'W'), 3: ('D', 'H', 'W')}

NUMBERING = (
  'number the classes of train and test together, say by np.unique(labels,'
  ' return_inverse=True)[1]'
)


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
  """Images that are used together.

  Indices are positions in the official part, which for validation images is the
  training part. Images of one group (such as copies of one photograph) are
  never divided between splits.
  """

  images: np.ndarray  # uint8 or float32 [N, *grid] or [N, *grid, C]
  labels: np.ndarray  # int32 [N], from 0; float32 [N] if numbers
  indices: np.ndarray  # int64 [N]
  record: transform.Transformations | None = None  # of a G-data set
  groups: np.ndarray | None = None  # int [N]

  def __len__(self) -> int:
    return len(self.images)

  def take(self, rows: np.ndarray | slice) -> 'Split':
    """Returns some of the images."""
    fields = vars(self).items()
    taken: Any = {name: x if x is None else x[rows] for name, x in fields}
    return Split(**taken)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
  """A data set as published, not yet divided into splits."""

  train: Split
  test: Split
  class_names: tuple[str, ...]
  partial: bool = False  # only a part of an official set


def part(
  images: np.ndarray,
  labels: np.ndarray,
  groups: np.ndarray | None = None,
  record: transform.Transformations | None = None,
  *,
  where: str | pathlib.Path,
  grid_axes: int = 2,
) -> Split:
  """Checks and converts the arrays of one part; see `Split`.

  Labels of dtype float32 are numbers to predict; other labels are classes. A
  single channel is dropped. Images that are transformed already come with a
  record. Error messages begin with `where`.
  """
  try:
    images, labels = np.asarray(images), np.asarray(labels)
  except ValueError as error:  # rows of different lengths
    raise ValueError(
      f'{where}: expected arrays of images and labels, got lists whose entries'
      ' differ in length; give images of one size and one label each'
    ) from error
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
  num_channel_axes = images.ndim - 1 - grid_axes
  fits = num_channel_axes in (0, 1) and labels.shape == images.shape[:1]
  if not fits or not images.size:
    axes = ', '.join(_AXES.get(grid_axes, map(str, range(grid_axes))))
    raise ValueError(
      f'{where}: expected images [N, {axes}] or [N, {axes}, C], at least one,'
      f' and one label per image, got labels of shape {labels.shape} for images'
      f' of shape {images.shape}; reshape them, or add what is missing'
    )
  whole = labels.dtype.kind in 'iu'
  if labels.dtype == np.float32:
    if not np.isfinite(labels).all():
      raise ValueError(
        f'{where}: expected finite numbers to predict, got NaN or infinity;'
        ' leave those examples out'
      )
  elif whole and labels.min() >= 0 and labels.max() <= np.iinfo(np.int32).max:
    labels = labels.astype(np.int32)
  else:
    got = f'{labels.min()}…{labels.max()}' if whole else f'dtype {labels.dtype}'
    raise ValueError(
      f'{where}: expected whole labels from 0, got {got}; {NUMBERING}'
    )
  if num_channel_axes and images.shape[-1] == 1:
    images = images[..., 0]
  return Split(images, labels, np.arange(len(images)), record, groups)


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
  """A data set, ready to train on."""

  name: str  # as loaded; ends in -partial-… if only a part of an official set
  train: Split
  validation: Split  # out of the official training part
  test: Split
  class_names: tuple[str, ...]  # one per label; empty if labels are numbers
  partial: bool = False  # only a part of an official set
  grid_axes: int = 2  # the first axes of an image, on which symmetries act
  classes: tuple[Any, ...] = ()  # the user's labels; 0, 1, … by default

  @property
  def num_classes(self) -> int:
    """The number of classes; 0 if the labels are numbers."""
    return len(self.class_names)

  @property
  def num_outputs(self) -> int:
    """The number of outputs of a network: one per class, or one number."""
    return self.num_classes or 1

  @property
  def image_shape(self) -> tuple[int, ...]:
    """The shape of one image."""
    return self.train.images.shape[1:]

  @property
  def _splits(self) -> dict[str, Split]:
    return {n: getattr(self, n) for n in ('train', 'validation', 'test')}

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of exactly the images and labels in the three splits."""
    found = fingerprint(*self._splits.values())
    return f'partial-{found}' if self.partial else found

  def normalised(
    self, mean: float = PUBLISHED_MEAN, std: float = PUBLISHED_STD
  ) -> 'Dataset':
    """Returns the data set with float32 images (x / 255 - mean) / std.

    The published experiments use the default values for every data set. Images
    must be uint8: float images are used as they are.
    """
    if self.train.images.dtype != np.uint8:
      raise ValueError(
        f'normalised() needs uint8 images, got {self.train.images.dtype}:'
        ' float images are used as they are; leave it out, or call it once, on'
        ' uint8 images as loaded'
      )
    # Gathering from 256 levels is faster than arithmetic on all pixels.
    levels = ((np.arange(256) / 255 - mean) / std).astype(np.float32)
    scaled: Any = {
      name: dataclasses.replace(split, images=levels[split.images])
      for name, split in self._splits.items()
    }
    return dataclasses.replace(self, **scaled)

  def refold(self, seed: int) -> 'Dataset':
    """Redraws the division into training and validation images.

    Split sizes and test images stay the same, and groups stay undivided.
    """
    both = (self.train, self.validation)
    pooled: Any = {
      name: np.concatenate([getattr(split, name) for split in both])
      for name in ('images', 'labels', 'indices', 'groups')
      if getattr(self.train, name) is not None
    }
    pool = Split(**pooled)
    choice = splits_lib.Choice(validation=len(self.validation), seed=seed)
    train, validation = splits_lib.choose_train(
      pool.labels, pool.groups, choice
    )
    return dataclasses.replace(
      self, train=pool.take(train), validation=pool.take(validation)
    )

  def summary(self) -> str:
    """Describes in one line how the data were interpreted."""
    shape = '×'.join(map(str, self.image_shape[: self.grid_axes]))
    if channels := self.image_shape[self.grid_axes :]:
      shape += f' with {channels[0]} channels'
    counts = ' + '.join(str(len(split)) for split in self._splits.values())
    what = 'numbers to predict'
    if self.class_names:
      shown = ', '.join(self.class_names[:6])
      more = ', …' if self.num_classes > 6 else ''
      what = f'{self.num_classes} classes ({shown}{more})'
    return (
      f'{counts} training, validation and test examples of {shape}'
      f' (grid_axes={self.grid_axes}), {what}'
    )

  def __repr__(self) -> str:
    counts = '/'.join(str(len(split)) for split in self._splits.values())
    shape = ' x '.join(str(side) for side in self.image_shape)
    what = f'{self.num_classes} classes' if self.num_classes else 'numbers'
    return (
      f'Dataset({self.name!r}, {counts} train/validation/test images of'
      f' {shape}, {what})'
    )


def divide(
  parts: Parts,
  name: str,
  choice: splits_lib.Choice,
  config: transform.Config | None = None,
) -> Dataset:
  """Divides parts into splits, and transforms the images chosen."""
  train, validation = splits_lib.choose_train(
    parts.train.labels, parts.train.groups, choice
  )
  test = splits_lib.choose_test(parts.test.labels, choice)
  if parts.partial:
    name += f'-partial-{len(parts.train)}-{len(parts.test)}'
  return Dataset(
    name,
    transformed(parts.train.take(train), config, 'train'),
    transformed(parts.train.take(validation), config, 'train'),
    transformed(parts.test.take(test), config, 'test'),
    parts.class_names,
    parts.partial,
  )


def transformed(
  split: Split, config: transform.Config | None, part_name: str
) -> Split:
  """Transforms images of the part train or test as a config says.

  Images that were prepared in transformed form are returned unchanged.
  """
  if config is None or split.record is not None:
    return split
  side = split.images.shape[1]
  record = transform.draw(config, side, split.indices, split=part_name)
  images = transform.transform(split.images, record)
  return dataclasses.replace(split, images=images, record=record)
