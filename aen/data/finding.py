"""Where a data set is: raw files, an installed package, TFDS, or nowhere."""

import dataclasses
import os
import pathlib

import numpy as np

from aen.data import catalogue
from aen.data import readers
from aen.data import tfds_files
from aen.data import transform
from aen.data.dataset import part
from aen.data.dataset import Parts
from aen.io import PathLike

RAW_DIR_VARIABLE = 'AEN_RAW_DIR'


@dataclasses.dataclass(frozen=True)
class Places:
  """Where to look, and what to accept; see `load_dataset`."""

  raw_dir: PathLike | None = None
  data_dir: PathLike | None = None
  download: bool = True
  partial: bool = False

  @property
  def raw(self) -> pathlib.Path | None:
    """The raw directory that was given, or else set in the environment."""
    given = self.raw_dir or os.environ.get(RAW_DIR_VARIABLE)
    if not given:
      return None
    path = pathlib.Path(given).expanduser()
    if not path.is_dir():
      origin = 'raw_dir' if self.raw_dir else RAW_DIR_VARIABLE
      kind, got = FileNotFoundError, 'nothing there'
      if path.exists():
        kind, got = NotADirectoryError, 'a file'
      raise kind(
        f'{origin}={path}: expected a directory of raw files, got {got};'
        ' correct or unset it'
      )
    return path


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
  """A whole data set, or a part of it."""

  parts: Parts
  partial: bool = False


def find(
  source: catalogue.Source, config: transform.Config | None, places: Places
) -> Found:
  """Returns a data set from the first place that has it, arranged.

  Raw files come first, then what TFDS has prepared, then a partial file if that
  is accepted, then a download.

  Args:
    source: Which data set.
    config: Where TFDS has prepared the set with these transformations, prefer
      it to the original.
    places: Where to look.
  """
  paths = _raw_paths(source, places)
  if paths is None:
    prepared = _find_prepared(source, config, places)
    if prepared is not None:
      return Found(readers.check(source, prepared, whole=True))
    partial = _partial_path(source, places)
    if partial and places.partial:
      return Found(readers.read_partial(source, partial), partial=True)
    paths = _download(source, places)
  return Found(readers.arrange(source, readers.read(source, paths)))


def find_published(source: catalogue.Source, places: Places) -> Parts:
  """Returns a data set from its official files, before it is arranged."""
  paths = _raw_paths(source, places)
  if paths is None:
    paths = _download(source, places)
  return readers.read(source, paths)


def _raw_paths(
  source: catalogue.Source, places: Places
) -> list[pathlib.Path] | None:
  """Returns the official files, if all of them lie in one place."""
  folders = [pathlib.Path(folder) for folder in source.system_dirs]
  if source.files and places.raw:
    folders.insert(0, places.raw / source.folder)
  for folder in folders:
    paths = [folder / file.name for file in source.files]
    if all(path.is_file() for path in paths):
      return paths
  return None if source.files else []


def _find_prepared(
  source: catalogue.Source, config: transform.Config | None, places: Places
) -> Parts | None:
  if not source.tfds_name:
    return None
  names = [source.tfds_name]
  if config is not None:
    names.insert(0, f'g_{source.tfds_name}/{config.name}')
  for name in names:
    found = tfds_files.read_prepared(name, places.data_dir)
    if found is None:
      continue
    parts = []
    for split, columns in found.items():
      record = None
      if config is not None and 'powers' in columns:
        record = transform.Transformations(
          config,
          columns['powers'].astype(np.uint8),
          columns['angle'].astype(np.float32),
        )
      where = f'{name} of TFDS, {split}'
      parts.append(
        part(columns['image'], columns['label'], None, record, where=where)
      )
    return readers.arrange(source, Parts(*parts))
  return None


def _partial_path(
  source: catalogue.Source, places: Places
) -> pathlib.Path | None:
  if not (source.partial and places.raw):
    return None
  found = sorted(places.raw.glob(source.partial))
  if len(found) > 1 and places.partial:
    raise ValueError(
      f'{places.raw}: expected one part of {source.name}, got'
      f' {", ".join(path.name for path in found)}; keep one of them'
    )
  return found[0] if found else None


def _download(source: catalogue.Source, places: Places) -> list[pathlib.Path]:
  """Downloads the official files, or says what is missing."""
  try:
    if not places.download:
      raise OSError('download=False forbids downloading')
    if source.manual:
      raise OSError('it cannot be downloaded by code')
    urls = {file.name: file.url for file in source.files}
    return tfds_files.download(source.name, urls, places.data_dir)
  except (OSError, ImportError) as error:
    folder = (places.raw or pathlib.Path('<raw_dir>')) / source.folder
    names = ', '.join(
      file.name for file in source.files if not (folder / file.name).is_file()
    )
    given = '' if places.raw else ' (no raw_dir or AEN_RAW_DIR is set)'
    reason = ' '.join(str(error).split())
    again = 'connect and try again' if places.download else 'pass download=True'
    advice = source.manual or f'put the files there, or {again}'
    partial = _partial_path(source, places)
    if partial:
      advice += (
        f'; {partial.name} holds a part of it: accept it with partial=True'
      )
    raise FileNotFoundError(
      f'{source.name}: expected {names} in {folder}{given}, got nothing there,'
      f' and {reason}; {advice}'
    ) from error
