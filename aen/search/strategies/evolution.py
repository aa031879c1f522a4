"""Regularised evolution: mutants of good members replace the oldest ones.

Legend: K bits, N members, P proposals of a round.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from aen.search import agent as agent_lib
from aen.search.strategies import base


class EvolutionState(NamedTuple):
  """The last N members, in a ring buffer."""

  key: jax.Array
  members: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N]
  born: jax.Array  # int32 [], the number of members so far
  counts: base.Counts


@dataclasses.dataclass(frozen=True)
class Evolution:
  """Regularised evolution (Real et al. 2019).

  The first N members are random networks. Then each new member toggles one bit
  of the best of a few members drawn at random, and replaces the oldest.

  Attributes:
    per_round: Members bred at once, P.
    population: N.
    tournament: Members drawn for each parent, with replacement.
    max_steps: Steps after which the search ends, unless all networks are seen.
  """

  per_round: int = 1
  population: int = 20
  tournament: int = 5
  max_steps: int = 1000

  def __post_init__(self) -> None:
    names = ('per_round', 'population', 'tournament', 'max_steps')
    base.check_at_least_one(self, *names)
    if self.per_round > self.population:
      raise ValueError(
        f'per_round {self.per_round} replaces more than the population of'
        f' {self.population}; make the population larger'
      )


def init(
  problem: base.Problem, options: Evolution, key: jax.Array, baseline: jax.Array
) -> EvolutionState:
  """Returns an empty population."""
  del baseline
  return EvolutionState(
    key=key,
    members=jnp.zeros(options.population, jnp.int32),
    values=jnp.full(options.population, -jnp.inf),
    born=jnp.int32(0),
    counts=base.no_counts(problem),
  )


def propose(
  problem: base.Problem, options: Evolution, state: EvolutionState
) -> tuple[EvolutionState, base.Proposal]:
  """Breeds P members."""

  def breed(slot: Any) -> jax.Array:
    number = state.born + slot
    key = jax.random.fold_in(state.key, number)
    key_first, key_parent, key_bit = jax.random.split(key, 3)
    first = jax.random.choice(key_first, problem.table.shortest_states)
    drawn = jax.random.randint(
      key_parent, (options.tournament,), 0, options.population
    )
    parent = state.members[drawn[state.values[drawn].argmax()]]
    bit = jax.random.randint(key_bit, (), 0, problem.num_bits)
    mutant = agent_lib.toggle(parent, bit)
    return jnp.where(number < options.population, first, mutant)

  states = jax.vmap(breed)(base.slots(options.per_round))
  return state, base.full_proposal(
    problem, states, finished(problem, options, state)
  )


def observe(
  problem: base.Problem,
  options: Evolution,
  state: EvolutionState,
  proposal: base.Proposal,
  values: jax.Array,
) -> EvolutionState:
  """Replaces the oldest members."""
  used = proposal.states >= 0
  oldest = (state.born + base.slots(options.per_round)) % options.population
  oldest = jnp.where(used, oldest, options.population)  # not written
  return EvolutionState(
    key=state.key,
    members=state.members.at[oldest].set(proposal.states, mode='drop'),
    values=state.values.at[oldest].set(values, mode='drop'),
    born=state.born + used.sum(dtype=jnp.int32),
    counts=base.count(problem, state.counts, proposal.states),
  )


def finished(
  problem: base.Problem, options: Evolution, state: EvolutionState
) -> jax.Array:
  """Whether all networks are seen, or enough steps taken."""
  all_seen = state.counts.networks >= len(problem.table)
  return all_seen | (state.counts.steps >= options.max_steps)


EVOLUTION = base.Method(Evolution, init, propose, observe, finished)
