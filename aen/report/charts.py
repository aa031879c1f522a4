"""Charts of what a search found: the best networks, their size, its course."""

from collections.abc import Sequence
import textwrap

from matplotlib import axes
from matplotlib import figure
from matplotlib import ticker
import numpy as np

from aen.report import style
from aen.search import result as result_lib
from aen.train import score as score_lib

_NAME_WIDTH = 46  # letters in a line
_MIN_WINDOW = 5


def top_networks(
  ranking: Sequence[result_lib.Ranked], count: int = 12, base: int = 0
) -> figure.Figure:
  """Draws the accuracies of the best networks, with 95 % intervals.

  Args:
    ranking: Best first.
    count: How many to draw.
    base: The network that the first is compared with; it is drawn last if it is
      not among the first.
  """
  shown = list(ranking[:count])
  base = _find(ranking, base)
  if base is not None and base not in shown:
    shown.append(base)
  names = [_wrapped(entry.name) for entry in shown]
  lines = sum(1 + name.count('\n') for name in names)
  drawn = style.sheet(7.5, 1.2 + 0.13 * lines + 0.13 * len(shown))
  ax = drawn.subplots()
  rows = np.arange(len(shown))
  _intervals(
    ax,
    rows + 0.13,
    [entry.search for entry in shown],
    color=style.GREY,
    marker='o',
    label='in the search',
  )
  again = [i for i in rows if shown[i].retrained]
  _intervals(
    ax,
    np.array(again, float) - 0.13,
    [entry.retrained for entry in shown if entry.retrained],
    color=style.FINALIST,
    marker='s',
    label='retrained, mean over seeds',
  )
  ax.set_yticks(rows, names)
  ax.set_ylim(len(shown) - 0.4, -0.6)
  style.tidy(
    ax, 'The best networks', 'validation accuracy (%), 95 % interval', 'network'
  )
  ax.grid(axis='x', color=style.PALE, linewidth=0.5)
  ax.set_axisbelow(True)
  for text, entry in zip(ax.get_yticklabels(), shown, strict=True):
    if entry is ranking[0]:
      text.set(fontweight='bold', color=style.BEST)
    elif entry is base:
      text.set(fontweight='bold', color=style.BASE)
  _legend(drawn, ax)
  return drawn


def _find(
  ranking: Sequence[result_lib.Ranked], network: int
) -> result_lib.Ranked | None:
  return next((entry for entry in ranking if entry.network == network), None)


def _wrapped(name: str) -> str:
  return style.plain(textwrap.fill(name, _NAME_WIDTH, break_long_words=False))


def _intervals(
  ax: axes.Axes,
  rows: np.ndarray,
  scores: Sequence[score_lib.Score],
  *,
  color: str,
  marker: str,
  label: str,
) -> None:
  if scores:
    ax.errorbar(
      [100 * score.accuracy for score in scores],
      rows,
      xerr=_margins(scores),
      fmt=marker,
      color=color,
      markersize=4,
      elinewidth=1.2,
      label=label,
    )


def _margins(scores: Sequence[score_lib.Score]) -> np.ndarray:
  """Returns how far the intervals reach down and up, in percent. [2, n]."""
  middle = np.array([score.accuracy for score in scores])
  margin = score_lib.Z_95 * np.array([score.standard_error for score in scores])
  return 100 * np.stack(
    [np.minimum(margin, middle), np.minimum(margin, 1 - middle)]
  ).clip(0)


def _legend(drawn: figure.Figure, ax: axes.Axes) -> None:
  """Puts the legend under the chart, where it hides nothing."""
  handles, labels = ax.get_legend_handles_labels()
  drawn.legend(
    handles,
    labels,
    loc='outside lower center',
    ncols=2,
    fontsize=style.MEDIUM - 0.5,
    frameon=False,
    labelcolor=style.INK,
  )


def frequencies(
  ranking: Sequence[result_lib.Ranked], bits: Sequence[str], count: int = 10
) -> figure.Figure:
  """Draws how many of the best networks have each choice.

  Args:
    ranking: All networks that were trained.
    bits: The names of the choices; what a network's names imply counts too.
    count: How many of those that did best in the search, where all were trained
      alike.
  """
  drawn = style.sheet(7.5, 1.4 + 0.3 * len(bits))
  ax = drawn.subplots()
  rows = np.arange(len(bits))
  count = min(count, len(ranking))
  best = sorted(ranking, key=lambda entry: -entry.search.value)[:count]
  label = f'the best {count} of the search'
  ax.barh(rows, _shares(best, bits), 0.6, color=style.SKY, label=label)
  label = f'all {len(ranking)} that were trained'
  every = _shares(ranking, bits)
  ax.plot(every, rows, 'D', color=style.VERMILION, markersize=5, label=label)
  ax.set_yticks(rows, [style.plain(name) for name in bits])
  ax.set_ylim(len(bits) - 0.4, -0.6)
  ax.set_xlim(0, 103)
  style.tidy(
    ax, 'What the best networks have', 'networks with it (%)', 'choice'
  )
  ax.grid(axis='x', color=style.PALE, linewidth=0.5)
  ax.set_axisbelow(True)
  _legend(drawn, ax)
  return drawn


def _shares(
  ranking: Sequence[result_lib.Ranked], bits: Sequence[str]
) -> list[float]:
  """Returns which part of the networks has each choice, in percent."""
  owned = [entry.symmetries + entry.implied for entry in ranking]
  return [
    100 * float(np.mean([name in names for names in owned])) for name in bits
  ]


