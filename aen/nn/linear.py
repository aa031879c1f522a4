"""Linear maps with fast transposes, for the spectral product.

JAX transposes a gather to a scatter-add, and the product of a small matrix with
a long one to a product with a matrix of few columns. Both are slow on a CPU, so
these linear maps are primitives that know their transposes. They can be
differentiated in forward mode, unlike functions with a custom gradient.
"""

from collections.abc import Callable
import functools
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import ad
from jax.interpreters import batching
from jax.interpreters import mlir
import jax.numpy as jnp
import numpy as np

from aen.nn.kernels import StaticArray
from aen.nn.kernels import sum_tables


def linear_gather(
  values: jax.Array, index: np.ndarray, axis: int = 0
) -> jax.Array:
  """Returns `jnp.take(values, index, axis)`, transposed by gathers."""
  return _gather_p.bind(values, index=StaticArray(index), axis=axis)


def _take(values: jax.Array, index: StaticArray, axis: int) -> jax.Array:
  return jnp.take(values, index.labels, axis, mode='clip')


def _take_transpose(
  gradient: jax.Array,
  values: ad.UndefinedPrimal,
  index: StaticArray,
  axis: int,
) -> tuple[jax.Array]:
  def pad(sums: jax.Array, size: int) -> jax.Array:
    widths = [(0, 0)] * sums.ndim
    widths[axis] = (0, size - sums.shape[axis])
    return jnp.pad(sums, widths) if size > sums.shape[axis] else sums

  size, sums = values.aval.shape[axis], gradient
  for table in _transpose_tables(index, size):
    padded = pad(sums, int(table.max()) + 1)
    rows = [linear_gather(padded, row, axis) for row in table]
    sums = functools.reduce(jnp.add, rows)
  return (pad(sums, size),)


@functools.lru_cache(maxsize=64)
def _transpose_tables(index: StaticArray, size: int) -> list[np.ndarray]:
  """Returns tables as `sum_tables` does, for labels that need not all occur.

  If only the last labels are missing, they are left for the caller to pad.
  """
  used, labels = np.unique(index.labels, return_inverse=True)
  tables = sum_tables(labels.ravel())
  if used[-1] >= used.size:
    place = np.full(size, used.size, np.int32)
    place[used] = np.arange(used.size)
    tables.append(place[None])
  return tables


def _take_batch(
  args: tuple[jax.Array],
  dims: tuple[int],
  index: StaticArray,
  axis: int,
) -> tuple[jax.Array, int]:
  values = jnp.moveaxis(args[0], dims[0], 0)
  return _gather_p.bind(values, index=index, axis=axis + 1), 0


def transform(matrix: np.ndarray, values: jax.Array) -> jax.Array:
  """Multiplies along the first axis: [K, c] times [c, ...] is [K, ...]."""
  if np.array_equal(matrix, np.eye(values.shape[0])):
    return values
  matrix = matrix.astype(values.dtype)
  return _transform_p.bind(values, matrix=StaticArray(matrix))


def _multiply(values: jax.Array, matrix: StaticArray) -> jax.Array:
  rows = values.reshape(values.shape[0], -1)
  product = jnp.matmul(matrix.labels, rows, precision='highest')
  return product.reshape(-1, *values.shape[1:])


def _multiply_transpose(
  gradient: jax.Array, values: ad.UndefinedPrimal, matrix: StaticArray
) -> tuple[jax.Array]:
  return (transform(matrix.labels.T, gradient),)


def _multiply_batch(
  args: tuple[jax.Array], dims: tuple[int], matrix: StaticArray
) -> tuple[jax.Array, int]:
  return _transform_p.bind(jnp.moveaxis(args[0], dims[0], 1), matrix=matrix), 1


def _linear_primitive(
  name: str,
  fn: Callable[..., jax.Array],
  transpose: Callable[..., tuple[jax.Array]],
  batch: Callable[..., tuple[jax.Array, int]],
) -> core.Primitive:
  """Makes a primitive of a linear function of one array and static options."""

  def abstract(values: jax.core.ShapedArray, **options: Any) -> Any:
    like = jax.ShapeDtypeStruct(values.shape, values.dtype)
    out = jax.eval_shape(functools.partial(fn, **options), like)
    return jax.core.ShapedArray(out.shape, out.dtype)

  def transposed(gradient: Any, values: Any, **options: Any) -> tuple[Any]:
    if isinstance(gradient, ad.Zero):
      return (ad.Zero(values.aval),)
    return transpose(gradient, values, **options)

  primitive = core.Primitive(name)
  primitive.def_impl(lambda values, **options: jitted(values, **options))
  primitive.def_abstract_eval(abstract)
  ad.deflinear2(primitive, transposed)
  batching.primitive_batchers[primitive] = batch
  mlir.register_lowering(primitive, mlir.lower_fun(fn, multiple_results=False))

  @functools.partial(jax.jit, static_argnames=('index', 'axis', 'matrix'))
  def jitted(values: jax.Array, **options: Any) -> jax.Array:
    return fn(values, **options)

  return primitive


_gather_p = _linear_primitive('aen_take', _take, _take_transpose, _take_batch)
_transform_p = _linear_primitive(
  'aen_transform', _multiply, _multiply_transpose, _multiply_batch
)
