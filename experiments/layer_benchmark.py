r"""What does weight sharing cost in a training step?

Times forward, backward and Adam update of the paper's 784-400-400-10 network
with shared weights against the same widths in plain `flax.linen.Dense`, all
variants in turn within one loop, so that a busy machine slows all of them.

  python -m experiments.layer_benchmark              # two minutes
  python -m experiments.layer_benchmark --backward   # five; see below

`auto` multiplies in the basis of characters where that should be faster.
`padded` is the form that a search uses: weights padded to full size and indices
passed as data, one program for all networks. With --backward, other ways to sum
the gradients of shared weights than trees of gathers (which is `aen`) are timed
too: XLA's scatter-add, sorted segment sums, and one block of rows per orbit of
outputs. Writes layers.csv.
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
import numpy as np
import optax

import aen
from aen.groups.paper import elements
from experiments import launch

_BATCHES = flags.DEFINE_multi_integer(
  'batch', [64, 512], 'Batch sizes.', lower_bound=1
)
_REPEATS = flags.DEFINE_integer(
  'repeats', 60, 'Steps of each variant; the median counts.', lower_bound=3
)
_BACKWARD = flags.DEFINE_bool(
  'backward', False, 'Time other ways to sum gradients as well.'
)
_SETS = flags.DEFINE_multi_string(
  'symmetries',
  None,
  'Symmetry sets to time, names joined by +, such as'
  ' --symmetries=rotation+vertical_flip; each symmetry alone and some sets by'
  ' default.',
)
_OUT = flags.DEFINE_string(
  'out', 'runs/layer_benchmark', 'Folder for the table.'
)

_GRIDS = ((28, 28), (20, 20), (20, 20))
_FULL = (784 * 400, 400 * 400)
SETS = (
  *((name,) for name in aen.SYMMETRIES),
  ('rotation', 'horizontal_flip'),
  ('rotation', 'left_vertical_scramble'),
  ('horizontal_flip', 'vertical_flip', 'top_horizontal_scramble'),
  tuple(aen.SYMMETRIES),
  (),
)

Step = Callable[[Any, Any], tuple[Any, Any]]
Kernel = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Config:
  """What to measure."""

  sets: tuple[tuple[str, ...], ...]
  batches: tuple[int, ...]
  repeats: int
  backward: bool
  out: pathlib.Path


class DenseMLP(nn.Module):
  """The same widths in plain Flax."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [B, 28, 28] to logits [B, 10]."""
    x = x.reshape(x.shape[0], -1)
    for width in (400, 400):
      x = nn.relu(nn.Dense(width)(x))
    return nn.Dense(10)(x)


class KernelMLP(nn.Module):
  """Makes the kernels of the hidden layers by any functions of weights."""

  kernels: tuple[tuple[int, Kernel], ...]  # (number of weights, function)

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [B, 28, 28] to logits [B, 10]."""
    x = x.reshape(x.shape[0], -1)
    for i, (count, kernel) in enumerate(self.kernels):
      init = nn.initializers.normal(0.05)
      weights = self.param(f'weights_{i}', init, (count,))
      bias = self.param(f'bias_{i}', nn.initializers.zeros, (400,))
      x = nn.relu(x @ kernel(weights) + bias[None])
    return nn.Dense(10)(x)


def _variants(
  names: tuple[str, ...], backward: bool
) -> dict[str, tuple[nn.Module, dict[str, Any]]]:
  """Returns modules by name, each with collections to pass along."""
  padded = aen.EquivariantMLP((), max_weights=_FULL)
  own = aen.EquivariantMLP(names, max_weights=_FULL)
  found = {
    'dense': (DenseMLP(), {}),
    'aen': (aen.EquivariantMLP(names), {}),
    'auto': (aen.EquivariantMLP(names, method='auto'), {}),
    'padded': (padded, aen.sharing_variables(own)),
  }
  if backward and names:
    layers = list(zip(_GRIDS[:-1], _GRIDS[1:], strict=True))
    shared = [aen.dense_sharing(names, *layer) for layer in layers]
    for name, make in (('scatter', _scatter), ('sorted', _sorted_sums)):
      kernels = tuple((s.num_weights, make(s.kernel)) for s in shared)
      found[name] = KernelMLP(kernels), {}
    if len(names) == 1:
      found['blocks'] = BlockMLP(names[0]), {}
  return found


def _with_gradient(
  index: np.ndarray, gradient: Callable[[jax.Array], jax.Array]
) -> Kernel:
  """A gather whose gradient is summed by another function."""
  gather = jax.custom_vjp(lambda weights: weights[index])
  gather.defvjp(
    lambda weights: (weights[index], None), lambda _, g: (gradient(g.ravel()),)
  )
  return gather


def _sorted_sums(index: np.ndarray) -> Kernel:
  order = np.argsort(index.ravel(), kind='stable')
  labels = index.ravel()[order]
  return _with_gradient(
    index,
    lambda g: jax.ops.segment_sum(
      g[order], labels, int(labels[-1]) + 1, indices_are_sorted=True
    ),
  )


def _scatter(index: np.ndarray) -> Kernel:
  return lambda weights: weights[jnp.asarray(index)]


class BlockMLP(nn.Module):
  """One block of rows per orbit of outputs, against moved copies of x."""

  symmetry: str

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps x [B, 28, 28] to logits [B, 10]."""
    x = x.reshape(x.shape[0], -1)
    for grids in zip(_GRIDS[:-1], _GRIDS[1:], strict=True):
      moves, firsts, position = _blocks(self.symmetry, *grids)
      kernel = self.param(
        f'kernel_{grids[0]}',
        nn.initializers.lecun_normal(),
        (x.shape[1], firsts),
      )
      bias = self.param(f'bias_{grids[0]}', nn.initializers.zeros, (400,))
      y = (x[:, moves] @ kernel).reshape(x.shape[0], -1)[:, position]
      x = nn.relu(y + bias[None])
    return nn.Dense(10)(x)


