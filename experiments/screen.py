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

from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import csv
import dataclasses
import itertools
import pathlib
import time
from typing import Any

from absl import flags
import numpy as np

import aen
from aen import io as io_lib
from aen.data import transform
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import permutation
from aen.report import charts
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import space as space_lib
from aen.search import strategies
from experiments import invariant_sets
from experiments import launch

PARTS = ('time', 'level', 'power', 'planted', 'strategies')
_PARTS = flags.DEFINE_list('parts', list(PARTS), f'Some of {",".join(PARTS)}.')
_RAW_DIR = flags.DEFINE_string(
  'raw_dir', None, 'Folder with the official files of MNIST and Fashion-MNIST.'
)
_NUM_IMAGES = flags.DEFINE_integer(
  'num_images', 2000, 'Images of each screening.', lower_bound=100
)
_NUM_DRAWS = flags.DEFINE_integer(
  'num_draws', 20, 'Draws of images with a planted symmetry.', lower_bound=1
)
_NUM_SETS = flags.DEFINE_integer(
  'num_sets', 100, 'Synthetic data sets of each kind.', lower_bound=1
)
_SEEDS = flags.DEFINE_integer(
  'seeds', 120, 'Searches of each strategy on each landscape.', lower_bound=2
)
_LANDSCAPES = flags.DEFINE_string(
  'landscapes', 'results/mlp/landscapes.npz', 'File with several landscapes.'
)
_OUT = flags.DEFINE_string('out', 'runs/screen', 'Folder for the tables.')

BASES = ('g_mnist', 'g_fashion_mnist')
_LEVEL = 0.05  # of the synthetic sets
_ROUNDS = 50  # enough for twenty networks
_AFTER = (10, 20)  # networks


@dataclasses.dataclass(frozen=True)
class Config:
  """What to measure."""

  parts: tuple[str, ...]
  raw_dir: str | None
  num_images: int
  num_draws: int
  num_sets: int
  seeds: int
  landscapes: str
  out: pathlib.Path


def run(config: Config) -> None:
  """Measures, prints and writes tables."""
  config.out.mkdir(parents=True, exist_ok=True)
  for part in config.parts:
    rows = list(_MEASURE[part](config))
    with io_lib.written_text(config.out / f'{part}.csv') as file:
      writer = csv.DictWriter(file, rows[0], lineterminator='\n')
      writer.writeheader()
      writer.writerows(rows)
  print(f'Tables: {config.out}')


def _images(config: Config, name: str, num_draws: int = 1) -> Iterator[Any]:
  """Yields disjoint draws of images from a data set."""
  count = config.num_images
  images = aen.load_dataset(
    name, num_train=num_draws * count, raw_dir=config.raw_dir
  ).train
  for start in range(0, num_draws * count, count):
    yield images.take(np.arange(start, start + count))


def _times(config: Config) -> Iterator[dict[str, Any]]:
  (images,) = _images(config, 'g_mnist/aug5')
  for which in ('first', 'second'):
    start, used = time.perf_counter(), time.process_time()
    aen.screen(images.images, images.labels)
    seconds = time.perf_counter() - start
    of_cores = time.process_time() - used
    print(
      f'time: {seconds:.1f} s for the {which} screening,'
      f' {of_cores:.1f} s of all cores together',
      flush=True,
    )
    yield {
      'screening': which,
      'seconds': f'{seconds:.2f}',
      'core_seconds': f'{of_cores:.2f}',
    }


def _level(config: Config) -> Iterator[dict[str, Any]]:
  any_rejected = []
  for kind, make in invariant_sets.KINDS.items():
    rng = np.random.default_rng(1)
    for number in range(config.num_sets):
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
    share = np.mean(any_rejected[-config.num_sets :])
    print(
      f'level: {kind}: {100 * share:.1f} % of {config.num_sets}', flush=True
    )
  print(
    f'level: family-wise false rejections {100 * np.mean(any_rejected):.2f} %'
    f' of {len(any_rejected)} sets at level {_LEVEL}',
    flush=True,
  )


