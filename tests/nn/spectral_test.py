"""The product in the basis of characters against the gathered kernel."""

import collections
import functools
import math
import re

import chex
from flax import linen as nn
import jax
from jax import export
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np
import pytest

import aen
from aen.groups.spectral import Involution
from tests.precision import enable_x64

SETS = [
  *((name,) for name in aen.SYMMETRIES),
  ('rotation', 'horizontal_flip'),
  ('rotation', 'left_vertical_scramble'),
  ('horizontal_flip', 'vertical_flip', 'top_horizontal_scramble'),
  ('horizontal_translation', 'vertical_translation'),
  tuple(aen.SYMMETRIES),
]
KINDS = {
  'plain': {},
  'channels': {'features': 3},
  'invariant': {'invariant': True},
  'padded': {'max_weights': 64 * 64},
}
QUICK = [('rotation',), ('horizontal_translation',), tuple(aen.SYMMETRIES)]
PARAMETERS = [
  pytest.param(
    names,
    id='+'.join(names),
    marks=[] if names in QUICK else pytest.mark.slow,
  )
  for names in SETS
]


def layers(
  names, in_shape=(8, 8), out_shape=(4, 4), method='spectral', **kwargs
):
  """Returns equal layers that gather and that use characters."""
  kwargs = {'bias_init': nn.initializers.normal(), **kwargs}
  make = functools.partial(
    aen.EquivariantDense, names, in_shape, out_shape, **kwargs
  )
  return make(method='gather'), make(method=method)


def exchanging(name='left_vertical_scramble', **kwargs):
  """Returns equal layers that gather and that exchange pairs of points."""
  gather, auto = layers((name,), (16, 16), (16, 16), method='auto', **kwargs)
  assert isinstance(auto.spectral(), Involution)
  return gather, auto


def inputs(layer, dtype=np.float32):
  size = (5, *layer.in_shape, *((2,) if layer.features else ()))
  return np.random.default_rng(0).standard_normal(size).astype(dtype)


def assert_close(ours, theirs, tolerance):
  """Compares trees, each leaf relative to its largest entry."""
  for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


def assert_same_function(gather, spectral, x, tolerance):
  """Compares values and gradients with those of the gathered kernel."""
  assert spectral.spectral() is not None
  variables, own = (
    jax.jit(layer.init)(jax.random.key(0), x) for layer in (gather, spectral)
  )
  chex.assert_trees_all_equal(own, variables)

  @functools.partial(jax.jit, static_argnums=0)
  def value_and_gradients(layer, variables, x):
    y, pull = jax.vjp(layer.apply, variables, x)
    return y, pull(jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape))

  assert_close(
    value_and_gradients(spectral, variables, x),
    value_and_gradients(gather, variables, x),
    tolerance,
  )


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('names', PARAMETERS)
def test_same_values_and_gradients(names, kind):
  gather, spectral = layers(names, **KINDS[kind])
  assert_same_function(gather, spectral, inputs(gather), 2e-6)


@pytest.mark.parametrize('names', PARAMETERS)
def test_same_values_and_gradients_in_double_precision(names):
  with enable_x64(True):
    gather, spectral = layers(names, features=2, param_dtype=jnp.float64)
    assert_same_function(gather, spectral, inputs(gather, np.float64), 1e-12)


@pytest.mark.parametrize('names', PARAMETERS)
def test_exact_on_the_papers_grids(names):
  """To 1e-6, compared with the product in double precision."""
  gather, spectral = layers(names, (28, 28), (20, 20), use_bias=False)
  x = inputs(gather)
  y, variables = jax.jit(spectral.init_with_output)(jax.random.key(0), x)
  weights = np.asarray(variables['params']['kernel'], np.float64)
  exact = x.reshape(5, -1).astype(np.float64) @ weights[gather.sharing().kernel]
  assert_close(y.reshape(5, -1), exact, 1e-6)


@pytest.mark.parametrize('method', ['spectral', 'auto'])
def test_without_symmetries_nothing_changes(method):
  gather = aen.EquivariantDense((), (8, 8), (4, 4), method='gather')
  other = aen.EquivariantDense((), (8, 8), (4, 4), method=method)
  x = inputs(gather)
  variables = gather.init(jax.random.key(0), x)
  assert other.spectral() is None
  np.testing.assert_array_equal(
    other.apply(variables, x), gather.apply(variables, x)
  )