def _blocks(
  name: str, in_shape: tuple[int, ...], out_shape: tuple[int, ...]
) -> tuple[np.ndarray, int, np.ndarray]:
  """Returns moves of the inputs, orbits of outputs, and where outputs lie."""
  size = int(np.prod(in_shape))
  both = np.concatenate(
    [aen.permutation(name, in_shape), size + aen.permutation(name, out_shape)]
  )
  moves = np.stack(elements([both], both.size))
  labels = aen.orbits([both[size:] - size], both.size - size)
  _, firsts = np.unique(labels, return_index=True)
  position = np.zeros(labels.size, np.int32)
  for g, move in enumerate(moves):
    position[move[size:][firsts] - size] = g * firsts.size + np.arange(
      firsts.size
    )
  return moves[:, :size], firsts.size, position


def _make_step(
  module: nn.Module, extra: dict[str, Any], batch: int
) -> tuple[Step, Any, Any]:
  """Returns a jitted training step and its first arguments."""
  x = jax.random.normal(jax.random.key(0), (batch, 28, 28))
  labels = jax.random.randint(jax.random.key(1), (batch,), 0, 10)
  optimizer = optax.adam(1e-3)
  params = jax.jit(module.init)(jax.random.key(2), x)['params']

  @jax.jit
  def step(params: Any, state: Any) -> tuple[Any, Any]:
    def loss(params: Any) -> jax.Array:
      logits = module.apply({'params': params, **extra}, x)
      return optax.softmax_cross_entropy_with_integer_labels(
        logits, labels
      ).mean()

    updates, state = optimizer.update(jax.grad(loss)(params), state)
    return optax.apply_updates(params, updates), state

  return step, params, optimizer.init(params)


def measure(
  names: tuple[str, ...], batch: int, config: Config
) -> dict[str, dict[str, float]]:
  """Returns each variant's median step and compile time, in milliseconds."""
  steps, compiling = {}, {}
  for variant, (module, extra) in _variants(names, config.backward).items():
    step, *state = _make_step(module, extra, batch)
    start = time.perf_counter()
    steps[variant] = step.lower(*state).compile(), state
    compiling[variant] = time.perf_counter() - start
  times = {variant: [] for variant in steps}
  for _ in range(config.repeats):
    for variant, (step, state) in steps.items():
      start = time.perf_counter()
      state = jax.block_until_ready(step(*state))
      times[variant].append(time.perf_counter() - start)
      steps[variant] = step, state
  return {
    variant: {
      'step_ms': 1e3 * statistics.median(times[variant]),
      'compile_ms': 1e3 * compiling[variant],
    }
    for variant in steps
  }


def run(config: Config) -> None:
  """Measures, prints and writes the table."""
  rows = []
  for batch in config.batches:
    for names in config.sets:
      label = 'all twelve' if len(names) == 12 else ' + '.join(names) or 'none'
      print(f'batch {batch:3}  {label:58}', end='', flush=True)
      result = measure(names, batch, config)
      for variant, times in result.items():
        ratio = times['step_ms'] / result['dense']['step_ms']
        rows.append(
          {'batch': batch, 'symmetries': label, 'variant': variant}
          | {key: round(value, 3) for key, value in times.items()}
          | {'ratio': round(ratio, 3)}
        )
        shown = f'{times["step_ms"]:.2f} ms' if variant == 'dense' else ratio
        shown = shown if isinstance(shown, str) else f'{shown:.2f}'
        print(
          f'  {variant} {shown} (compile {times["compile_ms"] / 1e3:.1f} s)',
          end='',
        )
      print(flush=True)
  config.out.mkdir(parents=True, exist_ok=True)
  with open(config.out / 'layers.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(rows)
  _summarise(rows)
  print(f'Table: {config.out}/layers.csv')


def _summarise(rows: Sequence[dict[str, Any]]) -> None:
  for variant in dict.fromkeys(row['variant'] for row in rows):
    for batch in dict.fromkeys(row['batch'] for row in rows):
      chosen = [
        row
        for row in rows
        if (row['variant'], row['batch']) == (variant, batch)
      ]
      ratios = [row['ratio'] for row in chosen]
      compiling = statistics.median(row['compile_ms'] for row in chosen)
      print(
        f'{variant:7} batch {batch:3}: median ratio to dense'
        f' {statistics.median(ratios):.2f}, from {min(ratios):.2f} to'
        f' {max(ratios):.2f}, over {len(ratios)} sets; median compile time'
        f' {compiling:.0f} ms'
      )


def main(_: list[str]) -> None:
  """Flags to config to one call."""
  run(
    Config(
      sets=tuple(tuple(s.split('+')) for s in _SETS.value or ()) or SETS,
      batches=tuple(_BATCHES.value),
      repeats=_REPEATS.value,
      backward=_BACKWARD.value,
      out=pathlib.Path(_OUT.value),
    )
  )


if __name__ == '__main__':
  launch.run(main)