def _power(config: Config) -> Iterator[dict[str, Any]]:
  right: dict[tuple[str, bool], list[bool]] = {}
  for part, configs in (
    ('group', [f'iaug{k}_group' for k in range(1, 13)]),
    ('aug', [f'aug{k}' for k in range(1, 6)]),
    ('published', [f'iaug{k}' for k in range(1, 13)]),
  ):
    for base, name in itertools.product(BASES, configs):
      true, wrong = true_symmetries(name), []
      (images,) = _images(config, f'{base}/{name}')
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
      print(f'power: {base}/{name}: wrong: {wrong_ones}{note}', flush=True)
  for parts in (('group', 'aug'), ('published',)):
    for is_true in (True, False):
      answers = [a for part in parts for a in right[part, is_true]]
      what = 'true symmetries not' if is_true else 'false symmetries'
      print(
        f'power: {" and ".join(parts)}: {sum(answers)} of {len(answers)}'
        f' ({100 * np.mean(answers):.1f} %) {what} rejected',
        flush=True,
      )


def _planted(config: Config) -> Iterator[dict[str, Any]]:
  """Tests the one symmetry that images were made with, on disjoint draws.

  Where all others are rejected, Holm's p-value of the planted one is its own.
  """
  rejected = []
  for base, k in itertools.product(BASES, range(1, 13)):
    name = f'{base}/iaug{k}_group'
    (planted,) = transform.config(f'iaug{k}').symmetries
    for draw, images in enumerate(_images(config, name, config.num_draws)):
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
    f' ({100 - 100 * np.mean(rejected):.1f} %) not rejected',
    flush=True,
  )


def true_symmetries(name: str, side: int = 28) -> tuple[str, ...]:
  """Returns the symmetries that images of a config have, exactly.

  An image is x[p], for a random product p of generators. Its distribution is
  invariant under h if p and p[h] have the same distribution. Rotation by any
  angle counts as a uniformly random rotation by a multiple of 90°, which does
  not change its distribution. What the original images have is left out: they
  have none of the symmetries.

  >>> true_symmetries('aug3', side=12)
  ('top_horizontal_scramble',)
  """
  config = transform.config(name)
  identity = np.arange(side * side, dtype=np.int32)
  products = [identity]
  for bit, name_of_bit in enumerate(symmetries_lib.PAPER_SYMMETRIES):
    if not config.bits[bit]:
      continue
    points = permutation(name_of_bit, (side, side))
    if config.as_published and 'translation' in name_of_bit:
      axis = int(name_of_bit.startswith('horizontal'))
      points = permutation(lambda x, a=axis: np.roll(x, 1, a), (side, side))
    powers = [identity, points]
    if not config.as_published or bit == transform.ROTATION:
      while not np.array_equal(powers[-1][points], identity):
        powers.append(powers[-1][points])
    products = [p[power] for p in products for power in powers]
  law = Counter(p.tobytes() for p in products)
  return tuple(
    s
    for s in symmetries_lib.PAPER_SYMMETRIES
    if law
    == Counter(p[permutation(s, (side, side))].tobytes() for p in products)
  )


