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


class EvolutionMemory(NamedTuple):
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
  def init(self, key: jax.Array, baseline: jax.Array) -> EvolutionMemory:
    del baseline
    return EvolutionMemory(
      key=key,
      members=jnp.zeros(self.population, jnp.int32),
      values=jnp.full(self.population, -jnp.inf),
      born=jnp.int32(0),
      counts=self.no_counts(),
    )

  @override
  def propose(
    self, memory: EvolutionMemory
  ) -> tuple[EvolutionMemory, base.Proposal]:
    def breed(slot: Any) -> jax.Array:
      number = memory.born + slot
      key = jax.random.fold_in(memory.key, number)
      key_first, key_parent, key_bit = jax.random.split(key, 3)
      first = jax.random.choice(key_first, self.table.shortest_states)
      drawn = jax.random.randint(
        key_parent, (self.tournament,), 0, self.population
      )
      parent = memory.members[drawn[memory.values[drawn].argmax()]]
      bit = jax.random.randint(key_bit, (), 0, self.num_bits)
      mutant = space_lib.toggle(parent, bit)
      return jnp.where(number < self.population, first, mutant)

    states = jax.vmap(breed)(self.slots)
    return memory, self.full_proposal(states, self.finished(memory))

  @override
  def observe(
    self, memory: EvolutionMemory, proposal: base.Proposal, values: jax.Array
  ) -> EvolutionMemory:
    used = proposal.states >= 0
    oldest = (memory.born + self.slots) % self.population
    oldest = jnp.where(used, oldest, self.population)  # not written
    return EvolutionMemory(
      key=memory.key,
      members=memory.members.at[oldest].set(proposal.states, mode='drop'),
      values=memory.values.at[oldest].set(values, mode='drop'),
      born=memory.born + used.sum(dtype=jnp.int32),
      counts=self.count(memory.counts, proposal.states),
    )

  @override
  def finished(self, memory: EvolutionMemory) -> jax.Array:
    enough = memory.counts.steps >= self.max_steps
    return super().finished(memory) | enough
