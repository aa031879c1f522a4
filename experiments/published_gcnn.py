r"""Trains the networks of the paper's table of group CNNs, beside its numbers.

For each of six data sets, the four best states that the paper's search found
and the large baseline CNN: 30 networks, trained for ten epochs on all training
images but a sixth, which choose the epoch whose test accuracy is reported. With
them three small networks that the paper leaves out: the baseline CNN, the same
with rotated and flipped training images, and the one that respects all
rotations and flips. Of a data set that is not complete, what is there is used,
and the counts are printed; a data set that is not there at all is left out.

  python -m experiments.published_gcnn --raw_dir=path/to/files
  python -m experiments.published_gcnn --dataset=kmnist,cifar10 --num_seeds=3

Prints the table and writes published_gcnn.csv, which also keeps the rows of
other commands with the same --run_dir. One to eight minutes a network on one
core with 6000 to 10 000 training images. The same command resumes an
interrupted run.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import pathlib

from absl import flags as absl_flags
import numpy as np

import aen
from aen.data import dataset as dataset_lib
from aen.search import gcnn_space
from aen.train import evaluate as evaluate_lib
from aen.train import score
from aen.train import store as store_lib
from experiments import flags
from experiments import launch
from experiments import results
from experiments import rows as rows_lib
from experiments.rows import Row

_COMPARISONS = absl_flags.DEFINE_bool(
  'comparisons', True, 'Train small networks that the paper leaves out, too.'
)
_MAX_TEST = absl_flags.DEFINE_integer(
  'max_test', 10000, 'Maximum number of test images.', lower_bound=1
)
_DATA = flags.Data(dataset='all', run_dir='runs/published_gcnn', partial=True)
_RECIPE = flags.recipe(
  epochs=10, batch_size=32, optimizer='sgd', criterion='accuracy'
)
_CHILDREN = flags.from_fields(
  aen.SearchConfig, only=('num_seeds', 'children_per_batch'), num_seeds=1
)

TABLE = pathlib.Path(__file__).with_suffix('.csv')  # as the paper prints it
# Made by the same recipe; the name of the data says that it is not the same.
STAND_INS = {'rot_mnist': 'rot_mnist_made'}
# What tells rows of our table apart: the task, and the network.
_NETWORK = ('symmetries', 'augmentations', 'size')
KEY = ('dataset', 'initializer', 'epochs', 'train', 'test', *_NETWORK)


def main(_: list[str]) -> None:
  """Trains the table, data set by data set, and writes it as it grows."""
  run_dir, table = _DATA.run_dir('published_gcnn'), configurations()
  path, found = run_dir / 'published_gcnn.csv', False
  rows_lib.read(path, KEY)  # refuses files of another version
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    for name in chosen(_DATA.name, table):
      if (data := load(name)) is None:
        continue
      print(repr(data), flush=True)
      wanted = [*table[name]]
      wanted += comparisons(table[name]) if _COMPARISONS.value else []
      for row in measure(data, wanted, store):
        rows_lib.add(path, [row], KEY)
      found = True
  if not found:
    raise FileNotFoundError(
      'none of the data sets is there; give --raw_dir, the directory of their'
      ' official files'
    )
  print(results.gcnn_table(rows_lib.read(path)))
  print(f'wrote {path}')


def configurations() -> dict[str, list[Row]]:
  """Reads the paper's table, by data set."""
  found: dict[str, list[Row]] = {}
  for row in rows_lib.read(TABLE):
    found.setdefault(row['dataset'], []).append(row)
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
  """Loads a data set, or its stand-in; says why if there is neither."""
  for attempt in filter(None, (name, STAND_INS.get(name))):
    try:
      data = _DATA.load(attempt)
      if len(data.test) > _MAX_TEST.value:
        data = _DATA.load(attempt, num_test=_MAX_TEST.value)
      return data
    except (OSError, ImportError) as error:
      print(f'{attempt} is not there: {error}', flush=True)
  return None


def comparisons(rows: Sequence[Row]) -> Iterator[Row]:
  """Yields symmetry, its lack and its replacement, where rows lack them."""
  known = {tuple(row[column] for column in _NETWORK) for row in rows}
  for network in results.SMALL_GCNNS.values():
    if network not in known:
      printed = {'dataset': rows[0]['dataset'], 'test_accuracy': ''}
      yield printed | dict(zip(_NETWORK, network, strict=True))


def measure(
  data: dataset_lib.Dataset, rows: Sequence[Row], store: store_lib.Results
) -> Iterator[Row]:
  """Trains a data set's networks, unless the store knows them."""
  space = gcnn_space.gcnn_space(data.image_shape, data.num_classes)
  children, recipe = _CHILDREN(), _RECIPE(len(data.train))
  seeds = range(children['num_seeds'])
  with evaluate_lib.ProgressBar(data.name, len(rows) * len(seeds)) as watch:
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      space=space,
      recipe=recipe,
      store=store,
      children_per_batch=children['children_per_batch'],
      on_trained=watch,
    )
    for row in rows:
      network = space.network(names(row))
      records = evaluate([(network, seed) for seed in seeds])
      ours = 100 * np.array(
        [score.validation_protocol(r, recipe.criterion) for r in records]
      )
      error = ours.std(ddof=1) / len(ours) ** 0.5 if len(ours) > 1 else None
      values = {
        'dataset': data.name,
        'initializer': recipe.initializer,
        **{column: row[column] for column in _NETWORK},
        'weights': records[0].num_weights,
        'epochs': recipe.epochs,
        'train': len(data.train),
        'validation': len(data.validation),
        'test': len(data.test),
        'seeds': len(ours),
        'paper': row['test_accuracy'],
        'ours': f'{ours.mean():.2f}',
        'standard_error': '' if error is None else f'{error:.2f}',
        'seconds': f'{np.mean([record.seconds for record in records]):.2f}',
      }
      yield {column: str(value) for column, value in values.items()}


def names(row: Row) -> list[str]:
  """Returns the bits of a row's network that are on."""
  size = [row['size']] if row['size'] == gcnn_space.LARGE else []
  return [*row['symmetries'].split(), *row['augmentations'].split(), *size]


if __name__ == '__main__':
  launch.run(main)
