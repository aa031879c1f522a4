"""Atomic writes, checksums, caches, run directories, argument checks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import difflib
import errno
import hashlib
import importlib
import io
import json
import operator
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from typing import Any
import warnings

import numpy as np

try:
  import fcntl
except ImportError:  # not a POSIX system
  fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]


def cache_dir() -> pathlib.Path | None:
  """Returns the cache folder; None if caches are disabled.

  It is set by the environment variable AEN_CACHE_DIR, by default ~/.cache/aen;
  the empty string disables caches.
  """
  home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
  folder = os.environ.get('AEN_CACHE_DIR', os.path.join(home, 'aen'))
  return pathlib.Path(folder) if folder else None


@contextlib.contextmanager
def written_whole(path: PathLike) -> Iterator[io.BufferedWriter]:
  """Opens a file for atomic writing: it appears only when complete.

  On any error, such as a full disk, the partial file is removed and an existing
  file is left unchanged.
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
  """Like `written_whole`, for UTF-8 text; line endings are not translated."""
  with written_whole(path) as f:
    text = io.TextIOWrapper(f, encoding='utf-8', newline='')
    yield text
    text.flush()
    text.detach()


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def clear_when_disk_is_full(path: PathLike) -> Iterator[None]:
  """Replaces the errors of a full disk by one line that says what to do."""
  try:
    yield
  except Exception as error:
    # Writers in C++ raise their own errors, with the cause as text.
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


_CHECKSUM = 'sha256'


def write_json(path: PathLike, content: Mapping[str, Any]) -> None:
  """Writes a JSON file with a checksum of its content, atomically."""
  signed = {**content, _CHECKSUM: _digest(content)}
  with written_text(path) as file:
    json.dump(signed, file, indent=2, ensure_ascii=False)


def read_json(path: PathLike) -> dict[str, Any]:
  """Reads a file of `write_json`; those of old versions have no checksum.

  Raises:
    ValueError: The file is damaged.
  """
  content = json.loads(pathlib.Path(path).read_text('utf-8'))
  if not isinstance(content, dict):
    raise ValueError('it holds no JSON object')
  expected = content.pop(_CHECKSUM, None)
  if expected is None:
    for name in content:  # a flipped bit may have changed the key
      num_changes = sum(map(operator.ne, name, _CHECKSUM))
      if len(name) == len(_CHECKSUM) and num_changes == 1:
        raise ValueError('the name of its checksum is damaged')
  elif expected != _digest(content):
    raise ValueError('its checksum does not match')
  return content


def _digest(content: Mapping[str, Any]) -> str:
  text = json.dumps(content, indent=2, ensure_ascii=False)
  # A damaged file may hold lone surrogates, which have no encoding.
  return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()


@contextlib.contextmanager
def locked(run_dir: PathLike) -> Iterator[None]:
  """Lets one process at a time work in a run directory.

  Others print one line and wait. The operating system releases the lock when
  its process ends, for whatever reason.
  """
  run_dir = pathlib.Path(run_dir)
  with contextlib.ExitStack() as stack:
    with contextlib.suppress(OSError):  # the next write reports the cause
      run_dir.mkdir(parents=True, exist_ok=True)
      handle = os.open(run_dir / '.lock', os.O_RDWR | os.O_CREAT, 0o644)
      stack.callback(os.close, handle)
      _lock(handle, run_dir)
    yield


def _lock(handle: int, run_dir: pathlib.Path) -> None:
  try:
    if fcntl is None:
      raise OSError(errno.ENOSYS, 'no file locks on this system')
    try:
      fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      holder = os.pread(handle, 200, 0).decode('utf-8', 'replace').strip()
      _say(f'{run_dir}: waiting for {holder or "another process"} to finish')
      fcntl.flock(handle, fcntl.LOCK_EX)
  except OSError as error:  # some network file systems
    _say(
      f'{run_dir}: cannot be locked ({error.strerror}); run one process at a'
      ' time in this directory'
    )
    return
  with contextlib.suppress(OSError):  # a full disk: the name is optional
    os.ftruncate(handle, 0)
    name = f'process {os.getpid()} on {socket.gethostname()}\n'
    os.pwrite(handle, name.encode(), 0)


def _say(line: str) -> None:
  print(line, file=sys.stderr, flush=True)


