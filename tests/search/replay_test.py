import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aen.search import replay as replay_lib


def transitions(numbers):
  numbers = jnp.asarray(numbers, jnp.int32)
  return replay_lib.Transition(
    numbers, numbers + 1, numbers.astype(jnp.float32) / 2, numbers + 3
  )


def filled(count, capacity=8):
  replay = replay_lib.init(capacity)
  for i in range(count):
    replay = replay_lib.add(replay, transitions([i]), jnp.array([True]))
  return replay


@pytest.mark.parametrize('per_round', [1, 3, 5])
def test_a_ring_keeps_the_last_ones(per_round):
  rng = np.random.default_rng(per_round)
  replay, expected = replay_lib.init(5), collections.deque(maxlen=5)
  for i in range(7):
    numbers = np.arange(per_round) + 10 * i
    valid = rng.random(per_round) < 0.7
    replay = replay_lib.add(replay, transitions(numbers), jnp.asarray(valid))
    expected.extend(numbers[valid].tolist())
    held = int(replay_lib.size(replay))
    assert held == len(expected)
    assert sorted(replay.transitions.s_tm1[:held].tolist()) == sorted(expected)
    for ours, theirs in zip(
      jax.tree.leaves(replay.transitions),
      jax.tree.leaves(transitions(replay.transitions.s_tm1)),
      strict=True,
    ):
      np.testing.assert_array_equal(ours[:held], theirs[:held])


def test_the_oldest_is_overwritten_first():
  assert filled(11).transitions.s_tm1.tolist() == [8, 9, 10, 3, 4, 5, 6, 7]
  assert int(filled(11).added) == 11


@pytest.mark.parametrize('count', [4, 6, 8, 20])
def test_samples_differ_and_are_all_equally_likely(count):
  replay, held = filled(count), min(count, 8)
  draw = jax.jit(jax.vmap(lambda k: replay_lib.sample_slots(replay, k, 4)))
  slots = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
  assert slots.max() < held
  assert all(len(set(row)) == 4 for row in slots.tolist())
  frequency = np.bincount(slots.ravel(), minlength=held) / 4000
  np.testing.assert_allclose(frequency, 4 / held, atol=0.05)
  batch = replay_lib.sample(replay, jax.random.key(1), 4)
  np.testing.assert_array_equal(batch.a_tm1, batch.s_tm1 + 1)
  np.testing.assert_array_equal(batch.s_t, batch.s_tm1 + 3)
