"""From files to arrays: one reader per format, in the registry `READERS`.

A reader maps a source and the paths of its files, in the order of the
catalogue, to images (uint8, 0 is black) and labels of train, then of test. It
returns them as they are in the files: `as_parts` applies `transposed` and
`first_label`, and checks types, shapes, counts and labels for all formats. A
reader must notice a truncated or damaged file: it parses inside `intact`, which
turns any error into one line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import gzip
import hashlib
import math
import pathlib
import tarfile
from typing import Any
import warnings
import zipfile

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import draws
from aen.data import splits
from aen.data import transform
from aen.data.catalogue import File
from aen.data.catalogue import Source

Paths = Sequence[pathlib.Path]
# (images, labels) of train, then of test; groups and a record may follow, as in
# `dataset.part`.
Arrays = Iterable[Sequence[Any]]
Reader = Callable[[Source, Paths], Arrays]

# How many times its size a file may take in memory. Images take up to 20 times,
# compressed zeros 1000 times.
MAX_EXPANSION = 100
_ALWAYS_EXPANDED = 2**26  # bytes that are always accepted


def read(source: Source, paths: Paths) -> dataset_lib.Parts:
  """Reads official files; raises a ValueError for others, or damaged ones."""
  alternatives = source.files, source.extracted
  files = next(files for files in alternatives if len(files) == len(paths))
  for file, path in zip(files, paths, strict=True):
    verify(path, file)
  arrays = READERS[source.format](source, paths)
  return as_parts(source, arrays, where=source.name)


def as_parts(
  source: Source, arrays: Arrays, *, where: str, partial: bool = False
) -> dataset_lib.Parts:
  """Checks and converts arrays: images upright, labels from 0.

  Arrays of a partial set are converted already. Error messages begin with
  `where`.
  """
  first = 0 if partial else source.first_label
  last = first + len(source.class_names) - 1
  sides = []
  for split, one in zip(('train', 'test'), arrays, strict=True):
    side = dataset_lib.part(*one, where=f'{where}, {split}')
    images, labels = side.images, side.labels
    if source.transposed and not partial:
      images = np.ascontiguousarray(images.swapaxes(1, 2))
    low, high = labels.min(), labels.max()
    if images.shape[1:] != source.shape or low < first or high > last:
      raise ValueError(
        f'{where}, {split}: expected images of shape {source.shape} and labels'
        f' {first}…{last}, got {images.shape[1:]} and {low}…{high}; fetch the'
        ' official files'
      )
    labels = labels - np.int32(first)
    sides.append(dataclasses.replace(side, images=images, labels=labels))
  train, test = reversed(sides) if source.swapped else sides
  if not partial and (len(train), len(test)) != source.counts:
    raise ValueError(
      f'{source.name}: expected {source.counts[0]} training and'
      f' {source.counts[1]} test images, got {len(train)} and {len(test)};'
      ' remove this incomplete copy and fetch or prepare it again'
    )
  return dataset_lib.Parts(train, test, source.class_names, partial)


def verify(path: pathlib.Path, file: File) -> None:
  """Raises a ValueError if a file is not the official one."""
  known = file.sha256, file.content_sha256
  if not any(known):
    return
  with path.open('rb') as f:
    digest = found = hashlib.file_digest(f, 'sha256').hexdigest()
  if digest not in known and path.suffix == '.gz' and file.content_sha256:
    found = hashlib.sha256(read_gzip(path)).hexdigest()
  if found in known:  # the second one if it was unpacked or compressed again
    return
  origin = f' from {file.url}' if file.url else ''
  raise ValueError(
    f'{path}: wrong checksum, expected sha256 {max(known)} ({file.size}'
    f' bytes), got {digest} ({path.stat().st_size} bytes); this is not the'
    f' official {file.name}: fetch it again{origin}'
  )


@contextlib.contextmanager
def intact(
  path: io_lib.PathLike, expected: str, advice: str = 'fetch it again'
) -> Iterator[None]:
  """Turns errors of reading a damaged file into a ValueError of one line."""
  try:
    yield
  except Exception as error:  # damaged files raise errors of many types
    if getattr(error, 'filename', None):  # the file cannot be opened
      raise
    reason = ' '.join(str(error).split())
    reason = reason.partition('; use `usecols`')[0]  # NumPy's advice
    got = 'a truncated or damaged file, or another format'
    if 'Object arrays' in reason:
      got = 'Python objects'
    elif 'pickle' not in reason and str(path) not in reason:
      # NumPy takes any unknown format for a pickle.
      got = f'{got} ({reason})'
    raise ValueError(
      f'{path}: expected {expected}, got {got}; {advice}'
    ) from error


def check_expansion(path: io_lib.PathLike, expanded: int) -> None:
  """Raises a ValueError if a file expands far more than images do."""
  size = pathlib.Path(path).stat().st_size
  if expanded > max(_ALWAYS_EXPANDED, MAX_EXPANSION * size):
    raise ValueError(
      f'it would expand from {size} bytes to at least {expanded}, beyond'
      f' {MAX_EXPANSION} times; if that is right, save it without compression'
    )


def read_gzip(path: io_lib.PathLike) -> bytes:
  """Returns the content of a .gz file."""
  with intact(path, 'a gzip file'), gzip.open(path, 'rb') as f:
    size = pathlib.Path(path).stat().st_size
    content = f.read(max(_ALWAYS_EXPANDED, MAX_EXPANSION * size) + 1)
    check_expansion(path, len(content))
  return content


def parse_idx(content: bytes, where: io_lib.PathLike) -> np.ndarray:
  """Parses an idx file of unsigned bytes, the format of MNIST.

  It holds the bytes 0, 0, 8, the number of axes, the shape as big-endian
  uint32, and the values.
  """
  with intact(where, 'an idx file of all bytes that its header declares'):
    if content[:3] != b'\x00\x00\x08':
      raise ValueError(f'it starts with {content[:4].hex(" ")}, not 00 00 08')
    sides = np.frombuffer(content, '>u4', count=content[3], offset=4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])
    return values.reshape(sides)


def read_table(
  path: pathlib.Path, label: int, scale: int = 1, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
  """Reads a text file, or its .gz, of 28 x 28 pixels and a label per line.

  `label` is the column of the labels; pixels times `scale` are 0…255.
  """
  with intact(path, '784 pixels from 0 to 255 and a label in every line'):
    with warnings.catch_warnings():
      warnings.simplefilter('error')  # of an empty file
      table = np.loadtxt(path, np.float32, ndmin=2, **options)
    values = np.delete(table, label, axis=1).reshape(len(table), 28, 28) * scale
    if not ((values > -0.5) & (values < 255.5)).all():  # False for NaN as well
      raise ValueError(f'values from {values.min()} to {values.max()}')
    labels = table[:, label]
    if not (labels == np.floor(labels)).all() or np.isinf(labels).any():
      raise ValueError('labels that are not whole numbers')
  return np.rint(values).astype(np.uint8), labels.astype(np.int32)


def read_npz(
  path: io_lib.PathLike, *keys: str, optional: tuple[str, ...] = ()
) -> list[Any]:
  """Returns the named arrays of an .npz file; optional ones may be None."""
  advice = (
    'fetch it again, or save arrays of one plain dtype with np.savez (np.stack'
    ' images of one size)'
  )
  with (
    intact(path, 'an .npz file of numbers and strings', advice),
    np.load(path, allow_pickle=False) as f,
  ):
    wanted = {f'{key}.npy' for key in (*keys, *optional)}
    members = [m for m in f.zip.infolist() if m.filename in wanted]
    check_expansion(path, sum(member.file_size for member in members))
    for member in members:
      with f.zip.open(member) as file:
        if np.lib.format.read_magic(file) == (1, 0):
          shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
          shape, _, dtype = np.lib.format.read_array_header_2_0(file)
      declared = math.prod(shape) * dtype.itemsize
      if declared > member.file_size and not dtype.hasobject:
        raise ValueError(
          f'{member.filename} declares {declared} bytes of values and holds'
          f' {member.file_size}'
        )
    names = f.files
    arrays = [f.get(key) for key in (*keys, *optional)]
  if not {*keys} <= {*names}:
    raise ValueError(
      f'{path}: expected the arrays {", ".join(keys)}, got'
      f' {", ".join(names) or "none"}; save it with np.savez('
      f'path, {", ".join(f"{key}=…" for key in keys)})'
    )
  return arrays


def _cut(train: Any, test: Any, *arrays: np.ndarray) -> Arrays:
  """Divides arrays into rows of train and rows of test."""
  return [[array[rows] for array in arrays] for rows in (train, test)]


def _digits(source: Source, _: Paths) -> Arrays:
  """Reads scikit-learn's handwritten digits, each pixel doubled to 16 x 16."""
  with io_lib.needed_for("load_dataset('digits')", 'data'):
    from sklearn import datasets
  bunch = datasets.load_digits()
  grey = (bunch.images.astype(np.uint16) * 255 + 8) // 16
  images = grey.astype(np.uint8).repeat(2, axis=1).repeat(2, axis=2)
  # Images are sorted by writer, so most writers of the test images are new.
  start = source.counts[0]
  return _cut(slice(start), slice(start, None), images, bunch.target)


