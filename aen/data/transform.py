"""The transformations of the G-data sets: drawn, applied, recorded, inverted.

A config names which of the twelve symmetries act on the images, and how.

* As published (`aug3`): rotation turns by a random angle in ±180° (nearest
  neighbour, zero fill), translations shift by one pixel (wrapping), and every
  move except the rotation is made with probability 1/2.
* `_group` (`aug3_group`): each symmetry is applied a uniformly random number
  of times, from none to its order minus one. All moves are rearrangements.

Moves are made in bit order, 1 to 12. Draws depend on nothing but the seed, the
split and the image's index, so an image looks the same alone and in any batch.
A bit's draw is the same in every config: configs compare image by image.

Legend: N images, H x H pixels, P = H * H of them, 12 bits.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import types

import numpy as np

from aen.data import draws
from aen.data import errors
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import permutation

NUM_BITS = len(symmetries_lib.SYMMETRIES)
ROTATION = 0  # the bit that turns by an angle in the published flavour

# Which symmetries (bits 1…12) each of the paper's augmentation arrays holds.
_ARRAYS = {
  'aug0': '000000000000',
  'aug1': '011000100001',
  'aug2': '110000001100',
  'aug3': '100100010010',
  'aug4': '111111000000',
  'aug5': '111111111111',
}
_SINGLES = {
  f'iaug{k}': ''.join('01'[bit == k] for bit in range(1, NUM_BITS + 1))
  for k in range(NUM_BITS + 1)
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
    names = zip(symmetries_lib.SYMMETRIES, self.bits, strict=True)
    return tuple(name for name, bit in names if bit)

  @property
  def turns_by_angle(self) -> bool:
    """Whether images are turned by any angle, which loses pixels."""
    return self.as_published and self.bits[ROTATION]


CONFIGS: Mapping[str, Config] = types.MappingProxyType(
  {
    name + ending: Config(
      name + ending, tuple(bit == '1' for bit in bits), not ending
    )
    for ending in ('', '_group')
    for name, bits in (_SINGLES | _ARRAYS).items()
  }
)


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
  """What was done to each of N images.

  Attributes:
    config: The config the draws were made for.
    powers: How often each symmetry was applied. uint8 [N, 12].
    angles: By how many degrees the image was first turned, counter-clockwise.
      float32 [N].
  """

  config: Config
  powers: np.ndarray
  angles: np.ndarray

  def __len__(self) -> int:
    return len(self.powers)

  def __getitem__(self, rows: np.ndarray | slice) -> 'Record':
    return Record(self.config, self.powers[rows], self.angles[rows])


def config(name: str) -> Config:
  """Returns the config of a name such as `'aug3'` or `'iaug12_group'`."""
  if name not in CONFIGS:
    raise errors.unknown(
      'config',
      name,
      CONFIGS,
      summary='iaug0…iaug12, aug0…aug5, and each of them with _group',
    )
  return CONFIGS[name]


def draw(
  config: Config,
  side: int,
  indices: np.ndarray,
  *,
  split: str = 'train',
  seed: int = 0,
) -> Record:
  """Draws what will be done to images.

  Args:
    config: Which symmetries act.
    side: H, on which the orders of the translations depend.
    indices: The images' positions in their split. int [N].
    split: `'train'` or `'test'`.
    seed: Data sets of this package use 0.

  Returns:
    A record of N draws; row n depends on (seed, split, indices[n]) only.
  """
  words = _words(seed, split, np.asarray(indices))  # [N, 12]
  orders = np.array([len(powers) for powers in _powers(config, side)])
  high = words >> np.uint64(32)
  powers = (high * orders.astype(np.uint64)) >> np.uint64(32)
  angles = np.zeros(len(words), np.float32)
  if config.turns_by_angle:
    angles = high[:, ROTATION] * (360 / 2**32) - 180
  return Record(config, powers.astype(np.uint8), angles.astype(np.float32))


def _words(seed: int, split: str, indices: np.ndarray) -> np.ndarray:
  """Returns uint64 [N, 12], a row for every index."""
  if split not in draws.TRANSFORM:
    raise errors.unknown('split', split, draws.TRANSFORM)
  rows = int(indices.max(initial=-1)) + 1
  words = draws.words(seed, draws.TRANSFORM[split], rows * NUM_BITS)
  return words.reshape(rows, NUM_BITS)[indices]


def transform(images: np.ndarray, record: Record) -> np.ndarray:
  """Applies recorded transformations: uint8 [N, H, H] -> uint8 [N, H, H]."""
  side = _check(images, record)
  if record.config.turns_by_angle:
    images = rotate(images, record.angles)
  return _rearrange(images, record, _powers(record.config, side))


def invert(
  images: np.ndarray, record: Record, *, keep_rotation: bool = False
) -> np.ndarray:
  """Undoes recorded transformations.

  Args:
    images: Transformed images. uint8 [N, H, H].
    record: What was done to them.
    keep_rotation: A turn by an angle loses pixels and cannot be undone. Pass
      True to undo all moves that came after it and keep the turned images.

  Returns:
    The original images, uint8 [N, H, H], or with `keep_rotation` the originals
    turned by `record.angles`.
  """
  side = _check(images, record)
  if record.config.turns_by_angle and not keep_rotation:
    raise ValueError(
      f'config {record.config.name!r} turned images by any angle, which loses'
      ' pixels; pass keep_rotation=True to undo everything else, or use'
      f" '{record.config.name}_group', whose moves are exact"
    )
  powers = _powers(record.config, side)
  backwards = [np.argsort(tables, axis=1) for tables in powers]
  return _rearrange(images, record, backwards, reverse=True)


def _check(images: np.ndarray, record: Record) -> int:
  if not isinstance(record, Record):
    raise ValueError(
      'expected the Record of what was done to the images, got'
      f' {type(record).__name__}; only G-data sets have one, such as'
      " load_dataset('g_digits/aug3_group').train.record"
    )
  if images.ndim != 3 or images.shape[1] != images.shape[2]:
    raise ValueError(
      'transformations need grey square images [N, H, H], got an array of shape'
      f' {images.shape}; convert colour images to grey and crop or pad them'
    )
  if len(images) != len(record):
    raise ValueError(
      f'expected one record per image, got {len(record)} records for'
      f' {len(images)} images; slice the record as you sliced the images'
    )
  return images.shape[1]


def _rearrange(
  images: np.ndarray,
  record: Record,
  powers: list[np.ndarray],
  reverse: bool = False,
) -> np.ndarray:
  """Moves the pixels of the images that share a power of a bit together."""
  num_points = images.shape[1] * images.shape[2]
  flat = images.reshape(len(images), num_points).copy()  # [N, P]
  bits = range(NUM_BITS)[:: -1 if reverse else 1]
  for bit in bits:
    for power in range(1, len(powers[bit])):
      rows = np.flatnonzero(record.powers[:, bit] == power)
      if rows.size:
        flat[rows] = np.take(flat[rows], powers[bit][power], axis=1)
  return flat.reshape(images.shape)


def _powers(config: Config, side: int) -> list[np.ndarray]:
  """Returns for every bit the permutations to draw from, int32 [order, P]."""
  return [
    _power_table(bit, side, config.as_published, moves)
    for bit, moves in enumerate(config.bits)
  ]


@functools.lru_cache(maxsize=256)
def _power_table(
  bit: int, side: int, as_published: bool, moves: bool
) -> np.ndarray:
  """Returns int32 [order, P]: all powers, or as published none and one."""
  identity = np.arange(side * side, dtype=np.int32)
  if not moves or (as_published and bit == ROTATION):
    return identity[None]
  name = tuple(symmetries_lib.SYMMETRIES)[bit]
  published = _ONE_PIXEL.get(name, symmetries_lib.SYMMETRIES[name])
  if as_published:
    return np.stack([identity, permutation(published, (side, side))])
  generator = permutation(name, (side, side))
  powers = [identity]
  while not np.array_equal(power := powers[-1][generator], identity):
    powers.append(power)
  return np.stack(powers)


def _shift(axis: int) -> Callable[[np.ndarray], np.ndarray]:
  return lambda array: np.roll(array, 1, axis)


# The network's translations go by four pixels, the published images' by one.
_ONE_PIXEL = {
  'horizontal_translation': symmetries_lib.Symmetry('shift_right', _shift(1)),
  'vertical_translation': symmetries_lib.Symmetry('shift_down', _shift(0)),
}

_CHUNK = 256  # images rotated at once, so that coordinates stay in the cache


def rotate(
  images: np.ndarray, angles: np.ndarray, *, smooth: bool = False
) -> np.ndarray:
  """Turns images about their centres, counter-clockwise, zeros moving in.

  Args:
    images: uint8 [N, H, H].
    angles: Degrees. float [N].
    smooth: Interpolate bilinearly instead of taking the nearest pixel.

  Returns:
    uint8 [N, H, H].
  """
  method = _bilinear if smooth else _nearest
  turned = [
    method(images[start : start + _CHUNK], angles[start : start + _CHUNK])
    for start in range(0, len(images), _CHUNK)
  ]
  return np.concatenate(turned) if turned else images.copy()


def _sources(side: int, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows and columns that pixels come from, each [N, P]."""
  radians = np.deg2rad(angles.astype(np.float64))[:, None]
  cos, sin = np.cos(radians), np.sin(radians)
  centre = (side - 1) / 2
  down, right = np.indices((side, side)).reshape(2, 1, -1) - centre
  rows = right * sin + down * cos + centre
  columns = right * cos - down * sin + centre
  return rows, columns


def _nearest(images: np.ndarray, angles: np.ndarray) -> np.ndarray:
  side = images.shape[1]
  rows, columns = (np.rint(x) for x in _sources(side, angles))
  return _pixels(images, rows, columns).reshape(images.shape)


def _bilinear(images: np.ndarray, angles: np.ndarray) -> np.ndarray:
  rows, columns = _sources(images.shape[1], angles)
  top, left = np.floor(rows), np.floor(columns)
  below, beyond = rows - top, columns - left
  total = np.zeros(rows.shape)
  for step_down, weight_down in ((0, 1 - below), (1, below)):
    for step_right, weight_right in ((0, 1 - beyond), (1, beyond)):
      pixels = _pixels(images, top + step_down, left + step_right)
      total += weight_down * weight_right * pixels
  return np.rint(total).astype(np.uint8).reshape(images.shape)


def _pixels(
  images: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
  """Returns the pixels at whole coordinates [N, P], 0 outside the image."""
  side = images.shape[1]
  inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
  points = np.where(inside, rows * side + columns, 0).astype(np.int32)
  flat = images.reshape(len(images), -1)
  return np.where(inside, np.take_along_axis(flat, points, axis=1), np.uint8(0))
