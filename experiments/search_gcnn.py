r"""Searches for the symmetries and augmentations that a CNN should have.

A state says which of rotation by 90° and the two flips the group convolutions
are equivariant to, which of six augmentations are applied to training images,
and whether the network is small or large. On handwritten digits, a short search
of 24 states (five to ten minutes on two cores, most of it for compiling up to
eight programs, twice; finds that none is needed):
  python -m experiments.search_gcnn
The paper's search on real images; 600 states, the best four retrained (on
7000 images of KMNIST a state takes a minute or two):
  python -m experiments.search_gcnn --dataset=kmnist --optimizer=sgd \
    --batch_size=32 --criterion=accuracy --models_per_epsilon=50 \
    --q_batch_size=128
On your own images, with a symmetry of your own:
  python -m experiments.search_gcnn --dataset=path/to/images \
    --symmetries=rotation,numpy:transpose

The same command resumes an interrupted search.
"""

from aen.search import gcnn_space
from experiments import flags
from experiments import launch
from experiments import searching

_SEARCH = searching.Search(
  flags.Data(dataset='digits'),
  flags.networks(head='dense', exclude=('features',)),
  epochs=4,
  epsilons=(1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01),
  models_per_epsilon=(2,),
  q_batch_size=16,
  episode_length=50,
  top=4,
  retrain_seeds=2,
)
SEARCH_IMAGES = 6000  # as in the paper


def main(_: list[str]) -> None:
  """Searches, writes the report and prints the verdict."""
  _SEARCH.run('search_gcnn', gcnn_space.gcnn_space, SEARCH_IMAGES)


if __name__ == '__main__':
  launch.run(main)
