r"""What does a training step with shared weights cost, relative to `nn.Dense`?

Times a step (forward, backward, Adam) of the paper's 784-400-400-10 network
with equivariant hidden layers against the same widths in `flax.linen.Dense`.
Both take turns, so that a busy machine slows both.

  taskset -c 0 python -m experiments.layer_benchmark --cpu_time  # 100 CPU s
  python -m experiments.layer_benchmark --threads=2
  python -m experiments.layer_benchmark --features=3   # channels at each point

`auto` multiplies in the basis of characters where that should be faster; |A| is
the order of the abelian group of each hidden layer. --backward adds variants
that gather their kernels: `gather`; `padded`, with weights padded to full size
and the index passed as data; and other ways to sum the gradients of shared
weights: XLA's scatter-add (`scatter`), segment sums (`sorted`), and one block
of rows per orbit of outputs (`blocks`). `ratio` is the median over rounds of
the time relative to `dense`, `fastest` the ratio of the shortest times,
`compiling` that of the compilation times. Writes layers.csv.
"""

from collections.abc import Callable, Iterator
import functools
import itertools
import math
import os
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import aen
from aen.groups.paper import elements
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.train import executors
from experiments import launch
from experiments import rows as rows_lib
from experiments import timing

_FLAGS = launch.define(
  batch=([64, 512], 'Batch sizes.', 1),
  repeats=(15, 'Rounds of several steps of each variant.', 3),
  features=(int, 'Channels at each hidden point.', 1),
  threads=(1, 'Threads of XLA.', 1),
  backward=(False, 'Also time gathered kernels and ways to sum gradients.'),
  symmetries=(
    list,
    'Symmetry sets to time, names joined by +; by default each symmetry alone'
    ' and some sets.',
  ),
)
_CLOCK = timing.clock()
_OUT = timing.output('layer_benchmark')

_STEPS = 5  # that a variant takes in a round: the first finds a cold cache
SETS = (
  *((name,) for name in PAPER_SYMMETRIES),
  ('rotation', 'horizontal_flip'),
  ('rotation', 'left_vertical_scramble'),
  ('horizontal_flip', 'vertical_flip', 'top_horizontal_scramble'),
  PAPER_SYMMETRIES,
  (),
)

Kernel = Callable[[jax.Array], jax.Array]
Shape = tuple[int, ...]
Modules = dict[str, tuple[nn.Module, dict[str, Any]]]


def main(_: list[str]) -> None:
  """Measures, prints and writes the table."""
  os.environ.update(executors.thread_environment(_FLAGS.threads))
  sets = tuple(tuple(s.split('+')) for s in _FLAGS.symmetries or ()) or SETS
  networks = itertools.product(_FLAGS.batch, sets)
  rows = timing.collect(
    (row for batch, names in networks for row in measure(names, batch)),
    _OUT('layers.csv'),
  )
  kinds = rows_lib.by(('variant', 'batch'), rows)
  for (variant, batch), chosen in kinds.items():
    for column in ('ratio', 'fastest', 'compiling'):
      spread = timing.spread([row[column] for row in chosen], 'sets')
      print(f'{variant:7} batch {batch:3}: {column} to dense: {spread}')


# A hidden layer without its bias: the shape of its weights, and a function from
# weights and inputs to outputs.
Layer = tuple[Shape, Callable[[jax.Array, jax.Array], jax.Array]]


