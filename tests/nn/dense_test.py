import functools
import tracemalloc

import chex
from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import aen
from aen.groups.symmetries import PAPER_SYMMETRIES
from tests.precision import enable_x64

GRIDS = [((28, 28), (20, 20)), ((8, 8), (4, 4)), ((6, 4), (4, 2))]
SETS = [
  (),
  *((name,) for name in PAPER_SYMMETRIES),
  ('rotation', 'horizontal_flip'),
  ('rotation', 'left_vertical_scramble'),
  ('horizontal_flip', 'vertical_flip'),
  ('horizontal_translation', 'vertical_translation'),
  ('top_horizontal_scramble', 'bottom_horizontal_scramble'),
  ('rotation_scramble', 'vertical_flip'),
  tuple(PAPER_SYMMETRIES),
]
LAYERS = {
  'plain': {},
  'channels': {'features': 3},
  'invariant': {'invariant': True},
}


def acts_on(name, grid):
  try:
    aen.permutation(name, grid)
  except ValueError:
    return False
  return True


def inputs(layer, dtype=np.float32, channels=2):
  size = (5, *layer.in_shape, *((channels,) if layer.features else ()))
  return np.random.default_rng(0).standard_normal(size).astype(dtype)


def compiled(layer, x):
  """One program each for all symmetries: init, apply, three steps of Adam."""
  optimizer = optax.adam(1e-3)

  @jax.jit
  def init(key, shared):
    rngs = {'params': key}
    return layer.apply(shared, x, rngs=rngs, mutable='params')[1]['params']

  @jax.jit
  def apply(params, shared, x):
    return layer.apply({'params': params, **shared}, x)

  @jax.jit
  def train(params, shared, target):
    def loss(params):
      return jnp.mean((apply(params, shared, x) - target) ** 2)

    def step(carry, _):
      params, state = carry
      value, gradient = jax.value_and_grad(loss)(params)
      updates, state = optimizer.update(gradient, state)
      return (optax.apply_updates(params, updates), state), value

    carry = params, optimizer.init(params)
    (params, _), losses = jax.lax.scan(step, carry, length=3)
    return params, losses

  return init, apply, train


@pytest.mark.parametrize('kind', LAYERS)
@pytest.mark.parametrize(('in_shape', 'out_shape'), GRIDS)
@pytest.mark.parametrize(
  'x64',
  [
    pytest.param(False, id='float32'),
    pytest.param(True, id='float64', marks=pytest.mark.slow),
  ],
)
def test_equivariance_before_and_after_training(kind, in_shape, out_shape, x64):
  dtype = np.float64 if x64 else np.float32
  make = functools.partial(
    aen.EquivariantDense,
    in_shape=in_shape,
    out_shape=out_shape,
    param_dtype=dtype,
    bias_init=nn.initializers.normal(1.0),
    max_weights=int(np.prod(in_shape) * np.prod(out_shape)),
    **LAYERS[kind],
  )
  names = [n for n in aen.SYMMETRIES if acts_on(n, in_shape)]
  assert len(names) == len(aen.SYMMETRIES) or in_shape == (6, 4)
  with enable_x64(x64):
    layer = make(())
    x = inputs(layer, dtype, channels=1 if in_shape == (28, 28) else 2)
    init, apply, train = compiled(layer, x)
    for name in names:
      shared = aen.sharing_variables(make((name,)))
      fresh = init(jax.random.key(0), shared)
      y = apply(fresh, shared, x)
      assert y.dtype == dtype
      target = np.random.default_rng(7).standard_normal(y.shape, dtype)
      trained, losses = train(fresh, shared, target)
      first, _, last = np.asarray(losses)
      assert last < first
      for params in (fresh, trained):
        aen.assert_equivariant(
          functools.partial(apply, params, shared),
          (name,),
          in_shape,
          None if layer.invariant else out_shape,
          x=x,
          tolerance=1e-12 if x64 else 1e-5,
        )


def test_without_bias():
  layer = aen.EquivariantDense(('rotation',), (8, 8), (4, 4), use_bias=False)
  variables = layer.init(jax.random.key(0), inputs(layer))
  assert set(variables['params']) == {'kernel'}
  assert set(aen.to_dense(layer, variables)) == {'kernel'}
  assert not layer.apply(variables, np.zeros((1, 8, 8))).any()
  assert set(aen.expand(layer, variables, layer)) == {'kernel'}


