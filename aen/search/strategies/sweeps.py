"""Strategies that go through a list: exhaustive and random.

Legend: K bits, R networks, P proposals of a round.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.strategies import base


class SweepState(NamedTuple):
  """A list of states, and how far it has been read."""

  order: jax.Array  # int32 [N]
  position: jax.Array  # int32 []
  counts: base.Counts


def exhaustive(
  num_bits: int, *, network_of: np.ndarray, epochs: int, per_round: int = 1
) -> base.Strategy:
  """Every network once, each by its shortest name, in the lattice's order."""
  network_of = base.checked(network_of, num_bits, epochs)
  states = shortest_states(network_of)
  return _sweep(lambda key: jnp.asarray(states), network_of, epochs, per_round)


def random(
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  per_round: int = 1,
  distinct: bool = True,
) -> base.Strategy:
  """Every network once, in random order.

  Args:
    num_bits: K.
    network_of: The network of every state. int32 [2^K]
    epochs: How long to train.
    per_round: P.
    distinct: Draws from the R networks. False draws from the 2^K states, none
      twice, and so finds networks with many names first.

  Returns:
    The strategy.
  """
  network_of = base.checked(network_of, num_bits, epochs)
  states = (
    shortest_states(network_of) if distinct else np.arange(network_of.size)
  )
  states = states.astype(np.int32)
  return _sweep(
    lambda key: jax.random.permutation(key, states),
    network_of,
    epochs,
    per_round,
  )


def shortest_states(network_of: np.ndarray) -> np.ndarray:
  """Returns each network's shortest state, as `aen.Lattice` does. int32 [R]."""
  by_length = np.argsort(
    np.bitwise_count(np.arange(network_of.size)), kind='stable'
  )
  _, first = np.unique(network_of[by_length], return_index=True)
  return by_length[first].astype(np.int32)


def _sweep(
  order_of: Callable[[jax.Array], jax.Array],
  network_of: np.ndarray,
  epochs: int,
  per_round: int,
) -> base.Strategy:
  """Reads states [N], listed in an order that a key decides."""
  base.positive(per_round=per_round)
  slots = np.arange(per_round, dtype=np.int32)

  def init(key: jax.Array, baseline: jax.Array) -> SweepState:
    del baseline
    return SweepState(order_of(key), jnp.int32(0), base.no_counts(network_of))

  def propose(state: SweepState) -> tuple[SweepState, base.Proposal]:
    states = state.order.at[state.position + slots].get(
      mode='fill', fill_value=base.NO_STATE
    )
    return state, base.full_proposal(states, epochs)

  def observe(
    state: SweepState, proposal: base.Proposal, values: jax.Array
  ) -> SweepState:
    del values
    used = (proposal.states >= 0).sum(dtype=jnp.int32)
    counts = base.count(state.counts, network_of, proposal.states)
    return state._replace(position=state.position + used, counts=counts)

  def finished(state: SweepState) -> jax.Array:
    return state.position >= state.order.size

  return base.Strategy(init, propose, observe, finished)
