import functools
import itertools

import chex
from flax import linen as nn
from flax import nnx
import jax
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np
import pytest

import aen
from aen.nn import group_cnn
from aen.nn import windows
from tests.precision import enable_x64


def transpose(x):
  return np.swapaxes(x, 0, 1)


def mirror(x):
  return x[::-1]


def cycle_axes(x):
  """Rotates the cube about its diagonal."""
  return np.moveaxis(x, 0, 2)


SIX = group_cnn.GROUPS
# name -> (symmetries, spatial axes, |G|)
CATALOGUE = {
  **{name: (names, 2, None) for name, names in SIX.items()},
  'diagonal': ((transpose,), 2, 2),
  'rotation by 180°': ((lambda x: x[::-1, ::-1],), 2, 2),
  'line': ((), 1, 1),
  'mirrored line': ((mirror,), 1, 2),
  'layers': ((mirror,), 3, 2),
  'diagonal rotations': ((cycle_axes,), 3, 3),
  'columns': (('rotation', 'horizontal_flip'), 3, 8),
}


def normal(shape, seed=0, dtype=np.float32):
  return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def noise(key, shape, dtype):
  """As good as random here, and quick to compile."""
  del key
  entries = jnp.sin(1e3 * jnp.sqrt(1.0 + np.arange(np.prod(shape)))) / 4
  return entries.reshape(shape).astype(dtype)


def layer(names, ndim, **changes):
  settings = {
    'features': 3,
    'kernel_size': (3,) * ndim,
    'padding': 'VALID',
    'kernel_init': noise,
    'bias_init': noise,
  }
  return aen.EquivariantConv(names, **{**settings, **changes})


def two_layers(names, ndim, method, **changes):
  """A lifting layer and one after it, as one function of x."""
  make = functools.partial(layer, names, ndim, method=method)
  first = make(lifting=True, features=2)
  second = make(**changes)

  def init(key, x):
    y, first_variables = first.init_with_output(key, x)
    return first_variables, second.init(key, y)

  def apply(variables, x):
    return second.apply(variables[1], nn.relu(first.apply(variables[0], x)))

  return jax.jit(init), jax.jit(apply)


@pytest.mark.parametrize('name', CATALOGUE)
def test_equivariance_over_the_catalogue(name):
  names, ndim, order = CATALOGUE[name]
  group = aen.group(names, ndim)
  assert order in (None, group.order)
  side = 7 if ndim < 3 else 5
  x = normal((2, *(side,) * ndim, 2))
  init, apply = two_layers(names, ndim, 'patches')
  variables = init(jax.random.key(0), x)
  out = (side - 4,) * ndim
  assert apply(variables, x).shape == (2, *out, group.order, 3)
  elements = [group.symmetry(g) for g in range(group.order)]
  for generators in (names, elements):
    aen.assert_equivariant(
      functools.partial(apply, variables),
      generators,
      (side,) * ndim,
      out,
      x=x,
      group_axis=True,
    )


@pytest.mark.parametrize('name', ['D4', 'mirrored line', 'diagonal rotations'])
def test_both_methods_agree_and_so_do_their_gradients(name):
  names, ndim, _ = CATALOGUE[name]
  x = normal((2, *(5,) * ndim, 2))
  results = []
  for method in windows.METHODS:
    init, apply = two_layers(names, ndim, method)
    variables = init(jax.random.key(0), x)

    @jax.jit
    def gradient(variables, x, apply=apply):
      return jax.grad(lambda *a: jnp.sin(apply(*a)).sum(), (0, 1))(variables, x)

    results.append((apply(variables, x), gradient(variables, x)))
  chex.assert_trees_all_close(*results, rtol=1e-4, atol=1e-4)


