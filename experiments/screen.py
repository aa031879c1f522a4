r"""Measures how reliable the screen of symmetries is, and if it helps searches.

  python -m experiments.screen --raw_dir=path/to/files

Time: of a screening of 2000 images, with and without compilation.
Level: how often it rejects a symmetry of synthetic data that have all of them.
Power: its outcomes on G-MNIST and G-Fashion-MNIST compared with the exact
truth, known by enumerating products of the generators of the images.
Planted: how often it rejects the one symmetry that images were made with.
Strategies: the regret of searches on the twelve landscapes, with and without a
screening of the data.

Writes tables and a figure; takes ten minutes on two cores.
"""

from collections.abc import Iterator, Mapping, Sequence
import itertools
import time
from typing import Any

import numpy as np

import aen
from aen.data import transform
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
  num_draws=(20, 'Samples of each data set with a planted symmetry.', 1),
  num_sets=(100, 'Synthetic data sets of each kind.', 1),
  seeds=(120, 'Searches of each strategy on each landscape.', 2),
  landscapes=('results/mlp/landscapes.npz', 'File with several landscapes.'),
)
_OUT = timing.output('screen')

BASES = ('g_mnist', 'g_fashion_mnist')
_LEVEL = 0.05  # of the synthetic sets
_ROUNDS = 50  # enough for twenty networks
_AFTER = (10, 20)  # networks


def main(_: Sequence[str]) -> None:
  """Runs the parts, and writes their tables."""
  if unknown := sorted(set(_FLAGS.parts) - set(PARTS)):
    raise ValueError(f'--parts are some of {",".join(PARTS)}, got {unknown[0]}')
  for part in _FLAGS.parts:
    rows_lib.write(_OUT(f'{part}.csv'), list(_MEASURE[part]()))
  print(f'Tables: {_OUT("")}')


def _images(name: str, num_draws: int = 1) -> Iterator[Any]:
  """Yields disjoint samples of the images of a data set."""
  count = _FLAGS.num_images
  images = aen.load_dataset(
    name, num_train=num_draws * count, raw_dir=_FLAGS.raw_dir
  ).train
  for start in range(0, num_draws * count, count):
    yield images.take(np.arange(start, start + count))


def _times() -> Iterator[dict[str, Any]]:
  (images,) = _images('g_mnist/aug5')
  for which in ('first', 'second'):
    start, used = time.perf_counter(), time.process_time()
    aen.screen(images.images, images.labels)
    seconds = time.perf_counter() - start
    of_cores = time.process_time() - used
    print(
      f'time: {seconds:.1f} s for the {which} screening,'
      f' {of_cores:.1f} s of all cores together'
    )
    yield {
      'screening': which,
      'seconds': f'{seconds:.2f}',
      'core_seconds': f'{of_cores:.2f}',
    }


def _level() -> Iterator[dict[str, Any]]:
  any_rejected = []
  for kind, make in invariant_sets.KINDS.items():
    rng = np.random.default_rng(1)
    for number in range(_FLAGS.num_sets):
      inputs, labels, symmetries, grid = make(rng)
      found = aen.screen(
        inputs, labels, symmetries, grid=grid, level=_LEVEL, seed=number
      )
      any_rejected.append(bool(found.rejected))
      for name, p_value in found.p_values.items():
        yield {
          'kind': kind,
          'set': number,
          'symmetry': name,
          'p_value': f'{p_value:.3f}',
          'outcome': found.findings[name].outcome,
        }
    share = np.mean(any_rejected[-_FLAGS.num_sets :])
    print(f'level: {kind}: {100 * share:.1f} % of {number + 1}')
  print(
    f'level: family-wise false rejections {100 * np.mean(any_rejected):.2f} %'
    f' of {len(any_rejected)} sets at level {_LEVEL}'
  )


def _power() -> Iterator[dict[str, Any]]:
  right: dict[tuple[str, bool], list[bool]] = {}
  for part, configs in (
    ('group', [f'iaug{k}_group' for k in range(1, 13)]),
    ('aug', [f'aug{k}' for k in range(1, 6)]),
    ('published', [f'iaug{k}' for k in range(1, 13)]),
  ):
    for base, name in itertools.product(BASES, configs):
      true, wrong = invariant_sets.true_symmetries(name), []
      (images,) = _images(f'{base}/{name}')
      found = aen.screen(images.images, images.labels)
      for symmetry, finding in found.findings.items():
        is_true, rejected = symmetry in true, symmetry in found.rejected
        right.setdefault((part, is_true), []).append(is_true != rejected)
        if is_true == rejected:
          kind = 'true but rejected' if is_true else 'false but not rejected'
          wrong.append(f'{symmetry} ({kind})')
        yield {
          'part': part,
          'dataset': f'{base}/{name}',
          'symmetry': symmetry,
          'is_true': int(is_true),
          'outcome': finding.outcome,
          'p_value': f'{finding.p_value:.3f}',
          'adjusted_p_value': f'{finding.adjusted_p_value:.3f}',
          'effect': f'{finding.effect:.4f}',
          'discrepancy': f'{finding.discrepancy:.6f}',
          'z': f'{finding.discrepancy / (finding.noise or 1):.1f}',
          'examples_needed': found.examples_needed[symmetry],
        }
      own = [n for n in transform.config(name).symmetries if n not in true]
      note = f'; not exactly invariant to {", ".join(own)}' if own else ''
      wrong_ones = ', '.join(wrong) or 'none'
      print(f'power: {base}/{name}: wrong: {wrong_ones}{note}')
  for parts in (('group', 'aug'), ('published',)):
    for is_true in (True, False):
      answers = [a for part in parts for a in right[part, is_true]]
      what = 'true symmetries not' if is_true else 'false symmetries'
      print(
        f'power: {" and ".join(parts)}: {sum(answers)} of {len(answers)}'
        f' ({100 * np.mean(answers):.1f} %) {what} rejected'
      )


