"""Search strategies: one interface, propose → observe, all pure."""

from collections.abc import Callable
import dataclasses
import difflib
import inspect

import numpy as np

from aen.search.agent import DQNConfig
from aen.search.strategies.base import count
from aen.search.strategies.base import Counts
from aen.search.strategies.base import NO_STATE
from aen.search.strategies.base import Proposal
from aen.search.strategies.base import Strategy
from aen.search.strategies.deep_q import dqn
from aen.search.strategies.evolution import evolution
from aen.search.strategies.halving import halving
from aen.search.strategies.local import local
from aen.search.strategies.sweeps import exhaustive
from aen.search.strategies.sweeps import random

# name -> factory(num_bits, *, network_of, epochs, per_round=…, **options)
STRATEGIES: dict[str, Callable[..., Strategy]] = {
  'exhaustive': exhaustive,
  'random': random,
  'evolution': evolution,
  'local': local,
  'halving': halving,
  'dqn': dqn,
}

__all__ = (
  'NO_STATE',
  'STRATEGIES',
  'Counts',
  'Proposal',
  'Strategy',
  'count',
  'make',
)


def make(
  name: str,
  num_bits: int,
  *,
  network_of: np.ndarray,
  epochs: int,
  **options: object,
) -> Strategy:
  """Returns a strategy by name.

  Args:
    name: One of `STRATEGIES`.
    num_bits: The number of symmetries, K.
    network_of: The network of every state, as of `aen.Lattice`. int32 [2^K]
    epochs: How many epochs a network trains for.
    **options: The strategy's own; `per_round` is the number of states it
      proposes at once.

  Returns:
    The strategy.
  """
  if name not in STRATEGIES:
    near = difflib.get_close_matches(name, STRATEGIES, 1)
    hint = f'; did you mean {near[0]!r}?' if near else ''
    raise ValueError(
      f'strategy must be one of {", ".join(STRATEGIES)}, got {name!r}{hint}'
    )
  known = _options(STRATEGIES[name])
  for option in options:
    if option not in known:
      raise ValueError(
        f'{name} has no option {option!r}; it has {", ".join(known)}'
      )
  return STRATEGIES[name](
    num_bits, network_of=network_of, epochs=epochs, **options
  )


def _options(factory: Callable[..., Strategy]) -> list[str]:
  names = list(inspect.signature(factory).parameters)
  fields = [field.name for field in dataclasses.fields(DQNConfig)]
  names += fields if factory is dqn else []
  hidden = ('num_bits', 'network_of', 'epochs', 'options')
  return [name for name in names if name not in hidden]
