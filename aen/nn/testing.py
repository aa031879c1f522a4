"""A check of equivariance, for tests and for users' own models."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.groups import point_group
from aen.groups import symmetries as symmetries_lib
from aen.groups.symmetries import permutation

# The largest |difference| / |output| that rounding explains.
_TOLERANCES = {'float64': 1e-12, 'float32': 1e-5, 'float16': 1e-2}
_COARSEST = 5e-2  # bfloat16 and narrower


def assert_equivariant(
  fn: Callable[[Any], Any],
  symmetries: symmetries_lib.SymmetryLike,
  in_shape: Sequence[int],
  out_shape: Sequence[int] | None,
  *,
  x: Any = None,
  tolerance: float | None = None,
  seed: int = 0,
  group_axis: bool = False,
) -> None:
  """Raises unless fn(g x) = g fn(x) for every given symmetry g.

  This implies equivariance to the whole group that the symmetries generate.

  Args:
    fn: Maps a batch [B, *in_shape, ...] to a batch [B, *out_shape, ...]; axes
      after the grid, such as channels, are carried along.
    symmetries: The symmetries g.
    in_shape: The grid of its inputs.
    out_shape: The grid of its outputs, or None if it should be invariant:
      fn(g x) = fn(x).
    x: Test inputs (default: four standard normal ones, float32).
    tolerance: The largest max|Δ| / max|y| accepted (default: what rounding in
      the outputs' precision explains, 1e-5 for float32, 1e-12 for float64, 0
      for integers).
    seed: Seed of the default inputs.
    group_axis: Whether the axis after the outputs' grid is that of the group,
      [B, *out_shape, |G|, ...], as in `EquivariantConv`; g permutes it, too.

  Raises:
    AssertionError: fn is not equivariant; says to which symmetry, by how much
      and where.

  >>> assert_equivariant(lambda x: x**2, ('rotation',), (4, 4), (4, 4))
  """
  if not callable(fn):
    raise ValueError(f'fn must be a function of a batch, got {fn!r}')
  symmetries = symmetries_lib.as_symmetries(symmetries)
  in_shape = symmetries_lib.as_shape(in_shape)
  grid = () if out_shape is None else symmetries_lib.as_shape(out_shape)
  if group_axis and not grid:
    raise ValueError('group_axis needs out_shape, the grid before that axis')
  if x is None:
    size = (4, *in_shape)
    x = np.random.default_rng(seed).standard_normal(size, np.float32)
  x = io_lib.array(x, 'x')
  _check_grid('the inputs x', x, in_shape)

  def apply(x: np.ndarray) -> np.ndarray:
    """Calls fn on a copy and copies its output, which it may overwrite."""
    y = np.array(fn(x.copy()))
    if y.shape[:1] != x.shape[:1] or not y.size:
      raise ValueError(
        'the outputs of fn must have one entry per example,'
        f' [{len(x)}, ...], got shape {y.shape}'
      )
    if y.dtype.kind in 'OUSMm':
      raise ValueError(f'the outputs of fn must be numbers, got {y.dtype}')
    return y

  y = apply(x)
  _check_grid('the outputs of fn', y, grid)
  if group_axis:
    group = point_group.group(symmetries, len(grid))
    _check_grid('the outputs of fn', y, (*grid, group.order))
  actions = [  # raises if a symmetry cannot act
    (permutation(s, in_shape), permutation(s, grid) if grid else None)
    for s in symmetries
  ]
  exact = y.dtype.kind in 'iub'
  if tolerance is None:
    tolerance = 0.0 if exact else _TOLERANCES.get(y.real.dtype.name, _COARSEST)
  for symmetry, (perm_in, perm_out) in zip(symmetries, actions, strict=True):
    expected = y if perm_out is None else _transform(y, perm_out, grid)
    if group_axis:  # the entry now at h was at g⁻¹ h
      came_from = group.table[group.inverse[group.find(symmetry)]]
      expected = np.take(expected, came_from, axis=1 + len(grid))
    got = apply(_transform(x, perm_in, in_shape))
    if got.shape != expected.shape:
      raise ValueError(
        'the outputs of fn must have the same shape for transformed inputs,'
        f' expected {expected.shape}, got {got.shape}'
      )
    different = got != expected  # also where float64 cannot tell (int64, inf)
    kind = np.complex128 if 'c' in got.dtype.kind + y.dtype.kind else np.float64
    got, expected = got.astype(kind), expected.astype(kind)
    with np.errstate(invalid='ignore'):  # inf - inf, then NaN
      difference = np.maximum(np.abs(got - expected), 1.0 if exact else 0.0)
    difference = np.where(different, difference, 0)
    size = np.abs(expected)
    error = difference.max() / (size[np.isfinite(size)].max(initial=0) or 1.0)
    if not error <= tolerance:  # true for NaN
      where = np.unravel_index(np.argmax(difference), difference.shape)
      entry = ', '.join(str(i) for i in where[1:])
      word, reference = 'invariant', 'fn(x)'
      if grid:
        word, reference = 'equivariant', 'transformed fn(x)'
      raise AssertionError(
        f'not {word} to {symmetry.name}: max|Δ|/max|y| is {error:.2g},'
        f' tolerance {tolerance:.2g}; worst at output ({entry}) of example'
        f' {where[0]}: fn(transformed x) = {got[where]:.6g},'
        f' {reference} = {expected[where]:.6g}'
      )


def _check_grid(what: str, batch: np.ndarray, grid: tuple[int, ...]) -> None:
  if batch.shape[1 : 1 + len(grid)] != grid:
    raise ValueError(
      f'{what} must have the shape [batch, *{grid}, ...], got {batch.shape}'
    )


def _transform(
  batch: np.ndarray, points: np.ndarray, grid: tuple[int, ...]
) -> np.ndarray:
  flat = batch.reshape(batch.shape[0], -1, *batch.shape[1 + len(grid) :])
  return flat[:, points].reshape(batch.shape)
