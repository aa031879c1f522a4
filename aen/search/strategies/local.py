"""Local search: climb to the best neighbour; restart at a local maximum.

Legend: K bits, R networks, P proposals of a round.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen.search import space as space_lib
from aen.search.strategies import base

# Queues of states to evaluate before the next step.
_STARTS, _RESTART, _NEIGHBOURS = range(3)


class LocalMemory(NamedTuple):
  """The current state and the progress in the queue of states after it."""

  key: jax.Array
  restarts: jax.Array  # int32 [R], networks in random order
  here: jax.Array  # int32 []
  value: jax.Array  # float32 [], -inf at the start of a climb
  queue: jax.Array  # int32 [], _STARTS, _RESTART or _NEIGHBOURS
  place: jax.Array  # int32 [], in the queue
  best: jax.Array  # int32 [], of the queue so far
  best_value: jax.Array  # float32 []
  counts: base.Counts


@dataclasses.dataclass(frozen=True, eq=False)
class Local(base.PerRound):
  """Best-improvement local search with restarts.

  The first climb starts at the best of the empty state and `starts`, later ones
  at the shortest state of a random unseen network. All K neighbours are
  evaluated before a step to the best of them, if it is better. The search ends
  when all networks are seen. More than K states per round are of no use.

  The strategy 'screened' is local search with the options that a screening of
  the data suggests, see `Screening.guide`.

  Attributes:
    starts: Networks to evaluate before the first climb.
    toggles: All bits, in the order in which neighbours are evaluated; random
      by default.
  """

  starts: tuple[int, ...] = ()
  toggles: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    super().__post_init__()
    if not set(self.starts) <= {*range(len(self.table))}:
      raise ValueError(
        f'starts must be networks from 0 to {len(self.table) - 1}, got'
        f' {self.starts}'
      )
    if self.toggles and sorted(self.toggles) != [*range(self.num_bits)]:
      raise ValueError(
        f'toggles must be each bit from 0 to {self.num_bits - 1} once, got'
        f' {self.toggles}'
      )

  @override
  def init(self, key: jax.Array, baseline: jax.Array) -> LocalMemory:
    key_restarts, key_neighbours = jax.random.split(key)
    networks = np.arange(len(self.table), dtype=np.int32)
    return LocalMemory(
      key=key_neighbours,
      restarts=jax.random.permutation(key_restarts, networks),
      here=jnp.int32(space_lib.EMPTY),
      value=jnp.asarray(baseline, jnp.float32),
      queue=jnp.int32(_STARTS if self.starts else _NEIGHBOURS),
      place=jnp.int32(0),
      best=jnp.int32(space_lib.EMPTY),
      best_value=jnp.float32(-jnp.inf),
      counts=self.no_counts(),
    )

  @override
  def propose(self, memory: LocalMemory) -> tuple[LocalMemory, base.Proposal]:
    states = self._queue(memory).at[memory.place + self.slots]
    states = states.get(mode='fill', fill_value=base.NO_STATE)
    return memory, self.full_proposal(states, self.finished(memory))

  def _queue(self, memory: LocalMemory) -> jax.Array:
    """Returns the current queue, padded with `NO_STATE`. int32."""
    key = jax.random.fold_in(memory.key, memory.here)
    bits: Any = np.array(self.toggles, np.int32)
    if not self.toggles:
      every = np.arange(self.num_bits, dtype=np.int32)
      bits = jax.random.permutation(key, every)
    neighbours = space_lib.toggle(memory.here[None], bits)
    starts = self.table.shortest_states[list(self.starts)].astype(np.int32)
    queues = jnp.asarray(starts), memory.here[None], neighbours
    filled = jnp.full((3, max(map(len, queues))), base.NO_STATE, jnp.int32)
    for kind, states in enumerate(queues):
      filled = filled.at[kind, : len(states)].set(states)
    return filled[memory.queue]

  @override
  def observe(
    self, memory: LocalMemory, proposal: base.Proposal, values: jax.Array
  ) -> LocalMemory:
    used = proposal.states >= 0
    values = jnp.where(used, values, -jnp.inf)
    first = values.argmax()
    better = values[first] > memory.best_value
    seen = memory._replace(
      place=memory.place + used.sum(dtype=jnp.int32),
      best=jnp.where(better, proposal.states[first], memory.best),
      best_value=jnp.where(better, values[first], memory.best_value),
      counts=self.count(memory.counts, proposal.states),
    )
    over = used.any() & (seen.place >= (self._queue(memory) >= 0).sum())
    stepped = self._step(seen)
    return jax.tree.map(lambda a, b: jnp.where(over, a, b), stepped, seen)

  def _step(self, memory: LocalMemory) -> LocalMemory:
    """Climbs to the best of the queue, or restarts at an unseen network."""
    climbs = memory.best_value > memory.value
    unseen = ~memory.counts.seen_networks[memory.restarts]
    network = memory.restarts[unseen.argmax()]
    restart = jnp.asarray(self.table.shortest_states)[network]
    restarts = ~climbs & (memory.queue == _NEIGHBOURS)
    here = jnp.where(restarts, restart, memory.here)
    value = jnp.where(restarts, -jnp.inf, memory.value)
    return memory._replace(
      here=jnp.where(climbs, memory.best, here),
      value=jnp.where(climbs, memory.best_value, value),
      queue=jnp.where(restarts, _RESTART, _NEIGHBOURS),
      place=jnp.int32(0),
      best_value=jnp.float32(-jnp.inf),
    )
