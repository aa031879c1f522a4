"""Search strategies: one interface, propose → observe, all pure."""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.search import space as space_lib
from aen.search.strategies import base
from aen.search.strategies import dqn
from aen.search.strategies import evolution
from aen.search.strategies import local
from aen.search.strategies import sweep

NO_STATE = base.NO_STATE
Strategy = base.Strategy
STRATEGIES: Mapping[str, base.Method] = {
  'exhaustive': sweep.EXHAUSTIVE,
  'random': sweep.RANDOM,
  'evolution': evolution.EVOLUTION,
  'local': local.LOCAL,
  'screened': local.SCREENED,
  'halving': sweep.HALVING,
  'dqn': dqn.DQN,
}


def option_names(name: str) -> tuple[str, ...]:
  """Returns the options of a strategy, or says which strategies there are."""
  if name not in STRATEGIES:
    raise io_lib.unknown('strategy', name, STRATEGIES)
  fields = dataclasses.fields(STRATEGIES[name].options)  # type: ignore[arg-type]
  return tuple(f.name for f in fields if f.name != 'num_bits')


def make(
  name: str,
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  config: Any = None,
  **options: Any,
) -> Strategy:
  """Returns a strategy by name, one of `STRATEGIES`.

  Args:
    name: Of the strategy.
    num_bits: K.
    network_of: The network of every state, as in `aen.Lattice`. int32 [2^K]
    epochs: How long a network is trained.
    config: The strategy's options as their dataclass, such as `DQNConfig`.
    **options: Fields of that dataclass to change.
  """
  known = option_names(name)
  for option in options:
    if option not in known:
      raise ValueError(
        f'{name} has no option {option!r}; it has {", ".join(known)}'
      )
  network_of = np.asarray(network_of)
  if network_of.shape != (2**num_bits,) or network_of.dtype.kind not in 'iu':
    raise ValueError(
      f'network_of must be the network of each of the {2**num_bits} states of'
      f' {num_bits} bits, as in aen.Lattice, got {network_of.dtype}'
      f' {network_of.shape}'
    )
  base.check_at_least(1, epochs=epochs)
  method = STRATEGIES[name]
  config = dataclasses.replace(config or method.options(), **options)
  if hasattr(config, 'num_bits'):
    config = dataclasses.replace(config, num_bits=num_bits)
  bits = tuple(map(str, range(num_bits)))
  table = space_lib.Table(bits, network_of.astype(np.int32))
  whole = base.Config(table, epochs, config)
  bound: list[Any] = [fn and functools.partial(fn, whole) for fn in method[1:]]
  return Strategy(*bound)
