"""Run directories: a run that is started again goes on where it stopped."""

from collections.abc import Iterator
from collections.abc import Mapping
import importlib.metadata
import json
import pathlib
import subprocess
import sys
from typing import Any

import jax

from aen import files

_PACKAGES = ('aen', 'jax', 'jaxlib', 'flax', 'optax', 'numpy')


def open_run(
  run_dir: files.PathLike, config: Mapping[str, Any]
) -> pathlib.Path:
  """Makes a run directory, or checks that it belongs to this configuration.

  Args:
    run_dir: The directory; config.json in it keeps the configuration.
    config: All that decides what the run computes, ready for JSON.

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
      ' that file if the run is the one you want to go on with'
    ) from error
  if stored != config:
    raise ValueError(
      f'{run_dir} holds another run ({_differences(stored, config)}); choose'
      ' another run directory, or the same options'
    )
  return run_dir


def _write_config(path: pathlib.Path, config: Mapping[str, Any]) -> None:
  try:
    with files.written_text(path) as file:
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
  """Yields what a nested configuration holds, with dotted names."""
  if not isinstance(tree, dict):
    yield prefix, tree
    return
  for name, value in tree.items():
    yield from _leaves(value, f'{prefix}.{name}' if prefix else name)


def _environment() -> dict[str, Any]:
  """Returns what a number may depend on besides the configuration."""
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
  """Returns the revision of the source tree, if this is one."""
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
