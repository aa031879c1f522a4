"""Raw files: verified and parsed.

Every reader takes a path and returns NumPy arrays as they are in the file.
"""

import dataclasses
import gzip
import hashlib
import math
import os
import pathlib
import pickle
import struct
import tarfile
from typing import Any
import zipfile
import zlib

import numpy as np

from aen.io import PathLike


@dataclasses.dataclass(frozen=True)
class File:
  """A file of an official data set.

  Attributes:
    name: The file's name, in the raw directory and where it is published.
    url: Where it is published; empty if it must be fetched by hand.
    size: Bytes.
    sha256: Of the file.
    content_sha256: Of what a .gz file holds, if known: files that were
      compressed again are recognised by it.
  """

  name: str
  url: str = ''
  size: int = 0
  sha256: str = ''
  content_sha256: str = ''


def verify(path: pathlib.Path, file: File) -> None:
  """Raises ValueError if a file is not the official one."""
  if not file.sha256:
    return
  digest = sha256(path)
  if digest == file.sha256:
    return
  size = path.stat().st_size
  if file.name.endswith('.gz'):
    content = hashlib.sha256(read_gzip(path)).hexdigest()
    if content == file.content_sha256:
      return
  raise ValueError(
    f'{path}: wrong checksum, expected sha256 {file.sha256} ({file.size}'
    f' bytes), got {digest} ({size} bytes); this is not the official'
    f' {file.name}: fetch it again{f" from {file.url}" if file.url else ""}'
  )


def sha256(path: PathLike) -> str:
  """Returns the sha256 of a file, in hexadecimal."""
  with open(path, 'rb') as f:
    return hashlib.file_digest(f, 'sha256').hexdigest()


def read_gzip(path: PathLike) -> bytes:
  """Returns what a .gz file holds."""
  try:
    with gzip.open(path, 'rb') as f:
      return f.read()
  except (EOFError, zlib.error, gzip.BadGzipFile) as error:
    raise ValueError(
      f'{path}: expected a whole gzip file, got a truncated or damaged one of'
      f' {os.path.getsize(path)} bytes ({error}); fetch it again'
    ) from error


def read_idx(content: bytes, where: PathLike) -> np.ndarray:
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


def read_zip_member(path: PathLike, name: str) -> bytes:
  """Returns one member of a .zip file."""
  try:
    with zipfile.ZipFile(path) as f:
      return f.read(name)
  except KeyError as error:
    raise ValueError(f'{path}: expected a member {name}; {error}') from error
  except (zipfile.BadZipFile, EOFError, zlib.error) as error:
    raise ValueError(
      f'{path}: expected a whole zip file, got a truncated or damaged one'
      f' ({error}); fetch it again'
    ) from error


def read_tar_member(path: PathLike, name: str) -> bytes:
  """Returns one member of a .tar.gz file."""
  try:
    with tarfile.open(path) as f:
      member = f.extractfile(name)
      if member is None:
        raise KeyError(f'{name!r} is no file there')
      return member.read()
  except KeyError as error:
    raise ValueError(f'{path}: expected a member {name}; {error}') from error
  except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
    raise ValueError(
      f'{path}: expected a whole tar file, got a truncated or damaged one'
      f' ({error}); fetch it again'
    ) from error


def read_npz(
  path: PathLike, *keys: str, optional: tuple[str, ...] = ()
) -> list[Any]:
  """Returns the named arrays of an .npz file, None for optional ones."""
  try:
    with np.load(path, allow_pickle=False) as f:
      names = f.files
      wanted = [key for key in (*keys, *optional) if key in names]
      arrays = {key: f[key] for key in wanted}
  except _BAD_NPZ as error:
    if getattr(error, 'filename', None):  # it cannot be opened at all
      raise
    if 'Object arrays' in str(error):
      raise ValueError(
        f'{path}: expected arrays of numbers or strings, got Python objects;'
        ' give every array one plain dtype (np.stack images of one size) and'
        ' save it again'
      ) from error
    raise ValueError(
      f'{path}: expected a whole .npz file, got a truncated or damaged one, or'
      ' another format; fetch it again or make it with np.savez'
    ) from error
  if any(key not in names for key in keys):
    raise ValueError(
      f'{path}: expected the arrays {", ".join(keys)}, got'
      f' {", ".join(names) or "none"}; save it with np.savez('
      f'path, {", ".join(f"{key}=…" for key in keys)})'
    )
  return [arrays.get(key) for key in (*keys, *optional)]


# What NumPy and zipfile raise for damaged files and for other formats.
_BAD_NPZ = (
  zipfile.BadZipFile,
  zlib.error,
  pickle.UnpicklingError,
  struct.error,
  AttributeError,
  EOFError,
  OSError,
  RuntimeError,
  TypeError,
  ValueError,
)


def read_table(
  path: PathLike, columns: int, *, delimiter: str | None, header: int
) -> np.ndarray:
  """Returns a text file of numbers as float32 [rows, columns]."""
  try:
    table = np.loadtxt(
      path, np.float32, delimiter=delimiter, skiprows=header, ndmin=2
    )
  except ValueError as error:
    raise ValueError(
      f'{path}: expected {columns} numbers in every line, got a damaged line'
      f' ({error}); fetch it again'
    ) from error
  if table.shape[1] != columns:
    raise ValueError(
      f'{path}: expected {columns} numbers in every line, got'
      f' {table.shape[1]}; fetch it again'
    )
  return table
