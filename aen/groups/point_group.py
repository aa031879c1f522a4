"""Point groups: the signed axis permutations behind group convolutions."""

import dataclasses
import functools

import numpy as np

from aen.groups import symmetries as symmetries_lib

MAX_AXES = 6  # probing more takes gigabytes
MAX_ORDER = 1000  # a convolution's kernel grows with its square


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
  """A finite group of signed axis permutations, in canonical order.

  The elements are sorted, the identity first, so two groups are equal exactly
  if their `elements` are.

  Attributes:
    elements: Matrices in coordinates from the grid's centre: element g maps the
      point r to `elements[g] @ r`. int8 [order, ndim, ndim].
    table: The Cayley table: `table[g, h]` is the product gh, "h, then g". int32
      [order, order].
    inverse: `table[g, inverse[g]] == 0`. int32 [order].
  """

  elements: np.ndarray
  table: np.ndarray
  inverse: np.ndarray

  @property
  def order(self) -> int:
    """The number of elements."""
    return len(self.elements)

  @property
  def ndim(self) -> int:
    """The number of axes the group acts on."""
    return self.elements.shape[-1]

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Group) and np.array_equal(
      self.elements, other.elements
    )

  def __hash__(self) -> int:
    return hash(self.elements.tobytes())

  def __repr__(self) -> str:
    return f'Group(order={self.order}, ndim={self.ndim})'

  def symmetry(self, index: int) -> symmetries_lib.Symmetry:
    """Returns element `index` as a symmetry of cubic grids."""
    matrix = self.elements[index]
    axes = np.argmax(np.abs(matrix), axis=1)
    signs = matrix[np.arange(self.ndim), axes]
    flipped = tuple(int(i) for i in np.flatnonzero(signs < 0))

    def transform(array: np.ndarray) -> np.ndarray:
      rest = range(self.ndim, array.ndim)
      return np.flip(np.transpose(array, (*axes, *rest)), flipped)

    name = f'element_{index}_of_{self.order}'
    return symmetries_lib.Symmetry(name, transform)

  def find(self, symmetry: symmetries_lib.SymmetryLike) -> int:
    """Returns the index of the element that equals a symmetry."""
    found = symmetries_lib.as_symmetries(symmetry)
    if len(found) != 1:
      raise ValueError(f'find takes one symmetry, got {len(found)}')
    (single,) = found
    matrix = _matrix(single, self.ndim)
    same = np.flatnonzero((self.elements == matrix).all((1, 2)))
    if not same.size:
      raise ValueError(f'{single.name} is not an element of {self!r}')
    return int(same[0])


def group(symmetries: symmetries_lib.SymmetryLike, ndim: int = 2) -> Group:
  """Lists the point group that symmetries generate, in canonical order.

  Only rotations and reflections (signed permutations of the axes) commute with
  sliding a kernel over the plane; other symmetries raise a ValueError.

  >>> group(('rotation', 'horizontal_flip')) == group(('rotation',
  ...                                                  'vertical_flip'))
  True
  """
  if not isinstance(ndim, int | np.integer) or not 1 <= ndim <= MAX_AXES:
    raise ValueError(
      f'ndim must be at least 1 and at most {MAX_AXES} axes, got {ndim!r}'
    )
  found = symmetries_lib.as_symmetries(symmetries)
  generators = frozenset(_matrix(s, int(ndim)).tobytes() for s in found)
  return _generated(generators, int(ndim))


@functools.lru_cache(maxsize=256)
def _generated(generators: frozenset[bytes], ndim: int) -> Group:
  """Lists the group that matrices generate, given as the bytes of int8."""
  shape = ndim, ndim
  matrices = [np.frombuffer(g, np.int8).reshape(shape) for g in generators]
  identity = np.eye(ndim, dtype=np.int8)
  elements, known = identity[None], 0
  while len(elements) > known:
    known = len(elements)
    products = [elements, *(g @ elements for g in matrices)]
    elements = np.unique(np.concatenate(products), axis=0)
    if len(elements) > MAX_ORDER:
      raise ValueError(
        f'these symmetries generate a group of more than {MAX_ORDER} elements,'
        ' each of which is an entry of a convolution; leave some out'
      )
  others = (elements != identity).any((1, 2))
  elements = np.stack([identity, *elements[others]])
  index = {m.tobytes(): i for i, m in enumerate(elements)}
  table = np.array(
    [[index[(g @ h).tobytes()] for h in elements] for g in elements], np.int32
  )
  inverse = np.argmin(table, axis=1).astype(np.int32)
  for array in (elements, table, inverse):
    array.flags.writeable = False  # the cache returns these very arrays
  return Group(elements, table, inverse)


# On two points a half swap is a flip, and on four points a roll by 4 is the
# identity. So a symmetry must be the same matrix on grids of several sizes.
_PROBE_SIDES = (10, 6)


def _matrix(symmetry: symmetries_lib.Symmetry, ndim: int) -> np.ndarray:
  """Returns A such that the symmetry maps the point r to A @ r."""
  matrix, why = None, ''
  try:
    matrix, again = (
      _fit(symmetries_lib.permutation(symmetry, (side,) * ndim).tobytes(), ndim)
      for side in _PROBE_SIDES
    )
  except ValueError as error:
    why = f' ({error})'
  if matrix is None or again is None or not np.array_equal(matrix, again):
    raise ValueError(
      f'{symmetry.name} is not a rotation or reflection of {ndim}-dimensional'
      f' space (a signed permutation of its axes){why}, so no convolution can'
      ' be built on it; translations are already built into every convolution,'
      ' and other rearrangements need EquivariantDense'
    )
  return matrix


@functools.lru_cache(maxsize=256)  # it takes longer than the permutation
def _fit(permutation: bytes, ndim: int) -> np.ndarray | None:
  """Fits a matrix to a permutation of a cubic grid, the bytes of int32."""
  points = np.frombuffer(permutation, np.int32)
  side = round(points.size ** (1 / ndim))
  grid = np.indices((side,) * ndim).reshape(ndim, -1).T  # [N, ndim]
  centred = 2 * grid - side + 1
  # The point now at r came from r_old: r_old = A^-1 r = A.T r, as rows r A.
  came_from = centred[points]
  neighbours = side ** np.arange(ndim)[::-1]  # of point 0, along each axis
  matrix = ((came_from[neighbours] - came_from[0]) // 2).astype(np.int8)
  one_per_row = (np.abs(matrix).sum(0) == 1).all()
  if one_per_row and np.array_equal(centred @ matrix, came_from):
    return matrix
  return None
