"""The search loop: propose → evaluate → observe.

A strategy proposes states, an evaluator trains and stores their networks, the
strategy observes their values.
"""

from collections.abc import Callable, Sequence
import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from aen import io as io_lib
from aen.search import result as result_lib
from aen.search import space as space_lib
from aen.search import strategies
from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

RETRAIN_FACTOR = 2.5  # the paper: 4 epochs in the search, 10 afterwards
_SEED_STRIDE = 1000  # searches with different seeds share no child
_RETRAIN_SEED = 500
# States per proposal of strategies with the option per_round: a constant, so
# that the path of a search depends on its configuration alone.
_PER_ROUND = 4


@dataclasses.dataclass(frozen=True)
class SearchConfig:
  """How to search.

  Attributes:
    recipe: How children are trained.
    strategy: Search strategy, a key of `strategies.STRATEGIES`; dqn is the
      paper's agent, exhaustive trains every network.
    options: The strategy's own options, as pairs.
    seed: Seed of searching and training; runs with different seeds share no
      child. Which images are held out does not depend on it.
    num_seeds: Children per network, each with its own seed.
    top: Number of best networks to retrain.
    retrain_epochs: Epochs of retraining; 2.5 times those of the search by
      default.
    retrain_seeds: Children per network in retraining. Each seed has its own
      split into training and validation images.
    children_per_batch: Children trained side by side on each device; by default
      a measured optimum for its kind.
    max_networks: Maximum number of networks that the search trains; no limit by
      default.
    max_minutes: Time limit of search and retraining together; no limit by
      default. After half of it, the best networks so far are retrained, as many
      and with as many seeds as the rest allows. Time is checked between
      children; the baseline is always trained and retrained.
  """

  recipe: recipe_lib.Recipe = recipe_lib.Recipe()
  strategy: str = 'exhaustive'
  options: tuple[tuple[str, Any], ...] = ()
  seed: int = 0
  num_seeds: int = 1
  top: int = 8
  retrain_epochs: int | None = None
  retrain_seeds: int = 5
  children_per_batch: int | None = None
  max_networks: int | None = None
  max_minutes: float | None = None

  def __post_init__(self) -> None:
    if not isinstance(self.recipe, recipe_lib.Recipe):
      raise ValueError(f'recipe must be an aen.Recipe, got {self.recipe!r}')
    if not isinstance(self.strategy, str):
      raise ValueError(f'strategy must be a name, got {self.strategy!r}')
    required = ('num_seeds', 'top', 'retrain_seeds')
    optional = ('retrain_epochs', 'children_per_batch', 'max_networks')
    for name in required + optional:
      value = getattr(self, name)
      if value is not None or name in required:
        object.__setattr__(self, name, io_lib.positive(value, name))
    object.__setattr__(self, 'seed', io_lib.seed(self.seed))
    if self.max_minutes is not None and not 0 < self.max_minutes < math.inf:
      raise ValueError(
        f'max_minutes must be a positive number, got {self.max_minutes!r}'
      )
    if max(self.num_seeds, self.retrain_seeds) > _RETRAIN_SEED:
      raise ValueError(
        f'num_seeds and retrain_seeds must be at most {_RETRAIN_SEED}, got'
        f' {self.num_seeds} and {self.retrain_seeds}'
      )

  def seeds(self) -> range:
    """Returns the seeds of the search."""
    start = _SEED_STRIDE * self.seed
    return range(start, start + self.num_seeds)

  def final_seeds(self) -> range:
    """Returns the seeds of retraining."""
    start = _SEED_STRIDE * self.seed + _RETRAIN_SEED
    return range(start, start + self.retrain_seeds)

  def final_recipe(self) -> recipe_lib.Recipe:
    """Returns the recipe of retraining."""
    longer = math.ceil(RETRAIN_FACTOR * self.recipe.epochs)
    return dataclasses.replace(
      self.recipe, epochs=self.retrain_epochs or longer
    )


class Exploration(NamedTuple):
  """What a strategy has seen."""

  records: dict[int, list[store_lib.Record]]  # by network
  counts: result_lib.Counts
  trace: tuple[result_lib.Step, ...]
  q_values: tuple[tuple[int, tuple[float, ...]], ...]


