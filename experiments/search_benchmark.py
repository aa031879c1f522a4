r"""How long does a search take, relative to training networks without symmetry?

Searches all distinct networks of the twelve symmetries end to end (orbits,
compilation, training, store, report). After every batch of children, trains as
many baselines, `flax.linen.Dense` networks of the same widths, one after
another, on the same images with the same recipe, so that a busy machine slows
both. Programs compiled in an earlier run come from the cache in AEN_CACHE_DIR.
Then trains children in batches of several sizes. Everything but training is
overhead; with --strategy=dqn, this includes the agent.

Five minutes; the ratio is 0.6 with an empty compilation cache:
  python -m experiments.search_benchmark --dataset=g_mnist/aug5 --size=search \
    --epochs=4 --head=dense --criterion=accuracy
The paper's complete search, with its Q-network and retraining on 10 000 images
(ten minutes):
  python -m experiments.search_benchmark --dataset=g_mnist/aug5 --size=retrain \
    --epochs=4 --head=dense --criterion=accuracy --strategy=dqn --top=8 \
    --retrain_seeds=5 --q_hidden_sizes=400,400,400 --q_batch_size=512
"""

from collections.abc import Callable, Sequence
import functools
import itertools
import math
import resource
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp

from aen import report
from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from aen.search import search as search_lib
from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from aen.train import tensorboard
from experiments import flags
from experiments import launch
from experiments import timing

_FLAGS = launch.define(
  batches=([1, 2, 4, 8], 'Numbers of children per batch to compare.', 1),
  repeats=(3, 'How often each batch is trained; the fastest counts.', 1),
  tensorboard=(False, 'Also write curves for TensorBoard, and time that.'),
)
_CLOCK = timing.clock()
_DATA = flags.Data()
_NETWORKS = flags.networks()
_RECIPE = flags.recipe()
_SEARCH = flags.search(strategy='exhaustive', top=1, retrain_seeds=1)


def main(_: list[str]) -> None:
  """Runs both comparisons and prints the ratios."""
  data = _DATA.load()
  few = search_lib.at_most(data, search_lib.SEARCH_IMAGES)
  recipe = _RECIPE(len(few.train))
  scaling = evaluate_lib.scaling_of(data.train.images)
  examples = evaluate_lib.make_evaluator(
    few, scaling, space=None, recipe=recipe, store=None
  ).data
  make_space = functools.partial(mlp_space.mlp_space, **_NETWORKS())
  orbits_seconds, space = timing.timed(
    make_space, data.image_shape, data.num_classes, clock=_CLOCK()
  )
  like = space.template
  widths = [math.prod(grid) for grid in like.hidden_shapes]
  config = child_lib.ChildConfig(
    timing.DenseMLP((*widths, like.num_classes), like.kernel_init), recipe
  )
  train = jax.jit(
    lambda key, data: child_lib.train_child(key, {}, data, config)
  )
  seeds = itertools.count()

  def baseline() -> float:
    key = jax.random.key(next(seeds))
    return timing.timed(train, key, examples, clock=_CLOCK())[0]

  baseline()  # compiles
  compare_search(data, space, recipe, baseline, orbits_seconds)
  compare_batches(space, examples, recipe, baseline)


def compare_search(
  data: dataset_lib.Dataset,
  space: mlp_space.MLPSpace,
  recipe: recipe_lib.Recipe,
  baseline: Callable[[], float],
  orbits_seconds: float,
) -> None:
  """Times a search end to end, with baselines trained in between."""
  training, writing, clock = 0.0, 0.0, _CLOCK()
  baselines: list[float] = []  # seconds of each

  def race(records: Sequence[store_lib.Record]) -> None:
    nonlocal training, writing
    training += sum(record.seconds for record in records)
    if _FLAGS.tensorboard:
      writing += timing.timed(write, records)[0]
    if len(baselines) < len(space):
      baselines.extend(baseline() for _ in records)

  start = clock()
  with tempfile.TemporaryDirectory() as run_dir:
    if _FLAGS.tensorboard:
      write = tensorboard.callback(f'{run_dir}/tensorboard')
    result = search_lib.search(
      data, space, _SEARCH(recipe), run_dir, on_trained=race
    )
    report.write(result, data, run_dir)
  theirs = sum(baselines)
  ours = clock() - start - theirs + orbits_seconds
  counts, networks = result.counts, range(len(space))
  num_programs = len(set(map(space.program, networks)))
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  rest = ''
  if clock is time.perf_counter:  # as in the seconds of records
    rest = (
      f' all but training: {ours - training:.1f} s,'
      f' {100 * (1 - training / ours):.1f} % of it;'
    )
  print(
    f'{counts.steps} steps, {counts.states} states, {counts.networks} of'
    f' {len(space)} networks end to end: {ours:.1f} s; compiled programs:'
    f' {num_programs}; {len(baselines)} baselines one after another:'
    f' {theirs:.1f} s; ratio {ours / theirs:.2f};{rest} peak memory'
    f' {peak:.2f} GiB'
  )
  if _FLAGS.tensorboard:
    print(
      f'curves for TensorBoard: {writing:.2f} s,'
      f' {100 * writing / (ours - writing):.2f} % more than without'
    )


def compare_batches(
  space: mlp_space.MLPSpace,
  data: child_lib.ChildData,
  recipe: recipe_lib.Recipe,
  baseline: Callable[[], float],
) -> None:
  """Times batches of several sizes, interleaved with baselines."""
  program = space.program(len(space) - 1)
  same = [n for n in range(len(space)) if space.program(n) == program]
  networks = itertools.islice(itertools.cycle(same), max(_FLAGS.batches))
  inputs = [space.inputs(network).collections for network in networks]
  config = child_lib.ChildConfig(program, recipe)
  variants: dict[str, Callable[[], Any]] = {
    str(size): functools.partial(
      child_lib.train_children,
      jax.random.split(jax.random.key(0), size),
      jax.tree.map(lambda *leaves: jnp.stack(leaves), *inputs[:size]),
      data,
      config,
      children_per_batch=size,
      devices=jax.devices()[:1],
    )
    for size in _FLAGS.batches
  }
  times = timing.interleaved({**variants, 'baseline': baseline}, _FLAGS.repeats)
  for size in variants:
    seconds = min(times[size]) / int(size)
    print(
      f'{size} children per batch: {seconds:.3f} s each,'
      f' {seconds / min(times["baseline"]):.2f} × a baseline'
    )


if __name__ == '__main__':
  launch.run(main)
