r"""Searches for the symmetries that a network for some images should have.

On handwritten digits that were turned, flipped and scrambled, which are part of
the installation (two minutes on two cores):
  python -m experiments.search_mlp
The paper's search on real images, with its Q-network (by default a smaller
one):
  python -m experiments.search_mlp --dataset=g_mnist/aug5 --size=search \
    --head=dense --criterion=accuracy --q_hidden_sizes=400,400,400 \
    --q_batch_size=512
On your own images, as an .npz file or a folder of class-named folders:
  python -m experiments.search_mlp --dataset=path/to/images

A search that was stopped goes on when the same command is given again.
"""

from collections.abc import Sequence

from experiments import launch
from experiments import mlp_flags
from experiments import search_flags

launch.set_defaults(q_hidden_sizes=['64', '64'], q_batch_size=64)


def main(_: Sequence[str]) -> None:
  """Searches, reports, and says what was found."""
  search_flags.run('search_mlp', mlp_flags.make_space)


if __name__ == '__main__':
  launch.run(main)
