"""The layers inside other people's JAX: nothing here knows about sharing."""

from flax import linen as nn
from flax import nnx
import jax
from jax import export
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest

import aen
from tests.precision import enable_x64

ROTATION = {'symmetries': ('rotation',), 'in_shape': (8, 8)}


class Foreign(nn.Module):
  """Somebody's model with one of our layers in the middle."""

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.LayerNorm(reduction_axes=(1, 2, 3))(x)
    x = nn.relu(
      aen.EquivariantDense(**ROTATION, out_shape=(4, 4), features=6)(x)
    )
    x = nn.Dropout(0.5, deterministic=not train)(x)
    return nn.Dense(3)(x.mean((1, 2)))


@pytest.fixture
def foreign():
  model = Foreign()
  x = jax.random.normal(jax.random.key(0), (16, 8, 8, 2))
  return model, model.init(jax.random.key(1), x), x


@pytest.mark.slow
def test_an_optax_loop_in_a_foreign_model(foreign):
  model, variables, x = foreign
  labels = jnp.arange(16) % 3
  optimizer = optax.adamw(1e-2)
  state = optimizer.init(variables['params'])

  @jax.jit
  def step(params, state, key):
    def loss(params):
      logits = model.apply(
        {'params': params}, x, train=True, rngs={'dropout': key}
      )
      return optax.softmax_cross_entropy_with_integer_labels(
        logits, labels
      ).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value

  params, losses = variables['params'], []
  for key in jax.random.split(jax.random.key(2), 60):
    params, state, value = step(params, state, key)
    losses.append(value)
  assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.slow
def test_jit_vmap_grad_checkpoint(foreign):
  model, variables, x = foreign
  expected = model.apply(variables, x)
  np.testing.assert_allclose(
    jax.jit(model.apply)(variables, x), expected, rtol=1e-4, atol=1e-5
  )
  one_by_one = jax.vmap(lambda xi: model.apply(variables, xi[None])[0])(x)
  np.testing.assert_allclose(one_by_one, expected, rtol=1e-4, atol=1e-5)

  def loss(variables):
    return (model.apply(variables, x) ** 2).sum()

  gradient = jax.grad(loss)(variables)
  saved = jax.grad(jax.checkpoint(loss))(variables)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
    gradient,
    saved,
  )
  assert all(
    leaf.any() for leaf in jax.tree.leaves(gradient['params']['Dense_0'])
  )


@pytest.mark.slow
def test_gradients_against_finite_differences():
  layer = aen.EquivariantDense(**ROTATION, out_shape=(4, 4))
  with enable_x64(True):
    x = jax.random.normal(jax.random.key(0), (2, 8, 8), jnp.float64)
    params = layer.init(jax.random.key(1), x)
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)
    for shared in ({}, aen.sharing_variables(layer)):
      check_grads(
        lambda p, shared=shared: layer.apply({**p, **shared}, x),
        (params,),
        order=2,
        modes=('fwd', 'rev'),
      )


def test_vmap_over_parameters_and_seeds():
  layer = aen.EquivariantDense(**ROTATION, out_shape=(4, 4))
  x = jnp.ones((2, 8, 8))
  keys = jax.random.split(jax.random.key(0), 3)
  ensemble = jax.vmap(layer.init, in_axes=(0, None))(keys, x)
  outputs = jax.vmap(layer.apply, in_axes=(0, None))(ensemble, x)
  assert outputs.shape == (3, 2, 4, 4)


class Body(nn.Module):
  @nn.compact
  def __call__(self, x, _):
    layer = aen.EquivariantDense(**ROTATION, out_shape=(8, 8), features=2)
    return nn.tanh(layer(x)), None


