r"""Compares five methods of finding which of the twelve symmetries data have.

screen: `aen.screen` with labels.
unconditional: `aen.screen` without labels.
discover: `aen.discover` with a budget of eight networks, of which the best two
  are retrained with two seeds.
augerino: learned augmentation (Benton et al. 2020), adapted to permutations.
augmentation: augmentation by each candidate against none, on validation images.

The last two are in `experiments/augmentation.py`. References: none finds
nothing; truth and truth_augmented find exactly the true symmetries.

The data are those of `experiments.truth` with one planted symmetry (each seed
takes two of the twelve in turn), RotMNIST made and G-MNIST IAug1…3, these four
with 1800 images averaged to 14×14 pixels. Each seed draws different images.

  python -m experiments.discovery --raw_dir=path/to/files

Writes results/discovery.csv, one row per data set, seed and method, then the
table in docs/discovery.md. Rows in the file are not computed again, so the same
command resumes an interrupted run. Takes ten minutes on one core.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
import itertools
import pathlib
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import aen
from aen import io as io_lib
from aen.data import own
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import mlp_space
from experiments import augmentation
from experiments import flags
from experiments import invariant_sets
from experiments import launch
from experiments import results
from experiments import rows as rows_lib

_FLAGS = launch.define(
  num_seeds=(6, 'Draws of each data set.', 1),
  out=('results/discovery.csv', 'File of all rows.'),
  page=('docs/discovery.md', 'Page whose table is written; empty for none.'),
)
_PLACES = flags.places()

PLANTED = {
  f'g_digits/iaug{bit}_group': name
  for bit, name in enumerate(PAPER_SYMMETRIES, start=1)
}
MADE = {
  'rot_mnist_made': 'rotation',
  'g_mnist/iaug1': 'rotation',
  'g_mnist/iaug2': 'horizontal_flip',
  'g_mnist/iaug3': 'vertical_flip',
}
_SIZES = {'num_train': 1500, 'num_validation': 300, 'num_test': 2000}
_BUDGET = {'max_networks': 8, 'top': 2, 'retrain_seeds': 2}


class Problem(NamedTuple):
  """Images to find symmetries in, and test images for the final networks."""

  images: np.ndarray  # float32 [N, H, H]
  labels: np.ndarray  # int [N]
  test_images: np.ndarray
  test_labels: np.ndarray
  seed: int
  true: tuple[str, ...]  # the symmetries that the images have


@functools.lru_cache(maxsize=1)  # all methods in turn load the same
def load(name: str, seed: int) -> Problem:
  """Returns the draw of a data set with a seed."""
  sizes = _SIZES if name in MADE else {}
  data = aen.load_dataset(name, seed=seed, **sizes, **_PLACES()).normalised()
  parts = (data.train, data.validation)
  images = np.concatenate([part.images for part in parts])
  labels = np.concatenate([part.labels for part in parts])
  test = data.test.images
  if name in MADE:  # means of 2×2 blocks commute with rotations and flips
    images, test = (own.downscaled(x, 2, 2) for x in (images, test))
  true = truth(name, images.shape[1])
  return Problem(images, labels, test, data.test.labels, seed, true)


def truth(name: str, side: int) -> tuple[str, ...]:
  """Returns exactly the candidates that are symmetries of the images."""
  bit = 1 + PAPER_SYMMETRIES.index({**PLANTED, **MADE}[name])
  return invariant_sets.true_symmetries(f'iaug{bit}_group', side)


def searched(problem: Problem) -> tuple[str, ...]:
  """Finds the symmetries of the network that `aen.discover` chooses."""
  best = aen.discover(
    problem.images,
    problem.labels,
    test_images=problem.test_images,
    test_labels=problem.test_labels,
    seed=problem.seed,
    progress=False,
    **_BUDGET,
  ).best
  return (*best.symmetries, *best.implied)


METHODS: Mapping[str, Callable[[Problem], tuple[str, ...]]] = {
  'screen': lambda p: aen.screen(p.images, p.labels, seed=p.seed).accepted,
  'unconditional': lambda p: aen.screen(p.images, seed=p.seed).accepted,
  'discover': searched,
  'augerino': lambda p: augmentation.learned(p.images, p.labels, p.seed),
  'augmentation': lambda p: augmentation.compared(p.images, p.labels, p.seed),
}
REFERENCES: Mapping[str, Callable[[Problem], tuple[str, ...]]] = {
  'none': lambda _: (),
  'truth': lambda p: p.true,
  'truth_augmented': lambda p: p.true,
}
# Methods that lead to an augmented baseline; others lead to equivariant MLPs.
_AUGMENTING = ('truth_augmented', 'augerino', 'augmentation')
_space = functools.cache(mlp_space.mlp_space)


@functools.lru_cache(maxsize=len(METHODS) + len(REFERENCES))
def final_accuracy(
  name: str, seed: int, found: tuple[str, ...], augmented: bool
) -> float:
  """Trains the network that an answer leads to; returns its test accuracy.

  The network is the MLP with the symmetries found, or if `augmented`, the
  baseline trained with random powers of all of them. Everything else is equal.
  """
  problem = load(name, seed)
  side = problem.images.shape[1]
  num_classes = int(problem.labels.max()) + 1
  space = _space((side, side), num_classes, head='invariant')
  network = 0 if augmented else space.network(found)
  model, collections = space.program(network), space.inputs(network).collections
  names = PAPER_SYMMETRIES if augmented else PAPER_SYMMETRIES[:1]
  used = np.isin(names, found) & augmented
  params, _ = augmentation.fit(
    jax.random.key(problem.seed),
    model,
    collections,
    problem.images,
    problem.labels,
    *augmentation.tables(names, side),
    jnp.where(used, jnp.inf, -jnp.inf),
    steps=augmentation.FINAL_STEPS,
  )
  test = problem.test_images, problem.test_labels
  variables = {'params': params, **collections}
  return float(augmentation.accuracy(model, variables, *test))


def ask(dataset: str, seed: int, method: str) -> dict[str, object]:
  """Returns what a method finds, and the accuracy of the resulting network."""
  problem = load(dataset, seed)
  start = time.process_time()
  answer = {**REFERENCES, **METHODS}[method](problem)
  seconds = time.process_time() - start
  found = tuple(s for s in PAPER_SYMMETRIES if s in answer)
  augmented = method in _AUGMENTING and bool(found)
  return {
    'true': ' '.join(problem.true),
    'found': ' '.join(found),
    'accuracy': f'{final_accuracy(dataset, seed, found, augmented):.4f}',
    'cpu_seconds': f'{seconds:.2f}',
  }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns the table of the page, in Markdown."""
  baseline = {
    (row['dataset'], str(row['seed'])): float(row['accuracy'])
    for row in rows
    if row['method'] == 'none'
  }
  kinds = {'all': (*PLANTED, *MADE), 'planted': (*PLANTED,)}
  kinds |= {name: (name,) for name in MADE}
  lines, interval = [], results.with_interval
  for kind, method in itertools.product(kinds, (*METHODS, *REFERENCES)):
    of_method = [row for row in rows if row['method'] == method]
    own = [row for row in of_method if row['dataset'] in kinds[kind]]
    if not own:
      continue
    accuracies = np.array([100 * float(row['accuracy']) for row in own])
    others = [100 * baseline[row['dataset'], str(row['seed'])] for row in own]
    minutes = [float(row['cpu_seconds']) / 60 for row in own]
    right, wrong = rates(own) if method in METHODS else ('', '')
    gain = '' if method == 'none' else interval(accuracies - others, '+.1f')
    lines.append(
      {
        'data': kind,
        'method': method,
        'true found': right,
        'false found': wrong,
        'test accuracy, %': interval(accuracies, '.1f'),
        'gain over none, points': gain,
        'CPU minutes': interval(minutes, '.3f') if method in METHODS else '',
      }
    )
  return rows_lib.markdown(lines)


