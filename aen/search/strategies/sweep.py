"""Strategies that go through a list of states: exhaustive, random, halving.

Successive halving goes through its list several times: short trainings of many
networks, then longer trainings of the best. Each pass is a rung; the other
strategies have one.

Legend: N states in the list, R networks, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen.search.strategies import base


class SweepMemory(NamedTuple):
  """The list, sorted by value after each rung, and the values of this rung."""

  order: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N], -inf where not yet trained on this rung
  rung: jax.Array  # int32 []
  place: jax.Array  # int32 [], in the list
  counts: base.Counts


@dataclasses.dataclass(frozen=True, eq=False)
class Exhaustive(base.PerRound):
  """Every network once, each by its shortest state, in order."""

  def listed(self, key: jax.Array) -> jax.Array:
    """Returns the list of states. int32 [N]."""
    del key
    return jnp.asarray(self.table.shortest_states)

  def rungs(self, count: int) -> list[tuple[int, int]]:
    """Returns (states, epochs) of each rung, given N."""
    return [(count, self.epochs)]

  @property
  @override
  def max_rounds(self) -> int:
    count = jax.eval_shape(self.listed, jax.random.key(0)).size
    return sum(-(-size // self.per_round) for size, _ in self.rungs(count))

  @override
  def init(self, key: jax.Array, baseline: jax.Array) -> SweepMemory:
    del baseline
    order = self.listed(key)
    return SweepMemory(
      order=order,
      values=jnp.full(order.size, -jnp.inf),
      rung=jnp.int32(0),
      place=jnp.int32(0),
      counts=self.no_counts(),
    )

  @override
  def propose(self, memory: SweepMemory) -> tuple[SweepMemory, base.Proposal]:
    places = memory.place + self.slots
    size, epochs = self._now(memory)
    used = places < size
    states = jnp.where(used, memory.order[places], base.NO_STATE)
    return memory, base.Proposal(states, jnp.where(used, epochs, 0))

  @override
  def observe(
    self, memory: SweepMemory, proposal: base.Proposal, values: jax.Array
  ) -> SweepMemory:
    used, order = proposal.states >= 0, memory.order
    places = jnp.where(used, memory.place + self.slots, order.size)  # dropped
    found = memory.values.at[places].set(values, mode='drop')
    place = memory.place + used.sum(dtype=jnp.int32)
    over = used.any() & (place >= self._now(memory)[0])
    if len(self.rungs(order.size)) > 1:
      order = jnp.where(over, order[jnp.argsort(-found)], order)  # stable
    return SweepMemory(
      order=order,
      values=jnp.where(over, -jnp.inf, found),
      rung=memory.rung + over,
      place=jnp.where(over, 0, place),
      counts=self.count(memory.counts, proposal.states),
    )

  @override
  def finished(self, memory: SweepMemory) -> jax.Array:
    return memory.rung >= len(self.rungs(memory.order.size))

  def _now(self, memory: SweepMemory) -> jax.Array:
    """Returns size and epochs of the current rung, 0 after the last. int32."""
    rungs = [*self.rungs(memory.order.size), (0, 0)]
    return jnp.asarray(rungs, jnp.int32)[memory.rung]


@dataclasses.dataclass(frozen=True, eq=False)
class Random(Exhaustive):
  """Every network once, in random order.

  Attributes:
    distinct: Whether to draw from the R networks. False draws from the 2^K
      states without replacement, which favours networks of many states.
  """

  distinct: bool = True

  @override
  def listed(self, key: jax.Array) -> jax.Array:
    every = np.arange(self.table.network_of.size, dtype=np.int32)
    states = self.table.shortest_states if self.distinct else every
    return jax.random.permutation(key, states)


@dataclasses.dataclass(frozen=True, eq=False)
class Halving(Exhaustive):
  """Successive halving over epochs.

  Attributes:
    factor: Each rung trains 1/factor of the networks factor times as long.
    candidates: Networks on the first rung, drawn at random; all by default.
  """

  factor: int = 2
  candidates: int | None = None

  def __post_init__(self) -> None:
    if self.factor < 2:
      raise ValueError(f'factor must be at least 2, got {self.factor}')
    if self.candidates is not None and self.candidates < 1:
      raise ValueError(f'candidates must be at least 1, got {self.candidates}')
    super().__post_init__()

  @override
  def listed(self, key: jax.Array) -> jax.Array:
    states = jax.random.permutation(key, self.table.shortest_states)
    return states[: self.candidates]

  @override
  def rungs(self, count: int) -> list[tuple[int, int]]:
    return rungs(count, self.epochs, self.factor)


def rungs(candidates: int, epochs: int, factor: int) -> list[tuple[int, int]]:
  """Returns (networks, epochs) of each rung of successive halving.

  >>> rungs(216, 4, 2)
  [(216, 1), (108, 2), (54, 4)]
  """
  lengths = [epochs]
  while lengths[-1] >= factor:
    lengths.append(lengths[-1] // factor)
  return [
    (-(-candidates // factor**i), length)
    for i, length in enumerate(reversed(lengths))
  ]
