"""Symmetries: functions that rearrange arrays, and the groups they generate.

A symmetry moves the entries of an array and changes none of them. Applied to an
image it moves pixels; applied to `arange(N).reshape(shape)` it *is* the
permutation of that grid's points. `SYMMETRIES` holds the paper's twelve, and is
the only place where a bit of a search state gets its meaning.

Axis 0 of an array runs downwards (i, "vertical"), axis 1 to the right (j,
"horizontal"). Further axes, such as channels, are carried along.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import difflib
import functools
import types
from typing import Any

import numpy as np

# What users may write where symmetries are asked for: names, `Symmetry`
# objects, plain functions, or a mix; one of them, several, or a mapping.
SymmetryLike = Any


@dataclasses.dataclass(frozen=True)
class Symmetry:
  """A named rearrangement of arrays.

  Symmetries are equal when their names and the code of their functions are: a
  notebook cell that is run again makes an equal symmetry, and nothing is
  compiled anew; one that was edited makes another.

  Attributes:
    name: What reports and error messages call it.
    fn: Maps an array to an array of the same shape with its entries moved.

  >>> mirror = Symmetry('mirror', lambda x: x[::-1])
  >>> mirror(np.array([1, 2, 3])).tolist()
  [3, 2, 1]
  """

  name: str
  fn: Callable[[np.ndarray], np.ndarray] = dataclasses.field(
    compare=False, repr=False
  )
  _code: Any = dataclasses.field(init=False, repr=False)

  def __post_init__(self) -> None:
    if not isinstance(self.name, str) or not callable(self.fn):
      raise ValueError(
        'a Symmetry is a name and a function of an array, got'
        f' {self.name!r} and {self.fn!r}'
      )
    object.__setattr__(self, '_code', _code_of(self.fn))

  def __call__(self, array: np.ndarray) -> np.ndarray:
    """Returns the array with its entries moved."""
    return self.fn(array)


def _code_of(fn: Any) -> Any:
  """Returns what tells functions apart: code, defaults and what it encloses."""
  if isinstance(fn, functools.partial):
    given = fn.args, sorted(fn.keywords.items())
    return _code_of(fn.func), _hashable(given)
  code = getattr(fn, '__code__', None)
  if code is None:  # not written in Python: its name must do
    return None
  cells = [cell.cell_contents for cell in fn.__closure__ or ()]
  defaults = fn.__defaults__, sorted((fn.__kwdefaults__ or {}).items())
  owner = getattr(fn, '__self__', None)  # of a bound method
  enclosed = (code.co_consts, defaults, cells, owner)
  return code.co_code, code.co_names, _hashable(enclosed)


def _hashable(value: Any) -> Any:
  if isinstance(value, list | tuple):
    return tuple(_hashable(item) for item in value)
  if isinstance(value, np.ndarray):
    return value.shape, value.dtype.str, value.tobytes()
  try:
    hash(value)
  except TypeError:
    return id(value)
  return value


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
  """A finite group of signed axis permutations, in canonical order.

  The elements are sorted, the identity first, so two groups are equal exactly
  when their `elements` are.

  Attributes:
    elements: Where a point goes, in coordinates from the grid's centre: element
      g moves the point r to `elements[g] @ r`. int8 [order, ndim, ndim].
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

  def symmetry(self, index: int) -> Symmetry:
    """Returns element `index` as a symmetry of cubic grids."""
    matrix = self.elements[index]
    axes = np.argmax(np.abs(matrix), axis=1)
    signs = matrix[np.arange(self.ndim), axes]
    flipped = tuple(int(i) for i in np.flatnonzero(signs < 0))

    def move(array: np.ndarray) -> np.ndarray:
      rest = range(self.ndim, array.ndim)
      return np.flip(np.transpose(array, (*axes, *rest)), flipped)

    return Symmetry(f'element_{index}_of_{self.order}', move)

  def find(self, symmetry: SymmetryLike) -> int:
    """Returns the index of the element that a symmetry is."""
    (single,) = as_symmetries(symmetry)
    matrix = _matrix(single, self.ndim)
    found = np.flatnonzero((self.elements == matrix).all((1, 2)))
    if not found.size:
      raise ValueError(f'{single.name} is no element of {self!r}')
    return int(found[0])


