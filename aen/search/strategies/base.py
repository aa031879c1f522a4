"""What all strategies share: the interface propose → observe, and counts.

A strategy is a bundle of pure functions on arrays of fixed shapes, so a whole
search can be jitted, scanned and vmapped over keys. Values are kept by whoever
evaluates; a strategy keeps only what it needs.

To add one, write a module like `evolution` with a dataclass of options and the
functions of a `Method`, and list it in `strategies.STRATEGIES`.

Legend: K bits, 2^K states, R networks, P proposals of a round.
"""

from collections.abc import Callable
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.space import Table

NO_STATE = -1  # an unused slot of a proposal


class Proposal(NamedTuple):
  """States to evaluate, in one round.

  All states of a round are trained for the same number of epochs. An unused
  slot is `NO_STATE` with 0 epochs. A finished strategy proposes unused slots
  only, and observing those changes nothing.
  """

  states: jax.Array  # int32 [P]
  epochs: jax.Array  # int32 [P], how long to train


@dataclasses.dataclass(frozen=True)
class Options:
  """The options that strategies share.

  Attributes:
    per_round: States proposed at once, P. Live searches set it to a constant.
  """

  per_round: int = 1

  def __post_init__(self) -> None:
    check_at_least(1, per_round=self.per_round)


class Config(NamedTuple):
  """What a strategy searches, and how."""

  table: Table  # which states are which network
  epochs: int  # how long a network is trained
  options: Any  # the strategy's own

  @property
  def num_bits(self) -> int:
    """K."""
    return len(self.table.bits)


class Method(NamedTuple):
  """A kind of strategy: its options, and pure functions of a `Config`.

  What the functions pass on is the strategy's memory: a NamedTuple of arrays
  with a field `counts`. Randomness comes from a constant key in it, folded with
  a counter.

  Attributes:
    options: A frozen dataclass, such as a subclass of `Options`.
    init: (config, key, baseline) -> memory. The key is consumed; `baseline` is
      the value of the network without symmetry, which is thus already known.
    propose: (config, memory) -> (memory, Proposal).
    observe: (config, memory, Proposal, values) -> memory. `values` are the
      validation scores of the proposed states, from 0 to 1, the best of the
      first `epochs` epochs, float32 [P]; those of unused slots are ignored.
    finished: (config, memory) -> whether there is nothing left to propose.
    epsilon: (config, memory) -> the probability of a random action, if any.
    q_values: (config, memory, states [N]) -> the estimated value of toggling
      each bit in these states, if there is an estimate. float32 [N, K]
  """

  options: Callable[..., Any]
  init: Callable[..., Any]
  propose: Callable[..., tuple[Any, Proposal]]
  observe: Callable[..., Any]
  finished: Callable[..., jax.Array]
  epsilon: Callable[..., jax.Array] | None = None
  q_values: Callable[..., jax.Array] | None = None


class Strategy(NamedTuple):
  """The functions of a `Method` with their configuration bound."""

  init: Callable[[jax.Array, Any], Any]
  propose: Callable[[Any], tuple[Any, Proposal]]
  observe: Callable[[Any, Proposal, Any], Any]
  finished: Callable[[Any], jax.Array]
  epsilon: Callable[[Any], jax.Array] | None = None
  q_values: Callable[[Any, Any], jax.Array] | None = None


class Counts(NamedTuple):
  """The cost of a search so far; every strategy's memory has it as `counts`.

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


def no_counts(config: Config) -> Counts:
  """Returns the counts at the beginning of a search."""
  network_of = config.table.network_of
  return Counts(
    steps=jnp.int32(0),
    seen_states=jnp.zeros(network_of.size, bool).at[0].set(True),
    seen_networks=(
      jnp.zeros(network_of.max() + 1, bool).at[network_of[0]].set(True)
    ),
  )


def count(config: Config, counts: Counts, states: jax.Array) -> Counts:
  """Adds a round's states. int32 [P]."""
  used = states >= 0
  networks = jnp.asarray(config.table.network_of)[states]

  def mark(seen: jax.Array, items: jax.Array) -> jax.Array:
    slots = jnp.where(used, items, seen.size)  # beyond the end: not written
    return seen.at[slots].set(True, mode='drop')

  return Counts(
    steps=counts.steps + used.sum(dtype=jnp.int32),
    seen_states=mark(counts.seen_states, states),
    seen_networks=mark(counts.seen_networks, networks),
  )


def full_proposal(
  config: Config, states: jax.Array, finished: jax.Array | None = None
) -> Proposal:
  """Proposes to train states [P] for all epochs; nothing if finished."""
  if finished is not None:
    states = jnp.where(finished, NO_STATE, states)
  return Proposal(states, jnp.where(states >= 0, jnp.int32(config.epochs), 0))


def check_at_least(least: int, **options: int | None) -> None:
  """Raises a ValueError for an option below a bound; None is not checked."""
  for name, value in options.items():
    if value is not None and value < least:
      raise ValueError(f'{name} must be at least {least}, got {value}')


def slots(count: int) -> np.ndarray:
  """Returns 0…P-1, int32."""
  return np.arange(count, dtype=np.int32)
