"""The timing of all benchmarks: variants interleaved, ratios within each round.

A busy machine slows all variants alike when they run in turn, so ratios are
taken round by round; what is reported is their median and their range.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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

from experiments import rows as rows_lib

_WIDTH = 9  # of a column on the terminal
Times = Mapping[str, Sequence[float]]  # seconds of each variant, by round
Clock = Callable[[], float]


def timed(
  function: Callable[..., Any], *args: Any, clock: Clock = time.perf_counter
) -> tuple[float, Any]:
  """Returns the seconds of a call, and its result, once it is computed."""
  start = clock()
  result = jax.block_until_ready(function(*args))
  return clock() - start, result


def interleaved(
  variants: Mapping[str, Callable[[], Any]],
  repeats: int,
  clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
  """Returns the seconds of each variant, round by round.

  In the first round, which does not count, programs are compiled.
  """
  times: dict[str, list[float]] = {name: [] for name in variants}
  for number in range(1 + repeats):
    for name, run in variants.items():
      seconds, _ = timed(run, clock=clock)
      if number:
        times[name].append(seconds)
  return times


def ratio(times: Times, name: str, base: str) -> float:
  """Returns the median over rounds of one variant's time over another's."""
  pairs = zip(times[name], times[base], strict=True)
  return statistics.median(a / b for a, b in pairs)


def fastest_ratio(times: Times, name: str, base: str) -> float:
  """Returns one variant's smallest time over another's."""
  return min(times[name]) / min(times[base])


def milliseconds(times: Times, name: str) -> float:
  """Returns the median of a variant's times."""
  return 1e3 * statistics.median(times[name])


def spread(ratios: Iterable[float], what: str) -> str:
  """Says what the median ratio is, and how far others are from it."""
  found = sorted(ratios)
  return (
    f'median {statistics.median(found):.2f}, from {found[0]:.2f} to'
    f' {found[-1]:.2f}, over {len(found)} {what}'
  )


class DenseMLP(nn.Module):
  """An MLP without symmetry, with the layers of Flax."""

  widths: tuple[int, ...]  # the last one: classes
  kernel_init: Callable[..., jax.Array] = nn.initializers.lecun_normal()

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps images [B, ...] to logits."""
    x = x.reshape(len(x), -1)
    for width in self.widths[:-1]:
      x = nn.relu(nn.Dense(width, kernel_init=self.kernel_init)(x))
    return nn.Dense(self.widths[-1], kernel_init=self.kernel_init)(x)


def training(
  module: nn.Module,
  optimizer: optax.GradientTransformation,
  x: jax.Array,
  apply: Callable[..., jax.Array] | None = None,
) -> tuple[Callable[..., Any], Any]:
  """Returns a training step, and its first state, drawn without compiling.

  The step takes a state, the collections beside the parameters, and the other
  arguments of `apply`, by default images like x. Of constants, XLA would
  compute what it can while compiling.
  """
  apply = apply or module.apply
  labels = jnp.arange(len(x)) % 10

  def loss(params: Any, collections: Any, *args: Any) -> jax.Array:
    logits = apply({'params': params, **collections}, *args)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses.mean()

  def step(state: tuple[Any, Any], *args: Any) -> tuple[Any, Any]:
    params, opt_state = state
    gradient = jax.grad(loss)(params, *args)
    updates, opt_state = optimizer.update(gradient, opt_state)
    return optax.apply_updates(params, updates), opt_state

  draws = np.random.default_rng(0)
  params = jax.tree.map(
    lambda leaf: jnp.asarray(0.05 * draws.standard_normal(leaf.shape, 'f4')),
    jax.eval_shape(module.init, jax.random.key(0), x)['params'],
  )
  return step, (params, optimizer.init(params))


def clock() -> Callable[[], Clock]:
  """Defines --cpu_time; returns a function that returns the clock to read."""
  cpu_time = flags.DEFINE_bool(
    'cpu_time', False, 'Time the processor, not the clock: for busy machines.'
  )
  return lambda: time.process_time if cpu_time.value else time.perf_counter


def output(benchmark: str) -> Callable[[str], pathlib.Path]:
  """Defines --out; returns a function from a file's name to its path there."""
  out = flags.DEFINE_string('out', f'runs/{benchmark}', 'Folder of tables.')

  def path(name: str) -> pathlib.Path:
    folder = pathlib.Path(out.value)
    folder.mkdir(parents=True, exist_ok=True)  # fails before the measurements
    return folder / name

  return path


def collect(
  rows: Iterable[Mapping[str, Any]], path: pathlib.Path
) -> list[Mapping[str, Any]]:
  """Prints rows as they are measured, then writes them as a table."""
  found: list[Mapping[str, Any]] = []
  for row in rows:
    if not found or found[-1].keys() != row.keys():
      print('  '.join(name.ljust(_WIDTH) for name in row))
    cells = []
    for name, value in row.items():
      text = f'{value:.4g}' if isinstance(value, float) else str(value)
      cells.append(text.ljust(max(_WIDTH, len(name))))
    print('  '.join(cells))
    found.append(row)
  rows_lib.write(path, found)
  print(f'Table: {path}')
  return found
