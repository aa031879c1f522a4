"""Small images side by side: of a data set, of a layer's trained weights."""

from collections.abc import Sequence
import textwrap

from matplotlib import figure
import numpy as np

from aen.groups.orbits import as_shape
from aen.report import style

MAX_CLASSES = 10
_TITLE_LINE = 12  # characters
_MIN_COLUMNS = 5
_SIDE = 0.82  # inches


def sample_images(
  images: np.ndarray,
  labels: np.ndarray,
  class_names: Sequence[str],
  per_class: int = 4,
) -> figure.Figure:
  """Draws the first images of each class, a column per class.

  Args:
    images: uint8 or float, [N, H, W] or [N, H, W, C].
    labels: int [N].
    class_names: One per label; of more than ten classes, the first ten with
      images are drawn.
    per_class: Rows.
  """
  images, labels = np.asarray(images), np.asarray(labels)
  classes = np.unique(labels)[:MAX_CLASSES]
  if not classes.size:
    raise ValueError('sample images need images, got none')
  low, high = 0, 255
  if images.dtype != np.uint8:
    low, high = float(images.min()), float(images.max())
  height = _SIDE * images.shape[1] / images.shape[2]
  width = _SIDE * max(_MIN_COLUMNS, classes.size)
  drawn = style.sheet(width + 0.3, height * per_class + 0.25)
  grid = drawn.subplots(per_class, classes.size, squeeze=False)
  for column, label in zip(grid.T, classes, strict=True):
    chosen = images[np.flatnonzero(labels == label)[:per_class]]
    for ax in column[len(chosen) :]:
      ax.set_axis_off()
    for ax, image in zip(column, chosen, strict=False):
      image = (image.astype(np.float32) - low) / ((high - low) or 1)
      if image.ndim == 3 and image.shape[-1] != 3:
        image = image.mean(axis=-1)
      ax.imshow(image, cmap='gray', vmin=0, vmax=1)
      style.framed(ax)
    name = textwrap.shorten(class_names[label], 3 * _TITLE_LINE)
    name = style.literal(textwrap.fill(name, _TITLE_LINE))
    column[0].set_title(name, fontsize=style.MEDIUM)
  return drawn


def kernel_images(
  kernel: np.ndarray,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  outputs: Sequence[int] | np.ndarray,
) -> figure.Figure:
  """Draws some columns of a dense layer's kernel as images.

  Args:
    kernel: [N, M].
    in_shape: The grid of the inputs, (H, W).
    out_shape: The grid of the outputs.
    outputs: Which output points.
  """
  images = [np.reshape(kernel[:, j], as_shape(in_shape)) for j in outputs]
  limit = max(float(np.abs(image).max()) for image in images) or 1.0
  columns = min(4, len(images))
  rows = -(-len(images) // columns)
  drawn = style.sheet(1.2 + 1.7 * columns, 0.45 + 1.9 * rows)
  grid = drawn.subplots(rows, columns, squeeze=False).ravel()
  for ax in grid[len(images) :]:
    ax.set_visible(False)
  for ax, image, j in zip(grid, images, outputs, strict=False):
    shown = ax.imshow(image, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
    style.framed(ax)
    place = ', '.join(map(str, np.unravel_index(j, as_shape(out_shape))))
    ax.set_title(f'output ({place})', fontsize=style.MEDIUM)
  drawn.supxlabel('input column', fontsize=style.MEDIUM)
  drawn.supylabel('input row', fontsize=style.MEDIUM)
  style.colorbar(drawn, shown, 'weight', ax=list(grid), pad=0.02)
  return drawn
