"""A whole search on a table of known accuracies, as one program.

Legend: K bits, R networks, E epochs, T rounds, P proposals of a round.
"""

from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.strategies import base


class Trace(NamedTuple):
  """Everything that was proposed, and what it turned out to be worth."""

  states: jax.Array  # int32 [T, P]; unused: `base.NO_STATE`
  epochs: jax.Array  # int32 [T, P]; unused: 0
  values: jax.Array  # float32 [T, P]; unused: 0


def search_table(
  strategy: base.Strategy,
  key: jax.Array,
  table: jax.Array,
  index: jax.Array,
  rounds: int,
) -> tuple[Any, Trace]:
  """Runs a search whose every answer is known: one `lax.scan`.

  Jit it, and vmap it over keys and tables at will. A strategy that finishes
  early idles through the remaining rounds.

  Args:
    strategy: What to run.
    key: Is consumed.
    table: The best validation accuracy of every network within the first e
      epochs, as of `Landscape.table`. float32 [R, E]
    index: The network of every state. int32 [2^K]
    rounds: T.

  Returns:
    The strategy's last state, and the trace.
  """
  table, index = jnp.asarray(table, jnp.float32), jnp.asarray(index)

  def one_round(state: Any, _: None) -> tuple[Any, Trace]:
    state, proposal = strategy.propose(state)
    found = table[index[proposal.states], proposal.epochs - 1]
    values = jnp.where(proposal.states >= 0, found, 0)
    state = strategy.observe(state, proposal, values)
    return state, Trace(proposal.states, proposal.epochs, values)

  begin = strategy.init(key, table[index[0], -1])
  return jax.lax.scan(one_round, begin, length=rounds)


class Progress(NamedTuple):
  """What a search had cost and found, before its first and after each step.

  At the beginning the network without symmetries has been trained. N steps.
  """

  states: np.ndarray  # int64 [N + 1], different states seen
  networks: np.ndarray  # int64 [N + 1], different networks trained
  epochs: np.ndarray  # int64 [N + 1], trained, continuing where one was left
  pick: np.ndarray  # int64 [N + 1], the network with the best value seen


def progress(trace: Trace, table: np.ndarray, index: np.ndarray) -> Progress:
  """Counts along the trace of one search; unused slots are left out."""
  used = np.asarray(trace.states).ravel() >= 0
  states, epochs, values = (np.asarray(x).ravel()[used] for x in trace)
  num_epochs = table.shape[1]
  states = np.concatenate([[0], states])
  epochs = np.concatenate([[num_epochs], epochs])
  values = np.concatenate([table[index[:1], -1], values])
  networks = np.asarray(index)[states]
  spent = [
    _different(np.where(epochs >= e, networks, -1))
    for e in range(1, num_epochs + 1)
  ]
  records = np.concatenate(
    [[True], values[1:] > np.maximum.accumulate(values)[:-1]]
  )
  latest = np.maximum.accumulate(np.where(records, np.arange(len(values)), 0))
  return Progress(
    states=_different(states),
    networks=_different(networks),
    epochs=np.sum(spent, axis=0),
    pick=networks[latest],
  )


def _different(items: np.ndarray) -> np.ndarray:
  """Returns how many different items ≥ 0 came so far."""
  first = np.zeros(len(items), bool)
  first[np.unique(items, return_index=True)[1]] = True
  return np.cumsum(first & (items >= 0))
