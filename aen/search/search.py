"""The search: explore, retrain the best, choose among them, judge the choice.

`discover` is the one-call API.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import load as load_lib
from aen.groups import symmetries as symmetries_lib
from aen.search import explore as explore_lib
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import space as space_lib
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

# The paper's children see 4000 images four times, 64 at once: 250 steps.
SEARCH_IMAGES = 4000
SEARCH_STEPS = 250
MIN_EPOCHS = 4
MANY_NETWORKS = 1000  # beyond this, exhaustive search is not the default


def discover(
  images: np.ndarray,
  labels: np.ndarray,
  *,
  test_images: np.ndarray | None = None,
  test_labels: np.ndarray | None = None,
  class_names: Sequence[str] | None = None,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  head: str = 'invariant',
  strategy: str | None = None,
  recipe: recipe_lib.Recipe | None = None,
  seed: int = 0,
  run_dir: io_lib.PathLike | None = None,
  **options: Any,
) -> result_lib.SearchResult:
  """Finds out which symmetries a network for these images should have.

  Every distinct network is trained on a part of the images and scored on
  others; the best are retrained with several seeds, each on another division
  into training and validation images; and the one chosen is compared with the
  network without symmetries on test images, which are used for nothing else.

  Args:
    images: uint8 or float, [N, H, W] or [N, H, W, C].
    labels: Whole numbers from 0. [N].
    test_images: As `images`; without them a sixth of the images is held out.
    test_labels: As `labels`.
    class_names: One per label.
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix; by
      default those of `SYMMETRIES` that can act on the images.
    head: 'invariant' (a network's answers do not change when the image is
      moved, which tells most about the data) or 'dense' (the paper's).
    strategy: A name in `strategies.STRATEGIES`; by default every network is
      trained if there are a thousand at most, else 'dqn'.
    recipe: How networks are trained; by default with Adam, for as many steps as
      the paper's, and judged by the likelihood of the validation labels.
    seed: Of everything.
    run_dir: Where to keep what is found; a search that was stopped goes on
      there. By default nothing is kept.
    **options: Further fields of `SearchConfig`.

  Returns:
    The result: `.best.symmetries`, `.best.predict`, `.ranking`, `.verdict`, …
  """
  data = load_lib.from_arrays(
    images,
    labels,
    test_images=test_images,
    test_labels=test_labels,
    class_names=class_names,
    seed=seed,
  )
  _check_options(recipe, options)
  space = mlp_space.mlp_space(
    data.image_shape, data.num_classes, symmetries, head=head
  )
  if recipe is None:
    recipe = default_recipe(min(len(data.train), SEARCH_IMAGES))
  if strategy is None:
    strategy = 'exhaustive' if len(space) <= MANY_NETWORKS else 'dqn'
  config = explore_lib.SearchConfig(recipe, strategy, seed=seed, **options)
  return search(data, space, config, run_dir)


def _check_options(recipe: Any, options: Mapping[str, Any]) -> None:
  """Raises if what `discover` was given beyond its arguments is no option."""
  if recipe is not None and not isinstance(recipe, recipe_lib.Recipe):
    raise TypeError(f'recipe must be an aen.Recipe, got {recipe!r}')
  known = {field.name for field in dataclasses.fields(explore_lib.SearchConfig)}
  for name in options.keys() - known:
    parts = {field.name for field in dataclasses.fields(recipe_lib.Recipe)}
    hint = f'; give recipe=aen.Recipe({name}=…)' * (name in parts)
    raise TypeError(
      f'discover has no option {name!r}{hint or "; it has "}'
      + (', '.join(sorted(known)) * (name not in parts))
    )


def default_recipe(num_images: int, **changes: Any) -> recipe_lib.Recipe:
  """Returns a recipe with as many steps as the paper's children take."""
  batch_size = changes.get('batch_size', recipe_lib.Recipe.batch_size)
  epochs = math.ceil(SEARCH_STEPS / max(1, num_images // batch_size))
  defaults = {'epochs': max(MIN_EPOCHS, epochs), 'criterion': 'likelihood'}
  return recipe_lib.Recipe(**{**defaults, **changes})


def search(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  run_dir: io_lib.PathLike | None = None,
  search_images: int | None = SEARCH_IMAGES,
  on_trained: Callable[[Sequence[store_lib.Record]], None] | None = None,
) -> result_lib.SearchResult:
  """Searches a space for the network that suits a data set best.

  Args:
    data: The images; those for the test are touched once, at the end.
    space: The networks.
    config: How to search.
    run_dir: Where to keep what is found; a search that was stopped goes on
      there, and one that has finished is read. By default nothing is kept.
    search_images: The search trains on at most so many images, and validates on
      a quarter of that; retraining uses all. None for no limit.
    on_trained: Is called with the records of every batch that is trained.

  Returns:
    What was found.
  """
  _check(data)
  evaluate_lib.check_batch(at_most(data, search_images), config.recipe)
  explore_lib.make_strategy(space, config)  # raises where it cannot be
  store = store_lib.MEMORY
  if run_dir is not None:
    run_dir = io_lib.open_run(
      run_dir, describe(data, space, config, search_images)
    )
    store = run_dir / 'results.sqlite'
    if (run_dir / 'result.json').exists():
      return result_lib.SearchResult.load(run_dir, space.symmetries)
  with store_lib.Results(store) as store:
    result = _search(data, space, config, store, search_images, on_trained)
    if run_dir is not None:
      result.save(run_dir)
      store.forget_params()
  return result


def describe(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  search_images: int | None,
) -> dict[str, Any]:
  """Returns all that decides what a search finds, for JSON."""
  return {
    'dataset': data.name,
    'fingerprint': data.fingerprint,
    'space': space.spec(),
    'search': dataclasses.asdict(config) | {'options': dict(config.options)},
    'search_images': search_images,
  }


def _check(data: dataset_lib.Dataset) -> None:
  """Raises before any training if the data cannot be searched."""
  classes = np.unique(data.train.labels)
  if classes.size < 2:
    raise ValueError(
      f'a search needs images of at least two classes, got {len(data.train)}'
      f' training images of class {classes.tolist()} alone; give images of the'
      ' other classes too'
    )
  for name in ('validation', 'test'):
    if not len(getattr(data, name)):
      raise ValueError(
        f'a search needs {name} images, got none; leave num_{name} out, or'
        ' give more than 0'
      )


def _search(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  store: store_lib.Results,
  search_images: int | None,
  on_trained: Callable[[Sequence[store_lib.Record]], None] | None,
) -> result_lib.SearchResult:
  scaling = evaluate_lib.scaling_of(data.train.images)
  few = at_most(data, search_images)
  criterion = config.recipe.criterion
  options: dict[str, Any] = dict(
    space=space, store=store, children_per_batch=config.children_per_batch
  )
  total = explore_lib.total(space, config)
  with evaluate_lib.Watch('search', total, on_trained) as watch:
    evaluate = evaluate_lib.make_evaluator(
      few, scaling, recipe=config.recipe, on_trained=watch, **options
    )
    found = explore_lib.explore(space, evaluate, config)
  scores = {
    network: score_lib.Score.of(records, criterion, len(few.validation))
    for network, records in found.records.items()
  }
  finalists = _finalists(space, scores, config.top)
  total = len(finalists) * config.retrain_seeds
  with evaluate_lib.Watch('retrain', total, on_trained) as watch:
    again = _retrain(
      data, finalists, config, scaling, on_trained=watch, **options
    )
  num_judged = min(
    config.retrain_seeds * len(data.validation),
    len(data.train) + len(data.validation),
  )
  final_scores = {
    network: score_lib.Score.of(records, criterion, num_judged)
    for network, records in again.items()
  }
  ranking = _ranking(space, scores, final_scores)
  return result_lib.SearchResult(
    dataset=data.name,
    num_images=(len(data.train), len(data.validation), len(data.test)),
    best=_judge(space, ranking[0], again, data.test, scaling, criterion),
    ranking=ranking,
    counts=found.counts,
    trace=found.trace,
    q_values=found.q_values,
    space=space,
  )


def _retrain(
  data: dataset_lib.Dataset,
  finalists: Sequence[int],
  config: explore_lib.SearchConfig,
  scaling: evaluate_lib.Scaling,
  **options: Any,
) -> dict[int, list[store_lib.Record]]:
  """Trains the best longer, each seed on another division of the images."""
  again: dict[int, list[store_lib.Record]] = {n: [] for n in finalists}
  for seed in config.final_seeds():
    evaluate = evaluate_lib.make_evaluator(
      data.refold(seed),
      scaling,
      recipe=config.final_recipe(),
      keep_params=True,
      **options,
    )
    found = explore_lib.by_network(evaluate, finalists, [seed])
    for network, records in found.items():
      again[network] += records
  return again


def at_most(
  data: dataset_lib.Dataset, count: int | None
) -> dataset_lib.Dataset:
  """Keeps a part of the training and validation images, chosen at random.

  Args:
    data: The images.
    count: Of training images, at most so many; of validation images a quarter
      of that. None for all.
  """
  if count is None:
    return data

  def part(split: dataset_lib.Split, count: int) -> dataset_lib.Split:
    order = np.random.default_rng(0).permutation(len(split))
    return split.take(np.sort(order[:count]))

  return dataclasses.replace(
    data,
    train=part(data.train, count),
    validation=part(data.validation, max(1, count // 4)),
  )


def _finalists(
  space: space_lib.Space, scores: Mapping[int, score_lib.Score], top: int
) -> list[int]:
  """Returns the best networks, and those they are compared with."""
  best = sorted(scores, key=lambda n: (-scores[n].value, n))[:top]
  return list(dict.fromkeys([*explore_lib.baselines(space), *best]))


def _ranking(
  space: space_lib.Space,
  scores: Mapping[int, score_lib.Score],
  final_scores: Mapping[int, score_lib.Score],
) -> tuple[result_lib.Ranked, ...]:
  def badness(network: int) -> tuple[bool, float, int]:
    again = final_scores.get(network)
    return again is None, -(again or scores[network]).value, network

  return tuple(
    result_lib.Ranked(
      network=network,
      symmetries=space.names(network),
      implied=space.implied(network),
      num_weights=space.num_weights(network),
      search=scores[network],
      retrained=final_scores.get(network),
    )
    for network in sorted(scores, key=badness)
  )


def _judge(
  space: space_lib.Space,
  chosen: result_lib.Ranked,
  retrained: Mapping[int, list[store_lib.Record]],
  test: dataset_lib.Split,
  scaling: evaluate_lib.Scaling,
  criterion: str,
) -> result_lib.Best:
  """Compares the chosen network with the one that has nothing to help it."""
  images = scaling(test.images)

  def right(network: int) -> np.ndarray:
    model = space.model(network)
    answers = [
      result_lib.predict(model, _variables(record), images)
      for record in retrained[network]
    ]
    return np.array(answers) == test.labels

  best, plain = right(chosen.network), space.baseline(chosen.network)
  base = best if plain == chosen.network else right(plain)
  children_of_best = retrained[chosen.network]
  shown = max(
    children_of_best, key=lambda record: explore_lib.value([record], criterion)
  )
  return result_lib.Best(
    symmetries=chosen.symmetries,
    implied=chosen.implied,
    model=space.model(chosen.network),
    variables=_variables(shown),
    scaling=scaling,
    image_shape=test.images.shape[1:],
    accuracy=float(best.mean()),
    baseline_accuracy=float(base.mean()),
    gain=score_lib.Gain.between(best, base),
  )


def _variables(record: store_lib.Record) -> dict[str, Any]:
  assert record.params is not None
  return {'params': evaluate_lib.unpack(record.params)}
