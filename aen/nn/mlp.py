"""The paper's first child network: a multilayer perceptron on grids."""

from collections.abc import Callable, Mapping, Sequence
import functools
import itertools
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
from aen.nn import kernels
from aen.nn.dense import EquivariantDense
from aen.nn.layer import HEADS
from aen.nn.layer import METHODS

_MATCH_TOLERANCE = 0.01
_ELEMENTWISE = (nn.relu, nn.gelu, nn.silu, nn.elu, nn.tanh, nn.sigmoid)


class EquivariantMLP(nn.Module):
  """The paper's child network: 784 → 400 → 400 → 10, hidden layers shared.

  The hidden units lie on grids, on which the symmetries act as they do on the
  images: the hidden features are exactly equivariant. The head is a plain dense
  layer ('dense', as in the paper: the logits are not invariant), or one that
  shares weights along orbits of its inputs ('invariant': logits(g x) =
  logits(x) for every symmetry g).

  Maps x [..., *in_shape] to logits [..., num_classes]; with `features`, maps
  x [B, *in_shape] or [B, *in_shape, C] to logits [B, num_classes]. For colour
  images without `features`, make the channels an axis of `in_shape`.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    num_classes: The number of logits.
    in_shape: The grid of the inputs.
    hidden_shapes: The grid of each hidden layer.
    features: Channels at each hidden point: one number, one per hidden layer,
      or None for no channels.
    width_matched: Chooses `features` so that the network has as many weights as
      the baseline without symmetries, to tell the effect of symmetry from that
      of fewer weights. Of the paper's 216 networks 199 match to 1 %, and the
      worst (one quarter scramble alone) to 6.4 %; see `num_weights()`.
    head: 'dense' or 'invariant'.
    activation: The activation function after each hidden layer.
    dtype, param_dtype, kernel_init, bias_init: As in `EquivariantDense`.
    max_weights: Pads the kernels of the equivariant layers, one number each.
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
  dtype: Dtype | None = None
  param_dtype: Dtype = jnp.float32
  kernel_init: Initializer = initializers.lecun_normal()
  bias_init: Initializer = initializers.zeros_init()
  max_weights: Sequence[int] | None = None
  method: str = 'auto'

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
    for symmetry in self.symmetries:  # raises if one cannot act
      for grid in (self.in_shape, *self.hidden_shapes):
        permutation(symmetry, grid)
    depth = len(self.hidden_shapes)
    if not depth:
      raise ValueError('an EquivariantMLP needs at least one hidden layer')
    if self.head not in HEADS:
      raise ValueError(f'head must be one of {HEADS}, got {self.head!r}')
    if self.method not in METHODS:
      raise ValueError(f'method must be one of {METHODS}, got {self.method!r}')
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

  @nn.nowrap  # these also work on a module that is not bound
  def widths(self) -> tuple[int, ...] | None:
    """Returns the channels of each hidden layer; None for no channels."""
    features: Any = self.features  # a tuple or None by now
    return _matched_features(self) if self.width_matched else features

  @nn.nowrap
  def sublayers(self) -> dict[str, nn.Module]:
    """Returns the layers by name, in order."""
    return self._layers(self.widths())

  @nn.nowrap
  def _layers(
    self, widths: Sequence[int] | None, **kwargs: Any
  ) -> dict[str, nn.Module]:
    """Makes the layers for given channels."""
    grids = (self.in_shape, *self.hidden_shapes)
    padding = iter(self.max_weights or ())
    kwargs |= dict(
      dtype=self.dtype,
      param_dtype=self.param_dtype,
      kernel_init=self.kernel_init,
      bias_init=self.bias_init,
    )
    equivariant = functools.partial(
      EquivariantDense, self.symmetries, method=self.method, **kwargs
    )
    layers: dict[str, nn.Module] = {
      f'hidden_{i}': equivariant(
        in_shape=grids[i],
        out_shape=grids[i + 1],
        features=widths[i] if widths else None,
        max_weights=next(padding, None),
        name=f'hidden_{i}',
      )
      for i in range(len(self.hidden_shapes))
    }
    if self.head == 'dense':
      layers['head'] = nn.Dense(self.num_classes, name='head', **kwargs)
    else:
      layers['head'] = equivariant(
        in_shape=grids[-1],
        out_shape=(self.num_classes,),
        features=1 if widths else None,
        invariant=True,
        max_weights=next(padding, None),
        name='head',
      )
    return layers

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
      if (
        layer.form_in_use() is None
        or self.activation not in _ELEMENTWISE
        or x.ndim <= len(layer.out_shape) + has_channels
      ):
        x = self.activation(x)
      else:  # spectral layers have the batch last: saves transposed copies
        x = jnp.moveaxis(self.activation(jnp.moveaxis(x, 0, -1)), -1, 0)
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
    """Returns initial parameters, given those of the baseline.

    As in the initialisation of a layer, every orbit keeps its first entry, so
    the result is what the same key gives for this network.

    Args:
      params: Of the `baseline()`, NumPy arrays.
      sharing: The indices of each layer by name, NumPy arrays, as of
        `aen.sharing_variables`. The layers must be padded to `max_weights`.
    """
    started = dict(params)
    names = [*(f'hidden_{i}' for i in range(len(self.hidden_shapes))), 'head']
    for name, num_weights in zip(names, self.max_weights or (), strict=False):
      first = kernels.first_positions(sharing[name]['kernel'], num_weights)
      plain = params[name]['kernel']
      kernel = np.zeros((num_weights, *plain.shape[1:]), plain.dtype)
      used = first < len(plain)  # weights that the index uses
      kernel[used] = plain[first[used]]
      started[name] = {**params[name], 'kernel': kernel}
    return started

  @nn.nowrap
  def num_weights(self, channels: int = 1) -> int:
    """Counts the free kernel weights of all layers, as the paper's tables do.

    Args:
      channels: The number of channels of the inputs, if the layers have any.

    Returns:
      The number of weights without biases.
    """
    widths = self.widths() or (1,) * len(self.hidden_shapes)
    return total_weights(self._weights_per_channel_pair(), (channels, *widths))

  @nn.nowrap
  def _weights_per_channel_pair(self) -> list[int]:
    """Counts each layer's free weights for one input and one output channel."""
    # No parent: counting must not register these layers with a module.
    *hidden, head = self._layers(None, parent=None).values()
    counts = [layer.num_weights() for layer in hidden]
    if self.head == 'invariant':
      return [*counts, head.num_weights()]
    return [*counts, math.prod(self.hidden_shapes[-1]) * self.num_classes]


def _one_each(value: Any, count: int, name: str) -> tuple[int, ...]:
  """Returns one positive integer per layer; a single one is repeated."""
  numbers = (value,) * count if np.ndim(value) == 0 else tuple(value)
  if len(numbers) != count:
    raise ValueError(
      f'{name} must be one number, or one per layer ({count}), got {value!r}'
    )
  return tuple(io_lib.positive(number, name) for number in numbers)


def total_weights(per_pair: Sequence[int], channels: Sequence[int]) -> int:
  """Returns the number of weights of layers between given channels.

  Args:
    per_pair: Free weights of each layer for one pair of channels.
    channels: Of the inputs, then of each hidden layer.
  """
  pairs = itertools.pairwise((*channels, 1))
  return sum(n * a * b for n, (a, b) in zip(per_pair, pairs, strict=True))


def _matched_features(mlp: EquivariantMLP) -> tuple[int, ...]:
  """Returns widths with which the network has as many weights as the baseline.

  All hidden layers after the first have the same width, from which that of the
  first follows. Of the widths that match to one percent, the network with the
  fewest units is taken; if none match, the closest.
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