def test_the_checks_notice_a_broken_layer():
  layer = aen.EquivariantDense(('rotation',), (8, 8), (4, 4))
  variables = layer.init(jax.random.key(0), inputs(layer))
  other = aen.sharing_variables(
    aen.EquivariantDense(('vertical_flip',), (8, 8), (4, 4))
  )
  with pytest.raises(AssertionError, match='not equivariant to rotation'):
    aen.assert_equivariant(
      functools.partial(layer.apply, {**variables, **other}),
      ('rotation',),
      (8, 8),
      (4, 4),
    )


@pytest.mark.parametrize('names', SETS, ids='+'.join)
@pytest.mark.parametrize('features', [None, 3])
def test_parameters_are_one_per_orbit(names, features):
  layer = aen.EquivariantDense(names, (28, 28), (20, 20), features)
  shapes = jax.eval_shape(layer.init, jax.random.key(0), inputs(layer))
  shared = aen.dense_sharing(names, (28, 28), (20, 20))
  channels = (2, 3) if features else ()
  assert shapes['params']['kernel'].shape == (shared.num_weights, *channels)
  assert shapes['params']['bias'].shape == (shared.num_biases, *channels[1:])
  assert set(shapes) == {'params'}


def test_output_variance_is_the_dense_layers():
  """Over 1500 keys and inputs, as for Flax's own Dense: its fan-in is ours."""
  layer = padded_layer(())
  keys = jax.random.split(jax.random.key(1), 1500)

  @jax.jit
  def ours(candidates):
    def mean_squares(key):  # of all candidates, from one draw
      x_key, init_key = jax.random.split(key)
      x = jax.random.normal(x_key, (2, 8, 8))
      rngs = {'params': init_key}
      return jax.vmap(
        lambda shared: jnp.mean(
          layer.apply(shared, x, rngs=rngs, mutable=True)[0] ** 2
        )
      )(candidates)

    return jax.lax.map(mean_squares, keys, batch_size=100).mean(axis=0)

  @jax.jit
  @jax.vmap
  def flax(key):
    x_key, init_key = jax.random.split(key)
    x = jax.random.normal(x_key, (2, 64))
    return jnp.mean(nn.Dense(16).init_with_output(init_key, x)[0] ** 2)

  expected = flax(keys).mean()
  for names, variance in zip(SETS, ours(stacked_sharing()), strict=True):
    assert abs(variance / expected - 1) < 0.05, names


@pytest.mark.parametrize(
  'init',
  [
    nn.initializers.lecun_normal(),
    nn.initializers.he_uniform(),
    nn.initializers.orthogonal(),
    nn.initializers.xavier_normal(),
    nn.initializers.constant(2.0),
  ],
)
def test_any_initialiser_sees_the_true_fan_in(init):
  for features, channels in ((None, 1), (3, 2)):
    layer = aen.EquivariantDense(
      ('rotation',), (8, 8), (4, 4), features, use_bias=False, kernel_init=init
    )
    key = jax.random.key(3)
    kernel = layer.init(key, inputs(layer))['params']['kernel']
    # The same draw, through Flax's own layer: every weight is one entry of it.
    dense = nn.Dense(16 * (features or 1), kernel_init=init)
    drawn = dense.init(key, jnp.ones((1, 64 * channels)))['params']['kernel']
    shared = aen.to_dense(layer, {'kernel': kernel})['kernel']
    _, first = np.unique(layer.sharing().kernel, return_index=True)
    row, column = np.divmod(first, 16)
    shape = (64, channels, 16, features or 1)
    np.testing.assert_array_equal(
      drawn_key_entries(shared, shape, row, column),
      drawn_key_entries(drawn, shape, row, column),
    )


def drawn_key_entries(kernel, shape, row, column):
  return np.asarray(kernel).reshape(shape)[row, :, column]


