"""Surveys: every network of a space, trained, as a landscape."""

from collections.abc import Sequence

import numpy as np

from aen import datasets
from aen import evaluation
from aen import files
from aen import landscapes
from aen import recipes
from aen import results
from aen import runs
from aen import spaces


def survey(
  data: datasets.Dataset,
  space: spaces.MLPSpace,
  recipe: recipes.Recipe,
  seeds: Sequence[int],
  run_dir: files.PathLike,
  children_per_batch: int | None = None,
) -> landscapes.Landscape:
  """Trains every network with every seed.

  Args:
    data: Trained, validated and tested on, after every epoch.
    space: The networks.
    recipe: How to train them.
    seeds: Of the children.
    run_dir: Keeps the memo, so that a survey that was stopped goes on; other
      surveys there keep the children that they share.
    children_per_batch: As in `children.train_children`.

  Returns:
    The landscape.
  """
  seeds, networks = list(seeds), range(len(space))
  requests = [(network, seed) for seed in seeds for network in networks]
  run_dir = runs.open_run(run_dir, {'space': space.spec()})
  with (
    results.Results(run_dir / 'results.sqlite') as memo,
    evaluation.Watch('survey', len(requests)) as watch,
  ):
    evaluate = evaluation.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      memo=memo,
      children_per_batch=children_per_batch,
      on_trained=watch,
    )
    records = evaluate(requests)

  def table(name: str) -> np.ndarray:
    """Returns one field of all records, [R, S, ...]."""
    values = np.array([getattr(record, name) for record in records])
    by_seed = values.reshape(len(seeds), len(networks), *values.shape[1:])
    return np.swapaxes(by_seed, 0, 1)

  return landscapes.Landscape(
    name=data.name,
    symmetries=space.bits,
    index=space.index,
    representatives=space.representatives,
    closures=space.lattice.closures,
    weights=np.array([space.num_weights(network) for network in networks]),
    seeds=np.array(seeds),
    validation=table('validation_accuracy'),
    test=table('test_accuracy'),
    seconds=table('seconds'),
  )
