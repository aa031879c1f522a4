import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aen.search import agent as agent_lib
from aen.search.replay import Transition
from tests.search import plain_dqn

SMALL = agent_lib.DQNConfig(
  num_bits=3, hidden_sizes=(32, 32), batch_size=24, replay_capacity=100
)


def every_transition(reward):
  """All steps of the MDP in which entering state s earns reward[s]."""
  num_bits = len(reward).bit_length() - 1
  s, a = (x.ravel() for x in np.mgrid[: len(reward), :num_bits])
  return Transition(
    *(jnp.asarray(x, jnp.int32) for x in (s, a)),
    jnp.asarray(reward[s ^ (1 << a)], jnp.float32),
    jnp.asarray(s ^ (1 << a), jnp.int32),
  )


def value_iteration(reward, discount):
  num_bits = len(reward).bit_length() - 1
  there = np.arange(len(reward))[:, None] ^ (1 << np.arange(num_bits))
  q = np.zeros(there.shape)
  for _ in range(200):
    q = reward[there] + discount * q.max(axis=1)[there]
  return q


def test_published_defaults():
  config = agent_lib.DQNConfig()
  published = {
    'num_bits': 12,
    'hidden_sizes': (400, 400, 400),
    'input_scale': 0.1,
    'discount': 0.5,
    'learning_rate': 1e-3,
    'batch_size': 512,
    'replay_capacity': 10_000,
    'replay_start': 512,
    'target_period': 2,
    'max_steps': 6000,
    'episode_length': 100,
    'walkers': 1,
    'afterstates': False,
  }
  assert {key: getattr(config, key) for key in published} == published
  assert config.max_models == 1000
  params = agent_lib.init(config, jax.random.key(0)).params
  sizes = [layer['kernel'].shape for layer in params.values()]
  assert sizes == [(12, 400), (400, 400), (400, 400), (400, 12)]


def test_the_papers_epsilon_table():
  models = jnp.array(
    [1, 199, 200, 299, 300, 799, 800, 849, 850, 900, 949, 950, 999, 1000, 5000]
  )
  expected = [1, 1, 0.9, 0.9, 0.8, 0.4, 0.3, 0.3, 0.2, 0.1, 0.1] + [0.05] * 4
  found = jax.vmap(lambda m: agent_lib.epsilon(agent_lib.DQNConfig(), m))(
    models
  )
  np.testing.assert_allclose(found, expected)


def test_the_q_network_begins_uniform_within_its_fan_in():
  params = agent_lib.init(agent_lib.DQNConfig(), jax.random.key(0)).params
  for layer in params.values():
    bound = 1 / np.sqrt(layer['kernel'].shape[0])
    for part in layer.values():
      assert np.abs(part).max() <= bound
      assert np.abs(part).max() > 0.8 * bound
    np.testing.assert_allclose(
      layer['kernel'].std(), bound / np.sqrt(3), rtol=0.05
    )


@pytest.mark.parametrize('size', [0.01, 1.0, 1e6])
def test_loss_and_update_against_plain_numpy(size):
  config = dataclasses.replace(SMALL, discount=0.5)
  agent = agent_lib.init(config, jax.random.key(0))
  target = agent_lib.init(config, jax.random.key(1)).params
  agent = agent._replace(target_params=target)
  reward = size * np.random.default_rng(0).standard_normal(8)
  batch = every_transition(reward.astype(np.float32))
  plain = plain_dqn.Agent(agent.params, target, config)
  loss, update = (
    jax.jit(f, static_argnums=0) for f in (agent_lib.loss, agent_lib.update)
  )
  for _ in range(3):
    np.testing.assert_allclose(
      loss(config, agent.params, agent.target_params, batch),
      plain.loss(*(np.asarray(x) for x in batch)),
      rtol=1e-4,
    )
    agent = update(config, agent, batch)
    plain.update(*(np.asarray(x) for x in batch))
  for layer, (kernel, bias) in zip(
    agent.params.values(), plain.layers, strict=True
  ):
    np.testing.assert_allclose(layer['kernel'], kernel, atol=1e-4)
    np.testing.assert_allclose(layer['bias'], bias, atol=1e-4)
  jax.tree.map(np.testing.assert_array_equal, agent.target_params, target)


