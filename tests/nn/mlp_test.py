import functools

import chex
from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import aen

SMALL = {'in_shape': (8, 8), 'hidden_shapes': ((4, 4), (4, 4))}
CATALOGUE = [(name,) for name in aen.SYMMETRIES] + [tuple(aen.SYMMETRIES)]


def hidden_features(model, variables, x):
  """Returns what the last hidden layer computes, its activation included."""
  last = f'hidden_{len(model.hidden_shapes) - 1}'
  _, state = model.apply(
    variables, x, capture_intermediates=lambda module, _: module.name == last
  )
  return model.activation(state['intermediates'][last]['__call__'][0])


def trained(model, variables, x, labels, steps=3):
  """Adam on the parameters; other collections stay as they are."""
  optimizer = optax.adam(1e-3)
  params = variables['params']

  def loss(params):
    logits = model.apply({**variables, 'params': params}, x)
    return optax.softmax_cross_entropy_with_integer_labels(
      logits, labels
    ).mean()

  def step(carry, _):
    params, state = carry
    updates, state = optimizer.update(jax.grad(loss)(params), state)
    return (optax.apply_updates(params, updates), state), ()

  carry = params, optimizer.init(params)
  return {**variables, 'params': jax.lax.scan(step, carry, length=steps)[0][0]}


def check_whole_catalogue(make, function, x, out_shape):
  """Checks equivariance before and after training, by one program for all."""
  model = make(())

  @jax.jit
  @chex.assert_max_traces(n=1)
  def init(shared):
    rngs = {'params': jax.random.key(1)}
    params = model.apply(shared, x, rngs=rngs, mutable='params')[1]
    return {**params, **shared}

  @jax.jit
  @chex.assert_max_traces(n=1)
  def train(variables):
    return trained(model, variables, x, jnp.arange(len(x)) % 10)

  compute = jax.jit(functools.partial(function, model))
  for names in CATALOGUE:
    fresh = init(aen.sharing_variables(make(names)))
    for variables in (fresh, train(fresh)):
      aen.assert_equivariant(
        functools.partial(compute, variables),
        names,
        model.in_shape,
        out_shape,
        x=x,
      )
  assert init._cache_size() == train._cache_size() == 1


def test_the_papers_network_is_equivariant_before_and_after_training():
  make = functools.partial(aen.EquivariantMLP, max_weights=(784 * 400, 400**2))
  x = jax.random.normal(jax.random.key(0), (16, 28, 28))
  check_whole_catalogue(make, hidden_features, x, (20, 20))


@pytest.mark.parametrize('features', [None, 3])
def test_the_invariant_head_makes_invariant_answers(features):
  make = functools.partial(
    aen.EquivariantMLP,
    head='invariant',
    features=features,
    max_weights=(64 * 16, 16 * 16, 160),
    **SMALL,
  )
  x = jax.random.normal(jax.random.key(0), (16, 8, 8))
  check_whole_catalogue(
    make, lambda model, variables, x: model.apply(variables, x), x, None
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  'names', [('rotation',), ('horizontal_translation',), tuple(aen.SYMMETRIES)]
)
def test_so_is_a_network_with_its_own_indices(names):
  model = aen.EquivariantMLP(names)
  x = jax.random.normal(jax.random.key(0), (16, 28, 28))
  variables = jax.jit(model.init)(jax.random.key(1), x)
  after = jax.jit(lambda v: trained(model, v, x, jnp.arange(16) % 10))(
    variables
  )
  compute = jax.jit(functools.partial(hidden_features, model))
  for stage in (variables, after):
    aen.assert_equivariant(
      functools.partial(compute, stage), names, (28, 28), (20, 20), x=x
    )


def test_the_papers_head_is_not_invariant():
  model = aen.EquivariantMLP(('rotation',), **SMALL)
  variables = model.init(jax.random.key(0), jnp.ones((1, 8, 8)))
  with pytest.raises(AssertionError, match='not invariant to rotation'):
    aen.assert_equivariant(
      functools.partial(model.apply, variables), ('rotation',), (8, 8), None
    )