def test_without_symmetries_the_program_is_that_of_dense():
  """Same operations on as many numbers, in the gradient too."""
  x = np.ones((3, 64), np.float32)

  def operations(layer, x):
    variables = layer.init(jax.random.key(0), x)
    loss = jax.grad(lambda v, x: jnp.sum(layer.apply(v, x) ** 2), (0, 1))
    program = jax.jit(loss).lower(variables, x).compile()
    found = re.findall(r'= \w+(\[[\d,]*\])\S* ([\w-]+)\(', program.as_text())
    sizes = (
      (name, math.prod(map(int, filter(None, shape[1:-1].split(',')))))
      for shape, name in found
      if name not in ('bitcast', 'reshape')
    )
    return collections.Counter(sizes), program.cost_analysis()['flops']

  ours = aen.EquivariantDense((), (8, 8), (4, 4))
  assert operations(ours, x.reshape(3, 8, 8)) == operations(nn.Dense(16), x)


def test_activations_may_mix_the_examples_of_a_batch():
  make = functools.partial(
    aen.EquivariantMLP,
    ('rotation',),
    in_shape=(8, 8),
    hidden_shapes=((4, 4),),
    activation=lambda x: x - x.mean(0, keepdims=True),
  )
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))
  gather = make(method='gather')
  logits, variables = gather.init_with_output(jax.random.key(1), x)
  assert_close(make(method='spectral').apply(variables, x), logits, 1e-5)


def test_auto_takes_the_faster_form():
  make = functools.partial(aen.EquivariantDense, ('rotation',))
  assert make((28, 28), (20, 20)).method == 'auto'
  assert make((28, 28), (20, 20)).spectral().num_elements == 4
  assert make((2, 2), (2, 2)).spectral() is None
  assert make((28, 28), (20, 20), method='gather').spectral() is None
  assert aen.EquivariantMLP(('rotation',)).method == 'auto'


@pytest.mark.parametrize(
  'name',
  [
    'left_vertical_scramble',
    *(
      pytest.param(f'{side}_scramble', marks=pytest.mark.slow)
      for side in ('right_vertical', 'top_horizontal', 'bottom_horizontal')
    ),
  ],
)
@pytest.mark.parametrize(
  'kind',
  [
    {},
    pytest.param({'features': 3}, marks=pytest.mark.slow),
    {'max_weights': 256 * 256},
  ],
  ids=str,
)
def test_involutions_are_the_same_function(name, kind):
  gather, auto = exchanging(name, **kind)
  assert_same_function(gather, auto, inputs(gather), 2e-6)
  with enable_x64(True):
    gather, auto = exchanging(name, param_dtype=jnp.float64, **kind)
    assert_same_function(gather, auto, inputs(gather, np.float64), 1e-12)


def test_derivatives_of_involutions():
  with enable_x64(True):
    _, layer = exchanging(param_dtype=jnp.float64)
    x = inputs(layer, np.float64)
    variables = layer.init(jax.random.key(0), x)
    check_grads(
      jax.jit(layer.apply), (variables, x), order=2, modes=('fwd', 'rev')
    )


@pytest.mark.slow
@pytest.mark.parametrize('features', [None, 3])
@pytest.mark.parametrize('which', [0, 1], ids=['gather', 'spectral'])
def test_forward_and_reverse_mode(features, which):
  with enable_x64(True):
    layer = layers(
      ('rotation', 'left_vertical_scramble'),
      features=features,
      param_dtype=jnp.float64,
    )[which]
    x = inputs(layer, np.float64)
    variables = layer.init(jax.random.key(0), x)
    check_grads(
      jax.jit(layer.apply), (variables, x), order=2, modes=('fwd', 'rev')
    )
    jacobian = jax.jacfwd(layer.apply, argnums=1)(variables, x[0])
    chex.assert_trees_all_close(
      jacobian, jax.jacrev(layer.apply, argnums=1)(variables, x[0]), atol=1e-12
    )


def test_vmap_over_inputs_and_parameters():
  _, layer = layers(('rotation',), features=3)
  x = jax.random.normal(jax.random.key(0), (4, 5, 8, 8, 2))
  keys = jax.random.split(jax.random.key(1), 4)
  variables = jax.vmap(layer.init, in_axes=(0, None))(keys, x[0])

  def loss(variables, x):
    return jnp.mean(layer.apply(variables, x) ** 2)

  one_by_one = jax.jit(jax.value_and_grad(loss))
  together = jax.jit(jax.vmap(jax.value_and_grad(loss)))(variables, x)
  for i in range(4):
    one = jax.tree.map(lambda leaf, i=i: leaf[i], variables)
    alone = one_by_one(one, x[i])
    batched = jax.tree.map(lambda leaf, i=i: leaf[i], together)
    chex.assert_trees_all_close(batched, alone, rtol=1e-4, atol=1e-6)
  apply = jax.jit(jax.vmap(layer.apply, in_axes=(None, 3), out_axes=1))
  last = apply(one, jnp.moveaxis(x[0], 0, 3))
  chex.assert_trees_all_close(
    jnp.moveaxis(last, 1, 0), layer.apply(one, x[0]), atol=1e-5
  )