def _planted() -> Iterator[dict[str, Any]]:
  """Tests only the planted symmetry, on disjoint samples.

  Holm's p-value equals its own wherever all other symmetries are rejected.
  """
  rejected = []
  for base, k in itertools.product(BASES, range(1, 13)):
    name = f'{base}/iaug{k}_group'
    (planted,) = transform.config(f'iaug{k}').symmetries
    for draw, images in enumerate(_images(name, _FLAGS.num_draws)):
      found = aen.screen(images.images, images.labels, planted, seed=draw)
      rejected.append(bool(found.rejected))
      yield {
        'dataset': name,
        'draw': draw,
        'symmetry': planted,
        'p_value': f'{found.p_values[planted]:.3f}',
        'effect': f'{found.effects[planted]:.4f}',
      }
  print(
    f'planted: {len(rejected) - sum(rejected)} of {len(rejected)}'
    f' ({100 - 100 * np.mean(rejected):.1f} %) not rejected'
  )


def _strategies() -> Iterator[dict[str, Any]]:
  landscapes = landscape_lib.load_all(_FLAGS.landscapes)
  regrets: dict[str, list[np.ndarray]] = {}  # [N, 2] of each data set
  for name, landscape in landscapes.items():
    (images,) = _images(name)
    found = aen.screen(images.images, images.labels)
    for label, (kind, options) in contenders(found, landscape, name).items():
      strategy = traces_lib.make_strategy(landscape, kind, **options)
      numbers = np.arange(_FLAGS.seeds)
      traces = compare.search_landscape(strategy, landscape, numbers, _ROUNDS)
      curves = compare.curves(traces, landscape, numbers)['networks']
      points = 100 * curves.regret[:, [n - 1 for n in _AFTER]]
      regrets.setdefault(label, []).append(points)
      mean, band = compare.mean_and_band(points)
      for i, networks in enumerate(_AFTER):
        yield {
          'landscape': name,
          'strategy': label,
          'networks': networks,
          'searches': _FLAGS.seeds,
          'regret': f'{mean[i]:.4f}',
          'band': f'{band[i]:.4f}',
        }
    after = ', '.join(
      f'{label} {points[-1][:, 0].mean():.2f}'
      for label, points in regrets.items()
    )
    print(f'strategies: {name}: {after}')
  stacked = {label: np.stack(points) for label, points in regrets.items()}
  for label, points in stacked.items():  # [sets, N, 2]
    mean = points.mean(axis=(0, 1))
    errors = points.var(axis=1, ddof=1) / points.shape[1]
    band = 1.96 * np.sqrt(errors.sum(axis=0)) / len(points)
    saved = (stacked['local'] - points).mean(axis=1)
    half = 1.96 * saved.std(axis=0, ddof=1) / np.sqrt(len(saved))
    gains = ', '.join(
      f'{m:.2f} ± {b:.2f} after {n} networks (local search minus this:'
      f' {s:+.2f} ± {h:.2f} over data sets)'
      for m, b, n, s, h in zip(
        mean, band, _AFTER, saved.mean(axis=0), half, strict=True
      )
    )
    print(f'strategies: {label}: mean regret {gains}')
  bars = {
    label: dict(zip(landscapes, points[..., 0].mean(axis=1), strict=True))
    for label, points in stacked.items()
  }
  drawn = charts.regrets(bars, after=_AFTER[0])
  _OUT('strategies.png').write_bytes(style.png(drawn))


def contenders(
  found: Any, landscape: landscape_lib.Landscape, name: str
) -> dict[str, tuple[str, Mapping[str, Any]]]:
  """Returns the strategies to compare: names and options, by label."""
  have = invariant_sets.true_symmetries(name.split('/')[1])
  most_weights = np.argsort(-landscape.weights, kind='stable').tolist()
  return {
    'screened': ('screened', found.guide(landscape)),
    'local from the truth': ('local', {'starts': (landscape.network(have),)}),
    'local': ('local', {}),
    'most weights first': ('local', {'starts': tuple(most_weights)}),
    'random': ('random', {}),
  }


_MEASURE = {
  'time': _times,
  'level': _level,
  'power': _power,
  'planted': _planted,
  'strategies': _strategies,
}


if __name__ == '__main__':
  launch.run(main)
