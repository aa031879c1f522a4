"""Weight-shared dense layers: a functional core and a Flax module around it.

A shared kernel is `weights[index]`. The functional core takes weights and index
as arguments, so networks with different symmetries are one program with other
integers; the module captures its own index unless it is given another one in
the variable collection 'sharing'.

The gather's gradient is XLA's scatter-add. README.md ("Speed") has what was
measured against it.

Legend: N input points, M output points, C input channels, F features, W free
weights.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import math
from typing import Any

from flax import linen as nn
from flax.linen import initializers
from flax.typing import Dtype
from flax.typing import Initializer
from flax.typing import PrecisionLike
import jax
import jax.numpy as jnp
import numpy as np

from aen import sharing as sharing_lib
from aen import symmetries as symmetries_lib
from aen.orbits import as_shape
from aen.orbits import permutation

Array = jax.Array | np.ndarray
Params = Mapping[str, Any]


def shared_dense(
  x: Array,
  weights: Array,
  index: Array,
  bias: Array | None = None,
  bias_index: Array | None = None,
  precision: PrecisionLike = None,
) -> jax.Array:
  """Applies a dense layer whose kernel is `weights[index]`.

  Args:
    x: Inputs, [..., N], or [..., N, C] if the weights have channels.
    weights: The free weights, [W] or [W, C, F]. More than the index uses do no
      harm: padding makes layers of different symmetry one shape.
    index: Which weight each kernel entry is, int32 [N, M].
    bias: The free biases, [B] or [B, F].
    bias_index: Which bias each output has, int32 [M].
    precision: As in `jax.lax.dot_general`.

  Returns:
    [..., M] or [..., M, F].

  >>> x = jnp.array([1.0, 2.0])
  >>> swap = np.array([[0, 1], [1, 0]])  # equal diagonal, equal off-diagonal
  >>> shared_dense(x, jnp.array([10.0, 1.0]), swap).tolist()
  [12.0, 21.0]
  """
  if weights.ndim not in (1, 3) or index.ndim != 2:
    raise ValueError(
      'shared_dense needs weights [W] or [W, C, F] and an index [N, M], got'
      f' shapes {weights.shape} and {index.shape}'
    )
  points = x.shape[-1:] if weights.ndim == 1 else x.shape[-2:]
  expected = (index.shape[0], *weights.shape[1:2])
  if points != expected:
    raise ValueError(
      f'the last axes of x must be {expected}, one entry per input point'
      f'{"" if weights.ndim == 1 else " and channel"}, got {x.shape}'
    )
  formula = '...n,nm->...m' if weights.ndim == 1 else '...nc,nmcf->...mf'
  y = jnp.einsum(formula, x, _kernel(weights, index), precision=precision)
  return y if bias is None else y + bias[bias_index]


def _kernel(weights: Array, index: Array) -> Array:
  """Returns the kernel, [N, M] or [N, M, C, F]."""
  if isinstance(index, np.ndarray) and int(index.max()) + 1 == index.size:
    # No two entries share a weight, and labels number entries in order.
    return weights[: index.size].reshape(*index.shape, *weights.shape[1:])
  return weights[index]


class EquivariantDense(nn.Module):
  """A dense layer between two grids, equivariant to the given symmetries.

  Without `features` it maps x [..., *in_shape] to y [..., *out_shape]; with
  `features=F` it maps x [..., *in_shape, C] to y [..., *out_shape, F]. The
  parameters are one kernel weight per orbit, 'kernel' [W] or [W, C, F], and one
  bias per orbit of outputs, 'bias'.

  The initialiser fills the kernel of the plain dense layer, of which every
  orbit keeps its first entry: any Flax initialiser sees the true fan-in.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    in_shape: The grid of the inputs.
    out_shape: The grid of the outputs.
    features: The number of channels at each output point; None for no channel
      axis on either side.
    use_bias: Whether to add a bias.
    dtype: The dtype of the computation (default: inferred).
    param_dtype: The dtype of the parameters.
    precision: As in `jax.lax.dot_general`.
    kernel_init: Initialiser of the plain dense kernel, [N * C, M * F].
    bias_init: Initialiser of the bias.
    invariant: The outputs stay the same when the input is moved.
    max_weights: Pads the kernel parameter to so many weights, and the bias to
      M, so that layers of different symmetry have the same shapes.

  >>> layer = EquivariantDense(('rotation',), in_shape=(4, 4), out_shape=(2, 2))
  >>> layer
  EquivariantDense(rotation, 4×4 → 2×2: 16×4 = 64 weights, 16 free)
  """

  symmetries: symmetries_lib.SymmetryLike
  in_shape: Sequence[int]
  out_shape: Sequence[int]
  features: int | None = None
  use_bias: bool = True
  dtype: Dtype | None = None
  param_dtype: Dtype = jnp.float32
  precision: PrecisionLike = None
  kernel_init: Initializer = initializers.lecun_normal()
  bias_init: Initializer = initializers.zeros_init()
  invariant: bool = False
  max_weights: int | None = None

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.in_shape = as_shape(self.in_shape)
    self.out_shape = as_shape(self.out_shape)
    if self.features is not None and self.features < 1:
      raise ValueError(
        f'features must be at least 1, or None for no channels, got'
        f' {self.features}'
      )
    for symmetry in self.symmetries:  # raises where one cannot act
      permutation(symmetry, self.in_shape)
      if not self.invariant:
        permutation(symmetry, self.out_shape)
    super().__post_init__()

  def __repr__(self) -> str:
    names = ' + '.join(s.name for s in self.symmetries) or 'no symmetry'
    grids = ' → '.join(
      '×'.join(map(str, grid)) for grid in (self.in_shape, self.out_shape)
    )
    free = repr(self.sharing()).removeprefix('Sharing(')
    return f'{type(self).__name__}({names}, {grids}: {free}'

  @nn.nowrap
  def sharing(self) -> sharing_lib.Sharing:
    """Returns which weights are shared, as labels of kernel and bias."""
    return sharing_lib.dense_sharing(
      self.symmetries, self.in_shape, self.out_shape, self.invariant
    )

  @nn.compact
  def __call__(self, x: Array) -> jax.Array:
    """Applies the layer to x [..., *in_shape] or [..., *in_shape, C]."""
    batch, channels = self._split_shape(x.shape)
    num_in, num_out = math.prod(self.in_shape), math.prod(self.out_shape)
    index, bias_index, num_weights, num_biases = self._index()

    def init_kernel(key: jax.Array) -> jax.Array:
      features = self.features or 1
      plain = self.kernel_init(
        key,
        (num_in * math.prod(channels), num_out * features),
        self.param_dtype,
      )
      weights = _first_entries(plain, index, num_weights, features)
      return weights if channels else weights[:, 0, 0]

    weights = self.param('kernel', init_kernel)
    bias = None
    if self.use_bias:
      shape = (num_biases, self.features) if channels else (num_biases,)
      bias = self.param('bias', self.bias_init, shape, self.param_dtype)
    x, weights, bias = nn.dtypes.promote_dtype(
      x, weights, bias, dtype=self.dtype
    )
    y = shared_dense(
      x.reshape(*batch, num_in, *channels),
      weights,
      index,
      bias,
      bias_index,
      self.precision,
    )
    return y.reshape(*batch, *self.out_shape, *y.shape[len(batch) + 1 :])

  @nn.nowrap
  def _split_shape(
    self, shape: tuple[int, ...]
  ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Splits an input's shape into batch and channels; checks the grid."""
    num_channel_axes = 0 if self.features is None else 1
    grid_end = len(shape) - num_channel_axes
    grid_start = grid_end - len(self.in_shape)
    if grid_start < 0 or shape[grid_start:grid_end] != self.in_shape:
      expected = ', '.join(map(str, self.in_shape))
      raise ValueError(
        f'EquivariantDense with features={self.features} needs x of shape [...,'
        f' {expected}{", C" * num_channel_axes}], got {shape}; '
        + (
          'set features to give every point channels'
          if self.features is None
          else 'leave features out if points have no channels'
        )
      )
    return shape[:grid_start], shape[grid_end:]

  def _index(self) -> tuple[Array, Array, int, int]:
    """Returns the indices of kernel and bias, and how many weights each has."""
    own = self.sharing()
    num_weights, num_biases = own.num_weights, own.num_biases
    if self.max_weights is not None:
      if self.max_weights < num_weights:
        raise ValueError(
          f'max_weights must be at least the {num_weights} free weights of this'
          f' layer, got {self.max_weights}'
        )
      num_weights, num_biases = self.max_weights, own.bias.size
    if self.has_variable('sharing', 'kernel'):
      given = self.get_variable('sharing', 'kernel')
      return (
        given,
        self.get_variable('sharing', 'bias'),
        num_weights,
        num_biases,
      )
    return own.kernel, own.bias, num_weights, num_biases


