"""The lattice of networks as a diagram: more symmetry higher up.

Legend: R networks drawn.
"""

from collections.abc import Mapping

from matplotlib import axes
from matplotlib import collections as mpl_collections
from matplotlib import figure
import numpy as np

from aen.groups.lattice import Lattice
from aen.report import style
from aen.search import result as result_lib

MAX_NETWORKS = 600  # more dots than this are no picture
_SWEEPS = 12
_MAX_LABELS = 14
_WIDEST_STEP = 0.16  # between networks of a level, of the whole width


def lattice_diagram(
  lattice: Lattice, values: Mapping[int, float], best: int | None = None
) -> figure.Figure:
  """Draws networks as dots; a line says that one contains the one below.

  Args:
    lattice: The networks.
    values: Network -> accuracy, from 0 to 1. Networks without are hollow.
    best: The network to mark, with all that it contains.

  Returns:
    The figure. Of a larger lattice, the best `MAX_NETWORKS` networks, with the
    order that they have among each other.
  """
  networks = _drawn(lattice, values, best)
  above = _covers(lattice.implied_states[networks])
  levels = np.bitwise_count(lattice.implied_states[networks]).astype(int)
  places = np.stack([_across(levels, above), levels], axis=1)  # [R, 2]
  drawn = style.sheet(9.5, 2.2 + 0.48 * (np.ptp(levels) + 1))
  ax = drawn.subplots()
  within = np.zeros(len(networks), bool)
  if best is not None:
    within = np.array([lattice.contains(best, n) for n in networks])
  _draw_lines(ax, places, above, within)
  _draw_dots(drawn, ax, places, [values.get(n, np.nan) for n in networks])
  _name_atoms(ax, lattice, networks, places, above)
  _mark(ax, places[0], 's', style.BASE, result_lib.in_words(()))
  if best is not None:
    name = result_lib.in_words(
      lattice.names(int(lattice.shortest_states[best]))
    )
    label = style.plain(f'chosen: {name}')
    _mark(ax, places[networks.index(best)], '*', style.BEST, label)
  style.tidy(
    ax,
    f'{len(networks)} networks',
    'networks that respect equally many symmetries, side by side',
    'number of symmetries respected',
  )
  bottom, top = levels.min(), levels.max()
  ax.set(xlim=(-0.02, 1.02), xticks=[], ylim=(bottom - 0.5, top + 0.5))
  ax.set_yticks(range(bottom, top + 1))
  drawn.legend(
    loc='outside lower center',
    ncols=3,
    fontsize=style.MEDIUM,
    frameon=False,
  )
  return drawn


def _drawn(
  lattice: Lattice, values: Mapping[int, float], best: int | None
) -> list[int]:
  """Returns the networks to draw, the one without symmetries first."""
  ranked = sorted(
    range(1, len(lattice)), key=lambda n: (n != best, -values.get(n, -1), n)
  )
  return [0, *sorted(ranked[: MAX_NETWORKS - 1])]


def _covers(implied_states: np.ndarray) -> np.ndarray:
  """Whether network j is one step above network i. bool [R, R]."""
  holds = (
    implied_states[:, None] & ~implied_states[None, :]
  ) == 0  # j holds all of i
  below = holds & ~np.eye(len(implied_states), dtype=bool)
  two_steps = below.astype(np.float32) @ below.astype(np.float32) > 0
  return below & ~two_steps


def _across(levels: np.ndarray, above: np.ndarray) -> np.ndarray:
  """Places each level's networks near those they are joined to. [R]."""
  joined = above | above.T
  across = np.full(len(levels), 0.5)
  for level in np.unique(levels):
    members = np.flatnonzero(levels == level)
    across[members] = _spread(members.size)
  order = np.unique(levels)
  for sweep in range(_SWEEPS):
    for level in order if sweep % 2 else order[::-1]:
      members = np.flatnonzero(levels == level)
      near = joined[members]
      pull = (near @ across) / np.maximum(1, near.sum(axis=1))
      rank = np.lexsort((across[members], pull))
      across[members[rank]] = _spread(members.size)
  return across


def _spread(count: int) -> np.ndarray:
  """Returns places in the middle of 0…1, as far apart as fits."""
  step = min(_WIDEST_STEP, 1 / count)
  return 0.5 + step * (np.arange(count) - (count - 1) / 2)


def _draw_lines(
  ax: axes.Axes, places: np.ndarray, above: np.ndarray, within: np.ndarray
) -> None:
  lower, upper = np.nonzero(above)
  marked = within[lower] & within[upper]
  for chosen, color, width, order in (
    (~marked, style.PALE, 0.45, 1),
    (marked, style.BEST, 1.1, 2),
  ):
    ends = np.stack([places[lower[chosen]], places[upper[chosen]]], axis=1)
    ax.add_collection(
      mpl_collections.LineCollection(
        list(ends), colors=color, linewidths=width, zorder=order
      )
    )


def _draw_dots(
  drawn: figure.Figure, ax: axes.Axes, places: np.ndarray, values: list[float]
) -> None:
  values = 100 * np.array(values)
  known = ~np.isnan(values)
  size = 46 if len(values) <= 250 else 22
  if not known.all():
    ax.scatter(
      places[~known, 0],
      places[~known, 1],
      s=0.6 * size,
      facecolors='white',
      edgecolors=style.GREY,
      linewidths=0.7,
      zorder=3,
      label='not trained',
    )
  dots = ax.scatter(
    places[known, 0],
    places[known, 1],
    c=values[known],
    cmap=style.SEQUENTIAL,
    s=size,
    edgecolors='white',
    linewidths=0.5,
    zorder=4,
  )
  bar = drawn.colorbar(dots, ax=ax, fraction=0.03, pad=0.01, aspect=30)
  bar.set_label('validation accuracy in the search (%)', fontsize=style.MEDIUM)
  bar.ax.tick_params(labelsize=style.SMALL)
  bar.outline.set_visible(False)


def _name_atoms(
  ax: axes.Axes,
  lattice: Lattice,
  networks: list[int],
  places: np.ndarray,
  above: np.ndarray,
) -> None:
  """Names the networks just above the one without symmetries."""
  atoms = np.flatnonzero(above[0])
  if atoms.size > _MAX_LABELS:
    return
  for i in atoms:
    names = lattice.names(int(lattice.shortest_states[networks[i]]))
    ax.annotate(
      style.plain('\n'.join(names).replace('_', '\n')),
      places[i],
      xytext=(0, -6),
      textcoords='offset points',
      ha='center',
      va='top',
      fontsize=style.SMALL - 0.5,
      color=style.INK,
      linespacing=1.0,
      bbox={'facecolor': 'white', 'alpha': 0.85, 'linewidth': 0, 'pad': 0.6},
      zorder=5,
    )


def _mark(
  ax: axes.Axes, place: np.ndarray, marker: str, color: str, label: str
) -> None:
  ax.scatter(
    place[0],
    place[1],
    s=190 if marker == '*' else 80,
    marker=marker,
    facecolors=color,
    edgecolors='white',
    linewidths=0.7,
    zorder=6,
    label=label,
  )
