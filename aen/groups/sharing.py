"""From symmetries to the gather indices of weight-shared layers.

A layer's kernel is `weights[labels]`: entries with equal labels are one weight.
Dense kernels, lifting kernels, G→G kernels and biases are all orbits of points,
so one call serves them all.

Legend: N input points, M output points, |G| group elements.
"""

import collections
from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import functools
import hashlib
import os
import pathlib
import threading
import warnings

import numpy as np

from aen import io as io_lib
from aen.groups import point_group
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import join
from aen.groups.orbits import orbits
from aen.groups.orbits import pair
from aen.groups.orbits import permutation

# Partitions of at least this many points go to disk; smaller ones are computed
# in less time than a careful read takes.
MIN_CACHED_POINTS = 2**20
MEMORY_CACHE_BYTES = 2**28
_CACHE_VERSION = b'aen partition 1'

# How a symmetry moves a layer's inputs [N] and its outputs [M].
_Action = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sharing:
  """Which entries of a layer's kernel and bias are one weight.

  Sharings are equal exactly when their keys are, and a sharing of another
  shape, or with one entry labelled otherwise, has another key.

  Attributes:
    kernel: Labels numbered by first occurrence, int32. Dense: [N, M]. Lifting
      convolution: [*kernel_shape, |G|]; G→G: [*kernel_shape, |G|, |G|], input
      before output, as in Flax.
    bias: Labels of the outputs, int32, [M] or [|G|].
  """

  kernel: np.ndarray
  bias: np.ndarray

  def __post_init__(self) -> None:
    self.kernel.flags.writeable = False  # caches hand out these very arrays
    self.bias.flags.writeable = False

  @functools.cached_property
  def num_weights(self) -> int:
    """The number of free kernel weights: one per orbit."""
    return int(self.kernel.max()) + 1

  @functools.cached_property
  def num_biases(self) -> int:
    """The number of free biases."""
    return int(self.bias.max()) + 1

  @functools.cached_property
  def key(self) -> str:
    """A name for this sharing pattern, the same on every machine."""
    digest = hashlib.sha256()
    for labels in (self.kernel, self.bias):
      digest.update(repr(labels.shape).encode())
      digest.update(np.ascontiguousarray(labels, '<i4').tobytes())
    return digest.hexdigest()

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Sharing) and self.key == other.key

  def __hash__(self) -> int:
    return hash(self.key)

  def __repr__(self) -> str:
    sides = '×'.join(str(side) for side in self.kernel.shape)
    return (
      f'Sharing({sides} = {_spaced(self.kernel.size)} weights,'
      f' {_spaced(self.num_weights)} free)'
    )


