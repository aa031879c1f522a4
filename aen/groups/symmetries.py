"""Symmetries: functions that permute the entries of arrays.

Applied to an image, a symmetry permutes pixels; applied to
`arange(N).reshape(shape)`, it returns its permutation of that grid's points.
To add a symmetry of images, add an entry to `SYMMETRIES`, and follow the steps
in docs/design.md. The list `PAPER_SYMMETRIES` is closed: the paper's data sets
depend on its order.

Axis 0 of an array runs downwards (i, "vertical"), axis 1 to the right (j,
"horizontal"). Further axes, such as channels, are carried along.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import dataclasses
import difflib
import functools
import hashlib
import math
import sys
import types
from typing import Any, NamedTuple

import numpy as np

# One or several names, `Symmetry` objects, functions of an array, permutations
# as integer arrays, or a mix; as a mapping, keys name those without a name of
# their own, such as arrays and lambdas.
SymmetryLike = Any

MAX_POINTS = np.iinfo(np.int32).max


@dataclasses.dataclass(frozen=True)
class Symmetry:
  """A named rearrangement of arrays.

  Symmetries are equal if they have the same name and their functions the same
  bytecode, defaults, closure and, for bound methods, owner. So rerunning a
  notebook cell gives an equal symmetry and recompiles nothing, and editing it
  gives a different one.

  Attributes:
    name: The name in reports and error messages.
    fn: Maps an array to an array of the same shape with its entries permuted.

  >>> mirror = Symmetry('mirror', lambda x: x[::-1])
  >>> mirror(np.array([1, 2, 3])).tolist()
  [3, 2, 1]
  """

  name: str
  fn: Callable[[np.ndarray], np.ndarray] = dataclasses.field(
    compare=False, repr=False
  )
  _identity: Any = dataclasses.field(init=False, repr=False)

  def __post_init__(self) -> None:
    if not isinstance(self.name, str) or not callable(self.fn):
      raise ValueError(
        'a Symmetry is a name and a function of an array, got'
        f' {self.name!r} and {self.fn!r}'
      )
    if any('\ud800' <= c <= '\udfff' for c in self.name):  # lone surrogates
      raise ValueError(
        f'the name of a Symmetry must be text that UTF-8 can encode, got'
        f' {self.name!r}; rename it'
      )
    object.__setattr__(self, '_identity', _identity(self.fn))

  def __call__(self, array: np.ndarray) -> np.ndarray:
    """Returns the transformed array."""
    return self.fn(array)


def _identity(fn: Any) -> Any:
  """Returns a hashable value that differs between different functions."""
  if isinstance(fn, functools.partial):
    arguments = fn.args, sorted(fn.keywords.items())
    return _identity(fn.func), _hashable(arguments)
  if not hasattr(fn, '__code__'):  # not written in Python
    return _hashable(fn)
  defaults = fn.__defaults__, sorted((fn.__kwdefaults__ or {}).items())
  enclosed = [cell.cell_contents for cell in fn.__closure__ or ()]
  owner = getattr(fn, '__self__', None)
  return _hashable((fn.__code__, defaults, enclosed, owner))


def _hashable(value: Any) -> Any:
  if isinstance(value, list | tuple):
    return tuple(_hashable(item) for item in value)
  if isinstance(value, types.CodeType):
    # Neither file nor line: the same function may be defined elsewhere.
    return _hashable((value.co_code, value.co_names, value.co_consts))
  if isinstance(value, np.ndarray):
    return value.shape, value.dtype.str, value.tobytes()
  try:
    hash(value)
  except TypeError:
    return id(value)
  return value


def as_symmetries(symmetries: SymmetryLike) -> tuple[Symmetry, ...]:
  """Converts names, functions or a mix to a tuple of `Symmetry`."""
  if symmetries is None:
    return ()
  if isinstance(symmetries, Mapping):
    found = tuple(_as_symmetry(s, key) for key, s in symmetries.items())
  elif (
    isinstance(symmetries, str)
    or callable(symmetries)
    or (_is_number_array(symmetries) and symmetries.ndim == 1)
  ):
    found = (_as_symmetry(symmetries),)
  elif isinstance(symmetries, Iterable):
    found = tuple(_as_symmetry(s) for s in symmetries)
  else:
    raise ValueError(
      'symmetries must be a list or tuple of names, functions of an array or'
      f' Symmetry objects, got {symmetries!r}'
    )
  known: dict[str, Symmetry] = {}
  for symmetry in found:
    if known.setdefault(symmetry.name, symmetry) != symmetry:
      raise ValueError(
        f'two different symmetries are both called {symmetry.name!r}; give each'
        " its own name with aen.Symmetry('a_name', function)"
      )
  return found


def _as_symmetry(symmetry: SymmetryLike, *key: Any) -> Symmetry:
  """Converts one symmetry; a key, if any, names arrays and lambdas."""
  if isinstance(symmetry, Symmetry):
    return symmetry
  if isinstance(symmetry, str):
    if symmetry not in NAMED:
      near = difflib.get_close_matches(symmetry, NAMED, n=1, cutoff=0.4)
      hint = f'did you mean {near[0]!r}? ' if near else ''
      raise ValueError(
        f'unknown symmetry {symmetry!r}; {hint}known names: ' + ', '.join(NAMED)
      )
    return NAMED[symmetry]
  if _is_number_array(symmetry):
    digest = hashlib.sha256(symmetry.astype('<i8').tobytes()).hexdigest()
    name = key[0] if key else f'permutation_{digest[:8]}'
    return named(name, (symmetry,))
  if callable(symmetry):
    name = getattr(symmetry, '__name__', '<lambda>')
    if name == '<lambda>' and key:
      (name,) = key
    elif name == '<lambda>':  # named after its code, the same in every process
      code = getattr(symmetry, '__code__', None)
      line = f'_line_{code.co_firstlineno}' if code else ''
      digest = hashlib.sha256(repr(_identity(symmetry)).encode()).hexdigest()
      name = f'function{line}_{digest[:8]}'
    return Symmetry(name, symmetry)
  raise ValueError(
    'a symmetry is a name, a function of an array, an integer array (a'
    f' permutation of the points) or a Symmetry, got {symmetry!r}'
  )


def _is_number_array(value: Any) -> bool:
  return isinstance(value, np.ndarray) and value.dtype.kind in 'biuf'


def named(name: str, permutations: Sequence[np.ndarray]) -> Symmetry:
  """Returns a symmetry, given permutations of grids of different sizes.

  Permutations are in gather form, int [N].

  >>> named('swap', [np.array([1, 0, 2])])(np.array([7, 8, 9])).tolist()
  [8, 7, 9]
  """
  arrays = tuple(permutations)
  for array in arrays:
    if array.ndim != 1 or array.dtype.kind not in 'iu':
      raise ValueError(
        f'{name}: a permutation is an integer array [N] that holds each of'
        f' 0…N - 1 once, got shape {array.shape} and dtype {array.dtype}'
      )
  return Symmetry(name, functools.partial(_permute, name, arrays))


def _permute(
  name: str, permutations: tuple[np.ndarray, ...], array: np.ndarray
) -> np.ndarray:
  """Permutes the points of a grid, which are the first axes of an array."""
  sizes = np.cumprod(array.shape).tolist()
  for points in permutations:
    if points.size in sizes:
      axes = sizes.index(points.size) + 1
      flat = array.reshape(points.size, *array.shape[axes:])
      return flat[points].reshape(array.shape)
  known = ' or '.join(str(points.size) for points in permutations)
  raise ValueError(
    f'{name} permutes {known} points, got a grid {array.shape}; choose'
    ' hidden_shapes with as many points, or give a function of an array'
  )


def permutation(symmetry: SymmetryLike, shape: Sequence[int]) -> np.ndarray:
  """Returns a symmetry as a permutation of the points of a grid.

  This is p, int32 [N], such that `symmetry(x).ravel() == x.ravel()[p]`.

  >>> permutation('horizontal_flip', (2, 3)).tolist()
  [2, 1, 0, 5, 4, 3]
  """
  found = as_symmetries(symmetry)
  if len(found) != 1:
    raise ValueError(
      f'permutation takes one symmetry, got {len(found)}; call it for each'
    )
  (symmetry,) = found
  shape = as_shape(shape)
  # Other functions are not cached: they may depend on global variables.
  if NAMED.get(symmetry.name) is symmetry:
    return _checked(symmetry, shape).copy()
  return _checked.__wrapped__(symmetry, shape)


def layer_action(
  symmetry: Symmetry,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  invariant: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a symmetry's permutations of a layer's inputs and outputs.

  If `invariant`, it acts trivially on the outputs.
  """
  perm_in = permutation(symmetry, in_shape)
  if invariant:
    num_out = math.prod(as_shape(out_shape))
    return perm_in, np.arange(num_out, dtype=np.int32)
  return perm_in, permutation(symmetry, out_shape)


