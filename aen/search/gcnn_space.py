"""Group CNNs, by their symmetries, augmentations and size.

Legend: S symmetries, K = S + 7 bits, 2^K states, R networks, of L groups.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import Lattice
from aen.groups.lattice import lattice
from aen.nn import convert
from aen.nn.group_cnn import GroupCNN
from aen.search import space as space_lib
from aen.train import child as child_lib
from aen.train.augment import augmentation_mask
from aen.train.augment import AUGMENTATIONS

POINT_SYMMETRIES = ('rotation', 'horizontal_flip', 'vertical_flip')
SMALL, LARGE = 'small', 'large'
WIDTHS = {SMALL: 1.0, LARGE: 1.5}
_OTHER_BITS = (*AUGMENTATIONS, LARGE)
# Some grid that tells all turns and reflections apart.
_GRID = (6, 6)
# From this side on convolutions without padding leave 3×3 features or more.
_UNPADDED_SIDE = 24


@dataclasses.dataclass(frozen=True, eq=False)
class GCNNSpace(space_lib.Space):
  """All `GroupCNN`s of a table, with any augmentations, small and large.

  A network is its group, the augmentations of its training and its size: states
  whose symmetries generate the same group are the same network.

  Attributes:
    groups: What symmetries generate which group.
    template: The small network with all symmetries of the table.
    image_shape: (H, W) or (H, W, C).
  """

  groups: Lattice
  template: GroupCNN
  image_shape: tuple[int, ...]
  helper = 'symmetry or augmentation'
  lattice = None

  @property
  @override
  def symmetries(self) -> tuple[symmetries_lib.Symmetry, ...]:
    return self.groups.symmetries

  @property
  @override
  def bits(self) -> tuple[str, ...]:
    return (*(s.name for s in self.symmetries), *_OTHER_BITS)

  @functools.cached_property
  @override
  def network_of(self) -> np.ndarray:
    others = np.arange(2 ** len(_OTHER_BITS), dtype=np.int32)[:, None]
    return (self.groups.network_of + len(self.groups) * others).ravel()

  @functools.cached_property
  @override
  def shortest_states(self) -> np.ndarray:
    others = np.arange(2 ** len(_OTHER_BITS), dtype=np.int32)[:, None]
    shifted = others << len(self.symmetries)
    return (self.groups.shortest_states + shifted).ravel()

  @override
  def names(self, network: int) -> tuple[str, ...]:
    names = self._on(int(self.shortest_states[network]))
    return names if LARGE in names else (*names, SMALL)

  @override
  def implied(self, network: int) -> tuple[str, ...]:
    closure = self._on(
      int(self.groups.implied_states[network % len(self.groups)])
    )
    return tuple(n for n in closure if n not in self.names(network))

  def _on(self, state: int) -> tuple[str, ...]:
    return tuple(name for k, name in enumerate(self.bits) if state >> k & 1)

  @override
  def model(self, network: int) -> GroupCNN:
    names = self.names(network)
    chosen = tuple(s for s in self.symmetries if s.name in names)
    return self.template.clone(symmetries=chosen, width=WIDTHS[names[-1]])

  @override
  def num_weights(self, network: int) -> int:
    return self.model(network).num_weights()

  @override
  def key(self, network: int) -> str:
    model = self.model(network)
    names = ('in_shape', 'num_classes', 'width', 'head', 'padding')
    described = {name: getattr(model, name) for name in names}
    described |= {
      'dropout_rate': model.dropout_rate,
      'group': model.group().elements.tolist(),
      'augmentations': self._augmentations(network),
    }
    return hashlib.sha256(repr(described).encode()).hexdigest()

  @override
  def program(self, network: int) -> GroupCNN:
    """Returns one for all groups of an order, which have the same shapes."""
    order = self._orders[network % len(self.groups)]
    first = self.model(self._orders.index(order))
    return first.clone(width=self.model(network).width)

  @functools.cached_property
  def _orders(self) -> list[int]:
    groups = range(len(self.groups))
    return [self.model(group).group().order for group in groups]

  @override
  def inputs(self, network: int) -> Mapping[str, Any]:
    mask = augmentation_mask(self._augmentations(network))
    shared = convert.sharing_variables(self.model(network))
    return {**shared, child_lib.AUGMENTATION: mask}

  def _augmentations(self, network: int) -> list[str]:
    return [name for name in self.names(network) if name in AUGMENTATIONS]

  @override
  def unpad(self, network: int, params: Any) -> Any:
    del network
    return params

  @override
  def spec(self) -> dict[str, Any]:
    return {
      'kind': 'gcnn',
      'image_shape': self.image_shape,
      'num_classes': self.template.num_classes,
      'symmetries': [s.name for s in self.symmetries],
      'actions': self.actions(),
      'head': self.template.head,
      'padding': self.template.padding,
    }

  @override
  def baseline(self, network: int) -> int:
    """Returns the plain CNN of the same size."""
    return self.network({LARGE} & set(self.names(network)))


def gcnn_space(
  image_shape: Sequence[int],
  num_classes: int,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  head: str = 'dense',
  padding: str | None = None,
) -> GCNNSpace:
  """Returns the space of group CNNs on images of a given shape.

  Args:
    image_shape: (H, W), or (H, W, C) for colour.
    num_classes: The number of logits.
    symmetries: Turns and reflections; by default the quarter turn and both
      flips, if they can act on the images.
    head: 'dense' (the paper's) or 'invariant'.
    padding: 'VALID' (the paper's) or 'SAME'; by default 'SAME' for images of
      less than 24 points a side, of which 'VALID' leaves next to nothing.
  """
  image_shape = tuple(image_shape)
  if symmetries is None:
    symmetries = space_lib.default_table([image_shape[:2]], POINT_SYMMETRIES)
  if padding is None:
    small = min(image_shape[:2]) < _UNPADDED_SIDE
    padding = 'SAME' if small else 'VALID'
  template = GroupCNN(
    symmetries,
    num_classes=num_classes,
    head=head,
    in_shape=image_shape,
    padding=padding,
  )
  _check_acts(template, image_shape)
  groups = lattice(template.symmetries, (_GRID, _GRID))
  return GCNNSpace(groups, template, image_shape)


def _check_acts(model: GroupCNN, image_shape: tuple[int, ...]) -> None:
  """Raises if a network cannot be made for such images."""
  images = jnp.zeros((1, *image_shape))
  jax.eval_shape(model.init, jax.random.key(0), images)
