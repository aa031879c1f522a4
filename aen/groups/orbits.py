"""Permutations of points, and the orbits they generate.

Permutations are in gather form everywhere: `permuted = points[permutation]`.
Labels are int32, one per point, numbered by first occurrence, so two partitions
are equal exactly when their arrays are.

Orbits need generators only: the orbits of a group are the connected components
of the graph that joins every point to its images under the generators.

Legend: N points (of a pair: N inputs, M outputs), K permutations, C classes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.groups.symmetries import is_permutation
from aen.groups.symmetries import MAX_POINTS

_BLOCK = 2**15  # points or pairs that fit into a processor's cache
_ALONE = np.zeros(1, np.int32)  # the permutation of one output


def pair(perm_in: np.ndarray, perm_out: np.ndarray) -> np.ndarray:
  """Returns the permutation of pairs (input, output) by two permutations.

  The pair (n, m) is point n * M + m, an entry of a dense kernel [N, M] in
  row-major order. A layer is equivariant exactly if its kernel is invariant:
  `kernel.ravel()[pair(p, q)] == kernel.ravel()`.

  >>> pair(np.array([1, 0]), np.array([0, 2, 1])).tolist()
  [3, 5, 4, 0, 2, 1]
  """
  perm_in = as_permutation(perm_in, 'perm_in')
  perm_out = as_permutation(perm_out, 'perm_out')
  check_kernel(perm_in.size, perm_out.size)
  return _pair(perm_in, perm_out)


def _pair(perm_in: np.ndarray, perm_out: np.ndarray) -> np.ndarray:
  rows = perm_in.astype(np.int32) * np.int32(perm_out.size)
  return np.add.outer(rows, perm_out.astype(np.int32)).ravel()


def check_kernel(num_in: int, num_out: int) -> None:
  """Raises if a dense kernel has more entries than int32 can label."""
  if num_in * num_out > MAX_POINTS:
    raise ValueError(
      f'{num_in} inputs × {num_out} outputs are more than 2**31 - 1 kernel'
      ' entries; use smaller grids, or channels (`features`) on them'
    )


def as_permutation(
  values: Any, name: str, num_points: int | None = None
) -> np.ndarray:
  """Returns a permutation, [N], as an array; raises for anything else."""
  found = io_lib.array(values, name)
  expected = found.size if num_points is None else num_points
  if not is_permutation(found, expected):
    raise ValueError(
      f'{name} must hold each of 0…{expected - 1} once, got an array of shape'
      f' {found.shape} and dtype {found.dtype} that does not'
    )
  return found


def orbits(permutations: Iterable[np.ndarray], num_points: int) -> np.ndarray:
  """Labels the orbits of the group that permutations, each [N], generate.

  Returns labels, int32 [N], numbered by first occurrence.

  >>> orbits([np.array([1, 0, 2, 3]), np.array([0, 1, 3, 2])], 4).tolist()
  [0, 0, 1, 1]
  """
  num_points = io_lib.positive(num_points, 'num_points')
  if not isinstance(permutations, Iterable) or isinstance(permutations, str):
    raise ValueError(
      f'permutations must be a list of arrays, got {permutations!r}'
    )
  labels = None
  for k, generator in enumerate(permutations):
    generator = as_permutation(generator, f'permutation {k}', num_points)
    if labels is None:
      labels = _cycles(generator.astype(np.int32))
    else:
      labels = add_pair(labels[:, None], generator, _ALONE)[:, 0]
  return np.arange(num_points, dtype=np.int32) if labels is None else labels


def add_pair(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> np.ndarray:
  """Returns the labels of the orbits of pairs with one more generator.

  Gathering rows, then columns, takes a fraction of the time and memory of the
  permutation of the pairs (see `pair`). The labels, int32 [N, M], are numbered
  by first occurrence in row-major order.
  """
  if labels[-1, -1] == labels.size - 1:  # every pair is alone: cycles
    return _cycles(_pair(perm_in, perm_out)).reshape(labels.shape)
  return _merge(labels, perm_in, perm_out)


def is_invariant(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> bool:
  """Whether a permutation of pairs preserves every class of labels [N, M].

  >>> is_invariant(np.array([[0, 1], [1, 0]]), np.array([1, 0]),
  ...              np.array([1, 0]))
  True
  """
  return all(
    np.array_equal(labels[rows], _permuted(labels, perm_in[rows], perm_out))
    for rows in _blocks(labels.shape)
  )


def join(*labels: np.ndarray) -> np.ndarray:
  """Returns the finest partition that is coarser than all the given ones.

  `orbits(A + B, N) == join(orbits(A, N), orbits(B, N))`.

  >>> join(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
  [0, 0, 0, 1]
  """
  try:
    parts = [np.asarray(part) for part in labels]
  except ValueError:  # rows of different lengths
    parts = [np.asarray(None)]
  if (
    len({part.shape for part in parts}) != 1
    or parts[0].ndim != 1
    or not parts[0].size
    or any(p.dtype.kind not in 'biufUS' or (p != p).any() for p in parts)
  ):
    found = [f'{part.dtype} {part.shape}' for part in parts]
    raise ValueError(
      'join needs labels of the same points: at least one array [N] of numbers'
      f' or text, without NaN, got {found}'
    )
  joined = canonical(parts[0])
  for part in parts[1:]:
    partner = _first_occurrence(canonical(part))
    joined = _merge(joined[:, None], partner, _ALONE)[:, 0]
  return joined


def canonical(labels: np.ndarray) -> np.ndarray:
  """Renumbers labels by first occurrence, as int32."""
  labels = np.asarray(labels)
  if labels.dtype == np.int32 and labels.min() >= 0:
    highest_before = np.maximum.accumulate(labels[:-1])
    if labels[0] == 0 and (labels[1:] <= highest_before + 1).all():
      return labels
  _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
  rank = np.empty(first.size, np.int32)
  rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
  return rank[inverse]


def _gather(values: np.ndarray, index: np.ndarray) -> np.ndarray:
  """Returns `values[index]`, a third faster without the range check."""
  return values.take(index, mode='wrap')


def _first_occurrence(labels: np.ndarray) -> np.ndarray:
  """Returns for each point the first point of its class."""
  first = np.empty(int(labels.max()) + 1, np.int32)
  backwards = np.arange(labels.size - 1, -1, -1, dtype=np.int32)
  first[labels[::-1]] = backwards  # the last write wins: the first point
  return _gather(first, labels)


def _permuted(
  values: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  """Returns `values[rows][:, columns]`."""
  values = values.take(rows, axis=0, mode='clip')
  return values if columns.size == 1 else values.take(columns, 1, mode='clip')


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
  """Yields slices of rows with about `_BLOCK` entries each."""
  height = max(1, _BLOCK // shape[1])
  for start in range(0, shape[0], height):
    yield slice(start, start + height)


def _cycles(labels: np.ndarray) -> np.ndarray:
  """Replaces a permutation, int32 [N], by the labels of its cycles.

  Every point hooks onto its image if that is lower. This cuts each cycle into
  descending runs that end at their lowest points. The permutation maps runs to
  runs, whose cycles are labelled in the same way. At most half of the points
  that are not fixed are ends of runs, since a permutation that ascends more
  often than it descends is replaced by its inverse, which has the same cycles.

  All of this happens in place and in blocks: allocating temporary arrays of N
  points would take longer than computing them.
  """
  descents = ascents = 0
  for points, image in _in_blocks(labels):
    descents += np.count_nonzero(image < points)
    ascents += np.count_nonzero(image > points)
  if descents < ascents:
    inverse = np.empty_like(labels)
    for points, image in _in_blocks(labels):
      inverse[image.astype(np.intp)] = points
    labels, descents = inverse, ascents

  num_runs = 0
  following = np.empty(labels.size - descents, np.int32)  # the run after each
  for points, block in _in_blocks(labels):
    ends = np.flatnonzero(block >= points)
    runs = slice(num_runs, num_runs := num_runs + ends.size)
    following[runs] = _gather(block, ends)
    hooks = np.minimum(block, points).view(np.uint32)
    block[ends] = ~np.arange(runs.start, runs.stop, dtype=np.int32)
    while True:  # hooks lead into this block, or into an earlier one
      block[:] = reached = _gather(labels, hooks)
      if reached.max() < 0:
        break
      # Negative values have reached an end; as uint32, they exceed all hooks.
      np.minimum(hooks, reached.view(np.uint32), out=hooks)
  np.invert(labels, out=labels)
  for _, block in _in_blocks(following):
    block[:] = _gather(labels, block)
  if (following[1:] < following[:-1]).any():  # not the identity
    following = _cycles(following)
    for _, block in _in_blocks(labels):
      block[:] = _gather(following, block)
  return labels


def _in_blocks(values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields points, int32, and a view of their values, `_BLOCK` at a time."""
  for start in range(0, values.size, _BLOCK):
    block = values[start : start + _BLOCK]
    yield np.arange(start, start + block.size, dtype=np.int32), block


def _merge(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> np.ndarray:
  """Joins the class of every pair with the class of its image.

  Vectorised union-find: every class hooks onto its lowest neighbour, chains of
  hooks are followed to their ends, and links within one class are dropped until
  none is left. Hooks only lead downwards, so the root of a class is its lowest
  member, and numbering by first occurrence is preserved. Working in blocks
  bounds the memory, and only the chains that a block meets are followed.
  """
  alone = np.arange(int(labels.max()) + 1, dtype=np.int32)  # [C]
  parent = alone.copy()
  for rows in _blocks(labels.shape):
    left = _gather(parent, labels[rows].ravel())
    right = _permuted(labels, perm_in[rows], perm_out).ravel()
    right = _gather(parent, right)
    while (apart := np.flatnonzero(left != right)).size:
      left, right = _gather(left, apart), _gather(right, apart)
      below, above = _roots(parent, left), _roots(parent, right)
      parent[left], parent[right] = below, above  # shortens chains
      np.minimum.at(parent, np.maximum(below, above), np.minimum(below, above))
      left, right = _gather(parent, below), _gather(parent, above)
  if np.array_equal(parent, alone):
    return labels
  root = _roots(parent, parent)
  rank = np.cumsum(root == alone, dtype=np.int32) - np.int32(1)
  return _gather(_gather(rank, root), labels)


def _roots(parent: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """Follows hooks to their ends."""
  classes = _gather(parent, classes)
  while not np.array_equal(above := _gather(parent, classes), classes):
    classes = above
  return classes
