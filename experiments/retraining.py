"""Networks trained on the paper's data, at its size, and judged as it does."""

from collections.abc import Mapping, Sequence
import functools
from typing import Any, NamedTuple

import numpy as np

import aen
from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import score
from aen.train import store as store_lib
from experiments import published_mlp
from experiments import rows as rows_lib

BASELINE = 'plain'  # the role, in files, of the network without symmetry
KEY = ('role', 'dataset', 'seed')  # what tells rows apart


class Task(NamedTuple):
  """Networks to train on a data set.

  With `half`, the paper protocol looks at that one of `published_mlp.HALVES`
  instead of at the paper's 1000 images.
  """

  dataset: str  # such as 'g_mnist/aug5'
  networks: Mapping[str, Sequence[str]]  # the symmetries of each, by its role
  seeds: Sequence[int]  # each network is trained with every one
  recipe: recipe_lib.Recipe | None = None  # None for the published one
  change: str = ''  # what differs from the paper, for the role of each row
  half: int | None = None
  options: Mapping[str, Any] = {}  # of `mlp_space.mlp_space`


def train(
  task: Task, store: store_lib.Results, **places: Any
) -> list[rows_lib.Row]:
  """Trains what the store does not know; returns a row for every child."""
  data, few = load(task.dataset, **places)
  if task.half is not None:
    halves = len(published_mlp.HALVES) * np.arange(len(few)) // len(few)
    few = halves == task.half
  space = _space(data.image_shape, data.num_classes, **task.options)
  recipe = task.recipe or published_mlp.RECIPE
  asked = [(role, seed) for role in task.networks for seed in task.seeds]
  with evaluate_lib.progress_bar(task.dataset, len(asked)) as watch:
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      few=few,
      space=space,
      recipe=recipe,
      store=store,
      on_trained=watch,
    )
    networks = {r: space.network(names) for r, names in task.networks.items()}
    records = evaluate([(networks[role], seed) for role, seed in asked])
  change = task.change and f', {task.change}'
  return [
    row(record, role + change, data.name, task.networks[role], recipe.criterion)
    for (role, _), record in zip(asked, records, strict=True)
  ]


def row(
  record: store_lib.Record,
  role: str,
  dataset: str,
  symmetries: Sequence[str],
  criterion: str,
) -> rows_lib.Row:
  """Returns a child's line of a results file."""
  best = recipe_lib.best_epoch(record, criterion)
  values = {
    'role': role,
    'dataset': dataset,
    'symmetries': ' '.join(symmetries),
    'seed': record.key.seed,
    'weights': record.num_weights,
    'published': score.paper_protocol(record),
    'validation_protocol': score.validation_protocol(record, criterion),
    'validation': record.validation_accuracy[best],
    'seconds': record.seconds,
  }
  return {column: str(value) for column, value in values.items()}


def load(name: str, **places: Any) -> tuple[dataset_lib.Dataset, np.ndarray]:
  """Loads 10 000 training, 1000 validation and all N test images.

  Also returns which of the test images the paper looks at. bool [N].
  """
  data = aen.load_dataset(name, num_train=10000, num_validation=1000, **places)
  return data, few_of(data, aen.load_dataset(name, size='retrain', **places))


def few_of(data: dataset_lib.Dataset, part: dataset_lib.Dataset) -> np.ndarray:
  """Returns which test images of a data set are in a part of it. bool [N]."""
  few = np.isin(data.test.indices, part.test.indices)
  if few.sum() != len(part.test):
    raise ValueError(
      f'{part!r} has test images that {data!r} lacks; load both with the same'
      ' name and seed'
    )
  return few


@functools.cache
def _space(
  image_shape: tuple[int, ...], num_classes: int, **options: Any
) -> mlp_space.MLPSpace:
  options = {'head': 'dense', **options}
  return mlp_space.mlp_space(image_shape, num_classes, **options)
