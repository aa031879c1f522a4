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

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import time
import warnings

from absl import flags as absl_flags
import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import search as search_lib
from experiments import flags
from experiments import launch
from experiments import published_mlp
from experiments import rows as rows_lib

_BASE = absl_flags.DEFINE_string(
  'base',
  'g_digits',
  "Which images are transformed, such as 'g_digits', 'g_mnist'.",
)
_NUM_TRAIN = absl_flags.DEFINE_integer(
  'num_train', None, 'Training images; all by default.', lower_bound=64
)
_GAINS = absl_flags.DEFINE_list(
  'gains',
  [],
  "Of g_mnist and g_fashion_mnist: where to ask for the paper's gains.",
)
_NUM_SEEDS = absl_flags.DEFINE_integer(
  'num_seeds', 5, 'Searches for each planted symmetry.', lower_bound=0
)
_NUM_SHUFFLED = absl_flags.DEFINE_integer(
  'num_shuffled', 20, 'Searches with shuffled labels.', lower_bound=0
)
_EPOCHS = absl_flags.DEFINE_integer(
  'epochs',
  None,
  'Epochs of a child, planted and shuffled; by default as in a search.',
  lower_bound=1,
)
_RETRAINING = flags.from_fields(aen.SearchConfig, only=('top', 'retrain_seeds'))
_PLACES = flags.places()
_OUT = absl_flags.DEFINE_string(
  'out', 'runs/truth', 'Where truth.csv is written.'
)


@dataclasses.dataclass(frozen=True)
class Question:
  """One search whose answer is known."""

  kind: str  # a key of `IS_RIGHT`
  subject: str  # the symmetry, or the data set, or both
  seed: int


def main(_: Sequence[str]) -> None:
  """Asks everything that has not been answered yet."""
  asked_with = {h.name: h.value for h in (_BASE, _NUM_TRAIN, _EPOCHS)}
  config = {'experiment': 'truth', **asked_with, **_RETRAINING()}
  path = io_lib.open_run(_OUT.value, config) / 'truth.csv'
  rows: list[Mapping[str, object]] = [*rows_lib.read(path)]
  known = {(row['kind'], row['subject'], row['seed']) for row in rows}
  with launch.resumable():
    for question in questions(
      _NUM_SEEDS.value, _NUM_SHUFFLED.value, _GAINS.value
    ):
      if (question.kind, question.subject, str(question.seed)) not in known:
        rows.append(ask(question))
        rows_lib.write(path, rows)
        print(', '.join(f'{k}: {v}' for k, v in rows[-1].items()), flush=True)
  print(summary(rows))


def paper_gains(base: str) -> np.ndarray:
  """By how many points a symmetry helps on images it transformed, in the paper.

  Returns:
    For each of the twelve, the network that has it less the one without any.
  """
  table = published_mlp.table(base, published_mlp.SINGLE)
  return (np.diagonal(table) - table[:, 0])[1:]


def questions(
  num_seeds: int, num_shuffled: int, gains: Sequence[str] = ()
) -> Iterator[Question]:
  """Yields what to ask, seed by seed, so that any prefix is a fair sample."""
  yield Question('square', 'tic_tac_toe', 0)
  for base in gains:
    for name, gain in zip(aen.SYMMETRIES, paper_gains(base), strict=True):
      if gain > 0:
        yield Question('gain', f'{base}/{name}', 0)
  for seed in range(max(num_seeds, num_shuffled)):
    if seed < num_seeds:
      for name in aen.SYMMETRIES:
        yield Question('planted', name, seed)
    if seed < num_shuffled:
      yield Question('shuffled', 'aug0', seed)


