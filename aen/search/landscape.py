"""What every network of a lattice is worth: the ground truth for searches.

A landscape is the table of all networks, each trained with several seeds, every
epoch's accuracy kept, validation and test apart. With it a search is a lookup,
so that strategies can be compared with error bars.

Legend: K symmetries, 2^K states, R networks, S seeds, E epochs.
"""

from collections.abc import Iterable
import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np

from aen import io as io_lib

_VERSION = 'aen landscape 1'
_CHECKSUM = 'sha256'
_DTYPES = {
  'name': np.str_,
  'symmetries': np.str_,
  'network_of': np.int32,
  'shortest_states': np.int32,
  'implied_states': np.int32,
  'weights': np.int32,
  'seeds': np.int64,
  'validation': np.float32,
  'test': np.float32,
  'seconds': np.float32,
}
# Files, and their checksums, keep the names of the first version.
_STORED = {
  'network_of': 'index',
  'shortest_states': 'representatives',
  'implied_states': 'closures',
}
# What landscapes in one file differ in; the rest they have in common.
_OWN = ('name', 'validation', 'test', 'seconds')


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Landscape:
  """The accuracy of every network, in every epoch, with every seed.

  Attributes:
    name: What the networks were trained on, such as 'g_mnist/aug5'.
    symmetries: The names of the table's symmetries. K of str
    network_of: The network of every state, as in `aen.Lattice`. int32 [2^K]
    shortest_states: Each network's shortest state. int32 [R]
    implied_states: All symmetries that each network respects. int32 [R]
    weights: The number of free weights of each network. int32 [R]
    seeds: The seeds. int64 [S]
    validation: Validation accuracy after each epoch, 0 to 1. float32 [R, S, E]
    test: Test accuracy after each epoch, 0 to 1. float32 [R, S, E]
    seconds: Time to train. float32 [R, S]
  """

  name: str
  symmetries: tuple[str, ...]
  network_of: np.ndarray
  shortest_states: np.ndarray
  implied_states: np.ndarray
  weights: np.ndarray
  seeds: np.ndarray
  validation: np.ndarray
  test: np.ndarray
  seconds: np.ndarray

  def __post_init__(self) -> None:
    object.__setattr__(self, 'name', str(self.name))
    names = tuple(str(name) for name in self.symmetries)
    object.__setattr__(self, 'symmetries', names)
    for field, dtype in _DTYPES.items():
      if field not in ('name', 'symmetries'):
        array: np.ndarray = np.asarray(getattr(self, field)).astype(dtype)
        array.flags.writeable = False
        object.__setattr__(self, field, array)
    _check(self)

  def __len__(self) -> int:
    return len(self.shortest_states)

  def __repr__(self) -> str:
    return (
      f'Landscape({self.name!r}, {len(self.symmetries)} symmetries,'
      f' {len(self)} networks, {len(self.seeds)} seeds,'
      f' {self.validation.shape[-1]} epochs)'
    )

  def names(self, network: int) -> tuple[str, ...]:
    """Returns the shortest names of a network."""
    state = int(self.shortest_states[network])
    return tuple(
      name for k, name in enumerate(self.symmetries) if state >> k & 1
    )

  def network(self, names: Iterable[str]) -> int:
    """Returns the network that has the given symmetries."""
    state = sum(1 << self.symmetries.index(name) for name in set(names))
    return int(self.network_of[state])

  def table(self, seed: int) -> np.ndarray:
    """Returns the best validation accuracy within the first e epochs.

    Args:
      seed: Which of the S seeds, by its place in `seeds`.

    Returns:
      float32 [R, E]: column e - 1 is what a search sees that trains for e
      epochs.
    """
    return np.maximum.accumulate(self.validation[:, seed], axis=-1)

  def values(self, part: str = 'test') -> np.ndarray:
    """Returns what each network is truly worth: its mean over seeds.

    Args:
      part: 'validation' or 'test'; in either case the accuracy of the epoch
        that is best on the validation images (the first of equals).

    Returns:
      float64 [R].
    """
    if part not in ('validation', 'test'):
      raise ValueError(f"part must be 'validation' or 'test', got {part!r}")
    best = self.validation.argmax(axis=-1)[..., None]  # [R, S, 1]
    chosen = np.take_along_axis(getattr(self, part), best, axis=-1)
    return chosen.astype(np.float64).mean(axis=(1, 2))

  @functools.cached_property
  def fingerprint(self) -> str:
    """A name for exactly these numbers, the same on every machine."""
    return _checksum(_as_arrays(self))

  def save(self, path: io_lib.PathLike) -> None:
    """Writes one .npz file with a checksum, all of it or nothing.

    Args:
      path: Where to; the ending .npz is not added for you.
    """
    arrays: dict[str, Any] = _as_arrays(self)
    arrays |= {_CHECKSUM: np.array(self.fingerprint)}
    with io_lib.written_whole(path) as file:
      np.savez_compressed(file, **_as_stored(arrays))


