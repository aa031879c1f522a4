r"""How long does it take to find a layer's sharing pattern?

Compares the paper's Alg. 2 (repaired), its Alg. 1 and `aen.orbits` in one run.
The paper's algorithms get precomputed permutation tables, as lists, the form
they are fastest with. Alg. 2 needs all elements of the group; the time to list
them is shown separately. `aen` gets the generators.

  python -m experiments.construction_benchmark --quick   # about a minute
  python -m experiments.construction_benchmark           # some ten minutes
  python -m experiments.construction_benchmark --scipy   # two minutes

Prints a line for each case, with the ratio of Alg. 1 to `aen` (17 to 70 for one
symmetry of 784×400), and writes construction.csv and construction.png. With
--scipy, `aen.orbits` takes turns with SciPy's connected components of a
precomputed graph, on each of the twelve symmetries and on all of them.
"""

from collections.abc import Callable, Iterator, Sequence
import functools
import math
import multiprocessing
import os
import pathlib
import time
from typing import Any, NamedTuple

from matplotlib import figure
import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

import aen
from aen.groups import sharing
from aen.groups.paper import elements
from aen.groups.symmetries import PAPER_SYMMETRIES
from experiments import launch
from experiments import timing
from experiments.peer_scripts import worker as worker_lib

# Larger tables take gigabytes, and longer than any limit on a run's time.
_MAX_TABLE_ENTRIES = 10**8
FAMILIES = ('784×400', 'single', 'product')
GRIDS = ((28, 20), (28, 28), (56, 56))  # sides of inputs and outputs

_FLAGS = launch.define(
  quick=(False, 'At most 10^5 points, |G| = 10^3, and 10 s for a run.'),
  max_points=(10**7, 'The largest N.', 10**3),
  families=(list(FAMILIES), 'Families of groups to time.', FAMILIES),
  scipy=(False, "Only compare aen with SciPy's connected components."),
  repeats=(3, 'Runs; the fastest counts.', 1),
)
_OUT = timing.output('construction_benchmark')

# By method: colour, marker, label.
STYLES = {
  'listing': ('#999999', 's', 'listing G (Alg. 2 needs it)'),
  'alg2': ('#cc3311', '^', 'Alg. 2, repaired'),
  'alg1': ('#ee7733', 'o', 'Alg. 1'),
  'aen': ('#0077bb', 'D', 'aen, from generators'),
}


def main(_: list[str]) -> None:
  """Measures, prints, writes the table and the figure."""
  os.environ['AEN_CACHE_DIR'] = ''  # compute everything, read nothing
  if _FLAGS.scipy:
    timing.collect(beside_scipy(GRIDS, _FLAGS.repeats), _OUT('scipy.csv'))
    return
  # Longer runs of the paper's algorithms are predicted and drawn hollow.
  most, digits, limit = _FLAGS.max_points, 4, 60.0
  if _FLAGS.quick:
    most, digits, limit = min(most, 10**5), 3, 10.0
  watch = Stopwatch(limit, _FLAGS.repeats)
  rows = timing.collect(
    (measure(case, watch) for case in cases(_FLAGS.families, most, digits)),
    _OUT('construction.csv'),
  )
  if {'single', 'product'} <= set(_FLAGS.families):
    draw(rows, _OUT('construction.png'))
  seconds, lattice = timing.timed(
    aen.lattice, PAPER_SYMMETRIES, [(28, 28), (20, 20), (20, 20)]
  )
  print(
    f'\n4096 states of 784→400→400 are {len(lattice)} networks: {seconds:.1f} s'
  )
  with multiprocessing.get_context('spawn').Pool(1) as pool:
    print(pool.apply(large_layer))


