"""Where a data set is: raw files, an installed package, TFDS, or nowhere."""

import dataclasses
import os
import pathlib

from aen.data import files
from aen.data import sources
from aen.data import tfds_files
from aen.data import transform
from aen.data.arrays import Parts

RAW_DIR_VARIABLE = 'AEN_RAW_DIR'


@dataclasses.dataclass(frozen=True)
class Places:
  """Where to look, and what to accept; see `load_dataset`."""

  raw_dir: files.PathLike | None = None
  data_dir: files.PathLike | None = None
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
  source: sources.Source,
  config: transform.Config | None,
  places: Places,
) -> Found:
  """Returns a data set from the first place that has it.

  Raw files come first, then what TFDS has prepared, then a partial file if that
  is accepted, then a download.
  """
  paths = _raw_paths(source, places)
  if paths is not None:
    return Found(source.arrange(_read(source, paths)))
  parts = tfds_files.read_prepared(source, config, places.data_dir)
  if parts is not None:
    return Found(_check(source, parts, whole=True))
  partial = _partial_path(source, places)
  if partial and places.partial:
    return Found(_check(source, source.read_partial(partial)), partial=True)
  paths = _download(source, places, partial)
  return Found(source.arrange(_read(source, paths)))


def find_published(source: sources.Source, places: Places) -> Parts:
  """Returns a data set from its official files, before it is arranged."""
  paths = _raw_paths(source, places)
  if paths is None:
    paths = _download(source, places, _partial_path(source, places))
  return _read(source, paths)


def _raw_paths(source: sources.Source, places: Places) -> sources.Paths | None:
  """Returns the official files, by name, if all of them lie in one place."""
  folders = [pathlib.Path(folder) for folder in source.system_dirs]
  if source.files and places.raw:
    folders.insert(0, places.raw / source.folder)
  for folder in folders:
    paths = {file.name: folder / file.name for file in source.files}
    if all(path.is_file() for path in paths.values()):
      return paths
  return None if source.files else {}


def _read(source: sources.Source, paths: sources.Paths) -> Parts:
  """Returns the parts as published, after checking all there is to check."""
  for file in source.files:
    files.verify(paths[file.name], file)
  parts = source.read(paths)
  _check(source, source.arrange(parts), whole=True)
  return parts


def _check(source: sources.Source, parts: Parts, whole: bool = False) -> Parts:
  """Raises ValueError if parts are not what the source promises."""
  sides = (parts.train, parts.test)
  shapes = {side.images.shape[1:] for side in sides}
  if shapes != {source.shape}:
    raise ValueError(
      f'{source.name}: expected images of shape {source.shape}, got'
      f' {" and ".join(str(s) for s in sorted(shapes))}; these are not the'
      f' official files of {source.name}'
    )
  counts = tuple(len(side) for side in sides)
  expected = source.counts
  if whole and counts != expected:
    raise ValueError(
      f'{source.name}: expected {expected[0]} training and {expected[1]} test'
      f' images, got {counts[0]} and {counts[1]}; remove this incomplete copy'
      ' and fetch or prepare it again'
    )
  highest = max(int(side.labels.max(initial=0)) for side in sides)
  if highest >= len(source.class_names):
    raise ValueError(
      f'{source.name}: expected labels 0…{len(source.class_names) - 1}, got'
      f' {highest}; these are not the official files of {source.name}'
    )
  return parts


def _partial_path(
  source: sources.Source, places: Places
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


def _download(
  source: sources.Source, places: Places, partial: pathlib.Path | None
) -> sources.Paths:
  """Downloads the official files, or says what is missing."""
  try:
    if not places.download:
      raise OSError('download=False forbids downloading')
    if source.manual:
      raise OSError('it cannot be downloaded by code')
    return tfds_files.download(source, places.data_dir)
  except (OSError, ImportError) as error:
    raise FileNotFoundError(_missing(source, places, partial, error)) from error


def _missing(
  source: sources.Source,
  places: Places,
  partial: pathlib.Path | None,
  error: Exception,
) -> str:
  folder = (places.raw or pathlib.Path('<raw_dir>')) / source.folder
  names = ', '.join(
    file.name for file in source.files if not (folder / file.name).is_file()
  )
  reason = ' '.join(str(error).split())
  again = 'connect and try again' if places.download else 'pass download=True'
  advice = source.manual or f'put the files there, or {again}'
  hint = ''
  if partial:
    hint = f'; {partial.name} holds a part of it: accept it with partial=True'
  given = '' if places.raw else ' (no raw_dir or AEN_RAW_DIR is set)'
  return (
    f'{source.name}: expected {names} in {folder}{given}, got nothing there,'
    f' and {reason}; {advice}{hint}'
  )
