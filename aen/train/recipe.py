"""Recipes: the hyperparameters of training, and the selection criterion."""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import json
import math
from typing import Any, NamedTuple

from flax.linen import initializers
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aen import io as io_lib

# Part of every key of the store; to be increased when the results of the same
# recipe change.
RECIPE_VERSION = 2
# Fields added since this version. Keys contain them only if they differ from
# their default, so that older stores stay valid.
_YOUNGER = ('schedule', 'scaling', 'dropout', 'partial_batch')

OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = {
  'adam': lambda momentum: optax.scale_by_adam(b1=momentum),
  'sgd': lambda momentum: optax.trace(decay=momentum),
}


# Layers of `aen.GroupCNN` that no ReLU follows.
_LINEAR = ('dense_1', 'head')
Params = Mapping[str, Any]  # by layer: {'kernel': ..., 'bias': ...}


def _as_published(key: jax.Array, params: Params, shared: Params) -> Params:
  """Rescales kernels U(±1/√fan_in) as in the published code.

  MLP: U(±1/√number of weights) in shared layers. CNN: U(±1/√fan_in) for kernels
  and biases of all layers, where fan_in does not count the group axis.
  """
  indices = {name: layer['kernel'] for name, layer in shared.items()}
  convolutional = any(index.ndim > 2 for index in indices.values())
  found = {}
  for number, (name, layer) in enumerate(params.items()):
    kernel, index = layer['kernel'], indices.get(name)
    if convolutional:
      fan_in = kernel.shape[0]
      if index is not None:  # [3, 3, |G|] or [3, 3, |G|, |G|], kernel [W, C, F]
        fan_in = math.prod(index.shape[:2]) * kernel.shape[1]
        kernel = kernel * math.prod(index.shape[2:-1]) ** 0.5
      own_key, shape = jax.random.fold_in(key, number), layer['bias'].shape
      limit = fan_in**-0.5
      bias = jax.random.uniform(own_key, shape, minval=-limit, maxval=limit)
      layer = {**layer, 'kernel': kernel, 'bias': bias}
    elif index is not None:
      features = kernel.shape[-1] if kernel.ndim == 3 else 1
      # fan_in = index.shape[0] · channels
      # weights = orbits · channels · features
      weights = (index.max() + 1) * features
      layer = {**layer, 'kernel': kernel * jnp.sqrt(index.shape[0] / weights)}
    found[name] = layer
  return found


def _halved_if_linear(_: jax.Array, params: Params, shared: Params) -> Params:
  """Halves the variance of kernels of a CNN that no ReLU follows.

  The variance 2 / fan_in of He et al. compensates for the ReLU. Each layer
  without a ReLU would double the variance of the logits.
  """
  convolutional = any(layer['kernel'].ndim > 2 for layer in shared.values())
  return {
    name: {**layer, 'kernel': layer['kernel'] * 0.5**0.5}
    if convolutional and name in _LINEAR
    else layer
    for name, layer in params.items()
  }


def _centred(_: jax.Array, params: Params, __: Params) -> Params:
  """Subtracts the mean of each filter.

  After a ReLU, inputs have a positive mean, which a filter multiplies by the
  sum of its weights. With a sum of 0, outputs vary less between draws.
  """

  def centred(kernel: jax.Array) -> jax.Array:
    inputs = tuple(range(max(1, kernel.ndim - 1)))
    return kernel - kernel.mean(inputs, keepdims=True)

  return {
    name: {**layer, 'kernel': centred(layer['kernel'])}
    for name, layer in params.items()
  }


class Initialization(NamedTuple):
  """An initialisation of kernels."""

  kernel_init: initializers.Initializer
  # Maps (key, parameters, indices of shared layers) to parameters.
  adjust: Callable[[jax.Array, Params, Params], Params] | None = None
  # Whether to divide each kernel by the root mean square of its layer's outputs
  # on training images.
  normalised: bool = False


_UNIFORM = initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')
INITIALIZERS: Mapping[str, Initialization] = {
  'fan_in': Initialization(_UNIFORM),  # U(±1/√fan_in)
  'lecun': Initialization(initializers.lecun_normal()),
  'he': Initialization(initializers.he_normal(), _halved_if_linear),
  'published': Initialization(_UNIFORM, _as_published),
  'unit_variance': Initialization(
    initializers.lecun_normal(), _centred, normalised=True
  ),
}

SCALINGS = ('auto', 'symmetric')  # see `aen.train.evaluate.scaling_of`
DROPOUTS = ('always', 'first_epoch')

