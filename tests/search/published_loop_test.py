"""The paper's loop, step by step, against its re-telling in `plain_dqn`.

Both sides compute in float64: Adam turns rounding errors of float32 into other
decisions within a hundred updates.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl

from aen.search import agent as agent_lib
from aen.search import strategies
from aen.search.strategies import dqn
from tests import precision
from tests.search import plain_dqn

PROBE = np.array([0, 2741])
RING = {'replay_capacity': 200}  # comes round within the test


def landscape():
  """Accuracies of 300 networks, which 4096 states share."""
  rng = np.random.default_rng(0)
  network_of = np.concatenate(
    [np.arange(300), rng.integers(0, 300, 4096 - 300)]
  )
  return network_of.astype(np.int32), rng.uniform(0.3, 0.8, 300)


@functools.partial(jax.jit, static_argnums=2)
def draws(key, number, capacity):
  """The randomness of one step: ε's chance, any action, a lot per slot."""
  act, learn = dqn.round_keys(key, number, 1)
  key_explore, key_action = jax.random.split(act[0])
  return (
    jax.random.uniform(key_explore),
    jax.random.randint(key_action, (), 0, 12, jnp.int32),
    jax.random.uniform(learn[0], (capacity,)),
  )


def make_step(strategy, config, accuracy, network_of):
  """Returns a step of the search that shows what happens in it."""

  @jax.jit
  def step(state):
    state, proposal = strategy.propose(state)
    values = jnp.asarray(accuracy)[jnp.asarray(network_of)[proposal.states]]
    after = strategy.observe(state, proposal, values)
    return after, {
      'state': proposal.states[0],
      'epsilon': agent_lib.epsilon(config, state.counts.states),
      'walker': after.walks.state[0],
      'models': after.counts.states,
      'values': agent_lib.q_values(config, after.agent.params, PROBE),
      'target': agent_lib.q_values(config, after.agent.target_params, PROBE),
    }

  return step


@pytest.mark.slow
@pytest.mark.parametrize(
  ('options', 'steps', 'updates'),
  [
    pytest.param({}, 527, 16, id='published'),
    pytest.param(
      {'batch_size': 32, 'hidden_sizes': (50,) * 3, **RING},
      300,
      269,
      id='small',
    ),
  ],
)
def test_agrees_step_by_step(options, steps, updates):
  # BLAS threads that spin are slow beside other processes.
  with precision.enable_x64(True), threadpoolctl.threadpool_limits(1):
    check_agreement(agent_lib.DQNConfig(**options), steps, updates)


def check_agreement(config, steps, updates):
  network_of, accuracy = landscape()
  strategy = strategies.make(
    'dqn', 12, network_of=network_of, epochs=4, config=config
  )
  state = strategy.init(jax.random.key(0), accuracy[network_of[0]])
  state = state._replace(agent=as_float64(state.agent))
  plain = plain_dqn.Loop(
    plain_dqn.Agent(state.agent.params, state.agent.params, config),
    lambda bits: accuracy[network_of[plain_dqn.as_code(bits)]],
  )
  step, copies = make_step(strategy, config, accuracy, network_of), 0
  for _ in range(steps):
    before = plain.agent.target
    drawn = draws(state.key, state.round, config.replay_capacity)
    epsilon, (state, seen) = plain.epsilon(), step(state)
    there = plain.step(*jax.device_get(drawn))
    copies += plain.agent.target is not before
    assert int(seen['state']) == plain_dqn.as_code(there)
    assert seen['epsilon'] == np.float32(epsilon)
    assert int(seen['walker']) == plain_dqn.as_code(plain.state)
    assert int(seen['models']) == len(plain.known)
    check_values(plain.agent, seen)
  assert (plain.agent.updates, int(state.replay.added)) == (updates, steps)
  assert 0.2 * steps < copies < 0.8 * steps
  assert plain.epsilon() < 1
  check_replay(state.replay, plain.memory)


def as_float64(tree):
  return jax.tree.map(
    lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, tree
  )


def check_values(agent, seen):
  bits = plain_dqn.as_bits(PROBE, 12)
  for name, layers in (('values', agent.layers), ('target', agent.target)):
    np.testing.assert_allclose(
      seen[name], agent.q_values(layers, bits), rtol=1e-5, atol=1e-5
    )


def check_replay(replay, memory):
  for ours, theirs in zip(
    replay.transitions, zip(*memory, strict=True), strict=True
  ):
    np.testing.assert_allclose(ours[: len(memory)], theirs, rtol=1e-6)
    assert not np.asarray(ours[len(memory) :]).any()