def test_scan_over_layers():
  deep = nn.scan(
    Body, variable_axes={'params': 0}, split_rngs={'params': True}, length=5
  )()
  x = jax.random.normal(jax.random.key(0), (3, 8, 8, 2))
  variables = deep.init(jax.random.key(1), x, None)
  (kernel,) = [
    leaf for leaf in jax.tree.leaves(variables['params']) if leaf.ndim == 4
  ]
  assert kernel.shape == (5, 64 * 64 // 4, 2, 2)
  aen.assert_equivariant(
    lambda x: deep.apply(variables, x, None)[0],
    ('rotation',),
    (8, 8),
    (8, 8),
    x=x,
  )


def test_nnx_through_the_bridge():
  layer = aen.EquivariantDense(**ROTATION, out_shape=(4, 4))
  x = jax.random.normal(jax.random.key(0), (5, 8, 8))
  model = nnx.bridge.ToNNX(layer, rngs=nnx.Rngs(0)).lazy_init(x)
  aen.assert_equivariant(model, ('rotation',), (8, 8), (4, 4), x=x)
  optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

  @nnx.jit
  def step(model, optimizer, x):
    value, gradient = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return value

  losses = [step(model, optimizer, x) for _ in range(10)]
  assert losses[-1] < losses[0]
  aen.assert_equivariant(model, ('rotation',), (8, 8), (4, 4), x=x)


def test_orbax_keeps_parameters_only(foreign, tmp_path):
  model, variables, x = foreign
  assert set(variables) == {'params'}
  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(tmp_path / 'params', variables['params'])
    checkpointer.wait_until_finished()
    template = jax.eval_shape(model.init, jax.random.key(9), x)['params']
    restored = checkpointer.restore(tmp_path / 'params', template)
  np.testing.assert_array_equal(
    model.apply({'params': restored}, x), model.apply(variables, x)
  )


def test_export_carries_the_indices_with_it(foreign):
  model, variables, x = foreign
  exported = export.export(jax.jit(model.apply))(variables, x)
  loaded = export.deserialize(exported.serialize())
  np.testing.assert_allclose(
    loaded.call(variables, x), model.apply(variables, x), rtol=1e-4, atol=1e-5
  )


def num_parameters(layer, x):
  params = jax.eval_shape(layer.init, jax.random.key(0), x)['params']
  return {name: leaf.shape for name, leaf in params.items()}


def swap_first_two(x):
  return np.concatenate([x[1::-1], x[2:]])


def rotate_set(x):
  return np.roll(x, 1, axis=0)


SET = (swap_first_two, rotate_set)  # these two generate all permutations


def test_deep_sets():
  layer = aen.EquivariantDense(SET, (10,), (10,), features=5)
  x = jax.random.normal(jax.random.key(0), (2, 10, 3))
  assert num_parameters(layer, x) == {'kernel': (2, 3, 5), 'bias': (1, 5)}
  pooled = aen.EquivariantDense(SET, (10,), (4,), invariant=True)
  assert num_parameters(pooled, x[..., 0]) == {'kernel': (4,), 'bias': (4,)}
  # λ x + γ 1 max … : here the linear form, x Λ + sum(x) Γ.
  variables = layer.init(jax.random.key(1), x)
  own, others = variables['params']['kernel']
  expected = x @ (own - others) + x.sum(1, keepdims=True) @ others
  np.testing.assert_allclose(layer.apply(variables, x), expected, atol=1e-5)


def test_circular_convolution():
  layer = aen.EquivariantDense([lambda x: np.roll(x, 1)], (12,), (12,))
  x = jax.random.normal(jax.random.key(0), (2, 12))
  assert num_parameters(layer, x) == {'kernel': (12,), 'bias': (1,)}
  variables = layer.init(jax.random.key(1), x)
  # Circular correlation with the kernel, by the Fourier transform.
  kernel = np.asarray(variables['params']['kernel'])  # entry m - n of (n, m)
  expected = np.fft.ifft(np.fft.fft(x) * np.fft.fft(kernel)).real
  np.testing.assert_allclose(layer.apply(variables, x), expected, atol=1e-5)


def reverse_complement(x):
  """One-hot DNA with the bases in the order A, C, G, T: T is A's complement."""
  return x[::-1, ::-1]


def test_reverse_complement_dna():
  layer = aen.EquivariantDense([reverse_complement], (20, 4), (6, 2))
  x = jnp.eye(4)[jax.random.randint(jax.random.key(0), (3, 20), 0, 4)]
  assert num_parameters(layer, x) == {'kernel': (480,), 'bias': (6,)}
  variables = layer.init(jax.random.key(1), x)
  aen.assert_equivariant(
    lambda x: layer.apply(variables, x),
    [reverse_complement],
    (20, 4),
    (6, 2),
    x=x,
  )


def test_graphs_have_fifteen_weights():
  """Relabelling nodes permutes rows and columns alike: Bell(4) = 15 weights."""

  def both(permute):
    def relabel(x):
      for _ in range(x.ndim):  # one axis after the other
        x = np.moveaxis(permute(x), 0, -1)
      return x

    return aen.Symmetry(f'{permute.__name__}_nodes', relabel)

  nodes = [both(permute) for permute in SET]
  assert aen.dense_sharing(nodes, (6, 6), (6, 6)).num_weights == 15
  assert aen.dense_sharing(nodes, (6, 6), (6,)).num_weights == 5
  assert aen.dense_sharing(nodes, (6, 6), (1,), invariant=True).num_weights == 2


def test_exchangeable_matrices_have_four_weights():
  def on_axis(permute, axis):
    return aen.Symmetry(
      f'{permute.__name__}_{axis}',
      lambda x: np.swapaxes(permute(np.swapaxes(x, 0, axis)), 0, axis),
    )

  symmetries = [on_axis(permute, axis) for permute in SET for axis in (0, 1)]
  assert aen.dense_sharing(symmetries, (6, 4), (6, 4)).num_weights == 4
