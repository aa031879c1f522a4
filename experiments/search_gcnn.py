r"""Searches for the symmetries and augmentations that a CNN should have.

A state says which of the quarter turn and the two flips the group convolutions
respect, which of six augmentations the training images get, and whether the
network is small or large. On handwritten digits, a short search of 24 states
(most of its time goes into compiling up to eight programs, twice):
  python -m experiments.search_gcnn
The paper's search on real images; 600 states, the best four retrained:
  python -m experiments.search_gcnn --dataset=kmnist --optimizer=sgd \
    --batch_size=32 --criterion=accuracy --models_per_epsilon=50 \
    --q_batch_size=128
On your own images, with a symmetry of your own:
  python -m experiments.search_gcnn --dataset=path/to/images \
    --symmetries=rotation,numpy.transpose

A search that was stopped goes on when the same command is given again.
"""

from collections.abc import Sequence

from aen.data import dataset as dataset_lib
from aen.search import gcnn_space
from experiments import launch
from experiments import network_flags
from experiments import search_flags

SEARCH_IMAGES = 6000  # as in the paper

launch.set_defaults(
  dataset='digits',
  head='dense',
  epochs=4,
  strategy='dqn',
  epsilons=[
    *('1', '0.9', '0.8', '0.7', '0.6', '0.5'),
    *('0.4', '0.3', '0.2', '0.1', '0.05', '0.01'),
  ],
  models_per_epsilon=['2'],
  q_batch_size=16,
  episode_length=50,
  top=4,
  retrain_seeds=2,
)


def main(_: Sequence[str]) -> None:
  """Searches, reports, and says what was found."""
  search_flags.run('search_gcnn', make_space, SEARCH_IMAGES)


def make_space(data: dataset_lib.Dataset) -> gcnn_space.GCNNSpace:
  """Returns the networks that the flags describe."""
  return gcnn_space.gcnn_space(
    data.image_shape,
    data.num_classes,
    network_flags.symmetries(),
    head=network_flags.head(),
  )


if __name__ == '__main__':
  launch.run(main)
