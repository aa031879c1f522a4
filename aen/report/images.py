"""Small images side by side, of a data set or of a layer's trained weights."""

from collections.abc import Sequence
import textwrap
from typing import Any

from matplotlib import figure
from matplotlib import patches
import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.report import style

MAX_CLASSES = 10
_LINE = 12  # characters of a title
_MIN_COLUMNS = 5
_SIDE = 0.82  # inches
_MAX_SYMMETRIES = 6  # columns of transformed images


def sample_images(
  images: np.ndarray,
  labels: np.ndarray,
  class_names: Sequence[str],
  per_class: int = 4,
  grid_axes: int = 2,
) -> figure.Figure:
  """Draws the first images of each class, a column per class.

  Args:
    images: uint8 or float, [N, H, W] or [N, H, W, C], or of other grids.
    labels: int [N].
    class_names: One per label; of more than ten classes, the first ten with
      images are drawn.
    per_class: Rows.
    grid_axes: How many axes of an image are its grid; see `as_picture`.
  """
  images, labels = np.asarray(images), np.asarray(labels)
  classes = np.unique(labels)[:MAX_CLASSES]
  if not classes.size:
    raise ValueError('sample images need images, got none')
  columns = [
    _scaled(images[np.flatnonzero(labels == label)[:per_class]], images)
    for label in classes
  ]
  short = [textwrap.shorten(class_names[n], 3 * _LINE) for n in classes]
  names = [textwrap.fill(name, _LINE) for name in short]
  return _gallery(columns, names, grid_axes, _SIDE)


def _gallery(
  columns: Sequence[np.ndarray],
  titles: Sequence[str],
  grid_axes: int,
  side: float,
) -> figure.Figure:
  """Draws columns of examples, each image in a thin frame `side` inches wide.

  Uses one `Axes`, because creating many takes Matplotlib most of its time.
  """
  across, down = len(columns), max(map(len, columns))
  rows, pixels = as_picture(columns[0][0], grid_axes).shape[:2]
  height, gap = max(0.25, rows / pixels), 0.1  # relative to an image's width
  width = side * max(_MIN_COLUMNS, across) + 0.3
  drawn, ax = style.chart(width, side * (height + gap) * down + 0.3)
  lefts = ((1 + gap) * np.arange(across)).tolist()
  for left, title, column in zip(lefts, titles, columns, strict=True):
    title = style.literal(title)
    ax.text(left + 0.5, -gap, title, fontsize=style.MEDIUM, ha='center')
    for row, image in enumerate(column):
      top = row * (height + gap)
      extent = (left, left + 1, top + height, top)
      picture = as_picture(image, grid_axes)
      ax.imshow(picture, cmap='gray', vmin=0, vmax=1, extent=extent)
      frame = patches.Rectangle((left, top), 1, height, fill=False)
      frame.set(edgecolor=style.GREY, linewidth=0.5, clip_on=False)
      ax.add_patch(frame)
  ax.set(xlim=(0, across + gap * (across - 1)), aspect='equal')
  ax.set_ylim(down * (height + gap) - gap, 0)
  ax.set_axis_off()
  return drawn


def _scaled(chosen: np.ndarray, images: np.ndarray) -> np.ndarray:
  """Scales some of the images to values from 0 (black) to 1 (white)."""
  low, high = 0.0, 255.0
  if images.dtype != np.uint8:
    low, high = float(images.min()), float(images.max())
  return (chosen.astype(np.float32) - low) / ((high - low) or 1)


def as_picture(image: np.ndarray, grid_axes: int) -> np.ndarray:
  """Returns an example as a picture, [H, W] or [H, W, 3].

  A sequence becomes a row of pixels, or one row per channel; a volume becomes
  its middle slice; channels other than three colours are averaged.
  """
  if grid_axes == 1:
    return image[None] if image.ndim == 1 else image.T
  while grid_axes > 2:
    image, grid_axes = image[image.shape[0] // 2], grid_axes - 1
  colours = image.ndim == 3 and image.shape[-1] == 3
  return image if image.ndim == 2 or colours else image.mean(axis=-1)


def transformed_images(
  images: np.ndarray,
  symmetries: symmetries_lib.SymmetryLike,
  grid: Sequence[int],
) -> figure.Figure:
  """Draws images, [n, *grid] or [n, *grid, C], and their transformed copies.

  There is a row for each image, and a column for each symmetry.
  """
  chosen = symmetries_lib.as_symmetries(symmetries)[:_MAX_SYMMETRIES]
  scaled = _scaled(images, images)
  flat = scaled.reshape(len(images), -1, *images.shape[1 + len(grid) :])
  copies = [flat[:, symmetries_lib.permutation(s, grid)] for s in chosen]
  names = ('an example', *(symmetry.name for symmetry in chosen))
  return _gallery(
    [scaled, *(copy.reshape(scaled.shape) for copy in copies)],
    [textwrap.fill(name.replace('_', ' '), 16) for name in names],
    len(grid),
    1.5 * _SIDE,
  )


def kernel_images(
  kernel: np.ndarray,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  outputs: Sequence[int] | np.ndarray,
) -> figure.Figure:
  """Draws the columns of a dense layer's kernel [N, M] for some output points.

  Each is a picture of the grid of the inputs, see `as_picture`.
  """
  grid, out_grid = map(symmetries_lib.as_shape, (in_shape, out_shape))
  pictures = [
    as_picture(np.reshape(kernel[:, j], grid), len(grid)) for j in outputs
  ]
  limit = max(float(np.abs(picture).max()) for picture in pictures) or 1.0
  columns = min(4, len(pictures))
  rows = -(-len(pictures) // columns)
  drawn = style.sheet(1.2 + 1.7 * columns, 0.45 + 1.9 * rows)
  places = drawn.subplots(rows, columns, squeeze=False).ravel()
  for ax in places[len(pictures) :]:
    ax.set_visible(False)
  aspect: Any = 'equal' if len(grid) > 1 else 'auto'
  scale: Any = {'cmap': style.DIVERGING, 'vmin': -limit, 'vmax': limit}
  for ax, picture, j in zip(places, pictures, outputs, strict=False):
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=style.GREY, linewidth=0.5)
    shown = ax.imshow(picture, aspect=aspect, **scale)
    place = ', '.join(map(str, np.unravel_index(j, out_grid)))
    ax.set_title(f'output ({place})', fontsize=style.MEDIUM)
  drawn.supxlabel('input column', fontsize=style.MEDIUM)
  drawn.supylabel('input row', fontsize=style.MEDIUM)
  style.colorbar(drawn, shown, 'weight', ax=list(places), pad=0.02)
  return drawn
