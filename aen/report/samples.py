"""Sample images of a data set, class by class."""

from collections.abc import Callable
from collections.abc import Sequence
import textwrap

from matplotlib import figure
import numpy as np

from aen.report import style

MAX_CLASSES = 10
_TITLE_WIDTH = 12  # letters in a line
_MIN_COLUMNS = 5


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
    class_names: One per label; of more than ten classes the first ten with
      images are drawn.
    per_class: Rows.
  """
  images, labels = np.asarray(images), np.asarray(labels)
  classes = np.unique(labels)[:MAX_CLASSES]
  if not classes.size:
    raise ValueError('sample images need images, got none')
  pictures = _pictures(images)
  side = 0.82
  tall = images.shape[1] / images.shape[2]
  drawn = style.sheet(
    side * max(_MIN_COLUMNS, classes.size) + 0.3,
    side * tall * per_class + 0.25,
  )
  grid = drawn.subplots(per_class, classes.size, squeeze=False)
  for column, label in enumerate(classes):
    rows = np.flatnonzero(labels == label)[:per_class]
    for ax in grid[len(rows) :, column]:
      ax.set_axis_off()
    for ax, row in zip(grid[:, column], rows, strict=False):
      ax.imshow(pictures(row), cmap='gray', vmin=0, vmax=1)
      style.framed(ax)
    name = textwrap.shorten(class_names[label], 3 * _TITLE_WIDTH)
    grid[0, column].set_title(
      style.plain(textwrap.fill(name, _TITLE_WIDTH)), fontsize=style.MEDIUM
    )
  return drawn


def _pictures(images: np.ndarray) -> Callable[[int], np.ndarray]:
  """Returns a function from a row to a picture of values from 0 to 1."""
  low, high = 0, 255
  if images.dtype != np.uint8:
    low, high = float(images.min()), float(images.max())

  def picture(row: int) -> np.ndarray:
    image = (images[row].astype(np.float32) - low) / ((high - low) or 1)
    as_it_is = image.ndim == 2 or image.shape[-1] == 3
    return image if as_it_is else image.mean(axis=-1)

  return picture
