"""Finds a data set: raw files, installed packages, TFDS, or a download.

TFDS is optional, and imported only when it is needed.
"""

from collections.abc import Iterable
import dataclasses
import hashlib
import importlib.util
import io
import os
import pathlib
import socket
from typing import Any
import urllib.parse
import urllib.request

import numpy as np

from aen import io as io_lib
from aen.data import readers
from aen.data.catalogue import File
from aen.data.catalogue import Source
from aen.data.dataset import Parts
from aen.data.transform import Config
from aen.data.transform import Transformations

RAW_DIR_VARIABLE = 'AEN_RAW_DIR'
# Formats with random access, which can be read without TensorFlow.
_READABLE = ('array_record', 'riegeli')


@dataclasses.dataclass(frozen=True)
class Places:
  """Where to look, and what to accept; see `load_dataset`."""

  raw_dir: io_lib.PathLike | None = None
  data_dir: io_lib.PathLike | None = None
  download: bool = True
  partial: bool = False

  @property
  def raw(self) -> pathlib.Path | None:
    """The raw directory given, or else that of the environment variable."""
    given = self.raw_dir or os.environ.get(RAW_DIR_VARIABLE)
    if not given:
      return None
    path = pathlib.Path(given).expanduser()
    if path.is_dir():
      return path
    origin = 'raw_dir' if self.raw_dir else RAW_DIR_VARIABLE
    got = 'a file' if path.exists() else 'nothing there'
    raise (NotADirectoryError if path.exists() else FileNotFoundError)(
      f'{origin}={path}: expected a directory of raw files, got {got};'
      ' correct or unset it'
    )

  @property
  def tfds(self) -> pathlib.Path:
    """Where TFDS keeps its data, by default its own default directory."""
    default = os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets')
    return pathlib.Path(self.data_dir or default).expanduser()


def tfds() -> Any:
  """Imports and returns TFDS."""
  with io_lib.needed_for('downloading', 'data'):
    import tensorflow_datasets  # takes a second
  return tensorflow_datasets


def find(source: Source, config: Config | None, places: Places) -> Parts:
  """Returns a data set from the first place that has it.

  In order: raw files, what TFDS has prepared (preferably transformed by the
  config), a partial file if accepted, a download.
  """
  if not source.files:  # embedded
    return readers.read(source, ())
  raw, partial = places.raw, []
  folders = [pathlib.Path(folder) for folder in source.system_dirs]
  if raw:
    folders.insert(0, raw / source.folder)
    partial = sorted(raw.glob(source.partial)) if source.partial else []
  for folder in folders:
    for files in filter(None, (source.files, source.extracted)):
      paths = [_path(folder, file) for file in files]
      if all(path.is_file() for path in paths):
        return readers.read(source, paths)
  prepared = _read_prepared(source, config, places)
  if prepared is not None:
    return prepared
  if not (partial and places.partial):
    return readers.read(source, _download(source, places, partial))
  if len(partial) > 1:
    raise ValueError(
      f'{raw}: expected one part of {source.name}, got'
      f' {", ".join(path.name for path in partial)}; keep one of them'
    )
  arrays = readers.READERS[source.partial_format](source, partial)
  return readers.as_parts(source, arrays, where=str(partial[0]), partial=True)


def _path(folder: pathlib.Path, file: File) -> pathlib.Path:
  """Returns the path of a file; a .gz file may have been unpacked."""
  path = folder / file.name
  unpacked = path.with_suffix('')
  packed = path.suffix == '.gz' and not path.is_file()
  return unpacked if packed and unpacked.is_file() else path


def _read_prepared(
  source: Source, config: Config | None, places: Places
) -> Parts | None:
  """Returns what TFDS has prepared, if readable without TensorFlow."""
  installed = importlib.util.find_spec('tensorflow_datasets') is not None
  if not source.tfds_name or not installed:
    return None
  names = [source.tfds_name]
  if config is not None:
    names.insert(0, f'g_{source.tfds_name}/{config.name}')
  for name in names:
    if not (places.tfds / name).is_dir():
      continue
    builder = tfds().builder(name, data_dir=places.tfds)
    if builder.info.splits and builder.info.file_format.value in _READABLE:
      arrays = [
        _read_split(builder, split, config) for split in ('train', 'test')
      ]
      return readers.as_parts(source, arrays, where=f'{name} of TFDS')
  return None


