r"""Trains every distinct network of a set of symmetries: a landscape.

Writes validation and test accuracies of every network, seed and epoch to a .npz
file with a checksum, which `aen.search.landscape.load` reads, and every child
to a CSV file. On digits, two to three minutes on two cores:
  python -m experiments.landscape --dataset=g_digits/aug2
The paper's children on real images (eight minutes for three seeds):
  python -m experiments.landscape --dataset=g_mnist/aug5 --size=search \
    --num_test=2000 --epochs=4 --head=dense --criterion=accuracy

The same command resumes an interrupted run.
"""

import aen
from aen.search import landscape as landscape_lib
from aen.search import mlp_space
from aen.train import store as store_lib
from experiments import flags
from experiments import launch

_DATA = flags.Data()
_NETWORKS = flags.networks()
_RECIPE = flags.recipe()
_WORKERS = flags.workers()
_CHILDREN = flags.from_fields(
  aen.SearchConfig, only=('num_seeds', 'children_per_batch'), num_seeds=3
)


def main(_: list[str]) -> None:
  """Trains the landscape that the flags describe, and writes it."""
  run_dir, data = _DATA.run_dir('landscape'), _DATA.load()
  children, workers = _CHILDREN(), _WORKERS()
  with launch.resumable():
    landscape = landscape_lib.train_landscape(
      data,
      mlp_space.mlp_space(data.image_shape, data.num_classes, **_NETWORKS()),
      _RECIPE(len(data.train)),
      range(children['num_seeds']),
      run_dir,
      children_per_batch=children['children_per_batch'],
      executor=workers,
    )
  landscape.save(run_dir / 'landscape.npz')
  with store_lib.Results(run_dir / 'results.sqlite') as store:
    store.export_csv(run_dir / 'children.csv')
  print(f'{landscape!r}\nwrote {run_dir / "landscape.npz"}')


if __name__ == '__main__':
  launch.run(main)
