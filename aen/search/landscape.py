"""Landscapes: the accuracy of every network of a space.

All networks are trained with several seeds, and the validation and test
accuracies of all epochs are kept. On a landscape a search only looks up
accuracies, so strategies can be compared over many searches, with error bars.

Legend: K symmetries, 2^K states, R networks, S seeds, E epochs.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from aen.search import space as space_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors as executors_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

_VERSION = 'aen landscape 1'
_CHECKSUM = 'sha256'
# Arrays in a file, in the order of its checksum: name -> attribute and dtype.
_STORED = {
  'name': ('name', np.str_),
  'symmetries': ('symmetries', np.str_),
  'index': ('network_of', np.int32),
  'representatives': ('shortest_states', np.int32),
  'closures': ('implied_states', np.int32),
  'weights': ('weights', np.int32),
  'seeds': ('seeds', np.int64),
  'validation': ('validation', np.float32),
  'test': ('test', np.float32),
  'seconds': ('seconds', np.float32),
}
# Those that differ between the landscapes of one file.
_OWN = ('name', 'validation', 'test', 'seconds')


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Landscape(space_lib.Networks):
  """The accuracy of every network, in every epoch, with every seed.

  Attributes:
    name: The data set, such as 'g_mnist/aug5'.
    symmetries: The names of the K symmetries.
    network_of: The network of every state, as in `aen.Lattice`. int32 [2^K]
    weights: The number of free weights of each network. int32 [R]
    seeds: The seeds. int64 [S]
    validation: Validation accuracy after each epoch, 0 to 1. float32 [R, S, E]
    test: Test accuracy after each epoch, 0 to 1. float32 [R, S, E]
    seconds: Training time. float32 [R, S]
  """

  name: str
  symmetries: tuple[str, ...]
  network_of: np.ndarray
  weights: np.ndarray
  seeds: np.ndarray
  validation: np.ndarray
  test: np.ndarray
  seconds: np.ndarray

  def __post_init__(self) -> None:
    object.__setattr__(self, 'name', str(self.name))
    if not isinstance(self.symmetries, Iterable):
      raise ValueError(f'symmetries must be names, got {self.symmetries!r}')
    names = tuple(str(name) for name in self.symmetries)
    object.__setattr__(self, 'symmetries', names)
    object.__setattr__(self, 'bits', names)
    dtypes = dict(_STORED.values())
    for field in dataclasses.fields(self)[2:]:
      value = io_lib.array(getattr(self, field.name), field.name)
      array: np.ndarray = value.astype(dtypes[field.name])
      array.flags.writeable = False
      object.__setattr__(self, field.name, array)
    _check(self)

  def __repr__(self) -> str:
    return (
      f'Landscape({self.name!r}, {len(self.symmetries)} symmetries,'
      f' {len(self)} networks, {len(self.seeds)} seeds,'
      f' {self.validation.shape[-1]} epochs)'
    )

  def best_so_far(self, seed: int) -> np.ndarray:
    """Returns the best validation accuracy so far, float32 [R, E].

    Column e - 1 is the value of a network trained for e epochs. `seed` is an
    index of `seeds`.
    """
    return np.maximum.accumulate(self.validation[:, seed], axis=-1)

  def values(self, part: str = 'test') -> np.ndarray:
    """Returns the mean accuracy of each network over seeds, float64 [R].

    The accuracy is that on a part, 'validation' or 'test', in the first of the
    epochs that are best on the validation images.
    """
    if part not in ('validation', 'test'):
      raise ValueError(f"part must be 'validation' or 'test', got {part!r}")
    best = self.validation.argmax(axis=-1)[..., None]  # [R, S, 1]
    chosen = np.take_along_axis(getattr(self, part), best, axis=-1)
    return chosen.astype(np.float64).mean(axis=(1, 2))

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the content, the same on every machine."""
    return _checksum(_as_arrays(self))

  def save(self, path: io_lib.PathLike) -> None:
    """Writes an .npz file with a checksum, atomically, to exactly this path."""
    _write(path, _as_arrays(self) | {_CHECKSUM: np.array(self.fingerprint)})


def train_landscape(
  data: dataset_lib.Dataset,
  space: mlp_space.MLPSpace,
  recipe: recipe_lib.Recipe,
  seeds: Sequence[int],
  run_dir: io_lib.PathLike,
  children_per_batch: int | None = None,
  executor: Any = None,
) -> Landscape:
  """Trains every network of a space with every seed.

  The store is in the run directory, so the same call resumes an interrupted
  one, and landscapes of one directory share their children. The executor is
  that of `search`.
  """
  seeds, networks = list(seeds), range(len(space))
  requests = [(network, seed) for seed in seeds for network in networks]
  run_dir = io_lib.open_run(run_dir, {'space': space.spec()})
  with (
    store_lib.Results(run_dir / 'results.sqlite') as store,
    evaluate_lib.progress_bar('landscape', len(requests)) as bar,
    executors_lib.as_workers(executor).started(run_dir) as where,
  ):
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      store=store,
      children_per_batch=children_per_batch,
      on_trained=bar,
      **where,
    )
    records = evaluate(requests)

  def field(name: str) -> np.ndarray:
    """Returns a field of all records, [R, S, ...]."""
    values = np.array([getattr(record, name) for record in records])
    by_seed = values.reshape(len(seeds), len(networks), *values.shape[1:])
    return np.swapaxes(by_seed, 0, 1)

  return Landscape(
    name=data.name,
    symmetries=space.bits,
    network_of=space.network_of,
    weights=np.array([space.num_weights(network) for network in networks]),
    seeds=np.array(seeds),
    validation=field('validation_accuracy'),
    test=field('test_accuracy'),
    seconds=field('seconds'),
  )


