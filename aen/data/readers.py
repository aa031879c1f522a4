"""From files to arrays: one reader per format, in the registry `READERS`.

A reader maps a source and the paths of its files, in the order of the
catalogue, to the parts as published. To add a format:

1. write such a function: `intact` turns whatever a damaged file raises into one
   clear line, and `part` checks types; `read` checks checksums, shapes, counts
   and labels for all formats;
2. add it to `READERS`, and name it as `format` in catalogue.toml;
3. add a writer of tiny files in that format to `tests/data/tiny.py`: the tests
   of reading then cover every entry of the catalogue that names it.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import gzip
import hashlib
import math
import pathlib
import pickle
import struct
import tarfile
import types
from typing import Any
import zipfile
import zlib

import numpy as np

from aen.data import catalogue
from aen.data import draws
from aen.data import embedded
from aen.data import splits
from aen.data import transform
from aen.data.dataset import cut
from aen.data.dataset import part
from aen.data.dataset import Parts
from aen.data.dataset import Split
from aen.io import PathLike

Paths = Sequence[pathlib.Path]
Reader = Callable[[catalogue.Source, Paths], Parts]


def read(source: catalogue.Source, paths: Paths) -> Parts:
  """Reads official files, verified, into the parts as published.

  Raises:
    ValueError: A file is not the official one, or is damaged.
  """
  for file, path in zip(source.files, paths, strict=True):
    verify(path, file)
  parts = READERS[source.format](source, paths)
  check(source, arrange(source, parts), whole=True)
  return parts


def read_partial(source: catalogue.Source, path: pathlib.Path) -> Parts:
  """Reads a part of a data set, arranged."""
  return check(source, READERS[source.partial_format](source, [path]))


def arrange(source: catalogue.Source, parts: Parts) -> Parts:
  """Maps parts as published to parts as given out: upright, labels from 0."""

  def arranged(side: Split) -> Split:
    images = side.images
    if source.transposed:
      images = np.ascontiguousarray(images.swapaxes(1, 2))
    labels = side.labels - np.int32(source.first_label)
    return dataclasses.replace(side, images=images, labels=labels)

  train, test = (arranged(side) for side in parts)
  return Parts(test, train) if source.swapped else Parts(train, test)


def check(source: catalogue.Source, parts: Parts, whole: bool = False) -> Parts:
  """Returns arranged parts; ValueError if they are not the source's."""
  shapes = {side.images.shape[1:] for side in parts}
  if shapes != {source.shape}:
    raise ValueError(
      f'{source.name}: expected images of shape {source.shape}, got'
      f' {" and ".join(str(s) for s in sorted(shapes))}; these are not the'
      f' official files of {source.name}'
    )
  counts = tuple(len(side) for side in parts)
  expected = source.counts
  if whole and counts != expected:
    raise ValueError(
      f'{source.name}: expected {expected[0]} training and {expected[1]} test'
      f' images, got {counts[0]} and {counts[1]}; remove this incomplete copy'
      ' and fetch or prepare it again'
    )
  highest = max(int(side.labels.max()) for side in parts)
  if highest >= len(source.class_names):
    raise ValueError(
      f'{source.name}: expected labels 0…{len(source.class_names) - 1}, got'
      f' {highest}; these are not the official files of {source.name}'
    )
  return parts


def verify(path: pathlib.Path, file: catalogue.File) -> None:
  """Raises ValueError if a file is not the official one."""
  if not file.sha256 or (digest := sha256(path)) == file.sha256:
    return
  if file.name.endswith('.gz'):
    content = hashlib.sha256(read_gzip(path)).hexdigest()
    if content == file.content_sha256:
      return
  origin = f' from {file.url}' if file.url else ''
  raise ValueError(
    f'{path}: wrong checksum, expected sha256 {file.sha256} ({file.size}'
    f' bytes), got {digest} ({path.stat().st_size} bytes); this is not the'
    f' official {file.name}: fetch it again{origin}'
  )


def sha256(path: PathLike) -> str:
  """Returns the sha256 of a file, in hexadecimal."""
  with open(path, 'rb') as f:
    return hashlib.file_digest(f, 'sha256').hexdigest()


# What the readers of NumPy, SciPy and the standard library raise for damaged
# files and for other formats.
DAMAGE = (
  zipfile.BadZipFile,
  tarfile.TarError,
  zlib.error,
  pickle.UnpicklingError,
  struct.error,
  AttributeError,
  EOFError,
  KeyError,
  OSError,
  RuntimeError,
  TypeError,
  ValueError,
)


@contextlib.contextmanager
def intact(path: PathLike, expected: str) -> Iterator[None]:
  """Turns whatever a damaged file raises into one clear line."""
  try:
    yield
  except DAMAGE as error:
    if getattr(error, 'filename', None):  # it cannot be opened at all
      raise
    reason = ' '.join(str(error).split())
    raise ValueError(
      f'{path}: expected {expected}, got a truncated or damaged file, or'
      f' another format ({reason}); fetch it again'
    ) from error


