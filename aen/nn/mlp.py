"""The paper's first child network, a multilayer perceptron on grids."""

from collections.abc import Callable, Mapping, Sequence
import itertools
import math
from typing import Any

from flax import linen as nn
import flax.typing
import jax
import jax.numpy as jnp

from aen import io as io_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.sharing import dense_sharing
from aen.nn import kernels
from aen.nn import layer as layer_lib
from aen.nn.dense import EquivariantDense
from aen.nn.layer import HEADS

_MATCH_TOLERANCE = 0.01
_ELEMENTWISE = (nn.relu, nn.gelu, nn.silu, nn.elu, nn.tanh, nn.sigmoid)


class EquivariantMLP(nn.Module):
  """The paper's child network: 784 → 400 → 400 → 10, hidden layers shared.

  The hidden units lie on grids, on which the symmetries act as on the images,
  so that the hidden features are exactly equivariant. The head is a plain dense
  layer ('dense', as in the paper: the logits are not invariant), or one that
  shares weights along orbits of its inputs ('invariant': logits(g x) =
  logits(x) for every symmetry g).

  Maps x [..., *in_shape] to logits [..., num_classes]; with `features`,
  x [B, *in_shape] or [B, *in_shape, C] to logits [B, num_classes]. For colour
  images without `features`, make the channels an axis of `in_shape`.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    num_classes: The number of logits.
    in_shape: The grid of the inputs.
    hidden_shapes: The grid of each hidden layer.
    features: Channels at each hidden point: one number, one per hidden layer,
      or None for no channels.
    width_matched: Whether to choose `features` so that the network has as many
      weights as the baseline, the network without symmetry, to separate the
      effect of symmetry from that of fewer weights. Of the paper's 216 networks
      199 match to 1 %, and the worst (one quarter scramble alone) to 6.4 %; see
      `num_weights()`.
    head: 'dense' or 'invariant'.
    activation: The activation function after each hidden layer.
    dtype, param_dtype, kernel_init, bias_init: As in `EquivariantDense`.
    max_weights: As in `EquivariantDense`, one number per equivariant layer.
    method: 'auto', 'gather' or 'spectral', as in `EquivariantDense`.

  >>> EquivariantMLP(('rotation', 'horizontal_flip')).num_weights()
  63440
  """

  symmetries: symmetries_lib.SymmetryLike
  num_classes: int = 10
  in_shape: Sequence[int] = (28, 28)
  hidden_shapes: Sequence[Sequence[int]] = ((20, 20), (20, 20))
  features: int | Sequence[int] | None = None
  width_matched: bool = False
  head: str = 'dense'
  activation: Callable[[jax.Array], jax.Array] = nn.relu
  dtype: flax.typing.Dtype | None = None
  param_dtype: flax.typing.Dtype = jnp.float32
  kernel_init: flax.typing.Initializer = nn.initializers.lecun_normal()
  bias_init: flax.typing.Initializer = nn.initializers.zeros_init()
  max_weights: Sequence[int] | None = None
  method: str = 'auto'

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.in_shape = symmetries_lib.as_shape(self.in_shape)
    grids = self.hidden_shapes
    several = isinstance(grids, Sequence) and len(grids) > 0
    if not several or not all(isinstance(grid, Sequence) for grid in grids):
      raise ValueError(
        'hidden_shapes must be one grid per hidden layer, for at least one'
        ' hidden layer, such as ((20, 20), (20, 20)) or ((400,),), got'
        f' {grids!r}'
      )
    self.hidden_shapes = tuple(symmetries_lib.as_shape(grid) for grid in grids)
    for symmetry in self.symmetries:  # raises if one cannot act
      for grid in (self.in_shape, *self.hidden_shapes):
        symmetries_lib.permutation(symmetry, grid)
    io_lib.choice(self.head, 'head', HEADS)
    io_lib.choice(self.method, 'method', layer_lib.METHODS)
    self.num_classes = io_lib.positive(self.num_classes, 'num_classes')
    if self.width_matched and self.features is not None:
      raise ValueError(
        'width_matched chooses the features itself; give one of the two'
      )
    depth = len(self.hidden_shapes)
    if self.features is not None:
      self.features = io_lib.one_each(self.features, depth, 'features')
    if self.max_weights is not None:
      padded = depth + (self.head == 'invariant')
      self.max_weights = io_lib.one_each(
        self.max_weights, padded, 'max_weights'
      )
    super().__post_init__()

  @nn.nowrap  # these also work on a module that is not bound
  def widths(self) -> tuple[int, ...] | None:
    """Returns the channels of each hidden layer; None for no channels."""
    features: Any = self.features  # a tuple or None by now
    return _matched_features(self) if self.width_matched else features

  @nn.nowrap
  def sublayers(self) -> dict[str, nn.Module]:
    """Returns the layers by name, in order."""
    grids = (self.in_shape, *self.hidden_shapes, (self.num_classes,))
    names, options = self._names(), layer_lib.options_of(self)
    features: Any = (None,) * len(names)
    if widths := self.widths():
      features = (*widths, 1)
    padding = iter(self.max_weights or ())
    layers: dict[str, nn.Module] = {}
    for i, name in enumerate(names):
      if name == 'head' and self.head == 'dense':
        layers[name] = nn.Dense(self.num_classes, name=name, **options)
        continue
      layers[name] = EquivariantDense(
        self.symmetries,
        grids[i],
        grids[i + 1],
        features[i],
        invariant=name == 'head',
        max_weights=next(padding, None),
        method=self.method,
        name=name,
        **options,
      )
    return layers

  @nn.nowrap
  def _names(self) -> list[str]:
    return [*(f'hidden_{i}' for i in range(len(self.hidden_shapes))), 'head']

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [..., *in_shape] or [..., *in_shape, C] to logits."""
    x = kernels.as_array(x, 'x')
    *hidden, head = self.sublayers().values()
    has_channels = hidden[0].features is not None
    if has_channels and x.ndim <= len(self.in_shape) + 1:
      x = x[..., None]
    for layer in hidden:
      x = layer(x)
      has_batch = x.ndim > len(layer.out_shape) + has_channels
      elementwise = self.activation in _ELEMENTWISE
      if has_batch and elementwise and layer.form_in_use() is not None:
        # Spectral layers have the batch last; this avoids transposed copies.
        x = jnp.moveaxis(self.activation(jnp.moveaxis(x, 0, -1)), -1, 0)
      else:
        x = self.activation(x)
    if self.head == 'dense':
      num_axes = len(self.hidden_shapes[-1]) + has_channels
      return head(x.reshape(*x.shape[:-num_axes], -1))
    logits = head(x)
    return logits[..., 0] if has_channels else logits

  @nn.nowrap
  def baseline(self) -> 'EquivariantMLP':
    """Returns the network of the same widths without symmetries."""
    return self.clone(
      symmetries=(),
      features=self.widths(),
      width_matched=False,
      max_weights=None,
      method='gather',
    )

  @nn.nowrap
  def starting_as(
    self, params: Mapping[str, Any], sharing: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Returns initial parameters, given those of the baseline for the same key.

    As in the initialisation of a layer, every orbit keeps its first entry. The
    layers must be padded to `max_weights`; `sharing` has their indices by name.
    All arrays are NumPy's.
    """
    started = dict(params)
    sizes = self.max_weights or ()
    for name, num_weights in zip(self._names(), sizes, strict=False):
      first = kernels.first_positions(sharing[name]['kernel'], num_weights)
      plain = params[name]['kernel']
      kernel = plain.take(first, axis=0, mode='clip')
      kernel[first == len(plain)] = 0  # weights that the index does not use
      started[name] = {**params[name], 'kernel': kernel}
    return started

  @nn.nowrap
  def num_weights(self, channels: int = 1) -> int:
    """Counts the free kernel weights, without biases, as the paper's tables do.

    `channels` is that of the inputs, if the layers have channels.
    """
    widths = self.widths() or (1,) * len(self.hidden_shapes)
    return total_weights(self._weights_per_channel_pair(), (channels, *widths))

  @nn.nowrap
  def _weights_per_channel_pair(self) -> list[int]:
    """Counts each layer's free weights for one input and one output channel."""
    grids = (self.in_shape, *self.hidden_shapes)
    pairs = itertools.pairwise(grids)
    counts = [
      dense_sharing(self.symmetries, *pair).num_weights for pair in pairs
    ]
    if self.head == 'dense':
      return [*counts, math.prod(grids[-1]) * self.num_classes]
    outputs = (self.num_classes,)
    head = dense_sharing(self.symmetries, grids[-1], outputs, invariant=True)
    return [*counts, head.num_weights]