def _first_entries(
  plain: Array, index: Array, num_weights: int, features: int
) -> jax.Array:
  """Takes each orbit's first entry out of a plain dense kernel.

  Args:
    plain: [N * C, M * F].
    index: [N, M].
    num_weights: W; those beyond the index' labels come out as zero.
    features: F.

  Returns:
    [W, C, F].
  """
  num_in, num_out = index.shape
  entries = jnp.reshape(plain, (num_in, -1, num_out, features))
  entries = entries.transpose(0, 2, 1, 3).reshape(index.size, -1, features)
  first = _first_positions(index, num_weights)
  return jnp.take(entries, first, axis=0, mode='fill', fill_value=0)


def _first_positions(index: Array, num_weights: int) -> Array:
  """Returns where each label first occurs; beyond the end if it never does."""
  positions = np.arange(index.size, dtype=np.int32)
  if isinstance(index, np.ndarray):  # else XLA would fold it, in seconds
    first = np.full(num_weights, index.size, np.int32)
    first[index.ravel()[::-1]] = positions[::-1]
    return first
  first = jnp.full(num_weights, index.size, jnp.int32)
  return first.at[index.ravel()].min(positions)


def _plain_kernel(weights: Array, index: Array) -> jax.Array:
  """Returns the plain dense kernel [N * C, M * F] of shared weights."""
  num_in, num_out = index.shape
  kernel = _kernel(jnp.asarray(weights), index)
  kernel = kernel.reshape(num_in, num_out, *weights.shape[1:] or (1, 1))
  channels, features = kernel.shape[2:]
  return kernel.transpose(0, 2, 1, 3).reshape(
    num_in * channels, num_out * features
  )


