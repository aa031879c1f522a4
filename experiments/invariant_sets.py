"""Synthetic data that have every symmetry they are tested for, exactly.

Each kind is a function from a random generator to (inputs, labels, symmetries,
grid): what `aen.screen` takes.

Legend: N examples.
"""

import functools
import math
from typing import Any

import numpy as np

import aen
from aen.groups import paper
from aen.groups.orbits import permutation

NUM_EXAMPLES = 96
_SQUARE = ('rotation', 'horizontal_flip', 'vertical_flip')
_LENGTHS = (2, 3, 5, 7, 11, 13, 23)  # of cycles, 64 points in all
_ORDER = math.prod(_LENGTHS)


def _shift(step: int) -> aen.Symmetry:
  return aen.Symmetry(f'shift_by_{step}', lambda x: np.roll(x, step, axis=0))


def _of_large_order() -> aen.Symmetry:
  ends = np.cumsum(_LENGTHS)
  cycles = [np.arange(e - n, e) for n, e in zip(_LENGTHS, ends, strict=True)]
  points = np.concatenate([np.roll(cycle, -1) for cycle in cycles])

  def act(array: np.ndarray) -> np.ndarray:
    return array.ravel()[points].reshape(array.shape)

  return aen.Symmetry('of_large_order', act)


OF_LARGE_ORDER = _of_large_order()


def power(points: np.ndarray, exponent: int) -> np.ndarray:
  """Returns a power of a permutation, by repeated squaring."""
  result = np.arange(points.size)
  while exponent:
    if exponent & 1:
      result = points[result]
    points, exponent = points[points], exponent >> 1
  return result


@functools.cache
def _square_group(side: int) -> np.ndarray:
  """Returns the eight symmetries of the square, [8, side²]."""
  generators = [permutation(name, (side, side)) for name in _SQUARE]
  return np.stack(paper.elements(generators, side * side))


def images(rng: np.random.Generator) -> tuple[Any, ...]:
  """Images of three classes, each under a random symmetry of the square."""
  labels = rng.integers(3, size=NUM_EXAMPLES)
  means = np.random.default_rng(7).normal(size=(3, 36))
  flat = means[labels] + rng.normal(size=(NUM_EXAMPLES, 36))
  elements = _square_group(6)
  chosen = elements[rng.integers(len(elements), size=NUM_EXAMPLES)]
  flat = np.take_along_axis(flat, chosen, axis=1)
  return flat.reshape(NUM_EXAMPLES, 6, 6), labels, _SQUARE, (6, 6)


def fixed_points(rng: np.random.Generator) -> tuple[Any, ...]:
  """The same; the symmetries do not change half of the images at all."""
  inputs, labels, symmetries, grid = images(rng)
  half = inputs[: NUM_EXAMPLES // 2]
  flat = half.reshape(len(half), 36)
  flat = np.mean([flat[:, element] for element in _square_group(6)], axis=0)
  inputs[: len(half)] = flat.reshape(half.shape)
  return inputs, labels, symmetries, grid


def boards(rng: np.random.Generator) -> tuple[Any, ...]:
  """Boards of 3 × 3 binary points, many of them equal by chance."""
  chances = np.random.default_rng(3).random(9)
  flat = (rng.random((NUM_EXAMPLES, 9)) < chances).astype(np.float32)
  elements = _square_group(3)
  chosen = elements[rng.integers(len(elements), size=NUM_EXAMPLES)]
  flat = np.take_along_axis(flat, chosen, axis=1)
  return flat.reshape(NUM_EXAMPLES, 3, 3), None, _SQUARE, (3, 3)


def sequences(rng: np.random.Generator) -> tuple[Any, ...]:
  """Cyclic sequences of 15 steps and two channels, without labels."""
  rising = np.linspace(0, 3, 15)[:, None] * np.array([1.0, -1.0])
  inputs = rising + rng.normal(size=(NUM_EXAMPLES, 15, 2))
  shifts = rng.integers(15, size=NUM_EXAMPLES)
  inputs = np.stack(
    [np.roll(x, k, axis=0) for x, k in zip(inputs, shifts, strict=True)]
  )
  return inputs, None, (_shift(1), _shift(3), _shift(5)), (15,)


def large_orders(rng: np.random.Generator) -> tuple[Any, ...]:
  """Images under a random power of a symmetry of order 690 690."""
  points = permutation(OF_LARGE_ORDER, (8, 8))
  flat = np.arange(64) / 16 + rng.normal(size=(NUM_EXAMPLES, 64))
  powers = rng.integers(_ORDER, size=NUM_EXAMPLES)
  flat = np.stack(
    [x[power(points, int(k))] for x, k in zip(flat, powers, strict=True)]
  )
  return flat.reshape(NUM_EXAMPLES, 8, 8), None, OF_LARGE_ORDER, (8, 8)


KINDS = {
  kind.__name__: kind
  for kind in (images, fixed_points, boards, sequences, large_orders)
}