def open_run(run_dir: PathLike, config: Mapping[str, Any]) -> pathlib.Path:
  """Creates a run directory, or checks that it has this configuration.

  config.json in it stores everything that determines the results.

  Raises:
    ValueError: The directory holds a run of another configuration.
    OSError: The directory cannot be written.
  """
  run_dir = pathlib.Path(run_dir)
  path = run_dir / 'config.json'
  try:
    stored = read_json(path)
    if 'config' not in stored:
      raise ValueError('it holds no configuration')
  except FileNotFoundError:
    try:
      write_json(path, {'config': config, 'environment': _environment()})
    except OSError as error:
      raise OSError(
        f'cannot write to {run_dir} ({error.strerror}); make it writable, or'
        ' choose another run directory'
      ) from error
    return run_dir
  except ValueError as error:
    raise ValueError(
      f'{path} is damaged ({error}); choose another run directory, or delete'
      ' that file if the run is the one you want to resume'
    ) from error
  check_config(run_dir, stored['config'], config)
  return run_dir


def check_config(
  run_dir: PathLike, stored: Any, config: Mapping[str, Any]
) -> None:
  """Raises a ValueError if a run directory holds another configuration."""
  config = json.loads(json.dumps(config))
  if stored == config:
    return
  there, here = dict(leaves(stored)), dict(leaves(config))
  differences = [
    f'{name}: {json.dumps(there.get(name))} there,'
    f' {json.dumps(here.get(name))} here'
    for name in dict.fromkeys((*there, *here))
    if there.get(name) != here.get(name)
  ]
  raise ValueError(
    f'{run_dir} holds another run ({", ".join(differences)}); choose another'
    ' run directory, or the same options'
  )


def leaves(tree: Any, prefix: str = '') -> Iterator[tuple[str, Any]]:
  """Yields the leaves of a nested configuration, with dotted names."""
  if not isinstance(tree, dict):
    yield prefix, tree
    return
  for name, value in tree.items():
    yield from leaves(value, f'{prefix}.{name}' if prefix else name)


def _environment() -> dict[str, Any]:
  """Returns what else results may depend on: versions and the device."""
  import jax  # heavy, and not needed by NumPy-only modules

  names = ('aen', 'jax', 'jaxlib', 'flax', 'optax', 'numpy')
  versions = {n: importlib.import_module(n).__version__ for n in names}
  revision, root = 'unknown', pathlib.Path(__file__).resolve().parents[1]
  if (root / '.git').exists():
    describe = ['git', '-C', str(root), 'describe', '--always', '--dirty']
    with contextlib.suppress(OSError, subprocess.SubprocessError):
      revision = subprocess.check_output(
        describe, stderr=subprocess.DEVNULL, text=True, timeout=10
      ).strip()
  return {
    'versions': versions,
    'revision': revision,
    'device': f'{len(jax.devices())} × {jax.devices()[0].device_kind}',
  }


def array(value: Any, name: str) -> np.ndarray:
  """Returns an array of numbers; raises a ValueError for anything else."""
  try:
    found = np.asarray(value)
  except ValueError:  # rows of different lengths
    found = np.asarray(None)
  if found.dtype.kind in 'OUSMm' or found.dtype.type is np.void:
    raise ValueError(
      f'{name} must be an array of numbers, got {type(value).__name__}'
      f' ({found.dtype})'
    )
  return found


def as_path(value: Any, name: str) -> pathlib.Path:
  """Returns a path; raises a ValueError for anything else."""
  text = value if isinstance(value, str | os.PathLike) else None
  if text in (None, '') or '\0' in str(text):
    raise ValueError(f'{name} must be a path, got {value!r}')
  return pathlib.Path(text)


def positive(value: Any, name: str) -> int:
  """Returns a positive integer; raises a ValueError for anything else."""
  return _whole(value, 1, f'{name} must be a whole number of at least 1')


def one_each(
  value: Any, count: int, name: str, what: str = 'layer'
) -> tuple[int, ...]:
  """Returns one positive integer per layer or axis; repeats a single one."""
  if np.ndim(value) == 0:
    return (positive(value, name),) * count
  numbers = tuple(value)
  each = f'or one per {what} ({count})'
  expected = f'{name} must be one whole number of at least 1, {each}'
  if len(numbers) != count:
    raise ValueError(f'{expected}, got {value!r}')
  return tuple(_whole(number, 1, expected, value) for number in numbers)


