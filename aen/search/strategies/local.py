"""Local search: climb to the best neighbour; restart at a local maximum.

Screened search is local search that begins at the best of some networks, which
a screening of the data suggests.

Legend: K bits, R networks, N of them listed, P proposals of a round.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search import space as space_lib
from aen.search.strategies import base
from aen.search.strategies.base import Config
from aen.search.strategies.base import Proposal

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


@dataclasses.dataclass(frozen=True)
class Local(base.Options):
  """Best-improvement local search with restarts.

  The first climb begins at the empty state, the others at the shortest state of
  a random network not yet seen. All K neighbours are evaluated, in random
  order, before a step to the best of them, if it is better. The search ends
  when all networks are seen. More than K states per round are of no use.
  """


@dataclasses.dataclass(frozen=True)
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
    base.check_at_least(1, first=self.first)
    if len(set(self.order)) < len(self.order):
      raise ValueError('order must name every network at most once')


def init(config: Config, key: jax.Array, baseline: jax.Array) -> LocalState:
  """Begins at the empty state, whose value is known."""
  key_restarts, key_neighbours = jax.random.split(key)
  networks = np.arange(len(config.table), dtype=np.int32)
  return LocalState(
    key=key_neighbours,
    restarts=jax.random.permutation(key_restarts, networks),
    here=jnp.int32(space_lib.EMPTY),
    value=jnp.asarray(baseline, jnp.float32),
    place=jnp.int32(0),
    best=jnp.int32(space_lib.EMPTY),
    best_value=jnp.float32(-jnp.inf),
    position=jnp.int32(0),
    counts=base.no_counts(config),
  )


def propose(config: Config, state: LocalState) -> tuple[LocalState, Proposal]:
  """Proposes the next neighbours, or the start of a climb."""
  slots, num_bits = base.slots(config.options.per_round), config.num_bits
  key = jax.random.fold_in(state.key, state.here)
  bits = jax.random.permutation(key, np.arange(num_bits, dtype=np.int32))
  places = state.place + slots
  bit = bits.at[places].get(mode='fill', fill_value=0)
  neighbours = jnp.where(
    places < num_bits, space_lib.toggle(state.here, bit), base.NO_STATE
  )
  start = jnp.where(slots == 0, state.here, base.NO_STATE)
  states = jnp.where(state.place == _START, start, neighbours)
  if (listed := _listed(config)).size:
    visited = jnp.asarray(listed).at[state.position + slots]
    states = jnp.where(
      state.position < listed.size,
      visited.get(mode='fill', fill_value=base.NO_STATE),
      states,
    )
  return state, base.full_proposal(config, states, finished(config, state))


def observe(
  config: Config, state: LocalState, proposal: Proposal, values: jax.Array
) -> LocalState:
  """Remembers the best neighbour; steps when all have been evaluated."""
  counts = base.count(config, state.counts, proposal.states)
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
  stepped = _step(config, seen)
  seen = _select(seen.place >= config.num_bits, stepped, seen)
  higher = values[first] > state.value  # -inf at a start
  visited = state._replace(
    here=jnp.where(higher, proposal.states[first], state.here),
    value=jnp.where(higher, values[first], state.value),
    place=jnp.int32(0),
    position=state.position + count,
  )
  visits = (state.position < _listed(config).size) | (state.place == _START)
  return _select(used.any(), _select(visits, visited, seen), state)


def finished(config: Config, state: LocalState) -> jax.Array:
  """Whether all networks are seen."""
  return state.counts.networks >= len(config.table)


def _listed(config: Config) -> np.ndarray:
  """Returns the states to visit before the first climb. int32 [N]."""
  table, options = config.table, config.options
  if not isinstance(options, Screened):
    return np.zeros(0, np.int32)
  if any(not 0 <= network < len(table) for network in options.order):
    raise ValueError(
      f'order must hold networks from 0 to {len(table) - 1}, got'
      f' {options.order}'
    )
  baseline = int(table.network_of[0])
  order = [network for network in options.order if network != baseline]
  return table.shortest_states[order[: options.first]].astype(np.int32)


def _step(config: Config, state: LocalState) -> LocalState:
  """Climbs to the best neighbour, or restarts at a network not yet seen."""
  climbs = state.best_value > state.value
  unseen = ~state.counts.seen_networks[state.restarts]
  network = state.restarts[unseen.argmax()]
  restart = jnp.asarray(config.table.shortest_states)[network]
  return state._replace(
    here=jnp.where(climbs, state.best, restart),
    value=jnp.where(climbs, state.best_value, -jnp.inf),
    place=jnp.where(climbs, 0, _START),
    best_value=jnp.float32(-jnp.inf),
  )


def _select(flag: jax.Array, yes: LocalState, no: LocalState) -> LocalState:
  # Both share their keys, which jnp.where does not take.
  names = ('here', 'value', 'place', 'best', 'best_value', 'position')
  selected: dict[str, Any] = {
    name: jnp.where(flag, getattr(yes, name), getattr(no, name))
    for name in names
  }
  return no._replace(**selected)


LOCAL = base.Method(Local, init, propose, observe, finished)
SCREENED = base.Method(Screened, init, propose, observe, finished)
