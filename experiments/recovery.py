r"""Does `discover` find a planted symmetry on any kind of data?

Five kinds of data, 400 examples each, have one planted symmetry and enough
noise to make it matter. An answer is right if the chosen network respects the
planted symmetry.

sequence: DNA, one-hot [N, 12, 4], with one of two promoter motifs (TATA box or
  CAAT box) near the middle, on either strand; the reverse complement is among
  four candidates.
volume: noisy patterns [N, 4, 4, 4], each transformed by a random power of one
  default symmetry of volumes, drawn for each data set.
table: rows of 24 columns, the measurements of two exchangeable subjects; the
  exchange is among four permutations of columns.
regression: sequences [N, 12] and a quadratic function of them that is invariant
  under one default symmetry of sequences, drawn for each data set.
permutation: noisy patterns on 24 points, each transformed by a random power of
  one of three random permutations, which are passed as arrays.

  python -m experiments.recovery

Prints how many answers are right, and writes recovery.csv, one row per search
with its CPU seconds. Searches in the file are not run again, so the same
command resumes an interrupted run. Takes a quarter of an hour on one core.
"""

from collections.abc import Callable, Iterable, Mapping
import time
from typing import Any

import numpy as np

import aen
from aen import io as io_lib
from aen.groups import paper
from aen.groups import symmetries as symmetries_lib
from experiments import invariant_sets
from experiments import launch
from experiments import rows as rows_lib

_NUM_EXAMPLES = 400
_FIRST_SEED = 300  # sizes, noise and defaults were chosen on those below

# inputs, targets, the planted symmetry's name, further arguments of `discover`
Problem = tuple[np.ndarray, np.ndarray, str, dict[str, Any]]


def sequence(rng: np.random.Generator) -> Problem:
  """DNA with a motif on either strand; A, C, G, T are 0, 1, 2, 3."""
  motifs = ['TATAAA', 'CCAATC']
  codes = np.array([['ACGT'.index(base) for base in m] for m in motifs])
  labels = rng.integers(2, size=_NUM_EXAMPLES)
  bases = rng.integers(4, size=(_NUM_EXAMPLES, 12))
  motif = codes[labels]
  mutated = rng.random(motif.shape) < 0.45
  motif = np.where(mutated, rng.integers(4, size=motif.shape), motif)
  bases[:, 2:8] = motif
  other_strand = rng.random(_NUM_EXAMPLES) < 0.5
  bases[other_strand] = 3 - bases[other_strand, ::-1]  # A ↔ T, C ↔ G
  candidates = [
    aen.Symmetry('reverse_complement', lambda x: x[::-1, ::-1]),
    aen.Symmetry('reversal_only', lambda x: x[::-1]),
    aen.Symmetry('complement_only', lambda x: x[:, ::-1]),
    aen.Symmetry('shift', lambda x: np.roll(x, 4, axis=0)),
  ]
  options = {'symmetries': candidates, 'grid_axes': 2}
  options['hidden_shapes'] = ((12, 4),)
  names = np.array(['TATA box', 'CAAT box'])
  return np.eye(4)[bases], names[labels], 'reverse_complement', options


def volume(rng: np.random.Generator) -> Problem:
  """Patterns transformed by random powers of a default symmetry."""
  candidates = symmetries_lib.CANDIDATES[3]
  planted = candidates[rng.integers(len(candidates))]
  points = aen.permutation(planted, (4, 4, 4))
  inputs, labels = transformed_patterns(rng, points, 2.5)
  options = {'max_networks': 12, 'hidden_shapes': ((4, 4, 4),), 'grid_axes': 3}
  return inputs.reshape(-1, 4, 4, 4), labels, planted.name, options


def table(rng: np.random.Generator) -> Problem:
  """Twelve measurements of each of two subjects, which are in random order."""
  labels = rng.integers(2, size=_NUM_EXAMPLES)
  first, second = rng.normal(size=(2, _NUM_EXAMPLES, 12))
  profile = 0.5 * rng.normal(size=(2, 12))
  first += profile[labels]  # one of the two has the profile of the class
  rows = np.stack([first, second], axis=1)
  swapped = rng.random(_NUM_EXAMPLES) < 0.5
  rows[swapped] = rows[swapped, ::-1]
  columns = np.arange(24)
  candidates = {
    'exchange': np.roll(columns, 12),
    'neighbours': columns.reshape(12, 2)[:, ::-1].ravel(),
    'reversal': columns[::-1].copy(),
    'shift': np.roll(columns, 1),
  }
  kinds = np.array(['healthy', 'ill'])
  options = {'symmetries': candidates, 'hidden_shapes': ((24,),)}
  return rows.reshape(-1, 24), kinds[labels], 'exchange', options


