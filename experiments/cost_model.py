r"""Fits the cost model of spectral layers to measured training steps.

For every structure of abelian groups of the paper's symmetries, times a
training step (forward, backward, Adam) of the 784-400-400-10 network with such
a group. The model is linear in the counts of
`aen.groups.spectral.step_operations`, plus a constant for the rest of the
network, and is fitted by non-negative least squares of relative errors. Prints
the coefficients for `aen.groups.spectral.NANOSECONDS`, and the model's errors.

  taskset -c 0 python -m experiments.cost_model   # three minutes
"""

import functools
import time
from typing import Any

import jax
import numpy as np
import optax
from scipy import optimize

import aen
from aen.groups import spectral
from aen.groups.lattice import chosen
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import programs
from experiments import launch
from experiments import timing

_FLAGS = launch.define(
  batch=([64, 512], 'Batch sizes.', 1),
  repeats=(20, 'Steps of each structure; the fastest counts.', 3),
)
_GRIDS = ((28, 28), (20, 20), (20, 20))


def main(_: list[str]) -> None:
  """Measures all structures, fits and prints."""
  steps: dict[Any, Any] = {}  # one group for each structure
  abelian_layers = programs.abelian_layers(PAPER_SYMMETRIES, _GRIDS)
  for subset, layers in sorted(abelian_layers.items()):
    forms = [spectral.spectral_form(*layer) for layer in layers]
    names = chosen(subset, PAPER_SYMMETRIES)
    steps.setdefault(tuple(f.structure for f in forms), (names, layers))
  kinds = list(spectral.NANOSECONDS)
  counts, measured = [], []
  for batch in _FLAGS.batch:
    for names, layers in steps.values():
      operations = [spectral.step_operations(*each, batch) for each in layers]
      counts.append([sum(o.get(k, 0) for o in operations) for k in kinds])
      measured.append(1e9 * seconds(names, layers, batch))
      label = ' + '.join(names) or 'gathered kernel'
      print(f'batch {batch}: {measured[-1] / 1e6:.3f} ms, {label}', flush=True)
  times = np.array(measured)
  matrix = np.array([[*row, 1.0] for row in counts]) / times[:, None]
  found, _ = optimize.nnls(matrix, np.ones(len(times)))
  for kind, value in zip([*kinds, 'constant'], found, strict=True):
    print(f'{kind}: {value:.3g} ns')
  errors = np.abs(matrix @ found - 1)
  print(f'error: median {np.median(errors):.1%}, largest {errors.max():.1%}')


def seconds(
  names: tuple[str, ...], layers: list[programs.Layer], batch: int
) -> float:
  """Returns the processor time of the fastest training step."""
  model = aen.EquivariantMLP(names)
  collections = aen.sharing_variables(model)
  for i, (group, num_in) in enumerate(layers if names else ()):
    layer = collections['sharing'][f'hidden_{i}']
    form = spectral.spectral_form(group, num_in)
    layer['spectral'] = form.of(np.asarray(layer['kernel']))
  x = jax.random.normal(jax.random.key(0), (batch, 28, 28))
  step, state = timing.training(model, optax.adam(1e-3), x)
  run = functools.partial(jax.jit(step), state, collections, x)
  clock = time.process_time
  times = timing.interleaved({'step': run}, _FLAGS.repeats, clock=clock)
  return min(times['step'])


if __name__ == '__main__':
  launch.run(main)
