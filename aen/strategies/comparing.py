"""Strategies compared on landscapes, where every network's worth is known.

Legend: R networks, S seeds of the landscape, N searches, T rounds, P proposals
of a round, X points of a curve.
"""

from collections.abc import Callable
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.landscapes import Landscape
from aen.strategies import base
from aen.strategies import table as table_lib


class Curves(NamedTuple):
  """What each search had found when it had spent so much."""

  cost: np.ndarray  # int64 [X]
  regret: np.ndarray  # float64 [N, X], judged by the true values
  observed: np.ndarray  # float64 [N, X], judged by what the search saw


def search_landscape(
  strategy: base.Strategy,
  landscape: Landscape,
  searches: np.ndarray,
  rounds: int,
  vectorised: bool = True,
) -> table_lib.Trace:
  """Runs many searches on a landscape.

  Args:
    strategy: What to run.
    landscape: Where. Search number n sees the accuracies of seed n mod S.
    searches: Their numbers, from which their keys are made. int [N]
    rounds: T.
    vectorised: All at once; else one after the other, which is faster when one
      search keeps the machine busy.

  Returns:
    Their traces, in NumPy, each [N, T, P].
  """
  tables = np.stack([landscape.table(s) for s in range(len(landscape.seeds))])
  keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(
    jnp.asarray(searches, jnp.int32)
  )

  seen = tables[np.asarray(searches) % len(tables)]
  search = _program(strategy, rounds, vectorised)
  if vectorised:
    return jax.device_get(search(keys, seen, landscape.index))
  traces = [
    jax.device_get(search(key, table, landscape.index))
    for key, table in zip(keys, seen, strict=True)
  ]
  return jax.tree.map(lambda *parts: np.stack(parts), *traces)


@functools.lru_cache(maxsize=4)
def _program(
  strategy: base.Strategy, rounds: int, vectorised: bool
) -> Callable[..., table_lib.Trace]:
  """Compiles once for all batches of searches."""

  def search(
    key: jax.Array, table: jax.Array, index: jax.Array
  ) -> table_lib.Trace:
    return table_lib.search_table(strategy, key, table, index, rounds)[1]

  return jax.jit(
    jax.vmap(search, in_axes=(0, 0, None)) if vectorised else search
  )


def curves(
  traces: table_lib.Trace,
  landscape: Landscape,
  searches: np.ndarray,
  judge: str = 'test',
) -> dict[str, Curves]:
  """Returns what was found against what it cost.

  Args:
    traces: Of N searches, each [N, T, P].
    landscape: Where they ran.
    searches: Their numbers. int [N]
    judge: 'test' or 'validation', see `Landscape.values`.

  Returns:
    Curves by the kind of cost: 'networks' trained (a network that was trained
    for a part of the epochs counts as that part) and 'states' seen. A search
    that ends early keeps what it has found.
  """
  truth, epochs = landscape.values(judge), landscape.validation.shape[-1]
  costs = {
    'networks': np.arange(1, len(landscape) + 1),
    'states': np.arange(1, len(landscape.index) + 1),
  }
  regret: dict[str, list[np.ndarray]] = {kind: [] for kind in costs}
  observed: dict[str, list[np.ndarray]] = {kind: [] for kind in costs}
  for i, number in enumerate(searches):
    table = landscape.table(int(number) % len(landscape.seeds))
    trace = table_lib.Trace(*(x[i] for x in traces))
    found = table_lib.progress(trace, table, landscape.index)
    spent = {'networks': found.epochs // epochs, 'states': found.states}
    for kind, cost in costs.items():
      last = np.searchsorted(spent[kind], cost, side='right') - 1
      pick = found.pick[last]
      regret[kind].append(truth.max() - truth[pick])
      observed[kind].append(table[:, -1].max() - table[pick, -1])
  return {
    kind: Curves(cost, np.array(regret[kind]), np.array(observed[kind]))
    for kind, cost in costs.items()
  }


def mean_and_band(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the mean of samples [N, X] and half its 95 % interval, each [X]."""
  spread = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
  return samples.mean(axis=0), 1.96 * spread
