"""From official files to arrays, one reader per format.

A reader maps the paths of its files, by name, to the parts as published.
"""

from collections.abc import Callable
from collections.abc import Mapping
import gzip
import pathlib

import numpy as np

from aen.data import draws
from aen.data import files
from aen.data import transform
from aen.data.arrays import Part
from aen.data.arrays import part
from aen.data.arrays import Parts

Paths = Mapping[str, pathlib.Path]

AMAT_TRAIN = 'mnist_all_rotation_normalized_float_train_valid.amat'
AMAT_TEST = 'mnist_all_rotation_normalized_float_test.amat'
SIGN_TRAIN = 'sign_mnist_train.csv'
SIGN_TEST = 'sign_mnist_test.csv'


def idx(paths: Paths) -> Parts:
  """Reads the four files of MNIST and of the sets that copy its form."""

  def read(stem: str) -> Part:
    images, labels = (
      files.read_idx(files.read_gzip(paths[name]), paths[name])
      for name in (
        f'{stem}-images-idx3-ubyte.gz',
        f'{stem}-labels-idx1-ubyte.gz',
      )
    )
    return part(images, labels, where=paths[f'{stem}-images-idx3-ubyte.gz'])

  return Parts(read('train'), read('t10k'))


def emnist(config: str) -> Callable[[Paths], Parts]:
  """Returns the reader of one config of EMNIST, as it lies in its archive."""

  def read(paths: Paths) -> Parts:
    archive = paths['gzip.zip']

    def member(split: str, kind: str) -> np.ndarray:
      name = f'gzip/emnist-{config}-{split}-{kind}-ubyte.gz'
      content = gzip.decompress(files.read_zip_member(archive, name))
      return files.read_idx(content, f'{archive}/{name}')

    train, test = (
      part(
        member(split, 'images-idx3'),
        member(split, 'labels-idx1'),
        where=archive,
      )
      for split in ('train', 'test')
    )
    return Parts(train, test)

  return read


def upright(first_label: int) -> Callable[[Parts], Parts]:
  """Returns what turns EMNIST's transposed images upright, labels from 0."""

  def arrange_part(side: Part) -> Part:
    images = np.ascontiguousarray(side.images.swapaxes(1, 2))
    return Part(images, side.labels - np.int32(first_label))

  return lambda parts: Parts(
    arrange_part(parts.train), arrange_part(parts.test)
  )


def cifar10(paths: Paths) -> Parts:
  """Reads CIFAR-10's binary archive: records of label, red, green, blue."""
  archive = paths['cifar-10-binary.tar.gz']

  def batch(name: str) -> Part:
    content = files.read_tar_member(archive, f'cifar-10-batches-bin/{name}.bin')
    if len(content) % 3073:
      raise ValueError(
        f'{archive}/{name}: expected records of 3073 bytes, got'
        f' {len(content)} bytes; fetch it again'
      )
    records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return part(np.ascontiguousarray(images), records[:, 0], where=archive)

  batches = [batch(f'data_batch_{i}') for i in range(1, 6)]
  train = Part(
    np.concatenate([b.images for b in batches]),
    np.concatenate([b.labels for b in batches]),
  )
  return Parts(train, batch('test_batch'))


def svhn(paths: Paths) -> Parts:
  """Reads SVHN's cropped digits; the digit 0, filed as 10, gets label 0."""
  from scipy import io as scipy_io  # slow to import

  def read(name: str) -> Part:
    try:
      content = scipy_io.loadmat(paths[name])
      images, labels = content['X'], content['y']
    except (KeyError, ValueError, TypeError, OSError) as error:
      raise ValueError(
        f'{paths[name]}: expected a whole MATLAB file with X and y, got'
        f' {error}; fetch it again'
      ) from error
    images = np.ascontiguousarray(np.moveaxis(images, -1, 0))
    return part(images, labels.ravel() % 10, where=paths[name])

  return Parts(read('train_32x32.mat'), read('test_32x32.mat'))


def amat(paths: Paths) -> Parts:
  """Reads the official RotMNIST: lines of 784 values in 0…1 and a label."""

  def read(name: str) -> Part:
    table = files.read_table(paths[name], 785, delimiter=None, header=0)
    images = np.rint(table[:, :-1] * 255).astype(np.uint8).reshape(-1, 28, 28)
    return part(images, table[:, -1].astype(np.int32), where=paths[name])

  return Parts(read(AMAT_TRAIN), read(AMAT_TEST))


ROTATED_COUNTS = (12000, 50000)


def rotated_mnist(paths: Paths) -> Parts:
  """Makes a set by RotMNIST's recipe from MNIST's files.

  All 70000 images are shuffled; 12000 become the training part, another 50000
  the test part; each is turned by its own angle, uniform in ±180°, with
  bilinear interpolation. It is not the published set.
  """
  return rotate_parts(idx(paths), ROTATED_COUNTS)


def rotate_parts(parts: Parts, counts: tuple[int, int]) -> Parts:
  """Makes rotated train and test parts of `counts` different images."""
  images = np.concatenate([parts.train.images, parts.test.images])
  labels = np.concatenate([parts.train.labels, parts.test.labels])
  order = draws.order(0, draws.CHOOSE_MNIST, labels, stratified=False)
  cut = counts[0]
  rows = {'train': order[:cut], 'test': order[cut : cut + counts[1]]}
  turned = {}
  for split, chosen in rows.items():
    angles = draws.unit(0, draws.ROTATE[split], len(chosen)) * 360 - 180
    turned[split] = Part(
      transform.rotate(images[chosen], angles, smooth=True),
      labels[chosen],
    )
  return Parts(**turned)


def swap(parts: Parts) -> Parts:
  """Trains on the test part and tests on the training part."""
  return Parts(train=parts.test, test=parts.train)


def sign_csv(paths: Paths) -> Parts:
  """Reads Sign Language MNIST's CSV files: a label and 784 values a line."""

  def read(name: str) -> Part:
    table = files.read_table(paths[name], 785, delimiter=',', header=1)
    images = table[:, 1:].astype(np.uint8).reshape(-1, 28, 28)
    labels = _without_j(table[:, 0].astype(np.int32), paths[name])
    return part(images, labels, where=paths[name])

  return Parts(read(SIGN_TRAIN), read(SIGN_TEST))


def sign_npz(path: pathlib.Path) -> Parts:
  """Reads the part of Sign Language MNIST kept as x, y, group, is_test."""
  images, labels, groups, is_test = files.read_npz(
    path, 'x', 'y', 'group', 'is_test'
  )
  everything = part(images, _without_j(labels, path), groups, where=path)
  return Parts(everything[~is_test], everything[is_test])


def _without_j(labels: np.ndarray, where: pathlib.Path) -> np.ndarray:
  """Maps A…Y without J, numbered 0…24 without 9, to 0…23."""
  labels = labels.astype(np.int32)
  if labels.size and ((labels == 9).any() or labels.max() > 24):
    raise ValueError(
      f'{where}: expected labels 0…24 without 9 (J and Z are movements), got'
      f' {np.unique(labels).tolist()}'
    )
  return labels - (labels > 9)


def npz(path: pathlib.Path) -> Parts:
  """Reads x_train, y_train, x_test and y_test of an .npz file."""
  x_train, y_train, x_test, y_test = files.read_npz(
    path, 'x_train', 'y_train', 'x_test', 'y_test'
  )
  return Parts(
    part(x_train, y_train, where=f'{path}, train'),
    part(x_test, y_test, where=f'{path}, test'),
  )
