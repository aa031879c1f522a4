"""Sliding windows, and whether a group permutes their positions.

Convolution and pooling see an image through windows at regular positions. They
are equivariant only if transforming the image permutes these positions. (Images
need not be square: rotating a wide one gives a tall one.)
"""

from collections.abc import Sequence
import dataclasses
import itertools
import math
from typing import Any

from flax.typing import PaddingLike
from flax.typing import PrecisionLike
import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from aen.groups import point_group

_PADDINGS = ('SAME', 'VALID')

# A batch whose patches exceed a processor's cache is cut into chunks that fit;
# measured, like the default in `convolve`, on two cores.
_CACHE_BYTES = 2**21
_CHUNK_BYTES = 2**20


@dataclasses.dataclass(frozen=True)
class Frame:
  """The positions of windows; one entry per spatial axis."""

  space: tuple[int, ...]  # the image's sizes
  sides: tuple[int, ...]  # of a window
  strides: tuple[int, ...]  # steps between windows
  padding: tuple[tuple[int, int], ...]  # zeros before and after the image
  dilation: tuple[int, ...]  # steps between the points of a window

  @property
  def spans(self) -> tuple[int, ...]:
    """The extent of a window, from its first point to its last."""
    pairs = zip(self.sides, self.dilation, strict=True)
    return tuple((side - 1) * step + 1 for side, step in pairs)

  @property
  def room(self) -> tuple[int, ...]:
    """How far a window can slide; negative if it does not fit."""
    axes = zip(self.space, self.padding, self.spans, strict=True)
    return tuple(size + sum(pads) - span for size, pads, span in axes)

  @property
  def places(self) -> tuple[int, ...]:
    """The number of windows."""
    pairs = zip(self.room, self.strides, strict=True)
    return tuple(room // stride + 1 for room, stride in pairs)


def frame(
  space: tuple[int, ...],
  sides: Sequence[int],
  strides: int | Sequence[int] = 1,
  padding: PaddingLike = 'SAME',
  dilation: int | Sequence[int] = 1,
) -> Frame:
  """Returns the windows of a convolution or pooling."""
  ndim = len(space)
  strides = per_axis(strides, ndim, 'strides')
  dilation = per_axis(dilation, ndim, 'kernel_dilation')
  bare = Frame(space, tuple(sides), strides, ((0, 0),) * ndim, dilation)
  result = dataclasses.replace(bare, padding=_pads(padding, bare))
  if min(result.room) < 0:
    spans, sizes = ('×'.join(map(str, n)) for n in (bare.spans, space))
    raise ValueError(
      f'windows of {spans} points do not fit into {sizes} points; use larger'
      " images, a smaller kernel or padding='SAME'"
    )
  return result


def per_axis(value: Any, ndim: int, name: str) -> tuple[int, ...]:
  """Returns one positive integer per spatial axis; a single one is repeated."""
  numbers = (value,) * ndim if np.ndim(value) == 0 else tuple(value)
  whole = all(
    isinstance(n, int | np.integer) and 1 <= n < 2**31 for n in numbers
  )
  if len(numbers) != ndim or not whole:
    raise ValueError(
      f'{name} must be one whole number of at least 1, or one per spatial axis'
      f' ({ndim}), got {value!r}'
    )
  return tuple(int(n) for n in numbers)


def _pads(padding: PaddingLike, bare: Frame) -> tuple[tuple[int, int], ...]:
  if isinstance(padding, str) and padding in _PADDINGS:
    pads = lax.padtype_to_pads(bare.space, bare.spans, bare.strides, padding)
    return tuple((int(low), int(high)) for low, high in pads)
  whole, each = (int, np.integer), padding
  if isinstance(padding, whole):
    each = (padding,) * len(bare.space)
  if isinstance(each, Sequence) and len(each) == len(bare.space):
    pairs: list[Any] = [(p, p) if isinstance(p, whole) else p for p in each]
    if all(
      isinstance(pair, Sequence)
      and len(pair) == 2
      and all(isinstance(n, whole) and 0 <= n < 2**31 for n in pair)
      for pair in pairs
    ):
      return tuple((int(low), int(high)) for low, high in pairs)
  raise ValueError(
    f"padding must be 'SAME', 'VALID', a number, or a number or pair of numbers"
    f' per spatial axis ({len(bare.space)}), got {padding!r}'
  )


def check(windows: Frame, group: point_group.Group) -> None:
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
        f' {size} points over on axis {axis}, so a reflected or rotated image'
        ' would be seen through other windows, which breaks equivariance; use a'
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
  """Returns, for each point of a window, its values in all windows.

  Of x [B, *S, ...], one [B, *S', ...] for each point, in row-major order.
  """
  rest = ((0, 0),) * (x.ndim - 1 - len(windows.space))
  if any(map(any, windows.padding)):
    x = jnp.pad(x, ((0, 0), *windows.padding, *rest))
  if windows.strides == windows.spans == windows.sides:
    used = np.multiply(windows.places, windows.sides)
    if x.shape[1 : 1 + used.size] == tuple(used):
      return _tiles(x, windows)
  steps = (1, *windows.strides, *(1,) * len(rest))
  found = []
  for point in np.ndindex(*windows.sides):
    start = np.array(point) * windows.dilation
    room = np.array(windows.room) // windows.strides * windows.strides
    starts = (0, *map(int, start), *(0,) * len(rest))
    limits = (
      x.shape[0],
      *map(int, start + room + 1),
      *x.shape[1 + len(start) :],
    )
    found.append(lax.slice(x, starts, limits, steps))
  return found


def _tiles(x: jax.Array, windows: Frame) -> list[jax.Array]:
  """Returns `slices` of windows that partition x.

  The transpose of a split is a concatenation. That of a strided slice is a
  padded array, and a sum of these is slow on a CPU.
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
  """Applies a plain convolution: x [B, *S, C], kernel [*K, C, F], [B, *S', F].

  The method is a name in `METHODS` (default: 'patches' on CPU, else 'conv').
  """
  check_method(method)
  if method is None:
    method = 'patches' if jax.default_backend() == 'cpu' else 'conv'
  return METHODS[method](x, kernel, windows, precision)


def check_method(name: str | None) -> None:
  """Raises unless None or a name in `METHODS`."""
  if name is not None and name not in tuple(METHODS):
    raise ValueError(
      f'method must be one of {tuple(METHODS)} or None, got {name!r}'
    )


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
  """Multiplies the patches under the kernel, side by side, by a matrix.

  A few images at a time, so that their patches stay in the processor's cache;
  the backward pass recomputes them rather than reading them from memory.
  """
  # [F, K·C], so that the gradient is dyᵀ · patches, which is twice as fast on a
  # CPU as its transpose. The barrier keeps XLA from exchanging the two.
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
  """Returns the batch size, or its largest divisor whose patches fit."""
  if num_images * patch_bytes <= _CACHE_BYTES:
    return num_images
  fitting = max(1, min(num_images, _CHUNK_BYTES // patch_bytes))
  return max(n for n in range(1, fitting + 1) if num_images % n == 0)


METHODS = {'conv': _convolution, 'patches': _patches}
