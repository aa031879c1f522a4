"""The transformations of the G-data sets: drawn, applied, recorded, inverted.

A config says which of the twelve symmetries act on the images, and how.

* As published (`aug3`): images are rotated by a random angle in ±180° (nearest
  neighbour, zero fill), translations are by one pixel (wrapping), and every
  symmetry except the rotation is applied with probability 1/2.
* `_group` (`aug3_group`): each symmetry is applied k times, with k uniform in
  0…order - 1. All of them permute pixels.

Symmetries are applied in bit order, 1 to 12. Draws depend only on the seed, the
split and the index of the image, so an image looks the same alone and in any
batch. The draw of a bit is the same in every config, so configs can be compared
image by image.

Legend: N images, H x H pixels, P = H * H of them, 12 bits.
"""

from collections.abc import Mapping
import dataclasses
import functools

import numpy as np

from aen import io as io_lib
from aen.data import draws
from aen.groups import symmetries as symmetries_lib

_NAMES = symmetries_lib.PAPER_SYMMETRIES
NUM_BITS = len(_NAMES)
ROTATION = 0  # the bit that as published rotates by a random angle

# The symmetries of each of the paper's augmentation arrays, as bits 1…12; the 0
# of iaug0 is none of them.
_ARRAYS = {
  **{f'iaug{bit}': (bit,) for bit in range(NUM_BITS + 1)},
  'aug0': (),
  'aug1': (2, 3, 7, 12),
  'aug2': (1, 2, 9, 10),
  'aug3': (1, 4, 8, 11),
  'aug4': range(1, 7),
  'aug5': range(1, 13),
}


@dataclasses.dataclass(frozen=True)
class Config:
  """Which symmetries act on the images, and how."""

  name: str
  bits: tuple[bool, ...]  # [12]
  as_published: bool

  @property
  def symmetries(self) -> tuple[str, ...]:
    """The names of the symmetries that act."""
    names = zip(_NAMES, self.bits, strict=True)
    return tuple(name for name, bit in names if bit)

  @property
  def rotates_by_angle(self) -> bool:
    """Whether images are rotated by arbitrary angles, which loses pixels."""
    return self.as_published and self.bits[ROTATION]


CONFIGS: Mapping[str, Config] = {
  name + ending: Config(
    name + ending,
    tuple(bit in bits for bit in range(1, NUM_BITS + 1)),
    as_published=not ending,
  )
  for ending in ('', '_group')
  for name, bits in _ARRAYS.items()
}


@dataclasses.dataclass(frozen=True, eq=False)
class Transformations:
  """The record of how each of N images was transformed."""

  config: Config  # for which the draws were made
  powers: np.ndarray  # uint8 [N, 12]: how often each symmetry was applied
  angles: np.ndarray  # float32 [N]: degrees counter-clockwise, applied before

  def __getitem__(self, rows: np.ndarray | slice) -> 'Transformations':
    return Transformations(self.config, self.powers[rows], self.angles[rows])


def config(name: str) -> Config:
  """Returns the config of a name such as `'aug3'` or `'iaug12_group'`."""
  if name not in CONFIGS:
    summary = 'iaug0…iaug12, aug0…aug5, and each of them with _group'
    raise io_lib.unknown('config', name, CONFIGS, summary=summary)
  return CONFIGS[name]


def draw(
  config: Config,
  side: int,
  indices: np.ndarray,
  *,
  split: str = 'train',
  seed: int = 0,
) -> Transformations:
  """Draws transformations of images of side x side pixels.

  Indices are positions in the part `split`, train or test. The data sets of
  this package have seed 0.
  """
  if split not in draws.TRANSFORM:
    raise io_lib.unknown('split', split, draws.TRANSFORM)
  indices = np.asarray(indices)
  rows = int(indices.max(initial=-1)) + 1
  words = draws.words(seed, draws.TRANSFORM[split], rows * NUM_BITS)
  high = words.reshape(rows, NUM_BITS)[indices] >> np.uint64(32)  # [N, 12]
  orders = np.array([len(powers) for powers in _powers(config, side)])
  powers = (high * orders.astype(np.uint64)) >> np.uint64(32)
  angles = np.zeros(len(high))
  if config.rotates_by_angle:
    angles = high[:, ROTATION] * (360 / 2**32) - 180
  return Transformations(
    config, powers.astype(np.uint8), angles.astype(np.float32)
  )


def transform(images: np.ndarray, record: Transformations) -> np.ndarray:
  """Applies recorded transformations: uint8 [N, H, H] -> uint8 [N, H, H]."""
  _check(images, record)
  if record.config.rotates_by_angle:
    images = rotate(images, record.angles)
  return _permute(images, record)


