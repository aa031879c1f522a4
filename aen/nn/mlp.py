"""Networks made of equivariant layers."""

from collections.abc import Callable
from collections.abc import Sequence
import math
from typing import Any

from flax import linen as nn
from flax.linen import initializers
from flax.typing import Dtype
from flax.typing import Initializer
import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import permutation
from aen.groups.sharing import dense_sharing
from aen.nn import dense as dense_lib

HEADS = ('dense', 'invariant')
_MATCH_TOLERANCE = 0.01


class EquivariantMLP(nn.Module):
  """The paper's child network: 784 → 400 → 400 → 10, hidden layers shared.

  The hidden units lie on grids, on which the symmetries act as they do on the
  images: the features are exactly equivariant. The head is a plain dense layer
  ('dense', as in the paper: the answers are not invariant), or one that gives
  equal weight to points of one orbit ('invariant': the answers do not change
  when the image is moved).

  Maps x [..., *in_shape] to logits [..., num_classes]; with `features`, maps
  x [B, *in_shape] or [B, *in_shape, C] to logits [B, num_classes]. Colour
  images without `features`: let the channels be an axis of `in_shape`.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    num_classes: The number of logits.
    in_shape: The grid of the inputs.
    hidden_shapes: The grid of each hidden layer.
    features: Channels at each hidden point: one number, one per hidden layer,
      or None for no channels.
    width_matched: Chooses features so that the network has as many weights as
      it would without symmetries: is it the symmetry that helps, or having
      fewer weights? Of the paper's 216 networks 199 match to 1 %, and the worst
      (one quarter scramble alone) to 6.4 %; `num_weights()` tells.
    head: 'dense' or 'invariant'.
    activation: What follows each hidden layer.
    dtype: The dtype of the computation (default: inferred).
    param_dtype: The dtype of the parameters.
    kernel_init: As in `EquivariantDense`.
    bias_init: As in `EquivariantDense`.
    max_weights: Pads the kernels of the equivariant layers, one number each.

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
  dtype: Dtype | None = None
  param_dtype: Dtype = jnp.float32
  kernel_init: Initializer = initializers.lecun_normal()
  bias_init: Initializer = initializers.zeros_init()
  max_weights: Sequence[int] | None = None

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.in_shape = as_shape(self.in_shape)
    if not isinstance(self.hidden_shapes, Sequence) or any(
      not isinstance(grid, Sequence) for grid in self.hidden_shapes
    ):
      raise ValueError(
        'hidden_shapes must be one grid per hidden layer, such as'
        f' ((20, 20), (20, 20)) or ((400,),), got {self.hidden_shapes!r}'
      )
    self.hidden_shapes = tuple(as_shape(grid) for grid in self.hidden_shapes)
    for symmetry in self.symmetries:  # raises where one cannot act
      for grid in (self.in_shape, *self.hidden_shapes):
        permutation(symmetry, grid)
    depth = len(self.hidden_shapes)
    if not depth:
      raise ValueError('an EquivariantMLP needs at least one hidden layer')
    if self.head not in HEADS:
      raise ValueError(f'head must be one of {HEADS}, got {self.head!r}')
    self.num_classes = io_lib.positive(self.num_classes, 'num_classes')
    if self.width_matched and self.features is not None:
      raise ValueError(
        'width_matched chooses the features itself; give one of the two'
      )
    if self.features is not None:
      self.features = _one_each(self.features, depth, 'features')
    if self.max_weights is not None:
      padded = depth + (self.head == 'invariant')
      self.max_weights = _one_each(self.max_weights, padded, 'max_weights')
    super().__post_init__()

  @nn.nowrap  # so that these also work on a module that is not bound
  def widths(self) -> tuple[int, ...] | None:
    """Returns the channels of each hidden layer; None for no channels."""
    features: Any = self.features  # a tuple or None by now
    return _matched_features(self) if self.width_matched else features

  @nn.nowrap
  def sublayers(self) -> dict[str, nn.Module]:
    """Returns the layers by name, in order."""
    grids = (self.in_shape, *self.hidden_shapes)
    features = self.widths() or (None,) * len(self.hidden_shapes)
    padding = iter(self.max_weights or ())
    common: dict[str, Any] = dict(
      dtype=self.dtype,
      param_dtype=self.param_dtype,
      kernel_init=self.kernel_init,
      bias_init=self.bias_init,
    )
    found: dict[str, nn.Module] = {
      f'hidden_{i}': dense_lib.EquivariantDense(
        self.symmetries,
        in_shape=grids[i],
        out_shape=grids[i + 1],
        features=features[i],
        max_weights=next(padding, None),
        name=f'hidden_{i}',
        **common,
      )
      for i in range(len(self.hidden_shapes))
    }
    if self.head == 'dense':
      found['head'] = nn.Dense(self.num_classes, name='head', **common)
    else:
      found['head'] = dense_lib.EquivariantDense(
        self.symmetries,
        in_shape=grids[-1],
        out_shape=(self.num_classes,),
        features=features[-1] and 1,
        invariant=True,
        max_weights=next(padding, None),
        name='head',
        **common,
      )
    return found

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [..., *in_shape] or [..., *in_shape, C] to logits."""
    x = jnp.asarray(x)
    *hidden, head = self.sublayers().values()
    has_channels = hidden[0].features is not None
    if has_channels and x.ndim <= len(self.in_shape) + 1:
      x = x[..., None]
    for layer in hidden:
      x = self.activation(layer(x))
    if self.head == 'dense':
      num_axes = len(self.hidden_shapes[-1]) + has_channels
      return head(x.reshape(*x.shape[:-num_axes], -1))
    logits = head(x)
    return logits[..., 0] if has_channels else logits

  @nn.nowrap
  def num_weights(self, channels: int = 1) -> int:
    """Counts the free kernel weights, the head's among them.

    Args:
      channels: The number of channels of the inputs, if the layers have any.

    Returns:
      The number that the paper's tables give, without biases.
    """
    features = self.widths() or (1,) * len(self.hidden_shapes)
    per_pair = _weights_per_channel_pair(self)
    return _total_weights(per_pair, (channels, *features))