def rates(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
  """Yields how many true and false symmetries were found, with intervals."""
  answers = [(set(r['found'].split()), set(r['true'].split())) for r in rows]
  num_true = sum(len(true) for _, true in answers)
  num_false = len(rows) * len(PAPER_SYMMETRIES) - num_true
  for count, total in (
    (sum(len(found & true) for found, true in answers), num_true),
    (sum(len(found - true) for found, true in answers), num_false),
  ):
    limits = stats.binomtest(count, total).proportion_ci(method='wilson')
    low, high = 100 * limits.low, 100 * limits.high
    yield f'{count} of {total} ({low:.0f} … {high:.0f} %)'


def with_table(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns a page with its table replaced."""
  before, rest = page.split('<!-- table -->\n')
  after = rest.split('\n<!-- end of table -->')[1]
  body = table(rows)
  return f'{before}<!-- table -->\n{body}\n<!-- end of table -->{after}'


def main(_: list[str]) -> None:
  """Runs every method that has no row yet, and writes the page."""
  questions = (
    {'dataset': name, 'seed': seed, 'method': method}
    for seed in range(_FLAGS.num_seeds)  # any prefix is a fair sample
    for name in (*list(PLANTED)[seed % 6 :: 6], *MADE)
    for method in (*REFERENCES, *METHODS)
  )
  with launch.resumable():
    rows = rows_lib.ask_all(pathlib.Path(_FLAGS.out), questions, ask)
  print(table(rows))
  if _FLAGS.page:
    page = pathlib.Path(_FLAGS.page).read_text('utf-8')
    with io_lib.written_text(_FLAGS.page) as file:
      file.write(with_table(page, rows))


if __name__ == '__main__':
  launch.run(main)
