"""Regularised evolution: mutants of good members replace the oldest ones.

Legend: K bits, N members, P proposals of a round.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from aen.search import space as space_lib
from aen.search.strategies import base


class EvolutionState(NamedTuple):
  """The last N members, in a ring buffer."""

  key: jax.Array
  members: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N]
  born: jax.Array  # int32 [], the number of members so far
  counts: base.Counts


@dataclasses.dataclass(frozen=True, eq=False)
class Evolution(base.PerRound):
  """Regularised evolution (Real et al. 2019).

  The first N members are random networks. Each later one is the best of a few
  members drawn at random, with one bit toggled; it replaces the oldest.

  Attributes:
    population: The number of members, N.
    tournament: Members drawn for each parent, with replacement.
    max_steps: Steps after which the search ends, unless all networks are seen.
  """

  population: int = 20
  tournament: int = 5
  max_steps: int = 1000

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.per_round > self.population:
      raise ValueError(
        f'per_round {self.per_round} replaces more than the population of'
        f' {self.population}; make the population larger'
      )

  @override
  def init(self, key: jax.Array, baseline: jax.Array) -> EvolutionState:
    del baseline
    return EvolutionState(
      key=key,
      members=jnp.zeros(self.population, jnp.int32),
      values=jnp.full(self.population, -jnp.inf),
      born=jnp.int32(0),
      counts=self.no_counts(),
    )

  @override
  def propose(
    self, state: EvolutionState
  ) -> tuple[EvolutionState, base.Proposal]:
    def breed(slot: Any) -> jax.Array:
      number = state.born + slot
      key = jax.random.fold_in(state.key, number)
      key_first, key_parent, key_bit = jax.random.split(key, 3)
      first = jax.random.choice(key_first, self.table.shortest_states)
      drawn = jax.random.randint(
        key_parent, (self.tournament,), 0, self.population
      )
      parent = state.members[drawn[state.values[drawn].argmax()]]
      bit = jax.random.randint(key_bit, (), 0, self.num_bits)
      mutant = space_lib.toggle(parent, bit)
      return jnp.where(number < self.population, first, mutant)

    states = jax.vmap(breed)(self.slots)
    return state, self.full_proposal(states, self.finished(state))

  @override
  def observe(
    self, state: EvolutionState, proposal: base.Proposal, values: jax.Array
  ) -> EvolutionState:
    used = proposal.states >= 0
    oldest = (state.born + self.slots) % self.population
    oldest = jnp.where(used, oldest, self.population)  # not written
    return EvolutionState(
      key=state.key,
      members=state.members.at[oldest].set(proposal.states, mode='drop'),
      values=state.values.at[oldest].set(values, mode='drop'),
      born=state.born + used.sum(dtype=jnp.int32),
      counts=self.count(state.counts, proposal.states),
    )

  @override
  def finished(self, state: EvolutionState) -> jax.Array:
    enough = state.counts.steps >= self.max_steps
    return super().finished(state) | enough