def by_definition(x, kernel, group, lifting):
  """y[p, k] = Σ_r Σ_h ψ(k⁻¹ r, k⁻¹ h) x[p + r, h], ψ = kernel[..., k = e]."""
  sides = kernel.shape[: group.ndim]
  centre = (np.array(sides) - 1) / 2
  elements = [0] if lifting else range(group.order)
  space = tuple(np.array(x.shape[: group.ndim]) - sides + 1)
  y = np.zeros((*space, group.order, kernel.shape[-1]))
  for k, r, h in itertools.product(
    range(group.order), np.ndindex(*sides), elements
  ):
    source = group.elements[group.inverse[k]] @ (np.array(r) - centre) + centre
    offset = tuple(np.rint(source).astype(int))
    if lifting:
      weights, values = kernel[(*offset, 0)], x
    else:
      weights = kernel[(*offset, group.table[group.inverse[k], h], 0)]
      values = x[..., h, :]
    window = tuple(slice(a, a + n) for a, n in zip(r, space, strict=True))
    y[..., k, :] += values[window] @ weights
  return y


@pytest.mark.parametrize('lifting', [True, False])
@pytest.mark.parametrize('name', CATALOGUE)
def test_against_the_definition(name, lifting):
  names, ndim, _ = CATALOGUE[name]
  group = aen.group(names, ndim)
  side = 6 if ndim < 3 else 4
  axes = (2,) if lifting else (group.order, 2)
  x = normal((2, *(side,) * ndim, *axes))
  sharing = aen.conv_sharing(group, (3,) * ndim, lifting)
  weights = normal((sharing.num_weights, 2, 3), seed=1)
  kernel = weights[sharing.kernel].astype(np.float64)
  expected = [by_definition(xi, kernel, group, lifting) for xi in x]
  for method in windows.METHODS:
    convolve = functools.partial(
      aen.shared_conv,
      index=sharing.kernel,
      lifting=lifting,
      padding='VALID',
      method=method,
    )
    got = jax.jit(convolve)(x, weights)
    np.testing.assert_allclose(
      got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize(
  'settings',
  [
    {},
    {'strides': 2},
    {'padding': 'VALID', 'kernel_dilation': 2},
    {'padding': [(1, 2), (0, 1)], 'strides': (1, 2)},
    {'padding': 1, 'use_bias': False},
  ],
)
@pytest.mark.parametrize('method', windows.METHODS)
def test_without_symmetry_it_is_a_plain_convolution(settings, method):
  x = normal((2, 3, 8, 9, 2))
  plain = nn.Conv(4, (3, 2), **settings)
  ours = aen.EquivariantConv(
    (),
    4,
    (3, 2),
    **settings,
    kernel_init=noise,
    lifting=True,
    method=method,
  )

  @jax.jit
  def both(x):
    y, variables = ours.init_with_output(jax.random.key(0), x)
    return y, plain.apply({'params': aen.to_dense(ours, variables)}, x)

  y, expected = both(x)
  np.testing.assert_allclose(y.squeeze(-2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('lifting', [True, False])
@pytest.mark.parametrize('name', CATALOGUE)
def test_export_to_plain_convolutions(name, lifting):
  names, ndim, _ = CATALOGUE[name]
  order = aen.group(names, ndim).order
  x = normal((2, *(5,) * ndim, *((2,) if lifting else (order, 2))))
  ours = layer(names, ndim, lifting=lifting)
  plain = nn.Conv(order * 3, (3,) * ndim, padding='VALID')

  @jax.jit
  def both(x):
    y, variables = ours.init_with_output(jax.random.key(0), x)
    merged = x.reshape(*x.shape[: 1 + ndim], -1)
    params = aen.to_dense(ours, variables)
    return y.reshape(*merged.shape[:1], -1), plain.apply(
      {'params': params}, merged
    ).reshape(merged.shape[0], -1)

  np.testing.assert_allclose(*both(x), rtol=1e-5, atol=1e-5)


def test_a_few_images_at_a_time(monkeypatch):
  x = normal((6, 9, 9, 2))
  ours = layer(SIX['P4'], 2, lifting=True, method='patches')
  variables = jax.jit(ours.init)(jax.random.key(0), x)

  def value_and_gradient():
    def loss(variables, x):
      y = ours.apply(variables, x)
      return jnp.sin(y).sum(), y

    return jax.jit(jax.grad(loss, (0, 1), has_aux=True))(variables, x)

  whole = value_and_gradient()
  monkeypatch.setattr(windows, '_CACHE_BYTES', 1)
  for size, limit in ((3, 4 * 7 * 7 * 18 * 5), (1, 1)):
    monkeypatch.setattr(windows, '_CHUNK_BYTES', limit)
    assert windows._chunk_size(6, 4 * 7 * 7 * 18) == size
    chex.assert_trees_all_close(
      value_and_gradient(), whole, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
  'size', [pytest.param(1, marks=pytest.mark.slow), 2**22]
)
def test_forward_mode_with_the_index_as_data(size, monkeypatch):
  """And a second derivative: forward over reverse."""
  monkeypatch.setattr(windows, '_CACHE_BYTES', size)
  x, tangent = normal((2, 4, 4, 2)), normal((2, 4, 4, 2), seed=1)
  ours = layer(SIX['H2'], 2, lifting=True, method='patches')
  variables = {
    **jax.jit(ours.init)(jax.random.key(0), x),
    **aen.sharing_variables(ours),
  }

  def pooled(x):
    y = aen.spatial_pool(ours.apply(variables, x), aen.group(SIX['H2']))
    return jnp.sin(y).sum()

  gradient = jax.grad(pooled)
  value, along = jax.jit(lambda x: jax.jvp(pooled, (x,), (tangent,)))(x)
  np.testing.assert_allclose(value, pooled(x), rtol=1e-5)
  np.testing.assert_allclose(along, np.vdot(gradient(x), tangent), rtol=1e-4)
  _, forward = jax.jit(lambda x: jax.jvp(gradient, (x,), (tangent,)))(x)
  reverse = jax.grad(lambda x: jnp.vdot(gradient(x), tangent))(x)
  np.testing.assert_allclose(forward, reverse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('chunked', [False, True])
@pytest.mark.parametrize(
  'settings',
  [
    {},
    {'padding': 'SAME'},
    {'strides': 2},
    {'kernel_dilation': 2, 'padding': [(0, 2), (1, 0)]},
    {'strides': 3},
  ],
)
def test_gradients_against_those_of_xla(settings, chunked, monkeypatch):
  """Of inputs, kernel and bias, over geometries, fewer and more features."""
  if chunked:
    monkeypatch.setattr(windows, '_CACHE_BYTES', 1)
  index = np.arange(9).reshape(3, 3, 1)
  for channels, features in ((1, 12), (5, 4)):
    args = (
      normal((4, 9, 12, channels)),
      normal((9, channels, features), seed=1),
      normal((features,), seed=2),
    )

    def gradients(method, args=args):
      def loss(x, weights, bias):
        geometry = {'padding': 'VALID', **settings}
        y = aen.shared_conv(
          x, weights, index, True, bias, method=method, **geometry
        )
        return jnp.sin(y).sum()

      return jax.jit(jax.grad(loss, (0, 1, 2)))(*args)

    chex.assert_trees_all_close(
      gradients('patches'), gradients('conv'), rtol=1e-5, atol=2e-5
    )


def test_any_initialiser_sees_the_true_fan_in():
  seen = []

  def init(key, shape, dtype):
    seen.append(shape)
    return nn.initializers.lecun_normal()(key, shape, dtype)

  x = normal((1, 5, 5, 4, 30))
  ours = aen.EquivariantConv(('rotation',), 50, (3, 3), kernel_init=init)
  kernel = jax.jit(ours.init)(jax.random.key(0), x)['params']['kernel']
  assert seen == [(3, 3, 4 * 30, 4 * 50)]
  assert kernel.shape == (36, 30, 50)
  assert np.var(kernel) == pytest.approx(1 / (9 * 4 * 30), rel=0.05)


def test_without_symmetry_initial_values_are_those_of_flax():
  x = normal((1, 5, 5, 2))
  plain = nn.Conv(3, (3, 3)).init(jax.random.key(0), x)['params']
  ours = layer((), 2, lifting=True, kernel_init=nn.Conv.kernel_init)
  ours = ours.init(jax.random.key(0), x)['params']
  np.testing.assert_array_equal(
    ours['kernel'].reshape(plain['kernel'].shape), plain['kernel']
  )


def test_dtypes():
  x = normal((1, 5, 5, 2))
  half = layer(SIX['P4'], 2, lifting=True, dtype=jnp.bfloat16)
  y, variables = jax.eval_shape(half.init_with_output, jax.random.key(0), x)
  assert y.dtype == jnp.bfloat16
  assert variables['params']['kernel'].dtype == jnp.float32
  with enable_x64(True):
    init, apply = two_layers(SIX['D4'], 2, 'patches', param_dtype=np.float64)
    x = normal((2, 7, 7, 2), dtype=np.float64)
    variables = init(jax.random.key(0), x)
    variables = jax.tree.map(lambda leaf: leaf.astype(np.float64), variables)
    aen.assert_equivariant(
      functools.partial(apply, variables),
      SIX['D4'],
      (7, 7),
      (3, 3),
      x=x,
      group_axis=True,
    )


def test_gradients_against_finite_differences():
  ours = layer(SIX['P4'], 2, features=1, padding='SAME')
  with enable_x64(True):
    x = normal((1, 3, 3, 4, 1), dtype=np.float64)
    variables = jax.jit(ours.init)(jax.random.key(1), x)
    variables = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), variables)
    check_grads(jax.jit(ours.apply), (variables, x), order=1, modes=('rev',))


def test_groups_of_one_order_are_one_program():
  """With the indices as data: H2 computes V2, and P4 computes H2V2."""
  x = normal((2, 5, 5, 4, 2))
  one, other = (layer(SIX[name], 2) for name in ('P4', 'H2V2'))
  own = jax.jit(other.init_with_output)(jax.random.key(0), x)

  @jax.jit
  @chex.assert_max_traces(n=1)
  def given(shared):
    rngs = {'params': jax.random.key(0)}
    return one.apply(shared, x, rngs=rngs, mutable='params')

  given(aen.sharing_variables(one))
  chex.assert_trees_all_close(
    given(aen.sharing_variables(other)), own, rtol=1e-6, atol=1e-6
  )


def test_vmap_over_seeds_and_from_nnx():
  x = normal((2, 5, 5, 4, 2))
  ours = layer(SIX['P4'], 2)
  keys = jax.random.split(jax.random.key(0), 3)
  several = jax.jit(jax.vmap(ours.init, (0, None)))(keys, x)
  y = jax.jit(jax.vmap(ours.apply, (0, None)))(several, x)
  assert y.shape == (3, 2, 3, 3, 4, 3)
  bridged = nnx.bridge.ToNNX(ours, rngs=nnx.Rngs(0)).lazy_init(x)

  @nnx.jit
  def gradient(model):
    return nnx.grad(lambda model: (model(x) ** 2).sum())(model)

  leaves = jax.tree.leaves(gradient(bridged))
  assert len(leaves) == 2
  assert all(leaf.any() for leaf in leaves)


@pytest.mark.parametrize('how', ['max', 'mean'])
def test_pooling(how):
  group = aen.group(SIX['D4'])
  init, apply = two_layers(SIX['D4'], 2, 'patches')
  x = normal((2, 13, 13, 1))
  features = functools.partial(apply, init(jax.random.key(0), x))
  pool = jax.jit(aen.spatial_pool, static_argnums=(1, 2, 3, 4))
  for window, strides, side in ((3, None, 3), (3, 2, 4), (1, 4, 3)):
    aen.assert_equivariant(
      lambda x: pool(features(x), group, window, strides, how),  # noqa: B023
      SIX['D4'],
      (13, 13),
      (side, side),
      x=x,
      group_axis=True,
    )
  aen.assert_equivariant(
    lambda x: aen.group_pool(features(x), how), SIX['D4'], (13, 13), (9, 9), x=x
  )
  reduce = {'max': nn.max_pool, 'mean': nn.avg_pool}[how]
  y = np.asarray(features(x))
  np.testing.assert_allclose(
    pool(y, group, 3, None, how).reshape(2, 3, 3, -1),
    reduce(y.reshape(2, 9, 9, -1), (3, 3), (3, 3)),
    rtol=1e-5,
    atol=1e-6,
  )


@pytest.mark.parametrize(('window', 'strides'), [(2, None), (3, 2), (3, 3)])
def test_gradient_of_max_pooling(window, strides):
  """Equal maxima of a window share its gradient; both modes agree on it."""
  x = np.random.default_rng(0).integers(0, 3, (2, 7, 7, 1, 2)).astype('f4')
  trivial = aen.group(())
  pool = functools.partial(
    aen.spatial_pool, group=trivial, window=window, strides=strides
  )
  y, transpose_of_pool = jax.vjp(pool, x)
  gradient = normal(y.shape, seed=1)
  expected, step = np.zeros_like(x), strides or window
  for b, i, j, _, c in np.ndindex(*y.shape):
    rows, columns = (slice(k * step, k * step + window) for k in (i, j))
    tile = x[b, rows, columns, 0, c]
    assert y[b, i, j, 0, c] == tile.max()
    mask = tile == tile.max()
    share = gradient[b, i, j, 0, c] / mask.sum()
    expected[b, rows, columns, 0, c] += mask * share
  (got,) = transpose_of_pool(gradient)
  np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
  tangent = normal(x.shape, seed=2)
  _, along = jax.jvp(pool, (x,), (tangent,))
  np.testing.assert_allclose(
    np.vdot(along, gradient), np.vdot(tangent, expected), rtol=1e-5
  )


def test_the_gradient_of_max_pooling_is_equivariant():
  """Even where maxima are equal, as they are on a plain background."""
  x = np.random.default_rng(0).integers(0, 3, (1, 8, 8, 1, 1)).astype('f4')
  trivial = aen.group(())
  gradient = jax.jit(jax.grad(lambda x: (aen.spatial_pool(x, trivial)).sum()))
  rotated = np.rot90(x, axes=(1, 2))
  np.testing.assert_array_equal(
    gradient(rotated), np.rot90(gradient(x), axes=(1, 2))
  )


def test_strides_and_padding_that_keep_equivariance():
  for settings, side, out in (
    ({'strides': 2, 'padding': 'SAME'}, 9, 4),
    ({'strides': 2}, 9, 3),
    ({'kernel_dilation': 2}, 9, 3),
    ({'kernel_size': (2, 2)}, 9, 6),
    ({'kernel_size': (2, 2), 'padding': 1}, 9, 8),
  ):
    init, apply = two_layers(SIX['D4'], 2, 'patches', **settings)
    x = normal((1, side, side, 1))
    aen.assert_equivariant(
      functools.partial(apply, init(jax.random.key(0), x)),
      SIX['D4'],
      (side, side),
      (out, out),
      x=x,
      group_axis=True,
    )


def test_padding_needs_to_be_only_as_symmetric_as_the_group():
  pads = [(0, 1), (0, 1)]
  x = normal((1, 6, 6, 1))
  ours = layer((transpose,), 2, padding=pads, lifting=True)
  variables = jax.jit(ours.init)(jax.random.key(0), x)
  aen.assert_equivariant(
    functools.partial(jax.jit(ours.apply), variables),
    (transpose,),
    (6, 6),
    (5, 5),
    x=x,
    group_axis=True,
  )
  with pytest.raises(ValueError, match='reflected, so padding must be'):
    layer(SIX['D4'], 2, padding=pads, lifting=True).init(jax.random.key(0), x)


def test_a_rotated_wide_image_is_a_tall_one():
  ours = layer(SIX['P4'], 2, lifting=True)
  wide = normal((5, 9, 2))
  variables = jax.jit(ours.init)(jax.random.key(0), wide[None])
  y, rotated = (
    np.asarray(jax.jit(ours.apply)(variables, x[None])[0])
    for x in (wide, np.rot90(wide).copy())
  )
  group = aen.group(SIX['P4'])
  came_from = group.table[group.inverse[group.find('rotation')]]
  np.testing.assert_allclose(
    rotated, np.rot90(y)[:, :, came_from], rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize(
  ('names', 'settings', 'side', 'message'),
  [
    (('horizontal_translation',), {}, 8, 'already built into'),
    (('vertical_translation',), {}, 8, 'already built into'),
    (('rotation_scramble',), {}, 8, 'need EquivariantDense'),
    (('rotation',), {'kernel_size': (3, 5)}, 8, 'square kernel'),
    (('rotation',), {'kernel_size': 3}, 8, r'such as \(3, 3\)'),
    (('rotation',), {'kernel_size': (2, 2), 'padding': 'SAME'}, 8, 'odd'),
    (('rotation',), {'strides': 2}, 8, 'size of 7 or 9'),
    (('horizontal_flip',), {'strides': 2}, 8, 'leave 1 of 8 points'),
    (('rotation',), {'strides': (1, 2)}, 9, 'same stride'),
    (('rotation',), {'kernel_dilation': (1, 2)}, 9, 'dilation'),
    ((), {'kernel_size': (9, 9)}, 8, 'larger images'),
    ((), {'padding': 'FULL'}, 8, "padding must be 'SAME'"),
    ((), {'padding': (1,)}, 8, 'padding must be'),
    ((), {'strides': 0}, 8, 'strides must be'),
    ((), {'strides': (1, 1, 1)}, 8, 'one per spatial axis'),
    ((), {'method': 'fft'}, 8, 'method must be'),
    ((), {'features': 0}, 8, 'features must be'),
  ],
)
def test_what_cannot_be_is_said(names, settings, side, message):
  with pytest.raises(ValueError, match=message):
    layer(names, 2, lifting=True, **settings).init(
      jax.random.key(0), normal((1, side, side, 1))
    )


def test_without_reflections_any_stride_is_right():
  for names in ((), (transpose,)):
    ours = layer(names, 2, strides=2, lifting=True)
    y, _ = jax.eval_shape(
      ours.init_with_output, jax.random.key(0), normal((1, 8, 8, 1))
    )
    assert y.shape[1:3] == (3, 3)


def test_wrong_inputs():
  x = normal((1, 8, 8, 4, 2))
  ours = layer(SIX['P4'], 2)
  variables = jax.jit(ours.init)(jax.random.key(0), x)
  with pytest.raises(ValueError, match='only the first layer lifts'):
    ours.apply(variables, x[..., :2, :])
  with pytest.raises(ValueError, match='belong to another layer'):
    aen.to_dense(layer(SIX['D4'], 2), variables)
  with pytest.raises(ValueError, match='expand is for dense layers'):
    aen.expand(ours, variables, layer((), 2))
  with pytest.raises(ValueError, match='how must be'):
    aen.group_pool(x, 'sum')
  with pytest.raises(ValueError, match='size of 6 or 8'):
    aen.spatial_pool(x[:, :7, :7], aen.group(SIX['P4']))
  with pytest.raises(ValueError, match=r'weights \[W, C, F\]'):
    aen.shared_conv(x, np.ones(3), np.zeros((3, 3, 4), int), lifting=True)
  assert aen.spatial_pool(x[:, :3, :3], aen.group(())).shape[1:3] == (1, 1)
  index = ours.sharing().kernel
  kernel = variables['params']['kernel']
  for shape in ((1,), (4, 3), (1, 3)):  # would broadcast
    with pytest.raises(AssertionError, match='shape'):
      aen.shared_conv(x, kernel, index, False, jnp.ones(shape))


def test_frames_count_places():
  frame = windows.frame((8, 9), (3, 2), 2, 'SAME')
  assert (frame.spans, frame.places) == ((3, 2), (4, 5))
  assert 'G→G' in repr(layer(SIX['P4'], 2))


@pytest.mark.parametrize('number', [1, np.int64(1), np.uint8(1)])
def test_padding_takes_whole_numbers_of_any_type(number):
  x = np.ones((1, 4, 4, 1), np.float32)
  for padding in (number, (number, number), ((number, 1), (1, number))):
    layer = aen.EquivariantConv(
      ('rotation',), 1, (3, 3), padding=padding, lifting=True
    )
    y, _ = layer.init_with_output(jax.random.key(0), x)
    assert y.shape == (1, 4, 4, 4, 1)


@pytest.mark.parametrize(
  'padding', [1.0, -1, None, (1, 'a'), ((1, 2, 3), 1), {1, 2}, {1: 1, 2: 2}]
)
def test_other_paddings_are_said(padding):
  layer = aen.EquivariantConv(
    ('rotation',), 1, (3, 3), padding=padding, lifting=True
  )
  with pytest.raises(ValueError, match='padding must be'):
    layer.init(jax.random.key(0), np.ones((1, 4, 4, 1), np.float32))


@pytest.mark.parametrize('strides', [1, 2])
@pytest.mark.parametrize('ndim', [1, 2])
def test_circular_padding_is_that_of_flax(ndim, strides):
  x = normal((2, *(8,) * ndim, 3))
  ours = layer((), ndim, padding='CIRCULAR', strides=strides, lifting=True)
  variables = ours.init(jax.random.key(0), x)
  plain = nn.Conv(3, (3,) * ndim, padding='CIRCULAR', strides=strides)
  params = aen.to_dense(ours, variables['params'])
  expected = plain.apply({'params': params}, x)
  found = ours.apply(variables, x)
  np.testing.assert_allclose(
    found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize('name', SIX)
def test_circular_padding_is_equivariant_to_shifts_and_to_the_group(name):
  first = layer(SIX[name], 2, padding='CIRCULAR', lifting=True)
  second = layer(SIX[name], 2, padding='CIRCULAR')
  x = normal((2, 6, 6, 2))
  lifted, variables = first.init_with_output(jax.random.key(0), x)
  y, others = second.init_with_output(jax.random.key(1), lifted)

  def both(x):
    return second.apply(others, first.apply(variables, x))

  shifted = np.roll(x, (1, 2), axis=(1, 2))
  np.testing.assert_allclose(
    both(shifted), np.roll(y, (1, 2), axis=(1, 2)), rtol=1e-4, atol=1e-5
  )
  group = first.group()
  for g in range(group.order):
    act = group.symmetry(g)
    moved = np.stack([act(image) for image in x])
    expected = np.stack([act(image) for image in np.asarray(y)])
    expected = expected[:, :, :, group.table[group.inverse[g]]]
    np.testing.assert_allclose(both(moved), expected, rtol=1e-4, atol=1e-5)


def test_a_batch_that_is_taken_for_one_image_is_warned_of():
  forgot = layer(('rotation',), 2, padding='SAME')
  with pytest.warns(UserWarning, match='needs lifting=True'):
    forgot.init(jax.random.key(0), normal((5, 5, 4, 3)))
