"""Sliding windows, and whether a group permutes their positions.

Convolution and pooling apply windows at regular positions. They are equivariant
only if transforming the image permutes these positions. (Images need not be
square: rotating a wide one gives a tall one.)
"""

from collections.abc import Sequence
import functools
import itertools
import math
from typing import Any, NamedTuple

from flax.typing import PaddingLike
from flax.typing import PrecisionLike
import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups import point_group

# A batch whose patches exceed the processor's cache is split into chunks that
# fit; measured, like the default of `convolve`, on two cores.
_CACHE_BYTES = 2**21
_CHUNK_BYTES = 2**20

_Ints = tuple[int, ...]


class Frame(NamedTuple):
  """The positions of windows; one entry per spatial axis."""

  space: _Ints  # the image's sizes
  sides: _Ints  # points of a window
  strides: _Ints  # steps between windows
  padding: tuple[tuple[int, int], ...]  # before and after the image
  dilation: _Ints  # steps between the points of a window
  spans: _Ints  # the extent of a window, from its first point to its last
  room: _Ints  # how far a window can slide
  places: _Ints  # the number of windows


def frame(
  space: _Ints,
  window: int | Sequence[int],
  strides: int | Sequence[int] = 1,
  padding: PaddingLike = 'SAME',
  kernel_dilation: int | Sequence[int] = 1,
  group: point_group.Group | None = None,
) -> Frame:
  """Returns the windows; raises unless they fit and the group permutes them."""
  each = functools.partial(
    io_lib.one_each, count=len(space), what='spatial axis'
  )
  sides, strides = each(window, name='window'), each(strides, name='strides')
  dilation = each(kernel_dilation, name='kernel_dilation')
  points = zip(sides, dilation, strict=True)
  spans = tuple((side - 1) * step + 1 for side, step in points)
  pads = _pads(padding, space, spans, strides)
  axes = zip(space, pads, spans, strict=True)
  room = tuple(size + sum(pair) - span for size, pair, span in axes)
  if min(room) < 0:
    windows, sizes = ('×'.join(map(str, n)) for n in (spans, space))
    raise ValueError(
      f'windows of {windows} points do not fit into {sizes} points; use larger'
      " images, a smaller kernel or padding='SAME'"
    )
  steps = zip(room, strides, strict=True)
  places = tuple(length // stride + 1 for length, stride in steps)
  found = Frame(space, sides, strides, pads, dilation, spans, room, places)
  if group is not None:
    _check(found, group)
  return found


def _pads(
  padding: Any, space: _Ints, spans: _Ints, strides: _Ints
) -> tuple[tuple[int, int], ...]:
  each: Any = padding if isinstance(padding, list | tuple) else ()
  if isinstance(padding, int | np.integer):
    each = (padding,) * len(space)
  elif isinstance(padding, str) and padding in ('SAME', 'VALID'):
    each = lax.padtype_to_pads(space, spans, strides, padding)
  elif isinstance(padding, str) and padding == 'CIRCULAR':  # as in Flax
    each = [((span - 1) // 2, span // 2) for span in spans]
  try:
    pairs = np.array([pad if np.ndim(pad) else (pad, pad) for pad in each])
  except (TypeError, ValueError):  # not one entry per axis; other than pairs
    pairs = np.array(None)
  whole = pairs.shape == (len(space), 2) and pairs.dtype.kind in 'iu'
  if not whole or pairs.min() < 0 or pairs.max() >= 2**31:
    raise ValueError(
      f"padding must be 'SAME', 'VALID', 'CIRCULAR', a number, or a number or"
      f' pair of numbers per spatial axis ({len(space)}), got {padding!r}'
    )
  return tuple((low, high) for low, high in pairs.tolist())


def _check(windows: Frame, group: point_group.Group) -> None:
  """Raises unless every element of a group maps windows to windows."""
  rows = [row for element in group.elements for row in enumerate(element)]
  for axis, row in rows:
    source = int(np.argmax(np.abs(row)))  # the axis that this one comes from
    reflected = row[source] < 0
    size, stride = windows.space[axis], windows.strides[axis]
    rest = windows.room[axis] % stride
    if reflected and rest:
      raise ValueError(
        f'windows of {windows.spans[axis]} at stride {stride} leave {rest} of'
        f' {size} points uncovered on axis {axis}, so a reflected or rotated'
        ' image would have other windows, which breaks equivariance; use a'
        f' size of {size - rest} or {size - rest + stride} there (crop or pad'
        ' the image), or another stride'
      )
    before, after = windows.padding[source]
    padding = (after, before) if reflected else (before, after)
    for name, got, expected in (
      ('padding', windows.padding[axis], padding),
      ('stride', stride, windows.strides[source]),
      ('window or dilation', windows.spans[axis], windows.spans[source]),
    ):
      if got != expected:
        how = ', reflected' if reflected else ''
        remedy = f'use the same {name} on both axes'
        if name == 'padding':
          remedy = (
            "use padding='VALID', the same number on both sides, or, for"
            " 'SAME', odd kernel sides and a stride that divides the size less"
            ' one'
          )
        raise ValueError(
          f'the group maps axis {source} to axis {axis}{how}, so {name} must be'
          f' {expected} there, got {got}, which breaks equivariance; {remedy}'
        )


def slices(x: jax.Array, windows: Frame) -> list[jax.Array]:
  """Splits x [B, *S, ...] by the points of a window.

  Returns the values of each point, in row-major order, in all windows:
  [B, *S', ...].
  """
  if any(map(any, windows.padding)):
    rest = ((0, 0),) * (x.ndim - 1 - len(windows.space))
    x = jnp.pad(x, ((0, 0), *windows.padding, *rest))
  all_covered = not np.mod(windows.room, windows.strides).any()
  if all_covered and windows.strides == windows.spans == windows.sides:
    return _tiles(x, windows)
  reach = np.subtract(windows.places, 1) * windows.strides + 1
  found = []
  for point in np.ndindex(*windows.sides):
    start = np.multiply(point, windows.dilation)
    axes = zip(start, start + reach, windows.strides, strict=True)
    found.append(x[:, *(slice(*map(int, axis)) for axis in axes)])
  return found


def _tiles(x: jax.Array, windows: Frame) -> list[jax.Array]:
  """Returns `slices` for windows that partition x.

  The gradient of a split is a concatenation; that of strided slices is a sum of
  padded arrays, which is slow on a CPU.
  """
  pairs = zip(windows.places, windows.sides, strict=True)
  rest = x.shape[1 + len(windows.space) :]
  parts = [x.reshape(len(x), *itertools.chain(*pairs), *rest)]
  for axis, side in enumerate(windows.sides):
    split = [lax.split(part, (1,) * side, 2 + 2 * axis) for part in parts]
    parts = [*itertools.chain(*split)]
  return [part.reshape(len(x), *windows.places, *rest) for part in parts]


def convolve(
  x: jax.Array,
  kernel: jax.Array,
  windows: Frame,
  precision: PrecisionLike = None,
  method: str | None = None,
) -> jax.Array:
  """Convolves x [B, *S, C] with a kernel [*K, C, F] to [B, *S', F].

  The method is a name in `METHODS` (default: 'patches' on CPU, else 'conv').
  """
  io_lib.choice(method, 'method', (*METHODS, None))
  if method is None:
    method = 'patches' if jax.default_backend() == 'cpu' else 'conv'
  return METHODS[method](x, kernel, windows, precision)


def _convolution(
  x: jax.Array, kernel: jax.Array, windows: Frame, precision: PrecisionLike
) -> jax.Array:
  """Applies XLA's own convolution."""
  ndim = len(windows.strides)
  last = (0, ndim + 1, *range(1, ndim + 1))  # where batch, channels, space are
  numbers = lax.ConvDimensionNumbers(last, (ndim + 1, ndim, *range(ndim)), last)
  return lax.conv_general_dilated(
    x,
    kernel,
    windows.strides,
    windows.padding,
    rhs_dilation=windows.dilation,
    dimension_numbers=numbers,
    precision=precision,
  )


def _patches(
  x: jax.Array, kernel: jax.Array, windows: Frame, precision: PrecisionLike
) -> jax.Array:
  """Multiplies the matrix of all patches by the kernel (im2col).

  Takes a few images at a time, so that their patches stay in the processor's
  cache; the backward pass recomputes them, which is faster than reading them.
  """
  # [F, K·C], so that the gradient is dyᵀ · patches, which is twice as fast on a
  # CPU as its transpose. The barrier keeps XLA from transposing it back.
  matrix = kernel.reshape(-1, kernel.shape[-1]).T
  matrix = lax.optimization_barrier(matrix)

  def several(images: jax.Array) -> jax.Array:
    patches = jnp.concatenate(slices(images, windows), -1)
    axes = (patches.ndim - 1,), (1,)
    return lax.dot_general(patches, matrix, (axes, ((), ())), precision)

  widest = max(matrix.shape)  # a patch, or its output
  patch_bytes = math.prod(windows.places) * widest * x.dtype.itemsize
  size = _chunk_size(x.shape[0], patch_bytes)
  if size == x.shape[0]:
    return several(x)
  chunks = x.reshape(-1, size, *x.shape[1:])
  y = lax.map(jax.checkpoint(several, prevent_cse=False), chunks)
  return y.reshape(x.shape[0], *y.shape[2:])


def _chunk_size(num_images: int, patch_bytes: int) -> int:
  """Returns the batch size if its patches fit, else a divisor for chunks."""
  if num_images * patch_bytes <= _CACHE_BYTES:
    return num_images
  fitting = max(1, min(num_images, _CHUNK_BYTES // patch_bytes))
  return max(n for n in range(1, fitting + 1) if num_images % n == 0)


METHODS = {'conv': _convolution, 'patches': _patches}
