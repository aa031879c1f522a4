"""The arrays of a whole data set, as its source gives them.

Legend: N images of H x W pixels, with C channels if they are coloured.
"""

import dataclasses
import pathlib

import numpy as np

from aen.data import transform

NUMBERING = (
  'number the classes of train and test together, say by np.unique(labels,'
  ' return_inverse=True)[1]'
)


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
  """One part, train or test, in the order of the source.

  Attributes:
    images: uint8 (float32 if a user's own) [N, H, W] or [N, H, W, C].
    labels: int32 [N], from 0.
    groups: Images with equal numbers belong together (say, copies of one
      photograph) and are never divided between splits. int [N], or None.
    record: What was done to images that are transformed already, or None.
  """

  images: np.ndarray
  labels: np.ndarray
  groups: np.ndarray | None = None
  record: transform.Record | None = None

  def __len__(self) -> int:
    return len(self.images)

  def __getitem__(self, rows: np.ndarray | slice) -> 'Part':
    groups = None if self.groups is None else self.groups[rows]
    record = None if self.record is None else self.record[rows]
    return Part(self.images[rows], self.labels[rows], groups, record)


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
  """A data set's official training and test parts."""

  train: Part
  test: Part


def part(
  images: np.ndarray,
  labels: np.ndarray,
  groups: np.ndarray | None = None,
  *,
  where: str | pathlib.Path,
) -> Part:
  """Checks and normalises the types of one part.

  Args:
    images: uint8 or float [N, H, W] or [N, H, W, C]; an axis of one channel is
      dropped.
    labels: Whole numbers from 0. [N].
    groups: [N], or None.
    where: What error messages call the source.
  """
  images, labels = np.asarray(images), np.asarray(labels)
  if images.dtype.kind == 'f':
    with np.errstate(over='ignore'):  # own.py refuses infinite pixels
      images = images.astype(np.float32)
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
  _check_labels(labels, where)
  if images.ndim == 4 and images.shape[-1] == 1:
    images = images[..., 0]
  return Part(images, labels.astype(np.int32), groups)


def _check_labels(labels: np.ndarray, where: str | pathlib.Path) -> None:
  if labels.dtype.kind not in 'iu':
    raise ValueError(
      f'{where}: expected whole labels from 0, got dtype {labels.dtype};'
      f' {NUMBERING}'
    )
  low, high = labels.min(initial=0), labels.max(initial=0)
  if low < 0 or high > np.iinfo(np.int32).max:
    raise ValueError(
      f'{where}: expected whole labels from 0, got {low if low < 0 else high};'
      f' {NUMBERING}'
    )
