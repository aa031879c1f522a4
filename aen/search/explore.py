"""How to search, and letting a strategy do so: propose → evaluate → observe.

Nothing here trains or remembers: evaluators do.
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
_SEED_STRIDE = 1000  # seeds of different runs do not overlap
_RETRAIN_SEED = 500


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
    top: How many of the best networks are retrained.
    retrain_epochs: Epochs of retraining; 2.5 times those of the search by
      default.
    retrain_seeds: Children per network in retraining. Each seed has its own
      split into training and validation images.
    children_per_batch: Children trained side by side on each device; by default
      as measured for its kind.
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

  def __post_init__(self) -> None:
    for name in ('num_seeds', 'top', 'retrain_seeds'):
      io_lib.positive(getattr(self, name), name)
    for name in ('retrain_epochs', 'children_per_batch'):
      if getattr(self, name) is not None:
        io_lib.positive(getattr(self, name), name)
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

  def final_recipe(self) -> recipe_lib.Recipe:
    """How the best networks are retrained."""
    longer = math.ceil(RETRAIN_FACTOR * self.recipe.epochs)
    return dataclasses.replace(
      self.recipe, epochs=self.retrain_epochs or longer
    )


Evaluate = Callable[
  [Sequence[evaluate_lib.Request], int | None], list[store_lib.Record]
]


class Exploration(NamedTuple):
  """What a strategy has seen."""

  records: dict[int, list[store_lib.Record]]  # by network
  counts: result_lib.Counts
  trace: tuple[result_lib.Step, ...]
  q_values: tuple[tuple[int, tuple[float, ...]], ...]


def explore(
  space: space_lib.Space,
  evaluate: Evaluate,
  config: SearchConfig,
) -> Exploration:
  """Lets a strategy search until it has finished, or every network is known.

  Args:
    space: The networks.
    evaluate: Returns a record for every (network, seed), trained for so many
      epochs.
    config: Names the strategy and the seeds.
  """
  criterion, seeds = config.recipe.criterion, config.seeds()
  network_of = np.asarray(space.network_of)
  strategy = _compiled(make_strategy(space, config))
  records = by_network(evaluate, baselines(space), seeds, config.recipe.epochs)
  baseline = value(records[int(network_of[0])], criterion)
  state = strategy.init(jax.random.key(config.seed), baseline)
  trace = []
  while _unfinished(space, records, config) and not strategy.finished(state):
    epsilon = strategy.epsilon and float(strategy.epsilon(state))
    state, proposal = strategy.propose(state)
    asked = [int(s) for s in proposal.states]
    used = [s for s in asked if s != strategies.NO_STATE]
    epochs = int(np.max(proposal.epochs))  # a round has one length
    networks = [int(network_of[s]) for s in used]
    unknown = [n for n in networks if _epochs(records.get(n)) < epochs]
    records |= by_network(evaluate, unknown, seeds, epochs)
    worth = {
      s: value(records[int(network_of[s])], criterion, epochs) for s in used
    }
    values = np.array([worth.get(s, 0.0) for s in asked], np.float32)
    state = strategy.observe(state, proposal, values)
    trace += [result_lib.Step(s, worth[s], epsilon) for s in used]
  counts = result_lib.Counts(
    steps=int(state.counts.steps),
    states=int(state.counts.states),
    networks=len(records),
  )
  opinions = _opinions(strategy, state, trace)
  return Exploration(records, counts, tuple(trace), opinions)


def make_strategy(
  space: space_lib.Space, config: SearchConfig
) -> strategies.Strategy:
  """Returns the strategy, or says what is wrong with its options."""
  return strategies.make(
    config.strategy,
    len(space.bits),
    network_of=np.asarray(space.network_of),
    epochs=config.recipe.epochs,
    **{**_per_round(space, config), **dict(config.options)},
  )


def _compiled(strategy: strategies.Strategy) -> strategies.Strategy:
  """Compiles what runs every round; states are handed on, not copied."""
  return strategy._replace(
    init=jax.jit(strategy.init),
    propose=jax.jit(strategy.propose, donate_argnums=0),
    observe=jax.jit(strategy.observe, donate_argnums=0),
    finished=jax.jit(strategy.finished),
    epsilon=strategy.epsilon and jax.jit(strategy.epsilon),
  )


def _per_round(space: space_lib.Space, config: SearchConfig) -> dict[str, int]:
  """Returns how many states fill a batch, where that is no choice of method."""
  if config.strategy == 'exhaustive':
    return {'per_round': len(space)}
  if config.strategy == 'dqn':  # walkers share what they learn
    return {}
  devices = jax.devices()
  batch = config.children_per_batch or child_lib.default_batch(devices[0])
  return {'per_round': max(1, batch * len(devices) // config.num_seeds)}


def _opinions(
  strategy: strategies.Strategy, state: Any, trace: Sequence[result_lib.Step]
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


def _unfinished(
  space: space_lib.Space,
  records: Mapping[int, Sequence[store_lib.Record]],
  config: SearchConfig,
) -> bool:
  """Whether any network is yet to be trained in full."""
  full = [_epochs(found) == config.recipe.epochs for found in records.values()]
  return sum(full) < len(space)


def _epochs(records: Sequence[store_lib.Record] | None) -> int:
  """Returns for how long a network has been trained."""
  return len(records[0].validation_accuracy) if records else 0


def by_network(
  evaluate: Evaluate,
  networks: Sequence[int],
  seeds: Sequence[int],
  epochs: int | None = None,
) -> dict[int, list[store_lib.Record]]:
  """Returns the records of networks, each with every seed."""
  networks = list(dict.fromkeys(networks))
  requests = [(network, seed) for network in networks for seed in seeds]
  flat = evaluate(requests, epochs)
  count = len(seeds)
  return {
    network: flat[i * count : (i + 1) * count]
    for i, network in enumerate(networks)
  }


def value(
  records: Sequence[store_lib.Record], criterion: str, epochs: int | None = None
) -> float:
  """Returns what a strategy is told about a network's first epochs."""
  seen = [
    dataclasses.replace(
      record,
      validation_accuracy=record.validation_accuracy[:epochs],
      validation_loss=record.validation_loss[:epochs],
    )
    for record in records
  ]
  return score_lib.Score.of(seen, criterion, num_images=1).value


def baselines(space: space_lib.Space) -> list[int]:
  """Returns the networks that others are compared with, 0 first."""
  return sorted({space.baseline(network) for network in range(len(space))})


def total(space: space_lib.Space, config: SearchConfig) -> int | None:
  """The number of children, where it is known beforehand."""
  exhaustive = config.strategy == 'exhaustive'
  return len(space) * config.num_seeds if exhaustive else None
