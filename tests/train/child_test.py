"""Training children: against NumPy, alone and in company, sound and unsound."""

import dataclasses
import functools
import json
import os
import subprocess
import sys

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import aen
from aen.nn import convert
from aen.nn import group_cnn
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.train import child as child_lib
from aen.train import recipe as recipe_lib

SIDE, CLASSES = 4, 3


@functools.cache
def data(num_images=48, with_test=False):
  """Images whose class is which of three rows is bright, and noise."""
  rng = np.random.default_rng(0)

  def examples(count):
    labels = rng.integers(CLASSES, size=count)
    images = rng.normal(size=(count, SIDE, SIDE)).astype(np.float32)
    images[np.arange(count), labels] += 1.5
    return child_lib.Examples(
      jnp.asarray(images), jnp.asarray(labels, jnp.int32)
    )

  return child_lib.ChildData(
    examples(num_images), examples(40), examples(30) if with_test else None
  )


@functools.cache
def space(**options):
  return mlp_space.mlp_space(
    (SIDE, SIDE),
    CLASSES,
    hidden_shapes=((4, 4), (4, 4)),
    features=options.pop('features', 1),
    **options,
  )


def stacked(networks, **options):
  parts = [space(**options).inputs(n).collections for n in networks]
  return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def keys(*seeds):
  return jnp.stack([jax.random.key(seed) for seed in seeds])


def train(networks, seeds, recipe=None, *, options=None, **kwargs):
  options = options or {}
  recipe = recipe or recipe_lib.Recipe(epochs=3, batch_size=8)
  config = child_lib.ChildConfig(
    space(**options).program(networks[0]),
    recipe,
    kwargs.pop('return_params', False),
  )
  return child_lib.train_children(
    keys(*seeds),
    stacked(networks, **options),
    kwargs.pop('data', data()),
    config,
    **kwargs,
  )


def numpy_child(seed, recipe, examples, rate):
  """A dense two-layer network trained by hand: the oracle."""
  model = aen.EquivariantMLP(
    (), CLASSES, (SIDE, SIDE), ((4, 4),), kernel_init=_uniform()
  )
  init_key, order_key = jax.random.split(jax.random.key(seed))
  params = model.init(init_key, examples.images[:1])['params']
  params = {
    ('hidden', 'kernel'): params['hidden_0']['kernel'].reshape(16, 16),
    ('hidden', 'bias'): params['hidden_0']['bias'],
    ('head', 'kernel'): params['head']['kernel'],
    ('head', 'bias'): params['head']['bias'],
  }
  params = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
  first = {name: np.zeros_like(leaf) for name, leaf in params.items()}
  second = {name: np.zeros_like(leaf) for name, leaf in params.items()}
  losses, step = [], 0
  for epoch in range(recipe.epochs):
    order = jax.random.permutation(
      jax.random.fold_in(order_key, epoch), len(examples.labels)
    )
    epoch_losses = []
    for start in range(
      0, len(order) - recipe.batch_size + 1, recipe.batch_size
    ):
      rows = np.asarray(order[start : start + recipe.batch_size])
      x = np.asarray(examples.images, np.float64)[rows].reshape(len(rows), -1)
      loss, gradients = numpy_loss(params, x, np.asarray(examples.labels)[rows])
      epoch_losses.append(loss)
      now, step = float(rate(step)), step + 1
      for name, gradient in gradients.items():
        if recipe.optimizer == 'sgd':
          first[name] = recipe.momentum * first[name] + gradient
          update = first[name]
        else:
          first[name] += (1 - 0.9) * (gradient - first[name])
          second[name] += (1 - 0.999) * (gradient**2 - second[name])
          update = (first[name] / (1 - 0.9**step)) / (
            np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
          )
        params[name] = params[name] - now * update
    losses.append(np.mean(epoch_losses))
  return model, losses, params


