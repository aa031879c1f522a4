"""The palette and the layout that all figures share."""

import colorsys
import io
from typing import Any

from matplotlib import axes
from matplotlib import collections
from matplotlib import colors
from matplotlib import figure
from matplotlib.backends import backend_agg
import numpy as np

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE = '#0072B2'
VERMILION = '#D55E00'
GREEN = '#009E73'
ORANGE = '#E69F00'
PINK = '#CC79A7'
SKY = '#56B4E9'
YELLOW = '#F0E442'
QUALITATIVE = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW)

BEST = VERMILION  # the chosen network
BASELINE = BLUE
FINALIST = GREEN  # retrained networks
INK = '#222222'
GREY = '#8a8a8a'
PALE = '#d9d9d9'
SEQUENTIAL = 'viridis'
DIVERGING = 'PuOr'

SMALL = 7  # points
MEDIUM = 8.5
LARGE = 10
_DPI = 150
_GOLDEN = 0.6180339887


def sheet(width: float, height: float) -> figure.Figure:
  """Returns an empty figure, its size in inches, without global state."""
  return figure.Figure(
    figsize=(width, height), dpi=_DPI, layout='constrained', facecolor='white'
  )


def chart(width: float, height: float) -> tuple[figure.Figure, axes.Axes]:
  """Returns a figure with axes."""
  drawn = sheet(width, height)
  return drawn, drawn.subplots()


def png(drawn: figure.Figure) -> bytes:
  """Encodes a figure; equal figures give equal bytes."""
  buffer = io.BytesIO()
  # `savefig` would compute the layout and draw everything twice.
  canvas = backend_agg.FigureCanvasAgg(drawn)
  # Higher levels make some of our figures smaller and others larger, in twice
  # the time.
  options = {'compress_level': 3}
  canvas.print_png(buffer, metadata={'Software': None}, pil_kwargs=options)
  return buffer.getvalue()


def tidy(
  ax: axes.Axes, title: str, xlabel: str, ylabel: str, grid: Any = None
) -> None:
  """Labels the axes, removes the box, and draws a grid along 'x' or 'both'."""
  ax.set_title(title, fontsize=LARGE, color=INK, loc='left')
  ax.set_xlabel(xlabel, fontsize=MEDIUM, color=INK)
  ax.set_ylabel(ylabel, fontsize=MEDIUM, color=INK)
  ax.tick_params(labelsize=SMALL + 0.5, colors=INK, width=0.6, length=3)
  for side, spine in ax.spines.items():
    spine.set_visible(side in ('left', 'bottom'))
    spine.set(color=GREY, linewidth=0.6)
  if grid:
    ax.grid(axis=grid, color=PALE, linewidth=0.5)
    ax.set_axisbelow(True)


def legend(drawn: figure.Figure, columns: int = 2) -> None:
  """Puts the legend below the axes, where it covers nothing."""
  drawn.legend(
    loc='outside lower center',
    ncols=columns,
    fontsize=MEDIUM - 0.5,
    frameon=False,
    labelcolor=INK,
  )


def dots(
  ax: axes.Axes, places: Any, size: float, edge: str = 'white', **options: Any
) -> collections.PathCollection:
  """Draws dots at places [n, 2], larger ones on top."""
  x, y = np.transpose(places)
  options |= {'s': size, 'edgecolors': edge, 'linewidths': 0.6}
  return ax.scatter(x, y, zorder=3 + size / 100, **options)


def colorbar(
  drawn: figure.Figure, shown: Any, label: str, **options: Any
) -> None:
  """Adds a colour bar for an image or for dots."""
  bar = drawn.colorbar(shown, fraction=0.03, **options)
  bar.set_label(label, fontsize=MEDIUM)
  bar.ax.tick_params(labelsize=SMALL)
  bar.outline.set_visible(False)


def literal(text: str) -> str:
  """Escapes dollar signs, which Matplotlib would take for formulas."""
  return text.replace('$', r'\$')


def colours(count: int) -> np.ndarray:
  """Returns distinct colours, RGB [count, 3].

  Up to seven suit colour-blind readers; beyond, neighbours differ in hue and in
  lightness.

  >>> colours(3).round(1).tolist()
  [[0.0, 0.4, 0.7], [0.9, 0.6, 0.0], [0.0, 0.6, 0.5]]
  """
  if count <= len(QUALITATIVE):
    return colors.to_rgba_array(QUALITATIVE[:count])[:, :3]
  lightness = (0.42, 0.62, 0.8)
  return np.array(
    [
      colorsys.hls_to_rgb(0.57 + i * _GOLDEN, lightness[i % 3], 0.62)
      for i in range(count)
    ]
  )


def spaced(number: int) -> str:
  """Separates thousands by spaces.

  >>> spaced(313600)
  '313 600'
  """
  return f'{number:,}'.replace(',', ' ')
