"""Weight-shared dense layers: a functional core and a Flax module around it.

A shared kernel is `weights[index]`. The functional core takes weights and index
as arguments, so networks with different symmetries are one program with other
integers; the module captures its own index unless it is given another one in
the variable collection 'sharing'.

A captured index is known before tracing, so the gather's gradient is summed by
gathers too, which is faster than XLA's scatter-add; README.md ("Speed") has the
numbers. Such a custom gradient rules out forward-mode differentiation; with the
index passed in 'sharing' it is plain JAX and everything works.

Legend: N input points, M output points, C input channels, F features, W free
weights.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import functools
import hashlib
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

from aen import io as io_lib
from aen.groups import sharing as sharing_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import permutation

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
  x, weights = jnp.asarray(x), jnp.asarray(weights)
  if (bias is None) != (bias_index is None):
    raise ValueError('bias and bias_index go together: give both, or neither')
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
  y = jnp.einsum(formula, x, shared_kernel(weights, index), precision=precision)
  if bias is None:
    return y
  each = bias[bias_index]  # one axis per axis of y: no rank is promoted
  return y + jnp.expand_dims(each, tuple(range(y.ndim - each.ndim)))


def shared_kernel(weights: jax.Array, index: Array) -> jax.Array:
  """Returns `weights[index]`, with a fast gradient if the index is known.

  Args:
    weights: The free weights, [W, ...].
    index: Which weight each entry of the kernel is.

  Returns:
    The kernel, [*index.shape, ...].
  """
  if not isinstance(index, np.ndarray):
    return weights[index]
  num_used = int(index.max()) + 1
  if num_used > weights.shape[0]:
    raise ValueError(
      f'the index uses {num_used} weights, got {weights.shape[0]}'
    )
  if num_used == index.size and np.array_equal(
    index.ravel(), np.arange(index.size)
  ):  # every entry has a weight of its own
    return weights[:num_used].reshape(*index.shape, *weights.shape[1:])
  return _gather(weights, _Index(index))


class _Index:
  """A known index that may be a static argument: equal by its contents."""

  def __init__(self, labels: np.ndarray) -> None:
    self.labels = labels
    digest = hashlib.sha256(np.ascontiguousarray(labels).tobytes()).digest()
    self._key = (labels.shape, labels.dtype, digest)

  def __eq__(self, other: object) -> bool:
    return isinstance(other, _Index) and self._key == other._key

  def __hash__(self) -> int:
    return hash(self._key)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gather(weights: jax.Array, index: _Index) -> jax.Array:
  """`weights[index]` with a gradient that is summed by gathers."""
  return weights[index.labels]


def _gather_forward(
  weights: jax.Array, index: _Index
) -> tuple[jax.Array, jax.Array]:
  return weights[index.labels], weights  # only the shape of these is needed


def _gather_backward(
  index: _Index, weights: jax.Array, gradient: jax.Array
) -> tuple[jax.Array]:
  sums = gradient.reshape(index.labels.size, *weights.shape[1:])
  zero = jnp.zeros_like(sums[:1])
  for table in _sum_tables(index):
    padded = jnp.concatenate([sums, zero])
    sums = functools.reduce(jnp.add, [padded[row] for row in table])
  unused = weights.shape[0] - sums.shape[0]
  return (jnp.pad(sums, [(0, unused)] + [(0, 0)] * (sums.ndim - 1)),)


_gather.defvjp(_gather_forward, _gather_backward)


@functools.lru_cache(maxsize=16)
def _sum_tables(index: _Index) -> list[np.ndarray]:
  return sharing_lib.sum_tables(index.labels.ravel())


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
    if self.features is not None:
      self.features = io_lib.positive(self.features, 'features')
    if self.max_weights is not None:
      self.max_weights = io_lib.positive(self.max_weights, 'max_weights')
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
    x = jnp.asarray(x)
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
      weights = first_entries(plain, index, num_weights, features)
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
      bias_index if self.use_bias else None,
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
        f' {expected}{", C" * num_channel_axes}], got {shape}; reshape x, or'
        ' change in_shape (or features, which gives every point channels)'
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
      given: Any = self.get_variable('sharing', 'kernel')
      return (
        given,
        self.get_variable('sharing', 'bias'),
        num_weights,
        num_biases,
      )
    return own.kernel, own.bias, num_weights, num_biases

  @nn.nowrap
  def plain_parameters(self, params: Params) -> dict[str, Any]:
    """Returns the parameters of a plain `flax.linen.Dense`; see `to_dense`."""
    own = self.sharing()
    check_parameters(self, params, self.max_weights or own.num_weights)
    weights = jnp.asarray(params['kernel'])
    kernel = shared_kernel(weights, own.kernel)
    if weights.ndim == 1:
      kernel = kernel[..., None, None]
    plain = {'kernel': merge_channels(kernel)}
    if self.use_bias:
      plain['bias'] = jnp.asarray(params['bias'])[own.bias].ravel()
    return plain


def first_entries(
  plain: Array, index: Array, num_weights: int, features: int
) -> jax.Array:
  """Takes each orbit's first entry out of a plain dense kernel.

  Args:
    plain: [..., N * C, M * F].
    index: [..., N, M].
    num_weights: W; those beyond the index' labels come out as zero.
    features: F.

  Returns:
    [W, C, F].
  """
  num_out = index.shape[-1]
  num_in = index.size // num_out
  entries = jnp.reshape(plain, (num_in, -1, num_out, features))
  entries = entries.swapaxes(1, 2).reshape(index.size, -1, features)
  first = first_positions(index, num_weights)
  return jnp.take(entries, first, axis=0, mode='fill', fill_value=0)


def first_positions(index: Array, num_weights: int) -> Array:
  """Returns where each label first occurs; beyond the end if it never does."""
  positions = np.arange(index.size, dtype=np.int32)
  if isinstance(index, np.ndarray):  # else XLA would fold it, in seconds
    first = np.full(num_weights, index.size, np.int32)
    first[index.ravel()[::-1]] = positions[::-1]
    return first
  first = jnp.full(num_weights, index.size, jnp.int32)
  return first.at[index.ravel()].min(positions)


def merge_channels(kernel: jax.Array) -> jax.Array:
  """Returns the kernel of a plain layer: [..., N, M, C, F] to [..., NC, MF]."""
  *sides, num_in, num_out, channels, features = kernel.shape
  kernel = jnp.swapaxes(kernel, -3, -2)
  return kernel.reshape(*sides, num_in * channels, num_out * features)


def check_parameters(layer: Any, params: Params, num_weights: int) -> None:
  """Raises unless parameters can be those of a layer of shared weights."""
  names = {'kernel', 'bias'} if layer.use_bias else {'kernel'}
  features, shapes = layer.features, [np.shape(v) for v in params.values()]
  fit = set(params) == names and all(
    len(shape) == 1 if features is None else shape[-1] == features
    for shape in shapes
  )
  if not fit or params['kernel'].shape[0] != num_weights:
    raise ValueError(
      f'{layer!r} has parameters {sorted(names)} and {num_weights} weights in'
      f' its kernel, got {jax.tree.map(jnp.shape, dict(params))}; these belong'
      ' to another layer'
    )