def numpy_loss(params, x, labels):
  hidden = x @ params['hidden', 'kernel'] + params['hidden', 'bias']
  active = np.maximum(hidden, 0)
  logits = active @ params['head', 'kernel'] + params['head', 'bias']
  logits = logits - logits.max(axis=1, keepdims=True)
  log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
  rows = np.arange(len(x))
  error = np.exp(log_p)
  error[rows, labels] -= 1
  error /= len(x)
  back = (error @ params['head', 'kernel'].T) * (hidden > 0)
  gradients = {
    ('head', 'kernel'): active.T @ error,
    ('head', 'bias'): error.sum(axis=0),
    ('hidden', 'kernel'): x.T @ back,
    ('hidden', 'bias'): back.sum(axis=0),
  }
  return -log_p[rows, labels].mean(), gradients


def _uniform():
  return recipe_lib.INITIALIZERS['fan_in'].kernel_init


@pytest.mark.parametrize('schedule', ['constant', 'cosine'])
@pytest.mark.parametrize('optimizer', ['adam', 'sgd'])
def test_a_child_is_trained_as_by_hand(optimizer, schedule):
  recipe = recipe_lib.Recipe(
    epochs=3,
    batch_size=10,
    optimizer=optimizer,
    learning_rate=0.02,
    schedule=schedule,
  )
  steps = recipe.epochs * (len(data().train.labels) // recipe.batch_size)
  rate = {
    'constant': optax.constant_schedule(0.02),
    'cosine': optax.cosine_decay_schedule(0.02, steps),
  }[schedule]
  model, losses, _ = numpy_child(5, recipe, data().train, rate)
  config = child_lib.ChildConfig(model, recipe, return_params=True)
  result = child_lib.train_child(jax.random.key(5), {}, data(), config)
  np.testing.assert_allclose(result.train_loss, losses, rtol=1e-4)
  best = int(result.validation_accuracy.argmax())  # whose parameters these are
  until_then = dataclasses.replace(recipe, epochs=best + 1)
  _, _, params = numpy_child(5, until_then, data().train, rate)
  np.testing.assert_allclose(
    result.params['head']['kernel'], params['head', 'kernel'], atol=1e-4
  )
  assert losses[-1] < losses[0]


def test_children_do_not_depend_on_their_company():
  networks, seeds = [0, 5, 9], [3, 4, 3]
  together = train(networks, seeds)
  for i, (network, seed) in enumerate(zip(networks, seeds, strict=True)):
    alone = train([network], [seed])
    for name in ('train_loss', 'validation_accuracy', 'validation_loss'):
      np.testing.assert_array_equal(
        getattr(alone, name)[0], getattr(together, name)[i]
      )


@pytest.mark.slow
@pytest.mark.parametrize('children_per_batch', [2, 3, 8])
def test_batches_are_only_a_matter_of_speed(children_per_batch):
  networks, seeds = [0, 3, 5, 9, 2], [0, 1, 2, 3, 4]
  one_by_one = train(networks, seeds, children_per_batch=1)
  batched = train(networks, seeds, children_per_batch=children_per_batch)
  np.testing.assert_allclose(
    one_by_one.train_loss, batched.train_loss, rtol=2e-4
  )


@pytest.mark.slow
def test_a_network_trains_the_same_whatever_its_padding():
  network = len(space()) - 1  # all symmetries, the fewest weights
  model, inputs = space().model(network), space().inputs(network).collections
  recipe = recipe_lib.Recipe(epochs=2, batch_size=8)
  exact = child_lib.train_child(
    jax.random.key(1), {}, data(), child_lib.ChildConfig(model, recipe)
  )
  padded = child_lib.train_child(
    jax.random.key(1),
    inputs,
    data(),
    child_lib.ChildConfig(space().program(network), recipe),
  )
  np.testing.assert_allclose(exact.train_loss, padded.train_loss, rtol=1e-4)


@pytest.mark.slow
def test_all_networks_of_a_table_are_few_programs():
  table = mlp_space.mlp_space((28, 28), 10)
  programs = {table.program(network) for network in range(len(table))}
  assert len(table) == 216
  assert len(programs) <= 8  # they differ by the structure of abelian groups
  before = child_lib._train._cache_size()
  for network in range(len(space())):
    train([network], [0])
  train([0], [1])
  assert child_lib._train._cache_size() - before <= 1


def test_learning_rates_and_seeds_may_differ():
  rates = np.array([1e-3, 1e-3, 1e-2], np.float32)
  result = train([2, 2, 2], [0, 1, 0], learning_rates=rates)
  losses = np.asarray(result.train_loss)
  assert (losses[0] != losses[1]).all()
  assert losses[2, -1] < losses[0, -1]
  recipe = recipe_lib.Recipe(epochs=3, batch_size=8, learning_rate=1e-2)
  np.testing.assert_allclose(
    train([2], [0], recipe).train_loss[0], losses[2], rtol=1e-5
  )


@pytest.mark.slow
@pytest.mark.parametrize('optimizer', ['adam', 'sgd'])
def test_a_diverged_child_is_a_result(optimizer):
  recipe = recipe_lib.Recipe(epochs=3, batch_size=8, optimizer=optimizer)
  rates = np.array([1e-3, 1e30, 1e-3], np.float32)
  result = train(
    [0, 1, 2],
    [0, 0, 0],
    recipe,
    learning_rates=rates,
    return_params=True,
    data=data(with_test=True),
  )
  assert result.diverged.tolist() == [False, True, False]
  for leaf in jax.tree.leaves(result):
    assert np.isfinite(np.asarray(leaf, np.float64)).all()
  assert (np.asarray(result.validation_accuracy)[1] == 0).all()
  assert (np.asarray(recipe_lib.scores(result, 'likelihood'))[1] == 0).all()
  sound = train([0, 2], [0, 0], recipe)
  np.testing.assert_array_equal(
    np.asarray(result.train_loss)[[0, 2]], sound.train_loss
  )


@pytest.mark.parametrize('criterion', recipe_lib.CRITERIA)
def test_the_best_epochs_parameters_are_returned(criterion):
  recipe = recipe_lib.Recipe(
    epochs=6, batch_size=8, learning_rate=0.05, criterion=criterion
  )
  result = train([4], [2], recipe, return_params=True)
  scores = np.asarray(recipe_lib.scores(result, criterion))[0]
  assert scores.argmax() < 5, 'or the last epoch being best proves nothing'
  model = space().program(4)
  params = jax.tree.map(lambda leaf: leaf[0], result.params)
  validation = data().validation
  logits = model.apply(
    {'params': params, **space().inputs(4).collections}, validation.images
  )
  right = (logits.argmax(axis=-1) == validation.labels).mean()
  best = scores.argmax()
  np.testing.assert_allclose(right, result.validation_accuracy[0, best])


def test_orders_are_fresh_unless_asked_otherwise():
  fresh = recipe_lib.Recipe(batch_size=8)
  frozen = dataclasses.replace(fresh, fresh_order=False)
  key = jax.random.key(0)
  orders = [
    child_lib._plan(key, epoch, 1.0, 20, fresh).rows for epoch in (0, 1)
  ]
  assert orders[0].shape == (2, 8)
  assert (orders[0] != orders[1]).any()
  assert len(set(np.asarray(orders[0]).ravel().tolist())) == 16
  np.testing.assert_array_equal(
    child_lib._plan(key, 0, 1.0, 20, frozen).rows,
    child_lib._plan(key, 1, 1.0, 20, frozen).rows,
  )


def test_the_published_initialiser_spreads_by_the_number_of_orbits():
  table = mlp_space.mlp_space((8, 8), 10)
  kernel_init = recipe_lib.INITIALIZERS['published'].kernel_init
  for network in (0, table.lattice.network(('rotation', 'horizontal_flip'))):
    params = child_lib._init(
      jax.random.key(0),
      table.inputs(network).collections,
      jnp.zeros((1, 8, 8)),
      table.program(network).clone(kernel_init=kernel_init),
      'published',
    )
    for layer, count in zip(
      ('hidden_0', 'hidden_1'), table.lattice.num_weights[network], strict=True
    ):
      kernel = np.abs(params[layer]['kernel'][:count])
      assert kernel.max() <= 1 / np.sqrt(kernel.size)
      assert kernel.max() > 0.9 / np.sqrt(kernel.size)
  head = np.abs(params['head']['kernel'])
  assert head.max() <= 1 / np.sqrt(head.shape[0])


def initial_cnn(names, initializer, images, key, width=1.0, **options):
  """Returns a group CNN and its initial parameters."""
  how = recipe_lib.INITIALIZERS[initializer]
  model = aen.GroupCNN(
    names,
    in_shape=images.shape[1:],
    kernel_init=how.kernel_init,
    num_classes=5,
    width=width,
    **options,
  )
  params = child_lib._init(
    key,
    convert.sharing_variables(model),
    jnp.asarray(images),
    model,
    initializer,
  )
  return model, params


@pytest.mark.slow
@pytest.mark.parametrize('names', group_cnn.GROUPS.values(), ids='+'.join)
def test_the_published_initialiser_of_cnns_leaves_the_group_out(names):
  images = np.zeros((1, 16, 16), np.float32)
  model, params = initial_cnn(names, 'published', images, jax.random.key(0))
  channels, _ = model.widths()
  for name, layer in params.items():
    fan_in = len(layer['kernel'])
    if name.startswith('conv'):
      fan_in = 9 * (1 if name == 'conv_0' else channels)
    for values in layer.values():
      largest = np.abs(values).max() * fan_in**0.5
      assert largest <= 1 + 1e-6
      assert values.size < 30 or largest > 0.8


def test_he_halves_the_variance_of_layers_without_relu():
  images = np.zeros((1, 16, 16), np.float32)
  _, params = initial_cnn((), 'he', images, jax.random.key(0))
  for name, gain in (('conv_1', 2), ('dense_0', 2), ('dense_1', 1)):
    kernel = np.asarray(params[name]['kernel'])
    fan_in = 9 * kernel.shape[1] if kernel.ndim == 3 else len(kernel)
    np.testing.assert_allclose(fan_in * kernel.var(), gain, rtol=0.1)


def scales(model, params, images):
  """Root mean squares of all layers' outputs, and of the loss's gradients."""
  outputs = {}

  def loss(added):
    def add(next_fun, args, kwargs, context):
      y, name = next_fun(*args, **kwargs), context.module.name
      if context.method_name != '__call__' or name not in params:
        return y
      outputs[name] = y
      return y + added.get(name, 0)

    with nn.intercept_methods(add):
      logits = model.apply({'params': params}, images)
    return optax.softmax_cross_entropy_with_integer_labels(
      logits, jnp.zeros(len(images), int)
    ).mean()

  loss({})
  found = dict(outputs)
  gradients = jax.grad(loss)(jax.tree.map(jnp.zeros_like, found))
  return jax.tree.map(
    lambda leaf: jnp.sqrt(jnp.mean(leaf**2)), (found, gradients)
  )


# Unlike other tests, these spend their time in running programs.
optimised = functools.partial(
  jax.jit,
  compiler_options={
    'xla_backend_optimization_level': 3,
    'xla_llvm_disable_expensive_passes': False,
  },
)


@pytest.mark.slow
@pytest.mark.parametrize('width', [1.0, 1.5], ids=['small', 'large'])
def test_unit_variance_starts_all_groups_alike(width):
  digits = aen.load_dataset('digits').normalised().train.images
  # Images of 28×28, the size of the paper's; half of them set the scale.
  images = np.pad(digits[:48], ((0, 0), (6, 6), (6, 6)), mode='edge')
  found = {}
  for group, names in group_cnn.GROUPS.items():

    def measured(key, names=names):
      start = initial_cnn(names, 'unit_variance', images[:32], key, width)
      return scales(*start, jnp.asarray(images[32:]))

    keys = jax.random.split(jax.random.key(0), 200)
    every = optimised(lambda keys: jax.lax.map(measured, keys))(keys)
    found[group] = jax.tree.map(lambda s: np.exp(np.log(s).mean()), every)
  # Features of a layer: 30 without symmetry, 40 in large networks of D4. Of
  # gradients that flow back to more features, each gets a smaller part, so
  # those of large networks are compared in sum over the features.
  features = {
    group: aen.GroupCNN(names, 5, width=width).widths((28, 28, 1))[0]
    * aen.group(names).order
    for group, names in group_cnn.GROUPS.items()
  }
  for layer in found['none'][0]:
    outputs = [scale[0][layer] for scale in found.values()]
    assert max(outputs) / min(outputs) < 1.05, (layer, outputs)
    gradients = {group: scale[1][layer] for group, scale in found.items()}
    if width > 1 and layer.startswith('conv'):
      gradients = {g: features[g] ** 0.5 * v for g, v in gradients.items()}
    low, high = min(gradients.values()), max(gradients.values())
    assert high / low < 1.15, (layer, gradients)


@pytest.mark.slow
def test_some_small_networks_as_published_start_dead():
  """The published scale, with two filters per layer, may leave none active."""
  digits = aen.load_dataset('digits').train.images[:64] / 127.5 - 1
  images = np.pad(digits, ((0, 0), (6, 6), (6, 6)), constant_values=-1)
  images = images.astype(np.float32)
  names = ('rotation', 'horizontal_flip', 'vertical_flip')

  dead = {}
  for width in (1.0, 1.5):

    def varies(key, width=width):
      model, params = initial_cnn(
        names, 'published', images, key, width, as_published=True
      )
      logits = model.apply({'params': params}, jnp.asarray(images))
      return jnp.ptp(logits, axis=0).max() > 1e-6

    keys = jax.random.split(jax.random.key(1), 200)
    found = optimised(lambda keys: jax.lax.map(varies, keys))(keys)
    dead[width] = 1 - np.mean(found)
  assert 0.02 < dead[1.0] < 0.3, dead
  assert dead[1.5] < dead[1.0]


def test_the_last_batch_of_an_epoch_may_be_smaller():
  recipe = recipe_lib.Recipe(batch_size=8, partial_batch=True)
  order, used, *_ = child_lib._plan(jax.random.key(0), 0, 1.0, 20, recipe)
  assert order.shape == used.shape == (3, 8)
  assert sorted(np.asarray(order)[np.asarray(used)].tolist()) == [*range(20)]


def test_a_smaller_batch_is_a_mean_over_its_images():
  # One epoch of one batch: 6 images, filled up to 8 or exactly 6.
  images = np.random.default_rng(0).normal(size=(6, 4, 4)).astype(np.float32)
  examples = child_lib.Examples(jnp.asarray(images), jnp.arange(6) % 2)
  data = child_lib.ChildData(examples, examples)
  model = aen.EquivariantMLP((), 2, (4, 4), ((2, 2),))
  losses = []
  for size in (6, 8):
    recipe = recipe_lib.Recipe(epochs=2, batch_size=size, partial_batch=True)
    record = child_lib.train_child(
      jax.random.key(0), {}, data, child_lib.ChildConfig(model, recipe)
    )
    losses.append(record.validation_loss)
  np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.slow
def test_dropout_in_the_first_epoch_only():
  images = np.random.default_rng(0).normal(size=(4, 16, 16)).astype(np.float32)
  examples = child_lib.Examples(jnp.asarray(images), jnp.arange(4) % 2)
  data = child_lib.ChildData(examples, examples)
  model = aen.GroupCNN((), 2, in_shape=(16, 16), dropout_rate=0.9)
  curves = {}
  for dropout in recipe_lib.DROPOUTS:
    recipe = recipe_lib.Recipe(epochs=2, batch_size=4, dropout=dropout)
    curves[dropout] = child_lib.train_child(
      jax.random.key(0), {}, data, child_lib.ChildConfig(model, recipe)
    ).train_loss
  always, first = (
    np.asarray(curves[dropout]) for dropout in recipe_lib.DROPOUTS
  )
  np.testing.assert_allclose(always[0], first[0], rtol=1e-5)
  assert abs(always[1] - first[1]) > 1e-3


@pytest.mark.parametrize(
  ('wrong', 'message'),
  [
    ({'epochs': 0}, 'epochs must be a whole number of at least 1, got 0'),
    ({'batch_size': 1.5}, 'batch_size must be a whole number'),
    ({'optimizer': 'lion'}, 'optimizer must be one of adam, sgd, got'),
    ({'initializer': 'x'}, 'initializer must be one of fan_in'),
    ({'criterion': 'x'}, 'criterion must be one of accuracy, likelihood'),
    ({'schedule': 'x'}, 'schedule must be one of constant, cosine'),
    ({'scaling': 'x'}, 'scaling must be one of auto, symmetric'),
    ({'dropout': 'x'}, 'dropout must be one of always, first_epoch'),
    ({'learning_rate': float('nan')}, 'learning_rate must be positive'),
    ({'momentum': 1.0}, r'momentum must be in \[0, 1\), got 1.0'),
  ],
)
def test_wrong_recipes_are_refused(wrong, message):
  with pytest.raises(ValueError, match=message):
    recipe_lib.Recipe(**wrong)


GCNN = gcnn_space.gcnn_space((16, 16), CLASSES)
MASKS = [(), *((name,) for name in aen.AUGMENTATIONS), tuple(aen.AUGMENTATIONS)]
GROUPS = [
  (),
  ('horizontal_flip',),
  ('vertical_flip',),
  ('horizontal_flip', 'vertical_flip'),
  ('rotation',),
  ('rotation', 'horizontal_flip'),
]


@functools.cache
def pictures():
  rng = np.random.default_rng(0)
  images = jnp.asarray(rng.normal(size=(4, 16, 16)), jnp.float32)
  examples = child_lib.Examples(images, jnp.array([0, 1, 2, 0], jnp.int32))
  return child_lib.ChildData(examples, examples, black=-1.0)


def train_cnns(networks, *, rate=1e-3, inputs=None, **changes):
  """Trains two steps; `changes` are of the model."""
  parts = inputs or [GCNN.inputs(network) for network in networks]
  recipe = recipe_lib.Recipe(epochs=1, batch_size=2, optimizer='sgd')
  stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
  return child_lib.train_children(
    keys(*[0] * len(networks)),
    stacked.collections,
    pictures(),
    child_lib.ChildConfig(GCNN.program(networks[0]).clone(**changes), recipe),
    np.full(len(networks), rate, np.float32),
    children_per_batch=len(networks),
    augmentations=stacked.augmentations,
  )


@pytest.mark.slow
@pytest.mark.parametrize('size', [(), ('large',)], ids=['small', 'large'])
@pytest.mark.parametrize('group', GROUPS, ids='+'.join)
def test_every_group_and_size_trains_with_any_augmentations(group, size):
  networks = [GCNN.network((*group, *mask, *size)) for mask in MASKS]
  before = child_lib._train._cache_size()
  result = train_cnns(networks)
  assert child_lib._train._cache_size() - before <= 1
  assert result.train_loss.shape == (len(MASKS), 1)
  assert np.isfinite(result.train_loss).all()
  assert not result.diverged.any()
  assert len(np.unique(result.train_loss)) > 1  # augmentations act


@pytest.mark.slow
def test_no_augmentation_is_as_without_a_mask():
  networks = [GCNN.network(mask) for mask in MASKS]
  inputs = [GCNN.inputs(n)._replace(augmentations=None) for n in networks]
  with_mask, without = train_cnns(networks), train_cnns(networks, inputs=inputs)
  np.testing.assert_allclose(
    with_mask.train_loss[0], without.train_loss[0], rtol=1e-6
  )
  np.testing.assert_allclose(
    with_mask.validation_loss[0], without.validation_loss[0], rtol=1e-6
  )


@pytest.mark.slow
def test_dropout_acts_in_training_only():
  networks = [GCNN.network(mask) for mask in MASKS]
  still = {'rate': 1e-30}  # the parameters stay as they began
  with_dropout = train_cnns(networks, **still)
  without = train_cnns(networks, **still, dropout_rate=0.0)
  assert (with_dropout.train_loss != without.train_loss).all()
  np.testing.assert_allclose(
    with_dropout.validation_loss, without.validation_loss, rtol=1e-6
  )


@pytest.mark.parametrize('count', [999, 1000, 1001, 2500])
def test_many_images_are_measured_in_parts(count):
  images = np.arange(count * 4.0).reshape(count, 2, 2)
  seen = []

  class Counting(nn.Module):
    def __call__(self, part):
      seen.append(len(part))
      return part.reshape(len(part), 4)[:, :3]

  logits = child_lib._logits(Counting(), {}, jnp.asarray(images, jnp.float32))
  np.testing.assert_array_equal(logits, images.reshape(count, 4)[:, :3])
  assert max(seen) <= 1000


_MANY_DEVICES = """
import json, sys
import jax
sys.path[:0] = sys.argv[1:]
from tests.train import child_test as children_test
assert len(jax.devices()) == 8
result = children_test.train([0, 3, 5, 9, 2], [0, 1, 2, 3, 4])
print(json.dumps(jax.device_get(result.train_loss).tolist()))
"""


@pytest.mark.slow
def test_children_are_divided_among_devices():
  flags = os.environ.get('XLA_FLAGS', '')
  run = subprocess.run(
    [sys.executable, '-c', _MANY_DEVICES, *sys.path],
    env={
      **os.environ,
      'XLA_FLAGS': f'{flags} --xla_force_host_platform_device_count=8',
    },
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 0, run.stderr
  here = train([0, 3, 5, 9, 2], [0, 1, 2, 3, 4])
  np.testing.assert_allclose(json.loads(run.stdout), here.train_loss, rtol=2e-4)


@pytest.mark.slow
def test_few_test_images_count_apart_and_change_nothing_else():
  whole = data(with_test=True)
  few = np.arange(30) < 10
  apart = whole._replace(
    test=child_lib.Examples(*(part[:10] for part in whole.test))
  )
  both = train([1], [0], data=whole._replace(few=jnp.asarray(few)))
  np.testing.assert_array_equal(
    both.few_test_accuracy, train([1], [0], data=apart).test_accuracy
  )
  without = train([1], [0], data=whole)
  assert without.few_test_accuracy == ()
  for name in ('train_loss', 'validation_loss', 'test_accuracy'):
    np.testing.assert_array_equal(getattr(both, name), getattr(without, name))


@pytest.mark.parametrize(
  'impl', [pytest.param('threefry2x32', marks=pytest.mark.slow), 'rbg']
)
def test_children_take_keys_of_any_implementation(impl):
  key = jax.random.key(3, impl=impl)
  config = child_lib.ChildConfig(
    space().program(0), recipe_lib.Recipe(epochs=1, batch_size=8)
  )
  alone = child_lib.train_child(
    key, space().inputs(0).collections, data(), config
  )
  together = child_lib.train_children(
    key[None], stacked([0]), data(), config, devices=jax.devices()[:1]
  )
  np.testing.assert_allclose(
    together.validation_loss[0], alone.validation_loss, rtol=1e-5
  )
