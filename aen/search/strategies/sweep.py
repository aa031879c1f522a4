"""Strategies that go through a list of states: exhaustive, random, halving.

Successive halving goes through its list several times: short trainings of many
networks, then longer ones of the best. Each time is a rung; the others have
one.

Legend: N states in the list, R networks, P proposals of a round.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.search.strategies import base


class SweepState(NamedTuple):
  """The list, best first after each rung, and what this rung has found."""

  order: jax.Array  # int32 [N]
  values: jax.Array  # float32 [N], -inf where not yet trained on this rung
  round: jax.Array  # int32 []
  counts: base.Counts


@dataclasses.dataclass(frozen=True)
class Exhaustive(base.Options):
  """Every network once, each by its shortest state, in order."""


@dataclasses.dataclass(frozen=True)
class Random(base.Options):
  """Every network once, in random order.

  Attributes:
    distinct: Whether to draw from the R networks. False draws from the 2^K
      states, none twice, which favours networks that many states share.
  """

  distinct: bool = True


@dataclasses.dataclass(frozen=True)
class Halving(base.Options):
  """Successive halving over epochs.

  Attributes:
    factor: Each rung trains 1/factor of the networks factor times as long.
    candidates: Networks on the first rung, drawn at random; all by default.
  """

  factor: int = 2
  candidates: int | None = None

  def __post_init__(self) -> None:
    super().__post_init__()
    base.check_at_least(1, candidates=self.candidates)
    base.check_at_least(2, factor=self.factor)


def init(
  config: base.Config, key: jax.Array, baseline: jax.Array
) -> SweepState:
  """Lists the states; but for `Exhaustive`, the key decides on their order."""
  del baseline
  states, count = config.table.shortest_states, int(_rungs(config).size[0])
  if isinstance(config.options, Random) and not config.options.distinct:
    states = np.arange(config.table.network_of.size, dtype=np.int32)
  order = jnp.asarray(states)
  if not isinstance(config.options, Exhaustive):
    order = jax.random.permutation(key, states)[:count]
  return SweepState(
    order=order,
    values=jnp.full(count, -jnp.inf),
    round=jnp.int32(0),
    counts=base.no_counts(config),
  )


def propose(
  config: base.Config, state: SweepState
) -> tuple[SweepState, base.Proposal]:
  """Proposes the next P states of the rung."""
  now = _now(config, state)
  used = now.places < now.size
  states = jnp.where(used, state.order[now.places], base.NO_STATE)
  return state, base.Proposal(states, jnp.where(used, now.epochs, 0))


def observe(
  config: base.Config,
  state: SweepState,
  proposal: base.Proposal,
  values: jax.Array,
) -> SweepState:
  """Keeps the values; sorts the list at the end of a rung."""
  now, used = _now(config, state), proposal.states >= 0
  places = jnp.where(used, now.places, state.order.size)  # not written
  found = state.values.at[places].set(values, mode='drop')
  order = state.order
  if _rungs(config).size.size > 1:
    over = used.any() & (now.places[-1] + 1 >= now.size)
    order = jnp.where(over, order[jnp.argsort(-found)], order)  # stable
    found = jnp.where(over, -jnp.inf, found)
  return SweepState(
    order=order,
    values=found,
    round=state.round + used.any(),
    counts=base.count(config, state.counts, proposal.states),
  )


def finished(config: base.Config, state: SweepState) -> jax.Array:
  """Whether the last rung is over."""
  return state.round >= _rungs(config).end[-1]


def rungs(candidates: int, epochs: int, factor: int) -> list[tuple[int, int]]:
  """Returns (networks, epochs) of each rung of successive halving.

  >>> rungs(216, 4, 2)
  [(216, 1), (108, 2), (54, 4)]
  """
  lengths = [epochs]
  while lengths[-1] >= factor:
    lengths.append(lengths[-1] // factor)
  return [
    (-(-candidates // factor**i), length)
    for i, length in enumerate(reversed(lengths))
  ]


class _Rungs(NamedTuple):
  """All rungs, known in advance."""

  size: np.ndarray  # int32 [rungs], the states it trains, first in the list
  epochs: np.ndarray  # int32 [rungs]
  end: np.ndarray  # int32 [rungs], the round after its last


def _rungs(config: base.Config) -> _Rungs:
  table, options = config.table, config.options
  found = [(len(table), config.epochs)]
  if isinstance(options, Random) and not options.distinct:
    found = [(table.network_of.size, config.epochs)]
  elif isinstance(options, Halving):
    candidates = min(options.candidates or len(table), len(table))
    found = rungs(candidates, config.epochs, options.factor)
  size, epochs = np.array(found, np.int32).T
  rounds = -(-size // options.per_round)
  return _Rungs(size, epochs, np.cumsum(rounds, dtype=np.int32))


class _Now(NamedTuple):
  """What a round trains; beyond the end, places beyond the last rung."""

  places: jax.Array  # int32 [P], in the list
  size: jax.Array  # int32 [], of the rung
  epochs: jax.Array  # int32 []


def _now(config: base.Config, state: SweepState) -> _Now:
  size, epochs, end = (jnp.asarray(column) for column in _rungs(config))
  rung = jnp.minimum((state.round >= end).sum(), size.size - 1)
  begin = jnp.where(rung > 0, end[rung - 1], 0)
  first = (state.round - begin) * config.options.per_round
  places = first + base.slots(config.options.per_round)
  return _Now(places, size[rung], epochs[rung])


EXHAUSTIVE = base.Method(Exhaustive, init, propose, observe, finished)
RANDOM = base.Method(Random, init, propose, observe, finished)
HALVING = base.Method(Halving, init, propose, observe, finished)