class LayerMLP(nn.Module):
  """An MLP of the same widths with given hidden layers."""

  layers: tuple[Layer, ...]

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [B, 28, 28] to logits [B, 10]."""
    x = x.reshape(x.shape[0], -1)
    for i, (shape, apply) in enumerate(self.layers):
      weights = self.param(f'weights_{i}', nn.initializers.normal(0.05), shape)
      bias = self.param(f'bias_{i}', nn.initializers.zeros, (400,))
      x = nn.relu(apply(weights, x) + bias[None])
    return nn.Dense(10)(x)


def _variants(names: tuple[str, ...]) -> Modules:
  """Returns modules by name, each with its collections beside parameters."""
  features = _FLAGS.features
  make = functools.partial(aen.EquivariantMLP, names, features=features)
  width = 400 * (features or 1)
  found: Modules = {
    'dense': (timing.DenseMLP((width, width, 10)), {}),
    'auto': (make(method='auto'), {}),
  }
  if _FLAGS.backward:
    own = make(method='gather', max_weights=(784 * 400, 400 * 400))
    found['gather'] = make(method='gather'), {}
    found['padded'] = own.clone(symmetries=()), aen.sharing_variables(own)
  if _FLAGS.backward and names and not features:
    grids = [((28, 28), (20, 20)), ((20, 20), (20, 20))]
    for name, kernel in (('scatter', _scatter), ('sorted', _sorted_sums)):
      layers = tuple(_kernel_layer(kernel, names, *grid) for grid in grids)
      found[name] = LayerMLP(layers), {}
    if len(names) == 1:
      layers = tuple(_block_layer(names[0], *grid) for grid in grids)
      found['blocks'] = LayerMLP(layers), {}
  return found


def _kernel_layer(
  make: Callable[[np.ndarray], Kernel], names: tuple[str, ...], *grids: Shape
) -> Layer:
  """Returns a layer whose kernel is a function of the shared weights."""
  sharing = aen.dense_sharing(names, *grids)
  kernel = make(sharing.kernel)
  return (sharing.num_weights,), (lambda weights, x: x @ kernel(weights))


def _scatter(index: np.ndarray) -> Kernel:
  return lambda weights: weights[jnp.asarray(index)]


def _sorted_sums(index: np.ndarray) -> Kernel:
  """Returns a gather whose gradient is a sum over sorted segments."""
  order = np.argsort(index.ravel(), kind='stable')
  labels = index.ravel()[order]
  gather = jax.custom_vjp(lambda weights: weights[index])

  def backward(_: None, g: jax.Array) -> tuple[jax.Array]:
    sums = jax.ops.segment_sum(
      g.ravel()[order], labels, int(labels[-1]) + 1, indices_are_sorted=True
    )
    return (sums,)

  gather.defvjp(lambda weights: (weights[index], None), backward)
  return gather


def _block_layer(name: str, *grids: Shape) -> Layer:
  """Returns a layer with a block of rows per orbit of outputs.

  The blocks are multiplied by transformed copies of the inputs.
  """
  inputs, num_orbits, position = _blocks(name, *grids)
  return (inputs.shape[1], num_orbits), (
    lambda w, x: (x[:, inputs] @ w).reshape(len(x), -1)[:, position]
  )


def _blocks(
  name: str, in_shape: Shape, out_shape: Shape
) -> tuple[np.ndarray, int, np.ndarray]:
  """Returns permutations of inputs, and number and places of output orbits."""
  size = math.prod(in_shape)
  perm_out = aen.permutation(name, out_shape)
  both = np.concatenate([aen.permutation(name, in_shape), size + perm_out])
  inputs, outputs = np.split(np.stack(elements([both], both.size)), [size], 1)
  labels = aen.orbits([perm_out], perm_out.size)
  _, firsts = np.unique(labels, return_index=True)
  images = outputs[:, firsts] - size
  position = np.zeros(perm_out.size, np.int32)
  position[images] = np.arange(images.size).reshape(images.shape)
  return inputs, firsts.size, position


def measure(names: tuple[str, ...], batch: int) -> Iterator[dict[str, Any]]:
  """Yields a row for each variant: its step, its compilation, its ratios."""
  x = jax.random.normal(jax.random.key(0), (batch, 28, 28))
  clock, runs, compiling = _CLOCK(), {}, {}
  variants = _variants(names)
  for variant, (module, extra) in variants.items():
    step, state = timing.training(module, optax.adam(1e-3), x)
    start = clock()
    compiled = jax.jit(step).lower(state, extra, x).compile()
    compiling[variant] = clock() - start
    runs[variant] = functools.partial(_steps, compiled, state, extra, x)
  times = timing.interleaved(runs, _FLAGS.repeats, clock=clock)
  forms = [
    layer.spectral()
    for layer in variants['auto'][0].sublayers().values()
    if isinstance(layer, aen.EquivariantDense)
  ]
  orders = ', '.join(str(form.num_elements if form else 1) for form in forms)
  label = 'all twelve' if len(names) == 12 else ' + '.join(names) or 'none'
  for variant, seconds in compiling.items():
    yield {
      'batch': batch,
      'symmetries': label,
      '|A|': orders,
      'variant': variant,
      'step_ms': round(timing.milliseconds(times, variant) / _STEPS, 3),
      'ratio': round(timing.ratio(times, variant, 'dense'), 3),
      'fastest': round(timing.fastest_ratio(times, variant, 'dense'), 3),
      'compile_ms': round(1e3 * seconds),
      'compiling': round(seconds / compiling['dense'], 2),
    }


def _steps(step: Callable[..., Any], state: Any, *args: Any) -> Any:
  for _ in range(_STEPS):
    state = step(state, *args)
  return state


if __name__ == '__main__':
  # Cached programs would make compilation look fast.
  jax.config.update('jax_enable_compilation_cache', False)
  launch.run(main)
