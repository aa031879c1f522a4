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


def positive(value: Any, name: str) -> int:
  """Returns a whole number of at least 1, or says what is wrong with it."""
  if not isinstance(value, int | np.integer) or value < 1:
    raise ValueError(
      f'{name} must be a whole number of at least 1, got {value!r}'
    )
  return int(value)


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
      self.features = positive(self.features, 'features')
    if self.max_weights is not None:
      self.max_weights = positive(self.max_weights, 'max_weights')
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


def _plain_kernel(weights: Array, index: Array) -> jax.Array:
  """Returns the plain dense kernel [N * C, M * F] of shared weights."""
  num_in, num_out = index.shape
  kernel = shared_kernel(jnp.asarray(weights), index)
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

  def collection(layer: nn.Module) -> dict[str, Any]:
    if layers := _sublayers(layer):
      return {name: collection(each) for name, each in layers.items()}
    if isinstance(layer, nn.Dense):
      return {}
    own = layer.sharing()
    return {'kernel': jnp.asarray(own.kernel), 'bias': jnp.asarray(own.bias)}

  return {'sharing': collection(module)}


def _sublayers(module: nn.Module) -> dict[str, nn.Module]:
  """Returns a network's layers by name; none for a layer."""
  if hasattr(module, 'sublayers'):
    return module.sublayers()
  known = isinstance(module, EquivariantDense | nn.Dense)
  if not known and not hasattr(module, 'plain_parameters'):
    raise ValueError(
      'expected an EquivariantDense or a network of them (EquivariantMLP), got'
      f' {type(module).__name__}; take the EquivariantDense layers in it one by'
      ' one, each with its own parameters'
    )
  return {}


def to_dense(module: nn.Module, variables: Params) -> dict[str, Any]:
  """Returns parameters of plain Flax layers that compute the same function.

  Args:
    module: An `EquivariantDense`, an `EquivariantConv` or a network of them.
    variables: Its variables, or its parameters alone.

  Returns:
    For a dense layer: {'kernel': [N * C, M * F], 'bias': [M * F]}, the
    parameters of `nn.Dense(M * F)` acting on flattened inputs. For a
    convolution: those of `nn.Conv(|G| * F, kernel_size, …)` acting on inputs
    whose group axis and channels are one axis. For a network: a dict of them by
    the layers' names.
  """
  params = variables.get('params', variables)
  if layers := _sublayers(module):
    _check_names(layers, params, 'parameters')
    return {n: to_dense(layer, params[n]) for n, layer in layers.items()}
  if isinstance(module, nn.Dense):
    return dict(params)
  if hasattr(module, 'plain_parameters'):
    return module.plain_parameters(params)
  own = module.sharing()
  names = {'kernel', 'bias'} if module.use_bias else {'kernel'}
  expected = module.max_weights or own.num_weights
  if set(params) != names or params['kernel'].shape[0] != expected:
    raise ValueError(
      f'{module!r} has parameters {sorted(names)} and {expected} weights in its'
      f' kernel, got {jax.tree.map(jnp.shape, dict(params))}; these belong to'
      ' another layer'
    )
  plain = {'kernel': _plain_kernel(params['kernel'], own.kernel)}
  if module.use_bias:
    plain['bias'] = jnp.asarray(params['bias'])[own.bias].ravel()
  return plain


def _check_names(
  layers: Mapping[str, Any], others: Mapping[str, Any], what: str
) -> None:
  if set(layers) != set(others):
    raise ValueError(
      f'expected {what} of the layers {sorted(layers)}, got {sorted(others)}'
    )


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
    Parameters for the target: `target.apply({'params': …}, x)`.

  Raises:
    ValueError: The target cannot be that function: its shapes differ, or it has
      a symmetry that the source lacks.
  """
  params = variables.get('params', variables)
  if layers := _sublayers(target):
    parts = _sublayers(source)
    _check_names(layers, parts, 'a source')
    _check_names(parts, params, 'parameters')
    return {n: expand(parts[n], params[n], layers[n]) for n in layers}
  if hasattr(target, 'plain_parameters'):
    raise ValueError(
      f'expand is for dense layers, got {target!r}: the group is an axis of a'
      " convolution's features, so fewer symmetries mean other shapes; to_dense"
      ' gives the parameters of a plain network'
    )
  plain = to_dense(source, params)
  if isinstance(target, nn.Dense):
    return _plain_for(target, plain)
  _check_refines(source, target, plain['kernel'].shape)
  own, features = target.sharing(), target.features or 1
  num_weights = target.max_weights or own.num_weights
  kernel = _first_entries(plain['kernel'], own.kernel, num_weights, features)
  expanded = {'kernel': kernel if target.features else kernel[:, 0, 0]}
  if target.use_bias:
    num_biases = own.bias.size if target.max_weights else own.num_biases
    first = first_positions(own.bias, num_biases)
    bias = plain.get('bias', jnp.zeros(own.bias.size * features))
    bias = bias.reshape(own.bias.size, features)
    bias = jnp.take(bias, first, axis=0, mode='fill', fill_value=0)
    expanded['bias'] = bias if target.features else bias[:, 0]
  elif 'bias' in plain:
    raise ValueError(f'{target!r} has no bias and cannot hold the given one')
  return expanded


def _plain_for(target: nn.Dense, plain: Params) -> dict[str, jax.Array]:
  if plain['kernel'].shape[1] != target.features:
    raise ValueError(
      f'expand needs layers of the same shapes, got {plain["kernel"].shape[1]}'
      f' outputs for a Dense layer of {target.features}'
    )
  return dict(plain)


def _check_refines(
  source: nn.Module, target: nn.Module, plain_shape: tuple[int, ...]
) -> None:
  """Raises unless entries that the target shares are shared in the source."""
  own = target.sharing()
  num_in, num_out = own.kernel.shape
  same_grids = (
    plain_shape[1] == num_out * (target.features or 1)
    and plain_shape[0] % num_in == 0
    and (target.features is not None or plain_shape[0] == num_in)
  )
  if isinstance(source, EquivariantDense):
    given = source.sharing()
    same_grids &= given.kernel.shape == own.kernel.shape
  else:
    given = sharing_lib.dense_sharing((), num_in, num_out)
  if not same_grids:
    raise ValueError(
      f'expand needs layers of the same shapes, got a kernel {plain_shape} for'
      f' {target!r}'
    )
  for mine, theirs in ((own.kernel, given.kernel), (own.bias, given.bias)):
    first = first_positions(mine, int(mine.max()) + 1)[mine.ravel()]
    if not np.array_equal(theirs.ravel()[first], theirs.ravel()):
      raise ValueError(
        f'{target!r} shares weights that the source keeps apart, so it cannot'
        ' be the same function; expand from more symmetry to less'
      )
