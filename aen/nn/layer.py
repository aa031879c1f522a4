"""The base class of equivariant layers, and options of all layers."""

from collections.abc import Mapping
import math
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.nn import kernels

Params = Mapping[str, Any]
Sizes = tuple[int, tuple[int, ...]]  # number of weights, shape of the bias

# The last layer of a network: as in the paper, or with invariant logits.
HEADS = ('dense', 'invariant')
# How a dense layer multiplies with its kernel.
METHODS = ('gather', 'spectral', 'auto')


def options_of(network: nn.Module) -> dict[str, Any]:
  """Returns the options that a network passes on to all of its layers."""
  names = ('dtype', 'param_dtype', 'kernel_init', 'bias_init')
  return {name: getattr(network, name) for name in names}


class SharedLayer(nn.Module):
  """A layer whose kernel is `weights[index]`, one weight per orbit.

  The index is a constant, unless the variable collection 'sharing' provides
  one: then it is data, and one compiled program serves layers with different
  symmetries.

  Subclasses declare further attributes, in the order of the Flax layer that
  they generalise, and four methods: `sharing`; `parameter_sizes`, given that;
  `_plain_axes`, the shape [..., N, M] of the plain kernel with one channel; and
  `_summary`, a description of inputs and outputs for `repr`.
  """

  symmetries: symmetries_lib.SymmetryLike

  def __repr__(self) -> str:
    names = ' + '.join(s.name for s in self.symmetries) or 'no symmetry'
    name = type(self).__name__
    return f'{name}({names}, {self._summary()}: {self.sharing()})'

  @nn.nowrap
  def num_weights(self, channels: int = 1) -> int:
    """Counts the free kernel weights for the given number of channels."""
    return self.sharing().num_weights * channels * (self.features or 1)

  @nn.nowrap
  def _parameters(
    self, own: Any, x: jax.Array, channels: tuple[int, ...]
  ) -> tuple[jax.Array, jax.Array, jax.Array | None, dict[str, Any]]:
    """Declares the parameters 'kernel' and 'bias', for (C,) or () channels.

    Returns:
      x, weights [W, C, F] or [W], and bias or None, all promoted to one dtype;
      and the indices by parameter.
    """
    features = self.features or 1
    num_weights, bias_shape = self.parameter_sizes(own)
    index = {'kernel': own.kernel, 'bias': own.bias}
    if self.has_variable('sharing', 'kernel'):
      index = {name: self.get_variable('sharing', name) for name in index}

    def init_kernel(key: jax.Array) -> jax.Array:
      *sides, num_in, num_out = self._plain_axes(own)
      shape = *sides, num_in * math.prod(channels), num_out * features
      plain = self.kernel_init(key, shape, self.param_dtype)
      weights = kernels.first_entries(
        plain, index['kernel'], num_weights, features
      )
      return weights if channels else weights[:, 0, 0]

    weights, bias = self.param('kernel', init_kernel), None
    if self.use_bias:
      bias = self.param('bias', self.bias_init, bias_shape, self.param_dtype)
    x, weights, bias = nn.dtypes.promote_dtype(
      x, weights, bias, dtype=self.dtype
    )
    return x, weights, bias, index

  @nn.nowrap
  def plain_parameters(self, params: Params) -> dict[str, jax.Array]:
    """Returns the parameters of the plain Flax layer; see `to_dense`."""
    own = self.sharing()
    num_weights, bias_shape = self.parameter_sizes(own)
    shapes = {name: np.shape(value) for name, value in params.items()}
    expected: dict[str, Any] = {'kernel': (num_weights,), 'bias': bias_shape}
    if self.features is not None:
      channels = shapes.get('kernel', ())[1:2] or ('C',)
      expected['kernel'] += (*channels, self.features)
    if not self.use_bias:
      del expected['bias']
    if shapes != expected:
      raise ValueError(
        f'{self!r} has parameters of the shapes {expected}, got {shapes}; these'
        ' belong to another layer'
      )
    weights = jnp.asarray(params['kernel'])
    channels = weights.shape[1:] or (1, 1)
    kernel = kernels.shared_kernel(weights, own.kernel)
    kernel = kernel.reshape(*self._plain_axes(own), *channels)
    plain = {'kernel': kernels.merge_channels(kernel)}
    if self.use_bias:
      bias = jnp.asarray(params['bias']).reshape(-1, channels[-1])
      plain['bias'] = bias[own.bias].ravel()
    return plain
