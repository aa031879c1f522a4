"""Group convolutions: a functional core and a Flax module around it.

Features of a group convolution have one value per position, *group element* and
channel: [..., *S, |G|, C]. The first layer lifts the plane to the group
(Z^d→G), all others map G→G, and `group_pool` returns to the plane.

The kernel is `weights[index]`, as in `dense`. Group and channel axes are merged
for the convolution, which costs as much as one with |G| times the channels.

Legend: d spatial axes, S their sizes, K kernel sides, |G| group elements, C
input channels, F features, W free weights.
"""

from collections.abc import Sequence
import math
import warnings

import chex
from flax import linen as nn
import flax.typing
import jax
import jax.numpy as jnp

from aen import io as io_lib
from aen.groups import point_group
from aen.groups import sharing as sharing_lib
from aen.groups import symmetries as symmetries_lib
from aen.nn import kernels
from aen.nn import layer as layer_lib
from aen.nn import windows
from aen.nn.kernels import Array


def shared_conv(
  x: Array,
  weights: Array,
  index: Array,
  lifting: bool,
  bias: Array | None = None,
  strides: int | Sequence[int] = 1,
  padding: flax.typing.PaddingLike = 'SAME',
  kernel_dilation: int | Sequence[int] = 1,
  precision: flax.typing.PrecisionLike = None,
  method: str | None = None,
) -> jax.Array:
  """Applies a convolution whose kernel is `weights[index]`.

  y[p, k] = Σ_r Σ_h x[p + r, h] · weights[index[r, h, k]] + bias

  Unlike `EquivariantConv`, this does not check that strides and padding
  preserve equivariance.

  Args:
    x: Inputs, [..., *S, C] if lifting, else [..., *S, |G|, C].
    weights: The free weights, [W, C, F].
    index: The weight of each kernel entry, int32, [*K, |G|] if lifting, else
      [*K, |G|, |G|].
    lifting: Whether the inputs lie on the plane, without a group axis.
    bias: One per feature, [F].
    strides: As in `flax.linen.Conv`.
    padding: As in `flax.linen.Conv`: 'SAME', 'VALID', 'CIRCULAR' or numbers.
    kernel_dilation: As in `flax.linen.Conv`.
    precision: As in `jax.lax.conv_general_dilated`.
    method: A name in `windows.METHODS` (default: by platform).

  Returns:
    [..., *S', |G|, F].

  >>> index = sharing_lib.conv_sharing(('rotation',), (3, 3), True).kernel
  >>> x, weights = jnp.ones((1, 28, 28, 2)), jnp.ones((9, 2, 5))
  >>> shared_conv(x, weights, index, lifting=True, padding='VALID').shape
  (1, 26, 26, 4, 5)
  """
  x = kernels.as_array(x, 'x')
  weights = kernels.as_array(weights, 'weights')
  if not isinstance(index, jax.Array):
    index = io_lib.array(index, 'the index')
  batch, space = _split_shape(x.shape, weights.shape, index.shape, lifting)
  sides = index.shape[: len(space)]
  kernel = kernels.shared_kernel(weights, index)
  if lifting:
    kernel = jnp.expand_dims(kernel, -4)  # [*K, 1, |G|, C, F]
  x = x.reshape(-1, *space, math.prod(x.shape[len(batch) + len(space) :]))
  kernel = kernels.merge_channels(kernel)
  frame = windows.frame(space, sides, strides, padding, kernel_dilation)
  if padding == 'CIRCULAR':  # pad first, then convolve without padding
    x = jnp.pad(x, ((0, 0), *frame.padding, (0, 0)), mode='wrap')
    space = x.shape[1:-1]
    frame = windows.frame(space, sides, strides, 'VALID', kernel_dilation)
  y = windows.convolve(x, kernel, frame, precision, method)
  if bias is not None:  # on merged axes, its gradient is one sum of rows
    chex.assert_shape(bias, (weights.shape[-1],))
    y += jnp.tile(bias, index.shape[-1]).reshape((1,) * (y.ndim - 1) + (-1,))
  return y.reshape(*batch, *y.shape[1:-1], index.shape[-1], weights.shape[-1])


