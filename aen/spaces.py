"""Search spaces: what a state of the search is, as a network to train.

A state is an integer whose bit k stands for the k-th choice. Many states are
the same network; a space numbers the networks and says, for each, which program
trains it and which data make that program this network.

Legend: K bits, 2^K states, R networks.
"""

import abc
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import hashlib
import math
from typing import Any
import warnings

from flax import linen as nn
import jax
import numpy as np
from typing_extensions import override

from aen import children
from aen import layers
from aen import networks
from aen import symmetries as symmetries_lib
from aen.lattice import Lattice
from aen.lattice import lattice
from aen.orbits import permutation

# Large kernels are padded to the full size divided by one of these, so that all
# networks of a table are few programs; small ones to the full size, because
# compiling another program takes longer than it saves.
_PADDING = (1, 4, 32)
_LARGE = 2**18
_SMALL_SIDE = 16  # hidden grids of smaller images are as large as they are
_FEW_POINTS = 100  # hidden grids with fewer get channels,
_FULL_WIDTH = 400  # up to the paper's number of hidden units


class Space(abc.ABC):
  """What a search needs to know about the networks it chooses among."""

  @property
  @abc.abstractmethod
  def bits(self) -> tuple[str, ...]:
    """The names of the K choices."""

  @property
  @abc.abstractmethod
  def index(self) -> np.ndarray:
    """The network of every state, int32 [2^K]."""

  @property
  @abc.abstractmethod
  def representatives(self) -> np.ndarray:
    """Each network's shortest state, int32 [R]."""

  @abc.abstractmethod
  def names(self, network: int) -> tuple[str, ...]:
    """Returns the shortest names of a network."""

  @abc.abstractmethod
  def implied(self, network: int) -> tuple[str, ...]:
    """Returns the names that come with the shortest ones."""

  @abc.abstractmethod
  def key(self, network: int) -> str:
    """Returns a name that equal networks share, whatever their table."""

  @abc.abstractmethod
  def num_weights(self, network: int) -> int:
    """Returns the number of free kernel weights."""

  @abc.abstractmethod
  def program(self, network: int) -> nn.Module:
    """Returns a model; networks with equal ones train in one program."""

  @abc.abstractmethod
  def inputs(self, network: int) -> Mapping[str, Any]:
    """Returns what makes the program this network: `train_child`'s index."""

  @abc.abstractmethod
  def model(self, network: int) -> nn.Module:
    """Returns the network as its users want it."""

  @abc.abstractmethod
  def unpad(self, network: int, params: Any) -> Any:
    """Returns the program's parameters as those of the model."""

  def __len__(self) -> int:
    return len(self.representatives)


@dataclasses.dataclass(frozen=True, eq=False)
class MLPSpace(Space):
  """All `EquivariantMLP`s that a table of symmetries can make.

  Attributes:
    lattice: The networks.
    template: The network with all symmetries of the table.
    image_shape: (H, W) or (H, W, C).
  """

  lattice: Lattice
  template: networks.EquivariantMLP
  image_shape: tuple[int, ...]

  @property
  @override
  def bits(self) -> tuple[str, ...]:
    return tuple(s.name for s in self.lattice.symmetries)

  @property
  @override
  def index(self) -> np.ndarray:
    return self.lattice.index

  @property
  @override
  def representatives(self) -> np.ndarray:
    return self.lattice.representatives

  @override
  def names(self, network: int) -> tuple[str, ...]:
    return self.lattice.names(int(self.representatives[network]))

  @override
  def implied(self, network: int) -> tuple[str, ...]:
    closure = self.lattice.names(int(self.lattice.closures[network]))
    return tuple(n for n in closure if n not in self.names(network))

  @override
  def model(self, network: int) -> networks.EquivariantMLP:
    state = int(self.representatives[network])
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
      if isinstance(layer, layers.EquivariantDense):
        digest.update(layer.sharing().key.encode())
    return digest.hexdigest()

  @override
  def program(self, network: int) -> networks.EquivariantMLP:
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
    return layers.sharing_variables(self.model(network))

  @override
  def unpad(self, network: int, params: Any) -> Any:
    shared = {
      name: layer.sharing()
      for name, layer in self.model(network).sublayers().items()
      if isinstance(layer, layers.EquivariantDense)
    }

    def cut(name: str, layer: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
      if name not in shared:
        return dict(layer)
      return {
        'kernel': layer['kernel'][: shared[name].num_weights],
        'bias': layer['bias'][: shared[name].num_biases],
      }

    return {name: cut(name, layer) for name, layer in params.items()}

  def spec(self) -> dict[str, Any]:
    """Returns what `from_spec` needs to make this space again, for JSON."""
    template = self.template
    return {
      'image_shape': self.image_shape,
      'num_classes': template.num_classes,
      'symmetries': self.bits,
      'hidden_shapes': template.hidden_shapes,
      'features': template.features,
      'head': template.head,
    }


def from_spec(
  spec: Mapping[str, Any], symmetries: symmetries_lib.SymmetryLike = ()
) -> MLPSpace:
  """Makes a space that `spec` described.

  Args:
    spec: The description.
    symmetries: Those in its table that are not in `SYMMETRIES`.
  """
  own = {s.name: s for s in symmetries_lib.as_symmetries(symmetries)}
  known = {**symmetries_lib.SYMMETRIES, **own}
  if unknown := [name for name in spec['symmetries'] if name not in known]:
    raise ValueError(
      f'the symmetries {", ".join(unknown)} are not built in, and files hold'
      ' only their names; pass them in `symmetries`'
    )
  rest = {k: v for k, v in spec.items() if k != 'symmetries'}
  table = tuple(known[name] for name in spec['symmetries'])
  return mlp_space(symmetries=table, **rest)


def mlp_space(
  image_shape: Sequence[int],
  num_classes: int,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  hidden_shapes: Sequence[Sequence[int]] | None = None,
  features: int | None = None,
  head: str = 'dense',
  initializer: str = children.Recipe.initializer,
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
    initializer: A name in `children.INITIALIZERS`.
  """
  grid = tuple(image_shape[:2])
  if hidden_shapes is None:
    hidden_shapes = (tuple(hidden_side(side) for side in grid),) * 2
  grids = (grid, *hidden_shapes)
  if symmetries is None:
    symmetries, dropped = applicable(grids)
    if dropped:
      shape = '×'.join(map(str, grid))
      warnings.warn(
        f'left out, because they cannot act on {shape} images:'
        f' {", ".join(dropped)}',
        stacklevel=2,
      )
  if features is None:
    features = _default_features(image_shape, hidden_shapes)
  table = symmetries_lib.as_symmetries(symmetries)
  template = networks.EquivariantMLP(
    table,
    num_classes=num_classes,
    in_shape=grid,
    hidden_shapes=hidden_shapes,
    features=features,
    head=head,
    kernel_init=children.INITIALIZERS[initializer],
  )
  return MLPSpace(lattice(table, grids), template, tuple(image_shape))


def applicable(
  grids: Sequence[Sequence[int]],
) -> tuple[tuple[symmetries_lib.Symmetry, ...], dict[str, str]]:
  """Returns the built-in symmetries that act on all grids, and why not others.

  >>> kept, dropped = applicable([(28, 20)])
  >>> [name for name in dropped]
  ['rotation']
  """
  kept, dropped = [], {}
  for name, symmetry in symmetries_lib.SYMMETRIES.items():
    try:
      for grid in grids:
        permutation(symmetry, grid)
    except ValueError as error:
      dropped[name] = str(error)
    else:
      kept.append(symmetry)
  return tuple(kept), dropped


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
