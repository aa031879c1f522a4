"""Permutations of points, and the orbits they generate.

Permutations are in gather form everywhere: `permuted = points[permutation]`.
Labels are int32, one per point, numbered by first occurrence, so two partitions
are equal exactly when their arrays are.

Orbits need generators only: the orbits of a group are the connected components
of the graph that joins every point to its images under the generators.

Legend: N points (of a pair: N inputs, M outputs), K permutations, C classes.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import math
import sys

import numpy as np

from aen.groups import symmetries as symmetries_lib

MAX_POINTS = np.iinfo(np.int32).max
_BLOCK = 2**16  # points or pairs that are joined at once


def permutation(
  symmetry: symmetries_lib.SymmetryLike, shape: Sequence[int]
) -> np.ndarray:
  """Returns a symmetry as a permutation of a grid's points.

  Args:
    symmetry: A name, a function of an array, or a `Symmetry`.
    shape: The grid.

  Returns:
    p, int32 [N], such that `symmetry(x).ravel() == x.ravel()[p]`.

  >>> permutation('horizontal_flip', (2, 3)).tolist()
  [2, 1, 0, 5, 4, 3]
  """
  found = symmetries_lib.as_symmetries(symmetry)
  if len(found) != 1:
    raise ValueError(
      f'permutation takes one symmetry, got {len(found)}; call it for each'
    )
  (symmetry,) = found
  shape = as_shape(shape)
  points = np.arange(math.prod(shape), dtype=np.int32)
  permuted = _apply(symmetry, points.reshape(shape))
  if not _is_permutation(permuted, points.size):
    raise ValueError(
      f'{symmetry.name} is no symmetry of the grid {shape}: a symmetry permutes'
      ' the entries, but here entries are lost, doubled or altered; rearrange'
      ' the array without changing its values'
    )
  if not np.array_equal(permuted, _apply(symmetry, points.reshape(shape))):
    raise ValueError(
      f'{symmetry.name} permuted the grid {shape} in two different ways when'
      ' called twice; a symmetry must be deterministic (no random numbers)'
    )
  return permuted.astype(np.int32)


def _apply(symmetry: symmetries_lib.Symmetry, points: np.ndarray) -> np.ndarray:
  """Returns the permuted points, flat."""
  # A function may use jax.numpy, also where a layer is being traced.
  jax = sys.modules.get('jax')
  try:
    with jax.ensure_compile_time_eval() if jax else contextlib.nullcontext():
      result = symmetry(points)
    permuted = None if result is None else np.asarray(result)
  except Exception as error:
    if isinstance(error, ValueError) and symmetry.name in str(error):
      raise  # already explains why it cannot act
    why = f'{type(error).__name__}: {str(error).splitlines()[0]}'
    raise ValueError(
      f'{symmetry.name} cannot act on the grid {points.shape}: {why}'
    ) from error
  if permuted is None or permuted.shape != points.shape:
    got = None if permuted is None else permuted.shape
    raise ValueError(
      f'{symmetry.name} must return an array of the shape it was given,'
      f' expected {points.shape}, got {got}'
    )
  return permuted.ravel()


def as_shape(shape: Sequence[int] | int) -> tuple[int, ...]:
  """Returns a grid as a tuple of positive ints."""
  sides = np.atleast_1d(np.asarray(shape))
  if (
    sides.dtype.kind not in 'iu'
    or sides.ndim != 1
    or not sides.size
    or sides.min() < 1
    or math.prod(sides.tolist()) > MAX_POINTS
  ):
    raise ValueError(
      'a grid is a tuple of positive whole numbers with at most 2**31 - 1'
      f' points, got {shape!r}'
    )
  return tuple(sides.tolist())


def _is_permutation(values: np.ndarray, num_points: int) -> bool:
  if values.shape != (num_points,) or values.dtype.kind not in 'iu':
    return False
  if values.min() < 0 or values.max() >= num_points:
    return False
  seen = np.zeros(num_points, bool)
  seen[values] = True
  return bool(seen.all())


def pair(perm_in: np.ndarray, perm_out: np.ndarray) -> np.ndarray:
  """Returns how two permutations together permute the pairs (input, output).

  The pair (n, m) is point n * M + m, an entry of a dense kernel [N, M] in
  row-major order. A layer is equivariant exactly if its kernel is invariant:
  `kernel.ravel()[pair(p, q)] == kernel.ravel()`.

  >>> pair(np.array([1, 0]), np.array([0, 2, 1])).tolist()
  [3, 5, 4, 0, 2, 1]
  """
  perm_in = np.asarray(perm_in, np.int32)
  perm_out = np.asarray(perm_out, np.int32)
  if perm_in.size * perm_out.size > MAX_POINTS:
    raise ValueError(
      f'{perm_in.size} inputs × {perm_out.size} outputs are more than 2**31 - 1'
      ' kernel entries; use smaller grids, or channels (`features`) on them'
    )
  rows = perm_in * np.int32(perm_out.size)
  return np.add.outer(rows, perm_out).ravel()


def orbits(permutations: Iterable[np.ndarray], num_points: int) -> np.ndarray:
  """Labels the orbits of the group that permutations generate.

  Args:
    permutations: Generators, each [N], in any order; redundant ones do no
      harm.
    num_points: N.

  Returns:
    Labels, int32 [N], numbered by first occurrence.

  >>> orbits([np.array([1, 0, 2, 3]), np.array([0, 1, 3, 2])], 4).tolist()
  [0, 0, 1, 1]
  """
  (num_points,) = as_shape(num_points)
  labels = np.arange(num_points, dtype=np.int32)
  for k, permutation_k in enumerate(permutations):
    permutation_k = np.asarray(permutation_k)
    if not _is_permutation(permutation_k, num_points):
      raise ValueError(
        f'permutation {k} must hold each of 0…{num_points - 1} once, got an'
        f' array of shape {permutation_k.shape} and dtype {permutation_k.dtype}'
        ' that does not'
      )
    labels = add_generator(labels, permutation_k)
  return labels


def add_generator(labels: np.ndarray, generator: np.ndarray) -> np.ndarray:
  """Returns the labels of the orbits with one more generator."""
  alone = np.zeros(1, np.int32)
  return add_pair(labels[:, None], generator, alone)[:, 0]


def add_pair(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> np.ndarray:
  """Returns the labels of orbits of pairs with one more generator.

  `orbits`, sharings and the lattice all compute their labels by this function,
  one generator at a time. It needs no permutation of the pairs, see `pair`:
  gathering rows, then columns, takes a fraction of its time and memory.

  Args:
    labels: Numbered by first occurrence, row by row. int32 [N, M]
    perm_in: What the generator does to inputs, [N].
    perm_out: What it does to outputs, [M].

  Returns:
    int32 [N, M].
  """
  if labels[-1, -1] == labels.size - 1:  # every pair is alone: cycles
    return _cycles(perm_in, perm_out)
  return _merge(labels, perm_in, perm_out)


def is_invariant(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> bool:
  """Whether a permutation of pairs maps every class of labels [N, M] to itself.

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
  if not labels:
    raise ValueError('join needs at least one array of labels, got none')
  if len({np.shape(part) for part in labels}) > 1 or np.ndim(labels[0]) != 1:
    raise ValueError(
      'join needs one-dimensional labels of the same points, got shapes'
      f' {[np.shape(part) for part in labels]}'
    )
  joined = canonical(labels[0])
  for part in labels[1:]:
    partner = _first_occurrence(canonical(part))
    joined = _merge(joined[:, None], partner, np.zeros(1, np.int32))[:, 0]
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
  """Returns `values[index]`; skipping the range check takes a third off."""
  return values.take(index, mode='clip')


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


