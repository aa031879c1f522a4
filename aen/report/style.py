"""One palette, one paper: how all pictures of a report look."""

import colorsys
import io

from matplotlib import axes
from matplotlib import figure
import numpy as np

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE = '#0072B2'
VERMILION = '#D55E00'
GREEN = '#009E73'
ORANGE = '#E69F00'
PINK = '#CC79A7'
SKY = '#56B4E9'
YELLOW = '#F0E442'
QUALITATIVE = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW)

BEST = VERMILION  # the network chosen
BASE = BLUE  # the network without symmetries
FINALIST = GREEN  # the networks that were retrained
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
  """Returns an empty figure, in inches. No global state is touched."""
  return figure.Figure(
    figsize=(width, height), dpi=_DPI, layout='constrained', facecolor='white'
  )


def png(drawn: figure.Figure) -> bytes:
  """Returns a figure as PNG; the same figure gives the same bytes."""
  buffer = io.BytesIO()
  drawn.savefig(buffer, format='png', metadata={'Software': None})
  return buffer.getvalue()


def tidy(ax: axes.Axes, title: str, xlabel: str, ylabel: str) -> None:
  """Names the axes and takes away what says nothing."""
  ax.set_title(title, fontsize=LARGE, color=INK, loc='left')
  ax.set_xlabel(xlabel, fontsize=MEDIUM, color=INK)
  ax.set_ylabel(ylabel, fontsize=MEDIUM, color=INK)
  ax.tick_params(labelsize=SMALL + 0.5, colors=INK, width=0.6, length=3)
  for side, spine in ax.spines.items():
    spine.set_visible(side in ('left', 'bottom'))
    spine.set(color=GREY, linewidth=0.6)


def framed(ax: axes.Axes) -> None:
  """Makes of axes a frame for an image: no ticks, a thin line around."""
  ax.set(xticks=[], yticks=[])
  for spine in ax.spines.values():
    spine.set(visible=True, color=GREY, linewidth=0.5)


def plain(text: str) -> str:
  """Returns text that is drawn as it is, dollar signs among it."""
  return text.replace('$', r'\$')


def colours(count: int) -> np.ndarray:
  """Returns colours to tell labels apart, RGB [count, 3].

  Up to seven are safe for colour-blind readers; of more, neighbours differ in
  hue and in lightness.

  >>> colours(3).round(1).tolist()
  [[0.0, 0.4, 0.7], [0.9, 0.6, 0.0], [0.0, 0.6, 0.5]]
  """
  if count <= len(QUALITATIVE):
    return np.array([rgb(name) for name in QUALITATIVE[:count]]).reshape(-1, 3)
  lightness = (0.42, 0.62, 0.8)
  return np.array(
    [
      colorsys.hls_to_rgb(0.57 + i * _GOLDEN, lightness[i % 3], 0.62)
      for i in range(count)
    ]
  )


def ink_on(name: str) -> str:
  """Returns the colour of legible letters on a colour."""
  luminance = float(np.dot(rgb(name), (0.299, 0.587, 0.114)))
  return INK if luminance > 0.5 else 'white'


def spaced(number: int) -> str:
  """Returns a whole number with its thousands apart.

  >>> spaced(313600)
  '313 600'
  """
  return f'{number:,}'.replace(',', ' ')


def rgb(name: str) -> tuple[float, float, float]:
  """Returns '#rrggbb' as numbers from 0 to 1."""
  red, green, blue = (int(name[i : i + 2], 16) / 255 for i in (1, 3, 5))
  return red, green, blue