def test_the_papers_counts():
  def count(*names):
    return aen.EquivariantMLP(names).num_weights()

  assert count() == 477600
  assert count('rotation') == 78400 + 40000 + 4000
  assert (
    count('rotation', 'rotation_scramble', 'left_vertical_scramble') < 48400
  )
  model = aen.EquivariantMLP(('rotation',))
  params = jax.eval_shape(model.init, jax.random.key(0), jnp.ones((1, 28, 28)))
  kernels = {n: layer['kernel'].size for n, layer in params['params'].items()}
  assert kernels == {'hidden_0': 78400, 'hidden_1': 40000, 'head': 4000}


def test_counting_a_dense_head_takes_no_index():
  shape = (300, 300)
  model = aen.EquivariantMLP((), 50_000, (1, 1), (shape,))
  assert model.num_weights() == 90_000 + 90_000 * 50_000


@pytest.mark.slow
def test_any_widths_grids_and_depth():
  model = aen.EquivariantMLP(
    ('horizontal_flip',),
    num_classes=3,
    in_shape=(6, 5),
    hidden_shapes=((4, 4), (3, 2), (2, 2)),
    features=(5, 4, 2),
    head='invariant',
  )
  logits, variables = model.init_with_output(
    jax.random.key(0), jnp.ones((7, 6, 5, 3))
  )
  assert logits.shape == (7, 3)
  kernels = [layer['kernel'].size for layer in variables['params'].values()]
  assert sum(kernels) == model.num_weights(channels=3)


def test_colour_images_with_and_without_features():
  x = jnp.ones((2, 8, 8, 3))
  flat = aen.EquivariantMLP(
    ('rotation',), in_shape=(8, 8, 3), hidden_shapes=((4, 4),)
  )
  assert flat.init_with_output(jax.random.key(0), x)[0].shape == (2, 10)
  deep = aen.EquivariantMLP(
    ('rotation',), in_shape=(8, 8), hidden_shapes=((4, 4),), features=5
  )
  assert deep.init_with_output(jax.random.key(0), x)[0].shape == (2, 10)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.parametrize('names', CATALOGUE, ids='+'.join)
def test_width_matched_networks_have_as_many_weights_as_dense_ones(names, head):
  model = aen.EquivariantMLP(names, width_matched=True, head=head)
  off = model.num_weights() / 477600 - 1
  quarter = names[0].split('_')[0] in ('left', 'right', 'top', 'bottom')
  assert abs(off) < (0.065 if quarter else 0.015)
  assert model.widths() is not None


def test_width_matched_networks_are_equivariant():
  model = aen.EquivariantMLP(('rotation',), width_matched=True, **SMALL)
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))
  variables = model.init(jax.random.key(1), x)
  aen.assert_equivariant(
    functools.partial(hidden_features, model, variables),
    ('rotation',),
    (8, 8),
    (4, 4),
    x=x,
  )
  kernels = [layer['kernel'].size for layer in variables['params'].values()]
  assert sum(kernels) == model.num_weights()
  dense = aen.EquivariantMLP((), width_matched=True, **SMALL)
  assert dense.widths() == (1, 1)
  assert model.clone(symmetries=()).widths() == (1, 1)


class PlainMLP(nn.Module):
  """What a reader without aen would write."""

  widths: tuple[int, ...]

  @nn.compact
  def __call__(self, x):
    x = x.reshape(x.shape[0], -1)
    for i, width in enumerate(self.widths[:-1]):
      x = nn.relu(nn.Dense(width, name=f'hidden_{i}')(x))
    return nn.Dense(self.widths[-1], name='head')(x)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.parametrize('features', [None, 3])
def test_to_dense_is_the_same_network(head, features):
  model = aen.EquivariantMLP(
    ('rotation', 'vertical_flip'),
    head=head,
    features=features,
    bias_init=nn.initializers.normal(),
    **SMALL,
  )
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))
  logits, variables = model.init_with_output(jax.random.key(1), x)
  width = 16 * (features or 1)
  plain = PlainMLP((width, width, 10))
  params = aen.to_dense(model, variables)
  expected = jax.eval_shape(plain.init, jax.random.key(0), x)['params']
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, expected)
  np.testing.assert_allclose(
    plain.apply({'params': params}, x), logits, rtol=1e-4, atol=1e-5
  )