def choice(value: Any, name: str, known: Iterable[str | None]) -> None:
  """Raises a ValueError unless a value is a known one."""
  known = tuple(known)
  if not isinstance(value, str | None) or value not in known:
    names = ', '.join(map(str, known))
    raise ValueError(f'{name} must be one of {names}, got {value!r}')


def seed(value: Any) -> int:
  """Checks and returns a seed; raises a ValueError unless 0 ≤ seed < 2^31."""
  return _whole(value, 0, 'seed must be a whole number from 0 to 2**31 - 1')


def _whole(value: Any, low: int, expected: str, given: Any = None) -> int:
  whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
  if not whole or not low <= value < 2**31:
    got = value if given is None else given
    raise ValueError(f'{expected}, got {got!r}')
  return int(value)


def real(value: Any, name: str, low: float, high: float) -> float:
  """Returns a number; raises a ValueError unless low ≤ value < high."""
  number = isinstance(value, int | float | np.integer | np.floating)
  if not number or not low <= value < high:  # true for NaN
    raise ValueError(
      f'{name} must be a number of at least {low:g} and less than {high:g}, got'
      f' {value!r}'
    )
  return float(value)


def text(value: str, what: str) -> str:
  """Returns text; raises a ValueError if UTF-8 cannot encode it."""
  try:
    value.encode()
  except UnicodeEncodeError as error:
    raise ValueError(
      f'{what} must be text that UTF-8 can encode, got {value!r}; rename it'
    ) from error
  return value


_LONGEST = 100  # characters of a name in messages


def unknown(
  what: str, name: Any, known: Iterable[str], *, summary: str = ''
) -> ValueError:
  """Returns the error for an unknown name, suggesting the nearest known one.

  It lists all known names, or shows the summary instead.
  """
  known = list(known)
  longer = [other for other in known if other.startswith(f'{name}/')]
  near = longer or difflib.get_close_matches(str(name), known, 1, 0.5)
  if len(str(name)) > _LONGEST:
    name = f'{str(name)[:_LONGEST]}…'
  hint = f'did you mean {near[0]!r}? ' if near else ''
  return ValueError(
    f'unknown {what} {name!r}; {hint}known: {summary or ", ".join(known)}'
  )


@contextlib.contextmanager
def needed_for(purpose: str, extra: str) -> Iterator[None]:
  """Says which extra of this package to install if an import fails."""
  try:
    yield
  except ImportError as error:
    missing = isinstance(error, ModuleNotFoundError)
    kind = ModuleNotFoundError if missing else ImportError
    # The cause matters without a name, and if the package is there but broken.
    reason = '' if missing and error.name else f': {error}'
    raise kind(
      f'{purpose} needs {error.name or extra}; pip install "aen[{extra}]"'
      f'{reason}',
      name=error.name,
    ) from error


_FORMULA = ('=', '+', '-', '@', '\t', '\r', "'")


def cell(value: str) -> str:
  """Escapes a cell of a CSV file, so that no program takes it for a formula.

  >>> cell('=1+1'), cell('rotation')
  ("'=1+1", 'rotation')
  """
  return f"'{value}" if value.startswith(_FORMULA) else value


def from_cell(value: str) -> str:
  """Inverts `cell`."""
  return value.removeprefix("'")


def from_disk(key: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
  """Returns int32 [N] from the cache folder, or computes and stores it.

  A file holds a checksum of its key and values, then the values; damaged or
  renamed files are computed again. Files are written atomically, so processes
  may share the folder.
  """
  folder = cache_dir()
  if folder is None:
    return compute()

  def checksum(payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + payload).digest()

  path = folder / f'{key}.labels'
  with contextlib.suppress(OSError):
    stored = path.read_bytes()
    if stored[:32] == checksum(stored[32:]):
      return np.frombuffer(stored[32:], '<i4').astype(np.int32, copy=False)
  labels = compute()
  payload = labels.astype('<i4', copy=False).tobytes()
  try:
    with written_whole(path) as file:
      file.write(checksum(payload) + payload)
  except OSError as error:
    warnings.warn(
      f'cannot cache orbits in {path.parent} ({error}); they will be computed'
      ' again next time. Set AEN_CACHE_DIR to a writable folder, or to the'
      ' empty string to disable the disk cache',
      stacklevel=2,
    )
  return labels