def _split_shape(
  x: tuple[int, ...],
  weights: tuple[int, ...],
  index: tuple[int, ...],
  lifting: bool,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
  """Checks all shapes; returns the batch and spatial axes of x."""
  ndim = len(index) - (1 if lifting else 2)
  if len(weights) != 3 or ndim < 1:
    raise ValueError(
      'shared_conv needs weights [W, C, F] and an index [*K, |G|] if lifting,'
      f' else [*K, |G|, |G|], got shapes {weights} and {index}'
    )
  last = weights[1:2] if lifting else (index[-2], weights[1])
  end = len(x) - len(last)
  if end < ndim or x[end:] != last:
    axes = ', '.join([*(['S'] * ndim), *map(str, last)])
    kind = 'lifting' if lifting else 'G→G'
    raise ValueError(
      f'this {kind} convolution needs x of shape [..., {axes}], got {x}; only'
      ' the first layer lifts, and its output has the group axis that the'
      ' others need'
    )
  return x[: end - ndim], x[end - ndim : end]


class EquivariantConv(layer_lib.SharedLayer):
  """A group convolution, equivariant to rotations, reflections, translations.

  With `lifting=True` (the first layer) it maps x [..., *S, C] to
  y [..., *S', |G|, F]; without, x [..., *S, |G|, C] to y [..., *S', |G|, F]:

      y[p, k] = Σ_r ψ(k⁻¹ r) · x[p + r] + b                     if lifting
      y[p, k] = Σ_r Σ_h ψ(k⁻¹ r, k⁻¹ h) · x[p + r, h] + b       otherwise

  Transforming x by g in G transforms the positions of y and maps its entry at k
  to gk. The parameters are ψ, 'kernel' [W, C, F], with W the number of kernel
  positions (times |G| unless lifting), and 'bias' [F].

  Translations are built into every convolution; naming one is an error. The
  initialiser fills the plain kernel, so that it sees the true fan-in; each
  orbit keeps its first entry.

  Attributes:
    symmetries: Rotations and reflections that generate the group G: names,
      functions of an array, `Symmetry` objects, or a mix.
    features: The number of channels F of each group element.
    kernel_size: The kernel's sides, one per spatial axis.
    strides: As in `flax.linen.Conv`. The last window must end at the last
      position; otherwise a reflected image would be sampled at other points.
    padding: 'SAME', 'VALID', 'CIRCULAR' (images wrap around, so the layer is
      exactly equivariant to cyclic shifts too, by multiples of the stride), or
      numbers, as in `flax.linen.Conv`. It must be as symmetric as the group:
      'SAME' and 'CIRCULAR' with even kernel sides are errors.
    kernel_dilation: As in `flax.linen.Conv`.
    use_bias, dtype, param_dtype, precision: As in `flax.linen.Conv`.
    kernel_init: Initialiser of the plain kernel, [*K, |G| * C, |G| * F].
    bias_init: Initialiser of the bias, one per feature.
    lifting: Whether the inputs lie on the plane, without a group axis.
    method: A name in `windows.METHODS` (default: by platform).

  >>> EquivariantConv(('rotation',), features=6, kernel_size=(3, 3))
  EquivariantConv(rotation, |G| = 4, G→G: 3×3×4×4 = 144 weights, 36 free)
  """

  symmetries: symmetries_lib.SymmetryLike
  features: int
  kernel_size: Sequence[int]
  strides: int | Sequence[int] = 1
  padding: flax.typing.PaddingLike = 'SAME'
  kernel_dilation: int | Sequence[int] = 1
  use_bias: bool = True
  dtype: flax.typing.Dtype | None = None
  param_dtype: flax.typing.Dtype = jnp.float32
  precision: flax.typing.PrecisionLike = None
  kernel_init: flax.typing.Initializer = nn.initializers.lecun_normal()
  bias_init: flax.typing.Initializer = nn.initializers.zeros_init()
  lifting: bool = False
  method: str | None = None

  def __post_init__(self) -> None:
    self.symmetries = symmetries_lib.as_symmetries(self.symmetries)
    self.features = io_lib.positive(self.features, 'features')
    if isinstance(self.kernel_size, int):
      raise ValueError(
        'kernel_size needs one side per spatial axis, such as'
        f' {(self.kernel_size,) * 2} for images, got {self.kernel_size}'
      )
    self.kernel_size = symmetries_lib.as_shape(self.kernel_size)
    io_lib.choice(self.method, 'method', (*windows.METHODS, None))
    self.sharing()  # raises if no convolution has these symmetries
    super().__post_init__()

  @nn.nowrap
  def group(self) -> point_group.Group:
    """Returns the group that the symmetries generate."""
    return point_group.group(self.symmetries, len(self.kernel_size))

  @nn.nowrap
  def sharing(self) -> sharing_lib.Sharing:
    """Returns which weights are shared, as labels of kernel and bias."""
    return sharing_lib.conv_sharing(
      self.group(), self.kernel_size, self.lifting
    )

  @nn.nowrap
  def parameter_sizes(self, own: sharing_lib.Sharing) -> layer_lib.Sizes:
    """Returns the number of kernel weights and the shape of the bias."""
    return own.num_weights, (self.features,)

  @nn.nowrap
  def _plain_axes(self, own: sharing_lib.Sharing) -> tuple[int, ...]:
    *sides, order = own.kernel.shape
    return (*sides, 1, order) if self.lifting else (*sides, order)

  @nn.nowrap
  def _summary(self) -> str:
    kind = 'lifting' if self.lifting else 'G→G'
    return f'|G| = {self.group().order}, {kind}'

  @nn.compact
  def __call__(self, x: Array) -> jax.Array:
    """Applies the layer to x [..., *S, C] or [..., *S, |G|, C]."""
    x, own = kernels.as_array(x, 'x'), self.sharing()
    shape = own.num_weights, *(x.shape[-1:] or (1,)), self.features
    _, space = _split_shape(x.shape, shape, own.kernel.shape, self.lifting)
    if not self.lifting and x.ndim == len(self.kernel_size) + 2:
      warnings.warn(
        f'x of shape {x.shape} was taken for a single image without batch axis,'
        f' with {x.shape[-2]} group elements; if it is a batch of images, this'
        ' layer needs lifting=True',
        stacklevel=2,
      )
    geometry = self.strides, self.padding, self.kernel_dilation
    windows.frame(space, self.kernel_size, *geometry, self.group())  # raises
    x, weights, bias, index = self._parameters(own, x, x.shape[-1:])
    options = *geometry, self.precision, self.method
    return shared_conv(
      x, weights, index['kernel'], self.lifting, bias, *options
    )
