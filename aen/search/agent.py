"""The paper's agent: an MDP over bits, a reward, and a DQN in Optax.

A state is an int32 whose bit k says whether the k-th symmetry is on, the first
bit least significant, as in `aen.Lattice`. Actions toggle one bit. All
functions are pure; the loop is in `aen.search.strategies.dqn`.

Legend: K bits (and actions), B batch.
"""

from collections.abc import Sequence
import dataclasses
import math
from typing import Any, NamedTuple

import chex
from flax import linen as nn
from flax.typing import Dtype
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aen.search.replay import Transition
from aen.search.space import EMPTY
from aen.search.space import toggle


class Walk(NamedTuple):
  """A walker's position in its episode."""

  state: jax.Array  # int32 []
  time: jax.Array  # int32 [], steps taken in this episode


def reset() -> Walk:
  """Returns the beginning of an episode."""
  return Walk(jnp.int32(EMPTY), jnp.int32(0))


def neighbours(state: jax.Array, num_bits: int) -> jax.Array:
  """Returns the next state for each action in states [...]. int32 [..., K]."""
  return toggle(state[..., None], _places(num_bits, jnp.ndim(state)))


def step(walk: Walk, action: jax.Array, episode_length: int) -> Walk:
  """Toggles one bit; after the last step of an episode the walker is reset.

  The last transition of an episode still ends in `toggle(walk.state, action)`.
  """
  after = Walk(toggle(walk.state, action), walk.time + 1)
  over = after.time >= episode_length
  return jax.tree.map(lambda a, b: jnp.where(over, a, b), reset(), after)


def to_bits(state: jax.Array, num_bits: int) -> jax.Array:
  """Returns the bits of states [...] as float32 [..., K]."""
  places = _places(num_bits, jnp.ndim(state))
  return (jnp.right_shift(state[..., None], places) & 1).astype(jnp.float32)


def _places(num_bits: int, ndim: int) -> jax.Array:
  """Returns 0…K-1 with `ndim` leading axes of size 1. int32 [1, …, K]."""
  return jnp.arange(num_bits, dtype=jnp.int32).reshape((1,) * ndim + (-1,))


# Larger than any gain in percentage points (about 40), but sums of 10¹³ rewards
# stay finite in float32.
MAX_EXPONENT = 50.0
DEFAULT_SCALE = 1.0  # by measurement, see `reward`


def reward(
  accuracy: jax.Array, baseline: jax.Array, scale: float = DEFAULT_SCALE
) -> jax.Array:
  """The paper's reward, x·exp|x| with x = scale · (accuracy − baseline).

  It amplifies gains and losses relative to the network without symmetry. The
  paper writes x = accuracy − baseline; its published code measures accuracy in
  percentage points, which is scale=100. The loss of the worst networks is then
  many orders of magnitude larger than any gain, and the agent learns little
  else. Accuracy of the last states visited, 64-wide Q-network, 16 seeds:

    scale                 0.3     1     3    10   100   (best, none)
    g_mnist/aug2         61.5  59.5  55.2  49.1  47.4   (62.9, 53.0)
    g_mnist/aug5         52.5  52.5  51.9  43.7  40.2   (52.9, 40.7)
    g_fashion_mnist/aug5 51.8  52.0  51.0  42.2  40.8   (52.4, 42.0)

  Accuracies are from 0 to 1. x is clipped to ±50 to avoid overflow.
  """
  gain = jnp.asarray(accuracy) - baseline
  x = jnp.clip(scale * gain, -MAX_EXPONENT, MAX_EXPONENT)
  return x * jnp.exp(jnp.abs(x))


