"""Successive halving: short trainings of many networks, long ones of the best.

Legend: N candidates, T rounds, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.strategies import base


class HalvingState(NamedTuple):
  """The candidates, best first after each rung, and this rung's scores."""

  order: jax.Array  # int32 [N]
  scores: jax.Array  # float32 [N], -inf where not yet trained on this rung
  round: jax.Array  # int32 []
  counts: base.Counts


@dataclasses.dataclass(frozen=True)
class Halving:
  """Successive halving over epochs.

  Attributes:
    per_round: States proposed at once, P.
    factor: Each rung trains 1/factor of the networks factor times as long.
    candidates: Networks on the first rung, drawn at random; all by default.
  """

  per_round: int = 1
  factor: int = 2
  candidates: int | None = None

  def __post_init__(self) -> None:
    base.check_at_least_one(self, 'per_round')
    if self.candidates is not None:
      base.check_at_least_one(self, 'candidates')
    if self.factor < 2:
      raise ValueError(f'factor must be at least 2, got {self.factor}')


class _Plan(NamedTuple):
  """What each round does, known in advance."""

  first: np.ndarray  # int32 [T], the place of its first candidate
  size: np.ndarray  # int32 [T], candidates on its rung
  epochs: np.ndarray  # int32 [T]
  last: np.ndarray  # bool [T], whether its rung ends with it


def init(
  config: base.Config, key: jax.Array, baseline: jax.Array
) -> HalvingState:
  """Draws the candidates."""
  del baseline
  count = _num_candidates(config)
  return HalvingState(
    order=jax.random.permutation(key, config.table.shortest_states)[:count],
    scores=jnp.full(count, -jnp.inf),
    round=jnp.int32(0),
    counts=base.no_counts(config),
  )


def propose(
  config: base.Config, state: HalvingState
) -> tuple[HalvingState, base.Proposal]:
  """Proposes the next candidates of the rung."""
  now = _now(config, state)
  places = now.first + base.slots(config.options.per_round)
  used = (places < now.size) & ~finished(config, state)
  states = jnp.where(used, state.order[places], base.NO_STATE)
  return state, base.Proposal(states, jnp.where(used, now.epochs, 0))


def observe(
  config: base.Config,
  state: HalvingState,
  proposal: base.Proposal,
  values: jax.Array,
) -> HalvingState:
  """Keeps the scores; sorts the candidates at the end of a rung."""
  now = _now(config, state)
  used = proposal.states >= 0
  places = now.first + base.slots(config.options.per_round)
  places = jnp.where(used, places, state.order.size)  # not written
  scores = state.scores.at[places].set(values, mode='drop')
  best_first = state.order[jnp.argsort(-scores)]  # stable
  over = now.last & used.any()
  return HalvingState(
    order=jnp.where(over, best_first, state.order),
    scores=jnp.where(over, -jnp.inf, scores),
    round=state.round + used.any(),
    counts=base.count(config, state.counts, proposal.states),
  )


def finished(config: base.Config, state: HalvingState) -> jax.Array:
  """Whether the last rung is over."""
  return state.round >= len(_plan(config).first)


def rungs(candidates: int, epochs: int, factor: int) -> list[tuple[int, int]]:
  """Returns (networks, epochs) of each rung.

  >>> rungs(216, 4, 2)
  [(216, 1), (108, 2), (54, 4)]
  """
  lengths = [epochs]
  while lengths[-1] >= factor:
    lengths.append(lengths[-1] // factor)
  return [
    (-(-candidates // factor**i), length)
    for i, length in enumerate(reversed(lengths))
  ]


def _num_candidates(
  config: base.Config,
) -> int:
  return min(config.options.candidates or len(config.table), len(config.table))


def _now(config: base.Config, state: HalvingState) -> _Plan:
  """Returns this round's row of the plan; the last one's beyond the end."""
  plan = _plan(config)
  return jax.tree.map(lambda x: jnp.asarray(x)[state.round], plan)


def _plan(
  config: base.Config,
) -> _Plan:
  candidates = _num_candidates(config)
  rows = [
    (first, size, epochs, first + config.options.per_round >= size)
    for size, epochs in rungs(candidates, config.epochs, config.options.factor)
    for first in range(0, size, config.options.per_round)
  ]
  first, size, epochs = np.array([row[:3] for row in rows], np.int32).T
  return _Plan(first, size, epochs, np.array([row[3] for row in rows]))


HALVING = base.Method(Halving, init, propose, observe, finished)
