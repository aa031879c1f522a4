"""Training child networks: one pure function, then many at once.

What differs between children of one program is data: the random key, the index
of shared weights, which augmentations are on (or whatever else `index` holds),
the learning rate. So children of different symmetry train under one `vmap`, and
nothing recompiles.

Legend: C children, E epochs, N images, B images a batch.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import inspect
import types
from typing import Any
from typing import NamedTuple

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
import numpy as np
import optax

from aen.train import augment as augment_lib
from aen.train import recipe as recipe_lib

# Children that one program trains side by side on each device. On a CPU a batch
# of small matrix products is slower than one after another (measured by
# experiments/search_benchmark.py); on an accelerator it is the whole point.
CHILDREN_PER_BATCH: Mapping[str, int] = types.MappingProxyType(
  {'cpu': 1, 'gpu': 32, 'tpu': 32}
)


# The entry of a child's `index` that is no collection of variables: the mask of
# `aen.augment`, which acts on training images.
AUGMENTATION = 'augmentation'

# More images than this are measured part by part: a convolution's features are
# many times as large as its images.
_MEASURED_AT_ONCE = 1000
_LARGEST = np.finfo(np.float32).max


Params = Mapping[str, Any]


class Examples(NamedTuple):
  """Images and labels that are used together."""

  images: jax.Array  # float32 [N, ...]
  labels: jax.Array  # int32 [N]


class ChildData(NamedTuple):
  """What every child sees."""

  train: Examples
  validation: Examples
  test: Examples | None = None  # measured after every epoch, never chosen by
  few: jax.Array | None = None  # bool [N]: test images that count apart, too
  black: jax.Array | float = 0.0  # what augmentations put beyond the borders


@dataclasses.dataclass(frozen=True)
class ChildConfig:
  """The program that trains a child: what is compiled, not traced.

  Attributes:
    model: Maps images [B, ...] to logits [B, num_classes]. If its call takes
      `train`, it is told when it trains and given a key for dropout.
    recipe: How to train it.
    return_params: Whether to return the best epoch's parameters.
  """

  model: nn.Module
  recipe: recipe_lib.Recipe = recipe_lib.Recipe()
  return_params: bool = False


class ChildResult(NamedTuple):
  """What became of a child; no NaN among it.

  A child whose parameters stop being finite has diverged: it keeps those of the
  last sound epoch, and from there on its accuracies are 0 and its losses the
  largest there is.
  """

  train_loss: jax.Array  # float32 [E], the mean over the epoch's steps
  validation_accuracy: jax.Array  # float32 [E]
  validation_loss: jax.Array  # float32 [E]
  test_accuracy: jax.Array | None  # float32 [E]
  few_test_accuracy: jax.Array | None  # float32 [E], on the few
  diverged: jax.Array  # bool []
  params: Any = None  # those of the best validation epoch, on request


def train_child(
  key: jax.Array,
  index: Mapping[str, Any],
  data: ChildData,
  config: ChildConfig,
  learning_rate: jax.Array | None = None,
) -> ChildResult:
  """Trains one network: a pure function of its arguments.

  Args:
    key: Initialises the network, orders the images, and drives augmentations
      and dropout; consumed.
    index: Variable collections beside the parameters, such as the 'sharing' of
      `aen.sharing_variables`; and, as 'augmentation', a mask of `aen.augment`.
      {} for none.
    data: The images.
    config: The program; static.
    learning_rate: float32 [], instead of the recipe's.

  Returns:
    What was measured after every epoch.
  """
  recipe, model = config.recipe, config.model
  init_key, order_key, noise_key = jax.random.split(key, 3)
  mask = index.get(AUGMENTATION)
  index = {name: v for name, v in index.items() if name != AUGMENTATION}
  rate = recipe.learning_rate if learning_rate is None else learning_rate
  optimizer = recipe_lib.OPTIMIZERS[recipe.optimizer](recipe.momentum)

  def loss_of(params: Any, batch: Examples, key: jax.Array) -> jax.Array:
    noise = _noise(model, key)
    variables = {'params': params, **index}
    logits: Any = model.apply(variables, batch.images, **noise)
    return _losses(logits, batch.labels).mean()

  def step(
    carry: tuple[Any, Any], inputs: tuple[jax.Array, jax.Array, jax.Array]
  ) -> tuple[Any, jax.Array]:
    (params, slots), (rows, key, rate) = carry, inputs
    augment_key, dropout_key = jax.random.split(key)
    images = data.train.images[rows]
    if mask is not None:
      images = augment_lib.augment(augment_key, images, mask, data.black)
    batch = Examples(images, data.train.labels[rows])
    loss, gradients = jax.value_and_grad(loss_of)(params, batch, dropout_key)
    updates, slots = optimizer.update(gradients, slots, params)
    params = jax.tree.map(lambda p, u: p - rate * u, params, updates)
    return (params, slots), loss

  def epoch(child: _Child, number: jax.Array) -> tuple[_Child, ChildResult]:
    order = _order(order_key, number, len(data.train.labels), recipe)
    keys = jax.random.split(jax.random.fold_in(noise_key, number), len(order))
    rates = rate * _shares(recipe, number, len(order))
    (params, slots), losses = lax.scan(
      step, (child.params, child.slots), (order, keys, rates)
    )
    child = _keep_if_finite(child, params, slots)
    measured = _measure(child, index, data, model, losses.mean())
    score = recipe_lib.scores(measured, recipe.criterion)
    return _keep_best(child, score), measured

  params = _init(init_key, index, data.train.images[:1], model, recipe)
  child = _Child(params, optimizer.init(params))
  if config.return_params:
    child = child._replace(best=params)
  child, measured = lax.scan(epoch, child, jnp.arange(recipe.epochs))
  return measured._replace(diverged=child.diverged, params=child.best)


class _Child(NamedTuple):
  """A child between two epochs."""

  params: Any
  slots: Any  # of the optimizer
  diverged: Any = np.False_
  best: Any = None  # parameters of the best validation epoch
  best_score: Any = np.float32(-1)


def _init(
  key: jax.Array,
  index: Mapping[str, Any],
  images: jax.Array,
  model: nn.Module,
  recipe: recipe_lib.Recipe,
) -> Any:
  _, variables = model.apply(
    index, images, rngs={'params': key}, mutable=['params']
  )
  params = variables['params']
  if recipe.initializer == 'published':
    for name, labels in index.get('sharing', {}).items():
      params[name] = _published_scale(params[name], labels)
  return params


def _published_scale(params: Any, labels: Mapping[str, jax.Array]) -> Any:
  """Turns U(±1/√fan-in) into the published U(±1/√number of weights)."""
  if 'kernel' not in labels:  # a plain layer
    return params
  if labels['kernel'].ndim != 2:
    others = ', '.join(n for n in recipe_lib.INITIALIZERS if n != 'published')
    raise ValueError(
      "the initializer 'published' counts the orbits of dense layers, got a"
      f' convolution; choose one of {others}'
    )
  num_in, orbits = labels['kernel'].shape[0], labels['kernel'].max() + 1
  features = params['kernel'].shape[-1] if params['kernel'].ndim == 3 else 1
  scale = jnp.sqrt(num_in / (orbits * features))  # fan-in: num_in * channels
  return {**params, 'kernel': params['kernel'] * scale}


def _order(
  key: jax.Array, epoch: jax.Array, num_images: int, recipe: recipe_lib.Recipe
) -> jax.Array:
  """Returns which images each step of an epoch sees, int32 [steps, B]."""
  steps = num_images // recipe.batch_size
  key = jax.random.fold_in(key, epoch if recipe.fresh_order else 0)
  order = jax.random.permutation(key, num_images)
  return order[: steps * recipe.batch_size].reshape(steps, -1)


def _shares(
  recipe: recipe_lib.Recipe, epoch: jax.Array, steps: int
) -> jax.Array:
  """Returns what is left of the learning rate in each step of an epoch."""
  over = (epoch + jnp.arange(steps) / steps) / recipe.epochs
  return recipe_lib.SCHEDULES[recipe.schedule](over)


def _noise(model: nn.Module, key: jax.Array) -> dict[str, Any]:
  """Returns what a model's call is told in training, if it wants to know."""
  if 'train' not in inspect.signature(model.__call__).parameters:
    return {}
  return {'train': True, 'rngs': {'dropout': key}}


