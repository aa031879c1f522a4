"""Timing of all benchmarks: variants take turns, ratios are taken per round.

Variants that run in turn suffer alike from a busy machine, so ratios of times
within a round are stable; benchmarks report their median and range.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import pathlib
import statistics
import time
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments import launch
from experiments import rows as rows_lib

_WIDTH = 9  # of a column on the terminal
Times = Mapping[str, Sequence[float]]  # seconds by variant, then by round
Clock = Callable[[], float]


def timed(
  function: Callable[..., Any], *args: Any, clock: Clock = time.perf_counter
) -> tuple[float, Any]:
  """Returns the seconds that a call took, and its result once computed."""
  start = clock()
  result = jax.block_until_ready(function(*args))
  return clock() - start, result


def interleaved(
  variants: Mapping[str, Callable[[], Any]],
  repeats: int,
  clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
  """Returns the seconds of each variant, by round.

  A first round, which does not count, compiles programs.
  """
  times: dict[str, list[float]] = {name: [] for name in variants}
  for number in range(1 + repeats):
    for name, run in variants.items():
      seconds, _ = timed(run, clock=clock)
      if number:
        times[name].append(seconds)
  return times


def ratio(times: Times, name: str, base: str) -> float:
  """Returns the median over rounds of time(name) / time(base)."""
  pairs = zip(times[name], times[base], strict=True)
  return statistics.median(a / b for a, b in pairs)


def fastest_ratio(times: Times, name: str, base: str) -> float:
  """Returns the ratio of the shortest times of two variants."""
  return min(times[name]) / min(times[base])


def milliseconds(times: Times, name: str) -> float:
  """Returns the median time of a variant."""
  return 1e3 * statistics.median(times[name])


def spread(ratios: Iterable[float], what: str) -> str:
  """Describes ratios by their median and range."""
  found = sorted(ratios)
  return (
    f'median {statistics.median(found):.2f}, from {found[0]:.2f} to'
    f' {found[-1]:.2f}, over {len(found)} {what}'
  )


class DenseMLP(nn.Module):
  """An MLP without symmetry, of Flax layers."""

  widths: tuple[int, ...]  # the last is the number of classes
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
  """Returns a training step, and an initial state drawn without compiling.

  The step takes a state, the collections other than the parameters, and further
  arguments of `apply`, by default images like x. They are arguments because XLA
  would fold constants while compiling.
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
  """Defines --cpu_time; returns a function that returns the chosen clock."""
  text = 'Measure processor time instead of wall time: for busy machines.'
  given = launch.define(cpu_time=(False, text))
  return lambda: time.process_time if given.cpu_time else time.perf_counter


def output(benchmark: str) -> Callable[[str], pathlib.Path]:
  """Defines --out; returns a function from a file's name to its path there."""
  given = launch.define(out=(f'runs/{benchmark}', 'Folder of tables.'))

  def path(name: str) -> pathlib.Path:
    folder = pathlib.Path(given.out)
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
