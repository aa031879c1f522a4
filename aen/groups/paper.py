"""The paper's Alg. 1 and Alg. 2, literally: oracles and baselines, slow."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.groups.orbits import as_permutation


def elements(
  permutations: Iterable[np.ndarray], num_points: int, limit: int = 10**6
) -> list[np.ndarray]:
  """Enumerates the group that permutations, each [N], generate.

  Returns its elements, each int32 [N], the identity first; raises a ValueError
  if there are more than `limit`. Only Alg. 2, tests and benchmarks need this.
  """
  generators = [np.asarray(p, np.int32) for p in permutations]
  identity = np.arange(num_points, dtype=np.int32)
  found = {identity.tobytes(): identity}
  frontier = [identity]
  while frontier:
    products = [g[p] for p in frontier for g in generators]
    frontier = []
    for product in products:
      if found.setdefault(product.tobytes(), product) is product:
        frontier.append(product)
    if len(found) > limit:
      raise ValueError(
        f'the group has more than limit={limit} elements; its orbits need only'
        ' generators: use aen.orbits, or raise the limit'
      )
  return list(found.values())


def alg1(
  groups: Sequence[Sequence[Sequence[int]]], num_points: int
) -> np.ndarray:
  """The paper's Alg. 1, as printed.

  Args:
    groups: G_array. One list of permutations per group, each a table with
      `g[index]` = Γ_g(index). Tables are fastest as lists of ints.
    num_points: N, the length of V, I and L.

  Returns:
    I, int32 [N]. (The paper also returns C and calls it the number of weights;
    as printed, C is the number of orbits minus one.)
  """
  tables = [g for group in _listed(groups) for g in _listed(group)]
  num_points = _check(tables, num_points)
  visited = [-1] * num_points  # V
  labels = list(range(num_points))  # I
  count = -1  # C
  for i in range(num_points):
    if visited[i] < 0:
      visited[i] = 1
      queue = [i]
      count += 1
      while queue:
        index = queue.pop()
        labels[index] = count
        for group in groups:
          for g in group:
            index_g = g[index]
            if visited[index_g] < 0:
              visited[index_g] = 1
              queue.append(index_g)
              labels[index_g] = count
  return np.array(labels, np.int32)


def alg2(
  elements: Sequence[Sequence[int]], num_points: int, as_printed: bool = False
) -> np.ndarray:
  """The paper's Alg. 2, repaired unless `as_printed`.

  As printed, no point is ever marked as visited, so an orbit is labelled again
  from each of its points, and the labels are wrong.

  Args:
    elements: All elements of the group (not generators), as in `alg1`.
    num_points: N.
    as_printed: Whether to omit the line that marks points, as the paper does.

  Returns:
    I, int32 [N].
  """
  num_points = _check(elements, num_points)
  visited = [-1] * num_points
  labels = list(range(num_points))
  count = -1
  for i in range(num_points):
    if visited[i] < 0:
      count += 1
      for g in elements:
        index_g = g[i]
        labels[index_g] = count
        if not as_printed:
          visited[index_g] = 1
  return np.array(labels, np.int32)


def _listed(given: Any) -> list[Any]:
  if not isinstance(given, Iterable):
    raise ValueError(f'expected lists of permutations, got {given!r}')
  return list(given)


def _check(tables: Iterable[Sequence[int]], num_points: int) -> int:
  """Returns the number of points; raises unless all tables permute them."""
  num_points = io_lib.positive(num_points, 'num_points')
  for table in _listed(tables):
    as_permutation(table, 'a permutation', num_points)
  return num_points