def sharing_variables(module: nn.Module) -> dict[str, Any]:
  """Returns the 'sharing' collection that makes any layer act as this one.

  A module with `max_weights` computes, with this collection passed beside its
  parameters, what `module` would: so one compiled program serves all networks,
  and collections of several stack for `jax.vmap`.
  """
  return {'sharing': _per_layer(module, _layer_sharing)}


def _layer_sharing(layer: nn.Module) -> dict[str, jax.Array]:
  if not isinstance(layer, EquivariantDense):
    return {}
  own = layer.sharing()
  return {'kernel': jnp.asarray(own.kernel), 'bias': jnp.asarray(own.bias)}


def _per_layer(
  module: nn.Module, function: Callable[..., Any], *trees: Params
) -> Any:
  """Applies a function to a layer, or to each named layer of a network."""
  if not hasattr(module, 'sublayers'):
    return function(module, *trees)
  return {
    name: _per_layer(layer, function, *(tree[name] for tree in trees))
    for name, layer in module.sublayers().items()
  }


def to_dense(module: nn.Module, variables: Params) -> dict[str, Any]:
  """Returns parameters of plain `flax.linen.Dense` layers: the same function.

  Args:
    module: An `EquivariantDense` or a network of them.
    variables: Its variables, or its parameters alone.

  Returns:
    For a layer: {'kernel': [N * C, M * F], 'bias': [M * F]}, the parameters of
    `nn.Dense(M * F)` acting on flattened inputs. For a network: a dict of them
    by the layers' names.
  """
  params = variables.get('params', variables)
  return _per_layer(module, _layer_to_dense, params)


def _layer_to_dense(layer: nn.Module, params: Params) -> dict[str, jax.Array]:
  if not isinstance(layer, EquivariantDense):
    return dict(params)
  own = layer.sharing()
  plain = {'kernel': _plain_kernel(params['kernel'], own.kernel)}
  if 'bias' in params:
    plain['bias'] = jnp.asarray(params['bias'])[own.bias].ravel()
  return plain


def expand(
  source: nn.Module, variables: Params, target: nn.Module
) -> dict[str, Any]:
  """Returns parameters with which a less symmetric module is the same function.

  A warm start: train with much symmetry, go on with less.

  Args:
    source: The module the parameters belong to.
    variables: Its variables, or its parameters alone.
    target: A module of the same shapes with fewer symmetries.

  Returns:
    Parameters for the target.

  Raises:
    ValueError: The target cannot be that function: it has a symmetry that the
      source lacks.
  """
  return _per_layer(target, _layer_from_dense, to_dense(source, variables))


def _layer_from_dense(layer: nn.Module, plain: Params) -> dict[str, jax.Array]:
  if not isinstance(layer, EquivariantDense):
    return dict(plain)
  own = layer.sharing()
  features = layer.features or 1
  num_weights = layer.max_weights or own.num_weights
  if plain['kernel'].shape[1] != own.bias.size * features:
    raise ValueError(
      f'expand needs layers of the same shapes, got a kernel of shape'
      f' {plain["kernel"].shape} for {layer!r}'
    )
  weights = _first_entries(plain['kernel'], own.kernel, num_weights, features)
  params = {'kernel': weights if layer.features else weights[:, 0, 0]}
  if 'bias' in plain:
    _, first = np.unique(own.bias, return_index=True)
    if layer.max_weights:
      first = np.pad(first, (0, own.bias.size - first.size))
    bias = plain['bias'].reshape(own.bias.size, features)[first]
    params['bias'] = bias if layer.features else bias[:, 0]
  back = _layer_to_dense(layer, params)
  if any(not np.array_equal(back[name], plain[name]) for name in plain):
    names = ', '.join(s.name for s in layer.symmetries)
    raise ValueError(
      f'a layer equivariant to {names} cannot be the given function, which is'
      ' not; expand from more symmetry to less'
    )
  return params