def as_symmetries(symmetries: SymmetryLike) -> tuple[Symmetry, ...]:
  """Returns what the user wrote as a tuple of `Symmetry`."""
  if symmetries is None:
    return ()
  if isinstance(symmetries, Mapping):
    symmetries = symmetries.values()
  elif isinstance(symmetries, str) or callable(symmetries):
    symmetries = (symmetries,)
  elif not isinstance(symmetries, Iterable):
    raise ValueError(
      'symmetries must be a list or tuple of names, functions of an array or'
      f' Symmetry objects, got {symmetries!r}'
    )
  result = tuple(_as_symmetry(s) for s in symmetries)
  known: dict[str, Symmetry] = {}
  for symmetry in result:
    if known.setdefault(symmetry.name, symmetry) != symmetry:
      raise ValueError(
        f'two different symmetries are both called {symmetry.name!r}; give each'
        " its own name with aen.Symmetry('a_name', function)"
      )
  return result


def _as_symmetry(symmetry: SymmetryLike) -> Symmetry:
  if isinstance(symmetry, Symmetry):
    return symmetry
  if isinstance(symmetry, str):
    if symmetry not in SYMMETRIES:
      near = difflib.get_close_matches(symmetry, SYMMETRIES, n=1, cutoff=0.4)
      hint = f'did you mean {near[0]!r}? ' if near else ''
      raise ValueError(
        f'unknown symmetry {symmetry!r}; {hint}known names: '
        + ', '.join(SYMMETRIES)
      )
    return SYMMETRIES[symmetry]
  if callable(symmetry):
    name = getattr(symmetry, '__name__', '<lambda>')
    if name == '<lambda>':  # no name of its own: told apart by identity
      code = getattr(symmetry, '__code__', None)
      line = f'_line_{code.co_firstlineno}' if code else ''
      name = f'function{line}_{id(symmetry):x}'
    return Symmetry(name, symmetry)
  raise ValueError(
    'a symmetry is a name, a function of an array or a Symmetry, got'
    f' {symmetry!r}'
  )


def group(symmetries: SymmetryLike, ndim: int = 2) -> Group:
  """Lists the point group that symmetries generate, in canonical order.

  Convolutions need the elements themselves, because the group is one of their
  axes. Only turns and reflections (signed permutations of the axes) commute
  with sliding a kernel over the plane, so anything else is refused.

  >>> group(('rotation', 'horizontal_flip')) == group(('rotation',
  ...                                                  'vertical_flip'))
  True
  """
  if ndim < 1:
    raise ValueError(f'ndim must be at least 1, got {ndim}')
  generators = [_matrix(s, ndim) for s in as_symmetries(symmetries)]
  found = {_flat(np.eye(ndim, dtype=np.int8))}
  frontier = list(found)
  while frontier:
    matrices = [np.reshape(f, (ndim, ndim)) for f in frontier]
    products = {_flat(g @ m) for g in generators for m in matrices}
    frontier = sorted(products - found)
    found |= products
  identity = _flat(np.eye(ndim, dtype=np.int8))
  order = sorted(found, key=lambda f: (f != identity, f))
  elements = np.array(order, np.int8).reshape(-1, ndim, ndim)
  index = {f: i for i, f in enumerate(order)}
  table = np.array(
    [[index[_flat(g @ h)] for h in elements] for g in elements], np.int32
  )
  return Group(elements, table, np.argmin(table, axis=1).astype(np.int32))


def _flat(matrix: np.ndarray) -> tuple[int, ...]:
  return tuple(int(v) for v in matrix.ravel())


# A half swap of two points is a flip, and a roll by 4 is none at all on four
# points: a symmetry counts as a turn or reflection only if it is the same one
# on grids of several sizes.
_PROBE_SIDES = (6, 10)


def _matrix(symmetry: Symmetry, ndim: int) -> np.ndarray:
  """Returns A such that the symmetry moves the point r to A @ r."""
  matrices: list[Any] = [
    _probe(symmetry, (side,) * ndim) for side in _PROBE_SIDES
  ]
  if any(m is None or not np.array_equal(m, matrices[0]) for m in matrices):
    raise ValueError(
      f'{symmetry.name} is no turn or reflection of {ndim}-dimensional space'
      ' (a signed permutation of its axes), so no convolution can be built on'
      ' it; translations are already built into every convolution, and other'
      ' rearrangements need EquivariantDense'
    )
  return matrices[0]