def _strategies(config: Config) -> Iterator[dict[str, Any]]:
  landscapes = landscape_lib.load_all(config.landscapes)
  regrets: dict[str, dict[str, np.ndarray]] = {}  # [N, 2] by strategy, set
  for name, landscape in landscapes.items():
    (images,) = _images(config, name)
    found = aen.screen(images.images, images.labels)
    for label, (kind, options) in contenders(found, landscape, name).items():
      strategy = strategies.make(
        kind,
        len(landscape.symmetries),
        network_of=landscape.network_of,
        epochs=landscape.validation.shape[-1],
        **options,
      )
      numbers = np.arange(config.seeds)
      traces = compare.search_landscape(strategy, landscape, numbers, _ROUNDS)
      curves = compare.curves(traces, landscape, numbers)['networks']
      points = 100 * curves.regret[:, [n - 1 for n in _AFTER]]
      regrets.setdefault(label, {})[name] = points
      mean, band = compare.mean_and_band(points)
      for i, networks in enumerate(_AFTER):
        yield {
          'landscape': name,
          'strategy': label,
          'networks': networks,
          'searches': config.seeds,
          'regret': f'{mean[i]:.4f}',
          'band': f'{band[i]:.4f}',
        }
    after = ', '.join(
      f'{label} {found_by[name][:, 0].mean():.2f}'
      for label, found_by in regrets.items()
    )
    print(f'strategies: {name}: {after}', flush=True)
  _summarise(regrets)
  drawn = charts.regrets(
    {
      label: {name: points[:, 0].mean() for name, points in found.items()}
      for label, found in regrets.items()
    },
    after=_AFTER[0],
  )
  drawn.savefig(config.out / 'strategies.png', metadata={'Software': None})


def contenders(
  found: Any, landscape: landscape_lib.Landscape, name: str
) -> dict[str, tuple[str, Mapping[str, Any]]]:
  """Returns strategies to compare, by label: a name and its options."""
  table = space_lib.Table(landscape.symmetries, landscape.network_of)
  order = tuple(found.order(table, landscape.weights))
  accepted = landscape.network(found.accepted)
  true = landscape.network(true_symmetries(name.split('/')[1]))
  most_weights = np.argsort(-landscape.weights, kind='stable').tolist()
  return {
    'screened': ('screened', {'order': order}),
    'local from accepted': ('screened', {'order': (accepted,)}),
    'local from the truth': ('screened', {'order': (true,)}),
    'local': ('local', {}),
    'most weights first': (
      'screened',
      {'order': tuple(most_weights), 'first': len(most_weights)},
    ),
    'random': ('random', {}),
  }


def _summarise(regrets: Mapping[str, Mapping[str, np.ndarray]]) -> None:
  """Prints means over data sets, with two kinds of intervals."""
  for label, found in regrets.items():
    points = np.stack(list(found.values()))  # [sets, N, 2]
    mean = points.mean(axis=(0, 1))
    errors = points.var(axis=1, ddof=1) / points.shape[1]
    band = 1.96 * np.sqrt(errors.sum(axis=0)) / len(points)
    saved = (np.stack(list(regrets['local'].values())) - points).mean(axis=1)
    half = 1.96 * saved.std(axis=0, ddof=1) / np.sqrt(len(saved))
    gains = ', '.join(
      f'{m:.2f} ± {b:.2f} after {n} networks (local search minus this:'
      f' {s:+.2f} ± {h:.2f} over data sets)'
      for m, b, n, s, h in zip(
        mean, band, _AFTER, saved.mean(axis=0), half, strict=True
      )
    )
    print(f'strategies: {label}: mean regret {gains}', flush=True)


_MEASURE = {
  'time': _times,
  'level': _level,
  'power': _power,
  'planted': _planted,
  'strategies': _strategies,
}


def main(_: Sequence[str]) -> None:
  """Flags to config to one call."""
  if unknown := sorted(set(_PARTS.value) - set(PARTS)):
    raise ValueError(f'--parts are some of {",".join(PARTS)}, got {unknown[0]}')
  run(
    Config(
      parts=tuple(_PARTS.value),
      raw_dir=_RAW_DIR.value,
      num_images=_NUM_IMAGES.value,
      num_draws=_NUM_DRAWS.value,
      num_sets=_NUM_SETS.value,
      seeds=_SEEDS.value,
      landscapes=_LANDSCAPES.value,
      out=pathlib.Path(_OUT.value),
    )
  )


if __name__ == '__main__':
  launch.run(main)
