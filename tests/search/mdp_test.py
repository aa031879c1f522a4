import jax
import jax.numpy as jnp
import numpy as np

import aen
from aen.search import agent as agent_lib


def test_states_and_bits_are_the_same_thing():
  states = jnp.arange(4096, dtype=jnp.int32)
  bits = agent_lib.to_bits(states, 12)
  assert (bits.shape, bits.dtype) == ((4096, 12), jnp.float32)
  np.testing.assert_array_equal(
    bits, [[int(b) for b in f'{s:012b}'[::-1]] for s in range(4096)]
  )
  assert agent_lib.to_bits(jnp.int32(5), 3).tolist() == [1, 0, 1]


def test_bits_mean_what_they_mean_in_a_lattice():
  names = ('rotation', 'horizontal_flip', 'vertical_flip')
  lattice = aen.lattice(names, [(4, 4), (4, 4)])
  for state in range(8):
    bits = agent_lib.to_bits(jnp.int32(state), 3)
    chosen = tuple(n for n, b in zip(names, bits, strict=True) if b)
    assert lattice.names(state) == chosen


def test_an_action_toggles_one_bit_and_undoes_itself():
  states = jnp.arange(16, dtype=jnp.int32)
  for action in range(4):
    there = agent_lib.toggle(states, jnp.int32(action))
    assert set((states ^ there).tolist()) == {1 << action}
    back = agent_lib.toggle(there, jnp.int32(action))
    np.testing.assert_array_equal(back, states)


def test_neighbours_are_one_action_away():
  states = jnp.arange(16, dtype=jnp.int32).reshape(4, 4)
  around = agent_lib.neighbours(states, 4)
  assert around.shape == (4, 4, 4)
  for action in range(4):
    there = agent_lib.toggle(states, jnp.int32(action))
    np.testing.assert_array_equal(around[..., action], there)
  assert agent_lib.neighbours(jnp.int32(5), 3).tolist() == [4, 7, 1]


def test_episodes_begin_empty_and_end_after_n_steps():
  actions = jnp.array([0, 1, 2, 0, 1, 1, 2], jnp.int32)

  def step(walk, action):
    after = agent_lib.step(walk, action, episode_length=3)
    return after, (walk, agent_lib.toggle(walk.state, action))

  last, (walks, reached) = jax.lax.scan(step, agent_lib.reset(), actions)
  assert walks.state.tolist() == [0, 1, 3, 0, 1, 3, 0]
  assert walks.time.tolist() == [0, 1, 2, 0, 1, 2, 0]
  assert reached.tolist() == [1, 3, 7, 1, 3, 1, 4]
  assert (int(last.state), int(last.time)) == (4, 1)
