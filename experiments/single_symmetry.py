r"""The paper's tables of networks with one symmetry, beside ours.

The network without symmetry and the twelve with one, each on images that were
moved by one symmetry ('single': 13 data sets) and by several ('multiple': Aug0
to Aug5), trained on 10 000 images for ten epochs by the published recipe.

  python -m experiments.single_symmetry --raw_dir=path/to/files
  python -m experiments.single_symmetry --base=g_mnist --table=multiple \
    --num_seeds=3 --initializer=fan_in --fresh_order

Writes children.csv (every child, by the paper's protocol and by an honest one)
and a picture of each table. A run that was stopped goes on when the same
command is given again. Half an hour for both tables of both bases.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import csv
import dataclasses
import pathlib

from absl import flags
from matplotlib import figure
import numpy as np

from aen import evaluation
from aen import files
from aen import results
from aen import runs
from aen import tables
from aen.report import style
from experiments import launch
from experiments import place_flags
from experiments import published_mlp
from experiments import training_flags

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
  run_dir = runs.open_run(_RUN_DIR.value, {'experiment': 'single_symmetry'})
  children = []
  with launch.resumable(), results.Results(run_dir / 'results.sqlite') as memo:
    for base in _BASE.value:
      for kind in _TABLE.value:
        rows = [*measure(base, _CONFIGS[kind], memo)]
        children += rows
        write(run_dir / 'children.csv', children)
        print(f'{base}, {kind}: {compare(base, kind, rows)}', flush=True)
        picture = draw(base, kind, rows)
        picture.savefig(run_dir / f'{base}_{kind}.png')
  print(f'wrote {run_dir}')


def measure(
  base: str, configs: Sequence[str], memo: results.Results
) -> Iterator[tables.Judged]:
  """Trains a table, unless the memo knows it."""
  networks, seeds = published_mlp.NETWORKS, range(_NUM_SEEDS.value)
  recipe = training_flags.make_recipe(10000)
  with evaluation.Watch(
    base, len(configs) * len(networks) * len(seeds)
  ) as watch:
    for config in configs:
      yield from published_mlp.measure(
        f'{base}/{config}',
        networks,
        seeds,
        recipe,
        memo,
        place_flags.places(),
        watch,
      )


def write(path: pathlib.Path, rows: Sequence[tables.Judged]) -> None:
  """Writes one line per child."""
  names = [field.name for field in dataclasses.fields(tables.Judged)]
  with files.written_text(path) as file:
    writer = csv.DictWriter(file, names, lineterminator='\n')
    writer.writeheader()
    writer.writerows(dataclasses.asdict(row) for row in rows)


def compare(base: str, kind: str, rows: Sequence[tables.Judged]) -> str:
  """Says how near the paper we are, and whether the diagonal stands out."""
  ours, paper = _ours(rows), published_mlp.table(base, _CONFIGS[kind])
  words = [
    f'{ours.size} cells, mean absolute difference from the paper'
    f' {np.abs(ours - paper).mean():.2f} points, mean difference'
    f' {(ours - paper).mean():+.2f}'
  ]
  if kind == 'single':
    for name, values in (('paper', paper), ('ours', ours)):
      words.append(
        f'{name}: the diagonal of bits 6 to 12 has p ='
        f' {published_mlp.diagonal_p(values):.4f}'
      )
    literal = published_mlp.diagonal_p(published_mlp.literally(paper))
    words.append(
      f'with the columns as the paper prints them, p = {literal:.4f}'
    )
  return '; '.join(words)


def _ours(rows: Sequence[tables.Judged]) -> np.ndarray:
  """Returns the mean over seeds, paper's protocol, in percent. [rows, 13]."""
  values = np.array([row.published for row in rows])
  return 100 * values.reshape(-1, 13, _NUM_SEEDS.value).mean(axis=-1)


def draw(base: str, kind: str, rows: Sequence[tables.Judged]) -> figure.Figure:
  """Draws the paper's table and ours, double-centred, side by side."""
  configs = _CONFIGS[kind]
  drawn = style.sheet(9.5, 1.9 + 0.24 * len(configs))
  both = published_mlp.table(base, configs), _ours(rows)
  axes = drawn.subplots(1, 2, sharey=True)
  names = [names[0] if names else 'none' for names in published_mlp.NETWORKS]
  for ax, title, values in zip(axes, ('Paper', 'Ours'), both, strict=True):
    image = ax.imshow(
      published_mlp.double_centred(values),
      cmap=style.DIVERGING,
      vmin=-5,
      vmax=5,
      aspect='auto',
    )
    style.tidy(ax, f'{title}: {base}', "network's symmetry", '')
    ax.set_xticks(range(13), names, rotation=90)
    ax.set_yticks(range(len(configs)), configs)
  bar = drawn.colorbar(image, ax=axes, shrink=0.8, extend='both')
  bar.set_label('points above row and column', fontsize=style.MEDIUM)
  return drawn


if __name__ == '__main__':
  launch.run(main)