def invert(
  images: np.ndarray, record: Transformations, *, keep_rotation: bool = False
) -> np.ndarray:
  """Undoes recorded transformations: uint8 [N, H, H] -> uint8 [N, H, H].

  A rotation by an arbitrary angle loses pixels and cannot be undone: with
  `keep_rotation`, images stay rotated and everything else is undone.
  """
  _check(images, record)
  if record.config.rotates_by_angle and not keep_rotation:
    raise ValueError(
      f'config {record.config.name!r} rotated images by arbitrary angles, which'
      ' loses pixels; pass keep_rotation=True to undo everything else, or use'
      f" '{record.config.name}_group', whose transformations are exact"
    )
  return _permute(images, record, inverse=True)


def _check(images: np.ndarray, record: Transformations) -> None:
  if not isinstance(record, Transformations):
    raise ValueError(
      'expected the Transformations that were applied to the images, got'
      f' {type(record).__name__}; only G-data sets have them, such as'
      " load_dataset('g_digits/aug3_group').train.record"
    )
  square = images.ndim == 3 and images.shape[1] == images.shape[2]
  count, (number, *shape) = len(record.powers), images.shape or (0,)
  if not square or number != count:
    raise ValueError(
      'transformations need grey square images [N, H, H] and a record of each,'
      f' got {count} records for {number} images of shape {tuple(shape)}; slice'
      ' both alike, crop or pad images, drop colours'
    )


def _permute(
  images: np.ndarray, record: Transformations, inverse: bool = False
) -> np.ndarray:
  """Permutes pixels, of all images with the same power of a bit at once."""
  side = images.shape[1]
  flat = images.reshape(len(images), side * side).copy()  # [N, P]
  bits, powers = range(NUM_BITS), _powers(record.config, side)
  if inverse:
    bits, powers = bits[::-1], [np.argsort(p, axis=1) for p in powers]
  for bit in bits:
    for power in range(1, len(powers[bit])):
      rows = np.flatnonzero(record.powers[:, bit] == power)
      if rows.size:
        flat[rows] = np.take(flat[rows], powers[bit][power], axis=1)
  return flat.reshape(images.shape)


# Networks translate by four pixels, the published images by one.
_ONE_PIXEL = {
  'horizontal_translation': lambda array: np.roll(array, 1, axis=1),
  'vertical_translation': lambda array: np.roll(array, 1, axis=0),
}


@functools.lru_cache(maxsize=64)
def _powers(config: Config, side: int) -> list[np.ndarray]:
  """Returns for every bit the permutations to draw from, int32 [order, P].

  They are all powers of its symmetry; as published, only powers 0 and 1.
  """
  identity = np.arange(side * side, dtype=np.int32)
  powers = [[identity] for _ in range(NUM_BITS)]
  for bit, name in enumerate(_NAMES):
    if not config.bits[bit] or (config.rotates_by_angle and bit == ROTATION):
      continue
    symmetry = symmetries_lib.SYMMETRIES[name]
    if config.as_published:
      symmetry = _ONE_PIXEL.get(name, symmetry)
    generator = symmetry(identity.reshape(side, side)).ravel()
    if config.as_published:
      powers[bit].append(generator)
      continue
    while not np.array_equal(power := powers[bit][-1][generator], identity):
      powers[bit].append(power)
  return [np.stack(permutations) for permutations in powers]


_CHUNK = 256  # images rotated at once, so that coordinates fit in the cache


def rotate(
  images: np.ndarray, angles: np.ndarray, *, smooth: bool = False
) -> np.ndarray:
  """Rotates images about their centres, counter-clockwise, with zero fill.

  Images are uint8 [N, H, H], angles [N] in degrees. Takes the nearest pixel, or
  if `smooth` interpolates bilinearly.
  """
  side = images.shape[1]
  centre = (side - 1) / 2
  down, right = np.indices((side, side)).reshape(2, 1, -1) - centre
  rotated = np.empty_like(images)
  for start in range(0, len(images), _CHUNK):
    chunk = slice(start, start + _CHUNK)
    radians = np.deg2rad(angles[chunk].astype(np.float64))[:, None]
    cos, sin = np.cos(radians), np.sin(radians)
    # The source coordinates of pixels, [N, P].
    rows = right * sin + down * cos + centre
    columns = right * cos - down * sin + centre
    if smooth:
      pixels = _bilinear(images[chunk], rows, columns)
    else:
      pixels = _pixels(images[chunk], np.rint(rows), np.rint(columns))
    rotated[chunk] = pixels.reshape(-1, side, side)
  return rotated


def _bilinear(
  images: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  top, left = np.floor(rows), np.floor(columns)
  below, beyond = rows - top, columns - left
  total = np.zeros(rows.shape)
  for step_down, weight_down in ((0, 1 - below), (1, below)):
    for step_right, weight_right in ((0, 1 - beyond), (1, beyond)):
      pixels = _pixels(images, top + step_down, left + step_right)
      total += weight_down * weight_right * pixels
  return np.rint(total).astype(np.uint8)


def _pixels(
  images: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  """Returns the pixels at integer coordinates [N, P], 0 outside the image."""
  side = images.shape[1]
  inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
  points = np.where(inside, rows * side + columns, 0).astype(np.int32)
  flat = images.reshape(len(images), -1)
  return np.where(inside, np.take_along_axis(flat, points, axis=1), np.uint8(0))
