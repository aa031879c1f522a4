"""The paper's second child network, a group-equivariant CNN.

Legend: B images, H×W pixels, C channels, |G| group elements.
"""

from collections.abc import Iterator, Mapping, Sequence
import functools
import math
from typing import Any

from flax import linen as nn
import flax.typing
import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups import orbits
from aen.groups import point_group
from aen.groups import sharing as sharing_lib
from aen.groups import symmetries as symmetries_lib
from aen.nn import kernels
from aen.nn import layer as layer_lib
from aen.nn import pooling
from aen.nn.conv import EquivariantConv

_Shape = tuple[int, int, int]  # (H, W, C)
# The six groups that rotation and flips generate, by generators.
GROUPS: Mapping[str, tuple[str, ...]] = {
  'none': (),
  'H2': ('horizontal_flip',),
  'V2': ('vertical_flip',),
  'H2V2': ('horizontal_flip', 'vertical_flip'),
  'P4': ('rotation',),
  'D4': ('rotation', 'horizontal_flip'),
}
_CHANNELS, _DENSE, _LAST_DENSE = 20, 100, 50
_NUM_CONVS, _SIDE = 4, 3
# Channel divisors by number of copies of each feature (one per group element),
# so that networks have as many parameters as the baseline.
_DIVISORS = {1: 1.0, 2: 1.8, 4: 3.0, 8: 6.0, 16: 8.0}
# The published network with all three symmetries; see `GroupCNN.copies`.
_PUBLISHED_COPIES, _PUBLISHED_DENSE = 16, 76
_PUBLISHED_NAMES = {'rotation', 'horizontal_flip', 'vertical_flip'}