def _keep_if_finite(child: _Child, params: Any, slots: Any) -> _Child:
  finite = jnp.array(True)
  for leaf in jax.tree.leaves(params):
    finite &= jnp.isfinite(leaf).all()
  sound = finite & ~child.diverged
  params, slots = jax.tree.map(
    lambda new, old: jnp.where(sound, new, old),
    (params, slots),
    (child.params, child.slots),
  )
  return child._replace(params=params, slots=slots, diverged=~sound)


def _measure(
  child: _Child,
  index: Mapping[str, Any],
  data: ChildData,
  model: nn.Module,
  train_loss: jax.Array,
) -> ChildResult:
  variables = {'params': child.params, **index}

  def right_and_loss(examples: Examples) -> tuple[jax.Array, jax.Array]:
    logits = _in_parts(
      functools.partial(model.apply, variables), examples.images
    )
    right = jnp.argmax(logits, axis=-1) == examples.labels
    loss = _finite(_losses(logits, examples.labels).mean())
    return (
      jnp.where(child.diverged, False, right),
      jnp.where(child.diverged, _LARGEST, loss),
    )

  right, loss = right_and_loss(data.validation)
  test_accuracy = few_test_accuracy = None
  if data.test is not None:
    test_right, _ = right_and_loss(data.test)
    test_accuracy = test_right.mean(dtype=jnp.float32)
    if data.few is not None:
      few_test_accuracy = test_right.mean(dtype=jnp.float32, where=data.few)
  return ChildResult(
    train_loss=_finite(train_loss),
    validation_accuracy=right.mean(dtype=jnp.float32),
    validation_loss=loss,
    test_accuracy=test_accuracy,
    few_test_accuracy=few_test_accuracy,
    diverged=child.diverged,
  )


