r"""Trains the networks of the paper's table of group CNNs.

For each of six data sets, the four best states that the paper's search found
and the large baseline CNN: 30 networks, built and trained as in the published
code for ten epochs. --networks=controls trains controls that the paper lacks:
the large baseline and the large network of the true group of rotations and
flips, D4. The published code initializes networks with symmetry at a larger
scale than those without; with --initializer=unit_variance all have the same.

  python -m experiments.published_gcnn --raw_dir=path/to/files
  python -m experiments.published_gcnn --dataset=cifar10,kmnist \
    --networks=controls --initializer=unit_variance --num_seeds=3

1000 training images (--num_validation) are held out, to choose the epoch for
the validation protocol. Incomplete data sets are used as they are, missing ones
are left out.

Prints the table and writes published_gcnn.csv, a row per child with its curves;
rows of other commands with the same --run_dir are kept. Takes half a minute per
100 000 images and epoch on one core. The same command resumes an interrupted
run.
"""

from collections.abc import Iterable, Iterator, Sequence
import itertools
import pathlib
import time

import aen
from aen.data import dataset as dataset_lib
from aen.search import gcnn_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from experiments import flags
from experiments import launch
from experiments import results
from experiments import rows as rows_lib
from experiments.rows import Row

_FLAGS = launch.define(
  networks=(('table',), 'Networks to train: table, controls, or both.'),
)
_DATA = flags.Data(
  dataset='all',
  run_dir='runs/published_gcnn',
  partial=True,
  num_validation=1000,
)
# As the published code trains them.
RECIPE = recipe_lib.Recipe(
  epochs=10,
  batch_size=32,
  optimizer='sgd',
  initializer='published',
  scaling='symmetric',
  dropout='first_epoch',
  partial_batch=True,
)
_RECIPE = flags.recipe(**vars(RECIPE))
_CHILDREN = flags.from_fields(
  aen.SearchConfig, only=('num_seeds', 'children_per_batch'), num_seeds=1
)

TABLE = pathlib.Path(__file__).with_suffix('.csv')  # as the paper prints it
# The versions of a data set in the table, in the order in which they are tried:
# the published one, and one that is made by the same recipe.
VERSIONS = {
  'svhn_cropped': ('svhn_cropped', 'svhn_cropped_rebuilt'),
  'rot_mnist': ('rot_mnist/swapped', 'rot_mnist_made/swapped'),
  'emnist/letters': ('emnist/letters_124800', 'emnist/letters'),
}
# Variants of the data for the same networks: pixels as the published code
# converts them, and a harder split, which the paper lacks.
VARIANTS = {
  'sign_language_mnist/negative': 'sign_language_mnist',
  'sign_language_mnist/by_photograph': 'sign_language_mnist',
}
# The columns that identify a row of our table.
NETWORK = results.GCNN_NETWORK
KEY = ('dataset', 'recipe', 'train', 'test', *NETWORK, 'seed')


def main(_: list[str]) -> None:
  """Trains the table, data set by data set, and writes each row at once."""
  run_dir, table = _DATA.run_dir('published_gcnn'), configurations()
  path, found = run_dir / 'published_gcnn.csv', False
  rows_lib.read(path, KEY)  # refuses files of another version
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    for name in chosen(_FLAGS.dataset, table):
      if (data := load(name)) is None:
        continue
      print(repr(data))
      wanted = networks(_FLAGS.networks, table[name])
      for row in measure(data, wanted, store, rows_lib.read(path)):
        rows_lib.add(path, [row], KEY)
      found = True
  if not found:
    raise FileNotFoundError(
      'none of the data sets was found; give --raw_dir, the directory of their'
      ' official files'
    )
  print(results.gcnn_table(rows_lib.read(path)))
  print(f'wrote {path}')