@functools.lru_cache(maxsize=256)
def _checked(symmetry: Symmetry, shape: tuple[int, ...]) -> np.ndarray:
  """Returns a permutation; raises if the function is not a symmetry."""
  points = np.arange(math.prod(shape), dtype=np.int32)
  permuted = _apply(symmetry, points, shape)
  if not is_permutation(permuted, points.size):
    raise ValueError(
      f'{symmetry.name} is not a symmetry of the grid {shape}: a symmetry'
      ' permutes the entries, but here entries are lost, duplicated or altered;'
      ' rearrange the array without changing its values'
    )
  if not np.array_equal(permuted, _apply(symmetry, points, shape)):
    raise ValueError(
      f'{symmetry.name} permuted the grid {shape} in two different ways when'
      ' called twice; a symmetry must be deterministic (no random numbers)'
    )
  # Sorting and negating permute 0…N-1, too. A symmetry permutes other values,
  # of both signs and with duplicates, in the same way.
  rng = np.random.default_rng(0)
  whole = rng.integers(-(2**30), 2**30, points.size, np.int32)
  fractions = (whole / 7).astype(np.float32)  # a dtype that jax.numpy keeps
  for values in (rng.permutation(points), whole, fractions):
    values[-1] = values[0]
    if not np.array_equal(values[permuted], _apply(symmetry, values, shape)):
      raise ValueError(
        f'{symmetry.name} is not a symmetry of the grid {shape}: its effect'
        ' depends on the values of the entries, not only on their positions;'
        ' rearrange the array without looking at its values'
      )
  return permuted.astype(np.int32)