def _tic_tac_toe(source: Source, _: Paths) -> Arrays:
  """Generates all 958 final boards of tic-tac-toe with their outcomes."""
  blank, o, x = range(3)
  pixels = np.array([128, 1, 255], np.uint8)
  cells = np.arange(9).reshape(3, 3)
  diagonals = cells.diagonal(), np.fliplr(cells).diagonal()
  lines = np.array([*cells, *cells.T, *diagonals])
  boards = np.indices((3,) * 9).reshape(9, -1).T  # [3**9, 9]
  x_line, o_line = (
    (boards[:, lines] == mark).all(axis=2).any(axis=1) for mark in (x, o)
  )
  lead = (boards == x).sum(axis=1) - (boards == o).sum(axis=1)
  full = (boards != blank).all(axis=1)
  # The last player has completed a line, or the board is full without a line.
  outcomes = np.stack(
    [
      x_line & ~o_line & (lead == 1),
      o_line & ~x_line & (lead == 0),
      full & ~x_line & ~o_line & (lead == 1),
    ]
  )
  final = outcomes.any(axis=0)
  images = pixels[boards[final]].reshape(-1, 3, 3)
  labels = outcomes[:, final].argmax(axis=0)
  return _cut(*splits.hold_out(labels, source.counts[1]), images, labels)


