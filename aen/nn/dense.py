"""Weight-shared dense layers: a functional core and a Flax module around it.

The functional core takes weights and index as arguments, so one program serves
networks with different symmetries.

Legend: N input points, M output points, C input channels, F features, W free
weights.
"""

from collections.abc import Sequence
import functools
import math
from typing import Any

from flax import linen as nn
from flax.typing import Dtype
from flax.typing import Initializer
from flax.typing import PrecisionLike
import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups import sharing as sharing_lib
from aen.groups import spectral as spectral_lib
from aen.groups import symmetries as symmetries_lib
from aen.nn import kernels
from aen.nn import layer as layer_lib
from aen.nn.kernels import Array

# Like an index, a spectral form may be data, except for its structure.
jax.tree_util.register_dataclass(spectral_lib.Spectral)


def shared_dense(
  x: Array,
  weights: Array,
  index: Array | spectral_lib.Form,
  bias: Array | None = None,
  bias_index: Array | None = None,
  precision: PrecisionLike = None,
) -> jax.Array:
  """Applies a dense layer whose kernel is `weights[index]`.

  y[m] = Σ_n x[n] · weights[index[n, m]] + bias[bias_index[m]]

  Args:
    x: Inputs, [..., N], or [..., N, C] if the weights have channels.
    weights: The free weights, [W] or [W, C, F]. May be padded beyond what the
      index uses, so that layers of different symmetry have the same shapes.
    index: The weight of each kernel entry, int32 [N, M]; or the layer's form of
      `groups.spectral`, which takes fewer multiplications.
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
  x = kernels.as_array(x, 'x')
  weights = kernels.as_array(weights, 'weights')
  if not isinstance(index, jax.Array | spectral_lib.Form):
    index = io_lib.array(index, 'the index')
  if (bias is None) != (bias_index is None):
    raise ValueError('bias and bias_index go together: give both, or neither')
  if weights.ndim not in (1, 3) or len(index.shape) != 2:
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
  each = None  # the bias of each output
  if bias is not None:
    bias = kernels.as_array(bias, 'bias')
    if not isinstance(bias_index, jax.Array):
      bias_index = io_lib.array(bias_index, 'bias_index')
    expected = (*bias.shape[:1], *weights.shape[2:])
    if bias.shape != expected or bias_index.shape != index.shape[1:]:
      raise ValueError(
        f'bias must have the shape [B{", F" if weights.ndim == 3 else ""}] and'
        f' bias_index {index.shape[1:]}, got {bias.shape} and'
        f' {bias_index.shape}'
      )
    each = kernels.shared_kernel(bias, bias_index)
  if isinstance(index, spectral_lib.Form):
    return _by_orbits(x, weights, index, each, precision)
  y = _gathered_dense(x, weights, index, precision)
  if each is None:
    return y
  # With all axes of y, for users who forbid implicit rank promotion.
  return y + jnp.expand_dims(each, tuple(range(y.ndim - each.ndim)))


def _gathered_dense(
  x: jax.Array, weights: jax.Array, index: Array, precision: PrecisionLike
) -> jax.Array:
  """Gathers the kernel and multiplies with it."""
  if weights.ndim == 1:
    kernel = kernels.shared_kernel(weights, index)
    return jnp.matmul(x, kernel, precision=precision)
  # A gather for each pair of channels writes long rows in the order in which
  # the product reads them; with channels last, XLA would copy the kernel.
  (num_in, num_out), (_, channels, features) = index.shape, weights.shape
  of_pair = functools.partial(kernels.shared_kernel, index=index)
  kernel = jax.vmap(jax.vmap(of_pair))(weights.transpose(1, 2, 0))
  kernel = kernel.transpose(0, 2, 1, 3)  # from [C, F, N, M]
  y = jnp.matmul(
    jnp.swapaxes(x, -1, -2).reshape(*x.shape[:-2], channels * num_in),
    kernel.reshape(channels * num_in, features * num_out),
    precision=precision,
  )
  y = y.reshape(*x.shape[:-2], features, num_out)
  return jnp.swapaxes(y, -1, -2)


def _by_orbits(
  x: jax.Array,
  weights: jax.Array,
  form: spectral_lib.Form,
  bias: jax.Array | None,
  precision: PrecisionLike,
) -> jax.Array:
  """Applies a layer in a form of `groups.spectral`, with bias [M] or [M, F]."""
  channels, features = weights.shape[1:] or (1, 1)
  batch = x.shape[: x.ndim - (weights.ndim + 1) // 2]
  num_in, num_out = form.shape
  # With the batch last, the values of a point are contiguous.
  x = x.reshape(-1, num_in, channels).transpose(1, 2, 0)
  if form.in_place is not None:
    # Not a gather, which XLA would fuse with that of the batch from a data set
    # and compute one element at a time.
    places = jnp.zeros_like(x).at[form.in_place]
    x = places.set(x, mode='promise_in_bounds', unique_indices=True)
  if isinstance(form, spectral_lib.Spectral):
    y = _spectral_dense(x, weights, form, precision)
  else:
    y = _involution_dense(x, weights, form, precision)
  if form.out_place is not None:
    y = y[form.out_place]
  if bias is not None:
    y += bias.reshape(num_out, features, 1)
  return y.transpose(2, 0, 1).reshape(*batch, num_out, *weights.shape[2:])


def _involution_dense(
  x: jax.Array,
  weights: jax.Array,
  form: spectral_lib.Involution,
  precision: PrecisionLike,
) -> jax.Array:
  """Applies a layer to x [N, C, B] in a form's order; returns [M, F, B]."""
  channels, features = weights.shape[1:] or (1, 1)
  first, second = (
    kernels.merge_channels(part.reshape(*part.shape[:2], channels, features))
    for part in kernels.shared_kernels(weights, [form.first, form.second])
  )
  n, m = second.shape
  difference = second - first[:n, :m]  # E - D
  one, other, fixed = jnp.split(x.reshape(-1, x.shape[-1]), [n, 2 * n])
  multiply = functools.partial(jnp.einsum, 'nm,nb->mb', precision=precision)
  same = multiply(first, jnp.concatenate([one + other, fixed]))
  pair, fixed = jnp.split(same, [m])
  parts = pair + multiply(difference, other), pair + multiply(difference, one)
  return jnp.concatenate([*parts, fixed]).reshape(-1, features, x.shape[-1])


