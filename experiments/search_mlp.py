r"""Searches for the symmetries that a network for given images should have.

On the built-in handwritten digits, rotated, flipped and scrambled (two minutes
on two cores; prints the network found, its gain in test accuracy with an
interval, and where the report is):
  python -m experiments.search_mlp
The paper's search on real images, with its Q-network instead of a smaller one
(eight minutes):
  python -m experiments.search_mlp --dataset=g_mnist/aug5 --size=search \
    --head=dense --criterion=accuracy --q_hidden_sizes=400,400,400 \
    --q_batch_size=512
On your own images, as an .npz file or a folder of class-named folders:
  python -m experiments.search_mlp --dataset=path/to/images

The same command resumes an interrupted search.
"""

from aen.search import mlp_space
from experiments import flags
from experiments import launch
from experiments import searching

_SEARCH = searching.Search(
  flags.Data(), flags.networks(), q_hidden_sizes=(64, 64), q_batch_size=64
)


def main(_: list[str]) -> None:
  """Searches, writes the report and prints the verdict."""
  _SEARCH.run('search_mlp', mlp_space.mlp_space)


if __name__ == '__main__':
  launch.run(main)
