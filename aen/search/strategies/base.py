"""The base of all strategies: the interface propose → observe, and counts.

To add a strategy, subclass `Strategy` in a module like `evolution` and list it
in `strategies.STRATEGIES`.

Legend: K bits, 2^K states, R networks, P proposals of a round.
"""

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen import io as io_lib
from aen.search import space as space_lib

NO_STATE = -1  # an unused slot of a proposal


class Proposal(NamedTuple):
  """States to evaluate in one round.

  All states of a round are trained for the same number of epochs. An unused
  slot is `NO_STATE` with 0 epochs. A finished strategy proposes only unused
  slots, and observing those changes nothing.
  """

  states: jax.Array  # int32 [P]
  epochs: jax.Array  # int32 [P], how long to train


class Counts(NamedTuple):
  """The cost of a search so far, the field `counts` of every memory.

  The empty state and its network are seen from the beginning.
  """

  steps: jax.Array  # int32 [], states proposed, with repeats
  seen_states: jax.Array  # bool [2^K]
  seen_networks: jax.Array  # bool [R]

  @property
  def states(self) -> jax.Array:
    """The number of distinct states seen. int32 []."""
    return self.seen_states.sum(axis=-1, dtype=jnp.int32)

  @property
  def networks(self) -> jax.Array:
    """The number of distinct networks seen. int32 []."""
    return self.seen_networks.sum(axis=-1, dtype=jnp.int32)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Strategy(abc.ABC):
  """A search strategy; the fields of a subclass are its options.

  The methods are pure functions on arrays of fixed shapes, so a whole search
  can be jitted, scanned and vmapped over keys. What they pass on is the
  strategy's memory: a NamedTuple of arrays with a field `counts`. Randomness
  comes from a constant key in it, folded with a counter such as `counts.steps`,
  which has the same value in `propose` and `observe` of a round: if both draw,
  they split the folded key.

  Attributes:
    num_bits: The number of bits of a state, K.
    table: Which states are which network.
    epochs: How long a network is trained.
    epsilon: memory -> the probability of a random action, if any.
    q_values: (memory, states [N]) -> the estimated value of toggling each bit
      in these states, if there is an estimate. float32 [N, K]
  """

  epsilon: ClassVar[Any] = None
  q_values: ClassVar[Any] = None
  # By identity, even if a subclass also inherits from a dataclass.
  __eq__ = object.__eq__
  __hash__ = object.__hash__

  num_bits: int
  table: space_lib.Table
  epochs: int

  @abc.abstractmethod
  def init(self, key: jax.Array, baseline: jax.Array) -> Any:
    """Returns the initial memory, which may hold the key.

    `baseline` is the value of the network without symmetry, which is evaluated
    before the search.
    """

  @abc.abstractmethod
  def propose(self, memory: Any) -> tuple[Any, Proposal]:
    """Returns the new memory and the states to evaluate next."""

  @abc.abstractmethod
  def observe(self, memory: Any, proposal: Proposal, values: jax.Array) -> Any:
    """Returns the new memory after a proposal was evaluated.

    `values` are the best validation scores of the proposed states within the
    proposed epochs, from 0 to 1 (in regression R², at least 0); those of unused
    slots are ignored. float32 [P]
    """

  def finished(self, memory: Any) -> jax.Array:
    """Whether nothing is left to propose; by default, all networks are seen."""
    return memory.counts.networks >= len(self.table)

  @property
  def max_rounds(self) -> int:
    """A bound on the rounds of a search, for loops of fixed length.

    By default the option `max_steps`, if the strategy has one, or 3000.
    """
    return getattr(self, 'max_steps', 3000)

  def no_counts(self) -> Counts:
    """Returns the initial counts."""
    network_of = self.table.network_of
    networks = jnp.zeros(network_of.max() + 1, bool)
    return Counts(
      steps=jnp.int32(0),
      seen_states=jnp.zeros(network_of.size, bool).at[0].set(True),
      seen_networks=networks.at[network_of[0]].set(True),
    )

  def count(self, counts: Counts, states: jax.Array) -> Counts:
    """Adds a round's states. int32 [P]."""
    used = states >= 0
    networks = jnp.asarray(self.table.network_of)[states]

    def mark(seen: jax.Array, items: jax.Array) -> jax.Array:
      slots = jnp.where(used, items, seen.size)  # beyond the end: dropped
      return seen.at[slots].set(True, mode='drop')

    return Counts(
      steps=counts.steps + used.sum(dtype=jnp.int32),
      seen_states=mark(counts.seen_states, states),
      seen_networks=mark(counts.seen_networks, networks),
    )

  def full_proposal(self, states: jax.Array, finished: jax.Array) -> Proposal:
    """Returns a proposal of states [P] for all epochs, empty if finished."""
    states = jnp.where(finished, NO_STATE, states)
    return Proposal(states, jnp.where(states >= 0, jnp.int32(self.epochs), 0))


@dataclasses.dataclass(frozen=True, eq=False)
class PerRound(Strategy):
  """A strategy that can propose several states before it observes any.

  Attributes:
    per_round: The number of proposals in a round, P. Searches set it to 4, or
      to all networks if the strategy does not learn from values.
  """

  per_round: int = 1

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      # A space without candidates has no bits.
      if field.type is int and field.name != 'num_bits':
        io_lib.positive(getattr(self, field.name), field.name)

  @property
  @override
  def max_rounds(self) -> int:
    return -(-super().max_rounds // self.per_round)

  @property
  def slots(self) -> np.ndarray:
    """The slots of a round, 0…P-1. int32 [P]."""
    return np.arange(self.per_round, dtype=np.int32)
