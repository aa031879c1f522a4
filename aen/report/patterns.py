"""Pictures of weight sharing: as a matrix, as a graph, on the image grid.

Legend: N input points, M output points.
"""

from collections.abc import Callable
from collections.abc import Sequence
import math

from matplotlib import axes
from matplotlib import figure
from matplotlib import patheffects
from matplotlib import ticker
import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import orbits
from aen.groups.orbits import permutation
from aen.groups.sharing import Sharing
from aen.report import style

_MAX_NUMBERED = 12  # a matrix up to this side has its numbers written in
_MAX_GRAPH = 12


def sharing_matrix(sharing: Sharing, max_side: int = 24) -> figure.Figure:
  """Draws a dense layer's kernel: equal colours are one weight.

  Args:
    sharing: Of a dense layer.
    max_side: Of larger layers, some orbits of inputs and of outputs are drawn
      that have about so many points, orbit by orbit.
  """
  labels = _dense_labels(sharing)
  rows = _excerpt(labels.min(axis=1), max_side)
  columns = _excerpt(labels.min(axis=0), max_side)
  shown = labels[np.ix_(rows, columns)]
  values, numbers = np.unique(shown, return_inverse=True)
  numbers = _by_first_occurrence(numbers.reshape(shown.shape))
  width = min(4.0, 0.4 * len(columns) + 1.6)
  drawn = style.sheet(width + 0.8, width * len(rows) / len(columns) + 0.8)
  ax = drawn.subplots()
  ax.imshow(style.colours(values.size)[numbers])
  if max(shown.shape) <= _MAX_NUMBERED:
    _write_numbers(ax, shown)
  _separate(ax.axhline, labels.min(axis=1)[rows])
  _separate(ax.axvline, labels.min(axis=0)[columns])
  whole = shown.shape == labels.shape
  title = 'Kernel' if whole else f'{len(rows)} × {len(columns)} entries of'
  sides = f'{labels.shape[0]} × {labels.shape[1]}'
  style.tidy(
    ax,
    f'{title} {sides}, {style.spaced(sharing.num_weights)} weights',
    'output point',
    'input point',
  )
  _number_points(ax, rows, columns)
  return drawn


def _dense_labels(sharing: Sharing) -> np.ndarray:
  if sharing.kernel.ndim != 2:
    raise ValueError(
      'expected the sharing of a dense layer, with a kernel [N, M], got one of'
      f" shape {sharing.kernel.shape}; reshape a convolution's kernel yourself"
    )
  return sharing.kernel


def _excerpt(orbit_of: np.ndarray, max_side: int) -> np.ndarray:
  """Returns all points in order if they are few; else some orbits, in turn.

  A row's smallest label tells its orbit: points of one orbit see the same
  weights, points of two orbits share none.
  """
  if orbit_of.size <= max_side:
    return np.arange(orbit_of.size)
  chosen: list[int] = []
  for orbit in np.unique(orbit_of):
    members = np.flatnonzero(orbit_of == orbit)
    if chosen and len(chosen) + members.size > max_side:
      break
    chosen += members[:max_side].tolist()
  return np.array(chosen)


def _by_first_occurrence(numbers: np.ndarray) -> np.ndarray:
  _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
  return np.argsort(np.argsort(first))[inverse].reshape(numbers.shape)


def _write_numbers(ax: axes.Axes, labels: np.ndarray) -> None:
  outline = patheffects.withStroke(linewidth=1.4, foreground=style.INK)
  for (row, column), label in np.ndenumerate(labels):
    ax.text(
      column,
      row,
      str(label),
      ha='center',
      va='center',
      fontsize=style.MEDIUM,
      color='white',
      fontweight='bold',
      path_effects=[outline],
    )


def _separate(line: Callable[..., object], orbit_of: np.ndarray) -> None:
  """Draws a line where one orbit ends and the next begins."""
  for end in np.flatnonzero(np.diff(orbit_of)) if _grouped(orbit_of) else ():
    line(end + 0.5, color='white', linewidth=2)


def _grouped(orbit_of: np.ndarray) -> bool:
  changes = np.count_nonzero(np.diff(orbit_of)) + 1
  return changes == np.unique(orbit_of).size


def _number_points(
  ax: axes.Axes, rows: np.ndarray, columns: np.ndarray
) -> None:
  small = max(len(rows), len(columns)) <= _MAX_NUMBERED
  turn = 0 if small else 90
  ax.set_xticks(range(len(columns)), columns, rotation=turn)
  ax.set_yticks(range(len(rows)), rows)
  ax.tick_params(length=0, labelsize=style.SMALL if small else style.SMALL - 1)
  for spine in ax.spines.values():
    spine.set_visible(False)


