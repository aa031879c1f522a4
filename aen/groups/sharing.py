"""From symmetries to the gather indices of weight-shared layers.

A layer's kernel is `weights[labels]`: entries with equal labels share a weight.
The labels of dense, lifting and G→G kernels and of biases are all orbits of
points under the generators of a group.

Legend: N input points, M output points, |G| group elements.
"""

from collections.abc import Callable, Hashable, Sequence, Set
import dataclasses
import functools
import hashlib
import math
import threading

import numpy as np

from aen import io as io_lib
from aen.groups import point_group
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import add_pair
from aen.groups.orbits import check_kernel
from aen.groups.orbits import orbits
from aen.groups.orbits import pair

# Labels of fewer points are not cached on disk: computing them takes no longer
# than reading and checking a file.
MIN_CACHED_POINTS = 2**20
MEMORY_CACHE_BYTES = 2**28
MEMORY_CACHE_ENTRIES = 512
_CACHE_VERSION = b'aen partition 1'


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sharing:
  """Which entries of a layer's kernel and bias share a weight.

  Sharings are equal exactly if their keys are.

  Attributes:
    kernel: Labels numbered by first occurrence, int32. Dense: [N, M]. Lifting
      convolution: [*kernel_shape, |G|]; G→G: [*kernel_shape, |G|, |G|], input
      before output, as in Flax.
    bias: Labels of the outputs, int32, [M] or [|G|].
  """

  kernel: np.ndarray
  bias: np.ndarray

  def __post_init__(self) -> None:
    for name in ('kernel', 'bias'):
      labels = io_lib.array(getattr(self, name), f'the labels of a {name}')
      whole = labels.size and labels.dtype.kind == 'i'
      if not whole or labels.min() < 0 or labels.max() >= labels.size:
        raise ValueError(
          f'the labels of a {name} must be integers of at least 0 and less than'
          f' its number of entries, got {labels.dtype} of shape {labels.shape}'
        )
      object.__setattr__(self, name, labels)
    self.kernel.flags.writeable = False  # the caches return these very arrays
    self.bias.flags.writeable = False

  @functools.cached_property
  def num_weights(self) -> int:
    """The number W of free kernel weights: one per orbit."""
    return int(self.kernel.max()) + 1

  @functools.cached_property
  def num_biases(self) -> int:
    """The number of free biases."""
    return int(self.bias.max()) + 1

  @functools.cached_property
  def key(self) -> str:
    """A hash of shapes and labels, the same on every machine."""
    digest = hashlib.sha256()
    for labels in (self.kernel, self.bias):
      digest.update(repr(labels.shape).encode())
      digest.update(np.ascontiguousarray(labels, '<i4').data)
    return digest.hexdigest()

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Sharing) and self.key == other.key

  def __hash__(self) -> int:
    return hash(self.key)

  def __repr__(self) -> str:
    return f'Sharing({self})'

  def __str__(self) -> str:
    sides = '×'.join(str(side) for side in self.kernel.shape)
    counts = f'{self.kernel.size:_} weights, {self.num_weights:_} free'
    return f'{sides} = {counts.replace("_", " ")}'


def dense_sharing(
  symmetries: symmetries_lib.SymmetryLike,
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  invariant: bool = False,
) -> Sharing:
  """Returns the sharing of a dense layer between two grids.

  With N points in `in_shape` and M in `out_shape`, the kernel is [N, M]. If
  `invariant`, the symmetries act trivially on the outputs, so that
  layer(g x) = layer(x).

  >>> dense_sharing(('rotation',), (28, 28), (20, 20))
  Sharing(784×400 = 313 600 weights, 78 400 free)
  """
  in_shape = symmetries_lib.as_shape(in_shape)
  out_shape = symmetries_lib.as_shape(out_shape)
  shape = math.prod(in_shape), math.prod(out_shape)
  check_kernel(*shape)
  actions = {}  # on inputs [N] and outputs [M], by a hash
  for symmetry in symmetries_lib.as_symmetries(symmetries):
    action = symmetries_lib.layer_action(
      symmetry, in_shape, out_shape, invariant
    )
    digest = hashlib.sha256(b''.join(p.tobytes() for p in action)).digest()
    actions[digest] = action

  def kernel() -> np.ndarray:
    # In a search, the labels of all symmetries but one are often in memory.
    for digest, action in actions.items():
      others = _memory.get(_dense_key(shape, actions.keys() - {digest}))
      if others is not None:
        return add_pair(others.kernel, *action)
    labels = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    for action in actions.values():
      labels = add_pair(labels, *action)
    return labels

  def sharing() -> Sharing:
    large = actions and math.prod(shape) >= MIN_CACHED_POINTS
    labels = io_lib.from_disk(key, kernel) if large else kernel()
    bias = orbits([perm_out for _, perm_out in actions.values()], shape[1])
    return Sharing(labels.reshape(shape), bias)

  key = _dense_key(shape, actions.keys())
  return _from_memory(key, sharing)


