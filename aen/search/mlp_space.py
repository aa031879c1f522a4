"""MLPs, by their symmetries.

Legend: K bits, 2^K states, R networks.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import hashlib
import math
from typing import Any

import jax
import numpy as np
from typing_extensions import override

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import Lattice
from aen.groups.lattice import lattice
from aen.nn import convert
from aen.nn import dense as dense_lib
from aen.nn import mlp as mlp_lib
from aen.search import space as space_lib

# Large kernels are padded to the full size divided by one of these, so that all
# networks of a table are few programs; small ones to the full size, because
# compiling another program takes longer than it saves.
_PADDING = (1, 4, 32)
_LARGE = 2**18
_SMALL_SIDE = 16  # hidden grids of smaller images are as large as they are
_FEW_POINTS = 100  # hidden grids with fewer get channels,
_FULL_WIDTH = 400  # up to the paper's number of hidden units


@dataclasses.dataclass(frozen=True, eq=False)
class MLPSpace(space_lib.Space):
  """All `EquivariantMLP`s that a table of symmetries can make.

  Attributes:
    lattice: The networks.
    template: The network with all symmetries of the table.
    image_shape: (H, W) or (H, W, C).
  """

  lattice: Lattice
  template: mlp_lib.EquivariantMLP
  image_shape: tuple[int, ...]
  helper = 'symmetry'

  @property
  @override
  def symmetries(self) -> tuple[symmetries_lib.Symmetry, ...]:
    return self.lattice.symmetries

  @property
  @override
  def bits(self) -> tuple[str, ...]:
    return tuple(s.name for s in self.lattice.symmetries)

  @property
  @override
  def network_of(self) -> np.ndarray:
    return self.lattice.network_of

  @property
  @override
  def shortest_states(self) -> np.ndarray:
    return self.lattice.shortest_states

  @override
  def names(self, network: int) -> tuple[str, ...]:
    return self.lattice.names(int(self.shortest_states[network]))

  @override
  def implied(self, network: int) -> tuple[str, ...]:
    closure = self.lattice.names(int(self.lattice.implied_states[network]))
    return tuple(n for n in closure if n not in self.names(network))

  @override
  def model(self, network: int) -> mlp_lib.EquivariantMLP:
    state = int(self.shortest_states[network])
    chosen = tuple(
      s for k, s in enumerate(self.lattice.symmetries) if state >> k & 1
    )
    return self.template.clone(symmetries=chosen)

  @override
  def num_weights(self, network: int) -> int:
    channels = math.prod(self.image_shape[2:])
    return self.model(network).num_weights(channels)

  @override
  def key(self, network: int) -> str:
    model = self.model(network)
    digest = hashlib.sha256(
      repr((model.num_classes, model.head, model.features)).encode()
    )
    for layer in model.sublayers().values():
      if isinstance(layer, dense_lib.EquivariantDense):
        digest.update(layer.sharing().key.encode())
    return digest.hexdigest()

  @override
  def program(self, network: int) -> mlp_lib.EquivariantMLP:
    needed = self.lattice.num_weights[network]
    full = self.lattice.num_weights[0]
    parts = _PADDING if full.sum() >= _LARGE else (1,)
    share = max(part for part in parts if (needed * part <= full).all())
    sizes = [-(-int(size) // share) for size in full]
    if self.template.head == 'invariant':
      points = math.prod(self.template.hidden_shapes[-1])
      sizes.append(points * self.template.num_classes)
    return self.template.clone(max_weights=tuple(sizes))

  @override
  def inputs(self, network: int) -> Mapping[str, Any]:
    return convert.sharing_variables(self.model(network))

  @override
  def unpad(self, network: int, params: Any) -> Any:
    shared = {
      name: layer.sharing()
      for name, layer in self.model(network).sublayers().items()
      if isinstance(layer, dense_lib.EquivariantDense)
    }

    def cut(name: str, layer: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
      if name not in shared:
        return dict(layer)
      return {
        'kernel': layer['kernel'][: shared[name].num_weights],
        'bias': layer['bias'][: shared[name].num_biases],
      }

    return {name: cut(name, layer) for name, layer in params.items()}

  @override
  def spec(self) -> dict[str, Any]:
    template = self.template
    return {
      'image_shape': self.image_shape,
      'num_classes': template.num_classes,
      'symmetries': self.bits,
      'actions': self.actions(),
      'hidden_shapes': template.hidden_shapes,
      'features': template.features,
      'head': template.head,
    }


def mlp_space(
  image_shape: Sequence[int],
  num_classes: int,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  hidden_shapes: Sequence[Sequence[int]] | None = None,
  features: int | None = None,
  head: str = 'dense',
) -> MLPSpace:
  """Returns the space of MLPs on images of a given shape.

  Args:
    image_shape: (H, W), or (H, W, C) for colour.
    num_classes: The number of logits.
    symmetries: The table; by default those of `SYMMETRIES` that can act on the
      grids.
    hidden_shapes: The grids of the hidden layers; by default two that have the
      images' symmetries, (20, 20) for images of 28×28.
    features: Channels at each hidden point. By default none for grey images,
      one for colour images, and enough for a fair size on small grids.
    head: 'dense' or 'invariant'.
  """
  grid = tuple(image_shape[:2])
  if hidden_shapes is None:
    hidden_shapes = (tuple(hidden_side(side) for side in grid),) * 2
  grids = (grid, *hidden_shapes)
  if symmetries is None:
    symmetries = space_lib.default_table(grids)
  if features is None:
    features = _default_features(image_shape, hidden_shapes)
  table = symmetries_lib.as_symmetries(symmetries)
  template = mlp_lib.EquivariantMLP(
    table,
    num_classes=num_classes,
    in_shape=grid,
    hidden_shapes=hidden_shapes,
    features=features,
    head=head,
  )
  return MLPSpace(lattice(table, grids), template, tuple(image_shape))


def hidden_side(side: int) -> int:
  """Returns the side of a hidden grid.

  Small images keep theirs: then every symmetry acts on hidden points as it does
  on pixels. (Steps of four round 16 points come back after 4, round 12 points
  after 3: between such grids a network equivariant to both must forget where
  along the line anything is.) Larger ones get 5/7 of it, as in the paper, odd
  sides staying odd, even ones even, and multiples of four such.

  >>> [hidden_side(side) for side in (3, 8, 15, 16, 28, 32)]
  [3, 8, 15, 16, 20, 24]
  """
  if side <= _SMALL_SIDE:
    return side
  step = 4 if side % 4 == 0 else 2
  return side - step * round(side * 2 / 7 / step)


def _default_features(
  image_shape: Sequence[int], hidden_shapes: Sequence[Sequence[int]]
) -> int | None:
  points = min(math.prod(shape) for shape in hidden_shapes)
  if points < _FEW_POINTS:
    return min(32, -(-_FULL_WIDTH // points))
  return None if len(image_shape) == 2 else 1
