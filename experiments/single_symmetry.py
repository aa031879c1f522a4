r"""The paper's tables of networks with one symmetry, beside ours.

The network without symmetry and the twelve with one, each on images that were
moved by one symmetry ('single': 13 data sets) and by several ('multiple': Aug0
to Aug5), trained on 10 000 images for ten epochs by the published recipe.

  python -m experiments.single_symmetry --raw_dir=path/to/files
  python -m experiments.single_symmetry --base=g_mnist --table=multiple \
    --num_seeds=3 --initializer=fan_in --fresh_order

Writes tables.csv (every child, by the paper's protocol and by an honest one)
and a picture of each table. A run that was stopped goes on when the same
command is given again. Half an hour for both tables of both bases.
"""

from collections.abc import Iterator
from collections.abc import Sequence

from absl import flags

from aen import io as io_lib
from aen.train import evaluate as evaluate_lib
from aen.train import store as store_lib
from experiments import launch
from experiments import mlp_figures
from experiments import mlp_results
from experiments import place_flags
from experiments import published_mlp
from experiments import training_flags
from experiments.published_mlp import Line

_CONFIGS = {
  'single': published_mlp.SINGLE,
  'multiple': published_mlp.MULTIPLE,
}
_BASE = flags.DEFINE_multi_enum(
  'base', published_mlp.BASES, published_mlp.BASES, 'Which images are moved.'
)
_TABLE = flags.DEFINE_multi_enum(
  'table', list(_CONFIGS), list(_CONFIGS), 'Which tables.'
)
_NUM_SEEDS = flags.DEFINE_integer(
  'num_seeds', 1, 'Children of each network.', lower_bound=1
)
_RUN_DIR = flags.DEFINE_string(
  'run_dir', 'runs/single_symmetry', 'Where everything is kept.'
)
launch.set_defaults(
  **{
    name: getattr(published_mlp.RECIPE, name)
    for name in ('epochs', 'initializer', 'fresh_order', 'criterion')
  }
)


def main(_: Sequence[str]) -> None:
  """Trains the tables, row by row, and lays them beside the paper's."""
  run_dir = io_lib.open_run(_RUN_DIR.value, {'experiment': 'single_symmetry'})
  lines: list[Line] = []
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    for base in _BASE.value:
      for kind in _TABLE.value:
        configs = _CONFIGS[kind]
        lines += measure(base, configs, store)
        published_mlp.add(run_dir / 'tables.csv', lines)
        ours = mlp_results.grid(lines, base, configs)
        paper = published_mlp.table(base, configs)
        print(f'{base}, {kind}: {mlp_results.compare(ours, paper)}', flush=True)
        if kind == 'single':
          print(mlp_results.diagonals(ours, paper), flush=True)
        picture = mlp_figures.tables(base, configs, ours)
        picture.savefig(run_dir / f'{base}_{kind}.png')
  print(f'wrote {run_dir}')


def measure(
  base: str, configs: Sequence[str], store: store_lib.Results
) -> Iterator[Line]:
  """Trains a table, unless the store knows it."""
  networks, seeds = published_mlp.NETWORKS, range(_NUM_SEEDS.value)
  recipe = training_flags.make_recipe(10000)
  with evaluate_lib.ProgressBar(
    base, len(configs) * len(networks) * len(seeds)
  ) as watch:
    for config in configs:
      judged = published_mlp.measure(
        f'{base}/{config}',
        networks,
        seeds,
        recipe,
        store,
        place_flags.places(),
        watch,
      )
      yield from (Line(child.symmetries or 'plain', child) for child in judged)


if __name__ == '__main__':
  launch.run(main)
