"""Flags of all experiments with MLPs: which networks."""

from absl import flags

from aen import datasets
from aen import spaces
from experiments import network_flags

_FEATURES = flags.DEFINE_integer(
  'features',
  None,
  'Channels at each hidden point; by default none on grey images of a fair'
  ' size.',
  lower_bound=1,
)


def make_space(data: datasets.Dataset) -> spaces.MLPSpace:
  """Returns the networks that the flags describe."""
  return spaces.mlp_space(
    data.image_shape,
    data.num_classes,
    network_flags.symmetries(),
    features=_FEATURES.value,
    head=network_flags.head(),
  )
