"""The paper's search: a DQN agent walks from state to state.

Each step chooses a bit ε-greedily, toggles it, adds the transition and its
reward to the replay, updates the Q-network once the replay holds enough, and
copies it to the target network while the number of states seen is a multiple of
`target_period`. With one walker this is the paper's loop exactly.

Legend: K bits, P walkers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from aen.search import agent as agent_lib
from aen.search import replay as replay_lib
from aen.search.agent import DQNConfig
from aen.search.strategies import base
from aen.search.strategies.base import Config
from aen.search.strategies.base import Proposal


class DQNState(NamedTuple):
  """Walkers, their memory, and the agent."""

  key: jax.Array
  round: jax.Array  # int32 []
  baseline: jax.Array  # float32 []
  walks: agent_lib.Walk  # each [P]
  actions: jax.Array  # int32 [P], taken but not yet observed
  agent: agent_lib.AgentState
  replay: replay_lib.Replay
  counts: base.Counts


def init(config: Config, key: jax.Array, baseline: jax.Array) -> DQNState:
  """Puts all walkers at the empty state."""
  key_agent, key_rounds = jax.random.split(key)
  slots = base.slots(config.options.walkers)
  return DQNState(
    key=key_rounds,
    round=jnp.int32(0),
    baseline=jnp.asarray(baseline, float),
    walks=jax.vmap(lambda _: agent_lib.reset())(slots),
    actions=jnp.zeros(config.options.walkers, jnp.int32),
    agent=agent_lib.init(config.options, key_agent),
    replay=replay_lib.init(config.options.replay_capacity),
    counts=base.no_counts(config),
  )


def propose(config: Config, state: DQNState) -> tuple[DQNState, Proposal]:
  """Chooses every walker's action."""
  now = epsilon(config, state)
  keys, _ = round_keys(state.key, state.round, config.options.walkers)
  actions = jax.vmap(
    lambda key, s: agent_lib.select_action(
      config.options, state.agent.params, key, s, now
    )
  )(keys, state.walks.state)
  states = agent_lib.toggle(state.walks.state, actions)
  return state._replace(actions=actions), base.full_proposal(
    config, states, finished(config, state)
  )


def observe(
  config: Config, state: DQNState, proposal: Proposal, values: jax.Array
) -> DQNState:
  """Adds the transitions to the replay, moves the walkers, and learns."""
  used = proposal.states >= 0
  counts = base.count(config, state.counts, proposal.states)
  r_t = agent_lib.reward(values, state.baseline, config.options.reward_scale)
  transitions = replay_lib.Transition(
    state.walks.state, state.actions, r_t, proposal.states
  )
  replay = replay_lib.add(state.replay, transitions, used)
  walks = jax.vmap(agent_lib.step, in_axes=(0, 0, None))(
    state.walks, state.actions, config.options.episode_length
  )
  _, keys = round_keys(state.key, state.round, config.options.walkers)
  agent = jax.lax.cond(
    used.any() & (replay_lib.size(replay) >= config.options.replay_start),
    lambda: _learn(config.options, state.agent, replay, keys, counts.states),
    lambda: state.agent,
  )
  return state._replace(
    round=state.round + used.any(),
    walks=jax.tree.map(
      lambda new, old: jnp.where(used, new, old), walks, state.walks
    ),
    agent=agent,
    replay=replay,
    counts=counts,
  )


def finished(config: Config, state: DQNState) -> jax.Array:
  """Whether enough states are seen or steps taken.

  With several walkers, both may be exceeded by the last round.
  """
  enough = state.counts.states >= config.options.max_models
  return enough | (state.counts.steps >= config.options.max_steps)


def epsilon(config: Config, state: DQNState) -> jax.Array:
  """Returns ε, which depends on the number of states seen."""
  return agent_lib.epsilon(config.options, state.counts.states)


def q_values(config: Config, state: DQNState, states: jax.Array) -> jax.Array:
  """Returns the agent's estimates in states [N]. float32 [N, K]."""
  return agent_lib.q_values(config.options, state.agent.params, states)


def round_keys(
  key: jax.Array, round_: jax.Array, walkers: int
) -> tuple[jax.Array, jax.Array]:
  """Returns the keys of a round, for actions [P] and for updates [P]."""
  key_act, key_learn = jax.random.split(jax.random.fold_in(key, round_))
  act = jax.random.split(key_act, walkers)
  return act, jax.random.split(key_learn, walkers)


def _learn(
  config: DQNConfig,
  agent: agent_lib.AgentState,
  replay: replay_lib.Replay,
  keys: jax.Array,
  models: jax.Array,
) -> agent_lib.AgentState:
  """Takes one update per walker."""

  def one(
    agent: agent_lib.AgentState, key: jax.Array
  ) -> tuple[agent_lib.AgentState, None]:
    batch = replay_lib.sample(replay, key, config.batch_size)
    agent = agent_lib.update(config, agent, batch)
    return agent_lib.copy_target(config, agent, models), None

  if config.walkers == 1:
    return one(agent, keys[0])[0]
  return jax.lax.scan(one, agent, keys)[0]


DQN = base.Method(
  DQNConfig, init, propose, observe, finished, epsilon, q_values
)
