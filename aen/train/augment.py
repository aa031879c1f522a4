"""The paper's six augmentations: random affine transformations of images.

Each augmentation draws the matrix that maps output to input coordinates; those
that are off are the identity. Their product is applied by one bilinear
resampling. The mask is data, so all 64 combinations are one compiled program
and can be vmapped together.

Legend: B images, H×W pixels, C channels. Matrices act on (i, j, 1), the row and
column counted in pixels from the image's centre.
"""

from collections.abc import Callable, Iterable, Mapping
import types

import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib

# Draws a matrix [3, 3] for images of the given height and width.
Augmentation = Callable[[jax.Array, tuple[int, int]], jax.Array]

_MAX_ANGLE = np.deg2rad(30.0)
_MAX_SHIFT = 0.2
_MAX_SCALING = 0.1
_MAX_SHEAR = np.deg2rad(10.0)


def augment(
  key: jax.Array,
  images: jax.Array,
  mask: jax.Array,
  fill: jax.Array | float = 0.0,
) -> jax.Array:
  """Augments images, each with its own random draw.

  With every augmentation off, images are returned bit for bit; flips and
  translations alone permute pixels without interpolation.

  Args:
    key: Consumed.
    images: [B, H, W, C] or [B, H, W]; integers become float32.
    mask: Which augmentations are on, in the order of `AUGMENTATIONS`, bool or
      numbers [6]; see `augmentation_mask`.
    fill: The value beyond the borders, one number or one per channel: the value
      of black in normalised images.

  Returns:
    Images of the same shape.
  """
  if not isinstance(images, jax.Array):
    images = jnp.asarray(io_lib.array(images, 'images'))
  if not isinstance(mask, jax.Array):
    mask = jnp.asarray(io_lib.array(mask, 'the mask'))
  if not isinstance(fill, jax.Array):
    fill = io_lib.array(fill, 'fill')
  if not isinstance(key, jax.Array):
    raise ValueError(f'key must be a key, jax.random.key(seed), got {key!r}')
  channels = images.shape[3:] or (1,)
  if fill.shape not in ((), (1,), channels):
    raise ValueError(
      f'fill must be one number, or one per channel {channels}, got shape'
      f' {fill.shape}'
    )
  fits = images.ndim in (3, 4) and images.size
  if not fits or mask.shape != (len(AUGMENTATIONS),):
    raise ValueError(
      'augment needs images [B, H, W, C] or [B, H, W], at least one, and a'
      f' mask [{len(AUGMENTATIONS)}], got shapes {images.shape} and'
      f' {mask.shape}; for several masks use jax.vmap'
    )
  # With NumPy: inside a trace, jax.numpy would trace constants too.
  if not isinstance(fill, jax.core.Tracer) and not np.isfinite(fill).all():
    raise ValueError(f'fill must be finite, got {fill}')
  if not isinstance(mask, jax.core.Tracer) and np.isnan(mask).any():
    raise ValueError(f'the mask must be true or false six times, got {mask}')
  return _augmented(key, images, mask, fill)


@jax.jit
def _augmented(
  key: jax.Array, images: jax.Array, mask: jax.Array, fill: jax.Array | float
) -> jax.Array:
  if not jnp.issubdtype(images.dtype, jnp.floating):
    images = images.astype(jnp.float32)
  num_images, height, width = images.shape[:3]
  with_channels = images.reshape(num_images, height, width, -1)
  keys = jax.random.split(key, num_images)
  matrices = jax.vmap(random_matrix, (0, None, None))(
    keys, (height, width), mask
  )
  changed = jax.vmap(resample, (0, 0, None))(with_channels, matrices, fill)
  return changed.reshape(images.shape)


def augmentation_mask(names: str | Iterable[str]) -> np.ndarray:
  """Returns the mask that turns the named augmentations on, bool [6].

  >>> augmentation_mask(['random_rotation', 'random_shear']).astype(int)
  array([1, 0, 0, 0, 0, 1])
  """
  if not isinstance(names, Iterable):
    raise ValueError(f'augmentations are given by their names, got {names!r}')
  names = [names] if isinstance(names, str) else list(names)
  known = [*AUGMENTATIONS]
  if unknown := [name for name in names if name not in known]:
    raise io_lib.unknown('augmentation', unknown[0], known)
  return np.array([name in names for name in AUGMENTATIONS])


