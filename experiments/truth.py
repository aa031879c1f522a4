r"""Does the search find the truth, where it is known?

Planted: images transformed by one exact symmetry, each of the twelve in turn;
the best network should respect it.
Shuffled: random labels; the interval of the gain should contain 0.
Square: the outcomes of tic-tac-toe, where nothing was planted; the best network
should respect the symmetries of the square and no cyclic shift.
Gain: real images transformed by one exact symmetry for which the paper's table
of single symmetries shows a gain; with the paper's sizes and head, the gain of
the same network should be at least three standard errors.

  python -m experiments.truth
  python -m experiments.truth --gains=g_mnist,g_fashion_mnist --raw_dir=…

Prints how many answers are right (59 of 60 of the planted ones), and writes
truth.csv, one row per search. Searches in the file are not run again, so the
same command resumes an interrupted run. Takes an hour on two cores, with
--num_seeds=1 --num_shuffled=2 ten minutes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import time
from typing import Any
import warnings

import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import mlp_space
from aen.search import search as search_lib
from experiments import flags
from experiments import launch
from experiments import published_mlp
from experiments import rows as rows_lib

_FLAGS = launch.define(
  gains=((), 'Data of the kind gain: some of g_mnist, g_fashion_mnist.'),
  num_seeds=(5, 'Searches for each planted symmetry.', 0),
  num_shuffled=(20, 'Searches with shuffled labels.', 0),
  epochs=(
    int,
    'Epochs of a child, planted and shuffled; by default as in a search.',
    1,
  ),
  out=('runs/truth', 'Folder of truth.csv.'),
)
_RETRAINING = flags.from_fields(aen.SearchConfig, only=('top', 'retrain_seeds'))
_PLACES = flags.places()


def main(_: list[str]) -> None:
  """Runs every search that has no row yet."""
  config = {'experiment': 'truth', 'epochs': _FLAGS.epochs, **_RETRAINING()}
  path = io_lib.open_run(_FLAGS.out, config) / 'truth.csv'
  asked = questions(_FLAGS.num_seeds, _FLAGS.num_shuffled, _FLAGS.gains)
  with launch.resumable():
    rows = rows_lib.ask_all(path, asked, ask)
  print(summary(rows))


def questions(
  num_seeds: int, num_shuffled: int, gains: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
  """Yields questions, seed by seed, so that any prefix is a fair sample.

  The kind is a key of `IS_RIGHT`; the subject is the symmetry, the data set, or
  both.
  """
  yield {'kind': 'square', 'subject': 'tic_tac_toe', 'seed': 0}
  for base in gains:
    table = published_mlp.table(base, published_mlp.SINGLE)
    for bit, name in enumerate(PAPER_SYMMETRIES, start=1):
      if table[bit, bit] > table[bit, 0]:  # better than without symmetry
        yield {'kind': 'gain', 'subject': f'{base}/{name}', 'seed': 0}
  for seed in range(max(num_seeds, num_shuffled)):
    if seed < num_seeds:
      for name in PAPER_SYMMETRIES:
        yield {'kind': 'planted', 'subject': name, 'seed': seed}
    if seed < num_shuffled:
      yield {'kind': 'shuffled', 'subject': 'aug0', 'seed': seed}


def load(kind: str, subject: str, seed: int) -> dataset_lib.Dataset:
  """Loads the data of a question."""
  if kind == 'square':
    return aen.load_dataset('tic_tac_toe', seed=seed)
  base, name, sizes = 'g_digits', subject, {}
  if kind == 'gain':
    base, name = subject.split('/')
    sizes = {'num_train': 10000, 'num_validation': 1000}
  bit = ['aug0', *PAPER_SYMMETRIES].index(name)
  data = aen.load_dataset(
    f'{base}/iaug{bit}_group', seed=seed, **_PLACES(), **sizes
  )
  return shuffled(data) if kind == 'shuffled' else data


def shuffled(data: dataset_lib.Dataset) -> dataset_lib.Dataset:
  """Permutes the labels among the images."""
  rng = np.random.default_rng(0)
  parts = {}
  for name in ('train', 'validation', 'test'):
    part = getattr(data, name)
    labels = rng.permutation(part.labels)
    parts[name] = dataclasses.replace(part, labels=labels)
  return dataclasses.replace(data, **parts)


# Whether an answer is right: takes the subject, the best network, and the names
# of all symmetries that it respects.
IS_RIGHT: dict[str, Callable[[str, Any, set[str]], bool]] = {
  'planted': lambda subject, _, names: subject in names,
  'shuffled': lambda _, best, __: best.gain.low <= 0 <= best.gain.high,
  'square': lambda _, __, names: (
    names == {'rotation', 'horizontal_flip', 'vertical_flip'}
  ),
  'gain': lambda _, best, __: (
    bool(best.symmetries) and best.gain.mean >= 3 * best.gain.standard_error
  ),
}


def ask(kind: str, subject: str, seed: int) -> dict[str, object]:
  """Runs the search of a question; returns its answer."""
  start, data = time.perf_counter(), load(kind, subject, seed)
  options: dict[str, Any] = {'head': 'invariant'}
  if kind == 'gain':  # the two networks that the paper compares
    options = {'symmetries': (subject.split('/')[1],), 'head': 'dense'}
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', message='left out')  # on 3×3 boards
    space = mlp_space.mlp_space(data.image_shape, data.num_classes, **options)
  images = min(len(data.train), search_lib.SEARCH_IMAGES)
  recipe = search_lib.default_recipe(images)
  if _FLAGS.epochs and kind in ('planted', 'shuffled'):
    recipe = dataclasses.replace(recipe, epochs=_FLAGS.epochs)
  config = aen.SearchConfig(recipe, seed=seed, **_RETRAINING())
  best = search_lib.search(data, space, config).best
  right = IS_RIGHT[kind](subject, best, {*best.symmetries, *best.implied})
  return {
    **rows_lib.of_search(best, right, ('accuracy', 'base_accuracy')),
    'standard_error': f'{best.gain.standard_error:.4f}',
    'seconds': f'{time.perf_counter() - start:.1f}',
  }


def summary(rows: Sequence[Mapping[str, object]]) -> str:
  """Returns how many answers are right, by kind and subject."""
  return '\n'.join(
    f'{kind:9} {subject:28} {rows_lib.count(own)}'
    for (kind, subject), own in sorted(
      rows_lib.by(('kind', 'subject'), rows).items()
    )
  )


if __name__ == '__main__':
  launch.run(main)
