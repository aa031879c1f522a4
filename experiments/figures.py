"""Pictures of the reproduction: its tables, its searches, its landscapes."""

from collections.abc import Mapping, Sequence
import textwrap

from matplotlib import figure
import numpy as np

from aen.report import style
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from experiments import published_mlp
from experiments import results
from experiments import rows as rows_lib
from experiments import traces

# Legends below the axes, where they cover nothing.
_BELOW = {
  'loc': 'outside lower center',
  'fontsize': style.MEDIUM,
  'frameon': False,
}
Searches = Mapping[str, tuple[compare.Trace, landscape_lib.Landscape]]


def tables(
  base: str, configs: Sequence[str], ours: np.ndarray
) -> figure.Figure:
  """Draws the paper's table and ours, double-centred, side by side."""
  drawn = style.sheet(9.5, 1.9 + 0.24 * len(configs))
  both = {'Paper': published_mlp.table(base, configs), 'Ours': ours}
  axes = drawn.subplots(1, 2, sharey=True)
  names = [names[0] if names else 'none' for names in published_mlp.NETWORKS]
  for ax, (title, values) in zip(axes, both.items(), strict=True):
    centred = published_mlp.double_centred(values)
    image = ax.imshow(centred, style.DIVERGING, vmin=-5, vmax=5, aspect='auto')
    style.tidy(ax, f'{title}: {base}', "network's symmetry", '')
    ax.set_xticks(range(len(names)), names, rotation=90)
    ax.set_yticks(range(len(configs)), configs)
  bar = drawn.colorbar(image, ax=axes, shrink=0.8, extend='both')
  bar.set_label('points above row and column', fontsize=style.MEDIUM)
  return drawn


def searches(found: Searches) -> figure.Figure:
  """Draws networks in the order in which each search visited them."""
  drawn, grid = _panels(len(found), 6, 2.1, 2.1, (0.4, 0.5))
  for ax, (name, search) in zip(grid.flat, found.items(), strict=False):
    trace, landscape = search
    table, states = landscape.best_so_far(0)[:, -1], np.asarray(trace.states)
    met = landscape.network_of[np.concatenate([[0], states[states >= 0]])]
    first = np.sort(np.unique(met, return_index=True)[1])
    values, places = 100 * table[met[first]], np.arange(1, len(first) + 1)
    ax.plot(places, values, '.', c=style.GREY, ms=3, label='network')
    best = np.maximum.accumulate(values)
    line = {'where': 'post', 'color': style.BEST, 'linewidth': 1.4}
    ax.step(places, best, label='best so far', **line)
    label = f'best of all {len(landscape)}'
    ax.axhline(100 * table.max(), c=style.GREEN, lw=1, ls='--', label=label)
    style.tidy(ax, name, 'networks trained', 'validation accuracy (%)')
  for ax in grid[:, 1:].flat:
    ax.set_ylabel('')
  handles, labels = grid.flat[0].get_legend_handles_labels()
  drawn.legend(handles, labels, ncols=len(labels), **_BELOW)
  return drawn