def read_gzip(path: PathLike) -> bytes:
  """Returns the content of a .gz file."""
  with intact(path, 'a gzip file'), gzip.open(path, 'rb') as f:
    return f.read()


def parse_idx(content: bytes, where: PathLike) -> np.ndarray:
  """Parses an idx file of unsigned bytes, the format of MNIST.

  Args:
    content: The uncompressed file: 0, 0, 8, the number of axes, the sides as
      big-endian uint32, then the values.
    where: What error messages call it.

  Returns:
    uint8, of the shape the file declares.
  """
  if len(content) < 4 or content[:3] != b'\x00\x00\x08':
    raise ValueError(
      f'{where}: expected an idx file of unsigned bytes (it starts with 00 00'
      f' 08), got one that starts with {content[:4].hex(" ")}; fetch it again'
    )
  start = 4 + 4 * content[3]
  header, values = content[4:start], content[start:]
  sides = np.frombuffer(header[: len(header) // 4 * 4], '>u4')
  shape = tuple(int(side) for side in sides)
  if len(shape) != content[3] or len(values) != math.prod(shape):
    raise ValueError(
      f'{where}: the header declares {content[3]} axes of sides {shape}, but'
      f' {len(values)} values follow; the file is damaged, fetch it again'
    )
  return np.frombuffer(values, np.uint8).reshape(shape)


def read_table(path: pathlib.Path, columns: int, **options: Any) -> np.ndarray:
  """Returns a text file of numbers as float32 [rows, columns]."""
  with intact(path, f'{columns} numbers in every line'):
    table = np.loadtxt(path, np.float32, ndmin=2, **options)
    if table.shape[1] != columns:
      raise ValueError(f'{table.shape[1]} numbers')
  return table


def read_npz(
  path: PathLike, *keys: str, optional: tuple[str, ...] = ()
) -> list[Any]:
  """Returns the named arrays of an .npz file, None for optional ones."""
  try:
    with np.load(path, allow_pickle=False) as f:
      names = f.files
      wanted = [key for key in (*keys, *optional) if key in names]
      arrays = {key: f[key] for key in wanted}
  except DAMAGE as error:
    if getattr(error, 'filename', None):  # it cannot be opened at all
      raise
    if 'Object arrays' in str(error):
      raise ValueError(
        f'{path}: expected arrays of numbers or strings, got Python objects;'
        ' give every array one plain dtype (np.stack images of one size) and'
        ' save it again'
      ) from error
    raise ValueError(
      f'{path}: expected an .npz file, got a truncated or damaged one, or'
      ' another format; fetch it again or make it with np.savez'
    ) from error
  if any(key not in names for key in keys):
    raise ValueError(
      f'{path}: expected the arrays {", ".join(keys)}, got'
      f' {", ".join(names) or "none"}; save it with np.savez('
      f'path, {", ".join(f"{key}=…" for key in keys)})'
    )
  return [arrays.get(key) for key in (*keys, *optional)]


def _digits(source: catalogue.Source, _: Paths) -> Parts:
  """Returns the embedded digits.

  The test part is the end of the file: mostly writers that training never saw.
  """
  everything = part(*embedded.digits(), where=source.name)
  start = source.counts[0]
  return cut(everything, slice(start), slice(start, None))


def _tic_tac_toe(source: catalogue.Source, _: Paths) -> Parts:
  """Returns the embedded boards, divided at random."""
  everything = part(*embedded.tic_tac_toe(), where=source.name)
  rows = splits.hold_out(everything.labels, source.counts[1])
  return cut(everything, *rows)


def _idx(_: catalogue.Source, paths: Paths) -> Parts:
  """Reads the four files of MNIST and of the sets that copy its form."""
  arrays = (parse_idx(read_gzip(path), path) for path in paths)
  return _parts(arrays, paths[0].parent)


def _parts(arrays: Iterable[np.ndarray], where: pathlib.Path) -> Parts:
  """Makes parts of train images, train labels, test images, test labels."""
  x_train, y_train, x_test, y_test = arrays
  return Parts(
    part(x_train, y_train, where=f'{where}, train'),
    part(x_test, y_test, where=f'{where}, test'),
  )


def _emnist(source: catalogue.Source, paths: Paths) -> Parts:
  """Reads one config of EMNIST from its archive of idx files."""
  (archive,) = paths
  config = source.name.partition('/')[2]

  def read_idx(kind: str) -> np.ndarray:
    name = f'gzip/emnist-{config}-{kind}-ubyte.gz'
    with (
      intact(archive, f'{name} in a zip file'),
      zipfile.ZipFile(archive) as f,
    ):
      content = gzip.decompress(f.read(name))
    return parse_idx(content, f'{archive}/{name}')

  kinds = ('images-idx3', 'labels-idx1')
  arrays = (
    read_idx(f'{split}-{kind}') for split in ('train', 'test') for kind in kinds
  )
  return _parts(arrays, archive)


def _cifar10(_: catalogue.Source, paths: Paths) -> Parts:
  """Reads CIFAR-10's binary archive: rows of label, red, green, blue."""
  (archive,) = paths
  names = [*(f'data_batch_{i}' for i in range(1, 6)), 'test_batch']
  batches = []  # of uint8 [N, 1 + 3 * 32 * 32]
  for name in names:
    with intact(archive, f'rows of 3073 bytes in {name}.bin of a tar file'):
      with tarfile.open(archive) as f:
        member = f.extractfile(f'cifar-10-batches-bin/{name}.bin')
        content = member.read() if member else b''
      batches.append(np.frombuffer(content, np.uint8).reshape(-1, 3073))

  def as_part(rows: np.ndarray) -> Split:
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return part(np.ascontiguousarray(images), rows[:, 0], where=archive)

  return Parts(as_part(np.concatenate(batches[:5])), as_part(batches[5]))


def _one_file_each(read_part: Callable[[pathlib.Path], Split]) -> Reader:
  """Returns the reader of a set with one file for train and one for test."""
  return lambda _, paths: Parts(*(read_part(path) for path in paths))


def _svhn(path: pathlib.Path) -> Split:
  """Reads SVHN's cropped digits; the digit 0, filed as 10, gets label 0."""
  from scipy import io as scipy_io  # slow to import

  with intact(path, 'a MATLAB file with X and y'):
    content = scipy_io.loadmat(path)
    images, labels = content['X'], content['y']
  images = np.ascontiguousarray(np.moveaxis(images, -1, 0))
  return part(images, labels.ravel() % 10, where=path)


def _amat(path: pathlib.Path) -> Split:
  """Reads the official RotMNIST: lines of 784 values in 0…1 and a label."""
  table = read_table(path, 785)
  images = np.rint(table[:, :-1] * 255).astype(np.uint8).reshape(-1, 28, 28)
  return part(images, table[:, -1].astype(np.int32), where=path)


def _sign_csv(path: pathlib.Path) -> Split:
  """Reads Sign Language MNIST's CSV files: a label and 784 values a line."""
  table = read_table(path, 785, delimiter=',', skiprows=1)
  images = table[:, 1:].astype(np.uint8).reshape(-1, 28, 28)
  return part(images, _without_j(table[:, 0], path), where=path)


def _rotated_mnist(source: catalogue.Source, paths: Paths) -> Parts:
  """Makes a set by RotMNIST's recipe from MNIST's files.

  All 70000 images are shuffled; 12000 become the training part, another 50000
  the test part; each is rotated by its own angle, uniform in ±180°, with
  bilinear interpolation. It is not the published set.
  """
  return rotate_parts(_idx(source, paths), (12000, 50000))


def rotate_parts(parts: Parts, counts: tuple[int, int]) -> Parts:
  """Makes rotated train and test parts of `counts` different images."""
  images = np.concatenate([side.images for side in parts])
  labels = np.concatenate([side.labels for side in parts])
  order = draws.order(0, draws.CHOOSE_MNIST, labels, stratified=False)

  def rotated(split: str, rows: np.ndarray) -> Split:
    angles = draws.unit(0, draws.ROTATE[split], len(rows)) * 360 - 180
    pixels = transform.rotate(images[rows], angles, smooth=True)
    return part(pixels, labels[rows], where='rotated MNIST')

  return Parts(
    rotated('train', order[: counts[0]]),
    rotated('test', order[counts[0] : sum(counts)]),
  )


def _sign_npz(_: catalogue.Source, paths: Paths) -> Parts:
  """Reads the part of Sign Language MNIST kept as x, y, group, is_test."""
  (path,) = paths
  images, labels, groups, is_test = read_npz(path, 'x', 'y', 'group', 'is_test')
  everything = part(images, _without_j(labels, path), groups, where=path)
  return cut(everything, ~is_test, is_test)


def _without_j(labels: np.ndarray, where: pathlib.Path) -> np.ndarray:
  """Maps A…Y without J, numbered 0…24 without 9, to 0…23."""
  labels = labels.astype(np.int32)
  if labels.size and ((labels == 9).any() or labels.max() > 24):
    raise ValueError(
      f'{where}: expected labels 0…24 without 9 (J and Z are movements), got'
      f' {np.unique(labels).tolist()}; fetch it again'
    )
  return labels - (labels > 9)


def _npz(_: catalogue.Source, paths: Paths) -> Parts:
  """Reads x_train, y_train, x_test and y_test of an .npz file."""
  (path,) = paths
  arrays = read_npz(path, 'x_train', 'y_train', 'x_test', 'y_test')
  return _parts(arrays, path)


READERS: Mapping[str, Reader] = types.MappingProxyType(
  {
    'digits': _digits,
    'tic_tac_toe': _tic_tac_toe,
    'idx': _idx,
    'emnist': _emnist,
    'cifar10': _cifar10,
    'svhn': _one_file_each(_svhn),
    'amat': _one_file_each(_amat),
    'rotated_mnist': _rotated_mnist,
    'sign_csv': _one_file_each(_sign_csv),
    'sign_npz': _sign_npz,
    'npz': _npz,
  }
)
