"""Screened search: networks in an order known beforehand, then local search.

The order is that of a screening of the data, `Screening.order`: networks whose
symmetries the data have come first. See `aen.screen`.

Legend: N networks in the list, R networks, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.strategies import base
from aen.search.strategies import local


class ScreenedState(NamedTuple):
  """The position in the list, the best of it, and the local search."""

  position: jax.Array  # int32 []
  best: jax.Array  # int32 [], a state
  best_value: jax.Array  # float32 []
  local: local.LocalState

  @property
  def counts(self) -> base.Counts:
    """The cost so far."""
    return self.local.counts


@dataclasses.dataclass(frozen=True)
class Screened(local.Local):
  """The first networks of a list, then local search from the best of them.

  Attributes:
    per_round: States proposed at once, P.
    order: Networks, most promising first, as of `Screening.order`; the baseline
      need not be among them. With none, this is local search.
    first: How many of the list to visit, the baseline not counted.
  """

  order: tuple[int, ...] = ()
  first: int = 8

  def __post_init__(self) -> None:
    super().__post_init__()
    base.check_at_least_one(self, 'first')
    if len(set(self.order)) < len(self.order):
      raise ValueError('order must name every network at most once')


def init(
  problem: base.Problem, options: Screened, key: jax.Array, baseline: jax.Array
) -> ScreenedState:
  """Begins with the list; the value of the empty state is known."""
  begin = local.init(problem, options, key, baseline)
  return ScreenedState(jnp.int32(0), begin.here, begin.value, begin)


def propose(
  problem: base.Problem, options: Screened, state: ScreenedState
) -> tuple[ScreenedState, base.Proposal]:
  """Proposes the next of the list, or what local search does."""
  _, proposal = local.propose(problem, options, state.local)
  states = _list(problem, options)
  if not states.size:
    return state, proposal
  listed = (
    jnp.asarray(states)
    .at[state.position + base.slots(options.per_round)]
    .get(mode='fill', fill_value=base.NO_STATE)
  )
  listed = base.full_proposal(problem, listed)
  in_list = state.position < states.size
  return state, jax.tree.map(
    lambda a, b: jnp.where(in_list, a, b), listed, proposal
  )


def observe(
  problem: base.Problem,
  options: Screened,
  state: ScreenedState,
  proposal: base.Proposal,
  values: jax.Array,
) -> ScreenedState:
  """Remembers the best of the list, where local search then begins."""
  size = _list(problem, options).size
  in_list = state.position < size
  searched = local.observe(problem, options, state.local, proposal, values)
  used = proposal.states >= 0
  first = jnp.where(used, values, -jnp.inf).argmax()
  better = used.any() & (values[first] > state.best_value)
  best = jnp.where(better, proposal.states[first], state.best)
  best_value = jnp.where(better, values[first], state.best_value)
  position = state.position + used.sum(dtype=jnp.int32)
  begin = state.local._replace(here=best, value=best_value)
  after = local.select(in_list, begin, searched)._replace(
    counts=searched.counts
  )
  return ScreenedState(
    position=jnp.where(in_list, position, state.position),
    best=jnp.where(in_list, best, state.best),
    best_value=jnp.where(in_list, best_value, state.best_value),
    local=after,
  )


def finished(
  problem: base.Problem, options: Screened, state: ScreenedState
) -> jax.Array:
  """Whether all networks are seen."""
  return local.finished(problem, options, state.local)


def _list(problem: base.Problem, options: Screened) -> np.ndarray:
  """Returns the states to visit first. int32 [N]."""
  baseline = int(problem.table.network_of[0])
  order = [network for network in options.order if network != baseline]
  return problem.table.shortest_states[order[: options.first]].astype(np.int32)


SCREENED = base.Method(Screened, init, propose, observe, finished)