class GroupCNN(nn.Module):
  """The paper's child G-CNN: four group convolutions, three dense layers.

  conv 3×3, conv 3×3, max-pool 2, twice; then dense, dropout, dense 50, dense.
  ReLU follows each convolution and, as published, only the first dense layer.
  The first convolution lifts the plane to the group. The number of channels and
  the width of the first dense layer are chosen so that the networks of all
  groups have nearly equal numbers of weights.

  Maps x [B, H, W, C] or [B, H, W] to logits [B, num_classes]. The features
  before the head [B, H', W', |G|, C'], which `apply(…,
  mutable='intermediates')` returns, are exactly equivariant. This requires
  sides that are multiples of four, at least 16 without padding, unless the
  group is trivial; rotations require square images.

  The first layer of the head is dense ('dense', as in the paper: the logits are
  not invariant), or a group convolution over its whole input followed by a
  maximum over the group ('invariant': logits(g x) = logits(x)). Both have the
  same number of weights.

  Attributes:
    symmetries: Rotations and reflections: names, functions of an array,
      `Symmetry` objects, or a mix. Sets that generate the same group give the
      same network.
    num_classes: The number of logits.
    width: Multiplies the channels; 1.5 is the paper's "large" network.
    head: 'dense' or 'invariant'.
    in_shape: (H, W, C) or (H, W) of the images (default: infer from x).
      `num_weights`, `to_dense` and `sharing_variables` need it.
    padding: Padding of the convolutions, 'VALID' or 'SAME'.
    dropout_rate: Rate of the dropout after the first dense layer.
    as_published: Whether to build the network of the paper's code instead: the
      first dense layer has 100 units for every group, and rotation with both
      flips gives the network described under `copies`.
    dtype, param_dtype, kernel_init, bias_init, method: As in `EquivariantConv`.

  >>> GroupCNN(()).num_weights((28, 28, 1))
  48720
  >>> GroupCNN(('rotation', 'horizontal_flip')).num_weights((28, 28, 1))
  48653
  """

  symmetries: symmetries_lib.SymmetryLike
  num_classes: int = 10
  width: float = 1.0
  head: str = 'dense'
  in_shape: Sequence[int] | None = None
  padding: str = 'VALID'
  dropout_rate: float = 0.5
  as_published: bool = False
  dtype: flax.typing.Dtype | None = None
  param_dtype: flax.typing.Dtype = jnp.float32
  kernel_init: flax.typing.Initializer = nn.initializers.lecun_normal()
  bias_init: flax.typing.Initializer = nn.initializers.zeros_init()
  method: str | None = None

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.num_classes = io_lib.positive(self.num_classes, 'num_classes')
    io_lib.choice(self.head, 'head', layer_lib.HEADS)
    io_lib.choice(self.padding, 'padding', ('VALID', 'SAME'))
    io_lib.real(self.dropout_rate, 'dropout_rate', 0, 1)
    io_lib.real(self.width, 'width', -math.inf, 1e6)
    if not self.width > 0 or _channels(self.width, self.copies()) < 1:
      raise ValueError(
        'width must leave every layer at least one channel, got'
        f' {self.width!r}; 1.0 and 1.5 are the sizes of the paper'
      )
    if self.in_shape is not None:
      self.in_shape = self._shape(self.in_shape)
    super().__post_init__()

  @nn.nowrap
  def group(self) -> point_group.Group:
    """Returns the group that the symmetries generate."""
    return point_group.group(self.symmetries)

  @nn.nowrap
  def copies(self) -> int:
    """Returns the number of copies of each feature: one per group element.

    For rotation with both flips, the published code has 4 · 2 · 2 = 16 copies:
    every element of D4 twice. It also drops one spatial index of its G→G
    filters, so that they are constant along one axis: ψ(r, h) = ψ(r₁, h). With
    `as_published=True` this network is computed without repetition: the inputs
    of G→G convolutions are doubled, and those of the first dense layer tiled.
    """
    chosen = {symmetry.name for symmetry in self.symmetries}
    if self.as_published and chosen == _PUBLISHED_NAMES:
      return _PUBLISHED_COPIES
    return self.group().order

  @nn.nowrap
  def widths(self, in_shape: Sequence[int] | None = None) -> tuple[int, int]:
    """Returns the channels of each group element, and the dense width.

    With that dense width, the number of weights is nearest to that of the
    baseline, the network without symmetry.
    """
    in_shape, copies = self._shape(in_shape), self.copies()
    channels = _channels(self.width, copies)
    if copies == _PUBLISHED_COPIES:
      return channels, _PUBLISHED_DENSE
    if copies == 1 or self.as_published:
      return channels, _DENSE
    baseline = self.clone(symmetries=()).num_weights(in_shape)
    one, two = (self._count(in_shape, channels, dense) for dense in (1, 2))
    slope = two - one
    return channels, max(1, round((baseline - one + slope) / slope))

  @nn.nowrap
  def num_weights(self, in_shape: Sequence[int] | None = None) -> int:
    """Counts all free weights of kernels and biases."""
    in_shape = self._shape(in_shape)
    return self._count(in_shape, *self.widths(in_shape))

  @nn.nowrap
  def sublayers(
    self, in_shape: Sequence[int] | None = None
  ) -> dict[str, nn.Module]:
    """Returns the layers by name, in order."""
    in_shape = self._shape(in_shape)
    layers = self._layers(in_shape, *self.widths(in_shape))
    return {layer.name: layer for layer, _ in layers}

  @nn.nowrap
  def _layers(
    self, in_shape: _Shape, channels: int, dense: int, **kwargs: Any
  ) -> Iterator[tuple[Any, int]]:
    """Yields the layers for given widths, each with its number of inputs."""
    kwargs |= layer_lib.options_of(self)
    published = self.copies() == _PUBLISHED_COPIES
    conv: Any = functools.partial(
      _PublishedConv if published else EquivariantConv,
      self.symmetries,
      method=self.method,
      **kwargs,
    )
    num_in = in_shape[-1]
    for i in range(_NUM_CONVS):
      own = {'padding': self.padding, 'lifting': i == 0, 'name': f'conv_{i}'}
      yield conv(channels, (_SIDE, _SIDE), **own), num_in
      num_in = channels
    space = _spaces(in_shape, self.padding)[-1]
    if self.head == 'dense':
      num_in *= self.copies() * math.prod(space)
      yield nn.Dense(dense, name='dense_0', **kwargs), num_in
    else:
      yield conv(dense, space, padding='VALID', name='dense_0'), num_in
    yield nn.Dense(_LAST_DENSE, name='dense_1', **kwargs), dense
    yield nn.Dense(self.num_classes, name='head', **kwargs), _LAST_DENSE

  @nn.nowrap
  def _count(self, in_shape: _Shape, channels: int, dense: int) -> int:
    """Counts weights and biases for given widths."""
    total = 0
    # Without parent, these layers are not registered with a module.
    for layer, num_in in self._layers(in_shape, channels, dense, parent=None):
      weights = num_in * layer.features
      if isinstance(layer, EquivariantConv):
        weights = layer.num_weights(num_in)
      total += weights + layer.features
    return total

  @nn.compact
  def __call__(
    self, x: jax.Array, train: bool | jax.Array = False
  ) -> jax.Array:
    """Maps x [B, H, W, C] or [B, H, W] to logits [B, num_classes].

    With `train`, which may be traced, dropout is on and needs
    `rngs={'dropout': key}`.
    """
    x = kernels.as_array(x, 'x')
    if x.ndim == 3:
      x = x[..., None]
    if x.ndim != 4 or self.in_shape not in (None, x.shape[1:]):
      expected = ', '.join(map(str, self.in_shape or 'HWC'))
      raise ValueError(
        f'GroupCNN needs x of shape [B, {expected}] (or without the last axis,'
        f' for one channel), got {x.shape}'
      )
    in_shape, group = self._shape(x.shape[1:]), self.group()
    _check_sizes(in_shape, self.padding, group)
    *convs, dense, last, head = self.sublayers(in_shape).values()
    repeats = self.copies() // group.order
    for i, conv in enumerate(convs):
      x = conv(x if i == 0 or repeats == 1 else repeats * x)
      if i % 2:  # the same as after the ReLU, which acts on a quarter then
        x = pooling.spatial_pool(x, group, 2)
      x = nn.relu(x)
    self.sow('intermediates', 'features', x)
    if self.head == 'dense':
      x = x.reshape(x.shape[0], -1)
      x = nn.relu(dense(jnp.tile(x, repeats)))
    else:
      x = pooling.group_pool(nn.relu(dense(x))).squeeze((1, 2))
    dropout = nn.Dropout(self.dropout_rate)
    if isinstance(train, jax.Array):
      x = jnp.where(train, dropout(x, deterministic=False), x)
    else:
      x = dropout(x, deterministic=not train)
    return head(last(x))

  @nn.nowrap
  def _shape(self, in_shape: Sequence[int] | None) -> _Shape:
    """Returns (H, W, C) of the images, by default from the attribute."""
    shape = self.in_shape if in_shape is None else in_shape
    if shape is None:
      raise ValueError(
        'this depends on the size of the images; give it:'
        ' GroupCNN(…, in_shape=(28, 28, 1))'
      )
    sides = symmetries_lib.as_shape(shape)
    if len(sides) not in (2, 3):
      raise ValueError(
        f'in_shape must be (height, width, channels) or (height, width), got'
        f' {shape!r}'
      )
    height, width, channels = (*sides, 1)[:3]
    return height, width, channels


