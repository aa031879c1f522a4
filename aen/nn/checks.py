"""Checks of arguments that layers and networks share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aen import io as io_lib


def choice(value: Any, name: str, known: Sequence[str | None]) -> None:
  """Raises unless a value is one of those that are known."""
  if not isinstance(value, str | None) or value not in known:
    raise ValueError(f'{name} must be one of {known}, got {value!r}')


def one_each(
  value: Any, count: int, name: str, what: str = 'layer'
) -> tuple[int, ...]:
  """Returns one positive integer per layer or axis, a single one repeated."""
  numbers = (value,) * count if np.ndim(value) == 0 else tuple(value)
  if len(numbers) != count:
    raise ValueError(
      f'{name} must be one number, or one per {what} ({count}), got {value!r}'
    )
  return tuple(io_lib.positive(number, name) for number in numbers)
