"""Recipes: the hyperparameters of a child's training, and its criterion."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import json
import types
from typing import Any
from typing import NamedTuple

from flax.linen import initializers
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aen import io as io_lib

# Part of every key of the store: raise it when the same recipe trains
# differently.
RECIPE_VERSION = 1
# Fields younger than the version: keys hold them only where they differ from
# their default, so that older stores stay valid.
_YOUNGER = ('schedule',)

OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = (
  types.MappingProxyType(
    {
      'adam': lambda momentum: optax.scale_by_adam(b1=momentum),
      'sgd': lambda momentum: optax.trace(decay=momentum),
    }
  )
)


def _published_rescale(kernel: jax.Array, index: jax.Array) -> jax.Array:
  """Rescales U(±1/√fan_in) to the published U(±1/√number of weights)."""
  if index.ndim != 2:
    raise ValueError(
      "the initializer 'published' counts the orbits of dense layers, got a"
      ' convolution; choose one of '
      + ', '.join(name for name in INITIALIZERS if name != 'published')
    )
  features = kernel.shape[-1] if kernel.ndim == 3 else 1
  # fan_in = index.shape[0] · channels; weights = orbits · channels · features
  return kernel * jnp.sqrt(index.shape[0] / ((index.max() + 1) * features))


class Initialization(NamedTuple):
  """How hidden kernels start."""

  kernel_init: initializers.Initializer
  # Applied to every shared kernel [W, ...] and its index, after kernel_init.
  rescale: Callable[[jax.Array, jax.Array], jax.Array] | None = None


_UNIFORM = initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')
INITIALIZERS: Mapping[str, Initialization] = types.MappingProxyType(
  {
    'fan_in': Initialization(_UNIFORM),  # U(±1/√fan_in)
    'lecun': Initialization(initializers.lecun_normal()),
    'he': Initialization(initializers.he_normal()),
    'published': Initialization(_UNIFORM, _published_rescale),
  }
)

# Factor of the learning rate, as a function of the fraction of training done.
# (optax.cosine_decay_schedule rounds differently, which would change results.)
SCHEDULES: Mapping[str, Callable[[jax.Array], jax.Array]] = (
  types.MappingProxyType(
    {
      'constant': jnp.ones_like,
      'cosine': lambda done: (1 + jnp.cos(jnp.pi * done)) / 2,
    }
  )
)

# What the best epoch, and the best network, is best in. The likelihood,
# exp(-loss), is the geometric mean of the probabilities of the true classes; it
# is less noisy than accuracy.
CRITERIA = ('accuracy', 'likelihood')


_NUMBER = int | float | np.integer | np.floating


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Training hyperparameters; hashable, because they are part of the program.

  Attributes:
    epochs: Passes over the training images.
    batch_size: Batch size; the remainder is dropped each epoch.
    optimizer: Optimizer of the children, a key of `OPTIMIZERS`; sgd has
      momentum.
    learning_rate: Learning rate of the children.
    momentum: Momentum of the optimizer (β₁ of Adam).
    initializer: Initializer of the hidden kernels, a key of `INITIALIZERS`:
      uniform by the fan-in, normal by the fan-in (lecun, he), or as in the
      published code, uniform by the number of orbits.
    fresh_order: Whether images are shuffled again in every epoch; the published
      code keeps the order of the first.
    criterion: What the best epoch and the best network maximise on validation
      images, one of `CRITERIA`; the paper has accuracy.
    schedule: Learning-rate schedule, a key of `SCHEDULES`: constant, as in the
      paper, or half a cosine down to 0.
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

  def __post_init__(self) -> None:
    for name in ('epochs', 'batch_size'):
      io_lib.positive(getattr(self, name), name)
    for name, known in CHOICES.items():
      if getattr(self, name) not in known:
        raise ValueError(
          f'{name} must be one of {", ".join(known)}, got'
          f' {getattr(self, name)!r}'
        )
    rate = self.learning_rate
    if not isinstance(rate, _NUMBER) or not 0 < rate < np.inf:
      raise ValueError(
        f'learning_rate must be positive, got {self.learning_rate!r}'
      )
    if not isinstance(self.momentum, _NUMBER) or not 0 <= self.momentum < 1:
      raise ValueError(f'momentum must be in [0, 1), got {self.momentum!r}')


# The fields of a recipe that are chosen from a list of names.
CHOICES: Mapping[str, tuple[str, ...]] = types.MappingProxyType(
  {
    'optimizer': tuple(OPTIMIZERS),
    'initializer': tuple(INITIALIZERS),
    'criterion': CRITERIA,
    'schedule': tuple(SCHEDULES),
  }
)


def recipe_key(recipe: Recipe) -> str:
  """Returns a recipe as the part of a store's key that describes training."""
  fields = {
    field.name: getattr(recipe, field.name)
    for field in dataclasses.fields(recipe)
    if field.name not in _YOUNGER
    or getattr(recipe, field.name) != field.default
  }
  return json.dumps({'version': RECIPE_VERSION, **fields}, sort_keys=True)


def scores(record: Any, criterion: str) -> Any:
  """Returns the value of each epoch by a criterion, from 0 to 1. [E].

  Args:
    record: Has `validation_accuracy` and `validation_loss`, [E] each.
    criterion: One of `CRITERIA`.
  """
  if criterion == 'accuracy':
    return record.validation_accuracy
  return jnp.exp(-jnp.asarray(record.validation_loss))


def best_epoch(record: Any, criterion: str, epochs: int | None = None) -> int:
  """Returns the best of the first `epochs` epochs, the first among equals."""
  return int(np.argmax(scores(record, criterion)[:epochs]))
