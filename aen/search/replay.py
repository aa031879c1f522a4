"""Experience replay: a ring buffer of transitions.

Legend: C capacity, P transitions added at once, B batch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Transition(NamedTuple):
  """One step of a walker, or arrays of them."""

  s_tm1: jax.Array  # int32
  a_tm1: jax.Array  # int32
  r_t: jax.Array  # float32
  s_t: jax.Array  # int32


class Replay(NamedTuple):
  """The last C transitions."""

  transitions: Transition  # each [C]
  added: jax.Array  # int32 [], transitions added so far


def init(capacity: int) -> Replay:
  """Returns an empty buffer."""
  zeros = jnp.zeros(capacity, jnp.int32)
  rewards = jnp.zeros(capacity, jnp.float32)
  return Replay(Transition(zeros, zeros, rewards, zeros), jnp.int32(0))


def add(replay: Replay, new: Transition, valid: jax.Array) -> Replay:
  """Adds the valid transitions in order; in a full buffer, over the oldest.

  Each field is [P], with P at most C.
  """
  capacity = replay.transitions.a_tm1.size
  order = replay.added + jnp.cumsum(valid, dtype=jnp.int32) - 1
  slots = jnp.where(valid, order % capacity, capacity)  # C is dropped
  written = jax.tree.map(
    lambda kept, value: kept.at[slots].set(
      value.astype(kept.dtype), mode='drop'
    ),
    replay.transitions,
    new,
  )
  return Replay(written, replay.added + valid.sum(dtype=jnp.int32))


def size(replay: Replay) -> jax.Array:
  """Returns the number of transitions in the buffer. int32 []."""
  return jnp.minimum(replay.added, replay.transitions.a_tm1.size)


def sample(replay: Replay, key: jax.Array, batch_size: int) -> Transition:
  """Samples B different transitions, each field [B]; needs B of them."""
  slots = sample_slots(replay, key, batch_size)
  return jax.tree.map(lambda kept: kept[slots], replay.transitions)


def sample_slots(replay: Replay, key: jax.Array, batch_size: int) -> jax.Array:
  """Samples the slots of B different transitions, int32 [B].

  The buffer must hold B transitions.
  """
  capacity = replay.transitions.a_tm1.size
  lots = jax.random.uniform(key, (capacity,))  # top_k is fastest on float32
  held = jnp.arange(capacity, dtype=jnp.int32) < size(replay)
  return jax.lax.top_k(jnp.where(held, lots, -1.0), batch_size)[1]
