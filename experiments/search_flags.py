"""Searches, as their flags say: the strategy, its seeds, the retraining."""

from collections.abc import Callable

from absl import flags

from aen import report
from aen.data import dataset as dataset_lib
from aen.search import explore as explore_lib
from aen.search import search as search_lib
from aen.search import space as space_lib
from aen.search import strategies
from aen.train import recipe as recipe_lib
from experiments import agent_flags
from experiments import data_flags
from experiments import launch
from experiments import training_flags

_STRATEGY = flags.DEFINE_enum(
  'strategy',
  'dqn',
  list(strategies.STRATEGIES),
  "Which networks to train: as the paper's agent or another strategy proposes,"
  ' or all of them (exhaustive).',
)
_SEED = flags.DEFINE_integer(
  'seed',
  0,
  'Of all that is random in searching and training; which images are held out'
  ' does not depend on it.',
  lower_bound=0,
)
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
  'retrain_seeds', 5, 'Children per network in retraining.', lower_bound=1
)


def run(
  experiment: str,
  make_space: Callable[[dataset_lib.Dataset], space_lib.Space],
  search_images: int = search_lib.SEARCH_IMAGES,
) -> None:
  """Searches, reports, and says what was found.

  Args:
    experiment: The name of the launcher.
    make_space: Returns the networks to choose among.
    search_images: On at most so many images; all are for the retraining.
  """
  run_dir = data_flags.run_dir(experiment)
  data = data_flags.load_data()
  space = make_space(data)
  print(f'{data!r}\n{len(space)} networks to choose among')
  num_images = min(len(data.train), search_images)
  config = make_config(training_flags.make_recipe(num_images))
  with launch.resumable():
    result = search_lib.search(data, space, config, run_dir, search_images)
    page = report.write(result, data, run_dir)
  print(f'{result.verdict}\nreport: {page}')


def make_config(recipe: recipe_lib.Recipe) -> explore_lib.SearchConfig:
  """Turns the flags into a configuration."""
  return explore_lib.SearchConfig(
    recipe=recipe,
    strategy=_STRATEGY.value,
    options=agent_flags.options(_STRATEGY.value),
    seed=_SEED.value,
    num_seeds=_NUM_SEEDS.value,
    top=_TOP.value,
    retrain_epochs=_RETRAIN_EPOCHS.value,
    retrain_seeds=_RETRAIN_SEEDS.value,
    children_per_batch=training_flags.children_per_batch(),
  )
