"""Checks of what users give."""

from typing import Any

import numpy as np


def positive(value: Any, name: str) -> int:
  """Returns a whole number of at least 1, or says what is wrong with it."""
  if not isinstance(value, int | np.integer) or value < 1:
    raise ValueError(
      f'{name} must be a whole number of at least 1, got {value!r}'
    )
  return int(value)
