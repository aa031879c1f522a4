r"""What does a DQN search on a table cost beyond its Q-network's updates?

Runs whole searches and, in turn with them, the same number of bare updates of
the same Q-network on batches drawn beforehand: target values, gradient, Adam.
Then times 200 searches of every other strategy.

  python -m experiments.agent_benchmark                # the full schedule
  python -m experiments.agent_benchmark --steps=1000   # a quick look

The full schedule takes some 10^13 operations a search: on two cores that is one
to three minutes for a search, and as long for its bare updates. Writes
agent.csv.
"""

from collections.abc import Callable
import csv
import dataclasses
import functools
import pathlib
import statistics
import time
from typing import Any

from absl import flags
import jax
import jax.numpy as jnp
import numpy as np

import aen
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import replay as replay_lib
from aen.search import strategies
from experiments import launch

_STEPS = flags.DEFINE_integer(
  'steps', 6000, 'Steps of a DQN search at most.', lower_bound=600
)
_REPEATS = flags.DEFINE_integer(
  'repeats', 3, 'Searches; the median ratio counts.', lower_bound=1
)
_SEEDS = flags.DEFINE_integer(
  'seeds', 200, 'Searches of each other strategy.', lower_bound=1
)
_OUT = flags.DEFINE_string(
  'out', 'runs/agent_benchmark', 'Folder for the table.'
)

ROUNDS = {'exhaustive': 216, 'random': 216, 'halving': 378}
EPOCHS = 4


@dataclasses.dataclass(frozen=True)
class Config:
  """What to measure."""

  steps: int
  repeats: int
  seeds: int
  out: pathlib.Path
  agent: agent_lib.DQNConfig = agent_lib.DQNConfig()
  others: tuple[str, ...] = (*ROUNDS, 'evolution', 'local')
  rounds: int = 3000  # of strategies that are not in ROUNDS


def planted(network_of: np.ndarray) -> np.ndarray:
  """Returns accuracies that rise from epoch to epoch. float32 [R, E]."""
  rng = np.random.default_rng(0)
  steps = rng.uniform(0, 0.2, (network_of.max() + 1, EPOCHS))
  return np.cumsum(steps, axis=1).astype(np.float32)


def bare_updates(
  config: agent_lib.DQNConfig, key: jax.Array, number: int
) -> Callable[[], Any]:
  """Returns a function that does nothing but update a Q-network."""
  key_agent, key_s, key_a, key_r = jax.random.split(key, 4)
  shape = (number, config.batch_size)
  s_tm1 = jax.random.randint(key_s, shape, 0, 2**config.num_bits, jnp.int32)
  a_tm1 = jax.random.randint(key_a, shape, 0, config.num_bits, jnp.int32)
  batches = replay_lib.Transition(
    s_tm1, a_tm1, jax.random.normal(key_r, shape), s_tm1 ^ (1 << a_tm1)
  )

  @jax.jit
  def run(agent: agent_lib.AgentState, batches: replay_lib.Transition) -> Any:
    def update(
      agent: agent_lib.AgentState, batch: replay_lib.Transition
    ) -> tuple[agent_lib.AgentState, None]:
      return agent_lib.update(config, agent, batch), None

    return jax.lax.scan(update, agent, batches)[0]

  return functools.partial(run, agent_lib.init(config, key_agent), batches)


def timed(function: Callable[..., Any], *args: Any) -> tuple[float, Any]:
  """Returns the time of a call, and what it returns."""
  start = time.perf_counter()
  result = jax.block_until_ready(function(*args))
  return time.perf_counter() - start, result


def measure_dqn(config: Config, network_of: np.ndarray) -> list[dict[str, Any]]:
  """Times searches and their bare updates in turn."""
  agent = dataclasses.replace(config.agent, max_steps=config.steps)
  strategy = strategies.make(
    'dqn', agent.num_bits, network_of=network_of, epochs=EPOCHS, config=agent
  )
  table, rows = planted(network_of), []
  search = jax.jit(
    lambda key: compare.simulate(strategy, key, table, network_of, config.steps)
  )
  keys = jax.random.split(jax.random.key(0), config.repeats)
  compiled = search.lower(keys[0]).compile()
  for key in keys:
    seconds, (state, _) = timed(compiled, key)
    updates = int(state.agent.opt_state[0].count)
    bare = bare_updates(agent, key, updates)
    timed(bare)  # compiles
    alone, _ = timed(bare)
    rows.append(
      {'what': 'dqn', 'seconds': seconds, 'bare_seconds': alone}
      | {'ratio': seconds / alone, 'updates': updates}
      | {'steps': int(state.counts.steps), 'states': int(state.counts.states)}
      | {'networks': int(state.counts.networks)}
    )
    print(
      f'dqn: {rows[-1]["steps"]} steps, {rows[-1]["states"]} states,'
      f' {rows[-1]["networks"]} networks in {seconds:.1f} s;'
      f' {updates} bare updates in {alone:.1f} s; ratio {seconds / alone:.3f}',
      flush=True,
    )
  return rows


def measure_others(
  config: Config, network_of: np.ndarray
) -> list[dict[str, Any]]:
  """Times many searches of every other strategy, compilation included."""
  table, rows = planted(network_of), []
  keys = jax.random.split(jax.random.key(1), config.seeds)
  for name in config.others:
    strategy = strategies.make(
      name, config.agent.num_bits, network_of=network_of, epochs=EPOCHS
    )
    rounds = ROUNDS.get(name, config.rounds)
    search = functools.partial(
      compare.simulate,
      strategy,
      table=table,
      network_of=network_of,
      rounds=rounds,
    )
    seconds, _ = timed(jax.jit(jax.vmap(search)), keys)
    rows.append({'what': name, 'seconds': seconds, 'steps': rounds})
    print(f'{name}: {config.seeds} searches in {seconds:.1f} s', flush=True)
  return rows


def run(config: Config) -> None:
  """Measures, prints and writes the table."""
  names = tuple(aen.SYMMETRIES)[: config.agent.num_bits]
  network_of, _ = aen.distinct_networks(names, [(28, 28), (20, 20), (20, 20)])
  searches = measure_dqn(config, network_of)
  others = measure_others(config, network_of)
  ratio = statistics.median(row['ratio'] for row in searches)
  total = sum(row['seconds'] for row in others)
  print(f'A DQN search costs {ratio:.3f} times its bare updates.')
  print(f'All other strategies together: {total:.1f} s.')
  config.out.mkdir(parents=True, exist_ok=True)
  with open(config.out / 'agent.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, searches[0])
    writer.writeheader()
    writer.writerows(searches + others)
  print(f'Table: {config.out}/agent.csv')


def main(_: list[str]) -> None:
  """Flags to config to one call."""
  run(
    Config(
      steps=_STEPS.value,
      repeats=_REPEATS.value,
      seeds=_SEEDS.value,
      out=pathlib.Path(_OUT.value),
    )
  )


if __name__ == '__main__':
  launch.run(main)
