"""What all strategies have in common: propose → observe, and their counts.

A strategy is a bundle of pure functions on arrays of fixed shapes, so a whole
search can be jitted, scanned and vmapped over keys. It keeps no accuracies that
it does not need: whoever evaluates keeps the store.

Legend: K bits, 2^K states, R networks, P proposals of a round.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

NO_STATE = -1  # a slot of a proposal that asks for nothing


class Proposal(NamedTuple):
  """States to evaluate, in one round.

  An unused slot is `NO_STATE` with 0 epochs. A strategy that is finished
  proposes nothing but unused slots, and to observe those changes nothing.
  """

  states: jax.Array  # int32 [P]
  epochs: jax.Array  # int32 [P], how long to train


class Strategy(NamedTuple):
  """One way to search.

  Attributes:
    init: (key, baseline) -> state. The key is consumed; `baseline` is the
      accuracy of the network without symmetries, which is thus already known.
    propose: state -> (state, Proposal).
    observe: (state, Proposal, values) -> state. `values` are the validation
      accuracies of the states proposed, from 0 to 1, the best of the first
      `epochs` epochs, float32 [P]; those of unused slots are ignored.
    finished: state -> whether there is nothing left to propose. bool []
    epsilon: state -> the share of random actions, if it has such a thing.
    q_values: (state, states [N]) -> what the strategy thinks toggling each bit
      is worth in these states, if it has an opinion. float32 [N, K]
  """

  init: Callable[[jax.Array, Any], Any]
  propose: Callable[[Any], tuple[Any, Proposal]]
  observe: Callable[[Any, Proposal, Any], Any]
  finished: Callable[[Any], jax.Array]
  epsilon: Callable[[Any], jax.Array] | None = None
  q_values: Callable[[Any, Any], jax.Array] | None = None


class Counts(NamedTuple):
  """What a search has cost; every strategy's state has one as `counts`.

  The empty state and its network are seen from the beginning.
  """

  steps: jax.Array  # int32 [], states proposed, repeats among them
  states: jax.Array  # int32 [], different states seen
  networks: jax.Array  # int32 [], different networks seen
  seen_states: jax.Array  # bool [2^K]
  seen_networks: jax.Array  # bool [R]


def no_counts(network_of: np.ndarray) -> Counts:
  """Returns the counts of a search that has yet to begin."""
  return Counts(
    steps=jnp.int32(0),
    states=jnp.int32(1),
    networks=jnp.int32(1),
    seen_states=jnp.zeros(network_of.size, bool).at[0].set(True),
    seen_networks=jnp.zeros(network_of.max() + 1, bool)
    .at[network_of[0]]
    .set(True),
  )


def count(counts: Counts, network_of: np.ndarray, states: jax.Array) -> Counts:
  """Adds a round's states. int32 [P]."""
  used = states >= 0
  seen_states, new_states = _mark(counts.seen_states, states, used)
  networks = jnp.asarray(network_of)[states]
  seen_networks, new_networks = _mark(counts.seen_networks, networks, used)
  return Counts(
    steps=counts.steps + used.sum(dtype=jnp.int32),
    states=counts.states + new_states,
    networks=counts.networks + new_networks,
    seen_states=seen_states,
    seen_networks=seen_networks,
  )


def _mark(
  seen: jax.Array, items: jax.Array, used: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Marks items as seen and counts those that were not."""
  again = jnp.tril(items[:, None] == items[None, :], -1) & used[None, :]
  new = used & ~seen[items] & ~again.any(axis=1)
  slots = jnp.where(used, items, seen.size)
  return seen.at[slots].set(True, mode='drop'), new.sum(dtype=jnp.int32)


def full_proposal(states: jax.Array, epochs: int) -> Proposal:
  """Asks for states [P] to be trained fully; unused slots stay unused."""
  return Proposal(states, jnp.where(states >= 0, jnp.int32(epochs), 0))


def checked(network_of: np.ndarray, num_bits: int, epochs: int) -> np.ndarray:
  """Checks what every factory is given and returns the network_of as int32."""
  network_of = np.asarray(network_of)
  if network_of.shape != (2**num_bits,) or not np.issubdtype(
    network_of.dtype, np.integer
  ):
    raise ValueError(
      f'index must be the network of each of the {2**num_bits} states of'
      f' {num_bits} bits, as in aen.Lattice.network_of, got {network_of.dtype}'
      f' {network_of.shape}'
    )
  if epochs < 1:
    raise ValueError(f'epochs must be at least 1, got {epochs}')
  return network_of.astype(np.int32)


def positive(**numbers: int) -> None:
  """Raises a ValueError unless all numbers are at least 1."""
  for name, number in numbers.items():
    if number < 1:
      raise ValueError(f'{name} must be at least 1, got {number}')