def load(question: Question) -> dataset_lib.Dataset:
  """Returns the images to ask about."""
  if question.kind == 'square':
    return aen.load_dataset('tic_tac_toe', seed=question.seed)
  if question.kind == 'gain':
    base, name = question.subject.split('/')
    sizes = {'num_train': 10000, 'num_validation': 1000}
  else:
    base, name = _BASE.value, question.subject
    sizes = {'num_train': _NUM_TRAIN.value}
  bit = [*aen.SYMMETRIES].index(name) + 1 if name in aen.SYMMETRIES else 0
  data = aen.load_dataset(
    f'{base}/iaug{bit}_group',
    seed=question.seed,
    **dataclasses.asdict(_PLACES()),
    **sizes,
  )
  return shuffled(data) if question.kind == 'shuffled' else data


def shuffled(data: dataset_lib.Dataset) -> dataset_lib.Dataset:
  """Permutes the labels among the images."""
  rng = np.random.default_rng(0)
  parts = {
    name: dataclasses.replace(part, labels=rng.permutation(part.labels))
    for name in ('train', 'validation', 'test')
    for part in [getattr(data, name)]
  }
  return dataclasses.replace(data, **parts)


def _names(result: result_lib.SearchResult) -> set[str]:
  return {*result.best.symmetries, *result.best.implied}


# Whether an answer is right, by the kind of the question.
IS_RIGHT: dict[str, Callable[[Question, result_lib.SearchResult], bool]] = {
  'planted': lambda question, result: question.subject in _names(result),
  'shuffled': lambda _, result: (
    result.best.gain.low <= 0 <= result.best.gain.high
  ),
  'square': lambda _, result: (
    _names(result) == {'rotation', 'horizontal_flip', 'vertical_flip'}
  ),
  'gain': lambda _, result: (
    bool(result.best.symmetries)
    and result.best.gain.mean >= 3 * result.best.gain.standard_error
  ),
}


def ask(question: Question) -> dict[str, object]:
  """Runs one search; returns its line of the file."""
  start = time.perf_counter()
  data = load(question)
  result = search_lib.search(
    data, make_space(question, data), make_config(question, data)
  )
  best = result.best
  return {
    **dataclasses.asdict(question),
    'chosen': best.name,
    'implied': ' + '.join(best.implied),
    'right': int(IS_RIGHT[question.kind](question, result)),
    'accuracy': f'{best.accuracy:.4f}',
    'base_accuracy': f'{best.baseline_accuracy:.4f}',
    'gain': f'{best.gain.mean:.4f}',
    'low': f'{best.gain.low:.4f}',
    'high': f'{best.gain.high:.4f}',
    'standard_error': f'{best.gain.standard_error:.4f}',
    'seconds': f'{time.perf_counter() - start:.1f}',
  }


def make_space(
  question: Question, data: dataset_lib.Dataset
) -> mlp_space.MLPSpace:
  """Returns all networks; or the two that a gain of the paper compares."""
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', message='left out')  # on 3×3 boards
    gain = question.kind == 'gain'
    return mlp_space.mlp_space(
      data.image_shape,
      data.num_classes,
      (question.subject.split('/')[1],) if gain else None,
      head='dense' if gain else 'invariant',
    )


def make_config(
  question: Question, data: dataset_lib.Dataset
) -> aen.SearchConfig:
  """Returns the search's defaults but for what the flags say."""
  recipe = search_lib.default_recipe(
    min(len(data.train), search_lib.SEARCH_IMAGES)
  )
  if _EPOCHS.value and question.kind in ('planted', 'shuffled'):
    recipe = dataclasses.replace(recipe, epochs=_EPOCHS.value)
  return aen.SearchConfig(recipe, seed=question.seed, **_RETRAINING())


def summary(rows: Sequence[Mapping[str, object]]) -> str:
  """Counts right answers, by kind and subject."""
  counts: dict[tuple[str, str], list[int]] = {}
  for row in rows:
    subject = str(row['kind']), str(row['subject'])
    counts.setdefault(subject, []).append(int(row['right']))
  return '\n'.join(
    f'{kind:9} {subject:28} right in {sum(right)} of {len(right)}'
    for (kind, subject), right in sorted(counts.items())
  )


if __name__ == '__main__':
  launch.run(main)
