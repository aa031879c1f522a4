"""Atomic writes, run directories, argument checks."""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import errno
import importlib.metadata
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

PathLike = str | os.PathLike[str]


@contextlib.contextmanager
def written_whole(path: PathLike) -> Iterator[io.BufferedWriter]:
  """Opens a file for atomic writing: it appears only when complete.

  On any error, such as a full disk, the partial file is removed and an existing
  file stays as it was.
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
  """As `written_whole`, for UTF-8 text; line endings are not translated."""
  with written_whole(path) as f:
    text = io.TextIOWrapper(f, encoding='utf-8', newline='')
    yield text
    text.flush()
    text.detach()


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def clear_when_disk_is_full(path: PathLike) -> Iterator[None]:
  """Raises the errors of a full disk as one line that says what to do."""
  try:
    yield
  except Exception as error:
    # Writers in C++ raise their own errors, with the reason as text.
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


_PACKAGES = ('aen', 'jax', 'jaxlib', 'flax', 'optax', 'numpy')


def open_run(run_dir: PathLike, config: Mapping[str, Any]) -> pathlib.Path:
  """Creates a run directory, or checks that it has this configuration.

  Args:
    run_dir: The directory; config.json in it keeps the configuration.
    config: Everything that determines the results, ready for JSON.

  Returns:
    The directory.

  Raises:
    ValueError: The directory holds a run of another configuration.
    OSError: It cannot be written.
  """
  run_dir = pathlib.Path(run_dir)
  path = run_dir / 'config.json'
  config = json.loads(json.dumps(config))
  try:
    stored = json.loads(path.read_text('utf-8'))['config']
  except FileNotFoundError:
    _write_config(path, config)
    return run_dir
  except (ValueError, KeyError, TypeError) as error:
    raise ValueError(
      f'{path} is damaged ({error!r}); choose another run directory, or delete'
      ' that file if the run is the one you want to resume'
    ) from error
  if stored != config:
    raise ValueError(
      f'{run_dir} holds another run ({_differences(stored, config)}); choose'
      ' another run directory, or the same options'
    )
  return run_dir


def _write_config(path: pathlib.Path, config: Mapping[str, Any]) -> None:
  try:
    with written_text(path) as file:
      json.dump(
        {'config': config, 'environment': _environment()},
        file,
        indent=2,
        ensure_ascii=False,
      )
  except OSError as error:
    raise OSError(
      f'cannot write to {path.parent} ({error.strerror}); make it writable, or'
      ' choose another run directory'
    ) from error


def _differences(stored: Any, config: Mapping[str, Any]) -> str:
  there, here = dict(_leaves(stored)), dict(_leaves(config))
  return ', '.join(
    f'{name}: {json.dumps(there.get(name))} there,'
    f' {json.dumps(here.get(name))} here'
    for name in dict.fromkeys((*there, *here))
    if there.get(name) != here.get(name)
  )


def _leaves(tree: Any, prefix: str = '') -> Iterator[tuple[str, Any]]:
  """Yields the leaves of a nested configuration, with dotted names."""
  if not isinstance(tree, dict):
    yield prefix, tree
    return
  for name, value in tree.items():
    yield from _leaves(value, f'{prefix}.{name}' if prefix else name)


def _environment() -> dict[str, Any]:
  """Returns what results may depend on besides the configuration."""
  import jax  # heavy, and the first rooms are NumPy only

  device = jax.devices()[0]
  return {
    'versions': {name: _version(name) for name in _PACKAGES},
    'revision': _revision(),
    'device': f'{len(jax.devices())} × {device.device_kind}',
  }


def _version(package: str) -> str:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:  # run from a clone
    return getattr(sys.modules.get(package), '__version__', 'not installed')


def _revision() -> str:
  """Returns the Git revision of the source tree, if there is one."""
  here = pathlib.Path(__file__).resolve().parent
  if not (here.parent / '.git').exists():
    return 'unknown'
  try:
    return subprocess.run(
      ['git', '-C', str(here), 'describe', '--always', '--dirty'],
      capture_output=True,
      text=True,
      check=True,
      timeout=10,
    ).stdout.strip()
  except (OSError, subprocess.SubprocessError):
    return 'unknown'


def positive(value: Any, name: str) -> int:
  """Returns a positive integer; raises a ValueError for anything else."""
  if not isinstance(value, int | np.integer) or value < 1:
    raise ValueError(
      f'{name} must be a whole number of at least 1, got {value!r}'
    )
  return int(value)