def _cycles(perm_in: np.ndarray, perm_out: np.ndarray) -> np.ndarray:
  """Labels the cycles of one permutation of pairs, by repeated squaring."""
  perm_in, perm_out = perm_in.astype(np.int32), perm_out.astype(np.int32)
  shape = perm_in.size, perm_out.size
  lowest = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
  while True:
    lower = np.empty_like(lowest)
    for rows in _blocks(shape):
      moved = _permuted(lowest, perm_in[rows], perm_out)
      np.minimum(lowest[rows], moved, out=lower[rows])
    if np.array_equal(lower, lowest):
      return _rank(lowest.ravel()).reshape(shape)
    lowest = lower
    perm_in, perm_out = _gather(perm_in, perm_in), _gather(perm_out, perm_out)


def _merge(
  labels: np.ndarray, perm_in: np.ndarray, perm_out: np.ndarray
) -> np.ndarray:
  """Joins the class of every pair with the class of its image.

  Hook and shortcut, vectorised: every class hooks onto its lowest neighbour,
  chains of hooks are followed to their end, and links inside one class are
  dropped until none is left. Hooks only ever lead downwards, so a class ends at
  its lowest member and numbering by first occurrence survives. Blocks of pairs
  bound the memory, and only the chains that a block meets are followed.
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
  return _gather(_rank(_roots(parent, parent)), labels)


def _roots(parent: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """Follows hooks to their ends."""
  classes = _gather(parent, classes)
  while not np.array_equal(above := _gather(parent, classes), classes):
    classes = above
  return classes


def _rank(root: np.ndarray) -> np.ndarray:
  """Numbers classes, given each one's lowest member, by that member."""
  is_root = root == np.arange(root.size, dtype=np.int32)
  return _gather(np.cumsum(is_root, dtype=np.int32) - np.int32(1), root)
