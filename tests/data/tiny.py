"""Tiny files in the formats of the official ones, to test with."""

from collections.abc import Callable
import dataclasses
import gzip
import hashlib
import io
import pathlib
import tarfile
from typing import Any
import zipfile

import numpy as np
from PIL import Image
import pytest

from aen import io as io_lib
from aen.data import catalogue
from aen.data import dataset
from aen.data.dataset import Parts


def tiny_source(
  name: str,
  raw_dir: io_lib.PathLike,
  counts: tuple[int, int] = (40, 20),
  shape: tuple[int, ...] | None = None,
) -> catalogue.Source:
  """Writes a data set of random images as if its official files were tiny.

  Args:
    name: A data set that is read from files.
    raw_dir: Where to write them, in the layout of raw directories.
    counts: Images for training and for testing.
    shape: Of one image, if it should be a wrong one.

  Returns:
    The source of that name, expecting exactly these files.
  """
  source = catalogue.SOURCES[name]
  folder = pathlib.Path(raw_dir) / source.folder
  folder.mkdir(parents=True, exist_ok=True)
  parts = random_parts(counts, shape or source.shape, len(source.class_names))
  if source.format not in WRITERS:
    raise ValueError(f'no writer of {source.format!r}: add one to WRITERS')
  WRITERS[source.format](folder, source, parts)
  official = [
    dataclasses.replace(
      file,
      size=(folder / file.name).stat().st_size,
      sha256=hashlib.sha256((folder / file.name).read_bytes()).hexdigest(),
      content_sha256='',
    )
    for file in source.files
  ]
  return dataclasses.replace(source, files=tuple(official), counts=counts)


def save_images(folder: pathlib.Path, count: int = 6) -> None:
  """Saves some grey images of 4 x 4 pixels in a new folder."""
  folder.mkdir(parents=True)
  for i in range(count):
    Image.new('L', (4, 4), i).save(folder / f'{i}.png')


def fails(
  message: str,
  call: Callable[..., Any],
  *arguments: Any,
  kind: type[Exception] = ValueError,
  **options: Any,
) -> str:
  """Makes a call that must raise an error of one line; returns the line."""
  with pytest.raises(kind, match=message) as caught:
    call(*arguments, **options)
  assert '\n' not in str(caught.value)
  return str(caught.value)


def random_parts(
  counts: tuple[int, int], shape: tuple[int, ...], num_classes: int
) -> Parts:
  """Returns parts of random images; labels go round the classes."""
  random = np.random.default_rng(0)
  train, test = (
    dataset.part(
      random.integers(0, 256, (count, *shape), np.uint8),
      np.arange(count) % num_classes,
      where='random',
    )
    for count in counts
  )
  return Parts(train, test, tuple(map(str, range(num_classes))))


def idx_bytes(array: np.ndarray) -> bytes:
  """Returns an array of uint8 in MNIST's format, not yet compressed."""
  header = bytes([0, 0, 8, array.ndim])
  return header + np.array(array.shape, '>u4').tobytes() + array.tobytes()


def _packed(array: np.ndarray) -> bytes:
  return gzip.compress(idx_bytes(array.astype(np.uint8)), mtime=0)


def _write_idx(
  folder: pathlib.Path, source: catalogue.Source, parts: Parts
) -> None:
  arrays = [
    array
    for side in (parts.train, parts.test)
    for array in (side.images, side.labels + source.first_label)
  ]
  for file, array in zip(source.files, arrays, strict=True):
    (folder / file.name).write_bytes(_packed(array))


def _write_npz(
  folder: pathlib.Path, source: catalogue.Source, parts: Parts
) -> None:
  np.savez(
    folder / source.files[0].name,
    x_train=parts.train.images,
    y_train=parts.train.labels,
    x_test=parts.test.images,
    y_test=parts.test.labels,
  )


def _write_zip(
  folder: pathlib.Path, source: catalogue.Source, parts: Parts
) -> None:
  config = source.name.partition('/')[2]
  with zipfile.ZipFile(folder / 'gzip.zip', 'w') as f:
    for split, side in (('train', parts.train), ('test', parts.test)):
      stem = f'gzip/emnist-{config}-{split}'
      f.writestr(f'{stem}-images-idx3-ubyte.gz', _packed(side.images))
      labels = _packed(side.labels + source.first_label)
      f.writestr(f'{stem}-labels-idx1-ubyte.gz', labels)


def _write_tar(
  folder: pathlib.Path, source: catalogue.Source, parts: Parts
) -> None:
  fifths = np.array_split(np.arange(len(parts.train)), 5)
  batches = {
    f'data_batch_{i}': parts.train.take(rows)
    for i, rows in enumerate(fifths, 1)
  } | {'test_batch': parts.test}
  with tarfile.open(folder / source.files[0].name, 'w:gz') as f:
    for batch, side in batches.items():
      pixels = side.images.transpose(0, 3, 1, 2).reshape(len(side), -1)
      labels = side.labels[:, None].astype(np.uint8)
      content = np.concatenate([labels, pixels], axis=1).tobytes()
      member = tarfile.TarInfo(f'cifar-10-batches-bin/{batch}.bin')
      member.size = len(content)
      f.addfile(member, io.BytesIO(content))


def _write_mat(
  folder: pathlib.Path, source: catalogue.Source, parts: Parts
) -> None:
  from scipy import io as scipy_io  # slow to import

  for file, side in zip(source.files, (parts.train, parts.test), strict=True):
    labels = np.where(side.labels == 0, 10, side.labels)[:, None]
    images = np.moveaxis(side.images, 0, -1)
    scipy_io.savemat(folder / file.name, {'X': images, 'y': labels})


def _write_table(
  row: Callable[[np.ndarray, int], str], header: str = ''
) -> Callable[[pathlib.Path, catalogue.Source, Parts], None]:
  def write(
    folder: pathlib.Path, source: catalogue.Source, parts: Parts
  ) -> None:
    for file, side in zip(source.files, (parts.train, parts.test), strict=True):
      rows = zip(side.images, side.labels, strict=True)
      first = source.first_label
      lines = [row(image.ravel(), first + int(label)) for image, label in rows]
      (folder / file.name).write_text(header + '\n'.join(lines) + '\n')

  return write


def _amat_row(pixels: np.ndarray, label: int) -> str:
  return ' '.join(f'{value:.6f}' for value in (*(pixels / 255), label))


def _sign_row(pixels: np.ndarray, label: int) -> str:
  return ','.join(str(value) for value in (label + (label > 8), *pixels))


# By format. A writer gets images upright and labels from 0, and writes every
# file of `source.files` as it is published.
WRITERS = {
  'idx': _write_idx,
  'npz': _write_npz,
  'emnist': _write_zip,
  'cifar10': _write_tar,
  'svhn': _write_mat,
  'amat': _write_table(_amat_row),
  'sign_csv': _write_table(
    _sign_row, 'label,' + ','.join(f'pixel{i}' for i in range(1, 785)) + '\n'
  ),
}
