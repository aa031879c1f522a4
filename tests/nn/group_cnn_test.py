import functools

from flax import linen as nn
from flax import nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import aen
from aen.nn import group_cnn

SIX = group_cnn.GROUPS
# Groups of one order have the same shapes: one program, other integers.
ORDERS = (('none',), ('H2', 'V2'), ('H2V2', 'P4'), ('D4',))
SIZES = (((28, 28, 1), 1.0), ((32, 32, 3), 1.5))
MASKS = np.array(
  [np.zeros(6), *np.eye(6), np.ones(6)], np.float32
)  # eight of the 64
SMALL = (16, 16, 1)


def normal(shape, seed=0):
  return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def features_of(model, variables, x):
  _, seen = model.apply(variables, x, mutable='intermediates')
  return seen['intermediates']['features'][0]


def parameters(model, x, number):
  """As good as initial ones, without compiling; [number, ...] each."""
  shapes = jax.eval_shape(model.init, jax.random.key(0), x)['params']

  def draw(leaf):
    fan_in = max(1, np.prod(leaf.shape[:-1]))
    return normal((number, *leaf.shape), seed=leaf.size) / np.sqrt(fan_in)

  return jax.tree.map(draw, shapes)


def training_step(model):
  """A step of several children at once: one key, state and images each."""
  optimizer = optax.sgd(1e-2, momentum=0.9)

  def step(key, params, state, shared, images):
    def loss(params):
      logits = model.apply(
        {'params': params, **shared}, images, train=True, rngs={'dropout': key}
      )
      labels = jnp.arange(images.shape[0])
      return optax.softmax_cross_entropy_with_integer_labels(
        logits, labels
      ).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(gradient, state)
    return optax.apply_updates(params, updates), state, value

  return optimizer.init, jax.jit(jax.vmap(step, (0, 0, 0, None, 0)))


def variables_of(model, x):
  return {'params': jax.tree.map(lambda leaf: leaf[0], parameters(model, x, 1))}


augment_for_all = jax.jit(jax.vmap(aen.augment, (0, None, 0)))


@pytest.mark.slow
@pytest.mark.parametrize(('shape', 'width'), SIZES)
@pytest.mark.parametrize('names', ORDERS)
def test_every_group_and_size_trains_and_stays_equivariant(names, shape, width):
  """Eight augmentation masks at once; features before and after, to 1e-4."""
  make = functools.partial(aen.GroupCNN, width=width, in_shape=shape)
  model = make(SIX[names[0]])
  x = normal((2, *shape))
  fresh = parameters(model, x, len(MASKS))
  init_state, step = training_step(model)
  side = {28: 4, 32: 5}[shape[0]]

  features = jax.jit(functools.partial(features_of, model))
  for name in names:
    shared = aen.sharing_variables(make(SIX[name]))
    trained, state = fresh, init_state(fresh)
    for seed in (1, 2):
      keys = jax.random.split(jax.random.key(seed), len(MASKS))
      images = augment_for_all(keys, x, MASKS)
      trained, state, losses = step(keys, trained, state, shared, images)
      assert losses.shape == (8,)
      assert np.isfinite(losses).all()
    changed = jax.tree.map(lambda a, b: (a != b).any(), fresh, trained)
    assert all(jax.tree.leaves(changed))
    for params in (fresh, trained):
      last = jax.tree.map(lambda leaf: leaf[-1], params)
      aen.assert_equivariant(
        functools.partial(features, {'params': last, **shared}),
        SIX[name],
        shape[:2],
        (side, side),
        x=x,
        tolerance=1e-4,
        group_axis=True,
      )


@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.parametrize('width', [1.0, 1.5])
@pytest.mark.parametrize('shape', [(28, 28, 1), (32, 32, 3)])
def test_all_groups_have_nearly_equal_numbers_of_weights(shape, width, head):
  counts = {}
  for name, names in SIX.items():
    model = aen.GroupCNN(names, width=width, head=head)
    variables = jax.eval_shape(
      model.init, jax.random.key(0), jnp.zeros((1, *shape))
    )
    counts[name] = sum(leaf.size for leaf in jax.tree.leaves(variables))
    assert counts[name] == model.num_weights(shape)
  assert max(counts.values()) / min(counts.values()) < 1.03