def _probe(symmetry: Symmetry, shape: tuple[int, ...]) -> np.ndarray | None:
  """Fits one signed axis permutation to a symmetry; None if none fits."""
  grid = np.arange(np.prod(shape)).reshape(shape)
  try:
    moved = np.asarray(symmetry(grid))
  except (ValueError, IndexError):  # it does not act on such a grid at all
    return None
  if moved.shape != shape:
    return None
  coordinates = np.stack([*np.indices(shape)], -1).reshape(-1, len(shape))
  centred = 2 * coordinates - np.array(shape) + 1
  # The point now at r came from r_old: r_old = A^-1 r = A.T r, as rows r A.
  came_from = centred[moved.ravel()]
  inverse, *_ = np.linalg.lstsq(centred, came_from, rcond=None)
  matrix = np.rint(inverse).astype(np.int8)
  one_per_row = (np.abs(matrix).sum(0) == 1).all()
  if one_per_row and np.array_equal(centred @ matrix, came_from):
    return matrix
  return None


def _needs_axes(name: str, array: np.ndarray) -> None:
  if array.ndim < 2:
    raise ValueError(
      f'{name} needs a grid of two axes (rows, columns), got {array.shape}; for'
      ' sequences, write your own symmetry as a function of a 1-D array'
    )


def _needs_even(name: str, array: np.ndarray, axes: tuple[int, ...]) -> None:
  _needs_axes(name, array)
  if any(array.shape[axis] % 2 for axis in axes):
    sides = ' and '.join(('rows', 'columns')[axis] for axis in axes)
    raise ValueError(
      f'{name} swaps halves and needs an even number of {sides}, got'
      f' {array.shape}; pad or crop the grid to an even size, or leave'
      f' {name} out'
    )


def _rotation(array: np.ndarray) -> np.ndarray:
  _needs_axes('rotation', array)
  if array.shape[0] != array.shape[1]:
    raise ValueError(
      f'rotation needs a square grid, got {array.shape}; pad or crop the grid'
      ' to a square, or use horizontal_flip and vertical_flip instead (both'
      ' together hold the half turn)'
    )
  return np.rot90(array)


def _flip(name: str, axis: int) -> Symmetry:
  def flip(array: np.ndarray) -> np.ndarray:
    _needs_axes(name, array)
    return np.flip(array, axis)

  return Symmetry(name, flip)


def _translation(name: str, axis: int, step: int = 4) -> Symmetry:
  def translate(array: np.ndarray) -> np.ndarray:
    _needs_axes(name, array)
    return np.roll(array, step, axis)

  return Symmetry(name, translate)


def _rotation_scramble(array: np.ndarray) -> np.ndarray:
  _needs_even('rotation_scramble', array, (0, 1))
  top, bottom = np.split(array, 2, axis=0)
  (top_left, top_right), (bottom_left, bottom_right) = (
    np.split(half, 2, axis=1) for half in (top, bottom)
  )
  rows = ((bottom_left, top_left), (bottom_right, top_right))
  return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)


def _half_swap(name: str, axis: int) -> Symmetry:
  def swap(array: np.ndarray) -> np.ndarray:
    _needs_even(name, array, (axis,))
    return np.roll(array, array.shape[axis] // 2, axis)

  return Symmetry(name, swap)


def _quarter_swap(name: str, axis: int, second_half: bool) -> Symmetry:
  """Swaps halves along `axis`, but only in one half of the other axis."""

  def swap(array: np.ndarray) -> np.ndarray:
    _needs_even(name, array, (0, 1))
    halves = np.split(array, 2, axis=1 - axis)
    halves[second_half] = np.roll(
      halves[second_half], array.shape[axis] // 2, axis
    )
    return np.concatenate(halves, axis=1 - axis)

  return Symmetry(name, swap)


SYMMETRIES: Mapping[str, Symmetry] = types.MappingProxyType(
  {
    symmetry.name: symmetry
    for symmetry in (
      Symmetry('rotation', _rotation),
      _flip('horizontal_flip', axis=1),
      _flip('vertical_flip', axis=0),
      _translation('horizontal_translation', axis=1),
      _translation('vertical_translation', axis=0),
      Symmetry('rotation_scramble', _rotation_scramble),
      _half_swap('horizontal_scramble', axis=1),
      _half_swap('vertical_scramble', axis=0),
      _quarter_swap('left_vertical_scramble', axis=0, second_half=False),
      _quarter_swap('right_vertical_scramble', axis=0, second_half=True),
      _quarter_swap('top_horizontal_scramble', axis=1, second_half=False),
      _quarter_swap('bottom_horizontal_scramble', axis=1, second_half=True),
    )
  }
)