def random_matrix(
  key: jax.Array, shape: tuple[int, int], mask: jax.Array
) -> jax.Array:
  """Draws the product of the matrices of all augmentations that are on.

  Matrices map output to input coordinates, so the first augmentation's matrix
  is applied last. float32 [3, 3]
  """
  result = jnp.eye(3)
  for i, draw in enumerate(AUGMENTATIONS.values()):
    drawn = draw(jax.random.fold_in(key, i), shape)
    result = result @ jnp.where(mask[i].astype(bool), drawn, jnp.eye(3))
  return result


def resample(
  image: jax.Array, matrix: jax.Array, fill: jax.Array | float = 0.0
) -> jax.Array:
  """Resamples an image [H, W, C] bilinearly, with `fill` beyond the borders.

  The pixel at p, relative to the centre, gets the value at `matrix @ p`.
  """
  height, width, channels = image.shape
  padded = jnp.full((height + 2, width + 2, channels), fill, image.dtype)
  padded = padded.at[1:-1, 1:-1].set(image).reshape(-1, channels)
  centre = np.array([height - 1, width - 1]) / 2
  rows, columns = (
    np.indices((height, width), np.float32) - centre[:, None, None]
  ).astype(np.float32)
  row, row_weight = _place(matrix[0], rows, columns, height)
  column, column_weight = _place(matrix[1], rows, columns, width)
  corner = row * (width + 2) + column

  def value(offset: int) -> jax.Array:
    return padded.at[corner + offset].get(mode='promise_in_bounds')

  def between(
    first: jax.Array, second: jax.Array, weight: jax.Array
  ) -> jax.Array:
    return (1 - weight) * first + weight * second

  above = between(value(0), value(1), column_weight)
  below = between(value(width + 2), value(width + 3), column_weight)
  return between(above, below, row_weight).astype(image.dtype)


def _place(
  line: jax.Array, rows: np.ndarray, columns: np.ndarray, size: int
) -> tuple[jax.Array, jax.Array]:
  """Returns the integer and fractional parts of the input coordinate.

  Coordinates are those of the image padded with `fill`, 0…size + 1.
  """
  place = line[0] * rows + line[1] * columns + (line[2] + (size - 1) / 2 + 1)
  before = jnp.clip(jnp.floor(place), 0, size)
  beyond = jnp.clip(place - before, 0, 1)
  return before.astype(jnp.int32), beyond[..., None]


def _uniform(key: jax.Array, limit: float) -> jax.Array:
  return jax.random.uniform(key, minval=-limit, maxval=limit)


def _linear(entries: list[list[jax.Array | float]]) -> jax.Array:
  """Returns a matrix [3, 3] that fixes the centre."""
  rows = [[*row, 0.0] for row in entries]
  return jnp.array([*rows, [0.0, 0.0, 1.0]], jnp.float32)


def _rotation(key: jax.Array, _: tuple[int, int]) -> jax.Array:
  angle = _uniform(key, _MAX_ANGLE)
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  return _linear([[cos, -sin], [sin, cos]])


def _flip(axis: int) -> Augmentation:
  def draw(key: jax.Array, _: tuple[int, int]) -> jax.Array:
    flipped = np.ones(2)
    flipped[axis] = -1
    signs = jnp.where(jax.random.bernoulli(key), flipped, np.ones(2))
    return _linear([[signs[0], 0.0], [0.0, signs[1]]])

  return draw


def _translation(key: jax.Array, shape: tuple[int, int]) -> jax.Array:
  """Translates by whole pixels, without interpolation."""
  shift = jnp.stack([_uniform(k, _MAX_SHIFT) for k in jax.random.split(key)])
  shift = jnp.round(shift * jnp.array(shape, jnp.float32))
  return jnp.eye(3).at[:2, 2].set(shift)


def _scaling(key: jax.Array, _: tuple[int, int]) -> jax.Array:
  factor = 1 / (1 + _uniform(key, _MAX_SCALING))
  return _linear([[factor, 0.0], [0.0, factor]])


def _shear(key: jax.Array, _: tuple[int, int]) -> jax.Array:
  return _linear([[1.0, 0.0], [jnp.tan(_uniform(key, _MAX_SHEAR)), 1.0]])


# The paper's Rot(30), HFlip, VFlip, Trans(0.2), Scale(0.1), Shear(10), in its
# order, which is the order of the bits. Flips act with probability 1/2.
AUGMENTATIONS: Mapping[str, Augmentation] = types.MappingProxyType(
  {
    'random_rotation': _rotation,
    'random_horizontal_flip': _flip(axis=1),
    'random_vertical_flip': _flip(axis=0),
    'random_translation': _translation,
    'random_scaling': _scaling,
    'random_shear': _shear,
  }
)