def test_widths_of_the_paper():
  widths = {n: aen.GroupCNN(s).widths((28, 28)) for n, s in SIX.items()}
  assert widths == {
    'none': (20, 100),
    'H2': (11, 103),
    'V2': (11, 103),
    'H2V2': (6, 102),
    'P4': (6, 102),
    'D4': (3, 106),
  }
  large = [aen.GroupCNN(s, width=1.5).widths((28, 28))[0] for s in SIX.values()]
  assert large == [30, 16, 16, 10, 10, 5]
  assert aen.GroupCNN(()).num_weights((28, 28, 1)) == 48720


def test_equal_groups_are_the_equal_network():
  x = normal((2, *SMALL))
  spellings = (
    ('rotation', 'horizontal_flip'),
    ('vertical_flip', 'rotation'),
    ('rotation', 'horizontal_flip', 'vertical_flip'),
  )
  models = [aen.GroupCNN(names, in_shape=SMALL) for names in spellings]
  indices = [aen.sharing_variables(model) for model in models]
  for other in (1, 2):
    jax.tree.map(np.testing.assert_array_equal, indices[0], indices[other])
    assert models[0].widths() == models[other].widths()
    first, second = (
      str(jax.make_jaxpr(model.init_with_output)(jax.random.key(0), x))
      for model in (models[0], models[other])
    )
    assert first == second


class PlainCNN(nn.Module):
  features: int
  dense: int

  @nn.compact
  def __call__(self, x):
    for i in range(4):
      x = nn.relu(
        nn.Conv(self.features, (3, 3), padding='VALID', name=f'conv_{i}')(x)
      )
      if i % 2:
        x = nn.max_pool(x, (2, 2), (2, 2))
    x = nn.Dense(self.dense, name='dense_0')(x.reshape(x.shape[0], -1))
    x = nn.Dense(50, name='dense_1')(nn.relu(x))
    return nn.Dense(10, name='head')(x)


