"""Weight sharing as a matrix, as a graph, and as orbits on the image grid.

Legend: N input points, M output points.
"""

from collections.abc import Sequence
import math
from typing import Any

from matplotlib import colors
from matplotlib import figure
from matplotlib import patheffects
from matplotlib import ticker
import numpy as np

from aen.groups import orbits as orbits_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.sharing import Sharing
from aen.report import style

_MAX_NUMBERED = 12  # rows or columns of a matrix that shows its labels
_MAX_GRAPH = 12
_CENTRED: Any = {'ha': 'center', 'va': 'center'}


def sharing_matrix(sharing: Sharing, max_side: int = 24) -> figure.Figure:
  """Draws a dense layer's kernel: entries of one colour share a weight.

  A large layer is shown in part: whole orbits of inputs and of outputs, up to
  about `max_side` points of each.
  """
  labels = _dense_labels(sharing)
  # The smallest label of a row identifies its orbit: points of one orbit share
  # all their weights, points of different orbits share none.
  orbits_of_rows, orbits_of_columns = labels.min(axis=1), labels.min(axis=0)
  rows = _excerpt(orbits_of_rows, max_side)
  columns = _excerpt(orbits_of_columns, max_side)
  shown = labels[np.ix_(rows, columns)]
  numbers = orbits_lib.canonical(shown.ravel()).reshape(shown.shape)
  width = min(4.0, 0.4 * len(columns) + 1.6)
  drawn, ax = style.chart(width + 0.8, width * len(rows) / len(columns) + 0.8)
  ax.imshow(style.colours(numbers.max() + 1)[numbers])
  small = max(shown.shape) <= _MAX_NUMBERED
  if small:
    outline = patheffects.withStroke(linewidth=1.4, foreground=style.INK)
    bold = _CENTRED | {'fontsize': style.MEDIUM, 'fontweight': 'bold'}
    bold |= {'color': 'white', 'path_effects': [outline]}
    for (row, column), label in np.ndenumerate(shown):
      ax.text(column, row, str(label), **bold)
  for line, orbit_of in (
    (ax.axhline, orbits_of_rows[rows]),
    (ax.axvline, orbits_of_columns[columns]),
  ):
    ends = np.flatnonzero(np.diff(orbit_of))
    if ends.size + 1 == np.unique(orbit_of).size:  # each orbit is one block
      for end in ends:
        line(end + 0.5, color='white', linewidth=2)
  whole = shown.shape == labels.shape
  part = 'Kernel' if whole else f'{len(rows)} × {len(columns)} entries of'
  sides, count = ' × '.join(map(str, labels.shape)), sharing.num_weights
  title = f'{part} {sides}, {style.spaced(count)} weights'
  style.tidy(ax, title, 'output point', 'input point')
  ax.set_xticks(range(len(columns)), columns, rotation=0 if small else 90)
  ax.set_yticks(range(len(rows)), rows)
  ax.tick_params(length=0, labelsize=style.SMALL if small else style.SMALL - 1)
  ax.spines[:].set_visible(False)
  return drawn


def _dense_labels(sharing: Sharing) -> np.ndarray:
  if sharing.kernel.ndim != 2:
    raise ValueError(
      'expected the sharing of a dense layer, with a kernel [N, M], got one of'
      f" shape {sharing.kernel.shape}; reshape a convolution's kernel yourself"
    )
  return sharing.kernel


def _excerpt(orbit_of: np.ndarray, max_side: int) -> np.ndarray:
  """Returns all points in order if they are few, else the first orbits."""
  if orbit_of.size <= max_side:
    return np.arange(orbit_of.size)
  chosen: list[int] = []
  for orbit in np.unique(orbit_of):
    members = np.flatnonzero(orbit_of == orbit)
    if chosen and len(chosen) + members.size > max_side:
      break
    chosen += members[:max_side].tolist()
  return np.array(chosen)


def sharing_graph(sharing: Sharing) -> figure.Figure:
  """Draws a small dense layer as a graph: lines of one colour share a weight.

  It may have at most twelve inputs and twelve outputs.
  """
  labels = _dense_labels(sharing)
  if max(labels.shape) > _MAX_GRAPH:
    raise ValueError(
      f'a graph is legible up to {_MAX_GRAPH} inputs and outputs, got'
      f' {labels.shape}; draw sharing_matrix instead'
    )
  drawn, ax = style.chart(4.2, 1.1 + 0.65 * max(labels.shape))
  palette = style.colours(sharing.num_weights)
  heights = [1 - (np.arange(count) + 0.5) / count for count in labels.shape]
  for (i, j), label in np.ndenumerate(labels):
    ends = (heights[0][i], heights[1][j])
    ax.plot((0, 1), ends, color=palette[label], linewidth=2.4)
  for x in (0, 1):
    places = np.full_like(heights[x], x), heights[x]
    ax.scatter(*places, 240, 'white', edgecolors=style.INK, zorder=3)
    for number, y in enumerate(heights[x]):
      ax.text(x, y, str(number), fontsize=style.MEDIUM, **_CENTRED)
  style.tidy(ax, 'Lines of one colour share a weight', 'layer', 'point')
  ax.set(xlim=(-0.15, 1.15), yticks=[], ylim=(-0.12, 1.12))
  ax.set_xticks((0, 1), ('inputs', 'outputs'))
  if sharing.num_weights <= len(style.QUALITATIVE):
    for label, color in enumerate(palette):
      ax.plot([], color=color, linewidth=2.4, label=f'weight {label}')
    style.legend(drawn, columns=4)
  return drawn


def orbit_grid(
  symmetries: symmetries_lib.SymmetryLike,
  grid: Sequence[int],
  num_shown: int = 7,
) -> figure.Figure:
  """Draws orbits of pixels on the image grid (H, W).

  Some are coloured, at most seven, the first and the last among them; the
  others are grey.
  """
  grid = symmetries_lib.as_shape(grid)
  if len(grid) != 2:
    raise ValueError(f'expected a grid (H, W), got {grid}')
  symmetries = symmetries_lib.as_symmetries(symmetries)
  permutations = [symmetries_lib.permutation(s, grid) for s in symmetries]
  labels = orbits_lib.orbits(permutations, math.prod(grid)).reshape(grid)
  count = int(labels.max()) + 1
  num_shown = min(num_shown, len(style.QUALITATIVE))
  shown = np.unique(np.linspace(0, count - 1, num_shown).astype(int))
  width = min(4.0, 0.6 * grid[1] + 0.8)
  drawn, ax = style.chart(width + 0.8, width * grid[0] / grid[1] + 0.8)
  image = np.full((*grid, 3), colors.to_rgb('#efefef'))
  size = min(style.LARGE, 200 / max(grid))
  palette = style.colours(num_shown)
  for letter, orbit, fill in zip('ABCDEFG', shown, palette, strict=False):
    image[labels == orbit] = fill
    luminance = fill @ (0.299, 0.587, 0.114)
    ink = style.INK if luminance > 0.5 else 'white'
    for row, column in np.argwhere(labels == orbit):
      ax.text(column, row, letter, fontsize=size, color=ink, **_CENTRED)
  ax.imshow(image)
  for line, side in ((ax.axhline, grid[0]), (ax.axvline, grid[1])):
    for at in range(1, side):
      line(at - 0.5, color='white', linewidth=0.6)
  title = '1 orbit of pixels' if count == 1 else f'{count} orbits of pixels'
  if len(shown) < count:
    title = f'{len(shown)} of {title}'
  style.tidy(ax, title, 'column', 'row')
  for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_locator(ticker.MaxNLocator(integer=True))
  ax.spines[:].set_visible(False)
  return drawn