@pytest.mark.parametrize('target_head', ['dense', 'invariant'])
def test_expand_warm_starts_a_less_symmetric_network(target_head):
  source = aen.EquivariantMLP(
    ('rotation', 'horizontal_flip'), head='invariant', **SMALL
  )
  target = aen.EquivariantMLP(('rotation',), head=target_head, **SMALL)
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))
  logits, variables = source.init_with_output(jax.random.key(1), x)
  params = aen.expand(source, variables, target)
  np.testing.assert_allclose(
    target.apply({'params': params}, x), logits, rtol=1e-5, atol=1e-6
  )
  after = trained(target, {'params': params}, x, jnp.arange(4))
  assert not np.array_equal(target.apply(after, x), logits)


def test_one_program_for_all_networks():
  weights = (64 * 16, 16 * 16)
  make = functools.partial(aen.EquivariantMLP, max_weights=weights, **SMALL)
  model = make(())
  x = jax.random.normal(jax.random.key(0), (4, 8, 8))

  @jax.jit
  @chex.assert_max_traces(n=1)
  def apply(params, shared):
    return model.apply({**params, **shared}, x)

  for names in CATALOGUE:
    own = make(names)
    variables = own.init(jax.random.key(1), x)
    np.testing.assert_allclose(
      apply(variables, aen.sharing_variables(own)),
      own.apply(variables, x),
      rtol=1e-5,
      atol=1e-5,
    )
  assert apply._cache_size() == 1


@pytest.mark.parametrize(
  ('arguments', 'says'),
  [
    ({'head': 'convolution'}, "head must be one of .* got 'convolution'"),
    ({'hidden_shapes': ()}, 'at least one hidden layer'),
    ({'features': (1, 2, 3)}, r'one per layer \(2\)'),
    ({'features': 0}, 'features must be a whole number of at least 1, got 0'),
    ({'features': 2, 'width_matched': True}, 'give one of the two'),
    ({'max_weights': (5, 5, 5)}, r'one per layer \(2\)'),
    ({'num_classes': 0}, 'num_classes must be a whole number'),
    ({'hidden_shapes': (20, 20)}, 'one grid per hidden layer'),
    ({'hidden_shapes': 400}, 'one grid per hidden layer'),
  ],
)
def test_impossible_networks(arguments, says):
  with pytest.raises(ValueError, match=says):
    aen.EquivariantMLP(('rotation',), **arguments)


@pytest.mark.slow
def test_as_many_channels_as_the_side():
  model = aen.EquivariantMLP(
    ('rotation',), in_shape=(3, 3), hidden_shapes=((3, 3),), features=4
  )
  x = jnp.ones((5, 3, 3, 3))  # one-hot boards
  assert model.init_with_output(jax.random.key(0), x)[0].shape == (5, 10)
  grey = jnp.ones((3, 3, 3))  # three boards without channels
  assert model.init_with_output(jax.random.key(0), grey)[0].shape == (3, 10)


def test_expand_needs_networks_of_the_same_layers():
  source = aen.EquivariantMLP(('rotation',), head='invariant', **SMALL)
  variables = source.init(jax.random.key(0), jnp.ones((1, 8, 8)))
  shallow = aen.EquivariantMLP((), in_shape=(8, 8), hidden_shapes=((4, 4),))
  with pytest.raises(ValueError, match='expected a source of the layers'):
    aen.expand(source, variables, shallow)
  classes = aen.EquivariantMLP((), num_classes=3, **SMALL)
  with pytest.raises(ValueError, match='10 outputs for a Dense layer of 3'):
    aen.expand(source, variables, classes)
  with pytest.raises(ValueError, match='expected parameters of the layers'):
    aen.to_dense(shallow, variables)
  dense_head = aen.EquivariantMLP((), **SMALL)
  with pytest.raises(ValueError, match='shares weights that the source keeps'):
    aen.expand(
      dense_head,
      dense_head.init(jax.random.key(0), jnp.ones((1, 8, 8))),
      source,
    )


def test_impossible_grids_are_found_when_the_network_is_made():
  with pytest.raises(ValueError, match='rotation needs a square grid'):
    aen.EquivariantMLP(('rotation',), hidden_shapes=((20, 10),))
