"""The search: explore, retrain the best, choose one, test the choice.

`discover` is the one-call API.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import math
import pathlib
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import load as load_lib
from aen.groups import symmetries as symmetries_lib
from aen.search import explore as explore_lib
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import screen as screen_lib
from aen.search import space as space_lib
from aen.search import strategies
from aen.train import evaluate as evaluate_lib
from aen.train import executors as executors_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib
from aen.train.store import Record

# The paper's children see 4000 images four times, 64 at once: 250 steps.
SEARCH_IMAGES = 4000
SEARCH_STEPS = 250
MIN_EPOCHS = 4
MAX_EXHAUSTIVE = 1000  # networks, beyond which `discover` uses the DQN


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
  executor: Any = None,
  **options: Any,
) -> result_lib.SearchResult:
  """Finds the symmetries that a network for these images should have.

  First, `screen` tests which symmetries the data have. Then every distinct
  network is trained on some of the images and scored on others; the best are
  retrained with several seeds, each with another split into
  training and validation images; the chosen one is compared with the network
  without symmetry on test images, which are used for nothing else.

  Args:
    images: uint8 or float, [N, H, W] or [N, H, W, C].
    labels: Integers from 0. [N].
    test_images: As `images`; by default a sixth of the images is held out.
    test_labels: As `labels`.
    class_names: One per label.
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix; by
      default those of the paper's twelve that can act on the images.
    head: 'invariant' (the logits do not change when the image is transformed,
      which says most about the data) or 'dense' (the paper's).
    strategy: Name in `strategies.STRATEGIES`; by default every network is
      trained if there are at most 1000, else 'dqn'.
    recipe: Hyperparameters; by default Adam, as many steps as the paper's, and
      the likelihood of the validation labels as the criterion.
    seed: Random seed of the search.
    run_dir: Where to keep results; the same call resumes an interrupted search.
      By default nothing is kept.
    executor: Where to train, as of `search`; by default in this process.
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
    strategy = 'exhaustive' if len(space) <= MAX_EXHAUSTIVE else 'dqn'
  config = explore_lib.SearchConfig(recipe, strategy, seed=seed, **options)
  return search(data, space, config, run_dir, screened=True, executor=executor)


def _check_options(recipe: Any, options: Mapping[str, Any]) -> None:
  """Raises if `discover` was given an argument that is no option."""
  if recipe is not None and not isinstance(recipe, recipe_lib.Recipe):
    raise TypeError(f'recipe must be an aen.Recipe, got {recipe!r}')
  known = {field.name for field in dataclasses.fields(explore_lib.SearchConfig)}
  for name in options.keys() - known:
    if name in {field.name for field in dataclasses.fields(recipe_lib.Recipe)}:
      hint = f'give recipe=aen.Recipe({name}=…)'
    else:
      hint = f'it has {", ".join(sorted(known))}'
    raise TypeError(f'discover has no option {name!r}; {hint}')


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
  on_trained: Callable[[Sequence[Record]], None] | None = None,
  evaluator: Callable[..., evaluate_lib.Evaluate] = evaluate_lib.make_evaluator,
  screened: bool = False,
  executor: Any = None,
) -> result_lib.SearchResult:
  """Searches a space for the best network on a data set.

  Args:
    data: The images; the test images are used once, at the end.
    space: The networks.
    config: How to search.
    run_dir: Where to keep results; the same call resumes an interrupted search
      and reads a finished one. By default nothing is kept.
    search_images: The search trains on at most this number of images, and
      validates on a quarter of it; retraining uses all. None for no limit.
    on_trained: Called with the records of every batch that is trained.
    evaluator: Makes what trains the children: takes the arguments of
      `evaluate.make_evaluator` and returns a function of (requests, epochs)
      that returns one record per request.
    screened: Whether to test which symmetries the training images have, and
      include that in the result; always with the strategy 'screened'.
    executor: Where to train: 'local' (the default), 'processes', 'ray',
      anything with `submit(function, job)` such as Dask's `Client`, or
      `executors.Workers` with further options. The result is the same.

  Returns:
    The result.
  """
  _check(data)
  workers = executors_lib.as_workers(executor)
  searched = at_most(data, search_images)
  evaluate_lib.check_batch(searched, config.recipe)
  strategy = explore_lib.make_strategy(space, config)
  run = functools.partial(
    _search,
    data,
    searched,
    space,
    config,
    strategy,
    on_trained,
    screened,
  )
  if run_dir is None:
    with store_lib.Results() as store, workers.started(None) as where:
      return run(functools.partial(evaluator, store=store, **where))
  run_dir = pathlib.Path(run_dir)
  description = describe(data, space, config, search_images)
  with io_lib.locked(run_dir):
    found = result_lib.finished(run_dir, description, space.symmetries)
    if found is not None:
      return found
    io_lib.open_run(run_dir, description)
    with (
      store_lib.Results(run_dir / 'results.sqlite') as store,
      workers.started(run_dir) as where,
    ):
      result = run(functools.partial(evaluator, store=store, **where))
      result = dataclasses.replace(result, config=description)
      result.save(run_dir)
      store.forget_params()
  return result


