"""Local search: look at all neighbours, go to the best, start anew at a top.

Legend: K bits, R networks, P proposals of a round.
"""

from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search import agent as agent_lib
from aen.search.strategies import base
from aen.search.strategies import sweeps

_START = -1  # instead of a place among the neighbours: the start itself


class LocalState(NamedTuple):
  """Where the climber stands, and what it knows of the neighbours."""

  key: jax.Array
  restarts: jax.Array  # int32 [R], networks in random order
  here: jax.Array  # int32 []
  value: jax.Array  # float32 []
  place: jax.Array  # int32 [], the next neighbour to look at, or _START
  best: jax.Array  # int32 [], the best neighbour so far
  best_value: jax.Array  # float32 []
  counts: base.Counts


def local(
  num_bits: int, *, network_of: np.ndarray, epochs: int, per_round: int = 1
) -> base.Strategy:
  """Best-improvement local search with restarts.

  The first climb begins at the empty state; the others at a random network that
  has not been seen, by its shortest name. All K neighbours are looked at, in
  random order, before a move to the best of them, if it is better. The search
  ends when all networks are seen.

  Args:
    num_bits: K.
    network_of: The network of every state. int32 [2^K]
    epochs: How long to train.
    per_round: P; more than K are of no use.

  Returns:
    The strategy.
  """
  network_of = base.checked(network_of, num_bits, epochs)
  base.positive(per_round=per_round)
  slots = np.arange(per_round, dtype=np.int32)
  names = sweeps.shortest_states(network_of)

  def init(key: jax.Array, baseline: jax.Array) -> LocalState:
    key_restarts, key_neighbours = jax.random.split(key)
    return LocalState(
      key=key_neighbours,
      restarts=jax.random.permutation(
        key_restarts, np.arange(len(names), dtype=np.int32)
      ),
      here=jnp.int32(agent_lib.EMPTY),
      value=jnp.asarray(baseline, jnp.float32),
      place=jnp.int32(0),
      best=jnp.int32(agent_lib.EMPTY),
      best_value=jnp.float32(-jnp.inf),
      counts=base.no_counts(network_of),
    )

  def propose(state: LocalState) -> tuple[LocalState, base.Proposal]:
    key = jax.random.fold_in(state.key, state.here)
    bits = jax.random.permutation(key, np.arange(num_bits, dtype=np.int32))
    places = state.place + slots
    bit = bits.at[places].get(mode='fill', fill_value=0)
    neighbours = jnp.where(
      places < num_bits, agent_lib.toggle(state.here, bit), base.NO_STATE
    )
    start = jnp.where(slots == 0, state.here, base.NO_STATE)
    states = jnp.where(state.place == _START, start, neighbours)
    states = jnp.where(finished(state), base.NO_STATE, states)
    return state, base.full_proposal(states, epochs)

  def observe(
    state: LocalState, proposal: base.Proposal, values: jax.Array
  ) -> LocalState:
    counts = base.count(state.counts, network_of, proposal.states)
    state = state._replace(counts=counts)
    used = proposal.states >= 0
    first = jnp.where(used, values, -jnp.inf).argmax()
    started = state._replace(value=values[0], place=jnp.int32(0))
    looked = _look(state, proposal.states[first], values[first])
    looked = looked._replace(place=state.place + used.sum(dtype=jnp.int32))
    over = looked.place >= num_bits
    looked = _choose(over, _move(looked, names), looked)
    after = _choose(state.place == _START, started, looked)
    return _choose(used.any(), after, state)

  def finished(state: LocalState) -> jax.Array:
    return state.counts.networks >= len(names)

  return base.Strategy(init, propose, observe, finished)


def _look(state: LocalState, best: jax.Array, value: jax.Array) -> LocalState:
  better = value > state.best_value
  return state._replace(
    best=jnp.where(better, best, state.best),
    best_value=jnp.where(better, value, state.best_value),
  )


def _move(state: LocalState, names: np.ndarray) -> LocalState:
  """Goes to the best neighbour, or from a top to a network not yet seen."""
  climbs = state.best_value > state.value
  new = ~state.counts.seen_networks[state.restarts]
  restart = jnp.asarray(names)[state.restarts[new.argmax()]]
  return state._replace(
    here=jnp.where(climbs, state.best, restart),
    value=jnp.where(climbs, state.best_value, -jnp.inf),
    place=jnp.where(climbs, 0, _START),
    best_value=jnp.float32(-jnp.inf),
  )


def _choose(flag: jax.Array, yes: LocalState, no: LocalState) -> LocalState:
  changed: dict[str, Any] = {
    name: jnp.where(flag, getattr(yes, name), getattr(no, name))
    for name in ('here', 'value', 'place', 'best', 'best_value')
  }
  return no._replace(**changed)