def weights_against_accuracy(
  ranking: Sequence[result_lib.Ranked],
) -> figure.Figure:
  """Draws every network's accuracy in the search over its free weights."""
  drawn = style.sheet(7.5, 4.6)
  ax = drawn.subplots()
  best, base = ranking[0], _find(ranking, 0)
  ax.errorbar(
    [entry.num_weights for entry in ranking],
    [100 * entry.search.accuracy for entry in ranking],
    yerr=_margins([entry.search for entry in ranking]),
    fmt='none',
    ecolor=style.PALE,
    elinewidth=0.6,
    zorder=1,
  )
  special = (best, base)
  retrained = [e for e in ranking if e.retrained and e not in special]
  others = [e for e in ranking if not e.retrained and e not in special]
  _dots(ax, others, f'{len(others)} other networks', color=style.GREY, s=14)
  name = f'{len(retrained)} other finalists'
  _dots(ax, retrained, name, color=style.FINALIST, s=26)
  if base is not None and base is not best:
    _dots(ax, [base], 'no symmetry', color=style.BASE, s=64, marker='D')
  name = f'chosen: {_wrapped(best.name)}'
  _dots(ax, [best], name, color=style.BEST, s=170, marker='*')
  ax.set_xscale('log')
  ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
  ax.xaxis.set_major_formatter(ticker.EngFormatter(sep=''))
  ax.xaxis.set_minor_locator(ticker.NullLocator())
  style.tidy(
    ax,
    'Size and accuracy',
    'free weights (log scale)',
    'validation accuracy in the search (%)',
  )
  ax.grid(color=style.PALE, linewidth=0.4)
  ax.set_axisbelow(True)
  _legend(drawn, ax)
  return drawn


def _dots(
  ax: axes.Axes,
  entries: Sequence[result_lib.Ranked],
  label: str,
  *,
  color: str,
  s: float,
  marker: str = 'o',
) -> None:
  if entries:
    ax.scatter(
      [entry.num_weights for entry in entries],
      [100 * entry.search.accuracy for entry in entries],
      color=color,
      s=s,
      marker=marker,
      linewidths=0.5,
      edgecolors='white',
      label=label,
      zorder=3 + s / 100,
    )


def search_curve(
  values: Sequence[float],
  epsilons: Sequence[float] | None = None,
  window: int | None = None,
) -> figure.Figure:
  """Draws the course of a search: each step, rolling mean, best so far.

  Args:
    values: What each proposed network turned out to be worth, 0 to 1.
    epsilons: The share of random actions at each step, if the strategy has one;
      the steps at which it changes are marked.
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
  drawn = style.sheet(7.5, 4)
  ax = drawn.subplots()
  ax.plot(steps, values, '.', color=style.GREY, markersize=3, label='each step')
  mean = _rolling_mean(values, window)
  label = f'mean of the last {window} steps'
  ax.plot(steps, mean, color=style.BLUE, linewidth=1.6, label=label)
  best = np.maximum.accumulate(values)
  ax.step(
    steps,
    best,
    where='post',
    color=style.BEST,
    linewidth=1.4,
    label='best so far',
  )
  style.tidy(ax, 'The course of the search', 'step', 'score (%)')
  ax.set_xlim(0.5, values.size + 0.5)
  ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  if epsilons is not None:
    ax.set_title(
      ax.get_title(loc='left'), loc='left', pad=14, fontsize=style.LARGE
    )
    _mark_changes(ax, np.asarray(epsilons, float))
  _legend(drawn, ax)
  return drawn


def _rolling_mean(values: np.ndarray, window: int) -> np.ndarray:
  """Returns the mean of up to `window` values that end at each. [steps]."""
  sums = np.concatenate([[0.0], np.cumsum(values)])
  ends = np.arange(1, values.size + 1)
  starts = np.maximum(0, ends - window)
  return (sums[ends] - sums[starts]) / (ends - starts)


_LABEL_WIDTH = 0.06  # of an axis


def _mark_changes(ax: axes.Axes, epsilons: np.ndarray) -> None:
  """Draws a line where ε changes, and its value at the top if there is room."""
  starts = np.flatnonzero(np.diff(epsilons, prepend=np.nan) != 0)
  free = 0.0
  for start in starts:
    ax.axvline(start + 0.5, color=style.PALE, linewidth=0.6, zorder=0)
    if start < free:
      continue
    free = start + _LABEL_WIDTH * epsilons.size
    ax.annotate(
      f'ε {epsilons[start]:.2g}',
      (start + 0.5, 1),
      xycoords=('data', 'axes fraction'),
      xytext=(0, 2),
      textcoords='offset points',
      ha='left',
      va='bottom',
      fontsize=style.SMALL,
      color=style.INK,
    )


def opinions(
  q_values: Sequence[tuple[int, Sequence[float]]], bits: Sequence[str]
) -> figure.Figure:
  """Draws what an agent thinks that toggling each bit is worth.

  Args:
    q_values: States, and the value of each action in them.
    bits: The names of the actions.
  """
  fig = style.sheet(7.5, 1.2 + 0.36 * len(bits))
  ax = fig.add_subplot()
  places = np.arange(len(bits))
  height = 0.8 / len(q_values)
  names = [style.plain(name) for name in bits]
  for i, (state, values) in enumerate(q_values):
    on = [name for k, name in enumerate(names) if state >> k & 1]
    ax.barh(
      places + (i - (len(q_values) - 1) / 2) * height,
      values,
      height,
      color=style.QUALITATIVE[i % len(style.QUALITATIVE)],
      label='in ' + textwrap.shorten(' + '.join(on) or 'the empty state', 60),
    )
  ax.set_yticks(places, names)
  ax.invert_yaxis()
  style.tidy(ax, "The agent's opinions", 'Q-value of toggling it', 'choice')
  _legend(fig, ax)
  return fig
