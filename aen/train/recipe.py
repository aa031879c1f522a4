"""Recipes: how a child is trained, and by what it is judged."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import types
from typing import Any

from flax.linen import initializers
import jax
import jax.numpy as jnp
import numpy as np
import optax

from aen import io as io_lib

# Part of every store key: raise it when the same config trains differently.
RECIPE_VERSION = 1

OPTIMIZERS: Mapping[str, Callable[..., optax.GradientTransformation]] = (
  types.MappingProxyType(
    {
      'adam': lambda momentum: optax.scale_by_adam(b1=momentum),
      'sgd': lambda momentum: optax.trace(decay=momentum),
    }
  )
)

_UNIFORM = initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')
INITIALIZERS: Mapping[str, initializers.Initializer] = types.MappingProxyType(
  {
    'fan_in': _UNIFORM,  # U(±1/√fan-in)
    'lecun': initializers.lecun_normal(),
    'he': initializers.he_normal(),
    'published': _UNIFORM,  # rescaled to U(±1/√orbits) in `children`
  }
)

# What is left of the learning rate when a part of training, 0 to 1, is over.
SCHEDULES: Mapping[str, Callable[[jax.Array], jax.Array]] = (
  types.MappingProxyType(
    {
      'constant': jnp.ones_like,
      'cosine': lambda over: (1 + jnp.cos(jnp.pi * over)) / 2,
    }
  )
)

# What makes an epoch, and a network, the best one. The likelihood, exp(-loss),
# is the geometric mean of the probabilities given to the right classes; it is
# less noisy than counting right answers.
CRITERIA = ('accuracy', 'likelihood')


@dataclasses.dataclass(frozen=True)
class Recipe:
  """How a child is trained; hashable, because it is part of the program.

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
    for name, known in (
      ('optimizer', OPTIMIZERS),
      ('initializer', INITIALIZERS),
      ('criterion', CRITERIA),
      ('schedule', SCHEDULES),
    ):
      if getattr(self, name) not in known:
        raise ValueError(
          f'{name} must be one of {", ".join(known)}, got'
          f' {getattr(self, name)!r}'
        )
    if not 0 < self.learning_rate < np.inf:
      raise ValueError(
        f'learning_rate must be positive, got {self.learning_rate!r}'
      )
    if not 0 <= self.momentum < 1:
      raise ValueError(f'momentum must be in [0, 1), got {self.momentum!r}')


def scores(result: Any, criterion: str) -> jax.Array:
  """Returns what each epoch is worth by a criterion: 0 to 1, more is better.

  Args:
    result: Has `validation_accuracy` and `validation_loss`.
    criterion: One of `CRITERIA`.
  """
  if criterion == 'accuracy':
    return jnp.asarray(result.validation_accuracy)
  return jnp.exp(-jnp.asarray(result.validation_loss))


def best_epoch(result: Any, criterion: str) -> int:
  """Returns the first of the best epochs; arguments as in `scores`."""
  return int(np.argmax(scores(result, criterion)))
