"""Group CNNs, by their symmetries, augmentations and size.

Legend: S symmetries, K = S + 7 bits, 2^K states, R networks.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import chosen
from aen.nn import convert
from aen.nn.group_cnn import GroupCNN
from aen.search import space as space_lib
from aen.train.augment import augmentation_mask
from aen.train.augment import AUGMENTATIONS
from aen.train.child import ChildInputs

POINT_SYMMETRIES = ('rotation', 'horizontal_flip', 'vertical_flip')
SMALL, LARGE = 'small', 'large'
WIDTHS = {SMALL: 1.0, LARGE: 1.5}
_OTHER_BITS = (*AUGMENTATIONS, LARGE)
# Part of every key in the store: increment it when CNNs, but not MLPs, train
# differently with the same recipe.
_VERSION = 2
# From this side on, convolutions without padding leave 3×3 features or more.
_UNPADDED_SIDE = 24


@dataclasses.dataclass(frozen=True, eq=False)
class GCNNSpace(space_lib.Space):
  """All `GroupCNN`s of a table, with any augmentations, small and large.

  States with the same augmentations and size are the same network if their
  symmetries generate the same group. The template is a small network.
  """

  helper = 'symmetry or augmentation'

  template: GroupCNN

  @override
  def names(self, network: int) -> tuple[str, ...]:
    names = super().names(network)
    return names if LARGE in names else (*names, SMALL)

  @override
  def model(self, network: int) -> GroupCNN:
    return self.template.clone(
      symmetries=self.symmetries_of(network),
      width=WIDTHS[self.names(network)[-1]],
    )

  @override
  def num_weights(self, network: int) -> int:
    return self.model(network).num_weights()

  @override
  def key(self, network: int) -> str:
    model = self.model(network)
    names = ('in_shape', 'num_classes', 'width', 'head', 'padding')
    described = {name: getattr(model, name) for name in names}
    if model.as_published:
      described['as_published'] = model.copies()
    described['version'] = _VERSION
    described |= {
      'dropout_rate': model.dropout_rate,
      'group': model.group().elements.tolist(),
      'augmentations': self._augmentations(network),
    }
    return hashlib.sha256(repr(described).encode()).hexdigest()

  @override
  def program(self, network: int) -> GroupCNN:
    """Returns one module for all groups of an order, as their shapes agree."""
    model, all_models = self.model(network), _models(self.template)
    first = next(m for m in all_models if m.copies() == model.copies())
    return first.clone(width=model.width)

  @override
  def inputs(self, network: int) -> ChildInputs:
    return ChildInputs(
      convert.sharing_variables(self.model(network)),
      augmentation_mask(self._augmentations(network)),
    )

  def _augmentations(self, network: int) -> list[str]:
    return [name for name in self.names(network) if name in AUGMENTATIONS]

  @override
  def spec(self) -> dict[str, Any]:
    names = ('head', 'padding', 'as_published')
    own = {name: getattr(self.template, name) for name in names}
    return {'kind': 'gcnn'} | super().spec() | own

  @override
  def baseline(self, network: int) -> int:
    """Returns the CNN without symmetry of the same size."""
    return self.network({LARGE} & set(self.names(network)))


def gcnn_space(
  image_shape: Sequence[int],
  num_classes: int,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  head: str = 'dense',
  padding: str | None = None,
  as_published: bool = False,
) -> GCNNSpace:
  """Returns the space of group CNNs on images of a given shape.

  Args:
    image_shape: (H, W), or (H, W, C) for colour.
    num_classes: The number of logits.
    symmetries: Rotations and reflections; by default rotation by 90° and both
      flips, if they can act on the images.
    head: 'dense' (the paper's) or 'invariant'.
    padding: 'VALID' (the paper's) or 'SAME'; by default 'SAME' for images with
      a side below 24, which 'VALID' would reduce to almost nothing.
    as_published: As in `GroupCNN`; rotation with both flips is then a network
      of its own, beside rotation with one of them.
  """
  image_shape = tuple(image_shape)
  if symmetries is None:
    symmetries = space_lib.applicable([image_shape[:2]], POINT_SYMMETRIES)
  if padding is None:
    small = min(image_shape[:2]) < _UNPADDED_SIDE
    padding = 'SAME' if small else 'VALID'
  template = GroupCNN(
    symmetries,
    num_classes=num_classes,
    head=head,
    in_shape=image_shape,
    padding=padding,
    as_published=as_published,
  )
  # Raises if images of this shape are too small for the network.
  images = jnp.zeros((1, *image_shape))
  jax.eval_shape(template.init, jax.random.key(0), images)
  groups = [(model.group(), model.copies()) for model in _models(template)]
  numbers = {group: n for n, group in enumerate(dict.fromkeys(groups))}
  network_of = [
    numbers[group] + len(numbers) * other
    for other in range(2 ** len(_OTHER_BITS))
    for group in groups
  ]
  return GCNNSpace(
    bits=(*(s.name for s in template.symmetries), *_OTHER_BITS),
    network_of=np.array(network_of, np.int32),
    image_shape=image_shape,
    template=template,
    lattice=None,
  )


def _models(template: GroupCNN) -> Iterator[GroupCNN]:
  """Yields the small network of every set of symmetries, in order of states."""
  for state in range(2 ** len(template.symmetries)):
    yield template.clone(symmetries=chosen(state, template.symmetries))
