"""Successive halving: train many networks a little, and the best of them on.

Legend: R networks, N candidates, P proposals of a round, T rounds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.strategies import base
from aen.search.strategies import sweeps


class HalvingState(NamedTuple):
  """The candidates, best first after each rung, and this rung's scores."""

  order: jax.Array  # int32 [N]
  scores: jax.Array  # float32 [N], -inf where not yet trained on this rung
  round: jax.Array  # int32 []
  counts: base.Counts


class _Plan(NamedTuple):
  """What each round does, known beforehand."""

  first: np.ndarray  # int32 [T], the place of its first candidate
  size: np.ndarray  # int32 [T], candidates on its rung
  epochs: np.ndarray  # int32 [T]
  last: np.ndarray  # bool [T], whether its rung ends with it


def halving(
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  per_round: int = 1,
  factor: int = 2,
  candidates: int | None = None,
) -> base.Strategy:
  """Successive halving over epochs.

  Args:
    num_bits: K.
    network_of: The network of every state. int32 [2^K]
    epochs: How long the networks on the last rung train.
    per_round: P.
    factor: On the next rung there are so many times fewer networks, which
      train so many times longer.
    candidates: How many networks, drawn at random, to begin with; all of them
      by default.

  Returns:
    The strategy.
  """
  network_of = base.checked(network_of, num_bits, epochs)
  states = sweeps.shortest_states(network_of)
  candidates = len(states) if candidates is None else candidates
  base.positive(per_round=per_round, candidates=candidates)
  if factor < 2:
    raise ValueError(f'factor must be at least 2, got {factor}')
  candidates = min(candidates, len(states))
  plan = _plan(rungs(candidates, epochs, factor), per_round)
  num_rounds, slots = len(plan.first), np.arange(per_round, dtype=np.int32)
  nothing = jnp.full(candidates, -jnp.inf)

  def init(key: jax.Array, baseline: jax.Array) -> HalvingState:
    del baseline
    order = jax.random.permutation(key, states)[:candidates]
    return HalvingState(
      order, nothing, jnp.int32(0), base.no_counts(network_of)
    )

  def propose(state: HalvingState) -> tuple[HalvingState, base.Proposal]:
    now = jax.tree.map(lambda x: jnp.asarray(x)[state.round], plan)
    places = now.first + slots
    used = (places < now.size) & (state.round < num_rounds)
    states = jnp.where(used, state.order[places], base.NO_STATE)
    return state, base.Proposal(states, jnp.where(used, now.epochs, 0))

  def observe(
    state: HalvingState, proposal: base.Proposal, values: jax.Array
  ) -> HalvingState:
    now = jax.tree.map(lambda x: jnp.asarray(x)[state.round], plan)
    used = proposal.states >= 0
    places = jnp.where(used, now.first + slots, candidates)
    scores = state.scores.at[places].set(values, mode='drop')
    best_first = state.order[jnp.argsort(-scores)]  # stable
    over = now.last & used.any()
    return HalvingState(
      order=jnp.where(over, best_first, state.order),
      scores=jnp.where(over, nothing, scores),
      round=state.round + used.any(),
      counts=base.count(state.counts, network_of, proposal.states),
    )

  def finished(state: HalvingState) -> jax.Array:
    return state.round >= num_rounds

  return base.Strategy(init, propose, observe, finished)


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


def _plan(all_rungs: list[tuple[int, int]], per_round: int) -> _Plan:
  rows = [
    (first, size, epochs, first + per_round >= size)
    for size, epochs in all_rungs
    for first in range(0, size, per_round)
  ]
  first, size, epochs, last = zip(*rows, strict=True)
  numbers = [np.array(column, np.int32) for column in (first, size, epochs)]
  return _Plan(*[*numbers, np.array(last)])
