"""MLPs, by their symmetries.

Legend: K bits, 2^K states, R networks.
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import hashlib
import math
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import chosen
from aen.groups.lattice import Lattice
from aen.groups.lattice import lattice
from aen.groups.orbits import orbits
from aen.groups.sharing import dense_sharing
from aen.groups.sharing import Sharing
from aen.groups.symmetries import permutation
from aen.nn import mlp as mlp_lib
from aen.nn.dense import EquivariantDense
from aen.search import programs as programs_lib
from aen.search import space as space_lib
from aen.train.child import ChildInputs

_SMALL_SIDE = 16  # up to which hidden grids are as large as the images
_FEW_POINTS = 100  # smaller hidden grids get channels,
_FULL_WIDTH = 400  # up to the paper's number of hidden units
_MAX_HIDDEN = 600  # points of a hidden grid, by default


@dataclasses.dataclass(frozen=True, eq=False)
class MLPSpace(space_lib.Space):
  """All `EquivariantMLP`s of a table of symmetries."""

  helper = 'symmetry'

  template: mlp_lib.EquivariantMLP
  lattice: Lattice

  @property
  @override
  def grid(self) -> tuple[int, ...]:
    return tuple(self.template.in_shape)

  @override
  def num_weights(self, network: int) -> int:
    # By the lattice: the labels of a large kernel take time and memory.
    template = self.template
    last = tuple(template.hidden_shapes[-1])
    points = math.prod(last)
    if template.head == 'invariant':
      own = self.symmetries_of(network)
      labels = orbits([permutation(s, last) for s in own], points)
      points = int(labels.max()) + 1
    counts = [*map(int, self.lattice.num_weights[network])]
    channels = math.prod(self.image_shape[len(self.grid) :])
    widths = template.widths() or (1,) * len(counts)
    return mlp_lib.total_weights(
      [*counts, points * template.num_classes], (channels, *widths)
    )

  @override
  def key(self, network: int) -> str:
    return self._compact(network)[0]

  @functools.cached_property
  def _programs(self) -> programs_lib.Programs:
    return programs_lib.choose(
      self.symmetries,
      self.lattice.grids,
      self.implied_states.tolist(),
      self.lattice.num_weights,
    )

  @override
  def program(self, network: int) -> mlp_lib.EquivariantMLP:
    _, named_by, sizes = self._programs.choices[network]
    if self.template.head == 'invariant':
      points = math.prod(self.template.hidden_shapes[-1])
      sizes = (*sizes, points * self.template.num_classes)
    return self.template.clone(
      symmetries=chosen(named_by, self.symmetries), max_weights=sizes
    )

  @override
  def inputs(self, network: int) -> ChildInputs:
    _, layers = self._compact(network)
    sharing = {name: dict(layer) for name, layer in layers.items()}
    subset = self._programs.choices[network].subset
    forms = self._programs.forms[subset] if subset else []
    for i, form in enumerate(forms):
      layer, last = sharing[f'hidden_{i}'], len(forms) - 1
      index = layer['kernel']
      layer['kernel'] = index.take(self._entry(subset, i))
      # Between layers, points stay in the order of the group's orbits.
      if i < last and form.out_place is not None:
        layer['bias'] = layer['bias'][np.argsort(form.out_place)]
      layer['spectral'] = jax.tree.map(
        _single_precision,
        dataclasses.replace(
          form,
          in_place=form.in_place if i == 0 else None,
          out_place=form.out_place if i == last else None,
          index=index,
        ),
      )
    if self.template.head == 'dense':
      sharing['head'] = {}
    return ChildInputs({'sharing': sharing})

  @functools.cached_property
  def _compact(self) -> Callable[[int], tuple[str, dict[str, Any]]]:
    return functools.cache(self._compacted)

  def _compacted(self, network: int) -> tuple[str, dict[str, Any]]:
    """Returns a network's key, and the labels of each layer.

    They are cached, because orbits take time to find. To save memory, only the
    labels of `Spectral.index` are kept of a kernel that is computed in the
    basis of characters: a space has a few hundred networks.
    """
    like, sharings = self.template, self._sharings(network)
    parts = repr((like.num_classes, like.head, like.features)).encode()
    digest = hashlib.sha256(parts)
    for sharing in sharings.values():
      digest.update(sharing.key.encode())
    layers = {
      name: {'kernel': sharing.kernel, 'bias': sharing.bias}
      for name, sharing in sharings.items()
    }
    if subset := self._programs.choices[network].subset:
      for i, form in enumerate(self._programs.forms[subset]):
        layer = layers[f'hidden_{i}']
        layer['kernel'] = form.of(layer['kernel']).index
    return digest.hexdigest(), layers

  @functools.cached_property
  def _entry(self) -> Callable[[int, int], np.ndarray]:
    return functools.cache(self._entry_of)

  def _entry_of(self, subset: int, layer: int) -> np.ndarray:
    """Returns the position of each kernel entry in `Spectral.index`, [N, M]."""
    grid, next_grid = self.lattice.grids[layer : layer + 2]
    own = chosen(subset, self.symmetries)
    labels = dense_sharing(own, grid, next_grid).kernel
    index = self._programs.forms[subset][layer].index
    place = np.zeros(index.size, np.int32)
    place[labels.ravel()[index]] = np.arange(index.size)
    return place[labels]

  def _sharings(self, network: int) -> dict[str, Sharing]:
    """Returns the sharing of each equivariant layer, by name."""
    return {
      name: layer.sharing()
      for name, layer in self.model(network).sublayers().items()
      if isinstance(layer, EquivariantDense)
    }

  @override
  def unpad(self, network: int, params: Any) -> Any:
    sharings = self._sharings(network)
    return {
      name: {
        'kernel': layer['kernel'][: sharings[name].num_weights],
        'bias': layer['bias'][: sharings[name].num_biases],
      }
      if name in sharings
      else dict(layer)
      for name, layer in params.items()
    }

  @override
  def spec(self) -> dict[str, Any]:
    names = ('hidden_shapes', 'features', 'head')
    own = {name: getattr(self.template, name) for name in names}
    if len(self.grid) != 2:
      own['grid_axes'] = len(self.grid)
    return super().spec() | own


def _single_precision(table: np.ndarray) -> np.ndarray:
  return table.astype(np.float32) if table.dtype == np.float64 else table


def mlp_space(
  image_shape: Sequence[int],
  num_classes: int,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  hidden_shapes: Sequence[Sequence[int]] | None = None,
  features: int | None = None,
  head: str = 'dense',
  grid_axes: int = 2,
) -> MLPSpace:
  """Returns the space of MLPs on images, sequences, volumes or tables.

  Args:
    image_shape: The shape of one example: the grid, then any channels, such as
      (H, W) or (H, W, C).
    num_classes: The number of outputs.
    symmetries: The table; by default those of `symmetries.CANDIDATES` that can
      act on the grids, for images the paper's twelve.
    hidden_shapes: The grids of the hidden layers; by default two of the sides
      that `hidden_side` returns, (20, 20) for images of 28×28. If a symmetry
      cannot act there, the points of the input, or some of their orbits if
      there are many.
    features: Channels at each hidden point. By default no channel axis for
      inputs without channels, one channel for others, and more on small grids.
    head: 'dense' or 'invariant'.
    grid_axes: How many of the first axes of an example are its grid.
  """
  image_shape = tuple(image_shape)
  grid = image_shape[:grid_axes]
  by_default = hidden_shapes is None
  if hidden_shapes is None:
    # 24 × 24 points, or about as many on other grids.
    cap = int(_MAX_HIDDEN ** (1 / len(grid)) + 1e-9)
    hidden_shapes = (tuple(hidden_side(side, cap) for side in grid),) * 2
  if symmetries is None:
    symmetries = space_lib.applicable((grid, *hidden_shapes))
  symmetries = symmetries_lib.as_symmetries(symmetries)
  hidden_shapes = tuple(map(tuple, hidden_shapes))
  if not all(space_lib.acts(s, hidden_shapes[:1]) for s in symmetries):
    on_both, hidden = _own_points(symmetries, grid)
    if by_default:
      hidden_shapes = (hidden,) * 2
    if set(hidden_shapes) == {hidden}:  # also when a result is loaded
      symmetries = on_both
  if features is None:
    points = min(map(math.prod, hidden_shapes))
    features = None if len(image_shape) == len(grid) else 1
    if points < _FEW_POINTS:
      features = min(32, -(-_FULL_WIDTH // points))
  template = mlp_lib.EquivariantMLP(
    symmetries,
    num_classes=num_classes,
    in_shape=grid,
    hidden_shapes=hidden_shapes,
    features=features,
    head=head,
  )
  networks = lattice(symmetries, (grid, *hidden_shapes))
  return MLPSpace(
    bits=tuple(s.name for s in symmetries),
    network_of=networks.network_of,
    image_shape=image_shape,
    template=template,
    lattice=networks,
  )


def hidden_side(side: int, cap: int | None = None) -> int:
  """Returns the side of a hidden grid.

  Up to 16 it is the image's side, so that every symmetry acts on hidden points
  as it does on pixels. (Translation by four has order 4 on 16 points and order
  3 on 12: a layer between such grids is invariant to it.) Beyond, it is 5/7 of
  the image's side, as in the paper, rounded so that odd sides stay odd, even
  sides even, and multiples of four multiples of four.

  Large grids need a cap, because the number of weights is the number of inputs
  times that of hidden points. Beyond the cap, it is the largest number up to
  the cap that is rounded likewise, if possible a divisor of the side, so that
  the order of a translation divides its order on the image; divisors below half
  the cap are not considered.

  >>> [hidden_side(side, 24) for side in (3, 8, 15, 16, 28, 32, 60, 80, 128)]
  [3, 8, 15, 16, 20, 24, 20, 20, 16]
  """
  cap = cap or side
  if side <= min(_SMALL_SIDE, cap):
    return side
  step = 4 if side % 4 == 0 else 2
  hidden = side - step * round(side * 2 / 7 / step)
  if hidden <= cap:
    return hidden
  start = side % 2 if step == 2 else 0
  allowed = [n for n in range(start, cap + 1, step) if n > 0] or [cap]
  dividing = [n for n in allowed if side % n == 0 and 2 * n >= cap]
  return max(dividing or allowed)


def _own_points(
  symmetries: Sequence[symmetries_lib.Symmetry], grid: tuple[int, ...]
) -> tuple[tuple[symmetries_lib.Symmetry, ...], tuple[int, ...]]:
  """Returns a hidden grid of the input's points, and symmetries that act on it.

  If there are many points, it consists of random whole orbits, up to
  `_MAX_HIDDEN` points; the symmetries returned act on both grids.
  """
  found = [permutation(s, grid) for s in symmetries]  # raises if one cannot act
  labels = orbits(found, math.prod(grid))
  if labels.size <= _MAX_HIDDEN:
    return tuple(symmetries), grid
  sizes = np.bincount(labels)
  order = np.random.default_rng(0).permutation(sizes.size)
  kept = order[np.cumsum(sizes[order]) <= _MAX_HIDDEN]
  if not kept.size:  # one orbit is larger
    return tuple(symmetries), grid
  points = np.flatnonzero(np.isin(labels, kept))
  place = np.cumsum(np.isin(labels, kept)) - 1
  return tuple(
    symmetries_lib.named(s.name, (p, place[p[points]].astype(np.int32)))
    for s, p in zip(symmetries, found, strict=True)
  ), (points.size,)
