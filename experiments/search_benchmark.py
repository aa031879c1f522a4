r"""How long does a search take, against training plain networks?

All distinct networks of the twelve symmetries are searched end to end (orbits,
compilation, training, store, report). After every batch of children, as many
plain `flax.linen.Dense` networks of the same widths are trained one after
another, on the same images by the same recipe; so both sides see the same
machine. Then children are trained in batches of several sizes. What is no
training is the bookkeeping: with --strategy=dqn, the agent's too.

  python -m experiments.search_benchmark --dataset=g_mnist/aug5 --size=search \
    --epochs=4 --head=dense --criterion=accuracy

The paper's whole search, with its Q-network, retraining on 10 000 images:
  python -m experiments.search_benchmark --dataset=g_mnist/aug5 --size=retrain \
    --epochs=4 --head=dense --criterion=accuracy --strategy=dqn --top=8 \
    --retrain_seeds=5 --q_hidden_sizes=400,400,400 --q_batch_size=512
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import functools
import resource
import tempfile
import time

from absl import flags
from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from aen import report
from aen.search import mlp_space
from aen.search import search as search_lib
from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from experiments import data_flags
from experiments import launch
from experiments import mlp_flags
from experiments import search_flags
from experiments import training_flags

launch.set_defaults(strategy='exhaustive', top=1, retrain_seeds=1)

_BATCHES = flags.DEFINE_multi_integer(
  'batches', [1, 2, 4, 8], 'Children per batch to compare.', lower_bound=1
)
_REPEATS = flags.DEFINE_integer(
  'repeats', 3, 'Times each batch is trained; the fastest counts.', 1
)


class Plain(nn.Module):
  """The same widths without symmetry, as Flax has it."""

  like: nn.Module

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps images [B, ...] to logits."""
    x = x.reshape(len(x), -1)
    common = {'kernel_init': self.like.kernel_init}
    for grid in self.like.hidden_shapes:
      x = nn.relu(nn.Dense(int(np.prod(grid)), **common)(x))
    return nn.Dense(self.like.num_classes, **common)(x)


@dataclasses.dataclass
class Rival:
  """Trains plain networks, and keeps the time."""

  train: Callable[[jax.Array], store_lib.Record]
  seconds: float = 0.0
  count: int = 0

  def __call__(self, number: int = 1) -> None:
    """Trains so many, one after another."""
    start = time.perf_counter()
    for _ in range(number):
      jax.block_until_ready(self.train(jax.random.key(self.count)))
      self.count += 1
    self.seconds += time.perf_counter() - start


def make_rival(
  space: mlp_space.MLPSpace,
  data: child_lib.ChildData,
  recipe: recipe_lib.Recipe,
) -> Rival:
  """Returns a rival that is compiled already."""
  config = child_lib.ChildConfig(Plain(space.template), recipe)
  train = jax.jit(
    lambda key, data: child_lib.train_child(key, {}, data, config)
  )
  rival = Rival(functools.partial(train, data=data))
  rival()
  return Rival(rival.train)


def main(_: Sequence[str]) -> None:
  """Runs both comparisons and prints the ratios."""
  data = data_flags.load_data()
  few = search_lib.at_most(data, search_lib.SEARCH_IMAGES)
  recipe = training_flags.make_recipe(len(few.train))
  scaling = evaluate_lib.scaling_of(data.train.images)
  examples = evaluate_lib.make_evaluator(
    few, scaling, space=None, recipe=recipe, store=None
  ).data

  start = time.perf_counter()
  space = mlp_flags.make_space(data)
  orbits_seconds = time.perf_counter() - start
  rival = make_rival(space, examples, recipe)

  training = 0.0

  def race(records: Sequence[store_lib.Record]) -> None:
    nonlocal training
    training += sum(record.seconds for record in records)
    if rival.count < len(space):
      rival(len(records))

  config = search_flags.make_config(recipe)
  start = time.perf_counter()
  with tempfile.TemporaryDirectory() as run_dir:
    result = search_lib.search(data, space, config, run_dir, on_trained=race)
    report.write(result, data, run_dir)
  ours = time.perf_counter() - start - rival.seconds + orbits_seconds
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
  counts = result.counts
  print(
    f'{counts.steps} steps, {counts.states} states, {counts.networks} of'
    f' {len(space)} networks end to end: {ours:.1f} s; {rival.count} plain'
    f' networks one after another: {rival.seconds:.1f} s; ratio'
    f' {ours / rival.seconds:.2f}; all but training: {ours - training:.1f} s,'
    f' {100 * (1 - training / ours):.1f} % of it; peak memory {peak:.2f} GiB'
  )
  compare_batches(space, examples, recipe, rival)


def compare_batches(
  space: mlp_space.MLPSpace,
  data: child_lib.ChildData,
  recipe: recipe_lib.Recipe,
  rival: Rival,
) -> None:
  """Times batches of several sizes, interleaved with plain networks."""
  networks = np.linspace(1, len(space) - 1, max(_BATCHES.value)).astype(int)
  inputs = [space.inputs(int(network)).collections for network in networks]
  config = child_lib.ChildConfig(space.program(0), recipe)
  best = dict.fromkeys(_BATCHES.value, float('inf'))
  plain = float('inf')
  for repeat in range(_REPEATS.value + 1):
    for size in best:
      stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *inputs[:size])
      keys = jax.random.split(jax.random.key(0), size)
      start = time.perf_counter()
      jax.block_until_ready(
        child_lib.train_children(
          keys,
          stacked,
          data,
          config,
          children_per_batch=size,
          devices=jax.devices()[:1],
        )
      )
      if repeat:  # the first one compiles
        seconds = (time.perf_counter() - start) / size
        best[size] = min(best[size], seconds)
      before = rival.seconds
      rival()
      plain = min(plain, rival.seconds - before)
  for size, seconds in best.items():
    print(
      f'{size} children per batch: {seconds:.3f} s each,'
      f' {seconds / plain:.2f} × a plain network'
    )


if __name__ == '__main__':
  launch.run(main)
