"""TFDS as a place to find data: what it has prepared, what it can download.

TFDS is optional: this module imports it only when it is asked something.
"""

import functools
import hashlib
import importlib.util
import os
import pathlib
import socket
import types
from typing import Any
import urllib.parse
import urllib.request

import numpy as np

from aen.data import png
from aen.data import sources
from aen.data import transform
from aen.data.arrays import Part
from aen.data.arrays import part
from aen.data.arrays import Parts
from aen.io import PathLike

# Formats that give random access, and so can be read without TensorFlow.
_READABLE = ('array_record', 'riegeli')


def is_installed() -> bool:
  """Whether TFDS can be imported."""
  return importlib.util.find_spec('tensorflow_datasets') is not None


@functools.cache
def tfds() -> types.ModuleType:
  """Returns TFDS."""
  try:
    import tensorflow_datasets  # optional, takes a second
  except ImportError as error:
    raise ImportError(
      'TFDS, which downloads data sets, is not installed (pip install'
      f" 'aen[data]'): {error}"
    ) from error
  return tensorflow_datasets


def resolve_dir(data_dir: PathLike | None) -> pathlib.Path:
  """Returns where TFDS keeps data; None means TFDS's own default."""
  default = os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets')
  return pathlib.Path(data_dir or default).expanduser()


def download(
  source: sources.Source, data_dir: PathLike | None
) -> sources.Paths:
  """Downloads the official files of a source, unless TFDS has them already.

  Raises:
    OSError: They could not be fetched.
    ValueError: What was fetched has the wrong checksum.
  """
  folder = resolve_dir(data_dir) / 'downloads'
  manager = tfds().download.DownloadManager(
    download_dir=folder, dataset_name=source.name
  )
  try:
    _fail_fast(source, folder)
    found = manager.download({file.name: file.url for file in source.files})
  except tfds().download.download_manager.NonMatchingChecksumError as error:
    raise ValueError(
      f'{source.name}: what was downloaded is not the official file, delete'
      f' {folder} and try again: {" ".join(str(error).split())}'
    ) from error
  except tfds().download.DownloadError as error:
    raise OSError(f'downloading failed: {error}') from error
  except OSError as error:
    raise OSError(f'downloading failed: {_root(error)}') from error
  return {name: pathlib.Path(path) for name, path in found.items()}


def _fail_fast(source: sources.Source, folder: pathlib.Path) -> None:
  """Raises OSError if files are missing and their hosts cannot be resolved.

  Without a network TFDS tries again for minutes before it gives up.
  """
  if urllib.request.getproxies():  # the proxy resolves names, not we
    return
  notes = [path.read_text() for path in folder.glob('*.INFO')]
  for file in source.files:
    if not any(file.url in note for note in notes):
      host = urllib.parse.urlsplit(file.url).hostname
      try:
        socket.getaddrinfo(host, None)
      except OSError as error:
        raise OSError(f'no network, {host} is unknown: {error}') from error


def _root(error: BaseException) -> BaseException:
  """Returns the innermost reason of an error, the shortest to read."""
  while reason := getattr(error, 'reason', None) or (
    error.args[0] if error.args else None
  ):
    if not isinstance(reason, BaseException):
      break
    error = reason
  return error


def read_prepared(
  source: sources.Source,
  config: transform.Config | None,
  data_dir: PathLike | None,
) -> Parts | None:
  """Returns what TFDS has prepared, in the order of the official files.

  Args:
    source: Which data set.
    config: Prefer the set with these transformations to the original.
    data_dir: Where TFDS keeps data.

  Returns:
    The parts, arranged, or None if nothing that can be read is there.
  """
  names = [source.tfds_name]
  if config is not None:
    names.insert(0, f'g_{source.tfds_name}/{config.name}')
  for name in names:
    folder = resolve_dir(data_dir) / name
    if source.tfds_name and folder.is_dir() and is_installed():
      builder = tfds().builder(name, data_dir=resolve_dir(data_dir))
      if builder.info.splits and _is_readable(builder):
        train, test = (
          _read_split(builder, s, config) for s in ('train', 'test')
        )
        return source.arrange(Parts(train, test))
  return None


def _is_readable(builder: Any) -> bool:
  return builder.info.file_format.value in _READABLE


def _read_split(
  builder: Any,
  split: str,
  config: transform.Config | None,
) -> Part:
  skip = tfds().decode.SkipDecoding()  # TFDS's own decoding takes twice as long
  examples = builder.as_data_source(split=split, decoders={'image': skip})
  examples = examples.__getitems__(range(len(examples)))
  columns = {
    key: np.stack([e[key] for e in examples]) for key in _keys(examples)
  }
  images = np.stack([png.decode(example['image']) for example in examples])
  where = f'{builder.data_dir}, {split}'
  result = part(images, columns['label'], where=where)
  if config is not None and 'powers' in columns:
    powers = columns['powers'].astype(np.uint8)
    record = transform.Record(
      config, powers, columns['angle'].astype(np.float32)
    )
    result = Part(result.images, result.labels, None, record)
  if builder.info.disable_shuffling:
    return result
  return result[np.argsort(_shuffled_order(split, len(examples)))]


def _keys(examples: list[dict[str, np.ndarray]]) -> list[str]:
  wanted = ('label', 'powers', 'angle')
  return [key for key in wanted if key in examples[0]]


def _shuffled_order(split: str, count: int) -> np.ndarray:
  """Returns which example of the source stands at each place, int64 [count].

  TFDS stores examples sorted by the MD5 of the split's name and the key, which
  for all sets read here is the running number.
  """
  salt = hashlib.md5(split.encode(), usedforsecurity=False)

  def digest(key: int) -> bytes:
    salted = salt.copy()
    salted.update(str(key).encode())
    return salted.digest()

  return np.array(sorted(range(count), key=digest), np.int64)
