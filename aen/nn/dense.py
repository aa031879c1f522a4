"""Weight-shared dense layers: a functional core and a Flax module around it.

The functional core takes weights and index as arguments, so networks with
different symmetries are one program with other integers; the module holds its
own index unless it is given another one in the collection 'sharing'.

Legend: N input points, M output points, C input channels, F features, W free
weights.
"""

from collections.abc import Sequence
import math

import chex
from flax import linen as nn
from flax.linen import initializers
from flax.typing import Dtype
from flax.typing import Initializer
from flax.typing import PrecisionLike
import jax
import jax.numpy as jnp

from aen import io as io_lib
from aen.groups import sharing as sharing_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import as_shape
from aen.groups.orbits import permutation
from aen.nn import kernels
from aen.nn.kernels import Array
from aen.nn.layer import SharedLayer


def shared_dense(
  x: Array,
  weights: Array,
  index: Array,
  bias: Array | None = None,
  bias_index: Array | None = None,
  precision: PrecisionLike = None,
) -> jax.Array:
  """Applies a dense layer whose kernel is `weights[index]`.

  y[m] = Σ_n x[n] · weights[index[n, m]] + bias[bias_index[m]]

  Args:
    x: Inputs, [..., N], or [..., N, C] if the weights have channels.
    weights: The free weights, [W] or [W, C, F]. There may be more than the
      index uses: padding gives layers of different symmetry the same shapes.
    index: The weight of each kernel entry, int32 [N, M].
    bias: The free biases, [B] or [B, F].
    bias_index: The bias of each output, int32 [M].
    precision: As in `jax.lax.dot_general`.

  Returns:
    [..., M] or [..., M, F].

  >>> import numpy as np
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
  expected = (index.shape[0], *weights.shape[1:2])
  if x.shape[-len(expected) :] != expected:
    raise ValueError(
      f'the last axes of x must be {expected}, one entry per input point (and'
      f' channel, if the weights have channels), got {x.shape}'
    )
  formula = '...n,nm->...m' if weights.ndim == 1 else '...nc,nmcf->...mf'
  kernel = kernels.shared_kernel(weights, index)
  y = jnp.einsum(formula, x, kernel, precision=precision)
  if bias is None:
    return y
  chex.assert_shape(bias, (None, *weights.shape[2:]))
  chex.assert_shape(bias_index, (index.shape[1],))
  each = bias[bias_index]  # one axis per axis of y: no rank is promoted
  return y + jnp.expand_dims(each, tuple(range(y.ndim - each.ndim)))


class EquivariantDense(SharedLayer):
  """A dense layer between two grids, equivariant to the given symmetries.

  Without `features` it maps x [..., *in_shape] to y [..., *out_shape]; with
  `features=F` it maps x [..., *in_shape, C] to y [..., *out_shape, F]. With
  the grids flattened,

      y[m] = Σ_n x[n] · w[I[n, m]] + b[J[m]],

  where I [N, M] labels the orbits of (input, output) pairs and J [M] those of
  outputs, so that layer(g x) = g layer(x) for every symmetry g, or layer(g x) =
  layer(x) if `invariant`. The parameters are one kernel weight per orbit,
  'kernel' [W] or [W, C, F], and one bias per orbit, 'bias' [B] or [B, F].

  The initialiser fills the kernel of the plain dense layer, of which every
  orbit keeps its first entry: any Flax initialiser sees the true fan-in.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    in_shape: The grid of the inputs.
    out_shape: The grid of the outputs.
    features: The number of channels at each output point; None for no channel
      axis on either side.
    use_bias: Whether to add a bias (default: True).
    dtype: The dtype of the computation (default: infer from input and params).
    param_dtype: The dtype of the parameters (default: float32).
    precision: Numerical precision of the computation, see `jax.lax.Precision`.
    kernel_init: Initialiser of the plain dense kernel, [N * C, M * F].
    bias_init: Initialiser of the bias.
    invariant: Whether the symmetries act trivially on the outputs: transforming
      the input does not change them.
    max_weights: Pads the kernel parameter to this number of weights, and the
      bias to M, so that layers of different symmetry have the same shapes.

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

  @nn.nowrap
  def sharing(self) -> sharing_lib.Sharing:
    """Returns which weights are shared, as labels of kernel and bias."""
    return sharing_lib.dense_sharing(
      self.symmetries, self.in_shape, self.out_shape, self.invariant
    )

  @nn.nowrap
  def parameter_sizes(
    self, own: sharing_lib.Sharing
  ) -> tuple[int, tuple[int, ...]]:
    """Returns the number of kernel weights and the shape of the bias."""
    num_weights, num_biases = own.num_weights, own.num_biases
    if self.max_weights is not None:
      if self.max_weights < num_weights:
        raise ValueError(
          f'max_weights must be at least the {num_weights} free weights of this'
          f' layer, got {self.max_weights}'
        )
      num_weights, num_biases = self.max_weights, own.bias.size
    if self.features is None:
      return num_weights, (num_biases,)
    return num_weights, (num_biases, self.features)

  @nn.nowrap
  def _plain_axes(self, own: sharing_lib.Sharing) -> tuple[int, ...]:
    return own.kernel.shape

  @nn.nowrap
  def _summary(self) -> str:
    grids = self.in_shape, self.out_shape
    return ' → '.join('×'.join(map(str, grid)) for grid in grids)

  @nn.compact
  def __call__(self, x: Array) -> jax.Array:
    """Applies the layer to x [..., *in_shape] or [..., *in_shape, C]."""
    x = jnp.asarray(x)
    grid_end = x.ndim if self.features is None else x.ndim - 1
    grid_start = grid_end - len(self.in_shape)
    if grid_start < 0 or x.shape[grid_start:grid_end] != self.in_shape:
      axes = ['...', *map(str, self.in_shape)]
      if self.features is not None:
        axes.append('C')
      raise ValueError(
        f'EquivariantDense with features={self.features} needs x of shape'
        f' [{", ".join(axes)}], got {x.shape}; reshape x, or change in_shape'
        ' (or features, which gives every point channels)'
      )
    batch, channels = x.shape[:grid_start], x.shape[grid_end:]
    x, weights, bias, index = self._parameters(self.sharing(), x, channels)
    y = shared_dense(
      x.reshape(*batch, math.prod(self.in_shape), *channels),
      weights,
      index['kernel'],
      bias,
      index['bias'] if self.use_bias else None,
      self.precision,
    )
    return y.reshape(*batch, *self.out_shape, *y.shape[len(batch) + 1 :])
