r"""Trains the networks of the paper's table of group CNNs, beside its numbers.

For each of six data sets, the four best states that the paper's search found
and the large plain CNN: 30 networks, trained for ten epochs on all training
images but a sixth, which choose the epoch whose test accuracy is told. With
them three small networks that the paper leaves out: the plain CNN, the same
with turned and mirrored training images, and the one that respects all turns
and flips. Of a data set that is not complete, what is there is used, and the
counts are said; a data set that is not there at all is left out.

  python -m experiments.published_gcnn --raw_dir=path/to/files
  python -m experiments.published_gcnn --dataset=kmnist,cifar10 --num_seeds=3

Writes published_gcnn.csv, which also keeps the rows of other commands with the
same --run_dir. A run that was stopped goes on when the same command is given
again.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import csv
import dataclasses
import pathlib

from absl import flags
import numpy as np

from aen.data import dataset as dataset_lib
from aen.search import gcnn_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from experiments import data_flags
from experiments import gcnn_results
from experiments import launch
from experiments import training_flags

_NUM_SEEDS = flags.DEFINE_integer(
  'num_seeds', 1, 'Children of each network.', lower_bound=1
)
_COMPARISONS = flags.DEFINE_bool(
  'comparisons', True, 'Train small networks that the paper leaves out, too.'
)
_MAX_TEST = flags.DEFINE_integer(
  'max_test', 10000, 'At most so many test images of each.', lower_bound=1
)
launch.set_defaults(
  dataset='all',
  run_dir='runs/published_gcnn',
  partial=True,
  epochs=10,
  batch_size=32,
  optimizer='sgd',
  criterion='accuracy',
)

TABLE = pathlib.Path(__file__).with_suffix('.csv')  # as the paper prints it
# Made by the same recipe; the name of the data says that it is not the same.
STAND_INS = {'rot_mnist': 'rot_mnist_made'}


@dataclasses.dataclass(frozen=True)
class Configuration:
  """One row of the paper's table."""

  dataset: str
  symmetries: str  # names, separated by spaces
  augmentations: str
  size: str
  test_accuracy: float | None  # in percent, as printed; None: not printed

  def names(self) -> list[str]:
    """Returns the bits that are on."""
    large = [gcnn_space.LARGE] * (self.size == gcnn_space.LARGE)
    return [*self.symmetries.split(), *self.augmentations.split(), *large]


def configurations() -> dict[str, list[Configuration]]:
  """Reads the paper's table, by data set."""
  found: dict[str, list[Configuration]] = {}
  with open(TABLE, newline='', encoding='utf-8') as file:
    for row in csv.DictReader(file):
      row['test_accuracy'] = float(row['test_accuracy'])
      found.setdefault(row['dataset'], []).append(Configuration(**row))
  return found


def comparisons(rows: Sequence[Configuration]) -> Iterator[Configuration]:
  """Yields symmetry, its lack and its replacement, where rows lack them."""
  dataset = rows[0].dataset
  known = {(row.symmetries, row.augmentations, row.size) for row in rows}
  for symmetries, augmentations in (
    ('', ''),
    ('', gcnn_results.MOVES),
    (gcnn_results.TURNS, ''),
  ):
    if (symmetries, augmentations, 'small') not in known:
      yield Configuration(dataset, symmetries, augmentations, 'small', None)


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
  """Loads a data set, or its stand-in; says why if there is neither."""
  for attempt in filter(None, (name, STAND_INS.get(name))):
    try:
      data = data_flags.load_data(attempt)
      if len(data.test) > _MAX_TEST.value:
        data = data_flags.load_data(attempt, num_test=_MAX_TEST.value)
      return data
    except (OSError, ImportError) as error:
      print(f'{attempt} is not there: {error}', flush=True)
  return None


def measure(
  data: dataset_lib.Dataset,
  rows: Sequence[Configuration],
  store: store_lib.Results,
) -> Iterator[gcnn_results.Row]:
  """Trains a data set's networks, unless the store knows them."""
  space = gcnn_space.gcnn_space(
    data.image_shape,
    data.num_classes,
  )
  seeds = range(_NUM_SEEDS.value)
  recipe = training_flags.make_recipe(len(data.train))
  with evaluate_lib.ProgressBar(data.name, len(rows) * len(seeds)) as watch:
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      store=store,
      children_per_batch=training_flags.children_per_batch(),
      on_trained=watch,
    )
    for row in rows:
      network = space.network(row.names())
      records = evaluate([(network, seed) for seed in seeds])
      yield _row(data, row, records, recipe)


def _row(
  data: dataset_lib.Dataset,
  published: Configuration,
  records: Sequence[store_lib.Record],
  recipe: recipe_lib.Recipe,
) -> gcnn_results.Row:
  ours = np.array([100 * _test_accuracy(r, recipe.criterion) for r in records])
  several = len(ours) > 1
  return gcnn_results.Row(
    dataset=data.name,
    initializer=recipe.initializer,
    symmetries=published.symmetries,
    augmentations=published.augmentations,
    size=published.size,
    weights=records[0].num_weights,
    epochs=recipe.epochs,
    train=len(data.train),
    validation=len(data.validation),
    test=len(data.test),
    seeds=len(ours),
    paper=published.test_accuracy,
    ours=float(ours.mean()),
    standard_error=ours.std(ddof=1) / len(ours) ** 0.5 if several else None,
    seconds=float(np.mean([record.seconds for record in records])),
  )


def _test_accuracy(record: store_lib.Record, criterion: str) -> float:
  """Returns that of the epoch that is best on the validation images."""
  best = recipe_lib.best_epoch(record, criterion)
  return record.test_accuracy[best]


def main(_: Sequence[str]) -> None:
  """Trains the table, data set by data set, and writes it as it grows."""
  run_dir = pathlib.Path(data_flags.run_dir('published_gcnn'))
  path, table = run_dir / 'published_gcnn.csv', configurations()
  rows = {(*r.task, *r.network): r for r in gcnn_results.read(path)}
  found = False
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    for name in chosen(data_flags.name(), table):
      if (data := load(name)) is None:
        continue
      print(repr(data), flush=True)
      wanted = [*table[name]]
      if _COMPARISONS.value:
        wanted += comparisons(table[name])
      for row in measure(data, wanted, store):
        rows[*row.task, *row.network] = row
        gcnn_results.write(path, rows.values())
      found = True
  if not found:
    raise FileNotFoundError(
      'none of the data sets is there; give --raw_dir, the directory of their'
      ' official files'
    )
  print('\n'.join(gcnn_results.table(rows.values())))
  print(f'wrote {path}')


if __name__ == '__main__':
  launch.run(main)
