"""Regularised evolution: mutants of good members replace the oldest ones.

Legend: K bits, N members, P proposals of a round.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from aen.search import space as space_lib
from aen.search.strategies import base
from aen.search.strategies.base import Config
from aen.search.strategies.base import Proposal


class EvolutionState(NamedTuple):
  """The last N members, in a ring buffer."""

  key: jax.Array
  members: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N]
  born: jax.Array  # int32 [], the number of members so far
  counts: base.Counts


@dataclasses.dataclass(frozen=True)
class Evolution(base.Options):
  """Regularised evolution (Real et al. 2019).

  The first N members are random networks. Then each new member toggles one bit
  of the best of a few members drawn at random, and replaces the oldest.

  Attributes:
    population: N.
    tournament: Members drawn for each parent, with replacement.
    max_steps: Steps after which the search ends, unless all networks are seen.
  """

  population: int = 20
  tournament: int = 5
  max_steps: int = 1000

  def __post_init__(self) -> None:
    super().__post_init__()
    base.check_at_least(
      1,
      population=self.population,
      tournament=self.tournament,
      max_steps=self.max_steps,
    )
    if self.per_round > self.population:
      raise ValueError(
        f'per_round {self.per_round} replaces more than the population of'
        f' {self.population}; make the population larger'
      )


def init(config: Config, key: jax.Array, baseline: jax.Array) -> EvolutionState:
  """Returns an empty population."""
  del baseline
  return EvolutionState(
    key=key,
    members=jnp.zeros(config.options.population, jnp.int32),
    values=jnp.full(config.options.population, -jnp.inf),
    born=jnp.int32(0),
    counts=base.no_counts(config),
  )


def propose(
  config: Config, state: EvolutionState
) -> tuple[EvolutionState, Proposal]:
  """Breeds P members."""

  def breed(slot: Any) -> jax.Array:
    number = state.born + slot
    key = jax.random.fold_in(state.key, number)
    key_first, key_parent, key_bit = jax.random.split(key, 3)
    first = jax.random.choice(key_first, config.table.shortest_states)
    drawn = jax.random.randint(
      key_parent, (config.options.tournament,), 0, config.options.population
    )
    parent = state.members[drawn[state.values[drawn].argmax()]]
    bit = jax.random.randint(key_bit, (), 0, config.num_bits)
    mutant = space_lib.toggle(parent, bit)
    return jnp.where(number < config.options.population, first, mutant)

  states = jax.vmap(breed)(base.slots(config.options.per_round))
  return state, base.full_proposal(config, states, finished(config, state))


def observe(
  config: Config, state: EvolutionState, proposal: Proposal, values: jax.Array
) -> EvolutionState:
  """Replaces the oldest members."""
  used = proposal.states >= 0
  oldest = (
    state.born + base.slots(config.options.per_round)
  ) % config.options.population
  oldest = jnp.where(used, oldest, config.options.population)  # not written
  return EvolutionState(
    key=state.key,
    members=state.members.at[oldest].set(proposal.states, mode='drop'),
    values=state.values.at[oldest].set(values, mode='drop'),
    born=state.born + used.sum(dtype=jnp.int32),
    counts=base.count(config, state.counts, proposal.states),
  )


def finished(config: Config, state: EvolutionState) -> jax.Array:
  """Whether all networks are seen, or enough steps taken."""
  all_seen = state.counts.networks >= len(config.table)
  return all_seen | (state.counts.steps >= config.options.max_steps)


EVOLUTION = base.Method(Evolution, init, propose, observe, finished)
