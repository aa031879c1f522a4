"""Training child networks: one pure function, then many at once.

Children of one program differ in data only: the random key, the indices of
shared weights, the mask of augmentations, the learning rate. So children with
different symmetries train under one `vmap`, without recompilation.

Legend: C children, E epochs, N images, B batch size.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import inspect
from typing import Any, NamedTuple

import chex
from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
import numpy as np
import optax

from aen.train import augment as augment_lib
from aen.train import recipe as recipe_lib
from aen.train.store import Record

# Children in one `vmap` on each device. On a CPU, batched small matrix products
# are slower than one at a time (measured by experiments/search_benchmark.py).
CHILDREN_PER_BATCH: Mapping[str, int] = {'cpu': 1, 'gpu': 32, 'tpu': 32}
# Larger sets of images are evaluated in parts: convolutional features take many
# times the memory of the images.
_MAX_EVALUATED = 1000
_MAX_INITIAL = 128  # images for data-dependent initialisation
_LARGEST = np.finfo(np.float32).max


class Examples(NamedTuple):
  """Images and their labels."""

  images: jax.Array  # float32 [N, ...]
  labels: jax.Array  # int32 [N] for classes, float32 [N] for numbers


class ChildData(NamedTuple):
  """The images that all children are trained and evaluated on."""

  train: Examples
  validation: Examples
  test: Examples | None = None  # measured every epoch, never used to select
  few: jax.Array | None = None  # bool [N], test images also measured apart
  black: jax.Array | float = 0.0  # the `fill` of augmentations


class ChildInputs(NamedTuple):
  """The data that make a program a particular network."""

  collections: Mapping[str, Any]  # as of `aen.sharing_variables`
  augmentations: Any = None  # bool [6], a mask of `aen.augment`


@dataclasses.dataclass(frozen=True)
class ChildConfig:
  """The static configuration of a training program.

  The model maps images [B, ...] to logits [B, num_classes], or to [B, 1] for
  regression. If its `__call__` takes `train`, training passes train=True and a
  key for dropout.
  """

  model: nn.Module
  recipe: recipe_lib.Recipe = recipe_lib.Recipe()
  return_params: bool = False  # of the best epoch


def train_child(
  key: jax.Array,
  collections: Mapping[str, Any],
  data: ChildData,
  config: ChildConfig,
  learning_rate: jax.Array | None = None,
  augmentations: jax.Array | None = None,
) -> Record:
  """Trains one network: a pure function of its arguments.

  Args:
    key: Consumed by initialisation, shuffling, augmentation and dropout.
    collections: Variable collections beside the parameters, such as 'sharing'
      of `aen.sharing_variables`; {} for none.
    data: The images.
    config: Model and recipe; static.
    learning_rate: Replaces the recipe's. float32 []
    augmentations: A mask of `aen.augment` for the training images, bool [6];
      None for no augmentation.

  Returns:
    The measurements after every epoch, [E] each.
  """
  recipe = config.recipe
  _check(data, recipe)
  rate = recipe.learning_rate if learning_rate is None else learning_rate
  images = data.train.images[:_MAX_INITIAL]
  init_key, *_ = jax.random.split(key, 3)
  params = _init(
    init_key, collections, images, config.model, recipe.initializer
  )
  best = _Best(params) if config.return_params else None

  def epoch(carry: Any, number: jax.Array) -> tuple[Any, Record]:
    child, best = carry
    plan = _plan(key, number, rate, len(data.train.labels), recipe)
    child, measured = _epoch(
      child, plan, collections, augmentations, data, config
    )
    if best is not None:
      score = recipe_lib.scores(measured, recipe.criterion)
      best = _better(best, child.params, score)
    return (child, best), measured

  (child, best), measured = lax.scan(
    epoch, (_begin(params, recipe), best), jnp.arange(recipe.epochs)
  )
  return measured.replace(
    diverged=child.diverged, params=None if best is None else best.params
  )


def _check(data: ChildData, recipe: recipe_lib.Recipe) -> None:
  """Raises unless the shapes and dtypes of images and labels match."""
  for name, part, least in (
    ('train', data.train, 1 if recipe.partial_batch else recipe.batch_size),
    ('validation', data.validation, 1),
    ('test', data.test, 1),
  ):
    if part is None:
      continue
    images, labels = np.shape(part.images), np.shape(part.labels)
    kind = jnp.result_type(part.labels)
    numbers = any(
      jnp.issubdtype(kind, known) for known in (jnp.integer, jnp.floating)
    )
    if len(images) < 2 or labels != images[:1] or not numbers:
      raise ValueError(
        f'{name} needs images [N, ...] and labels [N], integers for classes or'
        f' floats for regression, got shapes {images} and {labels} of {kind}'
      )
    if images[0] < least:
      raise ValueError(f'{name} needs at least {least} images, got {images[0]}')


class _KeyData(NamedTuple):
  """Random keys, one per child, in hashable form for caches."""

  words: tuple[tuple[int, ...], ...]
  impl: Any


class _Child(NamedTuple):
  """The state of training between two epochs."""

  params: Any
  opt_state: Any
  diverged: Any


class _Best(NamedTuple):
  """The parameters of the best epoch so far."""

  params: Any
  score: Any = np.float32(-1)


class _Plan(NamedTuple):
  """The inputs of an epoch's steps: every leaf [steps, ...]."""

  rows: jax.Array  # the images of each batch, int32 [steps, B]
  used: jax.Array | None  # False for padding, bool [steps, B]
  drop: jax.Array | None  # whether dropout is on, bool [steps]
  keys: jax.Array
  rates: jax.Array


