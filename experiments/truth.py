r"""Does the search tell the truth? It is asked where the answer is known.

Planted: images that were transformed by one exact symmetry, each of the twelve
in turn; the best network should respect it.
Shuffled: labels that mean nothing; the interval of the gain should hold 0.
Square: the outcomes of tic-tac-toe, which nobody planted anything in; the best
network should respect the symmetries of the square and no cyclic shift.
Gain: real images transformed by one exact symmetry, where the paper's table of
single symmetries shows a gain of the network that has it; so should we, with
the paper's sizes and head, by three standard errors.

  python -m experiments.truth
  python -m experiments.truth --gains=g_mnist,g_fashion_mnist --raw_dir=…

Prints how many answers are right (59 of 60 of the planted ones), and writes
truth.csv, one line per search; searches in it are not repeated, so the same
command resumes an interrupted run. An hour on two cores; --num_seeds=1
--num_shuffled=2 takes ten minutes.
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
  gains=((), 'Of g_mnist and g_fashion_mnist: where to ask for gains.'),
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


@dataclasses.dataclass(frozen=True)
class Question:
  """One search whose answer is known."""

  kind: str  # a key of `IS_RIGHT`
  subject: str  # the symmetry, or the data set, or both
  seed: int


def main(_: list[str]) -> None:
  """Asks everything that has not been answered yet."""
  config = {'experiment': 'truth', 'epochs': _FLAGS.epochs, **_RETRAINING()}
  path = io_lib.open_run(_FLAGS.out, config) / 'truth.csv'
  asked = questions(_FLAGS.num_seeds, _FLAGS.num_shuffled, _FLAGS.gains)
  with launch.resumable():
    rows = rows_lib.ask_all(path, map(dataclasses.asdict, asked), ask)
  print(summary(rows))


def questions(
  num_seeds: int, num_shuffled: int, gains: Sequence[str] = ()
) -> Iterator[Question]:
  """Yields what to ask, seed by seed, so that any prefix is a fair sample."""
  yield Question('square', 'tic_tac_toe', 0)
  for base in gains:
    table = published_mlp.table(base, published_mlp.SINGLE)
    for bit, name in enumerate(PAPER_SYMMETRIES, start=1):
      if table[bit, bit] > table[bit, 0]:  # better than without symmetry
        yield Question('gain', f'{base}/{name}', 0)
  for seed in range(max(num_seeds, num_shuffled)):
    if seed < num_seeds:
      for name in PAPER_SYMMETRIES:
        yield Question('planted', name, seed)
    if seed < num_shuffled:
      yield Question('shuffled', 'aug0', seed)


def load(question: Question) -> dataset_lib.Dataset:
  """Returns the images to ask about."""
  if question.kind == 'square':
    return aen.load_dataset('tic_tac_toe', seed=question.seed)
  base, name, sizes = 'g_digits', question.subject, {}
  if question.kind == 'gain':
    base, name = question.subject.split('/')
    sizes = {'num_train': 10000, 'num_validation': 1000}
  bit = ['aug0', *PAPER_SYMMETRIES].index(name)
  data = aen.load_dataset(
    f'{base}/iaug{bit}_group', seed=question.seed, **_PLACES(), **sizes
  )
  return shuffled(data) if question.kind == 'shuffled' else data


def shuffled(data: dataset_lib.Dataset) -> dataset_lib.Dataset:
  """Permutes the labels among the images."""
  rng = np.random.default_rng(0)
  parts = {}
  for name in ('train', 'validation', 'test'):
    part = getattr(data, name)
    labels = rng.permutation(part.labels)
    parts[name] = dataclasses.replace(part, labels=labels)
  return dataclasses.replace(data, **parts)


# Whether the best network and the symmetries that it respects are right.
IS_RIGHT: dict[str, Callable[[Question, Any, set[str]], bool]] = {
  'planted': lambda question, _, names: question.subject in names,
  'shuffled': lambda _, best, __: best.gain.low <= 0 <= best.gain.high,
  'square': lambda _, __, names: (
    names == {'rotation', 'horizontal_flip', 'vertical_flip'}
  ),
  'gain': lambda _, best, __: (
    bool(best.symmetries) and best.gain.mean >= 3 * best.gain.standard_error
  ),
}


def ask(**columns: Any) -> dict[str, object]:
  """Runs the search that a question asks for; returns its answer."""
  question, start = Question(**columns), time.perf_counter()
  data, gain = load(question), question.kind == 'gain'
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', message='left out')  # on 3×3 boards
    space = mlp_space.mlp_space(  # for a gain, the two that the paper compares
      data.image_shape,
      data.num_classes,
      (question.subject.split('/')[1],) if gain else None,
      head='dense' if gain else 'invariant',
    )
  images = min(len(data.train), search_lib.SEARCH_IMAGES)
  recipe = search_lib.default_recipe(images)
  if _FLAGS.epochs and question.kind in ('planted', 'shuffled'):
    recipe = dataclasses.replace(recipe, epochs=_FLAGS.epochs)
  config = aen.SearchConfig(recipe, seed=question.seed, **_RETRAINING())
  best = search_lib.search(data, space, config).best
  names = {*best.symmetries, *best.implied}
  right = IS_RIGHT[question.kind](question, best, names)
  return {
    **rows_lib.of_search(best, right, ('accuracy', 'base_accuracy')),
    'standard_error': f'{best.gain.standard_error:.4f}',
    'seconds': f'{time.perf_counter() - start:.1f}',
  }


def summary(rows: Sequence[Mapping[str, object]]) -> str:
  """Counts right answers, by kind and subject."""
  return '\n'.join(
    f'{kind:9} {subject:28} {rows_lib.count(own)}'
    for (kind, subject), own in sorted(
      rows_lib.by(('kind', 'subject'), rows).items()
    )
  )


if __name__ == '__main__':
  launch.run(main)