def _in_parts(
  apply: Callable[[jax.Array], Any], images: jax.Array
) -> jax.Array:
  """Applies a network to all images, not to too many at once."""
  num_parts = -(-len(images) // _MEASURED_AT_ONCE)
  if num_parts == 1:
    return apply(images)
  size = -(-len(images) // num_parts)
  missing = num_parts * size - len(images)
  padded = jnp.pad(images, ((0, missing), *((0, 0),) * (images.ndim - 1)))
  logits = lax.map(apply, padded.reshape(num_parts, size, *images.shape[1:]))
  return logits.reshape(num_parts * size, -1)[: len(images)]


def _losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
  return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def _finite(loss: jax.Array) -> jax.Array:
  """Replaces a loss that is no number by the largest that is one."""
  return jnp.where(jnp.isfinite(loss), loss, _LARGEST)


def _keep_best(child: _Child, score: jax.Array) -> _Child:
  """Keeps the parameters of the first best epoch, if they are wanted."""
  better = score > child.best_score
  best = (
    jax.tree.map(
      lambda new, old: jnp.where(better, new, old), child.params, child.best
    )
    if child.best is not None
    else None
  )
  return child._replace(
    best=best, best_score=jnp.maximum(score, child.best_score)
  )


def train_children(
  keys: jax.Array,
  index: Mapping[str, Any],
  data: ChildData,
  config: ChildConfig,
  learning_rates: jax.Array | None = None,
  children_per_batch: int | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> ChildResult:
  """Trains children side by side, in one program.

  Args:
    keys: One per child, [C].
    index: As in `train_child`, stacked: every leaf [C, ...].
    data: What all of them see.
    config: The program.
    learning_rates: float32 [C], instead of the recipe's.
    children_per_batch: How many to `vmap` on each device; the others wait their
      turn, which caps memory. By default as measured for the backend.
    devices: The children are divided among these; all there are by default.

  Returns:
    As `train_child`, stacked: every leaf [C, ...]. A child's numbers do not
    depend on its company.
  """
  devices = tuple(devices or jax.devices())
  num_children = len(keys)
  if learning_rates is None:
    learning_rates = np.full(
      num_children, config.recipe.learning_rate, np.float32
    )
  if children_per_batch is None:
    children_per_batch = default_batch(devices[0])
  stacked = (keys, index, learning_rates)
  filled = _fill_up(stacked, num_children, len(devices) * children_per_batch)
  mesh = jax.sharding.Mesh(np.array(devices), ('children',))
  results = _train(*filled, data, config, children_per_batch, mesh)
  return jax.tree.map(lambda leaf: leaf[:num_children], results)


def default_batch(device: jax.Device) -> int:
  """Returns how many children to train side by side on a device."""
  return CHILDREN_PER_BATCH.get(device.platform, 1)


def _fill_up(stacked: Any, count: int, multiple: int) -> Any:
  """Repeats the last child until the count is a multiple."""
  missing = -count % multiple
  if not missing:
    return stacked
  rows = np.minimum(np.arange(count + missing), count - 1)
  return jax.tree.map(lambda leaf: leaf[rows], stacked)


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _train(
  keys: jax.Array,
  index: Mapping[str, Any],
  learning_rates: jax.Array,
  data: ChildData,
  config: ChildConfig,
  children_per_batch: int,
  mesh: jax.sharding.Mesh,
) -> ChildResult:
  def share(stacked: Any, data: ChildData) -> ChildResult:
    """Trains one device's share."""

    def one(child: Any) -> ChildResult:
      key, index, rate = child
      return train_child(key, index, data, config, rate)

    if children_per_batch == 1:
      return lax.map(one, stacked)
    return lax.map(one, stacked, batch_size=children_per_batch)

  stacked = (keys, index, learning_rates)
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
