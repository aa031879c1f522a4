r"""The paper's tables of networks with one symmetry, beside ours.

The network without symmetry and the twelve with one, each on images that were
transformed by one symmetry ('single': 13 data sets) and by several ('multiple':
Aug0 to Aug5), trained on 10 000 images for ten epochs by the published recipe.

  python -m experiments.single_symmetry --raw_dir=path/to/files
  python -m experiments.single_symmetry --base=g_mnist --table=multiple \
    --num_seeds=3 --initializer=fan_in --fresh_order

Prints the mean difference from the paper (about one point), and writes
tables.csv (every child, by the paper protocol and by the validation protocol)
and a picture of each table. Half an hour on two cores for both tables of both
bases. The same command resumes an interrupted run.
"""

import itertools

import aen
from aen import io as io_lib
from aen.train import store as store_lib
from experiments import figures
from experiments import flags
from experiments import launch
from experiments import published_mlp
from experiments import results
from experiments import retraining
from experiments import rows as rows_lib

_CONFIGS = {
  'single': published_mlp.SINGLE,
  'multiple': published_mlp.MULTIPLE,
}
_BASES, _KINDS = list(published_mlp.BASES), list(_CONFIGS)
_FLAGS = launch.define(
  base=(_BASES, 'Which images are transformed.', _BASES),
  table=(_KINDS, 'Which tables.', _KINDS),
  run_dir=('runs/single_symmetry', 'Where results are written.'),
)
_RECIPE = flags.recipe(**vars(published_mlp.RECIPE))
_CHILDREN = flags.from_fields(aen.SearchConfig, only=('num_seeds',))
_PLACES = flags.places()


def main(_: list[str]) -> None:
  """Trains the tables, row by row, and lays them beside the paper's."""
  run_dir = io_lib.open_run(_FLAGS.run_dir, {'experiment': 'single_symmetry'})
  seeds, recipe = range(_CHILDREN()['num_seeds']), _RECIPE(10000)
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    for base, kind in itertools.product(_FLAGS.base, _FLAGS.table):
      configs, rows = _CONFIGS[kind], []
      for config in configs:
        task = retraining.table_task(f'{base}/{config}', seeds, recipe)
        rows += retraining.train(task, store, _PLACES())
      rows_lib.add(run_dir / 'tables.csv', rows, retraining.KEY)
      ours = results.grid(rows, base, configs)
      paper = published_mlp.table(base, configs)
      print(f'{base}, {kind}: {results.compare(ours, paper)}')
      if kind == 'single':
        print(results.diagonals(ours, paper))
      picture = figures.tables(base, configs, ours)
      picture.savefig(run_dir / f'{base}_{kind}.png')
  print(f'wrote {run_dir}')


if __name__ == '__main__':
  launch.run(main)