def sum_tables(labels: np.ndarray, width: int = 8) -> list[np.ndarray]:
  """Returns gather tables that sum the entries of each class, level by level.

  Each level replaces up to `width` entries of a class by their sum: with
  `values` [n] and one zero appended, the next level's values are
  `sum(values[row] for row in table)`. After the last level there is one value
  per class. For the gradient of shared weights this beats a scatter-add.

  Args:
    labels: int32 [n], all of 0…C-1 among them.
    width: How many entries are summed at once.

  Returns:
    Tables, int32 [up to width, number of partial sums]; n stands for "none".
  """
  tables: list[np.ndarray] = []
  while not tables or labels.size > labels.max() + 1:
    counts = np.bincount(labels)
    rows = min(width, int(counts.max()))
    parts = -(-counts // rows)  # partial sums of each class
    order = np.argsort(labels, kind='stable')
    in_order = labels[order]
    place = np.arange(labels.size) - (np.cumsum(counts) - counts)[in_order]
    column = (np.cumsum(parts) - parts)[in_order] + place // rows
    table = np.full((rows, int(parts.sum())), labels.size, np.int32)
    table[place % rows, column] = order
    tables.append(table)
    labels = np.repeat(np.arange(counts.size), parts)
  return tables


def _spaced(number: int) -> str:
  return f'{number:,}'.replace(',', ' ')


def dense_sharing(
  symmetries: symmetries_lib.SymmetryLike,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  invariant: bool = False,
) -> Sharing:
  """Returns the sharing of a dense layer between two grids.

  Args:
    symmetries: What the layer is to be equivariant to.
    in_shape: The grid of its inputs, N points in all.
    out_shape: The grid of its outputs, M points in all.
    invariant: The symmetries leave the outputs where they are: the layer's
      outputs do not change when its input is moved.

  Returns:
    Its `Sharing`. The kernel is [N, M].

  >>> dense_sharing(('rotation',), (28, 28), (20, 20))
  Sharing(784×400 = 313 600 weights, 78 400 free)
  """
  in_shape, out_shape = as_shape(in_shape), as_shape(out_shape)
  actions = []  # one (permutation of inputs, permutation of outputs) each
  for symmetry in symmetries_lib.as_symmetries(symmetries):
    perm_in = permutation(symmetry, in_shape)
    if invariant:
      perm_out = np.arange(np.prod(out_shape), dtype=np.int32)
    else:
      perm_out = permutation(symmetry, out_shape)
    actions.append((perm_in, perm_out))
  shape = int(np.prod(in_shape)), int(np.prod(out_shape))
  kernel = _kernel_labels(actions, shape)
  bias = orbits([perm_out for _, perm_out in actions], shape[1])
  return Sharing(kernel.reshape(shape), bias)


def conv_sharing(
  group: point_group.Group | symmetries_lib.SymmetryLike,
  kernel_shape: Sequence[int],
  lifting: bool,
) -> Sharing:
  """Returns the sharing of a group convolution's kernel.

  Moving the input by g moves the offset r to g r and every group element h, of
  input and of output alike, to g h; a kernel is equivariant when it is the same
  at both places. All offsets, elements and channels apart from that are free.

  Args:
    group: A `Group`, or symmetries that generate one.
    kernel_shape: The kernel's sides, for instance (3, 3).
    lifting: True for the first layer, from the plane to the group (Z²→G); False
      for the ones after it (G→G).

  Returns:
    Its `Sharing`. The kernel is [*kernel_shape, |G|] if lifting, else
    [*kernel_shape, |G|, |G|].

  >>> conv_sharing(('rotation',), (3, 3), lifting=False)
  Sharing(3×3×4×4 = 144 weights, 36 free)
  """
  kernel_shape = as_shape(kernel_shape)
  if not isinstance(group, point_group.Group):
    group = point_group.group(group, len(kernel_shape))
  if group.ndim != len(kernel_shape):
    raise ValueError(
      f'the group acts on {group.ndim} axes, so the kernel needs as many sides,'
      f' got {kernel_shape}; name the number of axes: aen.group(symmetries,'
      f' ndim={len(kernel_shape)})'
    )
  sides = np.abs(group.elements) @ np.array(kernel_shape)  # as each g turns it
  if (sides != kernel_shape).any():
    raise ValueError(
      'the group turns axes into each other, so those sides of the kernel must'
      f' be equal (a rotation needs a square kernel), got {kernel_shape}'
    )
  group_axes = (group.order,) * (1 if lifting else 2)
  generators = []
  for g in range(group.order):
    moved = permutation(group.symmetry(g), kernel_shape)
    # Gather form: the entry now at h was at g⁻¹ h.
    for _ in group_axes:
      moved = pair(moved, group.table[group.inverse[g]])
    generators.append(moved)
  labels = orbits(generators, generators[0].size)
  return Sharing(
    labels.reshape(*kernel_shape, *group_axes), np.zeros(group.order, np.int32)
  )


def _kernel_labels(
  actions: Sequence[_Action], shape: tuple[int, int]
) -> np.ndarray:
  """Labels the pairs of points, from memory or from disk where they are."""
  num_points = shape[0] * shape[1]
  if not actions:
    return np.arange(num_points, dtype=np.int32)
  key = _actions_key(actions, shape)
  if num_points >= MIN_CACHED_POINTS:
    return _remember(key, lambda: _stored(key, actions, num_points))
  # The candidates of a search are joins of a few partitions, one per symmetry.
  parts = (_base_labels(action, shape) for action in actions)
  return _remember(key, lambda: functools.reduce(join, parts))


def _base_labels(action: _Action, shape: tuple[int, int]) -> np.ndarray:
  return _remember(
    _actions_key([action], shape),
    lambda: orbits([pair(*action)], shape[0] * shape[1]),
  )


def _actions_key(actions: Sequence[_Action], shape: tuple[int, int]) -> str:
  """Names a set of actions by what they do; their order is irrelevant."""
  digests = {
    hashlib.sha256(perm_in.tobytes() + perm_out.tobytes()).digest()
    for perm_in, perm_out in actions
  }
  parts = (_CACHE_VERSION, repr(shape).encode(), *sorted(digests))
  return hashlib.sha256(b'|'.join(parts)).hexdigest()


class _Memory:
  """The partitions used last, up to a number of bytes."""

  def __init__(self) -> None:
    self._kept: collections.OrderedDict[str, np.ndarray] = (
      collections.OrderedDict()
    )
    self._num_bytes = 0
    self._lock = threading.Lock()

  def __len__(self) -> int:
    return len(self._kept)

  def get(self, key: str) -> np.ndarray | None:
    with self._lock:
      if key in self._kept:
        self._kept.move_to_end(key)
      return self._kept.get(key)

  def put(self, key: str, labels: np.ndarray) -> None:
    with self._lock:
      if key not in self._kept:
        self._kept[key] = labels
        self._num_bytes += labels.nbytes
      while self._num_bytes > MEMORY_CACHE_BYTES:
        _, forgotten = self._kept.popitem(last=False)
        self._num_bytes -= forgotten.nbytes

  def clear(self) -> None:
    with self._lock:
      self._kept.clear()
      self._num_bytes = 0


_memory = _Memory()


def _remember(key: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
  labels = _memory.get(key)
  if labels is None:
    labels = compute()
    labels.flags.writeable = False
    _memory.put(key, labels)
  return labels


def clear_memory_cache() -> None:
  """Forgets all partitions in memory; what is on disk stays."""
  _memory.clear()


def _stored(
  key: str, actions: Sequence[_Action], num_points: int
) -> np.ndarray:
  """Keeps a large partition on disk, unless AEN_CACHE_DIR is ''."""
  home = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
  folder = os.environ.get('AEN_CACHE_DIR', os.path.join(home, 'aen'))
  path = pathlib.Path(folder, f'{key}.labels')
  labels = _read(path, key, num_points) if folder else None
  if labels is None:
    labels = orbits((pair(*action) for action in actions), num_points)
    if folder:
      _write(path, key, labels)
  return labels


def _read(path: pathlib.Path, key: str, num_points: int) -> np.ndarray | None:
  """Reads labels; None if there are none, or if one byte of them is off."""
  try:
    stored = path.read_bytes()
  except OSError:
    return None
  checksum, payload = stored[:32], stored[32:]
  if len(payload) != 4 * num_points or checksum != _checksum(key, payload):
    return None
  return np.frombuffer(payload, '<i4').astype(np.int32, copy=False)


def _write(path: pathlib.Path, key: str, labels: np.ndarray) -> None:
  """Writes labels so that a reader sees all of them or none."""
  payload = labels.astype('<i4', copy=False).tobytes()
  try:
    with io_lib.written_whole(path) as file:
      file.write(_checksum(key, payload) + payload)
  except OSError as error:
    warnings.warn(
      f'cannot cache orbits in {path.parent} ({error}); they will be computed'
      ' again next time. Set AEN_CACHE_DIR to a folder that can be written, or'
      " to '' to stop caching on disk",
      stacklevel=2,
    )


def _checksum(key: str, payload: bytes) -> bytes:
  digest = hashlib.sha256(key.encode())
  digest.update(payload)
  return digest.digest()