def test_without_symmetries_it_is_flax_dense():
  layer, dense = aen.EquivariantDense((), (4, 4), (3,)), nn.Dense(3)
  x = inputs(layer)
  ours, ours_params = layer.init_with_output(jax.random.key(0), x)
  theirs, params = dense.init_with_output(jax.random.key(0), x.reshape(5, 16))
  np.testing.assert_array_equal(ours, theirs)
  kernel = ours_params['params']['kernel'].reshape(16, 3)
  np.testing.assert_array_equal(kernel, params['params']['kernel'])


def test_attributes_are_those_of_flax_dense_in_its_order():
  flax = [
    f for f in nn.Dense.__dataclass_fields__ if f not in ('parent', 'name')
  ]
  ours = list(aen.EquivariantDense.__dataclass_fields__)
  common = [f for f in flax if f in ours]
  assert common == [f for f in ours if f in flax]
  assert set(flax) - set(common) <= {
    'promote_dtype',
    'dot_general',
    'dot_general_cls',
    'preferred_element_type',
  }
  for name in ('use_bias', 'dtype', 'param_dtype', 'precision'):
    assert (
      aen.EquivariantDense.__dataclass_fields__[name].default
      == nn.Dense.__dataclass_fields__[name].default
    )


@pytest.mark.parametrize('features', [None, 3])
def test_functional_core_against_a_literal_sum(features):
  rng = np.random.default_rng(0)
  index = rng.integers(0, 5, (6, 4))
  channels = (2, features) if features else ()
  weights = rng.standard_normal((5, *channels))
  bias = rng.standard_normal((3, *channels[1:]))
  bias_index = rng.integers(0, 3, 4)
  x = rng.standard_normal((7, 6, *channels[:1]))
  y = aen.shared_dense(x, weights, index, bias, bias_index)
  for m in range(4):
    total = bias[bias_index[m]] + sum(
      x[:, n] @ weights[index[n, m]]
      if features
      else x[:, n] * weights[index[n, m]]
      for n in range(6)
    )
    np.testing.assert_allclose(y[:, m], total, rtol=2e-5, atol=1e-5)


def summed_sines(weights, x, index):
  return jnp.sum(jnp.sin(aen.shared_dense(x, weights, index)))


# The index as data: one program for all symmetries.
gradient_of_the_plain_gather = jax.jit(jax.grad(summed_sines))


@pytest.mark.parametrize('features', [None, 3])
@pytest.mark.parametrize('names', SETS[1:], ids='+'.join)
def test_gradients_are_those_of_the_plain_gather(names, features):
  shared = aen.dense_sharing(names, (8, 8), (4, 4))
  channels = (2, features) if features else ()
  rng = np.random.default_rng(0)
  weights = rng.standard_normal((64 * 16 + 2, *channels), np.float32)  # padded
  x = rng.standard_normal((5, 64, *channels[:1]), np.float32)
  known = jax.jit(jax.grad(lambda w: summed_sines(w, x, shared.kernel)))(
    weights
  )
  known = np.asarray(known)
  as_data = gradient_of_the_plain_gather(weights, x, shared.kernel)
  np.testing.assert_allclose(known, as_data, rtol=1e-4, atol=1e-4)
  assert not known[shared.num_weights :].any()