def _one_each(value: Any, count: int, name: str) -> tuple[int, ...]:
  """Returns one whole number per layer; a single number serves them all."""
  numbers = (value,) * count if np.ndim(value) == 0 else tuple(value)
  if len(numbers) != count:
    raise ValueError(
      f'{name} must be one number, or one per layer ({count}), got {value!r}'
    )
  return tuple(io_lib.positive(number, name) for number in numbers)


def _weights_per_channel_pair(mlp: EquivariantMLP) -> list[int]:
  """Counts each layer's free weights for one channel in and one out."""
  grids = (mlp.in_shape, *mlp.hidden_shapes)
  counts = [
    dense_sharing(mlp.symmetries, *pair).num_weights
    for pair in zip(grids[:-1], grids[1:], strict=True)
  ]
  head = (mlp.num_classes,)
  shared = mlp.symmetries if mlp.head == 'invariant' else ()
  return [
    *counts,
    dense_sharing(shared, grids[-1], head, invariant=True).num_weights,
  ]


def _total_weights(per_pair: Sequence[int], channels: Sequence[int]) -> int:
  pairs = zip(channels, (*channels[1:], 1), strict=True)
  return sum(
    count * c_in * c_out
    for count, (c_in, c_out) in zip(per_pair, pairs, strict=True)
  )


def _matched_features(mlp: EquivariantMLP) -> tuple[int, ...]:
  """Finds widths with which the network has as many weights as a dense one.

  All hidden layers after the first share one width; the first one's follows.
  Among widths that match to one percent the smallest network is taken, else the
  closest.
  """
  grids = (mlp.in_shape, *mlp.hidden_shapes, (mlp.num_classes,))
  sizes = [math.prod(grid) for grid in grids]
  target = sum(a * b for a, b in zip(sizes[:-1], sizes[1:], strict=True))
  per_pair, depth = _weights_per_channel_pair(mlp), len(mlp.hidden_shapes)

  def total(first: int, rest: int) -> int:
    return _total_weights(per_pair, (1, first, *(rest,) * (depth - 1)))

  candidates = []
  for rest in range(1, target + 1 if depth > 1 else 2):
    if total(1, rest) > 1.5 * target:
      break
    slope = total(2, rest) - total(1, rest)
    first = max(1, 1 + (target - total(1, rest)) // slope)
    candidates += [(first, rest), (first + 1, rest)]

  def badness(widths: tuple[int, int]) -> tuple[float, int]:
    error = abs(total(*widths) / target - 1)
    units = widths[0] * sizes[1] + widths[1] * sum(sizes[2:-1])
    return max(error, _MATCH_TOLERANCE), units

  first, rest = min(candidates, key=badness)
  return (first, *(rest,) * (depth - 1))