def regression(rng: np.random.Generator) -> Problem:
  """A quadratic function that is invariant under a symmetry of sequences."""
  candidates = symmetries_lib.CANDIDATES[1]
  planted = candidates[rng.integers(len(candidates))]
  cycles = aen.orbits([aen.permutation(planted, (12,))], 12)
  inputs = rng.normal(size=(_NUM_EXAMPLES, 12))
  values = np.square(inputs) @ rng.normal(size=12)[cycles]
  noise = 0.3 * values.std() * rng.normal(size=len(values))
  options = {'hidden_shapes': ((12,),)}
  return inputs, values + noise, planted.name, options


def permutation(rng: np.random.Generator) -> Problem:
  """Patterns transformed by random powers of one of three permutations."""
  candidates = {}
  for name, length in (('pairs', 2), ('triples', 3), ('fours', 4)):
    cycles = rng.permutation(24).reshape(-1, length)
    candidates[name] = np.empty(24, int)
    candidates[name][cycles] = np.roll(cycles, 1, axis=1)
  name = list(candidates)[rng.integers(3)]
  inputs, labels = transformed_patterns(rng, candidates[name], 2.0)
  options = {'symmetries': candidates, 'hidden_shapes': ((24,),)}
  return inputs, labels, name, options


def transformed_patterns(
  rng: np.random.Generator, points: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:
  """Returns noisy patterns transformed by random powers, and their labels."""
  labels = rng.integers(3, size=_NUM_EXAMPLES)
  patterns = rng.normal(size=(3, points.size))[labels]
  powers = paper.elements([points], points.size)
  patterns = invariant_sets.randomly_transformed(rng, patterns, powers)
  return patterns + noise * rng.normal(size=patterns.shape), labels


KINDS: Mapping[str, Callable[[np.random.Generator], Problem]] = {
  kind.__name__: kind
  for kind in (sequence, volume, table, regression, permutation)
}
_FLAGS = launch.define(
  num_trials=(20, 'Searches of each kind of data.', 1),
  kind=(list, 'Kind of data; all five by default.', list(KINDS)),
  out=('runs/recovery', 'Folder of recovery.csv.'),
)


def ask(kind: str, seed: int) -> dict[str, object]:
  """Runs the search of one problem; returns its answer."""
  inputs, targets, planted, options = KINDS[kind](np.random.default_rng(seed))
  start = time.process_time()
  result = aen.discover(inputs, targets, seed=seed, progress=False, **options)
  best = result.best
  right = planted in {*best.symmetries, *best.implied}
  return {
    'planted': planted,
    **rows_lib.of_search(best, right, ('score', 'baseline')),  # accuracy, or R²
    'num_networks': len(result.space),
    'num_trained': result.counts.networks,
    'seconds': f'{time.process_time() - start:.1f}',
  }


def summary(rows: Iterable[Mapping[str, object]]) -> str:
  """Returns how many answers of each kind are right."""
  found = rows_lib.by(('kind',), rows)
  lines = []
  for kind in (kind for kind in KINDS if (kind,) in found):
    own = found[kind,]
    median = np.median([float(row['seconds']) for row in own])
    lines.append(f'{kind:12} {rows_lib.count(own)}, {median:.0f} s a search')
  return '\n'.join(lines)


def main(_: list[str]) -> None:
  """Runs every search that has no row yet."""
  config = {'experiment': 'recovery', 'examples': _NUM_EXAMPLES}
  path = io_lib.open_run(_FLAGS.out, config) / 'recovery.csv'
  questions = (
    {'kind': kind, 'seed': _FIRST_SEED + trial}
    for trial in range(_FLAGS.num_trials)  # any prefix is a fair sample
    for kind in _FLAGS.kind or KINDS
  )
  with launch.resumable():
    print(summary(rows_lib.ask_all(path, questions, ask)))


if __name__ == '__main__':
  launch.run(main)