def _init(
  key: jax.Array,
  collections: Mapping[str, Any],
  images: jax.Array,
  model: nn.Module,
  initializer: str,
) -> Any:
  """Initialises the parameters as the named initializer says."""
  _, variables = model.apply(
    collections, images[:1], rngs={'params': key}, mutable=['params']
  )
  params: Any = variables['params']
  how = recipe_lib.INITIALIZERS[initializer]
  if how.adjust is not None:
    shared = {
      name: layer
      for name, layer in collections.get('sharing', {}).items()
      if 'kernel' in layer
    }
    params = how.adjust(key, params, shared)
  if how.normalised:
    params = _normalised(params, collections, images, model)
  return params


def _normalised(
  params: Any,
  collections: Mapping[str, Any],
  images: jax.Array,
  model: nn.Module,
) -> Any:
  """Divides each kernel by the root mean square of its layer's outputs.

  Biases must be 0. One pass suffices, because each layer sees the outputs of
  normalised layers.
  """
  scaled = dict(params)

  def normalise(next_fun: Any, args: Any, kwargs: Any, context: Any) -> Any:
    y, name = next_fun(*args, **kwargs), context.module.name
    layer = params.get(name, {})
    if context.method_name != '__call__' or 'kernel' not in layer:
      return y
    scale = lax.rsqrt(jnp.mean(jnp.square(y)))
    scaled[name] = {**layer, 'kernel': scale * layer['kernel']}
    return scale * y

  with nn.intercept_methods(normalise):
    model.apply({'params': params, **collections}, images)
  return scaled


def _begin(params: Any, recipe: recipe_lib.Recipe) -> _Child:
  optimizer = recipe_lib.OPTIMIZERS[recipe.optimizer](recipe.momentum)
  return _Child(params, optimizer.init(params), jnp.array(False))