class _PublishedConv(EquivariantConv):
  """A convolution whose G→G filters are constant along the last axis."""

  @nn.nowrap
  def sharing(self) -> sharing_lib.Sharing:
    own = super().sharing()
    if self.lifting:
      return own
    # Joins entries of ψ, the kernel of the identity, along the last axis;
    # sharing over the group extends this to every element.
    same = np.arange(own.kernel.size).reshape(own.kernel.shape)
    same[..., 0] = same[:, :1, :, 0]
    labels = orbits.join(own.kernel.ravel(), same.ravel())
    return sharing_lib.Sharing(labels.reshape(same.shape), own.bias)


def _channels(width: float, copies: int) -> int:
  """Returns the channels of each group element, such as 20 · 1.5 / 3 = 10."""
  return math.floor(_CHANNELS * width / _DIVISORS[copies] + 1e-9)


def _spaces(in_shape: _Shape, padding: str) -> list[list[int]]:
  """Returns the spatial sizes before each pooling and after the last one."""
  lost = 2 * (_SIDE - 1) if padding == 'VALID' else 0
  spaces, sides = [], np.array(in_shape[:2])
  for _ in range(_NUM_CONVS // 2):
    spaces.append(sides - lost)
    sides = spaces[-1] // 2
  return np.array([*spaces, sides]).tolist()


def _check_sizes(
  in_shape: _Shape, padding: str, group: point_group.Group
) -> None:
  height, width, _ = in_shape
  *before, last = _spaces(in_shape, padding)
  if min(last) < 1:
    needed, remedy = '16×16', "use padding='SAME', or enlarge them"
    if padding == 'SAME':
      needed, remedy = '4×4', 'enlarge them'
    raise ValueError(
      f'images of {height}×{width} are too small for GroupCNN with padding'
      f' {padding!r}, which needs {needed}; {remedy}'
    )
  exchanges_axes = (group.elements[:, 0, 1] != 0).any()
  if exchanges_axes and height != width:
    raise ValueError(
      f'rotations need square images, got {height}×{width}; pad or crop them to'
      ' a square, or use horizontal_flip and vertical_flip instead (both'
      ' together contain the rotation by 180°)'
    )
  reflected = (group.elements < 0).any((0, 2))  # per axis
  if (reflected & np.mod(before, 2).any(0)).any():
    fitting = '×'.join(str(-(-side // 4) * 4) for side in (height, width))
    raise ValueError(
      f'images of {height}×{width} reach a max-pooling of 2 with an odd size,'
      ' which breaks equivariance: sides must be multiples of 4; pad them to'
      f' {fitting}, or crop them'
    )
