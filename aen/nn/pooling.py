"""Pooling of a group convolution's features, over the group and over space.

Legend: S the sizes of the spatial axes, |G| group elements, C channels.
"""

from collections.abc import Sequence
import functools
import math
from typing import Any

import jax
from jax import lax
import jax.numpy as jnp

from aen import io as io_lib
from aen.groups import point_group
from aen.nn import kernels
from aen.nn import windows
from aen.nn.kernels import Array


@jax.custom_jvp
def _maximum(*parts: jax.Array) -> jax.Array:
  """Returns the entrywise maximum; ties share the gradient equally."""
  return functools.reduce(jnp.maximum, parts)


@_maximum.defjvp
def _maximum_jvp(
  parts: Sequence[jax.Array], tangents: Sequence[jax.Array]
) -> tuple[jax.Array, jax.Array]:
  largest = _maximum(*parts)
  masks = [part == largest for part in parts]
  count = sum(mask.astype(largest.dtype) for mask in masks)
  pairs = zip(masks, tangents, strict=True)
  total = sum(jnp.where(mask, tangent, 0) for mask, tangent in pairs)
  return largest, lax.optimization_barrier(total) / count


# Reductions along an axis, and of several arrays.
_REDUCTIONS: dict[str, tuple[Any, Any]] = {
  'max': (jnp.max, lambda parts: _maximum(*parts)),
  'mean': (jnp.mean, lambda parts: sum(parts[1:], parts[0]) / len(parts)),
}


def group_pool(x: Array, how: str = 'max') -> jax.Array:
  """Pools features x [..., |G|, C] over the group to [..., C].

  The result transforms as an image does. The pooling is 'max' or 'mean'.
  """
  io_lib.choice(how, 'how', _REDUCTIONS)
  x = kernels.as_array(x, 'x')
  if x.ndim < 2 or not x.size:
    raise ValueError(f'group_pool needs x [..., |G|, C], got shape {x.shape}')
  along_axis, _ = _REDUCTIONS[how]
  return along_axis(x, axis=-2)


def spatial_pool(
  x: Array,
  group: point_group.Group,
  window: int | Sequence[int] = 2,
  strides: int | Sequence[int] | None = None,
  how: str = 'max',
) -> jax.Array:
  """Pools over windows of positions: x [..., *S, |G|, C].

  Args:
    x: Features of a group convolution.
    group: The group of that convolution; its `ndim` is the number of spatial
      axes.
    window: The window's sides.
    strides: Steps between windows (default: the window's sides).
    how: 'max' or 'mean'.

  Returns:
    [..., *S', |G|, C].

  Raises:
    ValueError: The windows do not end at the last position, so that a reflected
      image would be pooled over other windows: for windows of two, an odd size.
  """
  io_lib.choice(how, 'how', _REDUCTIONS)
  x = kernels.as_array(x, 'x')
  if not isinstance(group, point_group.Group):
    raise ValueError(
      f'group must be a Group, got {group!r}; make one: aen.group(symmetries)'
    )
  if x.ndim < group.ndim + 2 or not x.size:
    raise ValueError(
      f'spatial_pool needs x [..., *S, |G|, C] with {group.ndim} spatial axes,'
      f' got shape {x.shape}'
    )
  split = -group.ndim - 2
  batch, space, features = x.shape[:split], x.shape[split:-2], x.shape[-2:]
  steps = window if strides is None else strides
  frame = windows.frame(space, window, steps, 'VALID', group=group)
  parts = windows.slices(x.reshape(-1, *space, math.prod(features)), frame)
  _, entrywise = _REDUCTIONS[how]
  return entrywise(parts).reshape(*batch, *frame.places, *features)
