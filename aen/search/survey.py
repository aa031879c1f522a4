"""Surveys: every network of a space, trained, as a landscape."""

from collections.abc import Sequence

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.search import landscape as landscape_lib
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib


def survey(
  data: dataset_lib.Dataset,
  space: mlp_space.MLPSpace,
  recipe: recipe_lib.Recipe,
  seeds: Sequence[int],
  run_dir: io_lib.PathLike,
  children_per_batch: int | None = None,
) -> landscape_lib.Landscape:
  """Trains every network with every seed.

  Args:
    data: Trained, validated and tested on, after every epoch.
    space: The networks.
    recipe: How to train them.
    seeds: Of the children.
    run_dir: Keeps the store, so that a survey that was stopped goes on; other
      surveys there keep the children that they share.
    children_per_batch: As in `children.train_children`.

  Returns:
    The landscape.
  """
  seeds, networks = list(seeds), range(len(space))
  requests = [(network, seed) for seed in seeds for network in networks]
  run_dir = io_lib.open_run(run_dir, {'space': space.spec()})
  with (
    store_lib.Results(run_dir / 'results.sqlite') as store,
    evaluate_lib.Watch('survey', len(requests)) as watch,
  ):
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      store=store,
      children_per_batch=children_per_batch,
      on_trained=watch,
    )
    records = evaluate(requests)

  def table(name: str) -> np.ndarray:
    """Returns one field of all records, [R, S, ...]."""
    values = np.array([getattr(record, name) for record in records])
    by_seed = values.reshape(len(seeds), len(networks), *values.shape[1:])
    return np.swapaxes(by_seed, 0, 1)

  return landscape_lib.Landscape(
    name=data.name,
    symmetries=space.bits,
    network_of=space.network_of,
    shortest_states=space.shortest_states,
    implied_states=space.lattice.implied_states,
    weights=np.array([space.num_weights(network) for network in networks]),
    seeds=np.array(seeds),
    validation=table('validation_accuracy'),
    test=table('test_accuracy'),
    seconds=table('seconds'),
  )
