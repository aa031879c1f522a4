"""Charts of a search: the best networks, their sizes, the search itself."""

from collections.abc import Mapping, Sequence
import textwrap
from typing import Any, NamedTuple

from matplotlib import figure
from matplotlib import ticker
import numpy as np

from aen.groups import lattice as lattice_lib
from aen.report import style
from aen.search import result as result_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

_LINE = 46  # characters of a network's name
_MIN_WINDOW = 5  # steps of a rolling mean
_INTERRUPTION = 60.0  # seconds without any busy worker
_EPSILON_WIDTH = 0.06  # of a label of ε, as a fraction of the axis


def top_networks(
  ranking: Sequence[result_lib.Ranked],
  count: int = 12,
  baseline: int = 0,
  measure: str = 'accuracy',
) -> figure.Figure:
  """Draws the accuracies of the best networks, with 95 % intervals.

  The baseline is always included. `measure` is what accuracies are called, such
  as R² for regression.
  """
  shown = list(ranking[:count])
  shown += [entry for entry in ranking[count:] if entry.network == baseline]
  names = [_wrapped(entry.name) for entry in shown]
  lines = sum(1 + name.count('\n') for name in names)
  drawn, ax = style.chart(7.5, 1.2 + 0.13 * lines + 0.13 * len(shown))
  for kind, offset, color, marker, label in (
    ('search', 0.13, style.GREY, 'o', 'in the search'),
    ('retrained', -0.13, style.FINALIST, 's', 'retrained, mean over seeds'),
  ):
    scores = [getattr(entry, kind) for entry in shown]
    rows = [row + offset for row, score in enumerate(scores) if score]
    if rows:
      accuracies, margins = _intervals([score for score in scores if score])
      points: Any = {'fmt': marker, 'color': color, 'label': label}
      ax.errorbar(
        accuracies, rows, xerr=margins, markersize=4, elinewidth=1.2, **points
      )
  ax.set_yticks(range(len(shown)), names)
  ax.set_ylim(len(shown) - 0.4, -0.6)
  xlabel = f'validation {measure} (%), 95 % interval'
  style.tidy(ax, 'The best networks', xlabel, 'network', grid='x')
  for text, entry in zip(ax.get_yticklabels(), shown, strict=True):
    if entry is ranking[0]:
      text.set(fontweight='bold', color=style.BEST)
    elif entry.network == baseline:
      text.set(fontweight='bold', color=style.BASELINE)
  style.legend(drawn)
  return drawn


def _wrapped(name: str) -> str:
  return style.literal(textwrap.fill(name, _LINE, break_long_words=False))