def _panels(
  count: int,
  most: int,
  width: float,
  height: float,
  margin: tuple[float, float] = (0, 0),
  **options: bool,
) -> tuple[figure.Figure, np.ndarray]:
  """Returns a sheet with `count` panels, at most `most` in a row."""
  columns = min(most, count)
  rows = -(-count // columns)
  drawn = style.sheet(width * columns + margin[0], height * rows + margin[1])
  grid = drawn.subplots(rows, columns, squeeze=False, **options)
  for ax in grid.flat[count:]:
    ax.set_visible(False)
  return drawn, grid


def curves(found: Searches) -> figure.Figure:
  """Draws the mean accuracy of the steps made with each ε, as in the paper."""
  bases = [*dict.fromkeys(name.split('/')[0] for name in found)]
  drawn, config = style.sheet(4.2 * len(bases), 3.6), agent_lib.DQNConfig()
  grid = drawn.subplots(1, len(bases), squeeze=False)
  for ax, base in zip(grid.flat, bases, strict=True):
    names = [name for name in found if name.startswith(f'{base}/')]
    ends = []
    for name, color in zip(names, style.QUALITATIVE, strict=False):
      levels, means = traces.means(found[name][0], config)
      places = [config.epsilons.index(round(float(e), 6)) for e in levels]
      ax.plot(places, 100 * means, '.-', color=color)
      ends.append((100 * means[-1], places[-1], name.split('/')[1], color))
    # Names beside the ends of lines, without overlaps.
    height, free = np.ptp(ax.get_ylim()) / 22, -np.inf
    for y, x, name, color in sorted(ends, key=lambda end: end[0]):
      free = max(y, free)
      place = {'xytext': (5, 0), 'textcoords': 'offset points', 'va': 'center'}
      ax.annotate(name, (x, free), fontsize=style.SMALL, color=color, **place)
      free += height
    style.tidy(
      ax, base, 'ε, share of random actions', 'mean validation accuracy (%)'
    )
    ax.set_xticks(range(len(config.epsilons)), map(str, config.epsilons))
    ax.set_xlim(-0.4, len(config.epsilons) + 0.4)
  return drawn


def spread(
  found: Mapping[str, landscape_lib.Landscape],
  marked: Mapping[str, Mapping[str, int]],
) -> figure.Figure:
  """Draws the accuracies of all networks of each data set; marks some."""
  drawn = style.sheet(9, 4.2)
  ax = drawn.subplots()
  jitter = np.random.default_rng(0).uniform(-0.28, 0.28, 4096)
  kinds = [*dict.fromkeys(kind for each in marked.values() for kind in each)]
  for place, (name, landscape) in enumerate(found.items()):
    values = 100 * landscape.values()
    beside = place + jitter[: len(values)]
    ax.plot(beside, values, '.', c=style.PALE, ms=4, zorder=1)
    for kind, network in marked[name].items():
      number = kinds.index(kind)
      ax.plot(
        place + 0.14 * (number - (len(kinds) - 1) / 2),
        values[network],
        'osD^v'[number % 5],
        c=style.QUALITATIVE[number],
        label=kind if place == 0 else None,
        **{'ms': 5.5, 'mec': 'white', 'mew': 0.5, 'zorder': 2},
      )
  style.tidy(ax, 'All networks of each data set', '', 'test accuracy (%)')
  ax.set_xticks(range(len(found)), found, rotation=30, ha='right')
  drawn.legend(ncols=len(kinds), **_BELOW)
  return drawn


def gains(found: Mapping[str, Mapping[str, float]]) -> figure.Figure:
  """Draws points gained by data set, one panel per comparison."""
  names = [*next(iter(found.values()))]
  height, places = 0.9 + 0.2 * len(names), range(len(names))
  drawn, grid = _panels(len(found), 3, 3.2, height, sharex=True, sharey=True)
  for ax, (title, each) in zip(grid.flat, found.items(), strict=False):
    values = [each[name] for name in names]
    ax.axvline(0, color=style.GREY, linewidth=1)
    ax.axvline(np.mean(values), color=style.BEST, linewidth=1, linestyle='--')
    ax.plot(values, places, 'o', color=style.BEST, markersize=4)
    style.tidy(ax, textwrap.fill(title, 34), '', '')
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.5, -0.5)
  for ax in grid[-1]:
    ax.set_xlabel('points; dashed: mean')
  return drawn


def gcnn_epochs(rows: Sequence[rows_lib.Row]) -> figure.Figure:
  """Draws the test accuracy of the large networks by epoch.

  One row per data set on which networks were trained at equal start, one column
  per start. Lines are means over seeds, bands their ranges.
  """
  networks = {label: key[0] for label, key in results.GCNN_CONTROLS.items()}
  networks['P4H2V2 as published'] = 'rotation horizontal_flip vertical_flip'
  colors = (style.GREY, style.BEST, style.GREEN)
  starts = {'': 'published start', 'initializer=unit_variance': 'equal start'}
  chosen = [r for r in rows if r['size'] == 'large' and not r['augmentations']]
  children = rows_lib.by(('dataset', 'recipe', 'symmetries'), chosen)
  at_equal_start = [row for row in chosen if row['recipe']]
  names = dict.fromkeys(row['dataset'] for row in at_equal_start or chosen)
  panels = [(name, start) for name in names for start in starts]
  drawn, grid = _panels(len(panels), len(starts), 3.6, 2.6, (0, 0.3))
  for ax, (name, start) in zip(grid.flat, panels, strict=True):
    for (label, names_of), color in zip(networks.items(), colors, strict=True):
      if own := children.get((name, start, names_of)):
        curves = np.array([row['test_accuracy'].split() for row in own], float)
        epochs = np.arange(1, curves.shape[1] + 1)
        ax.plot(epochs, curves.mean(0), '.-', c=color, ms=4, label=label)
        ax.fill_between(
          epochs, curves.min(0), curves.max(0), color=color, alpha=0.2, lw=0
        )
    title = f'{name.partition("-")[0]}, {starts[start]}'
    style.tidy(ax, title, 'epoch', 'test accuracy (%)')
    ax.set_ylim(0, 100)
  handles, labels = grid.flat[0].get_legend_handles_labels()
  drawn.legend(handles, labels, ncols=len(labels), **_BELOW)
  return drawn
