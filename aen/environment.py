"""The search as a Markov decision process: states are bits, actions toggle one.

A state is an int32 code whose bit k says whether the k-th symmetry is on, the
first bit least significant, as in `aen.Lattice.index`.

Legend: K bits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

EMPTY = 0  # the state without symmetries, where episodes begin


class Walk(NamedTuple):
  """Where a walker is within its episode."""

  state: jax.Array  # int32 []
  time: jax.Array  # int32 [], steps taken in this episode


def reset() -> Walk:
  """Returns the beginning of an episode."""
  return Walk(jnp.int32(EMPTY), jnp.int32(0))


def toggle(state: jax.Array, action: jax.Array) -> jax.Array:
  """Returns the state with bit `action` flipped."""
  return state ^ jnp.left_shift(jnp.int32(1), action.astype(jnp.int32))


def neighbours(state: jax.Array, num_bits: int) -> jax.Array:
  """Returns where each action leads from states [...]. int32 [..., K]."""
  actions = jnp.arange(num_bits, dtype=jnp.int32)
  return toggle(state[..., None], _last_axis(actions, jnp.ndim(state)))


def step(walk: Walk, action: jax.Array, episode_length: int) -> Walk:
  """Toggles one bit; an episode's last step leads back to its beginning.

  Args:
    walk: Where the walker is.
    action: The bit to toggle. int32 []
    episode_length: Steps of an episode. The state that the last step reaches is
      `toggle(walk.state, action)`, as everywhere; only the walker moves on.

  Returns:
    Where the walker is then.
  """
  moved = Walk(toggle(walk.state, action), walk.time + 1)
  over = moved.time >= episode_length
  return jax.tree.map(lambda a, b: jnp.where(over, a, b), reset(), moved)


def to_bits(state: jax.Array, num_bits: int) -> jax.Array:
  """Returns the bits of codes [...] as float32 [..., K]."""
  places = jnp.arange(num_bits, dtype=jnp.int32)
  places = _last_axis(places, jnp.ndim(state))
  return (jnp.right_shift(state[..., None], places) & 1).astype(jnp.float32)


def _last_axis(x: jax.Array, ndim: int) -> jax.Array:
  """Gives x [K] so many leading axes of size 1."""
  return x.reshape((1,) * ndim + x.shape)