def beside_scipy(
  grids: Sequence[tuple[int, int]], repeats: int
) -> Iterator[dict[str, Any]]:
  """Times `aen.orbits` on permutations, and SciPy on the graph made of them.

  For all symmetries, also times `dense_sharing` from their names. Times are the
  shortest processor times over some rounds; ratios are of those, except for
  `median`, the median ratio.
  """
  for sides in grids:
    for case in layer_cases(*sides):
      size, count = case.generators[0].size, len(case.generators)
      columns = np.stack(case.generators, axis=1).ravel()
      starts = np.arange(0, columns.size + 1, count, dtype=np.int32)
      graph = sparse.csr_array(
        (np.ones(columns.size), columns, starts), shape=(size, size)
      )
      graph.sum_duplicates()  # also sorts: the form that SciPy is fastest with
      components = csgraph.connected_components
      variants: dict[str, Callable[[], Any]] = {
        'aen': functools.partial(aen.orbits, case.generators, size),
        'scipy': functools.partial(components, graph, directed=False),
      }
      _check(variants['scipy']()[1], variants['aen']())
      if count > 1:
        variants['dense_sharing'] = functools.partial(_cold_sharing, *sides)
      rounds = repeats if size > 10**6 else 5 * repeats
      times = timing.interleaved(variants, rounds, clock=time.process_time)
      ratio = functools.partial(timing.fastest_ratio, times)
      yield {
        'layer': case.family,
        'case': case.name,
        'aen_ms': 1e3 * min(times['aen']),
        'scipy_ms': 1e3 * min(times['scipy']),
        'aen / scipy': ratio('aen', 'scipy'),
        'median': timing.ratio(times, 'aen', 'scipy'),
        'dense_sharing / aen': ratio('dense_sharing', 'aen')
        if count > 1
        else '',
      }


def _cold_sharing(*sides: int) -> aen.Sharing:
  sharing.clear_memory_cache()
  return aen.dense_sharing(PAPER_SYMMETRIES, *((side, side) for side in sides))


class Case(NamedTuple):
  """Cyclic groups G₁, …, Gₘ that act on points and generate G."""

  family: str
  name: str
  generators: list[np.ndarray]
  orders: tuple[int, ...]  # |G₁|, …, |Gₘ|
  group_order: int | None  # |G|; None if it is too large to list


