r"""What the screen of symmetries gets right, and what it does for a search.

  python -m experiments.screen --raw_dir=path/to/files

Time: a screening of 2000 images, compilation included. Level: how often it
rejects a symmetry of synthetic data that have all of them. Power: the outcomes
on G-MNIST and G-Fashion-MNIST against the exact truth, which is known by
enumerating the products of generators that the images were made with. Planted:
how often the one symmetry that images were made with is rejected.
Strategies: the regret of searches on the twelve landscapes, after a screening
of the data and without one. Writes tables and a figure; ten minutes on two
cores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import itertools
import time
from typing import Any, NamedTuple

import numpy as np

import aen
from aen.data import transform
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.report import charts
from aen.report import style
from aen.search import compare
from aen.search import landscape as landscape_lib
from experiments import invariant_sets
from experiments import launch
from experiments import rows as rows_lib
from experiments import timing
from experiments import traces as traces_lib

PARTS = ('time', 'level', 'power', 'planted', 'strategies')
_FLAGS = launch.define(
  parts=(PARTS, f'Some of {",".join(PARTS)}.'),
  raw_dir=(str, 'Folder with the official files of MNIST and Fashion-MNIST.'),
  num_images=(2000, 'Images of each screening.', 100),
  num_draws=(20, 'Draws of images with a planted symmetry.', 1),
  num_sets=(100, 'Synthetic data sets of each kind.', 1),
  seeds=(120, 'Searches of each strategy on each landscape.', 2),
  landscapes=('results/mlp/landscapes.npz', 'File with several landscapes.'),
)
_OUT = timing.output('screen')

BASES = ('g_mnist', 'g_fashion_mnist')
_LEVEL = 0.05  # of the synthetic sets
_ROUNDS = 50  # enough for twenty networks
_AFTER = (10, 20)  # networks
Rows = Iterator[dict[str, Any]]


class Case(NamedTuple):
  """Data to screen, whose symmetries are known."""

  columns: Mapping[str, object]  # of its rows; the first one is its kind
  data: tuple[Any, ...]  # images and labels, and which symmetries to test
  true: Sequence[str] | None  # the symmetries that it has; None for all
  options: Mapping[str, Any] = {}  # of `aen.screen`


def main(_: Sequence[str]) -> None:
  """Measures, prints and writes tables."""
  if unknown := sorted(set(_FLAGS.parts) - set(PARTS)):
    raise ValueError(f'--parts are some of {",".join(PARTS)}, got {unknown[0]}')
  measure = {'time': times, 'strategies': strategies}
  cases = {'level': level, 'power': power, 'planted': planted}
  for part in _FLAGS.parts:
    rows = measure[part]() if part in measure else screened(cases[part]())
    rows_lib.write(_OUT(f'{part}.csv'), list(rows))
  print(f'Tables: {_OUT("")}')


def times() -> Rows:
  """Times a screening, with compilation and without."""
  (images,) = _images('g_mnist/aug5')
  for which in ('first', 'second'):
    start, used = time.perf_counter(), time.process_time()
    aen.screen(*images)
    row = {
      'screening': which,
      'seconds': f'{time.perf_counter() - start:.2f}',
      'core_seconds': f'{time.process_time() - used:.2f}',
    }
    print(', '.join(f'{name}: {value}' for name, value in row.items()))
    yield row


def _images(name: str, num_draws: int = 1) -> Iterator[tuple[Any, Any]]:
  """Yields disjoint draws of images and labels from a data set."""
  count = _FLAGS.num_images
  train = aen.load_dataset(
    name, num_train=num_draws * count, raw_dir=_FLAGS.raw_dir
  ).train
  for start in range(0, num_draws * count, count):
    draw = slice(start, start + count)
    yield train.images[draw], train.labels[draw]


def level() -> Iterator[Case]:
  """Synthetic data that have every symmetry that they are tested for."""
  for kind, make in invariant_sets.KINDS.items():
    rng = np.random.default_rng(1)
    for number in range(_FLAGS.num_sets):
      *data, grid = make(rng)
      options = {'grid': grid, 'level': _LEVEL, 'seed': number}
      yield Case({'kind': kind, 'set': number}, tuple(data), None, options)


def power() -> Iterator[Case]:
  """G-data sets, all candidates, and the exact truth."""
  for part, configs in {
    'group': [f'iaug{bit}_group' for bit in range(1, 13)],
    'aug': [f'aug{number}' for number in range(1, 6)],
    'published': [f'iaug{bit}' for bit in range(1, 13)],
  }.items():
    for base, name in itertools.product(BASES, configs):
      true = invariant_sets.true_symmetries(name)
      lost = [s for s in transform.config(name).symmetries if s not in true]
      if lost:
        print(f'{name}: not exactly invariant to {", ".join(lost)}')
      (images,) = _images(f'{base}/{name}')
      yield Case({'part': part, 'dataset': f'{base}/{name}'}, images, true)


def planted() -> Iterator[Case]:
  """Disjoint draws of images, and the one symmetry that they were made with.

  Where all others are rejected, Holm's p-value of the planted one is its own.
  """
  for base, bit in itertools.product(BASES, range(1, 13)):
    name, true = f'{base}/iaug{bit}_group', PAPER_SYMMETRIES[bit - 1]
    for draw, images in enumerate(_images(name, _FLAGS.num_draws)):
      columns = {'dataset': name, 'draw': draw}
      yield Case(columns, (*images, true), (true,), {'seed': draw})


def screened(cases: Iterable[Case]) -> Rows:
  """Yields a row for each symmetry of each case; then prints shares."""
  rejected: dict[tuple[Any, str], list[bool]] = {}  # by kind and truth
  any_true = []
  for columns, data, known, options in cases:
    found = aen.screen(*data, **options)
    true = found.findings if known is None else known
    any_true.append(any(name in true for name in found.rejected))
    for symmetry, finding in found.findings.items():
      truth = 'true' if symmetry in true else 'false'
      key = next(iter(columns.values())), truth
      is_rejected = symmetry in found.rejected
      rejected.setdefault(key, []).append(is_rejected)
      if is_rejected == (truth == 'true'):
        print(f'{columns}: {symmetry} is {truth} and {finding.outcome}')
      yield {
        **columns,
        'symmetry': symmetry,
        'is_true': int(truth == 'true'),
        'outcome': finding.outcome,
        'p_value': f'{finding.p_value:.3f}',
        'adjusted_p_value': f'{finding.adjusted_p_value:.3f}',
        'effect': f'{finding.effect:.4f}',
        'discrepancy': f'{finding.discrepancy:.6f}',
        'z': f'{finding.discrepancy / (finding.noise or 1):.1f}',
        'examples_needed': found.examples_needed[symmetry],
      }
  for (kind, truth), answers in rejected.items():
    share = f'{sum(answers)} of {len(answers)} ({100 * np.mean(answers):.1f} %)'
    print(f'{kind}: {share} {truth} symmetries rejected')
  print(
    f'family-wise false rejections {100 * np.mean(any_true):.2f} % of'
    f' {len(any_true)} sets at level {found.level}'
  )


def strategies() -> Rows:
  """Searches landscapes; prints and draws the mean regrets."""
  # Mean and half interval by data set, by networks trained and strategy.
  regrets: dict[tuple[int, str], dict[str, tuple[float, float]]] = {}
  for name, landscape in landscape_lib.load_all(_FLAGS.landscapes).items():
    (images,) = _images(name)
    found, numbers = aen.screen(*images), np.arange(_FLAGS.seeds)
    for label, (kind, options) in contenders(found, landscape, name).items():
      strategy = traces_lib.make_strategy(landscape, kind, **options)
      traces = compare.search_landscape(strategy, landscape, numbers, _ROUNDS)
      curves = compare.curves(traces, landscape, numbers)['networks']
      means, bands = compare.mean_and_band(100 * curves.regret)
      for networks in _AFTER:
        mean, band = means[networks - 1], bands[networks - 1]
        regrets.setdefault((networks, label), {})[name] = mean, band
        yield {
          'landscape': name,
          'strategy': label,
          'networks': networks,
          'searches': _FLAGS.seeds,
          'regret': f'{mean:.4f}',
          'band': f'{band:.4f}',
        }
    print(f'searched the landscape of {name}')
  for (networks, label), points in regrets.items():
    mean, band = np.array([*points.values()]).T
    local, _ = np.array([*regrets[networks, 'local'].values()]).T
    saved, half = compare.mean_and_band(local - mean)
    print(
      f'{label}: mean regret {mean.mean():.2f} ±'
      f' {np.sqrt(np.sum(band**2)) / len(band):.2f} after {networks} networks'
      f' (local search minus this: {saved:+.2f} ± {half:.2f} over data sets)'
    )
  drawn = charts.regrets(
    {
      label: {name: mean for name, (mean, _) in points.items()}
      for (networks, label), points in regrets.items()
      if networks == _AFTER[0]
    },
    after=_AFTER[0],
  )
  _OUT('strategies.png').write_bytes(style.png(drawn))


def contenders(
  found: Any, landscape: landscape_lib.Landscape, name: str
) -> dict[str, tuple[str, Mapping[str, Any]]]:
  """Returns strategies to compare, by label: a name and its options."""
  order = tuple(found.order(landscape, landscape.weights))
  accepted = landscape.network(found.accepted)
  have = invariant_sets.true_symmetries(name.split('/')[1])
  most_weights = np.argsort(-landscape.weights, kind='stable').tolist()
  return {
    'screened': ('screened', {'order': order}),
    'local from accepted': ('screened', {'order': (accepted,)}),
    'local from the truth': ('screened', {'order': (landscape.network(have),)}),
    'local': ('local', {}),
    'most weights first': (
      'screened',
      {'order': tuple(most_weights), 'first': len(most_weights)},
    ),
    'random': ('random', {}),
  }


if __name__ == '__main__':
  launch.run(main)