def configurations() -> dict[str, list[dict[str, str]]]:
  """Reads the paper's table, by data set."""
  table = rows_lib.by(('dataset',), rows_lib.read(TABLE))
  found = {name: rows for (name,), rows in table.items()}
  for variant, official in VARIANTS.items():
    if official in found:
      found[variant] = [row | {'test_accuracy': ''} for row in found[official]]
  return found


def chosen(names: str, table: Iterable[str]) -> list[str]:
  """Returns the data sets that the flag names."""
  table = list(table)
  wanted = table if names == 'all' else names.split(',')
  if unknown := [name for name in wanted if name not in table]:
    raise ValueError(
      f"--dataset must be 'all', or some of {', '.join(table)}; got"
      f' {unknown[0]!r}'
    )
  return wanted


def load(name: str) -> dataset_lib.Dataset | None:
  """Loads the first version of a data set that is found; prints what is not."""
  for attempt in VERSIONS.get(name, (name,)):
    try:
      return _DATA.load(attempt)
    except (OSError, ImportError) as error:
      print(f'{attempt} is not there: {error}')
  return None


def networks(kinds: Sequence[str], table: Sequence[Row]) -> list[Row]:
  """Returns the distinct networks of a data set that the flag names."""
  of_paper = {tuple(row[name] for name in NETWORK): row for row in table}
  controls = [
    of_paper.get(network, dict(zip(NETWORK, network, strict=True)))
    for network in results.GCNN_CONTROLS.values()
  ]
  known = {'table': table, 'controls': controls}
  if unknown := [kind for kind in kinds if kind not in known]:
    raise ValueError(
      f'--networks must be some of {", ".join(known)}, got {unknown[0]!r}'
    )
  found = rows_lib.by(NETWORK, (row for kind in kinds for row in known[kind]))
  return [rows[0] for rows in found.values()]


def measure(
  data: dataset_lib.Dataset,
  rows: Sequence[Row],
  store: store_lib.Results,
  known: Sequence[Row] = (),
) -> Iterator[Row]:
  """Trains the networks of a data set, except for the children in `known`."""
  space = gcnn_space.gcnn_space(
    data.image_shape, data.num_classes, as_published=True
  )
  children, recipe = _CHILDREN(), _RECIPE(len(data.train))
  seeds = range(children['num_seeds'])
  trained = {tuple(row[column] for column in KEY) for row in known}
  with evaluate_lib.progress_bar(data.name, len(rows) * len(seeds)) as watch:
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      store=store,
      children_per_batch=children['children_per_batch'],
      on_trained=watch,
    )
    for row, seed in itertools.product(rows, seeds):
      child = {
        'dataset': data.name,
        **{column: row[column] for column in NETWORK},
        'recipe': changes(recipe),
        'seed': str(seed),
        'train': str(len(data.train)),
        'validation': str(len(data.validation)),
        'test': str(len(data.test)),
      }
      if tuple(child[column] for column in KEY) in trained:
        continue
      start = time.process_time()
      (record,) = evaluate([(space.network(names(row)), seed)])
      yield child | {
        'weights': str(record.num_weights),
        'paper': row.get('test_accuracy', ''),
        'test_accuracy': percent(record.test_accuracy),
        'validation_accuracy': percent(record.validation_accuracy),
        # CPU time, which does not depend on other work on the machine
        'seconds': f'{time.process_time() - start:.1f}',
      }


def changes(recipe: recipe_lib.Recipe) -> str:
  """Returns the fields in which a recipe differs from the published one."""
  fields = vars(recipe).items()
  return ' '.join(f'{k}={v}' for k, v in fields if v != getattr(RECIPE, k))


def percent(curve: Iterable[float]) -> str:
  """Returns the accuracies of all epochs in percent, as text."""
  return ' '.join(f'{100 * value:.2f}' for value in curve)


def names(row: Row) -> list[str]:
  """Returns the bits of a row's network that are on."""
  size = [row['size']] if row['size'] == gcnn_space.LARGE else []
  return [*row['symmetries'].split(), *row['augmentations'].split(), *size]


if __name__ == '__main__':
  launch.run(main)
