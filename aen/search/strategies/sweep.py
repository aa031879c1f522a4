"""Strategies that go through a list of states: exhaustive and random.

Legend: N states in the list, R networks, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from aen.search.strategies import base


class SweepState(NamedTuple):
  """A list of states, and the position in it."""

  order: jax.Array  # int32 [N]
  position: jax.Array  # int32 []
  counts: base.Counts


@dataclasses.dataclass(frozen=True)
class Exhaustive(base.Options):
  """Every network once, each by its shortest state, in order."""


@dataclasses.dataclass(frozen=True)
class Random(base.Options):
  """Every network once, in random order.

  Attributes:
    distinct: Whether to draw from the R networks. False draws from the 2^K
      states, none twice, which favours networks that many states share.
  """

  distinct: bool = True


def init(
  config: base.Config, key: jax.Array, baseline: jax.Array
) -> SweepState:
  """Lists the states; the order of `Random` depends on the key."""
  del baseline
  order = jnp.asarray(config.table.shortest_states)
  if isinstance(config.options, Random):
    if not config.options.distinct:
      order = jnp.arange(config.table.network_of.size, dtype=jnp.int32)
    order = jax.random.permutation(key, order)
  return SweepState(order, jnp.int32(0), base.no_counts(config))


def propose(
  config: base.Config, state: SweepState
) -> tuple[SweepState, base.Proposal]:
  """Proposes the next P states of the list."""
  states = state.order.at[
    state.position + base.slots(config.options.per_round)
  ].get(mode='fill', fill_value=base.NO_STATE)
  return state, base.full_proposal(config, states)


def observe(
  config: base.Config,
  state: SweepState,
  proposal: base.Proposal,
  values: jax.Array,
) -> SweepState:
  """Advances; the values do not matter."""
  del values
  used = (proposal.states >= 0).sum(dtype=jnp.int32)
  counts = base.count(config, state.counts, proposal.states)
  return state._replace(position=state.position + used, counts=counts)


def finished(config: base.Config, state: SweepState) -> jax.Array:
  """Whether the list has been read."""
  return state.position >= state.order.size


EXHAUSTIVE = base.Method(Exhaustive, init, propose, observe, finished)
RANDOM = base.Method(Random, init, propose, observe, finished)
