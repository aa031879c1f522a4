"""Files that are complete or not there at all."""

from collections.abc import Iterator
import contextlib
import errno
import io
import os
import pathlib
import tempfile

PathLike = str | os.PathLike[str]


@contextlib.contextmanager
def written_whole(path: PathLike) -> Iterator[io.BufferedWriter]:
  """Opens a file for writing that appears under its name only when complete.

  On any error, a full disk among them, what was written is removed and a file
  that was there before stays as it was.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  handle, temporary = tempfile.mkstemp(
    dir=path.parent, prefix=f'.{path.name}.', suffix='.incomplete'
  )
  try:
    with clear_when_disk_is_full(path), os.fdopen(handle, 'wb') as f:
      yield f
      f.flush()
      os.fsync(f.fileno())
    os.chmod(temporary, 0o644)  # mkstemp makes private files
    os.replace(temporary, path)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.remove(temporary)


@contextlib.contextmanager
def written_text(path: PathLike) -> Iterator[io.TextIOWrapper]:
  """As `written_whole`, for text in UTF-8 with the line ends it is given."""
  with written_whole(path) as f:
    text = io.TextIOWrapper(f, encoding='utf-8', newline='')
    yield text
    text.flush()
    text.detach()


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def clear_when_disk_is_full(path: PathLike) -> Iterator[None]:
  """Says in one line that a disk is full, and that nothing was left behind."""
  try:
    yield
  except Exception as error:
    # Writers in C++ raise errors of their own, with the reason as text.
    full = getattr(error, 'errno', None) in _FULL or any(
      os.strerror(number) in str(error) for number in _FULL
    )
    if not full:
      raise
    raise OSError(
      errno.ENOSPC,
      f'no space left while writing {path}; nothing half-written was kept:'
      ' free some space or choose another directory, then run it again',
    ) from error
