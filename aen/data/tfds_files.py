"""TFDS as a place to find data: what it has prepared, what it can download.

TFDS is optional: this module imports it only when it is needed.
"""

from collections.abc import Mapping
import functools
import hashlib
import importlib.util
import io
import os
import pathlib
import socket
import types
from typing import Any
import urllib.parse
import urllib.request

import numpy as np

from aen.io import PathLike

# Formats that give random access, and so can be read without TensorFlow.
_READABLE = ('array_record', 'riegeli')


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
  name: str, urls: Mapping[str, str], data_dir: PathLike | None
) -> list[pathlib.Path]:
  """Downloads files, unless TFDS has them already.

  Args:
    name: The data set's name.
    urls: File names to URLs.
    data_dir: Where TFDS keeps data.

  Returns:
    The paths of the files.

  Raises:
    OSError: They could not be fetched.
    ValueError: What was fetched has the wrong checksum.
  """
  folder = resolve_dir(data_dir) / 'downloads'
  manager = tfds().download.DownloadManager(
    download_dir=folder, dataset_name=name
  )
  try:
    _fail_fast(urls, folder)
    found = manager.download(dict(urls))
  except tfds().download.download_manager.NonMatchingChecksumError as error:
    raise ValueError(
      f'{name}: what was downloaded is not the official file, delete'
      f' {folder} and try again: {" ".join(str(error).split())}'
    ) from error
  except tfds().download.DownloadError as error:
    raise OSError(f'downloading failed: {error}') from error
  except OSError as error:
    raise OSError(f'downloading failed: {_root(error)}') from error
  return [pathlib.Path(found[file]) for file in urls]


def _fail_fast(urls: Mapping[str, str], folder: pathlib.Path) -> None:
  """Raises OSError if files are missing and their hosts cannot be resolved.

  Without a network TFDS retries for minutes before it gives up.
  """
  if urllib.request.getproxies():  # the proxy resolves names, not we
    return
  notes = [path.read_text() for path in folder.glob('*.INFO')]
  for url in urls.values():
    if not any(url in note for note in notes):
      host = urllib.parse.urlsplit(url).hostname
      try:
        socket.getaddrinfo(host, None)
      except OSError as error:
        raise OSError(f'no network, {host} is unknown: {error}') from error


def _root(error: BaseException) -> BaseException:
  """Returns the innermost reason of an error, the shortest to read."""
  reason = getattr(error, 'reason', None) or (error.args or (None,))[0]
  return _root(reason) if isinstance(reason, BaseException) else error


def read_prepared(
  name: str, data_dir: PathLike | None
) -> dict[str, dict[str, np.ndarray]] | None:
  """Returns what TFDS has prepared, in the order of the official files.

  Args:
    name: The data set's name and config in TFDS.
    data_dir: Where TFDS keeps data.

  Returns:
    For 'train' and 'test', arrays by feature: image, label and, if the set has
    them, powers and angle. None if nothing that can be read is there.
  """
  data_dir = resolve_dir(data_dir)
  installed = importlib.util.find_spec('tensorflow_datasets') is not None
  if not installed or not (data_dir / name).is_dir():
    return None
  builder = tfds().builder(name, data_dir=data_dir)
  readable = builder.info.file_format.value in _READABLE
  if not builder.info.splits or not readable:
    return None
  return {split: _read_split(builder, split) for split in ('train', 'test')}


def _read_split(builder: Any, split: str) -> dict[str, np.ndarray]:
  from PIL import Image  # an optional dependency, as TFDS is

  skip = tfds().decode.SkipDecoding()  # TFDS's own decoding takes twice as long
  source = builder.as_data_source(split=split, decoders={'image': skip})
  examples = source.__getitems__(range(len(source)))
  for example in examples:
    png = io.BytesIO(example['image'])
    example['image'] = np.asarray(Image.open(png, formats=['PNG']))
  columns = {
    key: np.stack([example[key] for example in examples])
    for key in ('image', 'label', 'powers', 'angle')
    if key in examples[0]
  }
  if builder.info.disable_shuffling:
    return columns
  order = np.argsort(_shuffled_order(split, len(examples)))
  return {key: column[order] for key, column in columns.items()}


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
