"""Tables of accuracies: some networks on some data set, judged in two ways.

The paper reports the best epoch on the very test images that it reports on, a
thousand of them. An honest report takes the epoch that is best on validation
images, and all test images. Both are measured in one training.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses

import numpy as np

from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib


@dataclasses.dataclass(frozen=True)
class Judged:
  """A trained child, by both ways to judge it."""

  dataset: str
  symmetries: str  # names, separated by spaces
  seed: int
  weights: int
  published: float  # the best epoch's accuracy on the few test images
  honest: float  # all test images, in the epoch that is best in validation
  validation: float  # the accuracy in that epoch
  seconds: float


def train_table(
  data: dataset_lib.Dataset,
  few: np.ndarray,
  space: mlp_space.MLPSpace,
  networks: Sequence[Sequence[str]],
  seeds: Sequence[int],
  recipe: recipe_lib.Recipe,
  store: store_lib.Results,
  on_trained: Callable[[Sequence[store_lib.Record]], None] = lambda records: (
    None
  ),
) -> list[Judged]:
  """Trains networks that the store does not know, and judges all of them.

  Args:
    data: Trained, validated and tested on, after every epoch.
    few: Which of the test images the paper's protocol looks at. bool [N]
    space: What networks there are.
    networks: Names of symmetries, one list per network.
    seeds: Each network is trained with every one.
    recipe: How.
    store: What is known.
    on_trained: Is called with the records of what is trained.

  Returns:
    One line per network and seed, network by network.
  """
  evaluate = evaluate_lib.make_evaluator(
    data,
    measure_test=True,
    few=few,
    space=space,
    recipe=recipe,
    store=store,
    on_trained=on_trained,
  )
  asked = [(names, seed) for names in networks for seed in seeds]
  records = evaluate([(space.network(names), seed) for names, seed in asked])
  return [
    judge(record, data.name, names, recipe.criterion)
    for (names, _), record in zip(asked, records, strict=True)
  ]


def judge(
  record: store_lib.Record, dataset: str, names: Sequence[str], criterion: str
) -> Judged:
  """Returns what a child is worth, by both protocols."""
  best = recipe_lib.best_epoch(record, criterion)
  return Judged(
    dataset=dataset,
    symmetries=' '.join(names),
    seed=record.key.seed,
    weights=record.num_weights,
    published=max(record.few_test_accuracy),
    honest=record.test_accuracy[best],
    validation=record.validation_accuracy[best],
    seconds=record.seconds,
  )


def few_of(data: dataset_lib.Dataset, part: dataset_lib.Dataset) -> np.ndarray:
  """Returns which test images of a data set are in a part of it. bool [N]."""
  few = np.isin(data.test.indices, part.test.indices)
  if few.sum() != len(part.test):
    raise ValueError(
      f'{part!r} has test images that {data!r} lacks; load both with the same'
      ' name and seed'
    )
  return few