def _spectral_dense(
  x: jax.Array,
  weights: jax.Array,
  form: spectral_lib.Spectral,
  precision: PrecisionLike,
) -> jax.Array:
  """Applies a layer to x [N, C, B] in a form's order; returns [M, F, B]."""
  structure = form.structure
  channels, features = weights.shape[1:] or (1, 1)

  def transform(matrix: Array, values: jax.Array) -> jax.Array:
    """Multiplies along the first axis: [K, c] times [c, R] is [K, R]."""
    rows = values.reshape(values.shape[0], -1)
    matrix = jnp.asarray(matrix, values.dtype)
    return jnp.matmul(matrix, rows, precision='highest')

  def by_block(
    matrix: Array, values: jax.Array, own: list[spectral_lib.Block]
  ) -> dict[spectral_lib.Block, jax.Array]:
    """Transforms values [c, ...] to [K, ...] and splits them into blocks."""
    terms = transform(matrix, values).reshape(-1, *values.shape[1:])
    ends = np.cumsum([block.size for block in own])
    return dict(zip(own, jnp.split(terms, ends[:-1]), strict=True))

  # One gather for the kernel entries of all pairs of sectors.
  entries = kernels.shared_kernel(weights, form.index)
  ends = np.cumsum([math.prod(shape) for shape in structure.entries])
  parts = jnp.split(entries, ends[:-1])
  blocks = {}  # of each pair of sectors, by block: [k, n * C, m * F]
  for (s, t), shape, part, matrix in zip(
    structure.pairs, structure.entries, parts, form.kernel, strict=True
  ):
    part = kernels.merge_channels(part.reshape(*shape, channels, features))
    own = [b for b in structure.blocks if s in b.inputs and t in b.outputs]
    blocks[s, t] = by_block(matrix, part, own)

  ends = np.cumsum([c * n for c, n in structure.in_sectors])
  signals = []  # of each sector, by block: [k, n * C, B]
  for s, part in enumerate(jnp.split(x, ends[:-1])):
    part = part.reshape(structure.in_sectors[s][0], -1, part.shape[-1])
    own = [block for block in structure.blocks if s in block.inputs]
    signals.append(by_block(form.analysis[s], part, own))

  multiply = functools.partial(jnp.einsum, 'knm,knb->kmb', precision=precision)
  products: list[list[jax.Array]] = [[] for _ in structure.out_sectors]
  for block in structure.blocks:
    for t in block.outputs:
      # A sum of products: concatenating the kernels first would copy them.
      pairs = ((blocks[s, t][block], signals[s][block]) for s in block.inputs)
      terms = [multiply(*pair) for pair in pairs]
      products[t].append(functools.reduce(jnp.add, terms))

  outputs = []
  for matrix, parts in zip(form.synthesis, products, strict=True):
    rows = transform(matrix, jnp.concatenate(parts))
    outputs.append(rows.reshape(-1, features, x.shape[-1]))
  return jnp.concatenate(outputs)