def make_strategy(
  space: space_lib.Space, config: SearchConfig, **defaults: Any
) -> strategies.Strategy:
  """Returns the configured strategy; raises if its options are wrong.

  The options of the configuration override the defaults.
  """
  if 'per_round' in strategies.option_names(config.strategy):
    # These ignore the values they observe: one proposal keeps all workers busy.
    every = config.strategy in ('exhaustive', 'random')
    defaults['per_round'] = len(space) if every else _PER_ROUND
  return strategies.make(
    config.strategy,
    len(space.bits),
    network_of=space.network_of,
    epochs=config.recipe.epochs,
    **defaults | dict(config.options),
  )


def explore(
  space: space_lib.Space,
  evaluate: evaluate_lib.Evaluate,
  config: SearchConfig,
  strategy: strategies.Strategy | None = None,
  out_of_time: Callable[[], bool] = lambda: False,
  num_workers: int = 1,
) -> Exploration:
  """Runs a strategy until it has finished, or every network is known.

  By default that is the strategy of `make_strategy`. With a time limit, the
  search also ends when `out_of_time`, called between batches, returns True.
  """
  strategy = strategy or make_strategy(space, config)
  # Compile what runs every round; states are donated, not copied.
  init, finished = jax.jit(strategy.init), jax.jit(strategy.finished)
  propose = jax.jit(strategy.propose, donate_argnums=0)
  observe = jax.jit(strategy.observe, donate_argnums=0)
  epsilon = strategy.epsilon and jax.jit(strategy.epsilon)

  criterion, epochs = config.recipe.criterion, config.recipe.epochs
  network_of, limit = space.network_of, config.max_networks or len(space)
  at_once = len(space)
  if config.max_minutes is not None:
    devices = jax.devices()
    each = config.children_per_batch or child_lib.default_batch(devices[0])
    at_once = num_workers * max(1, each * len(devices) // config.num_seeds)
  records: dict[int, list[store_lib.Record]] = {}
  trace: list[result_lib.Step] = []

  def train(networks: Sequence[int], length: int) -> None:
    """Adds the records of networks, one per seed."""
    requests = list(itertools.product(networks, config.seeds()))
    records.update((network, []) for network in networks)
    found = evaluate(requests, length)
    for (network, _), record in zip(requests, found, strict=True):
      records[network].append(record)

  def trained(network: int) -> int:
    """Returns the number of epochs that a network has been trained for."""
    return records[network][0].epochs if network in records else 0

  train(space.baselines(), epochs)
  baseline = score_lib.value(records[int(network_of[0])], criterion)
  memory = init(jax.random.key(config.seed), baseline)
  while any(
    trained(network) < epochs for network in range(len(space))
  ) and not finished(memory):
    now = None if epsilon is None else float(epsilon(memory))
    memory, proposal = propose(memory)
    proposed = np.asarray(proposal.states).tolist()
    used = [s for s in proposed if s != strategies.NO_STATE]
    length = int(np.max(proposal.epochs))  # the same for all of a round
    networks = [int(network_of[s]) for s in used]
    missing = [n for n in dict.fromkeys(networks) if trained(n) < length]
    excess = max(0, len({*records, *missing}) - limit)
    missing = missing[: max(0, len(missing) - excess)]
    for start in range(0, len(missing), at_once):
      if out_of_time():
        break
      train(missing[start : start + at_once], length)
    values = {
      s: score_lib.value(records[n], criterion, length)
      for s, n in zip(used, networks, strict=True)
      if trained(n) >= length
    }
    trace += [result_lib.Step(s, values[s], now) for s in used if s in values]
    if len(values) < len(set(used)):  # the budget is spent
      break
    found = np.array([values.get(s, 0.0) for s in proposed], np.float32)
    memory = observe(memory, proposal, found)
  q_values: tuple[Any, ...] = ()
  if strategy.q_values is not None and trace:
    best = max(trace, key=lambda step: step.value).state
    shown = np.unique([space_lib.EMPTY, best]).astype(np.int32)
    rows = np.asarray(strategy.q_values(memory, shown)).tolist()
    q_values = tuple(zip(shown.tolist(), map(tuple, rows), strict=True))
  baselines = (int(space.shortest_states[n]) for n in space.baselines())
  counts = result_lib.Counts(
    steps=len(trace),
    states=len({0, *baselines, *(step.state for step in trace)}),
    networks=len(records),
  )
  return Exploration(records, counts, tuple(trace), q_values)
