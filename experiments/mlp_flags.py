"""Flags of all experiments with MLPs: which networks."""

from absl import flags

from aen.data import dataset as dataset_lib
from aen.search import mlp_space
from experiments import network_flags

_FEATURES = flags.DEFINE_integer(
  'features',
  None,
  'Channels at each hidden point; by default none on grey images of a fair'
  ' size.',
  lower_bound=1,
)


def make_space(data: dataset_lib.Dataset) -> mlp_space.MLPSpace:
  """Returns the networks that the flags describe."""
  return mlp_space.mlp_space(
    data.image_shape,
    data.num_classes,
    network_flags.symmetries(),
    features=_FEATURES.value,
    head=network_flags.head(),
  )
