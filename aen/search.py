"""The search: propose → evaluate → observe, then retrain, choose and judge.

`discover` is the one-call API. Nothing here trains or remembers: evaluators do.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
from typing import Any
from typing import NamedTuple

import jax
import numpy as np

from aen import children
from aen import datasets
from aen import evaluation
from aen import files
from aen import layers
from aen import outcome
from aen import results
from aen import runs
from aen import spaces
from aen import strategies
from aen import symmetries as symmetries_lib

# The paper's children see 4000 images four times, 64 at once: 250 steps.
SEARCH_IMAGES = 4000
SEARCH_STEPS = 250
MIN_EPOCHS = 4
RETRAIN_FACTOR = 2.5  # the paper: 4 epochs in the search, 10 afterwards
MANY_NETWORKS = 1000  # beyond this, exhaustive search is not the default
_SEED_STRIDE = 1000  # seeds of different runs do not overlap
_RETRAIN_SEED = 500


@dataclasses.dataclass(frozen=True)
class SearchConfig:
  """How to search.

  Attributes:
    recipe: How children are trained.
    strategy: A name in `strategies.STRATEGIES`.
    options: The strategy's own options, as pairs.
    seed: Of everything; runs with different seeds share no child.
    num_seeds: Children per network in the search.
    top: How many of the best networks are retrained.
    retrain_epochs: For how long; 2.5 times as long as children by default.
    retrain_seeds: With how many seeds, each of which also divides training and
      validation images anew: so the best are compared on more images.
    children_per_batch: As in `children.train_children`.
  """

  recipe: children.Recipe = children.Recipe()
  strategy: str = 'exhaustive'
  options: tuple[tuple[str, Any], ...] = ()
  seed: int = 0
  num_seeds: int = 1
  top: int = 8
  retrain_epochs: int | None = None
  retrain_seeds: int = 5
  children_per_batch: int | None = None

  def __post_init__(self) -> None:
    for name in ('num_seeds', 'top', 'retrain_seeds'):
      layers.positive(getattr(self, name), name)
    limit = _RETRAIN_SEED
    if max(self.num_seeds, self.retrain_seeds) > limit:
      raise ValueError(
        f'num_seeds and retrain_seeds must be at most {limit}, got'
        f' {self.num_seeds} and {self.retrain_seeds}'
      )

  def seeds(self) -> range:
    """The seeds of the search's children."""
    start = _SEED_STRIDE * self.seed
    return range(start, start + self.num_seeds)

  def final_seeds(self) -> range:
    """The seeds of the retrained networks."""
    start = _SEED_STRIDE * self.seed + _RETRAIN_SEED
    return range(start, start + self.retrain_seeds)

  def final_recipe(self) -> children.Recipe:
    """How the best networks are retrained."""
    longer = math.ceil(RETRAIN_FACTOR * self.recipe.epochs)
    return dataclasses.replace(
      self.recipe, epochs=self.retrain_epochs or longer
    )


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
  recipe: children.Recipe | None = None,
  seed: int = 0,
  run_dir: files.PathLike | None = None,
  **options: Any,
) -> outcome.SearchResult:
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
  data = datasets.from_arrays(
    images,
    labels,
    test_images=test_images,
    test_labels=test_labels,
    class_names=class_names,
    seed=seed,
  )
  space = spaces.mlp_space(
    data.image_shape, data.num_classes, symmetries, head=head
  )
  if recipe is None:
    recipe = default_recipe(min(len(data.train), SEARCH_IMAGES))
  if strategy is None:
    strategy = 'exhaustive' if len(space) <= MANY_NETWORKS else 'dqn'
  config = SearchConfig(recipe, strategy, seed=seed, **options)
  return search(data, space, config, run_dir)


