r"""What do group convolutions and augmentation cost in a training step?

Times forward, backward and SGD update of `GroupCNN` at the paper's batch size
against a plain Flax CNN with as many multiplications (|G| times the channels),
all variants in turn within one loop, so that a busy machine slows all of them.

  python -m experiments.conv_benchmark                 # three minutes
  python -m experiments.conv_benchmark --methods       # XLA's convolution too
  python -m experiments.conv_benchmark --children=4    # vmapped, as in a search

`flax` is the plain CNN, `aen` the group CNN, `augmented` the same with all six
augmentations of its images in the step, `augment` these alone. Ratios are
medians over the rounds. Writes convolutions.csv.
"""

from collections.abc import Callable
from collections.abc import Sequence
import csv
import dataclasses
import pathlib
import statistics
import time
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
_OUT = flags.DEFINE_string(
  'out', 'runs/conv_benchmark', 'Folder for the table.'
)

State = tuple[Any, Any]
Step = Callable[[jax.Array, State, jax.Array], State]


@dataclasses.dataclass(frozen=True)
class Config:
  """What to measure."""

  groups: tuple[str, ...]
  widths: tuple[float, ...]
  shapes: tuple[tuple[int, int, int], ...]
  batch: int
  repeats: int
  methods: bool
  children: int
  out: pathlib.Path


class PlainCNN(nn.Module):
  """The same sizes in plain Flax."""

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
  plain = PlainCNN(channels * cnn.group().order, dense)
  found = {
    'flax': (plain, False),
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

  def step(key: jax.Array, state: State, images: jax.Array) -> State:
    params, momentum = state
    augment_key, dropout_key = jax.random.split(key)
    if augmented:
      images = aen.augment(augment_key, images, mask)

    def loss(params: Any) -> jax.Array:
      logits = module.apply(
        {'params': params}, images, train=True, rngs={'dropout': dropout_key}
      )
      return optax.softmax_cross_entropy_with_integer_labels(
        logits, labels
      ).mean()

    updates, momentum = optimizer.update(jax.grad(loss)(params), momentum)
    return optax.apply_updates(params, updates), momentum

  return step, init


def measure(
  names: tuple[str, ...],
  width: float,
  shape: tuple[int, int, int],
  config: Config,
) -> dict[str, list[float]]:
  """Returns the milliseconds of each variant's step, one per round."""
  images = jax.random.uniform(jax.random.key(0), (config.batch, *shape))
  several = config.children > 1
  keys = jax.random.split(jax.random.key(1), config.children)
  key = keys if several else keys[0]
  calls, states = {}, {}
  for name, (module, augmented) in _modules(
    names, width, shape, config.methods
  ).items():
    step, init = _make_step(module, augmented, images)
    if several:
      step, init = jax.vmap(step, (0, 0, None)), jax.vmap(init)
    if module not in states:
      states[module] = jax.jit(init)(key)
    calls[name] = jax.jit(step), states[module]
  mask = jnp.ones(len(aen.AUGMENTATIONS))
  alone = jax.vmap(aen.augment, (0, None, None)) if several else aen.augment
  calls['augment'] = jax.jit(lambda k, _, x: alone(k, x, mask)), None
  for step, state in calls.values():
    jax.block_until_ready(step(key, state, images))
  times = {name: [] for name in calls}
  for _ in range(config.repeats):
    for name, (step, state) in calls.items():
      start = time.perf_counter()
      jax.block_until_ready(step(key, state, images))
      times[name].append(1e3 * (time.perf_counter() - start))
  return times


def _row(times: dict[str, list[float]]) -> dict[str, float]:
  """Returns median milliseconds and median ratios."""

  def ratio(name: str, base: str) -> float:
    pairs = zip(times[name], times[base], strict=True)
    return statistics.median(a / b for a, b in pairs)

  row = {f'{name} ms': statistics.median(t) for name, t in times.items()}
  for name in times:
    if name not in ('flax', 'augment', 'augmented'):
      row[f'{name} / flax'] = ratio(name, 'flax')
  row['augment / aen'] = ratio('augment', 'aen')
  row['augmented / aen'] = ratio('augmented', 'aen')
  return {key: round(value, 3) for key, value in row.items()}


def run(config: Config) -> None:
  """Measures, prints and writes the table."""
  rows = []
  for shape in config.shapes:
    for width in config.widths:
      for group in config.groups:
        label = {'images': '×'.join(map(str, shape)), 'width': width}
        row = _row(measure(group_cnn.GROUPS[group], width, shape, config))
        rows.append(label | {'group': group} | row)
        shown = '  '.join(f'{key} {value:.2f}' for key, value in row.items())
        print(f'{label["images"]} width {width} {group:4}  {shown}', flush=True)
  config.out.mkdir(parents=True, exist_ok=True)
  with open(config.out / 'convolutions.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
  _summarise(rows)
  print(f'Table: {config.out}/convolutions.csv')


def _summarise(rows: Sequence[dict[str, Any]]) -> None:
  for key in rows[0]:
    if '/' in key:
      ratios = [row[key] for row in rows]
      print(
        f'{key}: median {statistics.median(ratios):.2f}, from'
        f' {min(ratios):.2f} to {max(ratios):.2f}, over {len(ratios)} networks'
      )


def _shape(text: str) -> tuple[int, ...]:
  sides = text.split('x')
  if len(sides) != 3 or not all(side.isdecimal() for side in sides):
    raise ValueError(f'--shape must be written like 28x28x1, got {text!r}')
  return tuple(map(int, sides))


def main(_: list[str]) -> None:
  """Flags to config to one call."""
  run(
    Config(
      groups=tuple(_GROUP.value),
      widths=tuple(_WIDTHS.value),
      shapes=tuple(map(_shape, _SHAPES.value)),
      batch=_BATCH.value,
      repeats=_REPEATS.value,
      methods=_METHODS.value,
      children=_CHILDREN.value,
      out=pathlib.Path(_OUT.value),
    )
  )


if __name__ == '__main__':
  launch.run(main)
