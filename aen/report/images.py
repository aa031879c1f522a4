"""Small images side by side: of a data set, of a layer's trained weights."""

from collections.abc import Sequence
import textwrap
from typing import Any

from matplotlib import axes
from matplotlib import figure
from matplotlib import image as image_lib
import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import permutation
from aen.report import style

MAX_CLASSES = 10
_TITLE_LINE = 12  # characters
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
  height = _SIDE * _height(images[0], grid_axes)
  width = _SIDE * max(_MIN_COLUMNS, classes.size)
  drawn = style.sheet(width + 0.3, height * per_class + 0.25)
  grid = drawn.subplots(per_class, classes.size, squeeze=False)
  for column, label in zip(grid.T, classes, strict=True):
    chosen = images[np.flatnonzero(labels == label)[:per_class]]
    for ax in column[len(chosen) :]:
      ax.set_axis_off()
    for ax, image in zip(column, _scaled(chosen, images), strict=False):
      _draw(ax, as_picture(image, grid_axes), grid_axes)
    name = textwrap.shorten(class_names[label], 3 * _TITLE_LINE)
    name = style.literal(textwrap.fill(name, _TITLE_LINE))
    column[0].set_title(name, fontsize=style.MEDIUM)
  return drawn


def _scaled(chosen: np.ndarray, images: np.ndarray) -> np.ndarray:
  """Returns some of the images with values from 0, black, to 1, white."""
  low, high = 0.0, 255.0
  if images.dtype != np.uint8:
    low, high = float(images.min()), float(images.max())
  return (chosen.astype(np.float32) - low) / ((high - low) or 1)


def as_picture(image: np.ndarray, grid_axes: int) -> np.ndarray:
  """Returns an example as a picture, [H, W] or [H, W, 3].

  A sequence is a row of pixels, with channels a row each; of a volume, the
  middle slice is shown; channels other than three colours are averaged.
  """
  if grid_axes == 1:
    return image[None] if image.ndim == 1 else image.T
  while grid_axes > 2:
    image, grid_axes = image[image.shape[0] // 2], grid_axes - 1
  colours = image.ndim == 3 and image.shape[-1] == 3
  return image if image.ndim == 2 or colours else image.mean(axis=-1)


def _height(image: np.ndarray, grid_axes: int) -> float:
  """Returns the height of a picture relative to its width, within reason."""
  rows, columns = as_picture(image, grid_axes).shape[:2]
  return max(0.25, rows / columns)


def _draw(
  ax: axes.Axes,
  picture: np.ndarray,
  grid_axes: int,
  cmap: str = 'gray',
  low: float = 0,
  high: float = 1,
) -> image_lib.AxesImage:
  """Draws a picture in a thin frame, without ticks."""
  aspect: Any = 'equal' if grid_axes > 1 else 'auto'
  ax.set(xticks=[], yticks=[])
  ax.spines[:].set(visible=True, color=style.GREY, linewidth=0.5)
  return ax.imshow(picture, cmap=cmap, vmin=low, vmax=high, aspect=aspect)


def transformed_images(
  images: np.ndarray,
  symmetries: symmetries_lib.SymmetryLike,
  grid: Sequence[int],
) -> figure.Figure:
  """Draws images beside what each symmetry makes of them.

  Args:
    images: A row each, [n, *grid] or [n, *grid, C].
    symmetries: A column each.
    grid: The grid.
  """
  chosen = symmetries_lib.as_symmetries(symmetries)[:_MAX_SYMMETRIES]
  rest, side = images.shape[1 + len(grid) :], 1.5 * _SIDE
  drawn = style.sheet(
    side * max(4, 1 + len(chosen)) + 0.3,
    side * _height(images[0], len(grid)) * len(images) + 0.45,
  )
  table = drawn.subplots(len(images), 1 + len(chosen), squeeze=False)
  for row, image in zip(table, _scaled(images, images), strict=True):
    flat = image.reshape(-1, *rest)
    copies = [flat[permutation(symmetry, grid)] for symmetry in chosen]
    for ax, copy in zip(row, (flat, *copies), strict=True):
      copy = copy.reshape(image.shape)
      _draw(ax, as_picture(copy, len(grid)), len(grid))
  names = ('an example', *(symmetry.name for symmetry in chosen))
  for ax, name in zip(table[0], names, strict=True):
    words = textwrap.fill(name.replace('_', ' '), 16)
    ax.set_title(style.literal(words), fontsize=style.MEDIUM)
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
    in_shape: The grid of the inputs; see `as_picture`.
    out_shape: The grid of the outputs.
    outputs: Which output points.
  """
  grid = as_shape(in_shape)
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
  for ax, picture, j in zip(places, pictures, outputs, strict=False):
    shown = _draw(ax, picture, len(grid), style.DIVERGING, -limit, limit)
    place = ', '.join(map(str, np.unravel_index(j, as_shape(out_shape))))
    ax.set_title(f'output ({place})', fontsize=style.MEDIUM)
  drawn.supxlabel('input column', fontsize=style.MEDIUM)
  drawn.supylabel('input row', fontsize=style.MEDIUM)
  style.colorbar(drawn, shown, 'weight', ax=list(places), pad=0.02)
  return drawn