def default_recipe(num_images: int, **changes: Any) -> children.Recipe:
  """Returns a recipe with as many steps as the paper's children take."""
  batch_size = changes.get('batch_size', children.Recipe.batch_size)
  epochs = math.ceil(SEARCH_STEPS / max(1, num_images // batch_size))
  defaults = {'epochs': max(MIN_EPOCHS, epochs), 'criterion': 'likelihood'}
  return children.Recipe(**{**defaults, **changes})


def search(
  data: datasets.Dataset,
  space: spaces.Space,
  config: SearchConfig,
  run_dir: files.PathLike | None = None,
  search_images: int | None = SEARCH_IMAGES,
  on_trained: Callable[[Sequence[results.Record]], None] | None = None,
) -> outcome.SearchResult:
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
  _check(data, config)
  memo = results.MEMORY
  if run_dir is not None:
    run_dir = runs.open_run(
      run_dir, describe(data, space, config, search_images)
    )
    memo = run_dir / 'results.sqlite'
    if (run_dir / 'result.json').exists():
      return outcome.SearchResult.load(run_dir, space.symmetries)
  with results.Results(memo) as memo:
    result = _search(data, space, config, memo, search_images, on_trained)
    if run_dir is not None:
      result.save(run_dir)
      memo.forget_params()
  return result


def describe(
  data: datasets.Dataset,
  space: spaces.Space,
  config: SearchConfig,
  search_images: int | None,
) -> dict[str, Any]:
  """Returns all that decides what a search finds, for JSON."""
  return {
    'dataset': data.name,
    'fingerprint': data.fingerprint,
    'space': space.spec(),
    'search': dataclasses.asdict(config),
    'search_images': search_images,
  }


def _check(data: datasets.Dataset, config: SearchConfig) -> None:
  """Raises before any training if the data cannot be searched."""
  classes = np.unique(data.train.labels)
  if classes.size < 2:
    raise ValueError(
      f'a search needs images of at least two classes, got {len(data.train)}'
      f' training images of class {classes.tolist()} alone; give images of the'
      ' other classes too'
    )
  batch = config.recipe.batch_size
  if len(data.train) < batch:
    raise ValueError(
      f'{len(data.train)} training images are fewer than a batch of {batch};'
      ' give more images, or a recipe with a smaller batch_size'
    )
  for name in ('validation', 'test'):
    if not len(getattr(data, name)):
      raise ValueError(
        f'a search needs {name} images, got none; leave num_{name} out, or'
        ' give more than 0'
      )


def _search(
  data: datasets.Dataset,
  space: spaces.Space,
  config: SearchConfig,
  memo: results.Results,
  search_images: int | None,
  on_trained: Callable[[Sequence[results.Record]], None] | None,
) -> outcome.SearchResult:
  scaling = evaluation.scaling_of(data.train.images)
  few = at_most(data, search_images)
  common: dict[str, Any] = dict(
    space=space, memo=memo, children_per_batch=config.children_per_batch
  )
  with evaluation.Watch('search', _total(space, config), on_trained) as watch:
    evaluate = evaluation.make_evaluator(
      few, scaling, recipe=config.recipe, on_trained=watch, **common
    )
    found = explore(space, evaluate, config)
  criterion = config.recipe.criterion
  scores = {
    network: outcome.Score.of(records, criterion, len(few.validation))
    for network, records in found.records.items()
  }
  finalists = _finalists(space, scores, config.top)
  seeds = config.final_seeds()
  again: dict[int, list[results.Record]] = {n: [] for n in finalists}
  with evaluation.Watch(
    'retrain', len(finalists) * len(seeds), on_trained
  ) as watch:
    for seed in seeds:
      retrain = evaluation.make_evaluator(
        data.refold(seed),
        scaling,
        recipe=config.final_recipe(),
        on_trained=watch,
        keep_params=True,
        **common,
      )
      for network, found_records in _by_network(
        retrain, finalists, [seed]
      ).items():
        again[network] += found_records
  num_judged = min(
    len(seeds) * len(data.validation), len(data.train) + len(data.validation)
  )
  final_scores = {
    network: outcome.Score.of(records, criterion, num_judged)
    for network, records in again.items()
  }
  ranking = _ranking(space, scores, final_scores)
  return outcome.SearchResult(
    dataset=data.name,
    num_images=(len(data.train), len(data.validation), len(data.test)),
    best=_judge(space, ranking[0], again, data.test, scaling, criterion),
    ranking=ranking,
    counts=found.counts,
    trace=found.trace,
    q_values=found.q_values,
    space=space,
  )


def at_most(data: datasets.Dataset, count: int | None) -> datasets.Dataset:
  """Keeps a part of the training and validation images, chosen at random.

  Args:
    data: The images.
    count: Of training images, at most so many; of validation images a quarter
      of that. None for all.
  """
  if count is None:
    return data

  def part(split: datasets.Split, count: int) -> datasets.Split:
    order = np.random.default_rng(0).permutation(len(split))
    return split.take(np.sort(order[:count]))

  return dataclasses.replace(
    data,
    train=part(data.train, count),
    validation=part(data.validation, max(1, count // 4)),
  )


def _total(space: spaces.Space, config: SearchConfig) -> int | None:
  """The number of children, where it is known beforehand."""
  exhaustive = config.strategy == 'exhaustive'
  return len(space) * config.num_seeds if exhaustive else None


class Exploration(NamedTuple):
  """What a strategy has seen."""

  records: dict[int, list[results.Record]]  # by network
  counts: outcome.Counts
  trace: tuple[outcome.Step, ...]
  q_values: tuple[tuple[int, tuple[float, ...]], ...]


def explore(
  space: spaces.Space,
  evaluate: Callable[[Sequence[evaluation.Request]], list[results.Record]],
  config: SearchConfig,
) -> Exploration:
  """Lets a strategy search until it has finished, or every network is known.

  Args:
    space: The networks.
    evaluate: Returns a record for every (network, seed).
    config: Names the strategy and the seeds.
  """
  criterion, seeds = config.recipe.criterion, config.seeds()
  index = np.asarray(space.index)
  strategy = _compiled(
    strategies.make(
      config.strategy,
      len(space.bits),
      index=index,
      epochs=config.recipe.epochs,
      **{**_per_round(space, config), **dict(config.options)},
    )
  )
  records = _by_network(evaluate, _bases(space), seeds)
  baseline = _value(records[int(index[0])], criterion)
  state = strategy.init(jax.random.key(config.seed), baseline)
  trace = []
  while len(records) < len(space) and not strategy.finished(state):
    epsilon = strategy.epsilon and float(strategy.epsilon(state))
    state, proposal = strategy.propose(state)
    asked = [int(s) for s in proposal.states]
    used = [s for s in asked if s != strategies.NO_STATE]
    networks = [int(index[s]) for s in used]
    unknown = [network for network in networks if network not in records]
    records |= _by_network(evaluate, unknown, seeds)
    worth = {s: _value(records[int(index[s])], criterion) for s in used}
    values = np.array([worth.get(s, 0.0) for s in asked], np.float32)
    state = strategy.observe(state, proposal, values)
    trace += [outcome.Step(s, worth[s], epsilon) for s in used]
  counts = outcome.Counts(
    steps=int(state.counts.steps),
    states=int(state.counts.states),
    networks=len(records),
  )
  opinions = _opinions(strategy, state, trace)
  return Exploration(records, counts, tuple(trace), opinions)


def _compiled(strategy: strategies.Strategy) -> strategies.Strategy:
  """Compiles what runs every round; states are handed on, not copied."""
  return strategy._replace(
    init=jax.jit(strategy.init),
    propose=jax.jit(strategy.propose, donate_argnums=0),
    observe=jax.jit(strategy.observe, donate_argnums=0),
    finished=jax.jit(strategy.finished),
    epsilon=strategy.epsilon and jax.jit(strategy.epsilon),
  )


def _per_round(space: spaces.Space, config: SearchConfig) -> dict[str, int]:
  """Returns how many states fill a batch, where that is no choice of method."""
  if config.strategy == 'exhaustive':
    return {'per_round': len(space)}
  if config.strategy == 'dqn':  # walkers share what they learn
    return {}
  devices = jax.devices()
  batch = config.children_per_batch or children.default_batch(devices[0])
  return {'per_round': max(1, batch * len(devices) // config.num_seeds)}


def _opinions(
  strategy: strategies.Strategy, state: Any, trace: Sequence[outcome.Step]
) -> tuple[tuple[int, tuple[float, ...]], ...]:
  """Returns what an agent thinks of the empty and of the best state."""
  if strategy.q_values is None or not trace:
    return ()
  states = [0, max(trace, key=lambda step: step.value).state]
  values = np.asarray(strategy.q_values(state, np.array(states, np.int32)))
  return tuple(
    (s, tuple(float(value) for value in row))
    for s, row in zip(states, values, strict=True)
  )


def _by_network(
  evaluate: Callable[[Sequence[evaluation.Request]], list[results.Record]],
  networks: Sequence[int],
  seeds: Sequence[int],
) -> dict[int, list[results.Record]]:
  networks = list(dict.fromkeys(networks))
  flat = evaluate([(network, seed) for network in networks for seed in seeds])
  count = len(seeds)
  return {
    network: flat[i * count : (i + 1) * count]
    for i, network in enumerate(networks)
  }


def _value(records: Sequence[results.Record], criterion: str) -> float:
  """Returns what the strategy is told about a network."""
  return outcome.Score.of(records, criterion, num_images=1).value


def _bases(space: spaces.Space) -> list[int]:
  """Returns the networks that others are compared with, 0 first."""
  return sorted({space.base(network) for network in range(len(space))})


def _finalists(
  space: spaces.Space, scores: Mapping[int, outcome.Score], top: int
) -> list[int]:
  """Returns the best networks, and those they are compared with."""
  best = sorted(scores, key=lambda n: (-scores[n].value, n))[:top]
  return list(dict.fromkeys([*_bases(space), *best]))


def _ranking(
  space: spaces.Space,
  scores: Mapping[int, outcome.Score],
  final_scores: Mapping[int, outcome.Score],
) -> tuple[outcome.Ranked, ...]:
  def badness(network: int) -> tuple[bool, float, int]:
    again = final_scores.get(network)
    return again is None, -(again or scores[network]).value, network

  return tuple(
    outcome.Ranked(
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
  space: spaces.Space,
  chosen: outcome.Ranked,
  retrained: Mapping[int, list[results.Record]],
  test: datasets.Split,
  scaling: evaluation.Scaling,
  criterion: str,
) -> outcome.Best:
  """Compares the chosen network with the one that has nothing to help it."""
  images = scaling(test.images)

  def right(network: int) -> np.ndarray:
    model = space.model(network)
    answers = [
      outcome.predict(model, _variables(record), images)
      for record in retrained[network]
    ]
    return np.array(answers) == test.labels

  best, plain = right(chosen.network), space.base(chosen.network)
  base = best if plain == chosen.network else right(plain)
  children_of_best = retrained[chosen.network]
  shown = max(children_of_best, key=lambda record: _value([record], criterion))
  return outcome.Best(
    symmetries=chosen.symmetries,
    implied=chosen.implied,
    model=space.model(chosen.network),
    variables=_variables(shown),
    scaling=scaling,
    image_shape=test.images.shape[1:],
    accuracy=float(best.mean()),
    base_accuracy=float(base.mean()),
    gain=outcome.Gain.between(best, base),
  )


def _variables(record: results.Record) -> dict[str, Any]:
  assert record.params is not None
  return {'params': evaluation.unpack(record.params)}