def _read_split(builder: Any, split: str, config: Config | None) -> list[Any]:
  """Returns the arguments of `part`, in the order of the official files."""
  from PIL import Image  # an optional dependency, as TFDS is

  skip = tfds().decode.SkipDecoding()  # TFDS's own decoding takes twice as long
  source = builder.as_data_source(split=split, decoders={'image': skip})
  examples = source.__getitems__(range(len(source)))
  for example in examples:
    png = io.BytesIO(example['image'])
    example['image'] = np.asarray(Image.open(png, formats=['PNG']))
  if not builder.info.disable_shuffling:
    # TFDS sorts examples by the MD5 of the split's name and the key, which for
    # all sets read here is the position in the official files.
    def digest(key: int) -> bytes:
      salted = f'{split}{key}'.encode()
      return hashlib.md5(salted, usedforsecurity=False).digest()

    stored = sorted(range(len(examples)), key=digest)
    examples = [examples[place] for place in np.argsort(stored)]

  def column(key: str) -> np.ndarray:
    return np.stack([example[key] for example in examples])

  record = None
  if config is not None and 'powers' in examples[0]:
    powers = column('powers').astype(np.uint8)
    angles = column('angle').astype(np.float32)
    record = Transformations(config, powers, angles)
  return [column('image'), column('label'), None, record]


def _download(
  source: Source, places: Places, partial: readers.Paths
) -> readers.Paths:
  """Downloads the official files; otherwise the error names what is missing."""
  try:
    if not places.download:
      raise OSError('download=False forbids downloading')
    if source.manual:
      raise OSError('it cannot be downloaded by code')
    return _download_by_tfds(source, places.tfds / 'downloads')
  except (OSError, ImportError) as error:
    folder = (places.raw or pathlib.Path('<raw_dir>')) / source.folder
    missing = [f for f in source.files if not _path(folder, f).is_file()]
    names = ', '.join(file.name for file in missing)
    if source.extracted:
      members = ', '.join(file.name for file in source.extracted)
      names += f' (or its members, {members})'
    given = '' if places.raw else ' (no raw_dir or AEN_RAW_DIR is set)'
    reason = ' '.join(str(error).split())
    again = 'connect and try again' if places.download else 'pass download=True'
    advice = source.manual or f'put the files there, or {again}'
    if partial:
      advice += f'; {partial[0].name} is a part: accept it with partial=True'
    raise FileNotFoundError(
      f'{source.name}: expected {names} in {folder}{given}, got nothing there,'
      f' and {reason}; {advice}'
    ) from error


def _download_by_tfds(source: Source, folder: pathlib.Path) -> readers.Paths:
  """Downloads files that TFDS does not have; raises an OSError on failure."""
  urls = {file.name: file.url for file in source.files}
  api = tfds().download
  manager = api.DownloadManager(download_dir=folder, dataset_name=source.name)
  try:
    _fail_fast(urls.values(), folder)
    found = manager.download(urls)
  except api.download_manager.NonMatchingChecksumError as error:
    raise ValueError(
      f'{source.name}: what was downloaded is not the official file, delete'
      f' {folder} and try again: {" ".join(str(error).split())}'
    ) from error
  except (api.DownloadError, OSError) as error:
    raise OSError(f'downloading failed: {_root(error)}') from error
  return [pathlib.Path(found[name]) for name in urls]


def _fail_fast(urls: Iterable[str], folder: pathlib.Path) -> None:
  """Raises an OSError if the host of a missing file cannot be resolved.

  Without a network, TFDS retries for minutes before it gives up.
  """
  if urllib.request.getproxies():  # the proxy resolves names
    return
  notes = [path.read_text() for path in folder.glob('*.INFO')]
  for url in urls:
    if not any(url in note for note in notes):
      host = urllib.parse.urlsplit(url).hostname
      try:
        socket.getaddrinfo(host, None)
      except OSError as error:
        raise OSError(f'no network, {host} is unknown: {error}') from error


def _root(error: BaseException) -> BaseException:
  """Returns the innermost cause of an error, whose message is the shortest."""
  reason = getattr(error, 'reason', None) or (error.args or (None,))[0]
  return _root(reason) if isinstance(reason, BaseException) else error