def load(path: io_lib.PathLike) -> Landscape:
  """Reads a landscape; a damaged or foreign file is a `ValueError`."""
  arrays = _read(path)
  checksum = str(arrays.pop(_CHECKSUM))
  if checksum != _checksum(arrays):
    raise _damaged(path, 'its checksum does not match')
  return Landscape(**arrays)


def save_all(path: io_lib.PathLike, landscapes: Iterable[Landscape]) -> None:
  """Writes landscapes of the same networks and seeds into one .npz file."""
  landscapes = list(landscapes)
  stored = [_as_arrays(landscape) for landscape in landscapes]
  for field in _DTYPES.keys() - set(_OWN):
    for landscape, arrays in zip(landscapes, stored, strict=True):
      if not np.array_equal(arrays[field], stored[0][field]):
        raise ValueError(
          f'landscapes in one file must have the same {field}, but those of'
          f' {landscapes[0].name!r} and {landscape.name!r} differ; write them'
          ' into files of their own'
        )
  together: dict[str, Any] = dict(stored[0])
  together |= {field: np.stack([s[field] for s in stored]) for field in _OWN}
  together[_CHECKSUM] = np.array([each.fingerprint for each in landscapes])
  with io_lib.written_whole(path) as file:
    np.savez_compressed(file, **_as_stored(together))


def load_all(path: io_lib.PathLike) -> dict[str, Landscape]:
  """Reads what `save_all` wrote, by name."""
  together = _read(path)
  found = {}
  for i, checksum in enumerate(np.atleast_1d(together.pop(_CHECKSUM))):
    arrays = together | {field: together[field][i] for field in _OWN}
    if checksum != _checksum(arrays):
      raise _damaged(path, f'the checksum of number {i + 1} does not match')
    found[str(arrays['name'])] = Landscape(**arrays)
  return found


def _read(path: io_lib.PathLike) -> dict[str, Any]:
  try:
    with np.load(path, allow_pickle=False) as stored:
      return {
        name: stored[_STORED.get(name, name)] for name in (*_DTYPES, _CHECKSUM)
      }
  except (FileNotFoundError, PermissionError, IsADirectoryError):
    raise
  except Exception as error:  # zipfile raises nearly anything
    raise _damaged(path, error) from error


def _as_arrays(landscape: Landscape) -> dict[str, np.ndarray]:
  return {
    name: np.asarray(getattr(landscape, name), dtype)
    for name, dtype in _DTYPES.items()
  }


def _as_stored(arrays: dict[str, Any]) -> dict[str, Any]:
  return {_STORED.get(name, name): array for name, array in arrays.items()}


def _checksum(arrays: dict[str, np.ndarray]) -> str:
  digest = hashlib.sha256(_VERSION.encode())
  for name in _DTYPES:
    array, name = arrays[name], _STORED.get(name, name)
    if array.dtype.kind == 'U':
      digest.update(repr((name, array.tolist())).encode())
    else:
      little = array.dtype.newbyteorder('<')
      digest.update(repr((name, little.str, array.shape)).encode())
      digest.update(np.ascontiguousarray(array, little).tobytes())
  return digest.hexdigest()


def _damaged(path: io_lib.PathLike, why: object) -> ValueError:
  return ValueError(
    f'{path}: expected a landscape as written by Landscape.save, got a damaged'
    f' or foreign file ({why}); make or copy it again'
  )


def _check(landscape: Landscape) -> None:
  """Raises a ValueError unless all shapes and ranges fit together."""
  networks, seeds = len(landscape.shortest_states), len(landscape.seeds)
  num_states = 2 ** len(landscape.symmetries)
  epochs = (
    np.shape(landscape.validation)[-1] if landscape.validation.ndim else 0
  )
  expected = {
    'network_of': (num_states,),
    'shortest_states': (networks,),
    'implied_states': (networks,),
    'weights': (networks,),
    'validation': (networks, seeds, epochs),
    'test': (networks, seeds, epochs),
    'seconds': (networks, seeds),
  }
  for name, shape in expected.items():
    if getattr(landscape, name).shape != shape:
      raise ValueError(
        f'landscape {landscape.name!r}: {name} must have shape {shape}, got'
        f' {getattr(landscape, name).shape}'
      )
  if not networks * seeds * epochs:
    raise ValueError(
      f'landscape {landscape.name!r} is empty: {networks} networks, {seeds}'
      f' seeds, {epochs} epochs'
    )
  if not np.array_equal(np.unique(landscape.network_of), np.arange(networks)):
    raise ValueError(
      f'landscape {landscape.name!r}: network_of must use the networks 0 to'
      f' {networks - 1}, all of them'
    )
  for name in ('validation', 'test'):
    accuracy = getattr(landscape, name)
    if not ((accuracy >= 0) & (accuracy <= 1)).all():  # False for NaN as well
      raise ValueError(
        f'landscape {landscape.name!r}: {name} must be accuracies from 0 to 1,'
        f' got {accuracy.min()} to {accuracy.max()}; a diverged network counts'
        ' as 0'
      )
