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


class DQNMemory(NamedTuple):
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
  def init(self, key: jax.Array, baseline: jax.Array) -> DQNMemory:
    key_agent, key_rounds = jax.random.split(key)
    start = agent_lib.reset()
    return DQNMemory(
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
  def propose(self, memory: DQNMemory) -> tuple[DQNMemory, base.Proposal]:
    now = self.epsilon(memory)
    keys, _ = round_keys(memory.key, memory.round, self.walkers)
    actions = jax.vmap(
      lambda key, s: agent_lib.select_action(
        self, memory.agent.params, key, s, now
      )
    )(keys, memory.walks.state)
    states = agent_lib.toggle(memory.walks.state, actions)
    proposal = self.full_proposal(states, self.finished(memory))
    return memory._replace(actions=actions), proposal

  @override
  def observe(
    self, memory: DQNMemory, proposal: base.Proposal, values: jax.Array
  ) -> DQNMemory:
    used = proposal.states >= 0
    counts = self.count(memory.counts, proposal.states)
    r_t = agent_lib.reward(values, memory.baseline, self.reward_scale)
    transitions = replay_lib.Transition(
      memory.walks.state, memory.actions, r_t, proposal.states
    )
    replay = replay_lib.add(memory.replay, transitions, used)
    walks = jax.vmap(agent_lib.step, in_axes=(0, 0, None))(
      memory.walks, memory.actions, self.episode_length
    )
    _, keys = round_keys(memory.key, memory.round, self.walkers)
    agent = jax.lax.cond(
      used.any() & (replay_lib.size(replay) >= self.replay_start),
      lambda: self._learn(memory.agent, replay, keys, counts.states),
      lambda: memory.agent,
    )
    return memory._replace(
      round=memory.round + used.any(),
      walks=jax.tree.map(
        lambda new, old: jnp.where(used, new, old), walks, memory.walks
      ),
      agent=agent,
      replay=replay,
      counts=counts,
    )

  @override
  def finished(self, memory: DQNMemory) -> jax.Array:
    """Whether enough states were seen or steps taken.

    With several walkers, the last round may exceed both limits.
    """
    enough = memory.counts.states >= self.max_models
    return enough | (memory.counts.steps >= self.max_steps)

  @override
  def epsilon(self, memory: DQNMemory) -> jax.Array:
    return agent_lib.epsilon(self, memory.counts.states)

  @override
  def q_values(self, memory: DQNMemory, states: jax.Array) -> jax.Array:
    return agent_lib.q_values(self, memory.agent.params, states)

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