def test_batch_axes_may_be_any_number():
  gather, spectral = layers(('rotation',), (4, 4), (2, 2), features=3)
  x = jax.random.normal(jax.random.key(0), (2, 3, 5, 4, 4, 6))
  variables = gather.init(jax.random.key(1), x)
  apply = jax.jit(spectral.apply)
  y = apply(variables, x)
  assert y.shape == (2, 3, 5, 2, 2, 3)
  assert_close(y, gather.apply(variables, x), 1e-5)
  assert_close(apply(variables, x[1, 2, 4]), y[1, 2, 4], 1e-5)


def test_training_in_a_scan_and_export():
  _, layer = layers(('rotation', 'horizontal_flip'))
  x = inputs(layer)
  variables = layer.init(jax.random.key(0), x)

  @jax.jit
  def train(variables, x):
    def step(variables, _):
      value, gradient = jax.value_and_grad(
        lambda v: jnp.mean((layer.apply(v, x) - 1) ** 2)
      )(variables)
      return jax.tree.map(lambda v, g: v - 0.1 * g, variables, gradient), value

    return jax.lax.scan(step, variables, length=5)

  after, losses = train(variables, x)
  assert losses[-1] < losses[0]
  aen.assert_equivariant(
    functools.partial(layer.apply, after), layer.symmetries, (8, 8), (4, 4)
  )
  data = export.export(train)(variables, x).serialize()
  chex.assert_trees_all_close(
    export.deserialize(data).call(variables, x)[0], after, atol=1e-6
  )


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
def test_mixed_precision(dtype):
  gather, low = layers(('rotation',), dtype=dtype)
  x = inputs(low)
  y, variables = low.init_with_output(jax.random.key(0), x)
  assert y.dtype == dtype
  assert variables['params']['kernel'].dtype == jnp.float32
  exact = gather.clone(dtype=jnp.float32).apply(variables, x)
  np.testing.assert_allclose(y.astype(jnp.float32), exact, atol=0.1)


def test_conversions_do_not_depend_on_the_method():
  gather, spectral = layers(('rotation', 'horizontal_flip'))
  x = inputs(gather)
  variables = gather.init(jax.random.key(0), x)
  chex.assert_trees_all_equal(
    aen.to_dense(spectral, variables), aen.to_dense(gather, variables)
  )
  for target in layers(('rotation',)):
    params = aen.expand(spectral, variables, target)
    y = target.apply({'params': params}, x)
    assert_close(y, gather.apply(variables, x), 1e-5)


def test_an_index_given_as_data_is_gathered():
  _, layer = layers(('rotation',), max_weights=64 * 16)
  other = layer.clone(symmetries=('vertical_flip',))
  x = inputs(layer)
  variables = other.init(jax.random.key(0), x)
  y = layer.apply({**variables, **aen.sharing_variables(other)}, x)
  assert_close(y, other.apply(variables, x), 1e-5)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.parametrize('features', [None, 3])
@pytest.mark.parametrize('method', ['spectral', 'auto'])
def test_networks(head, features, method):
  make = functools.partial(
    aen.EquivariantMLP,
    ('rotation', 'left_vertical_scramble'),
    in_shape=(8, 8),
    hidden_shapes=((4, 4), (4, 4)),
    features=features,
    head=head,
  )
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))
  gather = make(method='gather')
  logits, variables = gather.init_with_output(jax.random.key(1), x)
  model = make(method=method)
  chex.assert_trees_all_equal(model.init(jax.random.key(1), x), variables)
  assert_close(model.apply(variables, x), logits, 1e-5)


def test_unknown_methods():
  for module in (
    functools.partial(aen.EquivariantDense, (), (4, 4), (2, 2)),
    functools.partial(aen.EquivariantMLP, ()),
  ):
    with pytest.raises(ValueError, match="method must be one of .* got 'fft'"):
      module(method='fft')