class EquivariantDense(layer_lib.SharedLayer):
  """A dense layer between two grids, equivariant to the given symmetries.

  Maps x [..., *in_shape] to y [..., *out_shape], or with `features=F`,
  x [..., *in_shape, C] to y [..., *out_shape, F]. With flattened grids,

      y[m] = Σ_n x[n] · w[I[n, m]] + b[J[m]],

  where I [N, M] labels the orbits of (input, output) pairs and J [M] those of
  outputs, so that layer(g x) = g layer(x) for every symmetry g, or layer(g x) =
  layer(x) if `invariant`. The parameters are one kernel weight per orbit,
  'kernel' [W] or [W, C, F], and one bias per orbit, 'bias' [B] or [B, F].

  The initialiser fills the plain dense kernel, so that it sees the true fan-in;
  each orbit keeps its first entry.

  Attributes:
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix.
    in_shape: The grid of the inputs.
    out_shape: The grid of the outputs.
    features: The number of channels at each output point; None for no channel
      axis on either side.
    use_bias, dtype, param_dtype, precision: As in `flax.linen.Dense`.
    kernel_init: Initialiser of the plain dense kernel, [N * C, M * F].
    bias_init: Initialiser of the bias.
    invariant: Whether the symmetries act trivially on the outputs.
    max_weights: Pads the kernel parameter to this number of weights, and the
      bias to M, so that layers of different symmetry have the same shapes.
    method: How to multiply by the kernel. 'gather' gathers it first; 'spectral'
      works in the basis of the characters of an abelian group of symmetries
      (see `groups.spectral`), with the same result up to rounding in fewer
      operations; 'auto' (default) takes the fastest of these and
      `groups.spectral.Involution` according to a cost model. An index given as
      data (the collection 'sharing') is always gathered.

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
  kernel_init: Initializer = nn.initializers.lecun_normal()
  bias_init: Initializer = nn.initializers.zeros_init()
  invariant: bool = False
  max_weights: int | None = None
  method: str = 'auto'

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.in_shape = symmetries_lib.as_shape(self.in_shape)
    self.out_shape = symmetries_lib.as_shape(self.out_shape)
    if self.features is not None:
      self.features = io_lib.positive(self.features, 'features')
    if self.max_weights is not None:
      self.max_weights = io_lib.positive(self.max_weights, 'max_weights')
    io_lib.choice(self.method, 'method', layer_lib.METHODS)
    for symmetry in self.symmetries:  # raises if one cannot act
      symmetries_lib.permutation(symmetry, self.in_shape)
      if not self.invariant:
        symmetries_lib.permutation(symmetry, self.out_shape)
    super().__post_init__()

  @nn.nowrap
  def sharing(self) -> sharing_lib.Sharing:
    """Returns which weights are shared, as labels of kernel and bias."""
    return sharing_lib.dense_sharing(
      self.symmetries, self.in_shape, self.out_shape, self.invariant
    )

  @nn.nowrap
  def spectral(self) -> spectral_lib.Form | None:
    """Returns the layer's form; None if the kernel is gathered."""
    if self.method == 'gather':
      return None
    layer = self.symmetries, self.in_shape, self.out_shape, self.invariant
    return _spectral(*layer, self.method == 'spectral')

  @nn.nowrap
  def form_in_use(self) -> spectral_lib.Form | None:
    """Returns the form of the bound layer, which may be data, or None."""
    if self.has_variable('sharing', 'kernel'):
      return self.get_variable('sharing', 'spectral')
    return self.spectral()

  @nn.nowrap
  def parameter_sizes(self, own: sharing_lib.Sharing) -> layer_lib.Sizes:
    """Returns the number of kernel weights and the shape of the bias."""
    num_weights, num_biases = own.num_weights, own.num_biases
    if self.max_weights is not None:
      if self.max_weights < num_weights:
        raise ValueError(
          f'max_weights must be at least the {num_weights} free weights of this'
          f' layer, got {self.max_weights}'
        )
      num_weights, num_biases = self.max_weights, own.bias.size
    features = () if self.features is None else (self.features,)
    return num_weights, (num_biases, *features)

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
    x = kernels.as_array(x, 'x')
    last = [] if self.features is None else ['C']
    grid_end = x.ndim - len(last)
    grid_start = grid_end - len(self.in_shape)
    if grid_start < 0 or x.shape[grid_start:grid_end] != self.in_shape:
      axes = ', '.join(['...', *map(str, self.in_shape), *last])
      raise ValueError(
        f'EquivariantDense with features={self.features} needs x of shape'
        f' [{axes}], got {x.shape}; reshape x, or change in_shape (or features,'
        ' which gives every point channels)'
      )
    batch, channels = x.shape[:grid_start], x.shape[grid_end:]
    own = self.sharing()
    x, weights, bias, index = self._parameters(own, x, channels)
    y = shared_dense(
      x.reshape(*batch, math.prod(self.in_shape), *channels),
      weights,
      self.form_in_use() or index['kernel'],
      bias,
      index['bias'] if self.use_bias else None,
      self.precision,
    )
    return y.reshape(*batch, *self.out_shape, *y.shape[len(batch) + 1 :])


@functools.lru_cache(maxsize=512)
def _spectral(
  symmetries: Any, in_shape: Any, out_shape: Any, invariant: bool, force: bool
) -> spectral_lib.Form | None:
  layer = symmetries, in_shape, out_shape
  index = sharing_lib.dense_sharing(*layer, invariant).kernel
  return spectral_lib.dense_spectral(*layer, index, invariant, force)
