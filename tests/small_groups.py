"""Small groups as permutations of points: what the tests know for certain."""

import numpy as np


def cycle(*cycles: tuple[int, ...], size: int) -> np.ndarray:
  """Returns the permutation with the given cycles."""
  permutation = np.arange(size, dtype=np.int32)
  for points in cycles:
    permutation[list(points)] = np.roll(points, -1)
  return permutation


def regular(table: np.ndarray) -> list[np.ndarray]:
  """Returns each element's action on the group itself, from a Cayley table."""
  return [np.asarray(row, np.int32) for row in table]


def cyclic_table(order: int) -> np.ndarray:
  return np.add.outer(np.arange(order), np.arange(order)) % order


def quaternion_table() -> np.ndarray:
  """The Cayley table of Q8 = {±1, ±i, ±j, ±k}: units 0…3, plus 4 for minus."""
  unit = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
  minus = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
  table = np.empty((8, 8), int)
  for a in range(8):
    for b in range(8):
      sign = (a // 4 + b // 4 + minus[a % 4, b % 4]) % 2
      table[a, b] = unit[a % 4, b % 4] + 4 * sign
  return table


# name -> (generators of G1, generators of G2), G = G1 ⋊ G2 or G1 × G2.
PRODUCTS = {
  'S3 = Z3 ⋊ Z2': ([cycle((0, 1, 2), size=3)], [cycle((1, 2), size=3)]),
  'D4 = Z4 ⋊ Z2': ([cycle((0, 1, 2, 3), size=4)], [cycle((1, 3), size=4)]),
  'D5 = Z5 ⋊ Z2': (
    [cycle((0, 1, 2, 3, 4), size=5)],
    [cycle((1, 4), (2, 3), size=5)],
  ),
  'Z3 × Z2 on five points': (
    [cycle((0, 1, 2), size=5)],
    [cycle((3, 4), size=5)],
  ),
  'A4 = V4 ⋊ Z3': (
    [cycle((0, 1), (2, 3), size=4), cycle((0, 2), (1, 3), size=4)],
    [cycle((0, 1, 2), size=4)],
  ),
  'Z2 wr Z3': (
    [cycle((2 * i, 2 * i + 1), size=6) for i in range(3)],
    [cycle((0, 2, 4), (1, 3, 5), size=6)],
  ),
  'Z3 wr Z2': (
    [cycle((0, 1, 2), size=6), cycle((3, 4, 5), size=6)],
    [cycle((0, 3), (1, 4), (2, 5), size=6)],
  ),
}