def _intervals(
  scores: Sequence[score_lib.Score],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns accuracies [n] and the margins of intervals [2, n], in percent."""
  middle = np.array([score.accuracy for score in scores])
  margin = score_lib.Z_95 * np.array([score.standard_error for score in scores])
  return 100 * middle, 100 * np.minimum(margin, [middle, 1 - middle]).clip(0)


def frequencies(
  ranking: Sequence[result_lib.Ranked], bits: Sequence[str], count: int = 10
) -> figure.Figure:
  """Draws which share of the best networks, and of all, has each choice.

  Implied choices count too. The best are those by score in the search, in which
  all were trained alike.
  """
  best = sorted(ranking, key=lambda entry: -entry.search.value)[:count]

  def shares(entries: Sequence[result_lib.Ranked]) -> np.ndarray:
    has = [[b in e.symmetries + e.implied for b in bits] for e in entries]
    return 100 * np.mean(has, axis=0)

  drawn, ax = style.chart(7.5, 1.4 + 0.3 * len(bits))
  rows = np.arange(len(bits))
  label = f'the best {len(best)} of the search'
  ax.barh(rows, shares(best), 0.6, color=style.SKY, label=label)
  label = f'all {len(ranking)} networks trained'
  color = style.VERMILION
  ax.plot(shares(ranking), rows, 'D', color=color, markersize=5, label=label)
  ax.set_yticks(rows, [style.literal(name) for name in bits])
  ax.set(xlim=(0, 103), ylim=(len(bits) - 0.4, -0.6))
  title = 'What the best networks have in common'
  style.tidy(ax, title, 'networks with the choice (%)', 'choice', grid='x')
  style.legend(drawn)
  return drawn


def weights_against_accuracy(
  ranking: Sequence[result_lib.Ranked], measure: str = 'accuracy'
) -> figure.Figure:
  """Draws accuracy in the search against the number of free weights."""
  best, *rest = ranking
  baseline = [entry for entry in rest if entry.network == 0]
  finalists = [e for e in rest if e.network != 0 and e.retrained]
  others = [e for e in rest if e.network != 0 and not e.retrained]
  drawn, ax = style.chart(7.5, 4.6)
  sizes = [entry.num_weights for entry in ranking]
  accuracies, margins = _intervals([entry.search for entry in ranking])
  # Darker than the grid.
  line: Any = {'ecolor': style.GREY, 'elinewidth': 0.6, 'alpha': 0.6}
  ax.errorbar(sizes, accuracies, yerr=margins, fmt='none', zorder=1, **line)
  for entries, label, color, marker, size in (
    (others, f'{len(others)} other networks', style.GREY, 'o', 14),
    (finalists, f'{len(finalists)} other finalists', style.FINALIST, 'o', 26),
    (baseline, 'no symmetry', style.BASELINE, 'D', 64),
    ([best], f'chosen: {_wrapped(best.name)}', style.BEST, '*', 170),
  ):
    places = [(e.num_weights, 100 * e.search.accuracy) for e in entries]
    if places:
      style.dots(ax, places, size, color=color, marker=marker, label=label)
  ax.set_xscale('log')
  ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
  ax.xaxis.set_major_formatter(ticker.EngFormatter(sep=''))
  ax.xaxis.set_minor_locator(ticker.NullLocator())
  ylabel = f'validation {measure} in the search (%)'
  labels = f'Size and {measure}', 'free weights (log scale)', ylabel
  style.tidy(ax, *labels, grid='both')
  style.legend(drawn)
  return drawn


def search_curve(
  values: Sequence[float],
  epsilons: Sequence[float] | None = None,
  window: int | None = None,
) -> figure.Figure:
  """Draws a search step by step, with its rolling mean and the best so far.

  Args:
    values: The score of the network proposed in each step, 0 to 1.
    epsilons: The probability of a random action in each step, if the strategy
      has one; its changes are marked.
    window: Steps in the rolling mean; by default a twentieth of all.
  """
  values = 100 * np.asarray(values, float)
  if not values.size:
    raise ValueError('a search curve needs at least one step, got none')
  if epsilons is not None and len(epsilons) != values.size:
    raise ValueError(
      f'expected one epsilon per step, got {len(epsilons)} for {values.size}'
      ' steps; give None for strategies without'
    )
  window = window or max(_MIN_WINDOW, values.size // 20)
  steps = np.arange(1, values.size + 1)
  starts = np.maximum(0, steps - window)
  sums = np.concatenate([[0.0], np.cumsum(values)])
  mean = (sums[steps] - sums[starts]) / (steps - starts)
  best = np.maximum.accumulate(values)
  drawn, ax = style.chart(7.5, 4)
  ax.plot(steps, values, '.', color=style.GREY, markersize=3, label='each step')
  label = f'mean of the last {window} steps'
  ax.plot(steps, mean, color=style.BLUE, linewidth=1.6, label=label)
  label, color = 'best so far', style.BEST
  ax.step(steps, best, where='post', color=color, linewidth=1.4, label=label)
  title = 'The search step by step'
  style.tidy(ax, title, 'step', 'score (%)')
  ax.set_xlim(0.5, values.size + 0.5)
  ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  if epsilons is not None:
    epsilons = np.asarray(epsilons, float)
    # Leaves room for labels between the axes and the title.
    ax.set_title(title, loc='left', pad=14, fontsize=style.LARGE)
    place = ax.get_xaxis_transform()  # from 0 to 1 up the axes
    small: Any = {'fontsize': style.SMALL, 'color': style.INK}
    free = 0.0  # the first step whose label overlaps no other
    for start in np.flatnonzero(np.diff(epsilons, prepend=np.nan) != 0):
      ax.axvline(start + 0.5, color=style.PALE, linewidth=0.6, zorder=0)
      if start >= free:
        free = start + _EPSILON_WIDTH * values.size
        label = f'ε {epsilons[start]:.2g}'
        ax.text(start + 0.5, 1.01, label, transform=place, **small)
  style.legend(drawn)
  return drawn


class Utilisation(NamedTuple):
  """How busy the workers of a search were.

  Interruptions, with no busy worker for longer than a minute, are left out.
  """

  workers: int
  seconds: float  # from the first start to the last end
  mean: float  # average number of busy workers
  times: np.ndarray  # seconds at which the number of busy workers changes
  busy: np.ndarray  # how many are busy from then on

  @property
  def in_words(self) -> str:
    """One sentence."""
    return (
      f'{self.workers} workers trained for {self.seconds / 60:.1f} minutes; on'
      f' average {self.mean:.1f} of them were busy, a utilisation of'
      f' {100 * self.mean / self.workers:.0f} %.'
    )


def utilisation(origins: Sequence[store_lib.Origin]) -> Utilisation | None:
  """Returns how busy workers were, or None if there was only one."""
  jobs = {(o.worker, o.started, o.finished) for o in origins}
  if len({worker for worker, *_ in jobs}) < 2:
    return None
  starts, ends = (np.array(each) for each in list(zip(*jobs, strict=True))[1:])
  times = np.concatenate([starts, ends])
  steps = np.repeat([1, -1], len(jobs))
  order = np.lexsort((steps, times))  # at equal times, ends first
  times, busy = times[order], np.cumsum(steps[order])
  lengths = np.diff(times)
  lengths[(busy[:-1] == 0) & (lengths > _INTERRUPTION)] = 0
  shown = np.concatenate([[0.0], np.cumsum(lengths)])
  workers = max(busy.max(), *(o.workers for o in origins))
  mean = float((busy[:-1] * lengths).sum() / shown[-1])
  return Utilisation(int(workers), float(shown[-1]), mean, shown, busy)


def busy_workers(found: Utilisation) -> figure.Figure:
  """Draws the number of workers that train children, over time."""
  drawn, ax = style.chart(7.5, 2.8)
  minutes = found.times / 60
  ax.fill_between(minutes, found.busy, step='post', color=style.SKY)
  ax.axhline(found.mean, color=style.VERMILION, linewidth=1.2, label='mean')
  ax.set(xlim=(0, minutes[-1]), ylim=(0, found.workers * 1.05))
  ax.yaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  style.tidy(ax, 'Workers that are training', 'minutes', 'busy workers')
  style.legend(drawn)
  return drawn


def q_values(
  values: Sequence[tuple[int, Sequence[float]]], bits: Sequence[str]
) -> figure.Figure:
  """Draws an agent's Q-values of some states, given as (state, Q-values).

  Action k toggles the choice with the name `bits[k]`.
  """
  drawn, ax = style.chart(7.5, 1.2 + 0.36 * len(bits))
  rows = np.arange(len(bits))
  height = 0.8 / len(values)
  names = [style.literal(name) for name in bits]
  for i, (state, of_actions) in enumerate(values):
    on = lattice_lib.chosen(state, names)
    label = textwrap.shorten(' + '.join(on) or 'the empty state', 60)
    color = style.QUALITATIVE[i % len(style.QUALITATIVE)]
    places = rows + (i - (len(values) - 1) / 2) * height
    ax.barh(places, of_actions, height, color=color, label=f'in {label}')
  ax.set_yticks(rows, names)
  ax.invert_yaxis()
  style.tidy(ax, "The agent's Q-values", 'Q-value of toggling it', 'choice')
  style.legend(drawn)
  return drawn


def regrets(
  values: Mapping[str, Mapping[str, float]], after: int
) -> figure.Figure:
  """Draws the regret of strategies after a number of networks, a row for each.

  `values` are points of accuracy by strategy and landscape.
  """
  rows = sorted(values, key=lambda name: np.mean(list(values[name].values())))
  drawn, ax = style.chart(7.5, 1.1 + 0.34 * len(rows))
  for row, name in enumerate(rows):
    of_each = np.array(list(values[name].values()))
    ax.barh(row, of_each.mean(), 0.62, color=style.SKY, zorder=1)
    places = [(value, row) for value in of_each]
    style.dots(ax, places, 16, color=style.INK, alpha=0.55)
    label: Any = {'va': 'center', 'fontsize': style.MEDIUM, 'color': style.INK}
    place = ax.get_yaxis_transform()  # from 0 to 1 across the axes
    mean = f'{of_each.mean():.1f}'
    ax.text(1.005, row, mean, transform=place, fontweight='bold', **label)
  ax.set_yticks(range(len(rows)), [style.literal(name) for name in rows])
  ax.set_ylim(len(rows) - 0.4, -0.6)
  each = f'(bar: mean of {len(values[rows[0]])} data sets; dots: each)'
  title = f'How far from the best network after {after} networks?'
  style.tidy(ax, title, f'points of test accuracy {each}', '', grid='x')
  return drawn