def sharing_graph(sharing: Sharing) -> figure.Figure:
  """Draws a small dense layer as a graph: lines of one colour are one weight.

  Args:
    sharing: Of a dense layer with at most twelve inputs and twelve outputs.
  """
  labels = _dense_labels(sharing)
  if max(labels.shape) > _MAX_GRAPH:
    raise ValueError(
      f'a graph is legible up to {_MAX_GRAPH} inputs and outputs, got'
      f' {labels.shape}; draw sharing_matrix instead'
    )
  drawn = style.sheet(4.2, 1.1 + 0.65 * max(labels.shape))
  ax = drawn.subplots()
  palette = style.colours(sharing.num_weights)
  left, right = (_heights(count) for count in labels.shape)
  named = set()
  for (i, j), label in np.ndenumerate(labels):
    name = f'weight {label}' if label not in named else None
    named.add(label)
    ends = (left[i], right[j])
    ax.plot((0, 1), ends, color=palette[label], linewidth=2.4, label=name)
  for x, heights in ((0, left), (1, right)):
    ax.scatter(
      np.full(heights.size, x),
      heights,
      s=240,
      color='white',
      edgecolors=style.INK,
      zorder=3,
    )
    for number, y in enumerate(heights):
      ax.text(
        x, y, str(number), ha='center', va='center', fontsize=style.MEDIUM
      )
  style.tidy(ax, 'Lines of one colour are one weight', '', 'point')
  ax.set(xlim=(-0.15, 1.15), yticks=[], ylim=(-0.12, 1.12))
  ax.set_xticks((0, 1), ('inputs', 'outputs'))
  ax.set_xlabel('layer', fontsize=style.MEDIUM)
  if sharing.num_weights <= len(style.QUALITATIVE):
    drawn.legend(
      loc='outside lower center',
      ncols=4,
      fontsize=style.SMALL + 0.5,
      frameon=False,
    )
  return drawn


def _heights(count: int) -> np.ndarray:
  return 1 - (np.arange(count) + 0.5) / count


def orbit_grid(
  symmetries: symmetries_lib.SymmetryLike,
  grid: Sequence[int],
  num_shown: int = 7,
) -> figure.Figure:
  """Draws orbits of pixels on the image grid: what one weight treats alike.

  Args:
    symmetries: What moves the pixels.
    grid: (H, W).
    num_shown: How many orbits get a colour, at most seven, the first and the
      last among them; the others stay grey.
  """
  grid = as_shape(grid)
  if len(grid) != 2:
    raise ValueError(f'expected a grid (H, W), got {grid}')
  symmetries = symmetries_lib.as_symmetries(symmetries)
  labels = orbits([permutation(s, grid) for s in symmetries], math.prod(grid))
  count = int(labels.max()) + 1
  num_shown = min(num_shown, len(style.QUALITATIVE))
  shown = np.unique(np.linspace(0, count - 1, num_shown).astype(int))
  picture = np.empty((*labels.shape, 3))
  picture[:] = style.rgb('#efefef')
  for orbit, color in zip(shown, style.QUALITATIVE, strict=False):
    picture[labels == orbit] = style.rgb(color)
  width = min(4.0, 0.6 * grid[1] + 0.8)
  drawn = style.sheet(width + 0.8, width * grid[0] / grid[1] + 0.8)
  ax = drawn.subplots()
  ax.imshow(picture.reshape(*grid, 3))
  _rule(ax, grid)
  if len(shown) < count:
    title = f'{len(shown)} of {count} orbits of pixels'
  else:
    title = f'{count} orbit{"s" * (count > 1)} of pixels'
  style.tidy(ax, title, 'column', 'row')
  for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_locator(ticker.MaxNLocator(integer=True))
  for spine in ax.spines.values():
    spine.set_visible(False)
  _letter(ax, labels.reshape(grid), shown)
  return drawn


def _rule(ax: axes.Axes, grid: tuple[int, ...]) -> None:
  """Draws thin lines between the pixels."""
  for line, side in ((ax.axhline, grid[0]), (ax.axvline, grid[1])):
    for at in range(1, side):
      line(at - 0.5, color='white', linewidth=0.6)


def _letter(ax: axes.Axes, labels: np.ndarray, shown: np.ndarray) -> None:
  """Writes the letter of its orbit on every coloured pixel."""
  size = min(style.LARGE, 200 / max(labels.shape))
  names = zip('ABCDEFG', style.QUALITATIVE, shown, strict=False)
  for letter, color, orbit in names:
    for row, column in np.argwhere(labels == orbit):
      ax.text(
        column,
        row,
        letter,
        ha='center',
        va='center',
        fontsize=size,
        color=style.ink_on(color),
      )


def kernel_images(
  kernel: np.ndarray,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  outputs: Sequence[int] | np.ndarray,
) -> figure.Figure:
  """Draws the weights with which some outputs look at the image.

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
  axes_of_all = drawn.subplots(rows, columns, squeeze=False).ravel()
  for ax in axes_of_all[len(images) :]:
    ax.set_visible(False)
  for ax, image, j in zip(axes_of_all, images, outputs, strict=False):
    shown = ax.imshow(image, cmap=style.DIVERGING, vmin=-limit, vmax=limit)
    style.framed(ax)
    place = ', '.join(str(i) for i in np.unravel_index(j, as_shape(out_shape)))
    ax.set_title(f'output ({place})', fontsize=style.MEDIUM)
  drawn.supxlabel('input column', fontsize=style.MEDIUM)
  drawn.supylabel('input row', fontsize=style.MEDIUM)
  bar = drawn.colorbar(shown, ax=list(axes_of_all), fraction=0.04, pad=0.02)
  bar.set_label('weight', fontsize=style.MEDIUM)
  bar.ax.tick_params(labelsize=style.SMALL)
  bar.outline.set_visible(False)
  return drawn
