"""The paper's search: a DQN agent walks from state to state.

Each step chooses a bit ε-greedily, toggles it, adds the transition and its
reward to the replay buffer, updates the Q-network once the buffer is large
enough, and copies it to the target network if the number of states seen is a
multiple of `target_period`. With one walker this is exactly the paper's loop.

Legend: K bits, P walkers.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import override

from aen.search import agent as agent_lib
from aen.search import replay as replay_lib
from aen.search.strategies import base


class DQNState(NamedTuple):
  """Walkers, replay buffer and agent."""

  key: jax.Array
  round: jax.Array  # int32 []
  baseline: jax.Array  # float32 []
  walks: agent_lib.Walk  # each [P]
  actions: jax.Array  # int32 [P], taken but not yet observed
  agent: agent_lib.AgentState
  replay: replay_lib.Replay
  counts: base.Counts


@dataclasses.dataclass(frozen=True, eq=False)
class DQN(base.Strategy, agent_lib.DQNConfig):
  """The agent's search; its options are those of the agent."""

  @override
  def init(self, key: jax.Array, baseline: jax.Array) -> DQNState:
    key_agent, key_rounds = jax.random.split(key)
    start = agent_lib.reset()
    return DQNState(
      key=key_rounds,
      round=jnp.int32(0),
      baseline=jnp.asarray(baseline, float),
      walks=jax.tree.map(lambda part: jnp.full(self.walkers, part), start),
      actions=jnp.zeros(self.walkers, jnp.int32),
      agent=agent_lib.init(self, key_agent),
      replay=replay_lib.init(self.replay_capacity),
      counts=self.no_counts(),
    )

  @override
  def propose(self, state: DQNState) -> tuple[DQNState, base.Proposal]:
    now = self.epsilon(state)
    keys, _ = round_keys(state.key, state.round, self.walkers)
    actions = jax.vmap(
      lambda key, s: agent_lib.select_action(
        self, state.agent.params, key, s, now
      )
    )(keys, state.walks.state)
    states = agent_lib.toggle(state.walks.state, actions)
    proposal = self.full_proposal(states, self.finished(state))
    return state._replace(actions=actions), proposal

  @override
  def observe(
    self, state: DQNState, proposal: base.Proposal, values: jax.Array
  ) -> DQNState:
    used = proposal.states >= 0
    counts = self.count(state.counts, proposal.states)
    r_t = agent_lib.reward(values, state.baseline, self.reward_scale)
    transitions = replay_lib.Transition(
      state.walks.state, state.actions, r_t, proposal.states
    )
    replay = replay_lib.add(state.replay, transitions, used)
    walks = jax.vmap(agent_lib.step, in_axes=(0, 0, None))(
      state.walks, state.actions, self.episode_length
    )
    _, keys = round_keys(state.key, state.round, self.walkers)
    agent = jax.lax.cond(
      used.any() & (replay_lib.size(replay) >= self.replay_start),
      lambda: self._learn(state.agent, replay, keys, counts.states),
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

  @override
  def finished(self, state: DQNState) -> jax.Array:
    """Whether enough states were seen or steps taken.

    With several walkers, the last round may exceed both limits.
    """
    enough = state.counts.states >= self.max_models
    return enough | (state.counts.steps >= self.max_steps)

  @override
  def epsilon(self, state: DQNState) -> jax.Array:
    return agent_lib.epsilon(self, state.counts.states)

  @override
  def q_values(self, state: DQNState, states: jax.Array) -> jax.Array:
    return agent_lib.q_values(self, state.agent.params, states)

  def _learn(
    self,
    agent: agent_lib.AgentState,
    replay: replay_lib.Replay,
    keys: jax.Array,
    models: jax.Array,
  ) -> agent_lib.AgentState:
    """Takes one update per walker."""

    def one(
      agent: agent_lib.AgentState, key: jax.Array
    ) -> tuple[agent_lib.AgentState, None]:
      batch = replay_lib.sample(replay, key, self.batch_size)
      agent = agent_lib.update(self, agent, batch)
      return agent_lib.copy_target(self, agent, models), None

    if self.walkers == 1:
      return one(agent, keys[0])[0]
    return jax.lax.scan(one, agent, keys)[0]


def round_keys(
  key: jax.Array, round_: jax.Array, walkers: int
) -> tuple[jax.Array, jax.Array]:
  """Returns the keys of a round for actions and for updates, [P] each."""
  key_act, key_learn = jax.random.split(jax.random.fold_in(key, round_))
  act = jax.random.split(key_act, walkers)
  return act, jax.random.split(key_learn, walkers)
