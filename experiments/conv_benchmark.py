r"""What do group convolutions and augmentation cost in a training step?

Times forward, backward and SGD update of `GroupCNN` at the paper's batch size
against a Flax CNN with as many multiplications (|G| times the channels),
all variants in turn within one loop, so that a busy machine slows all of them.

  python -m experiments.conv_benchmark                 # three minutes
  python -m experiments.conv_benchmark --methods       # XLA's convolution too
  python -m experiments.conv_benchmark --children=4    # vmapped, as in a search

`flax` is that CNN, `aen` the group CNN, `augmented` the same with all six
augmentations of its images in the step, `augment` these alone. Ratios are
medians over the rounds; `aen / flax` is 0.7 on average. Writes
convolutions.csv.
"""

from collections.abc import Callable
import functools
from typing import Any

from absl import flags
from flax import linen as nn
import jax
import jax.numpy as jnp
import optax

import aen
from aen.nn import group_cnn
from aen.nn import windows
from experiments import launch
from experiments import timing

_BATCH = flags.DEFINE_integer('batch', 32, 'Batch size.', lower_bound=1)
_REPEATS = flags.DEFINE_integer(
  'repeats', 20, 'Rounds; the median counts.', lower_bound=3
)
_GROUP = flags.DEFINE_multi_enum(
  'group', list(group_cnn.GROUPS), list(group_cnn.GROUPS), 'Groups to time.'
)
_WIDTHS = flags.DEFINE_multi_float(
  'width', [1.0, 1.5], 'Small is 1.0, large is 1.5.', lower_bound=0.1
)
_SHAPES = flags.DEFINE_multi_string(
  'shape', ['28x28x1', '32x32x3'], 'Image shapes, height x width x channels.'
)
_METHODS = flags.DEFINE_bool(
  'methods', False, 'Time every way to compute a convolution.'
)
_CHILDREN = flags.DEFINE_integer(
  'children', 1, 'Networks trained at once by vmap.', lower_bound=1
)
_OUT = timing.output('conv_benchmark')

State = tuple[Any, Any]
Step = Callable[[State, jax.Array, jax.Array], State]


def main(_: list[str]) -> None:
  """Measures, prints and writes the table."""
  shapes = list(map(_shape, _SHAPES.value))
  rows = timing.collect(
    (
      measure(group, width, shape)
      for shape in shapes
      for width in _WIDTHS.value
      for group in _GROUP.value
    ),
    _OUT('convolutions.csv'),
  )
  for key in rows[0]:
    if '/' in key:
      print(f'{key}: {timing.spread([r[key] for r in rows], "networks")}')


def _shape(text: str) -> tuple[int, ...]:
  sides = text.split('x')
  if len(sides) != 3 or not all(side.isdecimal() for side in sides):
    raise ValueError(f'--shape must be written like 28x28x1, got {text!r}')
  return tuple(map(int, sides))


class FlaxCNN(nn.Module):
  """The same sizes with the layers of Flax."""

  features: int
  dense: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps x [B, H, W, C] to logits [B, 10]."""
    for i in range(4):
      x = nn.relu(nn.Conv(self.features, (3, 3), padding='VALID')(x))
      if i % 2:
        x = nn.max_pool(x, (2, 2), (2, 2))
    x = nn.relu(nn.Dense(self.dense)(x.reshape(x.shape[0], -1)))
    x = nn.Dropout(0.5, deterministic=not train)(x)
    return nn.Dense(10)(nn.Dense(50)(x))


def _modules(
  names: tuple[str, ...],
  width: float,
  shape: tuple[int, int, int],
  methods: bool,
) -> dict[str, tuple[nn.Module, bool]]:
  """Returns modules by name, each with whether images are augmented."""
  cnn = aen.GroupCNN(names, width=width, in_shape=shape)
  channels, dense = cnn.widths()
  baseline = FlaxCNN(channels * cnn.group().order, dense)
  found = {
    'flax': (baseline, False),
    'aen': (cnn, False),
    'augmented': (cnn, True),
  }
  if methods:
    for name in windows.METHODS:
      found[f'aen {name}'] = cnn.clone(method=name), False
  return found


def _make_step(
  module: nn.Module, augmented: bool, images: jax.Array
) -> tuple[Step, Callable[[jax.Array], State]]:
  """Returns one child's training step and its initial state, both pure."""
  labels = jnp.arange(images.shape[0]) % 10
  optimizer = optax.sgd(1e-3, momentum=0.9)
  mask = jnp.ones(len(aen.AUGMENTATIONS))

  def init(key: jax.Array) -> State:
    params = module.init(key, images)['params']
    return params, optimizer.init(params)

  def logits(params: Any, key: jax.Array, images: jax.Array) -> jax.Array:
    augment_key, dropout_key = jax.random.split(key)
    if augmented:
      images = aen.augment(augment_key, images, mask)
    return module.apply(
      {'params': params}, images, train=True, rngs={'dropout': dropout_key}
    )

  return timing.training_step(logits, labels, optimizer), init


def measure(
  group: str, width: float, shape: tuple[int, int, int]
) -> dict[str, Any]:
  """Times a training step of each variant, and augmentation alone."""
  modules = _modules(group_cnn.GROUPS[group], width, shape, _METHODS.value)
  images = jax.random.uniform(jax.random.key(0), (_BATCH.value, *shape))
  several = _CHILDREN.value > 1
  keys = jax.random.split(jax.random.key(1), _CHILDREN.value)
  key = keys if several else keys[0]
  calls, states = {}, {}
  for name, (module, augmented) in modules.items():
    step, init = _make_step(module, augmented, images)
    if several:
      step, init = jax.vmap(step, (0, 0, None)), jax.vmap(init)
    if module not in states:
      states[module] = jax.jit(init)(key)
    calls[name] = functools.partial(jax.jit(step), states[module], key, images)
  mask = jnp.ones(len(aen.AUGMENTATIONS))
  alone = jax.vmap(aen.augment, (0, None, None)) if several else aen.augment
  calls['augment'] = functools.partial(jax.jit(alone), key, images, mask)
  times = timing.interleaved(calls, _REPEATS.value)
  images = '×'.join(map(str, shape))
  return {'images': images, 'width': width, 'group': group, **_row(times)}


def _row(times: timing.Times) -> dict[str, float]:
  """Returns median milliseconds and median ratios."""
  row = {f'{name} ms': timing.milliseconds(times, name) for name in times}
  alone = ('augment', 'augmented')
  for name in times:
    if name not in ('flax', *alone):
      row[f'{name} / flax'] = timing.ratio(times, name, 'flax')
  for name in alone:
    row[f'{name} / aen'] = timing.ratio(times, name, 'aen')
  return {key: round(value, 3) for key, value in row.items()}


if __name__ == '__main__':
  launch.run(main)