def _search(
  data: dataset_lib.Dataset,
  searched: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  strategy: strategies.Strategy,
  on_trained: Callable[[Sequence[Record]], None] | None,
  screened: bool,
  evaluator: Callable[..., evaluate_lib.Evaluate],
) -> result_lib.SearchResult:
  """Explores, retrains, chooses and compares."""
  screening = None
  if screened or config.strategy == 'screened':
    screening = _screen(searched, space)
  if screening is not None and config.strategy == 'screened':
    weights = np.array([space.num_weights(n) for n in range(len(space))])
    order = tuple(screening.order(space.table, weights))
    options = {'order': order} | dict(config.options)
    ordered = dataclasses.replace(config, options=tuple(options.items()))
    strategy = explore_lib.make_strategy(space, ordered)
  make = functools.partial(
    evaluator,
    scaling=evaluate_lib.scaling_of(data.train.images, config.recipe.scaling),
    space=space,
    children_per_batch=config.children_per_batch,
  )
  every = config.strategy == 'exhaustive'
  total = len(space) * config.num_seeds if every else None
  with evaluate_lib.ProgressBar('search', total, on_trained) as bar:
    evaluate = make(searched, recipe=config.recipe, on_trained=bar)
    found = explore_lib.explore(space, evaluate, config, strategy)
  result = _conclude(data, searched, space, config, found, make, on_trained)
  return dataclasses.replace(result, screening=screening)


def _screen(
  data: dataset_lib.Dataset, space: space_lib.Space
) -> screen_lib.Screening:
  """Tests which of a space's symmetries the training images have."""
  return screen_lib.screen(
    data.train.images,
    data.train.labels,
    space.symmetries,
    groups=data.train.groups,
    grid=space.image_shape[:2],
  )


def describe(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  search_images: int | None,
) -> dict[str, Any]:
  """Returns everything that determines the result of a search, for JSON."""
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


def at_most(
  data: dataset_lib.Dataset, count: int | None
) -> dataset_lib.Dataset:
  """Draws a part of the training and validation images.

  Args:
    data: The images.
    count: The maximal number of training images; a quarter of it is that of
      validation images. None for all.
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


def _conclude(
  data: dataset_lib.Dataset,
  searched: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  found: explore_lib.Exploration,
  make: Callable[..., evaluate_lib.Evaluate],
  on_trained: Callable[[Sequence[Record]], None] | None,
) -> result_lib.SearchResult:
  """Retrains the best networks, chooses one, and tests it."""
  criterion = config.recipe.criterion
  scores = {
    network: score_lib.Score.of(records, criterion, len(searched.validation))
    for network, records in found.records.items()
  }
  best = sorted(scores, key=lambda n: (-scores[n].value, n))[: config.top]
  finalists = list(dict.fromkeys([*space.baselines(), *best]))
  again: dict[int, list[Record]] = {network: [] for network in finalists}
  total = len(finalists) * config.retrain_seeds
  with evaluate_lib.ProgressBar('retrain', total, on_trained) as bar:
    for seed in config.final_seeds():  # each on another split of the images
      evaluate = make(
        data.refold(seed),
        recipe=config.final_recipe(),
        keep_params=True,
        on_trained=bar,
      )
      for network, records in explore_lib.by_network(
        evaluate, finalists, [seed]
      ).items():
        again[network] += records
  num_scored = min(
    config.retrain_seeds * len(data.validation),
    len(data.train) + len(data.validation),
  )
  final_scores = {
    network: score_lib.Score.of(records, criterion, num_scored)
    for network, records in again.items()
  }

  def rank(network: int) -> tuple[bool, float, int]:
    final = final_scores.get(network)
    return final is None, -(final or scores[network]).value, network

  ranking = tuple(
    result_lib.Ranked(
      network=network,
      symmetries=space.names(network),
      implied=space.implied(network),
      num_weights=space.num_weights(network),
      search=scores[network],
      retrained=final_scores.get(network),
    )
    for network in sorted(scores, key=rank)
  )
  return result_lib.SearchResult(
    dataset=data.name,
    num_images=(len(data.train), len(data.validation), len(data.test)),
    best=_test(space, ranking[0], again, data, config.recipe),
    ranking=ranking,
    counts=found.counts,
    trace=found.trace,
    q_values=found.q_values,
    space=space,
  )


def _test(
  space: space_lib.Space,
  chosen: result_lib.Ranked,
  retrained: Mapping[int, Sequence[Record]],
  data: dataset_lib.Dataset,
  recipe: recipe_lib.Recipe,
) -> result_lib.Best:
  """Compares the chosen network with its baseline on the test images."""
  scaling = evaluate_lib.scaling_of(data.train.images, recipe.scaling)
  images = scaling(data.test.images)

  def right(network: int) -> np.ndarray:
    """Returns which images each child gets right, bool [S, N]."""
    model = space.model(network)
    answers = [
      result_lib.predict(model, {'params': record.params}, images)
      for record in retrained[network]
    ]
    return np.array(answers) == data.test.labels

  best, baseline = right(chosen.network), space.baseline(chosen.network)
  against = best if baseline == chosen.network else right(baseline)
  shown = max(
    retrained[chosen.network],
    key=lambda record: score_lib.value([record], recipe.criterion),
  )
  return result_lib.Best(
    symmetries=chosen.symmetries,
    implied=chosen.implied,
    model=space.model(chosen.network),
    variables={'params': shown.params},
    scaling=scaling,
    image_shape=data.image_shape,
    accuracy=float(best.mean()),
    baseline_accuracy=float(against.mean()),
    gain=score_lib.Gain.between(best, against),
    class_names=data.class_names,
  )
