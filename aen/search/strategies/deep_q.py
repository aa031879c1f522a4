"""The paper's search: a DQN agent walks from state to state.

Legend: K bits, P walkers.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search import agent as agent_lib
from aen.search import replay as replay_lib
from aen.search.strategies import base


class DQNState(NamedTuple):
  """Walkers, what they remember, and what the agent has learnt."""

  key: jax.Array
  round: jax.Array  # int32 []
  baseline: jax.Array  # float32 []
  walks: agent_lib.Walk  # each [P]
  actions: jax.Array  # int32 [P], taken but not yet observed
  agent: agent_lib.AgentState
  replay: replay_lib.Replay
  counts: base.Counts


def dqn(
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  per_round: int | None = None,
  config: agent_lib.DQNConfig | None = None,
  **options: Any,
) -> base.Strategy:
  """The paper's DQN; with one walker, its loop exactly.

  Each step: choose a bit ε-greedily, toggle it, add the transition and its
  reward to the replay, update the Q-network once the replay holds enough, copy
  it to the target while the number of models is even. See `aen.dqn.DQNConfig`.

  Args:
    num_bits: K.
    network_of: The network of every state. int32 [2^K]
    epochs: How long to train.
    per_round: The number of walkers; `config.walkers` by default.
    config: The published one by default.
    **options: Fields of the configuration to change.

  Returns:
    The strategy. It may pass `max_steps` and `max_models` by what one round of
    several walkers brings.
  """
  network_of = base.checked(network_of, num_bits, epochs)
  if per_round is not None:
    options['walkers'] = per_round
  config = dataclasses.replace(
    config or agent_lib.DQNConfig(), num_bits=num_bits, **options
  )
  slots = np.arange(config.walkers, dtype=np.int32)

  def init(key: jax.Array, baseline: jax.Array) -> DQNState:
    key_agent, key_rounds = jax.random.split(key)
    return DQNState(
      key=key_rounds,
      round=jnp.int32(0),
      baseline=jnp.asarray(baseline, float),
      walks=jax.vmap(lambda _: agent_lib.reset())(slots),
      actions=jnp.zeros(config.walkers, jnp.int32),
      agent=agent_lib.init(config, key_agent),
      replay=replay_lib.init(config.replay_capacity),
      counts=base.no_counts(network_of),
    )

  def propose(state: DQNState) -> tuple[DQNState, base.Proposal]:
    keys = round_keys(state.key, state.round, config.walkers).act
    epsilon = epsilon_of(state)
    actions = jax.vmap(
      lambda key, s: agent_lib.select_action(
        config, state.agent.params, key, s, epsilon
      )
    )(keys, state.walks.state)
    states = agent_lib.toggle(state.walks.state, actions)
    states = jnp.where(finished(state), base.NO_STATE, states)
    return (
      state._replace(actions=actions),
      base.full_proposal(states, epochs),
    )

  def observe(
    state: DQNState, proposal: base.Proposal, values: jax.Array
  ) -> DQNState:
    used = proposal.states >= 0
    counts = base.count(state.counts, network_of, proposal.states)
    r_t = agent_lib.reward(values, state.baseline, config.reward_scale)
    replay = replay_lib.add(
      state.replay,
      replay_lib.Transition(
        state.walks.state, state.actions, r_t, proposal.states
      ),
      used,
    )
    walks = jax.vmap(agent_lib.step, in_axes=(0, 0, None))(
      state.walks, state.actions, config.episode_length
    )
    keys = round_keys(state.key, state.round, config.walkers).learn
    agent = jax.lax.cond(
      used.any() & (replay_lib.size(replay) >= config.replay_start),
      lambda: _learn(config, state.agent, replay, keys, counts.states),
      lambda: state.agent,
    )
    return DQNState(
      key=state.key,
      round=state.round + used.any(),
      baseline=state.baseline,
      walks=jax.tree.map(
        lambda new, old: jnp.where(used, new, old), walks, state.walks
      ),
      actions=state.actions,
      agent=agent,
      replay=replay,
      counts=counts,
    )

  def finished(state: DQNState) -> jax.Array:
    enough = state.counts.states >= config.max_models
    return enough | (state.counts.steps >= config.max_steps)

  def epsilon_of(state: DQNState) -> jax.Array:
    return agent_lib.epsilon(config, state.counts.states)

  def q_values(state: DQNState, states: jax.Array) -> jax.Array:
    return agent_lib.q_values(config, state.agent.params, states)

  return base.Strategy(init, propose, observe, finished, epsilon_of, q_values)


class RoundKeys(NamedTuple):
  """All randomness of one round."""

  act: jax.Array  # keys [P]
  learn: jax.Array  # keys [P]


def round_keys(key: jax.Array, round_: jax.Array, walkers: int) -> RoundKeys:
  """Returns the keys of a round, for each walker's action and update."""
  key_act, key_learn = jax.random.split(jax.random.fold_in(key, round_))
  return RoundKeys(
    jax.random.split(key_act, walkers), jax.random.split(key_learn, walkers)
  )


def _learn(
  config: agent_lib.DQNConfig,
  agent: agent_lib.AgentState,
  replay: replay_lib.Replay,
  keys: jax.Array,
  models: jax.Array,
) -> agent_lib.AgentState:
  """One update for each of the walkers' steps."""

  def one(
    agent: agent_lib.AgentState, key: jax.Array
  ) -> tuple[agent_lib.AgentState, None]:
    batch = replay_lib.sample(replay, key, config.batch_size)
    agent = agent_lib.update(config, agent, batch)
    return agent_lib.copy_target(config, agent, models), None

  if config.walkers == 1:
    return one(agent, keys[0])[0]
  return jax.lax.scan(one, agent, keys)[0]