def _plan(
  key: jax.Array,
  epoch: jax.Array,
  rate: jax.Array | float,
  num_images: int,
  recipe: recipe_lib.Recipe,
) -> _Plan:
  """Draws the batches of an epoch from the child's key."""
  _, order_key, noise_key = jax.random.split(key, 3)
  epoch_key = jax.random.fold_in(order_key, epoch if recipe.fresh_order else 0)
  order = jax.random.permutation(epoch_key, num_images)
  size, used, drop = recipe.batch_size, None, None
  if recipe.partial_batch:  # pads the last batch
    rows = jnp.pad(order, (0, -num_images % size)).reshape(-1, size)
    used = jnp.arange(rows.size).reshape(-1, size) < num_images
  else:
    rows = order[: num_images // size * size].reshape(-1, size)
  steps = len(rows)
  if recipe.dropout == 'first_epoch':
    drop = jnp.broadcast_to(epoch == 0, steps)
  keys = jax.random.split(jax.random.fold_in(noise_key, epoch), steps)
  done = (epoch + jnp.arange(steps) / steps) / recipe.epochs
  rates = rate * recipe_lib.SCHEDULES[recipe.schedule](done)
  return _Plan(rows, used, drop, keys, rates)


def _epoch(
  child: _Child,
  plan: _Plan,
  collections: Mapping[str, Any],
  augmentations: jax.Array | None,
  data: ChildData,
  config: ChildConfig,
) -> tuple[_Child, Record]:
  """Trains a child for one epoch, then measures it."""
  recipe, model = config.recipe, config.model
  optimizer = recipe_lib.OPTIMIZERS[recipe.optimizer](recipe.momentum)
  takes_train = 'train' in inspect.signature(model.__call__).parameters

  def step(carry: tuple[Any, Any], now: _Plan) -> tuple[Any, jax.Array]:
    params, opt_state = carry
    augment_key, dropout_key = jax.random.split(now.keys)
    images = data.train.images[now.rows]
    if augmentations is not None:
      images = augment_lib.augment(
        augment_key, images, augmentations, data.black
      )
    labels = data.train.labels[now.rows]
    noise: dict[str, Any] = {}
    if takes_train:
      train = True if now.drop is None else now.drop
      noise = {'train': train, 'rngs': {'dropout': dropout_key}}

    def loss_fn(params: Any) -> jax.Array:
      variables = {'params': params, **collections}
      logits: Any = model.apply(variables, images, **noise)
      return _losses(logits, labels).mean(where=now.used)

    loss, gradients = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    params = jax.tree.map(lambda p, u: p - now.rates * u, params, updates)
    return (params, opt_state), loss

  (params, opt_state), losses = lax.scan(
    step, (child.params, child.opt_state), plan
  )
  finite = jnp.array(True)
  for leaf in jax.tree.leaves(params):
    finite &= jnp.isfinite(leaf).all()
  sound = finite & ~child.diverged
  params, opt_state = jax.tree.map(
    lambda new, old: jnp.where(sound, new, old),
    (params, opt_state),
    (child.params, child.opt_state),
  )
  child = _Child(params, opt_state, diverged=~sound)
  return child, _measure(child, collections, data, config, losses.mean())


def _measure(
  child: _Child,
  collections: Mapping[str, Any],
  data: ChildData,
  config: ChildConfig,
  train_loss: jax.Array,
) -> Record:
  balanced = config.recipe.criterion == 'balanced_accuracy'

  def evaluate(examples: Examples) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns which predictions are right, the accuracy and the loss."""
    logits = _logits(
      config.model, {'params': child.params, **collections}, examples.images
    )
    chex.assert_rank([logits, examples.labels], [2, 1])
    loss = _finite(_losses(logits, examples.labels).mean())
    loss = jnp.where(child.diverged, _LARGEST, loss)
    right = jnp.argmax(logits, axis=-1) == examples.labels
    right = jnp.where(child.diverged, False, right)
    if _are_numbers(examples.labels):
      return right, _r_squared(loss, examples.labels), loss
    if balanced:
      return right, _balanced(right, examples.labels, logits.shape[-1]), loss
    return right, _mean(right), loss

  _, accuracy, loss = evaluate(data.validation)
  record = Record(
    train_loss=_finite(train_loss),
    validation_accuracy=accuracy,
    validation_loss=loss,
    diverged=child.diverged,
  )
  if data.test is not None:
    test_right, accuracy, _ = evaluate(data.test)
    record = record.replace(test_accuracy=accuracy)
    if data.few is not None:
      record = record.replace(few_test_accuracy=_mean(test_right, data.few))
  return record


def _mean(right: jax.Array, where: jax.Array | None = None) -> jax.Array:
  """Returns the fraction of right predictions, correctly rounded."""
  if where is None:
    where = jnp.ones_like(right)
  # XLA multiplies by the reciprocal of a constant, so that 3 · (1/3) < 1.
  count = lax.optimization_barrier(where.sum(dtype=jnp.float32))
  return (right & where).sum(dtype=jnp.float32) / count


def _balanced(
  right: jax.Array, labels: jax.Array, num_classes: int
) -> jax.Array:
  """Returns the mean over classes of the accuracy within each class."""
  counts = jnp.bincount(labels, length=num_classes)
  weights = right.astype(jnp.float32)
  found = jnp.bincount(labels, weights, length=num_classes)
  shares = found / jnp.maximum(1, counts)
  return jnp.minimum(1, shares.sum() / (counts > 0).sum())


def _r_squared(loss: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns R² = 1 - mean squared error / variance, at least 0."""
  variance = jnp.maximum(labels.var(), jnp.finfo(jnp.float32).tiny)
  return jnp.maximum(0, 1 - loss / variance)


def _logits(model: nn.Module, variables: Any, images: jax.Array) -> jax.Array:
  """Applies a model to all images, in parts of at most `_MAX_EVALUATED`."""
  apply: Any = functools.partial(model.apply, variables)
  num_parts = -(-len(images) // _MAX_EVALUATED)
  if num_parts == 1:
    return apply(images)
  size = -(-len(images) // num_parts)
  missing = num_parts * size - len(images)
  padded = jnp.pad(images, ((0, missing), *((0, 0),) * (images.ndim - 1)))
  logits = lax.map(apply, padded.reshape(num_parts, size, *images.shape[1:]))
  return logits.reshape(num_parts * size, -1)[: len(images)]


def _are_numbers(labels: jax.Array) -> bool:
  return jnp.issubdtype(labels.dtype, jnp.floating)


def _losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns cross-entropies, or squared errors in regression. [B]."""
  if _are_numbers(labels):
    return jnp.square(logits[:, 0] - labels)
  return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def _finite(loss: jax.Array) -> jax.Array:
  """Replaces a loss that is not finite by the largest float32."""
  return jnp.where(jnp.isfinite(loss), loss, _LARGEST)


def _better(best: _Best, params: Any, score: jax.Array) -> _Best:
  """Returns the better one, the earlier if they are equal."""
  better = score > best.score
  params = jax.tree.map(
    lambda new, old: jnp.where(better, new, old), params, best.params
  )
  return _Best(params, jnp.maximum(score, best.score))


def train_children(
  keys: jax.Array,
  collections: Mapping[str, Any],
  data: ChildData,
  config: ChildConfig,
  learning_rates: jax.Array | None = None,
  children_per_batch: int | None = None,
  devices: Sequence[jax.Device] | None = None,
  augmentations: jax.Array | None = None,
) -> Record:
  """Trains several networks in one program.

  Args:
    keys: One per child, [C].
    collections: As in `train_child`, stacked: every leaf [C, ...].
    data: The images, the same for all children.
    config: Model and recipe.
    learning_rates: Replace the recipe's. float32 [C]
    children_per_batch: Children per `vmap` and device; batches run one after
      another. By default, `CHILDREN_PER_BATCH` of the backend.
    devices: Where to train; all devices by default.
    augmentations: As in `train_child`, stacked: bool [C, 6].

  Returns:
    As `train_child`, stacked: every leaf [C, ...]. A child's numbers do not
    depend on which other children are trained with it.
  """
  _check(data, config.recipe)
  devices = tuple(devices or jax.devices())
  num_children, num_images = len(keys), len(data.train.labels)
  recipe = config.recipe
  if learning_rates is None:
    learning_rates = np.full(num_children, recipe.learning_rate, np.float32)
  if children_per_batch is None:
    children_per_batch = default_batch(devices[0])
  stacked: Any = keys, collections, learning_rates, augmentations
  if missing := -num_children % (len(devices) * children_per_batch):
    # Pads the last batch with copies of the last child.
    rows = np.minimum(np.arange(num_children + missing), num_children - 1)
    stacked = jax.tree.map(lambda leaf: leaf[rows], stacked)
  keys, collections, rates, augmentations = stacked
  mesh = jax.sharding.Mesh(np.array(devices), ('children',))
  everywhere = jax.sharding.NamedSharding(mesh, PartitionSpec())
  data = jax.device_put(data, None if mesh.size == 1 else everywhere)
  words = tuple(map(tuple, jax.random.key_data(keys).tolist()))
  drawn_from = _KeyData(words, jax.random.key_impl(keys))
  fixed_rates = tuple(np.asarray(rates).tolist())
  params = _starts(drawn_from, collections, data.train.images, config)
  best = None
  if config.return_params:
    best = _Best(params, np.full(len(keys), _Best(None).score))
  children = _begin_each(params, recipe)
  # One epoch per call: the program that is slow to compile does not depend on
  # the number of epochs, and random numbers are drawn by programs that all
  # networks share.
  program = ChildConfig(config.model, dataclasses.replace(recipe, epochs=1))
  curves = []
  for number in range(recipe.epochs):
    plans = _plans(drawn_from, fixed_rates, number, num_images, recipe)
    stacked = children, plans, collections, augmentations
    children, measured = _train(
      stacked, data, program, children_per_batch, mesh
    )
    curves.append(measured)
    if best is not None:
      scores = recipe_lib.scores(measured, recipe.criterion)
      best = _better_each(best, children.params, scores)
  record = jax.tree.map(
    lambda *epochs: np.stack(epochs, axis=1), *jax.device_get(curves)
  )
  record = record.replace(
    diverged=children.diverged, params=None if best is None else best.params
  )
  return jax.tree.map(lambda leaf: leaf[:num_children], record)


def default_batch(device: jax.Device) -> int:
  """Returns the default number of children per `vmap` on a device."""
  return CHILDREN_PER_BATCH.get(device.platform, 1)


_better_each = jax.jit(jax.vmap(_better))
_begin_each = jax.jit(jax.vmap(_begin, (0, None)), static_argnums=1)
_draw_plans = jax.jit(
  jax.vmap(_plan, (0, None, 0, None, None)), static_argnums=(3, 4)
)


def _starts(
  keys: _KeyData,
  collections: Mapping[str, Any],
  images: jax.Array,
  config: ChildConfig,
) -> Any:
  """Returns the initial parameters of children, stacked."""
  model, initializer = config.model, config.recipe.initializer
  how = recipe_lib.INITIALIZERS[initializer]
  padded = getattr(model, 'max_weights', None) is not None
  if not padded or how.adjust is not None or how.normalised:
    few = images[:_MAX_INITIAL]
    return _inits(_keys(keys), collections, few, model, initializer)
  # Children of all structures start from the kernels of one baseline, so the
  # random draw is compiled once.
  drawn = _baseline_start(keys, images.shape[1:], model.baseline(), initializer)
  pairs = drawn, jax.device_get(collections['sharing'])
  each = [
    model.starting_as(*jax.tree.map(lambda leaf, i=i: leaf[i], pairs))
    for i in range(len(keys.words))
  ]
  return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _inits(
  keys: jax.Array,
  collections: Mapping[str, Any],
  images: jax.Array,
  model: nn.Module,
  initializer: str,
) -> Any:
  def init(child: tuple[jax.Array, Any]) -> Any:
    key, own = child
    init_key, *_ = jax.random.split(key, 3)
    return _init(init_key, own, images, model, initializer)

  return lax.map(init, (keys, collections))


# Children with the same seed draw the same numbers, whatever their symmetries.
@functools.lru_cache(maxsize=4)
def _baseline_start(
  keys: _KeyData,
  image_shape: tuple[int, ...],
  baseline: nn.Module,
  initializer: str,
) -> Any:
  """Returns the initial parameters of baselines, as NumPy arrays."""
  image = np.zeros((1, *image_shape), np.float32)
  return jax.device_get(_inits(_keys(keys), {}, image, baseline, initializer))


@functools.lru_cache(maxsize=64)
def _plans(
  keys: _KeyData,
  rates: tuple[float, ...],
  epoch: int,
  num_images: int,
  recipe: recipe_lib.Recipe,
) -> _Plan:
  """Returns the plans of an epoch, stacked."""
  given = np.asarray(rates, np.float32)
  return _draw_plans(_keys(keys), epoch, given, num_images, recipe)


def _keys(data: _KeyData) -> jax.Array:
  words = jnp.asarray(data.words, jnp.uint32)
  return jax.random.wrap_key_data(words, impl=data.impl)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _train(
  stacked: Any,
  data: ChildData,
  config: ChildConfig,
  children_per_batch: int,
  mesh: jax.sharding.Mesh,
) -> tuple[_Child, Record]:
  """Trains children for one epoch, those of each device in batches."""

  def share(stacked: Any, data: ChildData) -> tuple[_Child, Record]:
    def one(each: tuple[_Child, _Plan, Any, Any]) -> tuple[_Child, Record]:
      return _epoch(*each, data, config)

    batch_size = None if children_per_batch == 1 else children_per_batch
    return lax.map(one, stacked, batch_size=batch_size)

  if mesh.size == 1:
    return share(stacked, data)
  by_child = PartitionSpec('children')
  return jax.shard_map(
    share,
    mesh=mesh,
    in_specs=(by_child, PartitionSpec()),
    out_specs=by_child,
    check_vma=False,
  )(stacked, data)
