"""Training steps of the paper's G-CNN in escnn, on demand.

Run by `experiments.conv_benchmark --escnn=PYTHON` with the Python of an
environment that has escnn and PyTorch, and by `experiments.peers`; `aen` needs
neither. The argument is JSON: group, shape (height, width, channels), batch,
channels, dense, where they differ from `worker.CNN`.
"""

import functools
import importlib.metadata
import json
import sys

from escnn import gspaces
from escnn import nn
import torch
import with_torch
import worker

SPACES = {
  'none': gspaces.trivialOnR2,
  'H2': gspaces.flip2dOnR2,
  'V2': gspaces.flip2dOnR2,
  'H2V2': lambda: gspaces.flipRot2dOnR2(2),
  'P4': lambda: gspaces.rot2dOnR2(4),
  'D4': lambda: gspaces.flipRot2dOnR2(4),
}


class Network(torch.nn.Module):
  """As `aen.GroupCNN` with its head 'dense'."""

  def __init__(self, group, shape, channels, dense):
    """Makes the layers for images of a shape."""
    super().__init__()
    space = SPACES[group]()
    self.images = nn.FieldType(space, shape[2] * [space.trivial_repr])
    hidden = nn.FieldType(space, channels * [space.regular_repr])
    layers, before = [], self.images
    for i in range(4):
      layers += [nn.R2Conv(before, hidden, 3), nn.ReLU(hidden)]
      if i % 2:
        layers.append(nn.PointwiseMaxPool(hidden, 2))
      before = hidden
    self.features = nn.SequentialModule(*layers)
    height, width = (((side - 4) // 2 - 4) // 2 for side in shape[:2])
    self.head = torch.nn.Sequential(
      torch.nn.Linear(hidden.size * height * width, dense),
      torch.nn.ReLU(),
      torch.nn.Dropout(0.5),
      torch.nn.Linear(dense, 50),
      torch.nn.Linear(50, 10),
    )

  def forward(self, x):
    """Maps x [B, C, H, W] to logits [B, 10]."""
    features = self.features(nn.GeometricTensor(x, self.images)).tensor
    return self.head(features.flatten(1))


def main(spec):
  """Serves training steps, in one thread."""
  torch.set_num_threads(1)
  batch, shape = spec.pop('batch'), spec['shape']
  images = torch.rand(batch, shape[2], *shape[:2])
  ready = functools.cache(lambda: with_torch.trainer(Network(**spec), images))
  version = importlib.metadata.version('escnn')
  worker.serve(
    f'escnn {version}, PyTorch {torch.__version__}',
    {'cnn step': lambda: ready()()},
  )


if __name__ == '__main__':
  main({**worker.CNN, **json.loads(sys.argv[1])})
