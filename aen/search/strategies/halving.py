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
class Halving(base.Options):
  """Successive halving over epochs.

  Attributes:
    factor: Each rung trains 1/factor of the networks factor times as long.
    candidates: Networks on the first rung, drawn at random; all by default.
  """

  factor: int = 2
  candidates: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    base.check_at_least(1, candidates=self.candidates)
    base.check_at_least(2, factor=self.factor)


class _Plan(NamedTuple):
  """What each round does, known in advance."""

  first: np.ndarray  # int32 [T], the place of its first candidate
  size: np.ndarray  # int32 [T], candidates on its rung
  epochs: np.ndarray  # int32 [T]


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
  over = (places[-1] + 1 >= now.size) & used.any()
  places = jnp.where(used, places, state.order.size)  # not written
  scores = state.scores.at[places].set(values, mode='drop')
  best_first = state.order[jnp.argsort(-scores)]  # stable
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


def _num_candidates(config: base.Config) -> int:
  return min(config.options.candidates or len(config.table), len(config.table))


def _now(config: base.Config, state: HalvingState) -> _Plan:
  """Returns this round's row of the plan; the last one's beyond the end."""
  return jax.tree.map(lambda x: jnp.asarray(x)[state.round], _plan(config))


def _plan(config: base.Config) -> _Plan:
  candidates = _num_candidates(config)
  rows = [
    (first, size, epochs)
    for size, epochs in rungs(candidates, config.epochs, config.options.factor)
    for first in range(0, size, config.options.per_round)
  ]
  return _Plan(*np.array(rows, np.int32).T)


HALVING = base.Method(Halving, init, propose, observe, finished)