def test_export_to_a_plain_flax_network():
  x = normal((2, *SMALL))
  model = aen.GroupCNN(SIX['D4'], in_shape=SMALL)
  variables = variables_of(model, x)
  logits = jax.jit(model.apply)(variables, x)
  channels, dense = model.widths()
  plain = PlainCNN(8 * channels, dense)
  got = jax.jit(plain.apply)({'params': aen.to_dense(model, variables)}, x)
  np.testing.assert_allclose(got, logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('name', ['H2', 'D4'])
def test_the_invariant_head_is_invariant(name):
  x = normal((2, *SMALL))
  model = aen.GroupCNN(SIX[name], head='invariant')
  variables = variables_of(model, x)
  apply = jax.jit(model.apply)
  aen.assert_equivariant(
    functools.partial(apply, variables),
    SIX[name],
    SMALL[:2],
    None,
    x=x,
    tolerance=1e-4,
  )


def test_without_symmetry_both_heads_are_one():
  x = normal((2, *SMALL))
  dense, invariant = (
    aen.GroupCNN((), head=h, in_shape=SMALL) for h in ('dense', 'invariant')
  )
  variables = variables_of(invariant, x)
  logits = jax.jit(invariant.apply)(variables, x)
  plain = dict(variables['params'])
  kernel = plain['dense_0']['kernel']
  plain['dense_0'] = {
    **plain['dense_0'],
    'kernel': kernel.reshape(-1, kernel.shape[-1]),
  }
  np.testing.assert_allclose(
    jax.jit(dense.apply)({'params': plain}, x), logits, rtol=1e-4, atol=1e-5
  )


def test_dropout_follows_flax():
  x = normal((2, *SMALL))
  model = aen.GroupCNN(SIX['P4'])
  variables = variables_of(model, x)

  @functools.partial(jax.jit, static_argnames='train')
  def apply(x, key, train):
    return model.apply(variables, x, train=train, rngs={'dropout': key})

  first, second = (jax.random.key(seed) for seed in (1, 2))
  assert (apply(x, first, train=True) != apply(x, second, train=True)).any()
  np.testing.assert_array_equal(
    apply(x, first, train=False), apply(x, second, train=False)
  )


def test_grey_images_need_no_channel_axis():
  model = aen.GroupCNN(())
  logits, variables = jax.eval_shape(
    model.init_with_output, jax.random.key(0), normal((2, 28, 28))
  )
  assert logits.shape == (2, 10)
  assert variables['params']['conv_0']['kernel'].shape == (9, 1, 20)


def test_padding_serves_small_and_flips_wide_images():
  model = aen.GroupCNN(SIX['H2V2'], padding='SAME')
  x = normal((1, 8, 12, 1))
  variables = variables_of(model, x)
  aen.assert_equivariant(
    jax.jit(functools.partial(features_of, model, variables)),
    SIX['H2V2'],
    (8, 12),
    (2, 3),
    x=x,
    group_axis=True,
  )


def test_from_nnx():
  x = normal((2, *SMALL))
  few = nn.initializers.constant(0.01)  # each of their operations is compiled
  linen = aen.GroupCNN((), kernel_init=few, method='conv')
  model = nnx.bridge.ToNNX(linen, rngs=nnx.Rngs(0)).lazy_init(x)
  logits = nnx.jit(lambda model, x: model(x))(model, x)
  assert logits.shape == (2, 10)


@pytest.mark.parametrize(
  ('settings', 'shape', 'message'),
  [
    ({}, (30, 30, 1), 'pad them to 32×32'),
    ({}, (29, 29, 1), 'multiples of 4'),
    ({}, (28, 20, 1), 'rotations need square images'),
    ({}, (8, 8, 1), "use padding='SAME'"),
    ({'padding': 'SAME'}, (10, 10, 1), 'pad them to 12×12'),
    ({'padding': 'FULL'}, SMALL, 'padding must be one of'),
    ({'head': 'conv'}, SMALL, 'head must be one of'),
    ({'width': 0.01}, SMALL, 'at least one channel'),
    ({'width': -1}, SMALL, 'at least one channel'),
    ({'num_classes': 0}, SMALL, 'num_classes must be'),
    ({'in_shape': (28,)}, SMALL, 'in_shape must be'),
    ({'in_shape': (28, 28, 1)}, SMALL, r'\[B, 28, 28, 1\]'),
    ({'symmetries': 'vertical_translation'}, SMALL, 'already built into'),
  ],
)
def test_what_cannot_be_is_said(settings, shape, message):
  settings = {'symmetries': ('rotation',), **settings}
  with pytest.raises(ValueError, match=message):
    jax.eval_shape(
      lambda: aen.GroupCNN(**settings).init(
        jax.random.key(0), jnp.zeros((1, *shape))
      )
    )


def test_sizes_that_nothing_reflects_are_free():
  for names in ((), ('horizontal_flip',)):
    model = aen.GroupCNN(names)
    x = jnp.zeros((1, 29, 28, 1))
    logits, _ = jax.eval_shape(model.init_with_output, jax.random.key(0), x)
    assert logits.shape == (1, 10)


def test_the_size_of_images_is_asked_for():
  with pytest.raises(ValueError, match=r'in_shape=\(28, 28, 1\)'):
    aen.GroupCNN(()).num_weights()


@pytest.mark.slow
def test_the_published_network_counts_every_element_of_d4_twice():
  names = ('rotation', 'horizontal_flip', 'vertical_flip')
  model = aen.GroupCNN(names, in_shape=SMALL, as_published=True, num_classes=3)
  x = normal((2, *SMALL))
  variables = variables_of(model, x)
  params, group = variables['params'], model.group()
  assert model.widths() == (2, 76)
  copies = [*range(group.order)] * 2  # the 16 of the published code

  def convolve(x, name):
    """Convolves [B, H, W, copies or 1, C] with all copies of the filter."""
    index = model.sublayers()[name].sharing().kernel
    free = np.asarray(params[name]['kernel'])  # [W, C, F]
    kernel = np.zeros((3, 3, x.shape[3], len(copies), *free.shape[1:]))
    for out, k in enumerate(copies):
      for into in range(x.shape[3]):
        if name == 'conv_0':
          filters = free[index[..., 0]]
        else:  # constant along rows: one weight for each of three rows
          h = group.table[group.inverse[k], copies[into]]
          assert len(np.unique(index[..., h, 0])) == 3
          filters = free[index[:, :1, h, 0]].repeat(3, axis=1)
        kernel[:, :, into, out] = group.symmetry(k)(filters)
    kernel = kernel.transpose(0, 1, 2, 4, 3, 5)
    kernel = kernel.reshape(3, 3, x.shape[3] * free.shape[1], -1)
    y = jax.lax.conv_general_dilated(
      x.reshape(*x.shape[:3], -1),
      jnp.asarray(kernel, jnp.float32),
      (1, 1),
      'VALID',
      dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    )
    y = y.reshape(*y.shape[:3], len(copies), -1)
    y = y + jnp.broadcast_to(params[name]['bias'], y.shape)
    return nn.relu(y)

  y = jnp.asarray(x)[..., None, :]
  for first in (0, 2):
    y = convolve(convolve(y, f'conv_{first}'), f'conv_{first + 1}')
    batch, height, width, *rest = y.shape
    y = y.reshape(batch, height // 2, 2, width // 2, 2, *rest).max((2, 4))
  half = group.order
  y = jnp.concatenate([y[..., :half, :], y[..., half:, :]], 0)
  y = y.reshape(2, len(x), -1).swapaxes(0, 1).reshape(len(x), -1)
  for name in ('dense_0', 'dense_1', 'head'):
    y = y @ params[name]['kernel']
    y = y + jnp.broadcast_to(params[name]['bias'], y.shape)
    y = nn.relu(y) if name == 'dense_0' else y
  np.testing.assert_allclose(model.apply(variables, x), y, rtol=1e-4, atol=1e-5)


def test_published_networks_differ_from_ours_only_where_the_code_does():
  names = ('rotation', 'horizontal_flip', 'vertical_flip')
  ours = aen.GroupCNN(names, in_shape=(28, 28))
  theirs = ours.clone(as_published=True)
  assert (ours.copies(), theirs.copies()) == (8, 16)
  assert theirs.clone(width=1.5).widths() == (3, 76)
  for two in (names[:2], names[1:]):
    published = theirs.clone(symmetries=two)
    assert published.copies() == published.group().order
    assert published.widths() == (ours.clone(symmetries=two).widths()[0], 100)
  assert theirs.clone(symmetries=()).widths() == (20, 100)


def test_dropout_may_be_traced():
  model = aen.GroupCNN((), in_shape=SMALL)
  x, key = normal((2, *SMALL)), jax.random.key(1)
  variables = variables_of(model, x)
  apply = jax.jit(
    lambda train: model.apply(variables, x, train, rngs={'dropout': key})
  )
  for train in (False, True):
    fixed = model.apply(variables, x, train, rngs={'dropout': key})
    np.testing.assert_allclose(apply(train), fixed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
  'options',
  [
    {'dropout_rate': -1},
    {'dropout_rate': 1.0},
    {'dropout_rate': np.nan},
    {'width': np.inf},
    {'width': np.nan},
    {'width': '1'},
  ],
)
def test_sizes_and_rates_that_cannot_be_are_said(options):
  with pytest.raises(ValueError, match='(dropout_rate|width) must be'):
    aen.GroupCNN((), **options)