def test_batch_axes_may_be_any_number():
  layer = aen.EquivariantDense(('rotation',), (4, 4), (2, 2), features=3)
  x = jax.random.normal(jax.random.key(0), (2, 3, 5, 4, 4, 6))
  y, variables = layer.init_with_output(jax.random.key(1), x)
  assert y.shape == (2, 3, 5, 2, 2, 3)
  alone = layer.apply(variables, x[1, 2, 4])
  np.testing.assert_allclose(alone, y[1, 2, 4], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('names', SETS, ids='+'.join)
@pytest.mark.parametrize('features', [None, 3])
def test_to_dense_is_the_same_function(names, features):
  layer = aen.EquivariantDense(
    names, (8, 8), (4, 4), features, bias_init=nn.initializers.normal()
  )
  x = inputs(layer)
  y, variables = layer.init_with_output(jax.random.key(0), x)
  dense = nn.Dense(16 * (features or 1))
  plain = dense.apply(
    {'params': aen.to_dense(layer, variables)}, x.reshape(5, -1)
  )
  np.testing.assert_allclose(plain.reshape(y.shape), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('features', [None, 2])
@pytest.mark.parametrize('padded', [False, True])
def test_expand_is_the_same_function_with_less_symmetry(features, padded):
  make = functools.partial(
    aen.EquivariantDense,
    in_shape=(8, 8),
    out_shape=(4, 4),
    features=features,
    bias_init=nn.initializers.normal(),
  )
  source = make(('rotation', 'horizontal_flip'))
  x = inputs(source)
  y, variables = source.init_with_output(jax.random.key(0), x)
  for names in (('rotation',), ('vertical_flip',), (), source.symmetries):
    target = make(names, max_weights=64 * 16 if padded else None)
    params = aen.expand(source, variables, target)
    fresh = jax.eval_shape(target.init, jax.random.key(0), x)['params']
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, fresh)
    np.testing.assert_array_equal(target.apply({'params': params}, x), y)


def test_expand_towards_more_symmetry_is_an_error():
  less = aen.EquivariantDense((), (8, 8), (4, 4))
  more = aen.EquivariantDense(('rotation',), (8, 8), (4, 4))
  other = aen.EquivariantDense((), (8, 8), (2, 2))
  variables = less.init(jax.random.key(0), inputs(less))
  with pytest.raises(
    ValueError, match='shares weights that the source keeps apart'
  ):
    aen.expand(less, variables, more)
  with pytest.raises(ValueError, match='same shapes'):
    aen.expand(less, variables, other)


def test_expand_under_jit_and_with_or_without_bias():
  make = functools.partial(
    aen.EquivariantDense, in_shape=(8, 8), out_shape=(4, 4)
  )
  source, target = make(('rotation',)), make(())
  x = inputs(source)
  y, variables = source.init_with_output(jax.random.key(0), x)
  params = jax.jit(lambda v: aen.expand(source, v, target))(variables)
  np.testing.assert_allclose(target.apply({'params': params}, x), y, atol=1e-6)
  with pytest.raises(ValueError, match='has no bias'):
    aen.expand(source, variables, make((), use_bias=False))
  bare = make(('rotation',), use_bias=False)
  y, variables = bare.init_with_output(jax.random.key(0), x)
  params = aen.expand(bare, variables, target)
  np.testing.assert_allclose(target.apply({'params': params}, x), y, atol=1e-6)


@pytest.mark.parametrize('features', [None, 3])
def test_parameters_of_another_layer_are_refused(features):
  other = aen.EquivariantDense(('rotation',), (8, 8), (4, 4), features=2)
  params = other.init(jax.random.key(0), jnp.ones((1, 8, 8, 5)))
  layer = aen.EquivariantDense(('rotation',), (8, 8), (4, 4), features)
  with pytest.raises(ValueError, match='these belong to another layer'):
    aen.to_dense(layer, params)


def test_to_dense_refuses_what_it_does_not_know():
  class Mine(nn.Module):
    @nn.compact
    def __call__(self, x):
      return aen.EquivariantDense(('rotation',), (4, 4), (2, 2))(x)

  variables = Mine().init(jax.random.key(0), jnp.ones((1, 4, 4)))
  for call in (
    lambda: aen.to_dense(Mine(), variables),
    lambda: aen.expand(Mine(), variables, Mine()),
    lambda: aen.sharing_variables(Mine()),
  ):
    with pytest.raises(ValueError, match='one by one, each with its own'):
      call()
  # … as the message says:
  layer = aen.EquivariantDense(('rotation',), (4, 4), (2, 2))
  params = variables['params']['EquivariantDense_0']
  assert aen.to_dense(layer, params)['kernel'].shape == (16, 4)
  other = aen.EquivariantDense((), (4, 4), (2, 2))
  with pytest.raises(ValueError, match='belong to another layer'):
    aen.to_dense(other, params)


def padded_layer(names, max_weights=64 * 16):
  return aen.EquivariantDense(names, (8, 8), (4, 4), max_weights=max_weights)


def stacked_sharing():
  """The sharing variables of all sets, one axis more."""
  shared = [aen.sharing_variables(padded_layer(names)) for names in SETS]
  return jax.tree.map(lambda *leaves: np.stack(leaves), *shared)


@pytest.mark.parametrize('names', SETS, ids='+'.join)
def test_padding_changes_nothing(names):
  exact, padded = padded_layer(names, None), padded_layer(names)
  x = inputs(exact)
  y, variables = exact.init_with_output(jax.random.key(0), x)
  y_padded, padded_variables = padded.init_with_output(jax.random.key(0), x)
  np.testing.assert_allclose(y_padded, y, rtol=1e-6, atol=1e-6)
  num_weights = exact.sharing().num_weights
  kernel = padded_variables['params']['kernel']
  np.testing.assert_array_equal(
    kernel[:num_weights], variables['params']['kernel']
  )
  assert not kernel[num_weights:].any()


def test_one_compilation_serves_twenty_symmetry_sets():
  assert len(SETS) == 20
  assert () in SETS
  assert tuple(PAPER_SYMMETRIES) in SETS
  layer = padded_layer(())
  x = inputs(layer)

  @jax.jit
  @chex.assert_max_traces(n=1)
  def step(params, shared, x):
    def loss(params):
      return jnp.mean(layer.apply({'params': params, **shared}, x) ** 2)

    return jax.value_and_grad(loss)(params)

  @jax.jit
  @chex.assert_max_traces(n=1)
  def init(key, shared):
    return layer.apply(shared, x, rngs={'params': key}, mutable='params')[1][
      'params'
    ]

  for names in SETS:
    own = padded_layer(names)
    shared = aen.sharing_variables(own)
    params = init(jax.random.key(0), shared)
    expected = own.init(jax.random.key(0), x)['params']
    np.testing.assert_array_equal(params['kernel'], expected['kernel'])
    loss, gradient = step(params, shared, x)
    np.testing.assert_allclose(
      loss, jnp.mean(own.apply({'params': expected}, x) ** 2), rtol=1e-5
    )
    assert gradient['kernel'][: own.sharing().num_weights].any()
    assert not gradient['kernel'][own.sharing().num_weights :].any()
  assert step._cache_size() == init._cache_size() == 1


def test_candidates_vmap():
  layer = padded_layer(())
  x = inputs(layer)
  params = layer.init(jax.random.key(0), x)
  batched = jax.vmap(lambda s: layer.apply({**params, **s}, x))(
    stacked_sharing()
  )
  for i, names in enumerate(SETS):
    own = padded_layer(names).apply(params, x)
    np.testing.assert_allclose(batched[i], own, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
def test_mixed_precision(dtype):
  layer = aen.EquivariantDense(('rotation',), (8, 8), (4, 4), dtype=dtype)
  x = inputs(layer)
  y, variables = layer.init_with_output(jax.random.key(0), x)
  assert y.dtype == dtype
  assert variables['params']['kernel'].dtype == jnp.float32
  exact = aen.EquivariantDense(('rotation',), (8, 8), (4, 4))
  np.testing.assert_allclose(
    y.astype(jnp.float32), exact.apply(variables, x), atol=0.1
  )
  low = aen.EquivariantDense(('rotation',), (8, 8), (4, 4), param_dtype=dtype)
  params = low.init(jax.random.key(0), x.astype(dtype))['params']
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype(dtype)}


def test_equal_layers_compile_once():
  """A notebook cell that is run again makes an equal layer."""

  @functools.partial(jax.jit, static_argnums=0)
  @chex.assert_max_traces(n=1)
  def apply(layer, variables, x):
    return layer.apply(variables, x)

  for _ in range(3):
    mirror = aen.Symmetry('mirror', lambda x: x[::-1])
    layer = aen.EquivariantDense([mirror], (6,), (4,))
    x = inputs(layer)
    apply(layer, layer.init(jax.random.key(0), x), x)
  assert apply._cache_size() == 1


@pytest.mark.parametrize(
  ('arguments', 'says'),
  [
    ((('rotation',), (28, 20), (20, 20)), 'rotation needs a square grid'),
    ((('rotation',), (28, 28), (20, 10)), 'rotation needs a square grid'),
    ((('rotated',), (28, 28), (20, 20)), "did you mean 'rotation'"),
    (((lambda x: x * 0,), (4, 4), (4, 4)), 'lost, duplicated or altered'),
    (((), (4, 0), (4, 4)), 'a grid is a tuple of positive whole numbers'),
  ],
)
def test_impossible_layers_are_errors_when_they_are_made(arguments, says):
  with pytest.raises(ValueError, match=says):
    aen.EquivariantDense(*arguments)


def test_making_an_invariant_layer_does_not_list_its_outputs():
  tracemalloc.start()
  try:
    layer = aen.EquivariantDense(
      'rotation', (4, 4), (2**31 - 1,), invariant=True
    )
    assert tracemalloc.get_traced_memory()[1] < 2**24
  finally:
    tracemalloc.stop()
  with pytest.raises(ValueError, match='more than .* kernel entries'):
    layer.sharing()


def test_wrong_inputs_are_errors():
  with pytest.raises(ValueError, match='features must be a whole number'):
    aen.EquivariantDense((), (4, 4), (2, 2), features=0)
  layer = aen.EquivariantDense((), (4, 4), (2, 2))
  with pytest.raises(ValueError, match=r'x of shape \[\.\.\., 4, 4\], got'):
    layer.init(jax.random.key(0), jnp.ones((5, 16)))
  with pytest.raises(ValueError, match='or features, which gives every point'):
    layer.init(jax.random.key(0), jnp.ones((5, 4, 4, 3)))
  channels = aen.EquivariantDense((), (4, 4), (2, 2), features=3)
  with pytest.raises(ValueError, match=r'\[\.\.\., 4, 4, C\]'):
    channels.init(jax.random.key(0), jnp.ones((5, 4, 4)))
  small = aen.EquivariantDense((), (4, 4), (2, 2), max_weights=63)
  with pytest.raises(ValueError, match='at least the 64 free weights'):
    small.init(jax.random.key(0), jnp.ones((5, 4, 4)))
  with pytest.raises(ValueError, match=r'the last axes of x must be \(4,\)'):
    aen.shared_dense(jnp.ones((2, 3)), jnp.ones(2), jnp.zeros((4, 4), int))
  index = np.zeros((4, 4), int)
  with pytest.raises(ValueError, match='bias and bias_index go together'):
    aen.shared_dense(jnp.ones((2, 4)), jnp.ones(2), index, jnp.ones(2))
  with pytest.raises(ValueError, match='the index uses 6 weights, got 2'):
    aen.shared_dense(jnp.ones((2, 4)), jnp.ones(2), index + 5)
  with pytest.raises(ValueError, match=r'weights \[W\] or \[W, C, F\]'):
    aen.shared_dense(jnp.ones((2, 4)), jnp.ones((2, 2)), jnp.zeros((4, 4), int))


def test_shapes_that_would_broadcast_are_refused():
  x, index = jnp.ones((2, 4)), np.zeros((4, 3), int)
  weights, bias_index = jnp.ones((1, 2, 5)), np.zeros(3, int)
  dense = functools.partial(aen.shared_dense, x, jnp.ones(1), index)
  assert dense(jnp.ones(1), bias_index).shape == (2, 3)
  with pytest.raises(ValueError, match='shape'):
    dense(jnp.ones(1), bias_index[:1])
  with pytest.raises(ValueError, match='shape'):
    dense(jnp.ones((1, 1)), bias_index)
  channels = functools.partial(
    aen.shared_dense, jnp.ones((2, 4, 2)), weights, index
  )
  assert channels(jnp.ones((1, 5)), bias_index).shape == (2, 3, 5)
  for shape in ((1,), (1, 1)):
    with pytest.raises(ValueError, match='shape'):
      channels(jnp.ones(shape), bias_index)


def test_jax_numpy_in_a_symmetry_works_inside_jit():
  def up(x):
    return jnp.roll(x, 1, axis=0)

  def apply(x):
    layer = aen.EquivariantDense([up], 4, 4)
    return layer.init_with_output(jax.random.key(0), x)[0]

  x = jnp.arange(4.0)[None]
  np.testing.assert_allclose(jax.jit(apply)(x), apply(x), rtol=1e-6)


def test_repr_is_one_readable_line():
  layer = aen.EquivariantDense(('rotation',), (28, 28), (20, 20))
  assert repr(layer) == (
    'EquivariantDense(rotation, 28×28 → 20×20: 784×400 = 313 600 weights,'
    ' 78 400 free)'
  )
