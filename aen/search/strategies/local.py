"""Local search: climb to the best neighbour; restart at a local maximum.

Screened search is local search that begins at the best of some networks, which
a screening of the data suggests.

Legend: K bits, R networks, N of them listed, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen.search import space as space_lib
from aen.search.strategies import base

_START = -1  # instead of a place among the neighbours: the start itself


class LocalState(NamedTuple):
  """The current state, and what is known of its neighbours."""

  key: jax.Array
  restarts: jax.Array  # int32 [R], networks in random order
  here: jax.Array  # int32 []
  value: jax.Array  # float32 []
  place: jax.Array  # int32 [], the next neighbour to evaluate, or _START
  best: jax.Array  # int32 [], the best neighbour so far
  best_value: jax.Array  # float32 []
  position: jax.Array  # int32 [], in the list of networks to visit first;
  # starts of further climbs count as visits too
  counts: base.Counts


@dataclasses.dataclass(frozen=True, eq=False)
class Local(base.PerRound):
  """Best-improvement local search with restarts.

  The first climb begins at the empty state, the others at the shortest state of
  a random network not yet seen. All K neighbours are evaluated, in random
  order, before a step to the best of them, if it is better. The search ends
  when all networks are seen. More than K states per round are of no use.
  """

  @property
  def listed(self) -> np.ndarray:
    """The states to visit before the first climb. int32 [N]."""
    return np.zeros(0, np.int32)

  @override
  def init(self, key: jax.Array, baseline: jax.Array) -> LocalState:
    key_restarts, key_neighbours = jax.random.split(key)
    networks = np.arange(len(self.table), dtype=np.int32)
    return LocalState(
      key=key_neighbours,
      restarts=jax.random.permutation(key_restarts, networks),
      here=jnp.int32(space_lib.EMPTY),
      value=jnp.asarray(baseline, jnp.float32),
      place=jnp.int32(0),
      best=jnp.int32(space_lib.EMPTY),
      best_value=jnp.float32(-jnp.inf),
      position=jnp.int32(0),
      counts=self.no_counts(),
    )

  @override
  def propose(self, state: LocalState) -> tuple[LocalState, base.Proposal]:
    key = jax.random.fold_in(state.key, state.here)
    bits = jax.random.permutation(key, np.arange(self.num_bits, dtype=np.int32))
    places = state.place + self.slots
    bit = bits.at[places].get(mode='fill', fill_value=0)
    neighbours = jnp.where(
      places < self.num_bits, space_lib.toggle(state.here, bit), base.NO_STATE
    )
    start = jnp.where(self.slots == 0, state.here, base.NO_STATE)
    states = jnp.where(state.place == _START, start, neighbours)
    if self.listed.size:
      visited = jnp.asarray(self.listed).at[state.position + self.slots]
      states = jnp.where(
        state.position < self.listed.size,
        visited.get(mode='fill', fill_value=base.NO_STATE),
        states,
      )
    return state, self.full_proposal(states, self.finished(state))

  @override
  def observe(
    self, state: LocalState, proposal: base.Proposal, values: jax.Array
  ) -> LocalState:
    counts = self.count(state.counts, proposal.states)
    state = state._replace(counts=counts)
    used = proposal.states >= 0
    count = used.sum(dtype=jnp.int32)
    first = jnp.where(used, values, -jnp.inf).argmax()
    better = values[first] > state.best_value
    seen = state._replace(
      place=state.place + count,
      best=jnp.where(better, proposal.states[first], state.best),
      best_value=jnp.where(better, values[first], state.best_value),
    )
    seen = _select(seen.place >= self.num_bits, self._step(seen), seen)
    higher = values[first] > state.value  # -inf at a start
    visited = state._replace(
      here=jnp.where(higher, proposal.states[first], state.here),
      value=jnp.where(higher, values[first], state.value),
      place=jnp.int32(0),
      position=state.position + count,
    )
    visits = (state.position < self.listed.size) | (state.place == _START)
    return _select(used.any(), _select(visits, visited, seen), state)

  def _step(self, state: LocalState) -> LocalState:
    """Climbs to the best neighbour, or restarts at a network not yet seen."""
    climbs = state.best_value > state.value
    unseen = ~state.counts.seen_networks[state.restarts]
    network = state.restarts[unseen.argmax()]
    restart = jnp.asarray(self.table.shortest_states)[network]
    return state._replace(
      here=jnp.where(climbs, state.best, restart),
      value=jnp.where(climbs, state.best_value, -jnp.inf),
      place=jnp.where(climbs, 0, _START),
      best_value=jnp.float32(-jnp.inf),
    )


def _select(flag: jax.Array, yes: LocalState, no: LocalState) -> LocalState:
  return jax.tree.map(lambda a, b: jnp.where(flag, a, b), yes, no)


@dataclasses.dataclass(frozen=True, eq=False)
class Screened(Local):
  """Local search whose first climb begins at the best of listed networks.

  Attributes:
    order: Networks, most promising first, as of `Screening.order`. With none,
      this is local search.
    first: How many of them to visit before the first climb, the baseline not
      counted, N.
  """

  order: tuple[int, ...] = ()
  first: int = 6

  def __post_init__(self) -> None:
    super().__post_init__()
    self.check_at_least(1, 'first')
    networks = set(self.order)
    if len(networks) < len(self.order) or networks - {*range(len(self.table))}:
      raise ValueError(
        'order must name every network at most once, by numbers from 0 to'
        f' {len(self.table) - 1}, got {self.order}'
      )

  @override
  @property
  def listed(self) -> np.ndarray:
    baseline = int(self.table.network_of[0])
    order = [network for network in self.order if network != baseline]
    states = self.table.shortest_states[order[: self.first]]
    return states.astype(np.int32)