def _dense_key(shape: tuple[int, ...], digests: Set[bytes]) -> str:
  """Returns the key of a kernel, given the actions in any order."""
  parts = (_CACHE_VERSION, repr(shape).encode(), *sorted(digests))
  return hashlib.sha256(b'|'.join(parts)).hexdigest()


def conv_sharing(
  group: point_group.Group | symmetries_lib.SymmetryLike,
  kernel_shape: Sequence[int],
  lifting: bool,
) -> Sharing:
  """Returns the sharing of a group convolution's kernel.

  Transforming the input by g maps the offset r to g r and every group element
  h, of input and output alike, to g h. A kernel ψ is equivariant exactly if
  ψ(g r, g h, g k) = ψ(r, h, k) for all g: one weight per orbit of (r, h, k).

  Args:
    group: A `Group`, or symmetries that generate one.
    kernel_shape: The kernel's sides, for instance (3, 3).
    lifting: True for the first layer, from the plane to the group (Z²→G); False
      for the ones after it (G→G).

  Returns:
    Its `Sharing`, with a kernel of shape [*kernel_shape, |G|] if lifting, else
    [*kernel_shape, |G|, |G|].

  >>> conv_sharing(('rotation',), (3, 3), lifting=False)
  Sharing(3×3×4×4 = 144 weights, 36 free)
  """
  kernel_shape = symmetries_lib.as_shape(kernel_shape)
  if not isinstance(group, point_group.Group):
    group = point_group.group(group, len(kernel_shape))
  if group.ndim != len(kernel_shape):
    raise ValueError(
      f'the group acts on {group.ndim} axes, so the kernel needs as many sides,'
      f' got {kernel_shape}; give the number of axes: aen.group(symmetries,'
      f' ndim={len(kernel_shape)})'
    )
  sides = np.abs(group.elements) @ np.array(kernel_shape)  # transformed by g
  if (sides != kernel_shape).any():
    raise ValueError(
      'the group exchanges axes, so those sides of the kernel must be equal (a'
      f' rotation needs a square kernel), got {kernel_shape}'
    )
  group_axes = (group.order,) * (1 if lifting else 2)

  def sharing() -> Sharing:
    generators = []
    for g in range(group.order):
      generator = symmetries_lib.permutation(group.symmetry(g), kernel_shape)
      # Gather form: the entry now at h was at g⁻¹ h.
      for _ in group_axes:
        generator = pair(generator, group.table[group.inverse[g]])
      generators.append(generator)
    labels = orbits(generators, generators[0].size)
    return Sharing(
      labels.reshape(*kernel_shape, *group_axes),
      np.zeros(group.order, np.int32),
    )

  return _from_memory((group, kernel_shape, lifting), sharing)


_memory: dict[Hashable, Sharing] = {}  # the least recently used first
_lock = threading.Lock()


def _from_memory(key: Hashable, compute: Callable[[], Sharing]) -> Sharing:
  """Returns a sharing from the memory cache, or computes and stores it."""
  with _lock:
    if key in _memory:
      _memory[key] = _memory.pop(key)  # the most recently used last
      return _memory[key]
  sharing = compute()  # not locked: this may take seconds
  with _lock:
    _memory[key] = sharing
    while (
      len(_memory) > MEMORY_CACHE_ENTRIES
      or sum(s.kernel.nbytes for s in _memory.values()) > MEMORY_CACHE_BYTES
    ):
      del _memory[next(iter(_memory))]
  return sharing


def clear_memory_cache() -> None:
  """Empties the memory cache; files on disk are kept."""
  with _lock:
    _memory.clear()