# Factor of the learning rate as a function of training progress, from 0 to 1.
# (optax.cosine_decay_schedule rounds differently, which would change results.)
SCHEDULES: Mapping[str, Callable[[jax.Array], jax.Array]] = {
  'constant': jnp.ones_like,
  'cosine': lambda done: (1 + jnp.cos(jnp.pi * done)) / 2,
}

# Scores by which epochs and networks are selected. The likelihood, exp(-loss),
# is the geometric mean of the probabilities of the true classes; it is less
# noisy than accuracy. Balanced accuracy is the mean over classes of the
# accuracy within each class. In regression, the accuracy is R², the loss the
# mean squared error.
CRITERIA = ('accuracy', 'likelihood', 'balanced_accuracy')

_NUMBER = int | float | np.integer | np.floating


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Training hyperparameters; hashable, because they are static in programs.

  Attributes:
    epochs: Passes over the training images.
    batch_size: Batch size; the remainder is dropped each epoch, unless
      `partial_batch`.
    optimizer: Optimizer of the children, a key of `OPTIMIZERS`; sgd has
      momentum.
    learning_rate: Learning rate of the children.
    momentum: Momentum of the optimizer (β₁ of Adam).
    initializer: Initializer of the kernels, a key of `INITIALIZERS`. fan_in is
      U(±1/√fan_in); lecun and he are normal, scaled by the fan-in; published is
      that of the published code, U(±1/√number of weights) (in CNNs, fan-in
      without the group axis, biases too); unit_variance is normal, centred and
      scaled so that the outputs of every layer have unit variance on training
      images.
    fresh_order: Whether images are shuffled again in every epoch; the published
      code keeps the order of the first.
    criterion: Score on the validation images that selects the best epoch and
      the best network, one of `CRITERIA`; the paper has accuracy.
    schedule: Learning-rate schedule, a key of `SCHEDULES`: constant, as in the
      paper, or half a cosine down to 0.
    scaling: Scaling of pixels, one of `SCALINGS`: by a fixed or measured mean
      and deviation, or from 0…255 to -1…1, as in the published code for CNNs.
    dropout: When dropout is on, one of `DROPOUTS`; the published code turns it
      off after the first epoch.
    partial_batch: Whether to train on the remainder of an epoch, as a smaller
      last batch.
  """

  epochs: int = 4
  batch_size: int = 64
  optimizer: str = 'adam'
  learning_rate: float = 1e-3
  momentum: float = 0.9
  initializer: str = 'fan_in'
  fresh_order: bool = True
  criterion: str = 'accuracy'
  schedule: str = 'constant'
  scaling: str = 'auto'
  dropout: str = 'always'
  partial_batch: bool = False

  def __post_init__(self) -> None:
    for name in ('epochs', 'batch_size'):
      io_lib.positive(getattr(self, name), name)
    for name, known in CHOICES.items():
      io_lib.choice(getattr(self, name), name, known)
    rate = self.learning_rate
    if not isinstance(rate, _NUMBER) or not 0 < rate < np.inf:
      raise ValueError(f'learning_rate must be positive, got {rate!r}')
    if not isinstance(self.momentum, _NUMBER) or not 0 <= self.momentum < 1:
      raise ValueError(f'momentum must be in [0, 1), got {self.momentum!r}')
    # Equal recipes must have equal keys in the store: 1 becomes 1.0.
    object.__setattr__(self, 'learning_rate', float(self.learning_rate))
    object.__setattr__(self, 'momentum', float(self.momentum))


# The allowed values of fields that are names.
CHOICES: Mapping[str, tuple[str, ...]] = {
  'optimizer': tuple(OPTIMIZERS),
  'initializer': tuple(INITIALIZERS),
  'criterion': CRITERIA,
  'schedule': tuple(SCHEDULES),
  'scaling': SCALINGS,
  'dropout': DROPOUTS,
}


@functools.cache
def recipe_key(recipe: Recipe) -> str:
  """Returns a recipe as JSON, for keys of the store."""
  fields = {
    name: value
    for name, value in dataclasses.asdict(recipe).items()
    if name not in _YOUNGER or value != getattr(Recipe, name)
  }
  return json.dumps({'version': RECIPE_VERSION, **fields}, sort_keys=True)


def scores(record: Any, criterion: str) -> Any:
  """Returns the score of each epoch by one of `CRITERIA`, from 0 to 1. [E]."""
  if criterion != 'likelihood':
    return record.validation_accuracy
  return jnp.exp(-jnp.asarray(record.validation_loss))


def best_epoch(record: Any, criterion: str) -> int:
  """Returns the first of the best epochs."""
  return int(np.argmax(scores(record, criterion)))