def cases(
  families: Sequence[str], max_points: int, max_digits: int
) -> Iterator[Case]:
  """Yields the cases of families, up to |G| = 10^max_digits."""
  if '784×400' in families:
    yield from layer_cases(28, 20)
  for exponent in range(3, round(math.log10(max_points)) + 1):
    num_points = 10**exponent
    if 'single' in families:
      yield _shifts('single', (2, num_points // 2), 1)
    for digits in range(1, min(exponent, max_digits) + 1):
      if 'single' in families:
        yield _shifts('single', (10**digits, num_points // 10**digits), 1)
      if 'product' in families:
        yield _shifts('product', (10,) * exponent, digits)


def layer_cases(*sides: int) -> Iterator[Case]:
  """Yields each of the twelve symmetries of a layer, then all together."""
  family = '×'.join(str(side**2) for side in sides)
  pairs, orders = [], []
  for name in PAPER_SYMMETRIES:
    pair = aen.pair(*(aen.permutation(name, (side, side)) for side in sides))
    cycles = np.bincount(aen.orbits([pair], pair.size))
    order = math.lcm(*np.unique(cycles).tolist())
    yield Case(family, name, [pair], (order,), order)
    pairs.append(pair)
    orders.append(order)
  yield Case(family, 'all twelve', pairs, tuple(orders), None)


def _shifts(family: str, shape: tuple[int, ...], factors: int) -> Case:
  """Returns cyclic groups that each shift one of a grid's first axes."""
  generators = [
    aen.permutation(lambda x, axis=axis: np.roll(x, 1, axis), shape)
    for axis in range(factors)
  ]
  orders = shape[:factors]
  name = ' × '.join(f'Z{order}' for order in orders)
  return Case(family, name, generators, orders, math.prod(orders))


class Timing(NamedTuple):
  """Seconds, measured or predicted."""

  seconds: float
  measured: bool


class Stopwatch:
  """Times algorithms, or predicts their times from earlier runs."""

  def __init__(self, limit: float, repeats: int) -> None:
    """Predicts runs above `limit` seconds; those above one second run once."""
    self._limit, self._repeats = limit, repeats
    self._rate = dict.fromkeys(STYLES, 1e-7)  # seconds per unit of work

  def run(
    self, method: str, work: int, entries: float, function: Callable[[], Any]
  ) -> tuple[Timing, Any]:
    """Returns the fastest time and the result of a function.

    `work` counts evaluations or copies of Γ, `entries` those of its tables. If
    either is too large, returns a prediction and None.
    """
    predicted = work * self._rate[method]
    if predicted > self._limit or entries > _MAX_TABLE_ENTRIES:
      return Timing(predicted, measured=False), None
    times = []
    for _ in range(self._repeats if predicted < 1 else 1):
      start = time.perf_counter()
      result = function()
      times.append(time.perf_counter() - start)
    if work > 10**5:  # with less, overhead dominates
      self._rate[method] = min(times) / work
    return Timing(min(times), measured=True), result


def measure(case: Case, watch: Stopwatch) -> dict[str, Any]:
  """Times all methods on one case and checks that they agree."""
  size, times = case.generators[0].size, {}
  times['aen'], labels = watch.run(
    'aen', 0, 0, lambda: aen.orbits(case.generators, size)
  )
  work, factors = size * sum(case.orders), []
  if work <= _MAX_TABLE_ENTRIES:
    factors = [_tables([g], size) for g in case.generators]
  times['alg1'], found = watch.run(
    'alg1', work, work, lambda: aen.alg1(factors, size)
  )
  _check(found, labels)
  factors.clear()

  if case.group_order:
    entries = size * case.group_order
    times['listing'], group = watch.run(
      'listing', entries, entries, lambda: _tables(case.generators, size)
    )
    evaluations = (int(labels.max()) + 1) * case.group_order
    entries = entries if group else math.inf  # nothing to run on
    times['alg2'], found = watch.run(
      'alg2', evaluations, entries, lambda: aen.alg2(group, size)
    )
    _check(found, labels)
  row = {
    'family': case.family,
    'case': case.name,
    'num_points': size,
    'group_order': case.group_order or '',
    'sum_of_orders': sum(case.orders),
  }
  for method in STYLES:
    seconds, measured = times.get(method, ('', ''))
    row |= {f'{method}_seconds': seconds, f'{method}_measured': measured}
  return row | {'alg1 / aen': times['alg1'].seconds / times['aen'].seconds}


def _check(found: np.ndarray | None, labels: np.ndarray) -> None:
  if found is not None and not np.array_equal(found, labels):
    raise AssertionError('two algorithms disagree about the orbits')


def _tables(generators: list[np.ndarray], size: int) -> list[list[int]]:
  points = np.arange(size).astype(object)  # all tables share these ints
  return [points[element].tolist() for element in elements(generators, size)]


def large_layer() -> str:
  """Times a layer 56×56 → 56×56 of 9.8 million weights, and its memory."""
  shifts = 'vertical_translation', 'horizontal_translation'
  names = 'rotation', 'horizontal_flip', *shifts
  seconds, shared = timing.timed(aen.dense_sharing, names, (56, 56), (56, 56))
  order = 56 * 56 * 8  # translations and D4: p4m on a torus
  return (
    f'3136×3136 = {shared.kernel.size:,} weights, {shared.num_weights:,} free'
    f' under a group of order {order:,}: {seconds:.1f} s, peak memory'
    f' {worker_lib.usage()["peak"]:.0f} MiB'
  )


def draw(results: list[dict[str, object]], path: pathlib.Path) -> None:
  """Draws time against |G| and against N."""
  largest = max(r['num_points'] for r in results if r['family'] == 'single')
  middle = min(largest, 10**5)
  panels = (
    ('single', f'One cyclic group, N = {middle:,}', 'group_order', '|G|'),
    ('product', f'Products of Z₁₀, N = {middle:,}', 'group_order', '|G|'),
    ('product', 'Z₁₀ × Z₁₀ (|G| = 100, Σ|Gᵢ| = 20)', 'num_points', 'N'),
  )
  drawn = figure.Figure((13, 4.2), layout='tight')
  axes = drawn.subplots(1, 3, sharey=True)
  for axis, (family, title, x, label) in zip(axes, panels, strict=True):
    wanted = {'family': family, 'num_points': middle, 'group_order': 100}
    del wanted[x]
    chosen = [r for r in results if wanted.items() <= r.items()]
    places = [r[x] for r in chosen]
    for method, (color, marker, text) in STYLES.items():
      seconds = [r[f'{method}_seconds'] for r in chosen]
      face = [color if r[f'{method}_measured'] else 'white' for r in chosen]
      axis.plot(places, seconds, color=color, lw=1, zorder=1)
      axis.scatter(
        places, seconds, c=face, marker=marker, edgecolors=color, label=text
      )
    axis.set(title=title, xlabel=label, xscale='log', yscale='log')
    axis.grid(alpha=0.3)
  axes[0].set_ylabel('seconds')
  axes[0].legend(fontsize=9)
  drawn.text(0.995, 0.01, 'hollow: predicted, not run', ha='right', fontsize=8)
  drawn.savefig(path, dpi=150)


if __name__ == '__main__':
  launch.run(main)
