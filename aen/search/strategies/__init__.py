"""Search strategies: one interface, propose → observe, all pure."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.search import agent as agent_lib
from aen.search import space as space_lib
from aen.search.strategies import base
from aen.search.strategies import dqn
from aen.search.strategies import evolution
from aen.search.strategies import local
from aen.search.strategies import sweep

NO_STATE = base.NO_STATE
Strategy = base.Strategy
STRATEGIES: Mapping[str, type[Strategy]] = {
  'exhaustive': sweep.Exhaustive,
  'random': sweep.Random,
  'evolution': evolution.Evolution,
  'local': local.Local,
  'screened': local.Local,  # with options of `Screening.guide`
  'halving': sweep.Halving,
  'dqn': dqn.DQN,
}


def option_names(name: str, *given: str) -> tuple[str, ...]:
  """Returns the names of a strategy's options.

  Raises a ValueError if the strategy, or an option that is given, is unknown.
  """
  if name not in STRATEGIES:
    raise io_lib.unknown('strategy', name, STRATEGIES)
  common = {field.name for field in dataclasses.fields(Strategy)}
  fields = dataclasses.fields(STRATEGIES[name])
  known = tuple(f.name for f in fields if f.name not in common)
  for option in given:
    if option not in known:
      raise ValueError(
        f'{name} has no option {option!r}; it has {", ".join(known)}'
      )
  return known


def make(
  name: str,
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  config: agent_lib.DQNConfig | None = None,
  **options: Any,
) -> Strategy:
  """Returns a strategy by name, one of `STRATEGIES`.

  Args:
    name: The strategy.
    num_bits: The number of bits of a state, K.
    network_of: The network of every state, as in `aen.Lattice`. int32 [2^K]
    epochs: How long a network is trained.
    config: All options of 'dqn' at once.
    **options: Fields of the strategy's dataclass.
  """
  option_names(name, *options)
  network_of = np.asarray(network_of)
  if network_of.shape != (2**num_bits,) or network_of.dtype.kind not in 'iu':
    raise ValueError(
      f'network_of must be the network of each of the {2**num_bits} states of'
      f' {num_bits} bits, as in aen.Lattice, got {network_of.dtype}'
      f' {network_of.shape}'
    )
  bits = tuple(map(str, range(num_bits)))
  table = space_lib.Table(bits, network_of.astype(np.int32))
  given = {'num_bits': num_bits, 'table': table, 'epochs': epochs}
  fields = (vars(config) if config else {}) | options | given
  try:
    return STRATEGIES[name](**fields)
  except TypeError as error:
    raise ValueError(
      f'an option of {name} has the wrong type ({error}), got {options}'
    ) from error
