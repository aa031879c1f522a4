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
  first: int = 6

  def __post_init__(self) -> None:
    super().__post_init__()
    base.check_at_least_one(self, 'first')
    if len(set(self.order)) < len(self.order):
      raise ValueError('order must name every network at most once')


def init(
  config: base.Config, key: jax.Array, baseline: jax.Array
) -> ScreenedState:
  """Begins with the list; the value of the empty state is known."""
  begin = local.init(config, key, baseline)
  return ScreenedState(jnp.int32(0), begin.here, begin.value, begin)


def propose(
  config: base.Config, state: ScreenedState
) -> tuple[ScreenedState, base.Proposal]:
  """Proposes the next of the list, or what local search does."""
  states, slots = _listed(config), base.slots(config.options.per_round)
  _, searched = local.propose(config, state.local)
  if not states.size:
    return state, searched
  places = state.position + slots
  listed = base.full_proposal(
    config,
    jnp.asarray(states).at[places].get(mode='fill', fill_value=base.NO_STATE),
    finished(config, state),
  )
  return state, jax.tree.map(
    lambda first, then: jnp.where(state.position < states.size, first, then),
    listed,
    searched,
  )


def observe(
  config: base.Config,
  state: ScreenedState,
  proposal: base.Proposal,
  values: jax.Array,
) -> ScreenedState:
  """Remembers the best of the list, where local search then begins."""
  in_list = state.position < _listed(config).size
  used = proposal.states >= 0
  first = jnp.where(used, values, -jnp.inf).argmax()
  better = in_list & used.any() & (values[first] > state.best_value)
  best = jnp.where(better, proposal.states[first], state.best)
  best_value = jnp.where(better, values[first], state.best_value)
  searched = local.observe(config, state.local, proposal, values)
  begin = state.local._replace(here=best, value=best_value)
  return ScreenedState(
    position=state.position + in_list * used.sum(dtype=jnp.int32),
    best=best,
    best_value=best_value,
    local=local.select(in_list, begin, searched),
  )


def finished(config: base.Config, state: ScreenedState) -> jax.Array:
  """Whether all networks are seen."""
  return local.finished(config, state.local)


def _listed(config: base.Config) -> np.ndarray:
  """Returns the states to visit first. int32 [N]."""
  table, options = config.table, config.options
  if any(not 0 <= network < len(table) for network in options.order):
    raise ValueError(
      f'order must hold networks from 0 to {len(table) - 1}, got'
      f' {options.order}'
    )
  baseline = int(table.network_of[0])
  order = [network for network in options.order if network != baseline]
  return table.shortest_states[order[: options.first]].astype(np.int32)


SCREENED = base.Method(Screened, init, propose, observe, finished)
