"""Strategies compared on landscapes, where a whole search is one program.

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
  """Runs a search in which all values are known: one `lax.scan`.

  Can be jitted, and vmapped over keys and values. A strategy that finishes
  early idles through the remaining rounds. Returns its last state too.
  """
  known, network_of = jnp.asarray(known, jnp.float32), jnp.asarray(network_of)

  def one_round(state: Any, _: None) -> tuple[Any, Trace]:
    state, proposal = strategy.propose(state)
    found = known[network_of[proposal.states], proposal.epochs - 1]
    values = jnp.where(proposal.states >= 0, found, 0)
    state = strategy.observe(state, proposal, values)
    return state, Trace(proposal.states, proposal.epochs, values)

  begin = strategy.init(key, known[network_of[0], -1])
  return jax.lax.scan(one_round, begin, length=rounds)


class Progress(NamedTuple):
  """Cost and finding of a search, before its first step and after each.

  At the beginning the network without symmetry has been trained. Below, N is
  the number of steps.
  """

  states: np.ndarray  # int64 [N + 1], distinct states seen
  networks: np.ndarray  # int64 [N + 1], distinct networks trained
  epochs: np.ndarray  # int64 [N + 1], trained, resuming earlier trainings
  pick: np.ndarray  # int64 [N + 1], the network with the best value seen


def progress(
  trace: Trace, known: np.ndarray, network_of: np.ndarray
) -> Progress:
  """Returns the progress of one search; unused slots are left out."""
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

  The number of a search determines its key, and search n sees the accuracies of
  seed n mod S. If a single search keeps the machine busy, one after another is
  faster than `vectorised` by `vmap`.
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
  """Compiles once for all batches of searches."""

  def search(key: jax.Array, known: jax.Array, network_of: jax.Array) -> Trace:
    return simulate(strategy, key, known, network_of, rounds)[1]

  return jax.jit(
    jax.vmap(search, in_axes=(0, 0, None)) if vectorised else search
  )


def curves(
  traces: Trace, landscape: Landscape, searches: np.ndarray
) -> dict[str, Curves]:
  """Returns the regret of what `search_landscape` ran, by the kind of cost.

  That is 'networks' trained (a network that was trained for a part of the
  epochs counts as that part) and 'states' seen. A search that ends early keeps
  what it has found.
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
  """Returns the mean of samples [N, X] and half its 95 % interval, each [X]."""
  spread = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
  return samples.mean(axis=0), 1.96 * spread