def _idx(_: Source, paths: Paths) -> Arrays:
  """Reads the four files of MNIST, or of sets in the same format."""
  arrays = []
  for path in paths:
    content = read_gzip(path) if path.suffix == '.gz' else path.read_bytes()
    arrays.append(parse_idx(content, path))
  return arrays[:2], arrays[2:]


def _emnist(source: Source, paths: Paths) -> Arrays:
  """Reads one config of EMNIST from its archive of idx files."""
  (path,) = paths
  config, arrays = source.name.partition('/')[2], []
  for split in ('train', 'test'):
    for kind in ('images-idx3', 'labels-idx1'):
      name = f'gzip/emnist-{config}-{split}-{kind}-ubyte.gz'
      with intact(path, f'{name} in a zip file'), zipfile.ZipFile(path) as f:
        content = gzip.decompress(f.read(name))
      arrays.append(parse_idx(content, f'{path}/{name}'))
  return arrays[:2], arrays[2:]


def _cifar10(source: Source, paths: Paths) -> Arrays:
  """Reads CIFAR-10's binary archive, or its members.

  Each row of 3073 bytes holds a label and the red, green and blue channels.
  """
  expected = 'six .bin files with rows of 3073 bytes, or a tar file of them'
  with intact(paths[0], expected):
    if len(paths) > 1:
      contents = [path.read_bytes() for path in paths]
    else:
      with tarfile.open(paths[0]) as f:
        members = [
          f.extractfile(f'cifar-10-batches-bin/{file.name}')
          for file in source.extracted
        ]
        contents = [member.read() if member else b'' for member in members]
    batches = [
      np.frombuffer(content, np.uint8).reshape(-1, 3073) for content in contents
    ]
  for rows in (np.concatenate(batches[:5]), batches[5]):
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    yield np.ascontiguousarray(images), rows[:, 0]