def load(path: io_lib.PathLike) -> Landscape:
  """Reads a landscape; raises a `ValueError` for damaged and other files."""
  found = list(load_all(path).values())
  if len(found) != 1:
    raise ValueError(
      f'{path} has {len(found)} landscapes; read them with load_all'
    )
  return found[0]


def save_all(path: io_lib.PathLike, landscapes: Iterable[Landscape]) -> None:
  """Writes landscapes with the same networks and seeds to one .npz file."""
  landscapes = list(landscapes)
  stored = [_as_arrays(landscape) for landscape in landscapes]
  for name in _STORED.keys() - set(_OWN):
    for landscape, arrays in zip(landscapes, stored, strict=True):
      if not np.array_equal(arrays[name], stored[0][name]):
        raise ValueError(
          f'landscapes in one file must have the same {_STORED[name][0]}, but'
          f' those of {landscapes[0].name!r} and {landscape.name!r} differ;'
          ' write them into files of their own'
        )
  together = stored[0] | {n: np.stack([s[n] for s in stored]) for n in _OWN}
  together[_CHECKSUM] = np.array([each.fingerprint for each in landscapes])
  _write(path, together)


def load_all(path: io_lib.PathLike) -> dict[str, Landscape]:
  """Reads the landscapes of a file, one or several, by name."""
  together = _read(path)
  if not together[_CHECKSUM].ndim:  # written by `Landscape.save`
    landscape = _restore(path, together)
    return {landscape.name: landscape}
  found = [
    _restore(path, together | {n: together[n][i] for n in (*_OWN, _CHECKSUM)})
    for i in range(len(together[_CHECKSUM]))
  ]
  return {landscape.name: landscape for landscape in found}


def _write(path: io_lib.PathLike, arrays: dict[str, Any]) -> None:
  with io_lib.written_whole(path) as file:
    np.savez_compressed(file, **arrays)


def _read(path: io_lib.PathLike) -> dict[str, Any]:
  try:
    with np.load(path, allow_pickle=False) as stored:
      return {name: stored[name] for name in (*_STORED, _CHECKSUM)}
  except (FileNotFoundError, PermissionError, IsADirectoryError):
    raise
  except Exception as error:  # zipfile raises nearly anything
    # NumPy takes any unknown format for a pickle.
    why = 'no .npz file' if 'pickle' in str(error) else error
    raise _damaged(path, why) from error


def _restore(path: io_lib.PathLike, arrays: dict[str, Any]) -> Landscape:
  if str(arrays[_CHECKSUM]) != _checksum(arrays):
    raise _damaged(path, f'the checksum does not match: {arrays["name"]}')
  stored = {attribute: arrays[n] for n, (attribute, _) in _STORED.items()}
  fields = dataclasses.fields(Landscape)
  return Landscape(**{field.name: stored[field.name] for field in fields})


def _as_arrays(landscape: Landscape) -> dict[str, Any]:
  return {
    name: np.asarray(getattr(landscape, attribute), dtype)
    for name, (attribute, dtype) in _STORED.items()
  }


def _checksum(arrays: dict[str, np.ndarray]) -> str:
  digest = hashlib.sha256(_VERSION.encode())
  for name in _STORED:
    array = arrays[name]
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
  """Raises a `ValueError` unless shapes and values are consistent."""

  def require(fits: Any, why: str) -> None:
    if not fits:
      raise ValueError(f'landscape {landscape.name!r}{why}')

  networks, seeds = landscape.weights.size, landscape.seeds.size
  epochs = landscape.validation.shape[-1] if landscape.validation.ndim else 0
  expected = {
    'network_of': (2 ** len(landscape.symmetries),),
    'weights': (networks,),
    'seeds': (seeds,),
    'validation': (networks, seeds, epochs),
    'test': (networks, seeds, epochs),
    'seconds': (networks, seeds),
  }
  for name, must in expected.items():
    shape = getattr(landscape, name).shape
    require(shape == must, f': {name} must have shape {must}, got {shape}')
  require(
    networks * seeds * epochs,
    f' is empty: {networks} networks, {seeds} seeds, {epochs} epochs',
  )
  require(
    np.array_equal(np.unique(landscape.network_of), np.arange(networks)),
    f': network_of must use the networks 0 to {networks - 1}, all of them',
  )
  accuracies = np.stack([landscape.validation, landscape.test])
  require(
    ((accuracies >= 0) & (accuracies <= 1)).all(),  # False for NaN as well
    ': validation and test must be accuracies from 0 to 1, got values from'
    f' {accuracies.min()} to {accuracies.max()}; a diverged network has 0',
  )