def total_weights(per_pair: Sequence[int], channels: Sequence[int]) -> int:
  """Counts weights, given each layer's number for one pair of channels.

  The channels are those of the inputs, then of each hidden layer.
  """
  pairs = itertools.pairwise((*channels, 1))
  return sum(n * a * b for n, (a, b) in zip(per_pair, pairs, strict=True))


def _matched_features(mlp: EquivariantMLP) -> tuple[int, ...]:
  """Returns widths with which the network has as many weights as the baseline.

  All hidden layers after the first have the same width, which determines that
  of the first. Of the widths that match to 1 %, takes those with the fewest
  units; if there are none, the closest match.
  """
  grids = (mlp.in_shape, *mlp.hidden_shapes, (mlp.num_classes,))
  sizes = [math.prod(grid) for grid in grids]
  target = sum(a * b for a, b in itertools.pairwise(sizes))
  per_pair, depth = mlp._weights_per_channel_pair(), len(mlp.hidden_shapes)

  def total(first: int, rest: int) -> int:
    return total_weights(per_pair, (1, first, *(rest,) * (depth - 1)))

  candidates = []
  for rest in range(1, target + 1 if depth > 1 else 2):
    if total(1, rest) > 1.5 * target:
      break
    slope = total(2, rest) - total(1, rest)
    first = max(1, 1 + (target - total(1, rest)) // slope)
    candidates += [(first, rest), (first + 1, rest)]

  def mismatch(widths: tuple[int, int]) -> tuple[float, int]:
    error = abs(total(*widths) / target - 1)
    units = widths[0] * sizes[1] + widths[1] * sum(sizes[2:-1])
    return max(error, _MATCH_TOLERANCE), units

  first, rest = min(candidates, key=mismatch)
  return (first, *(rest,) * (depth - 1))