@dataclasses.dataclass(frozen=True)
class DQNConfig:
  """Hyperparameters of the agent and its loop, by default as published.

  Attributes:
    num_bits: Bits of a state; also the number of actions.
    hidden_sizes: Widths of the Q-network's hidden layers.
    input_scale: Scale of the bits that the Q-network sees.
    discount: Discount γ. No step is terminal: the last step of an episode
      bootstraps too.
    learning_rate: Learning rate of the Q-network, for Adam.
    batch_size: Transitions in an update; the paper has 512 for MLPs and 128 for
      group CNNs. There is one update per step.
    replay_capacity: Capacity of the replay buffer, in transitions.
    min_replay: Size of the replay buffer at which updates begin; the batch size
      by default.
    target_period: The target network is updated in every step at which the
      number of distinct states seen is a multiple of this.
    epsilons: Exploration rates ε, in order.
    models: New states to find at each ε, counting the empty state. The search
      ends after their sum.
    max_steps: Maximum number of steps of a search.
    episode_length: Steps from the empty state until a walker returns there.
    reward_scale: Scale of x in the reward x·exp|x|, where x is the gain in
      accuracy (0 to 1); the published code has 100.
    afterstates: Whether the Q-network maps the next state to one value; in the
      paper, it maps the current state to one value per action. Reward and
      future depend on the next state only, so all K actions into it share one
      value.
    walkers: Walkers that share replay buffer and Q-network; the paper has one.
      With P walkers a round is P steps and P updates.
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
  # fmt: off
  epsilons: tuple[float, ...] = (
    1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05
  )
  models: tuple[int, ...] = (
    200, 100, 100, 100, 100, 100, 100, 50, 50, 50, 50
  )
  # fmt: on
  max_steps: int = 6000
  episode_length: int = 100
  reward_scale: float = DEFAULT_SCALE
  afterstates: bool = False
  walkers: int = 1

  def __post_init__(self) -> None:
    if not 1 <= len(self.epsilons) == len(self.models):
      raise ValueError(
        'epsilons and models must be of one length, one number of models per ε,'
        f' got {len(self.epsilons)} and {len(self.models)}'
      )
    if not all(0 <= value <= 1 for value in self.epsilons):
      raise ValueError(f'epsilons must be from 0 to 1, got {self.epsilons}')
    whole = [f.name for f in dataclasses.fields(self) if f.type is int]
    for name in (*whole, 'learning_rate'):
      if not getattr(self, name) > 0:
        raise ValueError(f'{name} must be positive, got {getattr(self, name)}')
    if not 0 <= self.discount < 1:
      raise ValueError(f'discount must be in [0, 1), got {self.discount}')
    if not self.batch_size <= self.replay_start <= self.replay_capacity:
      raise ValueError(
        'updates draw batch_size different transitions, so batch_size ≤'
        ' min_replay ≤ replay_capacity must hold, got'
        f' {self.batch_size}, {self.replay_start}, {self.replay_capacity}'
      )
    if self.walkers > self.replay_capacity:
      raise ValueError(
        f'{self.walkers} walkers do not fit a replay of'
        f' {self.replay_capacity}; use fewer, or a larger replay_capacity'
      )

  @property
  def replay_start(self) -> int:
    """The number of transitions in the buffer at the first update."""
    return self.batch_size if self.min_replay is None else self.min_replay

  @property
  def max_models(self) -> int:
    """The number of states seen after which the search ends."""
    return sum(self.models)


class QNetwork(nn.Module):
  """Values of toggling each bit: the paper's 12×400×400×400×12 network.

  Weights and biases are initialised with U(±1/√fan_in), as in the published
  code: with zero biases, inputs this small would hardly be distinguished.
  """

  config: DQNConfig

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps bits x [..., K] to values [..., K], or [..., 1] of afterstates."""
    num_values = 1 if self.config.afterstates else self.config.num_bits
    x = self.config.input_scale * x
    for size in self.config.hidden_sizes:
      x = nn.relu(_torch_dense(size, x.shape[-1])(x))
    return _torch_dense(num_values, x.shape[-1])(x)


def _torch_dense(features: int, fan_in: int) -> nn.Dense:
  bound = 1 / math.sqrt(fan_in)

  def init(key: jax.Array, shape: Sequence[int], dtype: Dtype) -> jax.Array:
    return jax.random.uniform(key, shape, dtype, -bound, bound)

  return nn.Dense(features, kernel_init=init, bias_init=init)


class AgentState(NamedTuple):
  """Online and target network, and the optimizer's state."""

  params: Any
  target_params: Any
  opt_state: optax.OptState


def init(config: DQNConfig, key: jax.Array) -> AgentState:
  """Initialises an agent; the key is consumed."""
  params = QNetwork(config).init(key, jnp.zeros(config.num_bits))['params']
  return AgentState(params, params, _optimizer(config).init(params))


def epsilon(config: DQNConfig, models: jax.Array) -> jax.Array:
  """Returns ε, given the number of states seen. float32 []."""
  ends = np.cumsum(config.models)[:-1].astype(np.int32)
  place = jnp.searchsorted(ends, models, side='right')
  return jnp.asarray(config.epsilons, jnp.float32)[place]


def select_action(
  config: DQNConfig,
  params: Any,
  key: jax.Array,
  state: jax.Array,  # int32 []
  epsilon: jax.Array,  # float32 []
) -> jax.Array:
  """Returns an ε-greedy action. int32 []."""
  key_explore, key_action = jax.random.split(key)
  explore = jax.random.uniform(key_explore) < epsilon
  anything = jax.random.randint(key_action, (), 0, config.num_bits, jnp.int32)
  best = q_values(config, params, state).argmax().astype(jnp.int32)
  return jnp.where(explore, anything, best)


def update(
  config: DQNConfig, agent: AgentState, batch: Transition
) -> AgentState:
  """Takes one Adam step on a batch, each field [B]; keeps the target."""
  gradient = jax.grad(loss, argnums=1)(
    config, agent.params, agent.target_params, batch
  )
  updates, opt_state = _optimizer(config).update(gradient, agent.opt_state)
  params = optax.apply_updates(agent.params, updates)
  return agent._replace(params=params, opt_state=opt_state)


def copy_target(
  config: DQNConfig, agent: AgentState, models: jax.Array
) -> AgentState:
  """Updates the target if `models` is a multiple of `target_period`."""
  target = optax.periodic_update(
    agent.params, agent.target_params, models, config.target_period
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
  chex.assert_equal_shape([chosen, target])  # [B]: else they would broadcast
  return optax.huber_loss(chosen, jax.lax.stop_gradient(target)).mean()


def q_values(config: DQNConfig, params: Any, states: jax.Array) -> jax.Array:
  """Returns the value of every action in states [...]. float32 [..., K]."""
  if config.afterstates:
    states = neighbours(states, config.num_bits)
  bits = to_bits(states, config.num_bits)
  values: Any = QNetwork(config).apply({'params': params}, bits)
  return values[..., 0] if config.afterstates else values


def _optimizer(config: DQNConfig) -> optax.GradientTransformation:
  return optax.adam(config.learning_rate)
