r"""What do group convolutions and augmentation cost in a training step?

Times a step (forward, backward, SGD) of `GroupCNN` at the paper's batch size
against a Flax CNN with as many multiplications (|G| times the channels). All
variants take turns, so that a busy machine slows all of them.

  python -m experiments.conv_benchmark                 # three minutes
  python -m experiments.conv_benchmark --methods       # XLA's convolution too
  python -m experiments.conv_benchmark --children=4    # vmapped, as in a search
  XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 0 \
    python -m experiments.conv_benchmark --cpu_time --escnn=VENV/bin/python

`flax` is that CNN, `aen` the group CNN, `augmented` the same with all six
augmentations of its images in the step, `augment` the augmentations alone.
Ratios are medians over rounds. With --escnn, `escnn` is a network of the same
channels in escnn and PyTorch, in one thread, run by the given Python, and
`aen / escnn` the ratio of the fastest rounds. `aen s/1000` is the fastest
step's time for 1000 images. Writes convolutions.csv.
"""

from collections.abc import Callable, Iterator
import contextlib
import functools
import itertools
import re
import time
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import optax

import aen
from aen.nn import group_cnn
from aen.nn import windows
from experiments import launch
from experiments import timing
from experiments.peer_scripts import worker as worker_lib

_FLAGS = launch.define(
  batch=(32, 'Batch size.', 1),
  repeats=(20, 'Rounds; the median counts.', 3),
  group=(list(group_cnn.GROUPS), 'Groups to time.', group_cnn.GROUPS),
  width=([1.0, 1.5], 'Small is 1.0, large is 1.5.', 0.1),
  shape=(['28x28x1', '32x32x3'], 'Image shapes, height x width x channels.'),
  methods=(False, 'Also time each method of computing a convolution.'),
  children=(1, 'Networks trained at once by vmap.', 1),
  escnn=('', 'Python of an environment with escnn, to time that too.'),
)
_CLOCK = timing.clock()
_OUT = timing.output('conv_benchmark')


def main(_: list[str]) -> None:
  """Measures, prints and writes the table."""
  for text in _FLAGS.shape:
    if not re.fullmatch(r'\d+x\d+x\d+', text):
      raise ValueError(f'--shape must be written like 28x28x1, got {text!r}')
  networks = itertools.product(_FLAGS.shape, _FLAGS.width, _FLAGS.group)
  measured = itertools.starmap(measure, networks)
  rows = timing.collect(measured, _OUT('convolutions.csv'))
  for key in rows[0]:
    if '/' in key:
      print(f'{key}: {timing.spread([r[key] for r in rows], "networks")}')


class FlaxCNN(nn.Module):
  """A CNN of the same sizes, of Flax layers."""

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
  cnn: aen.GroupCNN, methods: bool
) -> dict[str, tuple[nn.Module, bool]]:
  """Returns modules by name, and whether to augment their images."""
  channels, dense = cnn.widths()
  baseline = FlaxCNN(channels * cnn.group().order, dense)
  found = {
    'flax': (baseline, False),
    'aen': (cnn, False),
    'augmented': (cnn, True),
  }
  for name in windows.METHODS if methods else ():
    found[f'aen {name}'] = cnn.clone(method=name), False
  return found


@contextlib.contextmanager
def _escnn(
  python: str, cnn: aen.GroupCNN, group: str
) -> Iterator[worker_lib.Worker]:
  """Starts a process of another Python that takes training steps in escnn."""
  channels, dense = cnn.widths()
  spec = dict(kind='escnn', group=group, batch=_FLAGS.batch)
  spec |= dict(shape=cnn.in_shape, channels=channels, dense=dense)
  try:
    with worker_lib.Worker(python, 'torch', spec) as worker:
      yield worker
  except worker_lib.Failed as error:
    raise ValueError(
      '--escnn needs the Python of an environment with escnn and PyTorch, got'
      f' {python!r}, which {error}'
    ) from error


def measure(text: str, width: float, group: str) -> dict[str, Any]:
  """Times a training step of each variant, and augmentation alone."""
  shape = tuple(map(int, text.split('x')))
  cnn = aen.GroupCNN(group_cnn.GROUPS[group], width=width, in_shape=shape)
  images = jax.random.uniform(jax.random.key(0), (_FLAGS.batch, *shape))
  mask = jnp.ones(len(aen.AUGMENTATIONS))
  several = _FLAGS.children > 1
  keys = jax.random.split(jax.random.key(1), _FLAGS.children)
  key = keys if several else keys[0]

  def compiled(function: Callable[..., Any], *axes: int | None) -> Any:
    return jax.jit(jax.vmap(function, axes) if several else function)

  def apply(
    module: nn.Module, augmented: bool, variables: Any, x: Any, key: Any
  ) -> jax.Array:
    augment_key, dropout_key = jax.random.split(key)
    x = aen.augment(augment_key, x, mask) if augmented else x
    return module.apply(variables, x, train=True, rngs={'dropout': dropout_key})

  calls = {}
  for name, (module, augmented) in _modules(cnn, _FLAGS.methods).items():
    optimizer = optax.sgd(1e-3, momentum=0.9)
    logits = functools.partial(apply, module, augmented)
    step, state = timing.training(module, optimizer, images, logits)
    if several:
      state = jax.tree.map(lambda x: jnp.stack([x] * len(keys)), state)
    run = compiled(step, 0, None, None, 0)
    calls[name] = functools.partial(run, state, {}, images, key)
  calls['augment'] = functools.partial(
    compiled(aen.augment, 0, None, None), key, images, mask
  )
  clock, python = _CLOCK(), _FLAGS.escnn
  other = _escnn(python, cnn, group) if python else contextlib.nullcontext()
  with other as escnn:
    if escnn:
      calls['escnn'] = functools.partial(escnn.run, 'cnn step')
      if clock is time.process_time:
        clock = escnn.cpu_time
    times = timing.interleaved(calls, _FLAGS.repeats, clock=clock)
  row = {f'{name} ms': timing.milliseconds(times, name) for name in times}
  pairs = [(name, 'flax') for name in times if name.startswith('aen')]
  for name, base in (*pairs, ('augment', 'aen'), ('augmented', 'aen')):
    row[f'{name} / {base}'] = timing.ratio(times, name, base)
  row['aen s/1000'] = min(times['aen']) * 1000 / _FLAGS.batch
  if escnn:
    row['aen / escnn'] = timing.fastest_ratio(times, 'aen', 'escnn')
  return {
    'images': text.replace('x', '×'),
    'width': width,
    'group': group,
    **{key: round(value, 3) for key, value in row.items()},
  }


if __name__ == '__main__':
  launch.run(main)
