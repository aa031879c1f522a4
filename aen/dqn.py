"""The paper's agent: a deep Q-network with a target network, in Optax.

Pure functions of a configuration and an `AgentState`. The loop that calls them
is `aen.strategies.dqn`.

Legend: K bits (and actions), B batch.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from aen import environment
from aen import networks
from aen import rewards
from aen.replay import Transition


@dataclasses.dataclass(frozen=True)
class DQNConfig:
  """Hyper-parameters of the agent and its loop, by default as published.

  Attributes:
    num_bits: Bits of a state; also the number of actions.
    hidden_sizes: Widths of the Q-network's hidden layers.
    input_scale: What the bits are multiplied by before they enter it.
    discount: γ. No step is terminal: the last one of an episode bootstraps too.
    learning_rate: Adam's.
    batch_size: Transitions in an update. There is one update per step.
    replay_capacity: How many transitions are kept.
    min_replay: Updates begin when so many are kept; None is `batch_size`.
    target_period: The target network is copied at every step at which the
      number of models is a multiple of this.
    epsilons: The values of ε, in order.
    models: How many models are found at each ε. A model is a state not seen
      before; the empty state is the first. The search ends after their sum.
    max_steps: The search ends after so many steps at the latest.
    episode_length: Steps from the empty state until a walker returns there.
    reward_scale: See `aen.rewards.reward`.
    afterstates: Values an action by the state that it leads to, which is all
      that its reward and its future depend on: the network maps the bits of
      that state to one number, and K actions into a state teach it the same
      thing. Not in the paper, where each action has an output of its own.
    walkers: Walkers that share replay, memory and Q-network. With one, the loop
      is the paper's. With P, a round is P steps and P updates.
  """

  num_bits: int = 12
  hidden_sizes: tuple[int, ...] = (400, 400, 400)
  input_scale: float = 0.1
  discount: float = 0.5
  learning_rate: float = 1e-3
  batch_size: int = 512
  replay_capacity: int = 10_000
  min_replay: int | None = None
  target_period: int = 2
  epsilons: tuple[float, ...] = (
    *(1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
    *(0.4, 0.3, 0.2, 0.1, 0.05),
  )
  models: tuple[int, ...] = (200, *(100,) * 6, *(50,) * 4)
  max_steps: int = 6000
  episode_length: int = 100
  reward_scale: float = rewards.DEFAULT_SCALE
  afterstates: bool = False
  walkers: int = 1

  def __post_init__(self) -> None:
    _check(self)

  @property
  def replay_start(self) -> int:
    """The number of transitions from which on there are updates."""
    return self.batch_size if self.min_replay is None else self.min_replay

  @property
  def max_models(self) -> int:
    """The number of models after which the search ends."""
    return sum(self.models)


class AgentState(NamedTuple):
  """What the agent has learnt."""

  params: Any
  target_params: Any
  opt_state: optax.OptState


def init(config: DQNConfig, key: jax.Array) -> AgentState:
  """Returns an agent that has learnt nothing; the key is consumed."""
  network = _network(config)
  params = network.init(key, jnp.zeros(config.num_bits))['params']
  return AgentState(params, params, _optimizer(config).init(params))


def epsilon(config: DQNConfig, models: jax.Array) -> jax.Array:
  """Returns ε after so many models. float32 []."""
  ends = np.cumsum(config.models)[:-1].astype(np.int32)
  place = jnp.searchsorted(ends, models, side='right')
  return jnp.asarray(config.epsilons, jnp.float32)[place]


def select_action(
  config: DQNConfig,
  params: Any,
  key: jax.Array,
  state: jax.Array,
  epsilon: jax.Array,
) -> jax.Array:
  """Picks a bit to toggle: at random with probability ε, else the best.

  Args:
    config: The agent's configuration.
    params: The Q-network's.
    key: Is consumed.
    state: The code of one state. int32 []
    epsilon: ε. float32 []

  Returns:
    The action. int32 []
  """
  key_explore, key_action = jax.random.split(key)
  explore = jax.random.uniform(key_explore) < epsilon
  anything = jax.random.randint(key_action, (), 0, config.num_bits, jnp.int32)
  best = q_values(config, params, state).argmax().astype(jnp.int32)
  return jnp.where(explore, anything, best)


def update(
  config: DQNConfig, agent: AgentState, batch: Transition
) -> AgentState:
  """Takes one Adam step on a batch, each field [B]; the target stays."""
  gradient = jax.grad(loss, argnums=1)(
    config, agent.params, agent.target_params, batch
  )
  updates, opt_state = _optimizer(config).update(gradient, agent.opt_state)
  params = optax.apply_updates(agent.params, updates)
  return agent._replace(params=params, opt_state=opt_state)


def copy_target(
  config: DQNConfig, agent: AgentState, models: jax.Array
) -> AgentState:
  """Copies the Q-network to the target while `models` is a multiple."""
  due = models % config.target_period == 0
  target = jax.tree.map(
    lambda new, old: jnp.where(due, new, old), agent.params, agent.target_params
  )
  return agent._replace(target_params=target)


def loss(
  config: DQNConfig, params: Any, target_params: Any, batch: Transition
) -> jax.Array:
  """Mean Huber loss of Q(s, a) against r + γ·max Q_target(s′, ·)."""
  q_t = q_values(config, target_params, batch.s_t)  # [B, K]
  target = batch.r_t + config.discount * q_t.max(axis=-1)
  q_tm1 = q_values(config, params, batch.s_tm1)
  chosen = jnp.take_along_axis(q_tm1, batch.a_tm1[:, None], axis=-1)[:, 0]
  return optax.huber_loss(chosen, jax.lax.stop_gradient(target)).mean()


def q_values(config: DQNConfig, params: Any, states: jax.Array) -> jax.Array:
  """Returns the value of every action in states [...]. float32 [..., K]."""
  if config.afterstates:
    states = environment.neighbours(states, config.num_bits)
  bits = environment.to_bits(states, config.num_bits)
  values: Any = _network(config).apply({'params': params}, bits)
  return values[..., 0] if config.afterstates else values


def _network(config: DQNConfig) -> networks.QNetwork:
  return networks.QNetwork(
    num_actions=1 if config.afterstates else config.num_bits,
    hidden_sizes=config.hidden_sizes,
    input_scale=config.input_scale,
  )


def _optimizer(config: DQNConfig) -> optax.GradientTransformation:
  return optax.adam(config.learning_rate)


def _check(config: DQNConfig) -> None:
  """Raises a ValueError for settings that cannot work."""
  if not 1 <= len(config.epsilons) == len(config.models):
    raise ValueError(
      'epsilons and models must be of one length, one number of models per ε,'
      f' got {len(config.epsilons)} and {len(config.models)}'
    )
  if not all(0 <= value <= 1 for value in config.epsilons):
    raise ValueError(f'epsilons must be from 0 to 1, got {config.epsilons}')
  positive = (
    *('num_bits', 'batch_size', 'target_period', 'max_steps'),
    *('episode_length', 'walkers', 'learning_rate'),
  )
  for name in positive:
    if not getattr(config, name) > 0:
      raise ValueError(f'{name} must be positive, got {getattr(config, name)}')
  if not 0 <= config.discount < 1:
    raise ValueError(f'discount must be from 0 to < 1, got {config.discount}')
  if not config.batch_size <= config.replay_start <= config.replay_capacity:
    raise ValueError(
      'updates draw batch_size different transitions, so batch_size ≤'
      ' min_replay ≤ replay_capacity must hold, got'
      f' {config.batch_size}, {config.replay_start}, {config.replay_capacity}'
    )
  if config.walkers > config.replay_capacity:
    raise ValueError(
      f'{config.walkers} walkers do not fit a replay of'
      f' {config.replay_capacity}; use fewer, or a larger replay_capacity'
    )
