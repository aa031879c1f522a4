"""MLPs, by their symmetries.

Legend: K bits, 2^K states, R networks.
"""

from collections.abc import Sequence
import dataclasses
import hashlib
import math
from typing import Any

from typing_extensions import override

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import Lattice
from aen.groups.lattice import lattice
from aen.groups.sharing import Sharing
from aen.nn import convert
from aen.nn import dense as dense_lib
from aen.nn import mlp as mlp_lib
from aen.search import space as space_lib
from aen.train.child import ChildInputs

# Kernels are padded to the full size divided by one of these, so that all
# networks of a table need few programs; small kernels to the full size, because
# compiling another program takes longer than it saves.
_PADDING = (1, 4, 32)
_LARGE = 2**18
_SMALL_SIDE = 16  # up to which hidden grids are as large as the images
_FEW_POINTS = 100  # smaller hidden grids get channels,
_FULL_WIDTH = 400  # up to the paper's number of hidden units


@dataclasses.dataclass(frozen=True, eq=False)
class MLPSpace(space_lib.Space):
  """All `EquivariantMLP`s that a table of symmetries can make.

  Attributes:
    template: The network with all symmetries of the table.
  """

  helper = 'symmetry'

  lattice: Lattice
  template: mlp_lib.EquivariantMLP

  @override
  def model(self, network: int) -> mlp_lib.EquivariantMLP:
    names = self.names(network)
    chosen = tuple(s for s in self.symmetries if s.name in names)
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
    for sharing in _sharings(model).values():
      digest.update(sharing.key.encode())
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
  def inputs(self, network: int) -> ChildInputs:
    return ChildInputs(convert.sharing_variables(self.model(network)))

  @override
  def unpad(self, network: int, params: Any) -> Any:
    sharings = _sharings(self.model(network))
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


def _sharings(model: mlp_lib.EquivariantMLP) -> dict[str, Sharing]:
  """Returns the sharing of each equivariant layer, by name."""
  return {
    name: layer.sharing()
    for name, layer in model.sublayers().items()
    if isinstance(layer, dense_lib.EquivariantDense)
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
    symmetries: The table; by default those of the paper's twelve that can act
      on the grids.
    hidden_shapes: The grids of the hidden layers; by default two that have the
      images' symmetries, (20, 20) for images of 28×28.
    features: Channels at each hidden point. By default no channel axis for grey
      images, one channel for colour images, and more on small grids.
    head: 'dense' or 'invariant'.
  """
  grid = tuple(image_shape[:2])
  if hidden_shapes is None:
    hidden_shapes = (tuple(hidden_side(side) for side in grid),) * 2
  grids = (grid, *hidden_shapes)
  if symmetries is None:
    symmetries = space_lib.applicable(grids)
  if features is None:
    features = _default_features(image_shape, hidden_shapes)
  symmetries = symmetries_lib.as_symmetries(symmetries)
  template = mlp_lib.EquivariantMLP(
    symmetries,
    num_classes=num_classes,
    in_shape=grid,
    hidden_shapes=hidden_shapes,
    features=features,
    head=head,
  )
  networks = lattice(symmetries, grids)
  return MLPSpace(
    table=space_lib.Table(
      tuple(s.name for s in symmetries), networks.network_of
    ),
    symmetries=symmetries,
    image_shape=tuple(image_shape),
    lattice=networks,
    template=template,
  )


def hidden_side(side: int) -> int:
  """Returns the side of a hidden grid.

  Up to 16 it is the image's side, so that every symmetry acts on hidden points
  as it does on pixels. (Translation by four has order 4 on 16 points and order
  3 on 12: a layer between such grids is invariant to it.) Beyond, it is 5/7 of
  the image's side, as in the paper, rounded so that odd sides stay odd, even
  sides even, and multiples of four multiples of four.

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
