"""Data with exactly known symmetries: G-data sets and synthetic data.

Each kind of synthetic data has every symmetry that it is tested for. It is a
function of a random generator that returns inputs, labels, symmetries and grid,
the arguments of `aen.screen`.

Legend: N examples, P points.
"""

from collections import Counter
from collections.abc import Sequence
import functools
import math
from typing import Any

import numpy as np

import aen
from aen.data import transform
from aen.groups import paper
from aen.groups.symmetries import PAPER_SYMMETRIES

NUM_EXAMPLES = 96
_SQUARE = ('rotation', 'horizontal_flip', 'vertical_flip')
_LENGTHS = (2, 3, 5, 7, 11, 13, 23)  # of cycles, 64 points in all
_ORDER = math.prod(_LENGTHS)


def _shift(step: int) -> aen.Symmetry:
  return aen.Symmetry(f'shift_by_{step}', lambda x: np.roll(x, step, axis=0))


_CYCLES = np.split(np.arange(sum(_LENGTHS)), np.cumsum(_LENGTHS)[:-1])
_POINTS = np.concatenate([np.roll(cycle, -1) for cycle in _CYCLES])
OF_LARGE_ORDER = aen.Symmetry(
  'of_large_order', lambda array: array.ravel()[_POINTS].reshape(array.shape)
)


def power(points: np.ndarray, exponent: int) -> np.ndarray:
  """Returns a power of a permutation, by repeated squaring."""
  result = np.arange(points.size)
  while exponent:
    if exponent & 1:
      result = points[result]
    points, exponent = points[points], exponent >> 1
  return result


def randomly_transformed(
  rng: np.random.Generator,
  flat: np.ndarray,
  elements: Sequence[np.ndarray] | np.ndarray,
) -> np.ndarray:
  """Applies a random group element to each example of `flat` [N, P]."""
  chosen = np.asarray(elements)[rng.integers(len(elements), size=len(flat))]
  return np.take_along_axis(flat, chosen, axis=1)


@functools.cache
def _square_group(side: int) -> np.ndarray:
  """Returns the eight symmetries of the square, [8, side²]."""
  generators = [aen.permutation(name, (side, side)) for name in _SQUARE]
  return np.stack(paper.elements(generators, side * side))


def images(rng: np.random.Generator) -> tuple[Any, ...]:
  """Images of three classes, randomly transformed by the square's group."""
  labels = rng.integers(3, size=NUM_EXAMPLES)
  means = np.random.default_rng(7).normal(size=(3, 36))
  flat = means[labels] + rng.normal(size=(NUM_EXAMPLES, 36))
  flat = randomly_transformed(rng, flat, _square_group(6))
  return flat.reshape(NUM_EXAMPLES, 6, 6), labels, _SQUARE, (6, 6)


def fixed_points(rng: np.random.Generator) -> tuple[Any, ...]:
  """The same, but the symmetries leave half of the images unchanged."""
  inputs, labels, symmetries, grid = images(rng)
  half = inputs[: NUM_EXAMPLES // 2]
  flat = half.reshape(len(half), 36)
  flat = np.mean([flat[:, element] for element in _square_group(6)], axis=0)
  inputs[: len(half)] = flat.reshape(half.shape)
  return inputs, labels, symmetries, grid


def boards(rng: np.random.Generator) -> tuple[Any, ...]:
  """Boards of 3 × 3 binary points, many of which are equal by chance."""
  chances = np.random.default_rng(3).random(9)
  flat = (rng.random((NUM_EXAMPLES, 9)) < chances).astype(np.float32)
  flat = randomly_transformed(rng, flat, _square_group(3))
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
  """Images transformed by random powers of a symmetry of order 690 690."""
  points = aen.permutation(OF_LARGE_ORDER, (8, 8))
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


def true_symmetries(name: str, side: int = 28) -> tuple[str, ...]:
  """Returns the exact symmetries of the images of a config.

  An image is x[p], for a random product p of generators. Its distribution is
  invariant under h if p and p[h] have the same distribution. Rotation by any
  angle counts as a uniformly random rotation by a multiple of 90°, which leaves
  its distribution invariant. The original images x are assumed to have none of
  the symmetries.

  >>> true_symmetries('aug3', side=12)
  ('top_horizontal_scramble',)
  """
  config = transform.config(name)
  identity = np.arange(side * side, dtype=np.int32)
  products = [identity]
  for own in config.symmetries:
    points = aen.permutation(own, (side, side))
    if config.as_published and 'translation' in own:
      axis = int(own.startswith('horizontal'))
      points = aen.permutation(lambda x, a=axis: np.roll(x, 1, a), (side, side))
    powers = [identity, points]
    if not config.as_published or own == 'rotation':
      powers = paper.elements([points], points.size)
    products = [p[power] for p in products for power in powers]
  law = Counter(p.tobytes() for p in products)

  def transformed(symmetry: str) -> Counter[bytes]:
    points = aen.permutation(symmetry, (side, side))
    return Counter(p[points].tobytes() for p in products)

  return tuple(s for s in PAPER_SYMMETRIES if transformed(s) == law)
