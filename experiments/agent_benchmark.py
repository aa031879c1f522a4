r"""What does a DQN search on a landscape cost beyond its Q-network's updates?

Alternates whole searches with the same number of bare updates of the same
Q-network (targets, gradient, Adam) on batches drawn beforehand. Then times 200
searches of every other strategy.

  python -m experiments.agent_benchmark                # the full schedule
  python -m experiments.agent_benchmark --steps=1000   # a quick look

Prints the ratio, 1.1 for the full schedule, and writes agent.csv. A search with
the full schedule takes some 10^13 operations: one to three minutes on two
cores, and as long for its bare updates.
"""

from collections.abc import Callable, Iterator
import dataclasses
import functools
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aen
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import replay as replay_lib
from aen.search import strategies
from experiments import launch
from experiments import timing

_FLAGS = launch.define(
  steps=(6000, 'Maximum number of steps of a DQN search.', 600),
  repeats=(3, 'Searches; the median ratio counts.', 1),
  seeds=(200, 'Searches with each other strategy.', 1),
)
_OUT = timing.output('agent_benchmark')

# Rounds of a search among 216 networks; 3000 for strategies without an end.
ROUNDS = {
  name: {'exhaustive': 216, 'random': 216, 'halving': 378}.get(name, 3000)
  for name in strategies.STRATEGIES
  if name != 'dqn'
}
EPOCHS = 4


def main(_: list[str]) -> None:
  """Measures, prints and writes the table."""
  rows = timing.collect(measure(), _OUT('agent.csv'))
  ratio = statistics.median(row['ratio'] for row in rows if 'ratio' in row)
  total = sum(row['seconds'] for row in rows if 'ratio' not in row)
  print(f'A DQN search costs {ratio:.3f} times its bare updates.')
  print(f'All other strategies together: {total:.1f} s.')


def measure() -> Iterator[dict[str, Any]]:
  """Alternates DQN searches and bare updates, then times other strategies."""
  config = dataclasses.replace(agent_lib.DQNConfig(), max_steps=_FLAGS.steps)
  names = PAPER_SYMMETRIES[: config.num_bits]
  network_of, _ = aen.distinct_networks(names, [(28, 28), (20, 20), (20, 20)])
  rng = np.random.default_rng(0)
  steps = rng.uniform(0, 0.2, (network_of.max() + 1, EPOCHS))
  known = np.cumsum(steps, axis=1).astype(np.float32)  # rising accuracies

  def search(name: str, rounds: int, **options: Any) -> Callable[..., Any]:
    strategy = strategies.make(
      name, config.num_bits, network_of=network_of, epochs=EPOCHS, **options
    )
    return lambda key: compare.simulate(
      strategy, key, known, network_of, rounds
    )

  keys = jax.random.split(jax.random.key(0), _FLAGS.repeats)
  dqn = jax.jit(search('dqn', config.max_steps, config=config))
  compiled = dqn.lower(keys[0]).compile()
  for key in keys:
    seconds, (state, _) = timing.timed(compiled, key)
    updates, counts = int(state.agent.opt_state[0].count), state.counts
    bare = bare_updates(config, key, updates)
    timing.timed(bare)  # compiles
    alone, _ = timing.timed(bare)
    yield {
      'what': 'dqn',
      'seconds': seconds,
      'bare_seconds': alone,
      'ratio': seconds / alone,
      'updates': updates,
      'steps': int(counts.steps),
      'states': int(counts.states),
      'networks': int(counts.networks),
    }
  keys = jax.random.split(jax.random.key(1), _FLAGS.seeds)
  for name, rounds in ROUNDS.items():  # including compilation
    seconds, _ = timing.timed(jax.jit(jax.vmap(search(name, rounds))), keys)
    yield {'what': name, 'seconds': seconds, 'steps': rounds}


def bare_updates(
  config: agent_lib.DQNConfig, key: jax.Array, number: int
) -> Callable[[], Any]:
  """Returns a function that only updates a Q-network."""
  key_agent, key_s, key_a, key_r = jax.random.split(key, 4)
  shape = (number, config.batch_size)
  s_tm1 = jax.random.randint(key_s, shape, 0, 2**config.num_bits, jnp.int32)
  a_tm1 = jax.random.randint(key_a, shape, 0, config.num_bits, jnp.int32)
  batches = replay_lib.Transition(
    s_tm1, a_tm1, jax.random.normal(key_r, shape), s_tm1 ^ (1 << a_tm1)
  )

  def update(agent: Any, batch: replay_lib.Transition) -> tuple[Any, None]:
    return agent_lib.update(config, agent, batch), None

  run = jax.jit(functools.partial(jax.lax.scan, update))
  return functools.partial(run, agent_lib.init(config, key_agent), batches)


if __name__ == '__main__':
  launch.run(main)
