"""Weight-shared kernels: `weights[index]`, its gradient, and its inverse.

A NumPy index is known before tracing, so the gradient of the gather is computed
by gathers, too, which is faster than XLA's scatter-add; see docs/speed.md. A
JAX index is data, and JAX differentiates the gather.

Legend: N input points, M output points, C input channels, F features, W free
weights.
"""

from collections.abc import Sequence
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib

Array = jax.Array | np.ndarray


def as_array(x: Any, name: str) -> jax.Array:
  """Returns a JAX array of numbers; raises a ValueError for anything else."""
  if isinstance(x, jax.Array) or hasattr(x, '__jax_array__'):
    return jnp.asarray(x)
  return jnp.asarray(io_lib.array(x, name))


def shared_kernel(weights: jax.Array, index: Array) -> jax.Array:
  """Returns `weights[index]`, with a fast gradient for a NumPy index."""
  if not isinstance(index, np.ndarray):
    return weights[index]
  num_used = check_index(index, weights.shape[0])
  if num_used == index.size and np.array_equal(
    index.ravel(), np.arange(index.size)
  ):  # no weight is shared
    return weights[:num_used].reshape(*index.shape, *weights.shape[1:])
  return shared_kernels(weights, [index])[0]


def shared_kernels(
  weights: jax.Array, indices: Sequence[np.ndarray]
) -> list[jax.Array]:
  """Returns `weights[index]` for several indices, with one fast gradient."""
  flat = np.concatenate([index.ravel() for index in indices])
  check_index(flat, weights.shape[0])
  tables_of = functools.cache(lambda: sum_tables(flat))

  @jax.custom_jvp
  def gather(weights: jax.Array) -> list[jax.Array]:
    return [weights[index] for index in indices]

  @gather.defjvp
  def gather_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
  ) -> tuple[list[jax.Array], list[jax.Array]]:
    # Written as scatters, which JAX transposes to gathers.
    tables, tail = tables_of(), primals[0].shape[1:]
    values = tangents[0][: tables[-1].shape[1]]
    sizes = [flat.size, *(table.shape[1] for table in tables)]
    for table, size in zip(tables[::-1], sizes[-2::-1], strict=True):
      # Classes with fewer entries than rows refer to one spare entry.
      spare = int(table.max() == size)
      entries = jnp.zeros((size + spare, *tail), values.dtype)
      for row in table[::-1]:
        entries = entries.at[row].add(values, mode='promise_in_bounds')
      values = entries[:size]
    ends = np.cumsum([index.size for index in indices])
    parts = jnp.split(values, ends[:-1])
    return gather(*primals), [
      part.reshape(*index.shape, *tail)
      for part, index in zip(parts, indices, strict=True)
    ]

  return gather(weights)


def check_index(index: np.ndarray, num_weights: int) -> int:
  """Returns the number of weights that an index uses; raises if too many."""
  if index.dtype.kind not in 'iu' or not index.size or index.min() < 0:
    raise ValueError(
      'the index must be a non-empty array of integers of at least 0, got'
      f' {index.dtype} of shape {index.shape}'
    )
  num_used = int(index.max()) + 1
  if num_used > num_weights:
    raise ValueError(f'the index uses {num_used} weights, got {num_weights}')
  return num_used


def sum_tables(labels: np.ndarray, width: int = 8) -> list[np.ndarray]:
  """Returns gather tables that sum the entries of each class, level by level.

  Each level replaces up to `width` entries of a class by their sum: with a zero
  appended to `values` [n], `values = sum(values[row] for row in table)`. After
  the last level there is one value per class. Every label from 0 to the highest
  must occur in `labels`, int32 [n]. Tables are int32 [up to width, number of
  partial sums]; their entry n is the appended zero.
  """
  tables: list[np.ndarray] = []
  while not tables or labels.size > labels.max() + 1:
    counts = np.bincount(labels)
    rows = min(width, int(counts.max()))
    parts = -(-counts // rows)  # partial sums of each class
    order = np.argsort(labels, kind='stable')
    in_order = labels[order]
    place = np.arange(labels.size) - (np.cumsum(counts) - counts)[in_order]
    column = (np.cumsum(parts) - parts)[in_order] + place // rows
    table = np.full((rows, int(parts.sum())), labels.size, np.int32)
    table[place % rows, column] = order
    tables.append(table)
    labels = np.repeat(np.arange(counts.size), parts)
  return tables


def first_entries(
  plain: Array, index: Array, num_weights: int, features: int
) -> jax.Array:
  """Returns each orbit's first entry in the kernel of a plain layer.

  For a kernel with the index's weight sharing, this inverts `merge_channels`
  after `shared_kernel`. Maps plain [..., N * C, M * F], with index [..., N, M],
  to [W, C, F]; weights that the index does not use are zero.
  """
  num_out = index.shape[-1]
  num_in = index.size // num_out
  entries = jnp.reshape(plain, (num_in, -1, num_out, features))
  entries = entries.swapaxes(1, 2).reshape(index.size, -1, features)
  first = first_positions(index, num_weights)
  return jnp.take(entries, first, axis=0, mode='fill', fill_value=0)


def first_positions(index: Array, num_weights: int) -> Array:
  """Returns the first position of each label, `index.size` for unused ones."""
  positions = np.arange(index.size, dtype=np.int32)
  if isinstance(index, np.ndarray):  # XLA's constant folding takes seconds
    first = np.full(num_weights, index.size, np.int32)
    np.minimum.at(first, index.ravel(), positions)
    return first
  first = jnp.full(num_weights, index.size, jnp.int32)
  return first.at[index.ravel()].min(positions)


def merge_channels(kernel: jax.Array) -> jax.Array:
  """Merges [..., N, M, C, F] to a plain layer's kernel [..., N * C, M * F]."""
  *sides, num_in, num_out, channels, features = kernel.shape
  kernel = jnp.swapaxes(kernel, -3, -2)
  return kernel.reshape(*sides, num_in * channels, num_out * features)