def _apply(
  symmetry: Symmetry, points: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
  """Returns the permuted points, flat; copies what goes in and comes out."""
  # The function may use jax.numpy, even while a layer is being traced.
  jax = sys.modules.get('jax')
  try:
    with jax.ensure_compile_time_eval() if jax else contextlib.nullcontext():
      result = symmetry(points.reshape(shape).copy())
      permuted = np.array(result)
  except Exception as error:
    if isinstance(error, ValueError) and symmetry.name in str(error):
      raise  # it already says why
    text = ' '.join(str(error).split())
    why = f'{type(error).__name__}: {text}' if text else type(error).__name__
    raise ValueError(
      f'{symmetry.name} cannot act on the grid {shape}: {why}'
    ) from error
  if permuted.shape != shape:
    got = None if result is None else permuted.shape
    raise ValueError(
      f'{symmetry.name} must return an array of the shape it was given,'
      f' expected {shape}, got {got}'
    )
  return permuted.ravel()


def as_shape(shape: Sequence[int] | int) -> tuple[int, ...]:
  """Returns a grid as a tuple of positive ints."""
  try:
    sides = np.atleast_1d(np.asarray(shape))
  except ValueError:  # sides of different lengths
    sides = np.zeros(0)
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


def is_permutation(values: np.ndarray, num_points: int) -> bool:
  """Whether values, [N], are each of 0…N-1 once."""
  if values.shape != (num_points,) or values.dtype.kind not in 'iu':
    return False
  if not num_points or values.min() < 0 or values.max() >= num_points:
    return False
  seen = np.zeros(num_points, bool)
  for start in range(0, num_points, 2**16):  # writes are fastest with intp
    seen[values[start : start + 2**16].astype(np.intp)] = True
  return bool(seen.all())


class _Need(NamedTuple):
  """A requirement of a symmetry on its grid, and a remedy for other grids."""

  text: str
  is_met: Callable[[tuple[int, ...]], bool]
  remedy: str = 'pad or crop the grid, or leave the symmetry out'


_PLANE = _Need(
  'a grid of two axes (rows, columns)',
  lambda shape: len(shape) > 1,
  'for sequences, write your own symmetry as a function of a 1-D array',
)
_SQUARE = _Need(
  'a square grid',
  lambda shape: shape[0] == shape[1],
  'pad or crop the grid to a square, or leave the symmetry out; for rotation,'
  ' use horizontal_flip and vertical_flip instead (both together contain the'
  ' rotation by 180°)',
)
_EVEN_ROWS = _Need('an even number of rows', lambda s: s[0] % 2 == 0)
_EVEN_COLUMNS = _Need('an even number of columns', lambda s: s[1] % 2 == 0)
_EVEN_SIDES = _Need(
  'an even number of rows and columns', lambda s: s[0] % 2 == s[1] % 2 == 0
)
_EVEN_LENGTH = _Need('an even number of points', lambda s: s[0] % 2 == 0)
_EQUAL_01 = _Need('axes 0 and 1 of one length', lambda s: s[0] == s[1])
_EQUAL_12 = _Need('axes 1 and 2 of one length', lambda s: s[1] == s[2])


def _symmetry(
  name: str, fn: Callable[[np.ndarray], np.ndarray], *needs: _Need
) -> Symmetry:
  """Returns a symmetry that raises for grids it cannot act on."""

  def transform(array: np.ndarray) -> np.ndarray:
    for need in needs:
      if not need.is_met(array.shape):
        raise ValueError(
          f'{name} needs {need.text}, got {array.shape}; {need.remedy}'
        )
    return fn(array)

  return Symmetry(name, transform)


def _rotate_quadrants(array: np.ndarray) -> np.ndarray:
  rows, columns, *rest = array.shape
  quadrants = array.reshape(2, rows // 2, 2, columns // 2, *rest)
  return np.rot90(quadrants, -1, axes=(0, 2)).reshape(array.shape)


def _swap(array: np.ndarray, axis: int, only: int | None = None) -> np.ndarray:
  """Swaps halves along an axis; `only` in one half (0, 1) of the other axis."""
  step = array.shape[axis] // 2
  if only is None:
    return np.roll(array, step, axis)
  halves = np.split(array, 2, axis=1 - axis)
  halves[only] = np.roll(halves[only], step, axis)
  return np.concatenate(halves, axis=1 - axis)


SYMMETRIES: Mapping[str, Symmetry] = types.MappingProxyType(
  {
    name: _symmetry(name, fn, _PLANE, *needs)
    for name, fn, *needs in (
      ('rotation', np.rot90, _SQUARE),
      ('horizontal_flip', lambda x: np.flip(x, 1)),
      ('vertical_flip', lambda x: np.flip(x, 0)),
      ('horizontal_translation', lambda x: np.roll(x, 4, 1)),
      ('vertical_translation', lambda x: np.roll(x, 4, 0)),
      ('rotation_scramble', _rotate_quadrants, _EVEN_SIDES),
      ('horizontal_scramble', lambda x: _swap(x, 1), _EVEN_COLUMNS),
      ('vertical_scramble', lambda x: _swap(x, 0), _EVEN_ROWS),
      ('left_vertical_scramble', lambda x: _swap(x, 0, 0), _EVEN_SIDES),
      ('right_vertical_scramble', lambda x: _swap(x, 0, 1), _EVEN_SIDES),
      ('top_horizontal_scramble', lambda x: _swap(x, 1, 0), _EVEN_SIDES),
      ('bottom_horizontal_scramble', lambda x: _swap(x, 1, 1), _EVEN_SIDES),
      # Further symmetries are appended here: name, function, needs of the grid.
    )
  }
)

# The bits of the paper's search states and data sets, in order. New symmetries
# come after them.
PAPER_SYMMETRIES = tuple(SYMMETRIES)[:12]

# What a search tries by default on grids of 1, 2 and 3 axes. Two rotations of
# a cube generate the third.
CANDIDATES: Mapping[int, tuple[Symmetry, ...]] = types.MappingProxyType(
  {
    1: (
      _symmetry('reversal', lambda x: np.flip(x, 0)),
      _symmetry('shift_by_1', lambda x: np.roll(x, 1, 0)),
      _symmetry('shift_by_2', lambda x: np.roll(x, 2, 0)),
      _symmetry('shift_by_4', lambda x: np.roll(x, 4, 0)),
      _symmetry('half_swap', lambda x: _swap(x, 0), _EVEN_LENGTH),
    ),
    2: tuple(SYMMETRIES[name] for name in PAPER_SYMMETRIES),
    3: (
      _symmetry(
        'rotation_axes_01', lambda x: np.rot90(x, 1, (0, 1)), _EQUAL_01
      ),
      _symmetry(
        'rotation_axes_12', lambda x: np.rot90(x, 1, (1, 2)), _EQUAL_12
      ),
      _symmetry('flip_axis_0', lambda x: np.flip(x, 0)),
      _symmetry('flip_axis_1', lambda x: np.flip(x, 1)),
      _symmetry('flip_axis_2', lambda x: np.flip(x, 2)),
      _symmetry('shift_axis_0', lambda x: np.roll(x, 1, 0)),
      _symmetry('shift_axis_1', lambda x: np.roll(x, 1, 1)),
      _symmetry('shift_axis_2', lambda x: np.roll(x, 1, 2)),
    ),
  }
)
# All symmetries with a name.
NAMED: Mapping[str, Symmetry] = types.MappingProxyType(
  {**SYMMETRIES} | {s.name: s for table in CANDIDATES.values() for s in table}
)
