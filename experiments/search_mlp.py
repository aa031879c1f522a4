r"""Searches for the symmetries that a network for some images should have.

On handwritten digits that were turned, flipped and scrambled, which are part of
the installation (two minutes on two cores):
  python -m experiments.search_mlp
The paper's search on real images:
  python -m experiments.search_mlp --dataset=g_mnist/aug5 --size=search \
    --head=dense --criterion=accuracy
On your own images, as an .npz file or a folder of class-named folders:
  python -m experiments.search_mlp --dataset=path/to/images

A search that was stopped goes on when the same command is given again.
"""

from collections.abc import Sequence

from absl import flags

from aen import report
from aen import search
from aen import strategies
from experiments import agent_flags
from experiments import launch
from experiments import mlp_flags

_STRATEGY = flags.DEFINE_enum(
  'strategy',
  'dqn',
  list(strategies.STRATEGIES),
  "Which networks to train: as the paper's agent or another strategy proposes,"
  ' or all of them (exhaustive).',
)
_SEED = flags.DEFINE_integer('seed', 0, 'Of everything random.', lower_bound=0)
_NUM_SEEDS = flags.DEFINE_integer(
  'num_seeds', 1, 'Children per network in the search.', lower_bound=1
)
_TOP = flags.DEFINE_integer(
  'top', 8, 'How many of the best networks are retrained.', lower_bound=1
)
_RETRAIN_EPOCHS = flags.DEFINE_integer(
  'retrain_epochs',
  None,
  'Epochs of retraining; by default 2.5 times those of the search.',
  lower_bound=1,
)
_RETRAIN_SEEDS = flags.DEFINE_integer(
  'retrain_seeds', 5, 'With how many seeds they are.', lower_bound=1
)


def main(_: Sequence[str]) -> None:
  """Searches, reports, and says what was found."""
  run_dir = mlp_flags.run_dir('search_mlp')
  data = mlp_flags.load_data()
  space = mlp_flags.make_space(data)
  print(f'{data!r}\n{len(space)} networks to choose among')
  with launch.resumable():
    result = search.search(data, space, make_config(len(data.train)), run_dir)
    page = report.write(result, data, run_dir)
  print(f'{result.verdict}\nreport: {page}')


def make_config(num_images: int) -> search.SearchConfig:
  """Turns the flags into a configuration."""
  recipe = mlp_flags.make_recipe(min(num_images, search.SEARCH_IMAGES))
  return search.SearchConfig(
    recipe=recipe,
    strategy=_STRATEGY.value,
    options=agent_flags.options(_STRATEGY.value),
    seed=_SEED.value,
    num_seeds=_NUM_SEEDS.value,
    top=_TOP.value,
    retrain_epochs=_RETRAIN_EPOCHS.value,
    retrain_seeds=_RETRAIN_SEEDS.value,
    children_per_batch=mlp_flags.children_per_batch(),
  )


if __name__ == '__main__':
  launch.run(main)