@pytest.mark.parametrize('afterstates', [False, True])
def test_it_learns_the_values_that_value_iteration_finds(afterstates):
  reward = np.array([0.0, 0.5, -1, 1.5, 0.25, -0.5, 2, 1], np.float32)
  config = dataclasses.replace(SMALL, input_scale=1.0, afterstates=afterstates)
  batch = every_transition(reward)

  def learn(agent, step):
    agent = agent_lib.update(config, agent, batch)
    return agent_lib.copy_target(config, agent, step), None

  agent = agent_lib.init(config, jax.random.key(0))
  agent, _ = jax.jit(lambda a: jax.lax.scan(learn, a, jnp.arange(1500)))(agent)
  found = agent_lib.q_values(config, agent.params, jnp.arange(8))
  exact = value_iteration(reward, config.discount)
  np.testing.assert_allclose(found, exact, atol=0.02)
  chosen = exact[np.arange(8), np.asarray(found).argmax(axis=1)]
  np.testing.assert_allclose(chosen, exact.max(axis=1), atol=0.04)


def test_with_afterstates_ways_into_a_state_are_worth_the_same():
  config = dataclasses.replace(SMALL, afterstates=True)
  params = agent_lib.init(config, jax.random.key(0)).params
  values = np.asarray(agent_lib.q_values(config, params, jnp.arange(8)))
  there = np.asarray(agent_lib.neighbours(jnp.arange(8), 3))
  assert values.shape == (8, 3)
  for state in range(8):
    worth = values[there == state]
    np.testing.assert_allclose(worth, worth[0], rtol=1e-6)
  assert len(np.unique(values.round(6))) == 8


def test_the_target_is_copied_while_models_are_even():
  old = agent_lib.init(SMALL, jax.random.key(0))
  new = old._replace(params=agent_lib.init(SMALL, jax.random.key(1)).params)
  for models, source in ((3, old), (4, new), (5, old), (6, new)):
    copied = agent_lib.copy_target(SMALL, new, jnp.int32(models)).target_params
    jax.tree.map(np.testing.assert_array_equal, copied, source.params)


def test_actions_are_greedy_or_uniform():
  agent = agent_lib.init(SMALL, jax.random.key(0))
  keys = jax.random.split(jax.random.key(1), 3000)
  state = jnp.int32(5)

  def frequency(epsilon):
    actions = jax.vmap(
      lambda key: agent_lib.select_action(
        SMALL, agent.params, key, state, epsilon
      )
    )(keys)
    return np.bincount(actions, minlength=3) / len(keys)

  best = agent_lib.q_values(SMALL, agent.params, state).argmax()
  assert frequency(0.0)[best] == 1.0
  np.testing.assert_allclose(frequency(1.0), 1 / 3, atol=0.03)
  np.testing.assert_allclose(frequency(0.6)[best], 0.6, atol=0.03)


def test_the_network_sees_bits_divided_by_ten():
  agent = agent_lib.init(SMALL, jax.random.key(0))
  states = jnp.arange(8)
  plain = plain_dqn.Agent(agent.params, agent.params, SMALL)
  np.testing.assert_allclose(
    agent_lib.q_values(SMALL, agent.params, states),
    plain.q_values(plain.layers, np.asarray(agent_lib.to_bits(states, 3))),
    atol=1e-6,
  )


@pytest.mark.parametrize(
  ('changes', 'says'),
  [
    ({'models': (1, 2)}, 'one number of models per ε, got 11 and 2'),
    ({'epsilons': (2.0,), 'models': (5,)}, 'epsilons must be from 0 to 1'),
    ({'batch_size': 20_000}, 'got 20000, 20000, 10000'),
    ({'min_replay': 10}, 'batch_size ≤ min_replay'),
    ({'discount': 1.0}, 'discount must be in \\[0, 1\\), got 1.0'),
    ({'walkers': 0}, 'walkers must be positive, got 0'),
    ({'walkers': 20_000}, '20000 walkers do not fit'),
  ],
)
def test_settings_that_cannot_work_are_refused(changes, says):
  with pytest.raises(ValueError, match=says):
    agent_lib.DQNConfig(**changes)
