r"""Trains every distinct network of a symmetry table: a landscape.

Every network, several seeds, all epochs, validation and test kept apart, in one
small .npz file with a checksum (`aen.search.landscape.load` reads it) and a CSV
file of every child. A run that was stopped goes on where it was.

  python -m experiments.landscape --dataset=g_digits/aug2
The paper's children on real images (eight minutes for three seeds):
  python -m experiments.landscape --dataset=g_mnist/aug5 --size=search \
    --num_test=2000 --epochs=4 --head=dense --criterion=accuracy
"""

from collections.abc import Sequence
import pathlib

from absl import flags

from aen.search import landscape as landscape_lib
from aen.train import store as store_lib
from experiments import data_flags
from experiments import launch
from experiments import mlp_flags
from experiments import training_flags

_SEEDS = flags.DEFINE_integer(
  'num_seeds', 3, 'Children per network.', lower_bound=1
)


def main(_: Sequence[str]) -> None:
  """Trains the landscape that the flags describe, and writes it."""
  run_dir = pathlib.Path(data_flags.run_dir('landscape'))
  data = data_flags.load_data()
  with launch.resumable():
    landscape = landscape_lib.train_landscape(
      data,
      mlp_flags.make_space(data),
      training_flags.make_recipe(len(data.train)),
      seeds=range(_SEEDS.value),
      run_dir=run_dir,
      children_per_batch=training_flags.children_per_batch(),
    )
  landscape.save(run_dir / 'landscape.npz')
  with store_lib.Results(run_dir / 'results.sqlite') as store:
    store.export_csv(run_dir / 'children.csv')
  print(f'{landscape!r}\nwrote {run_dir / "landscape.npz"}')


if __name__ == '__main__':
  launch.run(main)
