"""Comparing strategies on landscapes, where a search is one compiled program.

Legend: K bits, R networks, E epochs, S seeds of the landscape, N searches, T
rounds, P proposals of a round, X points of a curve.
"""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.landscape import Landscape
from aen.search.strategies import base


class Trace(NamedTuple):
  """All proposed states and their values."""

  states: jax.Array  # int32 [T, P]; unused: `base.NO_STATE`
  epochs: jax.Array  # int32 [T, P]; unused: 0
  values: jax.Array  # float32 [T, P]; unused: 0


def simulate(
  strategy: base.Strategy,
  key: jax.Array,
  known: jax.Array,  # float32 [R, E], as of `Landscape.best_so_far`
  network_of: jax.Array,  # int32 [2^K]
  rounds: int,
) -> tuple[Any, Trace]:
  """Runs a search with known values as one `lax.scan`.

  Can be jitted, and vmapped over keys and values. A strategy that finishes
  early proposes nothing in the remaining rounds. Returns the strategy's last
  memory and the trace.
  """
  known, network_of = jnp.asarray(known, jnp.float32), jnp.asarray(network_of)

  def one_round(memory: Any, _: None) -> tuple[Any, Trace]:
    memory, proposal = strategy.propose(memory)
    found = known[network_of[proposal.states], proposal.epochs - 1]
    values = jnp.where(proposal.states >= 0, found, 0)
    memory = strategy.observe(memory, proposal, values)
    return memory, Trace(proposal.states, proposal.epochs, values)

  begin = strategy.init(key, known[network_of[0], -1])
  return jax.lax.scan(one_round, begin, length=rounds)


class Progress(NamedTuple):
  """Cost and best network of a search, before the first step and after each.

  The network without symmetry is trained before the first step. Below, N is the
  number of steps.
  """

  states: np.ndarray  # int64 [N + 1], distinct states seen
  networks: np.ndarray  # int64 [N + 1], distinct networks trained
  epochs: np.ndarray  # int64 [N + 1], trained; longer trainings resume
  pick: np.ndarray  # int64 [N + 1], the network with the best value seen


def progress(
  trace: Trace, known: np.ndarray, network_of: np.ndarray
) -> Progress:
  """Returns the progress of one search, without unused slots."""
  used = np.asarray(trace.states).ravel() >= 0
  states, epochs, values = (np.asarray(x).ravel()[used] for x in trace)
  num_epochs = known.shape[1]
  states = np.concatenate([[0], states])
  epochs = np.concatenate([[num_epochs], epochs])
  values = np.concatenate([known[network_of[:1], -1], values])
  networks = np.asarray(network_of)[states]
  spent = [
    _num_distinct(np.where(epochs >= e, networks, -1))
    for e in range(1, num_epochs + 1)
  ]
  best = np.maximum.accumulate(values)
  return Progress(
    states=_num_distinct(states),
    networks=_num_distinct(networks),
    epochs=np.sum(spent, axis=0),
    pick=networks[np.searchsorted(best, best)],  # the first of equals
  )


def _num_distinct(items: np.ndarray) -> np.ndarray:
  """Returns the number of distinct items ≥ 0 so far."""
  first = np.zeros(len(items), bool)
  first[np.unique(items, return_index=True)[1]] = True
  return np.cumsum(first & (items >= 0))


class Curves(NamedTuple):
  """Regret of each search as a function of its cost."""

  cost: np.ndarray  # int64 [X]
  regret: np.ndarray  # float64 [N, X], by the true values
  observed: np.ndarray  # float64 [N, X], by the values that the search saw


def search_landscape(
  strategy: base.Strategy,
  landscape: Landscape,
  searches: np.ndarray,  # int [N], their numbers
  rounds: int,
  vectorised: bool = True,
) -> Trace:
  """Runs searches on a landscape. Returns NumPy arrays, each [N, T, P].

  The number n of a search determines its key and the seed whose accuracies it
  sees, n mod S. `vectorised` runs all searches in one `vmap`; one after another
  is faster if a single search uses the whole machine.
  """
  keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(
    jnp.asarray(searches, jnp.int32)
  )
  seeds = np.asarray(searches) % len(landscape.seeds)
  seen = np.stack([landscape.best_so_far(seed) for seed in seeds])
  search = _program(strategy, rounds, vectorised)
  if vectorised:
    return jax.device_get(search(keys, seen, landscape.network_of))
  traces = [
    jax.device_get(search(key, known, landscape.network_of))
    for key, known in zip(keys, seen, strict=True)
  ]
  return jax.tree.map(lambda *parts: np.stack(parts), *traces)


@functools.lru_cache(maxsize=4)
def _program(
  strategy: base.Strategy, rounds: int, vectorised: bool
) -> Callable[..., Trace]:
  """Returns a jitted search, cached across batches of searches."""

  def search(key: jax.Array, known: jax.Array, network_of: jax.Array) -> Trace:
    return simulate(strategy, key, known, network_of, rounds)[1]

  return jax.jit(
    jax.vmap(search, in_axes=(0, 0, None)) if vectorised else search
  )


def curves(
  traces: Trace, landscape: Landscape, searches: np.ndarray
) -> dict[str, Curves]:
  """Returns the regret of searches of `search_landscape`, by kind of cost.

  Costs are 'networks' trained (those trained for some of the epochs count in
  part) and 'states' seen. The regret of a search that ends early is constant
  from then on.
  """
  truth, epochs = landscape.values(), landscape.validation.shape[-1]
  costs = {
    'networks': np.arange(1, len(landscape) + 1),
    'states': np.arange(1, len(landscape.network_of) + 1),
  }
  regret: dict[str, list[np.ndarray]] = {kind: [] for kind in costs}
  observed: dict[str, list[np.ndarray]] = {kind: [] for kind in costs}
  for i, number in enumerate(searches):
    known = landscape.best_so_far(int(number) % len(landscape.seeds))
    trace = Trace(*(x[i] for x in traces))
    found = progress(trace, known, landscape.network_of)
    spent = {'networks': found.epochs // epochs, 'states': found.states}
    for kind, cost in costs.items():
      last = np.searchsorted(spent[kind], cost, side='right') - 1
      pick = found.pick[last]
      regret[kind].append(truth.max() - truth[pick])
      observed[kind].append(known[:, -1].max() - known[pick, -1])
  return {
    kind: Curves(cost, np.array(regret[kind]), np.array(observed[kind]))
    for kind, cost in costs.items()
  }


def mean_and_band(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns mean and half the 95 % interval of samples [N, X], each [X]."""
  spread = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
  return samples.mean(axis=0), 1.96 * spread
