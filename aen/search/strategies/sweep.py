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
from aen.search.strategies.base import Config
from aen.search.strategies.base import Proposal


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


def init(config: Config, key: jax.Array, baseline: jax.Array) -> SweepState:
  """Lists the states; but for `Exhaustive`, the key decides on their order."""
  del baseline
  states, (count, _) = config.table.shortest_states, _rungs(config)[0]
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


def propose(config: Config, state: SweepState) -> tuple[SweepState, Proposal]:
  """Proposes the next P states of the rung."""
  places, size, epochs = _now(config, state)
  used = places < size
  states = jnp.where(used, state.order[places], base.NO_STATE)
  return state, Proposal(states, jnp.where(used, epochs, 0))


def observe(
  config: Config, state: SweepState, proposal: Proposal, values: jax.Array
) -> SweepState:
  """Keeps the values; sorts the list at the end of a rung."""
  (places, size, _), used = _now(config, state), proposal.states >= 0
  written = jnp.where(used, places, state.order.size)  # beyond it: dropped
  found = state.values.at[written].set(values, mode='drop')
  order = state.order
  if len(_rungs(config)) > 1:
    over = used.any() & (places[-1] + 1 >= size)
    order = jnp.where(over, order[jnp.argsort(-found)], order)  # stable
    found = jnp.where(over, -jnp.inf, found)
  return SweepState(
    order=order,
    values=found,
    round=state.round + used.any(),
    counts=base.count(config, state.counts, proposal.states),
  )


def finished(config: Config, state: SweepState) -> jax.Array:
  """Whether the last rung is over."""
  return state.round >= len(_rounds(config)) - 1


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


def _rungs(config: Config) -> list[tuple[int, int]]:
  table, options = config.table, config.options
  if isinstance(options, Halving):
    candidates = min(options.candidates or len(table), len(table))
    return rungs(candidates, config.epochs, options.factor)
  every_state = isinstance(options, Random) and not options.distinct
  return [(table.network_of.size if every_state else len(table), config.epochs)]


def _rounds(config: Config) -> np.ndarray:
  """Returns the first place, the rung's size and epochs of every round.

  The row after the last round trains nothing. int32 [rounds + 1, 3]
  """
  rounds = [
    (first, size, epochs)
    for size, epochs in _rungs(config)
    for first in range(0, size, config.options.per_round)
  ]
  return np.array([*rounds, (0, 0, 0)], np.int32)


def _now(config: Config, state: SweepState) -> tuple[jax.Array, ...]:
  """Returns this round's places in the list [P], its rung's size and epochs."""
  first, size, epochs = jnp.asarray(_rounds(config))[state.round]
  return first + base.slots(config.options.per_round), size, epochs


EXHAUSTIVE = base.Method(Exhaustive, init, propose, observe, finished)
RANDOM = base.Method(Random, init, propose, observe, finished)
HALVING = base.Method(Halving, init, propose, observe, finished)
