"""Regularised evolution: the best of a few has a child, and the oldest dies.

Legend: K bits, N members, P proposals of a round.
"""

from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search import agent as agent_lib
from aen.search.strategies import base
from aen.search.strategies import sweeps


class EvolutionState(NamedTuple):
  """The last N members, in a ring."""

  key: jax.Array
  members: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N]
  born: jax.Array  # int32 [], all members there ever were
  counts: base.Counts


def evolution(
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  per_round: int = 1,
  population: int = 20,
  tournament: int = 5,
  max_steps: int = 1000,
) -> base.Strategy:
  """Regularised evolution (Real et al. 2019).

  The first members are random networks. Then each child toggles one bit of the
  best of a few members drawn at random, and takes the place of the oldest.

  Args:
    num_bits: K.
    network_of: The network of every state. int32 [2^K]
    epochs: How long to train.
    per_round: P.
    population: N.
    tournament: How many members to draw for a parent, with replacement.
    max_steps: The search ends after so many steps, or with the last network.

  Returns:
    The strategy.
  """
  network_of = base.checked(network_of, num_bits, epochs)
  base.positive(
    per_round=per_round,
    population=population,
    tournament=tournament,
    max_steps=max_steps,
  )
  if per_round > population:
    raise ValueError(
      f'per_round {per_round} replaces more than the population of'
      f' {population}; make the population larger'
    )
  networks = sweeps.shortest_states(network_of)
  slots = np.arange(per_round, dtype=np.int32)

  def init(key: jax.Array, baseline: jax.Array) -> EvolutionState:
    del baseline
    return EvolutionState(
      key=key,
      members=jnp.zeros(population, jnp.int32),
      values=jnp.full(population, -jnp.inf),
      born=jnp.int32(0),
      counts=base.no_counts(network_of),
    )

  def child(state: EvolutionState, slot: Any) -> jax.Array:
    number = state.born + slot
    key = jax.random.fold_in(state.key, number)
    key_first, key_parent, key_bit = jax.random.split(key, 3)
    first = jax.random.choice(key_first, networks)
    drawn = jax.random.randint(key_parent, (tournament,), 0, population)
    parent = state.members[drawn[state.values[drawn].argmax()]]
    bit = jax.random.randint(key_bit, (), 0, num_bits)
    mutant = agent_lib.toggle(parent, bit)
    return jnp.where(number < population, first, mutant)

  def propose(state: EvolutionState) -> tuple[EvolutionState, base.Proposal]:
    children = jax.vmap(child, in_axes=(None, 0))(state, slots)
    states = jnp.where(finished(state), base.NO_STATE, children)
    return state, base.full_proposal(states, epochs)

  def observe(
    state: EvolutionState, proposal: base.Proposal, values: jax.Array
  ) -> EvolutionState:
    used = proposal.states >= 0
    oldest = jnp.where(used, (state.born + slots) % population, population)
    return EvolutionState(
      key=state.key,
      members=state.members.at[oldest].set(proposal.states, mode='drop'),
      values=state.values.at[oldest].set(values, mode='drop'),
      born=state.born + used.sum(dtype=jnp.int32),
      counts=base.count(state.counts, network_of, proposal.states),
    )

  def finished(state: EvolutionState) -> jax.Array:
    all_seen = state.counts.networks >= len(networks)
    return all_seen | (state.counts.steps >= max_steps)

  return base.Strategy(init, propose, observe, finished)
