"""The lattice of networks as a diagram: more symmetry higher up.

Legend: R networks drawn.
"""

from collections.abc import Mapping

from matplotlib import collections
from matplotlib import figure
import numpy as np

from aen.groups.lattice import Lattice
from aen.report import style
from aen.search import result as result_lib

MAX_NETWORKS = 600  # more dots are illegible
_SWEEPS = 12
_MAX_LABELS = 14
_WIDEST_STEP = 0.16  # between networks of a level, as a fraction of the width


def lattice_diagram(
  lattice: Lattice,
  values: Mapping[int, float],
  best: int | None = None,
  measure: str = 'accuracy',
) -> figure.Figure:
  """Draws networks as dots, joined to the next networks with more symmetry.

  Colours show the values, from 0 to 1; dots without one are hollow. Of a large
  lattice, only the best `MAX_NETWORKS` are drawn. The best network is marked,
  with all that it contains. `measure` is what values are called, such as R² for
  regression.
  """
  ranked = sorted(
    range(1, len(lattice)), key=lambda n: (n != best, -values.get(n, -1), n)
  )
  networks = [0, *sorted(ranked[: MAX_NETWORKS - 1])]
  implied = lattice.implied_states[networks]
  above = _covers(implied)
  levels = np.bitwise_count(implied).astype(int)
  places = np.stack([_across(levels, above), levels], axis=1)  # [R, 2]
  drawn, ax = style.chart(9.5, 2.2 + 0.48 * (np.ptp(levels) + 1))
  within = np.zeros(len(networks), bool)
  if best is not None:
    within = implied & ~lattice.implied_states[best] == 0
  lower, upper = np.nonzero(above)
  marked = within[lower] & within[upper]
  ends = np.stack([places[lower], places[upper]], axis=1)  # [lines, 2, 2]
  for chosen, color, width, order in (
    (~marked, style.PALE, 0.45, 1),
    (marked, style.BEST, 1.1, 2),
  ):
    lines = collections.LineCollection(list(ends[chosen]), zorder=order)
    lines.set(color=color, linewidth=width)
    ax.add_collection(lines)
  accuracies = 100 * np.array([values.get(n, np.nan) for n in networks])
  known = ~np.isnan(accuracies)
  size = 46 if len(networks) <= 250 else 22
  if not known.all():
    hollow, label = places[~known], 'not trained'
    style.dots(ax, hollow, 0.6 * size, style.GREY, color='white', label=label)
  colors = accuracies[known]
  dots = style.dots(ax, places[known], size, c=colors, cmap=style.SEQUENTIAL)
  label = f'validation {measure} in the search (%)'
  style.colorbar(drawn, dots, label, ax=ax, pad=0.01, aspect=30)
  names = [lattice.names(int(lattice.shortest_states[n])) for n in networks]
  label, color = result_lib.in_words(()), style.BASELINE
  style.dots(ax, places[[0]], 80, color=color, marker='s', label=label)
  if best is not None:
    i, color = networks.index(best), style.BEST
    label = style.literal(f'chosen: {result_lib.in_words(names[i])}')
    style.dots(ax, places[[i]], 190, color=color, marker='*', label=label)
  atoms = np.flatnonzero(above[0])
  if atoms.size <= _MAX_LABELS:
    for i in atoms:
      ax.annotate(
        style.literal('\n'.join(names[i]).replace('_', '\n')),
        places[i],
        xytext=(0, -6),
        textcoords='offset points',
        ha='center',
        va='top',
        fontsize=style.SMALL - 0.5,
        color=style.INK,
        linespacing=1.0,
        bbox={'facecolor': 'white', 'alpha': 0.85, 'linewidth': 0, 'pad': 0.6},
        zorder=3.6,  # above the dots, below the two marks
      )
  xlabel = 'networks that respect equally many symmetries, side by side'
  ylabel = 'number of symmetries respected'
  style.tidy(ax, f'{len(networks)} networks', xlabel, ylabel)
  bottom, top = levels.min(), levels.max()
  ax.set(xlim=(-0.02, 1.02), xticks=[], ylim=(bottom - 0.5, top + 0.5))
  ax.set_yticks(range(bottom, top + 1))
  style.legend(drawn, columns=3)
  return drawn


def _covers(implied_states: np.ndarray) -> np.ndarray:
  """Returns whether network j covers network i: the next above. bool [R, R]."""
  contained = implied_states[:, None] & ~implied_states[None, :] == 0
  below = contained & ~np.eye(len(implied_states), dtype=bool)
  two_steps = below.astype(np.float32) @ below.astype(np.float32) > 0
  return below & ~two_steps


def _across(levels: np.ndarray, above: np.ndarray) -> np.ndarray:
  """Returns horizontal positions from 0 to 1, near joined networks. [R].

  Sweeps up and down, sorting each level by the mean position of neighbours.
  """
  joined = above | above.T
  order = np.unique(levels)
  members = {level: np.flatnonzero(levels == level) for level in order}
  across = np.empty(len(levels))
  for level in order:
    across[members[level]] = _spread(members[level].size)
  for sweep in range(_SWEEPS):
    for level in order if sweep % 2 else order[::-1]:
      near = joined[members[level]]
      pull = (near @ across) / np.maximum(1, near.sum(axis=1))
      rank = np.lexsort((across[members[level]], pull))
      across[members[level][rank]] = _spread(rank.size)
  return across


def _spread(count: int) -> np.ndarray:
  """Returns equidistant positions around the middle of 0…1."""
  step = min(_WIDEST_STEP, 1 / count)
  return 0.5 + step * (np.arange(count) - (count - 1) / 2)
