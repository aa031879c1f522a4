"""Parameters of whole models become those of plain ones."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aen


class Ours(nn.Module):
  """Somebody's model, with equivariant layers at several depths."""

  wrap: staticmethod = staticmethod(lambda kind: kind)

  def setup(self):
    self.stem = nn.Conv(2, (3, 3))
    dense = self.wrap(aen.EquivariantDense)
    self.grid = dense(('rotation',), (8, 8), (6, 6), features=3)
    self.conv = aen.EquivariantConv(('rotation',), 2, (3, 3), lifting=True)
    self.head = aen.EquivariantMLP(
      ('rotation',), 5, (4, 4), ((4, 4),), features=2, head='invariant'
    )
    self.norm, self.dropout = nn.LayerNorm(), nn.Dropout(0.5)

  def __call__(self, x, train=False):
    x = nn.relu(self.grid(self.stem(x)))
    x = aen.spatial_pool(nn.relu(self.conv(x)), self.conv.group(), 3, 1)
    x = self.dropout(aen.group_pool(x), deterministic=not train)
    return self.norm(self.head(x))


class Plain(nn.Module):
  """The same with Flax's own layers."""

  @nn.compact
  def __call__(self, x):
    size = len(x)
    x = nn.Conv(2, (3, 3), name='stem')(x).reshape(size, -1)
    x = nn.relu(nn.Dense(6 * 6 * 3, name='grid')(x)).reshape(size, 6, 6, 3)
    x = nn.relu(nn.Conv(4 * 2, (3, 3), name='conv')(x))
    x = nn.max_pool(x, (3, 3)).reshape(size, 4, 4, 4, 2).max(-2)
    x = _Head(name='head')(x.reshape(size, -1))
    return nn.LayerNorm(name='norm')(x)


class _Head(nn.Module):
  @nn.compact
  def __call__(self, x):
    x = nn.relu(nn.Dense(4 * 4 * 2, name='hidden_0')(x))
    return nn.Dense(5, name='head')(x)


def variables_of(model, x):
  variables = model.init(jax.random.key(0), x)
  keys = iter(jax.random.split(jax.random.key(1), 99))
  return jax.tree.map(
    lambda leaf: leaf + 0.1 * jax.random.normal(next(keys), leaf.shape),
    variables,
  )


@pytest.mark.slow
@pytest.mark.parametrize('wrap', [lambda kind: kind, nn.remat, nn.jit])
def test_a_whole_model_becomes_a_plain_one(wrap):
  model, x = Ours(wrap), jax.random.normal(jax.random.key(2), (3, 8, 8, 1))
  variables = variables_of(model, x)
  params = aen.to_dense(model, variables, x, train=False)
  shapes = jax.eval_shape(Plain().init, jax.random.key(0), x)['params']
  assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
  np.testing.assert_allclose(
    Plain().apply({'params': params}, x), model.apply(variables, x), atol=1e-5
  )
  assert aen.to_dense(model, variables['params'], x).keys() == params.keys()


@pytest.mark.slow
def test_example_inputs_change_nothing_for_our_networks():
  model = aen.GroupCNN(('rotation',), in_shape=(4, 4, 1), padding='SAME')
  x = (1, 4, 4, 1)
  variables = model.init(jax.random.key(0), jnp.ones(x))
  jax.tree.map(
    np.testing.assert_array_equal,
    aen.to_dense(model, variables, jnp.ones(x)),
    aen.to_dense(model, variables),
  )


class Repeated(nn.Module):
  @nn.compact
  def __call__(self, x, _=None):
    layer = aen.EquivariantDense(('rotation',), (4, 4), (4, 4))
    return nn.tanh(layer(x)), None


def scanned():
  return nn.scan(
    Repeated, variable_axes={'params': 0}, split_rngs={'params': True}, length=2
  )()


class Normalised(nn.Module):
  @nn.compact
  def __call__(self, x):
    layer = aen.EquivariantDense(('rotation',), (4, 4), (4, 4), features=2)
    return nn.WeightNorm(layer)(x[..., None])


@pytest.mark.parametrize('make', [scanned, Normalised])
def test_what_cannot_be_converted_is_one_line(make):
  model, x = make(), jnp.ones((2, 4, 4))
  variables = variables_of(model, x)
  with pytest.raises(
    ValueError, match='to_dense cannot convert the layer'
  ) as e:
    aen.to_dense(model, variables, x)
  assert '\n' not in str(e.value)


def test_indices_among_the_variables_are_refused():
  layer, x = aen.EquivariantDense(('rotation',), (4, 4), (4, 4)), (1, 4, 4)
  variables = layer.init(jax.random.key(0), jnp.ones(x))
  variables |= aen.sharing_variables(layer)
  with pytest.raises(ValueError, match="with 'sharing' variables"):
    aen.to_dense(layer, variables, jnp.ones(x))


@pytest.mark.parametrize('variables', [None, 3, 'params', {'params': None}])
def test_what_is_no_parameters_is_said(variables):
  layer = aen.EquivariantDense(('rotation',), (4, 4), (2, 2))
  for call in (
    lambda: aen.to_dense(layer, variables),
    lambda: aen.expand(layer, variables, layer),
  ):
    with pytest.raises(ValueError, match='expected the variables of a module'):
      call()