def _svhn(_: Source, paths: Paths) -> Arrays:
  """Reads SVHN's cropped digits; label 10 stands for the digit 0."""
  from scipy import io as scipy_io  # slow to import

  for path in paths:
    with intact(path, 'a MATLAB file with X and y'):
      content = scipy_io.loadmat(path)
      images, labels = content['X'], content['y']
    yield np.ascontiguousarray(np.moveaxis(images, -1, 0)), labels.ravel() % 10


def _amat(_: Source, paths: Paths) -> Arrays:
  """Reads the official RotMNIST: lines of 784 values in 0…1 and a label."""
  return [read_table(path, label=-1, scale=255) for path in paths]


def _sign_csv(_: Source, paths: Paths) -> Arrays:
  """Reads Sign Language MNIST's CSV files: lines of a label and 784 values."""
  for path in paths:
    images, labels = read_table(path, label=0, delimiter=',', skiprows=1)
    yield images, _without_j(labels, path)


def _sign_negative(source: Source, paths: Paths) -> Arrays:
  """Reads Sign Language MNIST as negatives, (-x) mod 256."""
  for images, labels in _sign_csv(source, paths):
    yield np.negative(images), labels


def _sign_photographs(source: Source, paths: Paths) -> Arrays:
  """Divides Sign Language MNIST so that no photograph is in train and test."""
  parts = zip(*_sign_csv(source, paths), strict=True)
  images, labels = (np.concatenate(both) for both in parts)
  groups = splits.near_copies(images, labels)
  different, first = np.unique(groups, return_index=True)
  _, held = splits.hold_out(labels[first], len(first) // splits.SHARE)
  test = np.isin(groups, different[held])
  return _cut(~test, test, images, labels, groups)


def _rotated_mnist(source: Source, paths: Paths) -> Arrays:
  """Generates a set from MNIST's files in the way RotMNIST was made."""
  return rotate_parts(_idx(source, paths), (12000, 50000))


def rotate_parts(arrays: Arrays, counts: tuple[int, int]) -> Arrays:
  """Draws train and test parts of `counts` distinct images.

  Each image is rotated by a random angle, uniform in ±180°.
  """
  images, labels = (np.concatenate(both) for both in zip(*arrays, strict=True))
  order = draws.order(0, draws.CHOOSE_MNIST, labels, stratified=False)
  train, test = order[: counts[0]], order[counts[0] : sum(counts)]
  for split, rows in (('train', train), ('test', test)):
    angles = draws.unit(0, draws.ROTATE[split], len(rows)) * 360 - 180
    yield transform.rotate(images[rows], angles, smooth=True), labels[rows]


def _sign_npz(_: Source, paths: Paths) -> Arrays:
  """Reads a part of Sign Language MNIST stored as x, y, group, is_test."""
  (path,) = paths
  images, labels, groups, is_test = read_npz(path, 'x', 'y', 'group', 'is_test')
  return _cut(~is_test, is_test, images, _without_j(labels, path), groups)


def _without_j(labels: np.ndarray, where: pathlib.Path) -> np.ndarray:
  """Maps the labels of A…Y without J, 0…24 without 9, to 0…23."""
  labels = labels.astype(np.int32)
  if labels.size and ((labels == 9).any() or labels.max() > 24):
    raise ValueError(
      f'{where}: expected labels 0…24 without 9 (J and Z are movements), got'
      f' {np.unique(labels).tolist()}; fetch it again'
    )
  return labels - (labels > 9)


def _npz(_: Source, paths: Paths) -> Arrays:
  """Reads x_train, y_train, x_test and y_test of an .npz file."""
  arrays = read_npz(paths[0], 'x_train', 'y_train', 'x_test', 'y_test')
  return arrays[:2], arrays[2:]


READERS: Mapping[str, Reader] = {
  'digits': _digits,
  'tic_tac_toe': _tic_tac_toe,
  'idx': _idx,
  'emnist': _emnist,
  'cifar10': _cifar10,
  'svhn': _svhn,
  'amat': _amat,
  'rotated_mnist': _rotated_mnist,
  'sign_csv': _sign_csv,
  'sign_negative': _sign_negative,
  'sign_photographs': _sign_photographs,
  'sign_npz': _sign_npz,
  'npz': _npz,
}
