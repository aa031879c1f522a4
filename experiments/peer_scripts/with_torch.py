"""PyTorch, without symmetry and with escnn, AutoEquiv or the authors' code.

The argument is JSON: `kind`, one of dense, escnn, autoequiv, authors, repaired;
for the last three `source`, the folder of the clone; for escnn changes of
`worker.CNN`. `repaired` is the authors' code with its index lists as tensors;
lists are converted in every step. `experiments.conv_benchmark --escnn=PYTHON`
runs escnn too, with the Python of an environment with escnn and PyTorch.
"""

import functools
import importlib.metadata
import json
import math
import pathlib
import sys
import threading

import numpy as np
import torch
from torch import nn
import worker

ROTATION = [1] + [0] * 11  # among the authors' twelve symmetries
POINTS = [side**2 for side in worker.SIDES]


def trainer(network, images):
  """Returns a training step of a network."""
  optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9)
  labels = torch.arange(len(images)) % 10

  def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images), labels).backward()
    optimizer.step()

  return step


def of_mlp(make):
  """Returns the tasks of an MLP."""
  images = torch.rand(worker.BATCH, POINTS[0])

  def new():
    return trainer(make(), images)

  def child():
    step = new()
    for _ in range(worker.STEPS):
      step()

  return {'mlp step': worker.prepared(new), 'child': child}


def mlp(first, second):
  """Returns an MLP with two given hidden layers."""
  last = nn.Linear(POINTS[2], 10)
  return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


def of_cnn(features, batch, shape, channels, dense, group):
  """Returns the task of a CNN; `features` makes its layers and their width."""
  images = torch.rand(batch, shape[2], *shape[:2])

  def new():
    layers, width = features(shape[2], channels, group)
    area = math.prod(((side - 4) // 2 - 4) // 2 for side in shape[:2])
    network = nn.Sequential(
      *layers,
      nn.Flatten(),
      nn.Linear(width * area, dense),
      nn.ReLU(),
      nn.Dropout(0.5),
      nn.Linear(dense, 50),
      nn.Linear(50, 10),
    )
    return trainer(network, images)

  return {'cnn step': worker.prepared(new)}


def convolutions(conv, relu, pool, before, after):
  """Returns four convolutional layers, every second one with pooling."""
  layers = []
  for i in range(4):
    layers += [conv(before, after, 3), relu(after)]
    layers += [pool(after)] if i % 2 else []
    before = after
  return layers


def baseline():
  """An MLP of the same widths, and a CNN with |G| times the channels."""

  def dense():
    return mlp(nn.Linear(*POINTS[:2]), nn.Linear(*POINTS[1:]))

  def features(before, channels, group):
    del group
    after = 8 * channels
    relu, pool = (lambda _: nn.ReLU()), (lambda _: nn.MaxPool2d(2))
    return convolutions(nn.Conv2d, relu, pool, before, after), after

  return {**of_mlp(dense), **of_cnn(features, **worker.CNN)}


def escnn(**changes):
  """`aen.GroupCNN` with its head 'dense', in escnn."""
  from escnn import gspaces
  from escnn import nn as group_nn

  spaces = {
    'none': gspaces.trivialOnR2,
    'H2': gspaces.flip2dOnR2,
    'V2': gspaces.flip2dOnR2,
    'H2V2': lambda: gspaces.flipRot2dOnR2(2),
    'P4': lambda: gspaces.rot2dOnR2(4),
    'D4': lambda: gspaces.flipRot2dOnR2(4),
  }

  class Features(group_nn.SequentialModule):
    def forward(self, x):
      return super().forward(group_nn.GeometricTensor(x, self.in_type)).tensor

  def features(before, channels, group):
    space = spaces[group]()
    before = group_nn.FieldType(space, before * [space.trivial_repr])
    after = group_nn.FieldType(space, channels * [space.regular_repr])
    pool = functools.partial(group_nn.PointwiseMaxPool, kernel_size=2)
    layers = convolutions(group_nn.R2Conv, group_nn.ReLU, pool, before, after)
    return [Features(*layers)], after.size

  return of_cnn(features, **{**worker.CNN, **changes})


def autoequiv():
  """The MLP in AutoEquiv, and its constructions."""
  import autoequiv as ae

  grids = [np.arange(side**2).reshape(side, side) for side in worker.SIDES]
  rotations = [[np.rot90(grid).ravel().tolist()] for grid in grids]

  def network():
    first = ae.LinearEquiv(*rotations[:2], 1, 1)
    second = ae.LinearEquiv(*rotations[1:], 1, 1)
    # Its layers have an axis of channels.
    return mlp(
      nn.Sequential(nn.Unflatten(1, (1, -1)), first),
      nn.Sequential(second, nn.Flatten()),
    )

  return of_mlp(network) | {
    'construct one': lambda: ae.create_colored_matrix(*rotations[:2])
  }


def authors(repaired=False):
  """The MLP in the authors' code, and its constructions."""
  import equivariance_functions
  import equivariance_search_utilities as utilities

  def network():
    made = utilities.get_equivariant_network([*POINTS, 10], ROTATION)
    if repaired:
      made.eq_indices = [torch.tensor(index) for index in made.eq_indices]
    return made

  def construct(choices):
    index = list(range(POINTS[0] * POINTS[1]))
    equivariance_functions.get_G_list_equivariance_indices_graph(
      *worker.SIDES[:2], choices, index
    )

  tasks = of_mlp(network)
  if not repaired:  # the repair concerns only the step
    tasks['construct one'] = functools.partial(construct, ROTATION)
    tasks['construct twelve'] = functools.partial(construct, [1] * 12)
  return tasks


KINDS = {
  'dense': baseline,
  'escnn': escnn,
  'autoequiv': autoequiv,
  'authors': authors,
  'repaired': functools.partial(authors, repaired=True),
}


def main(kind, source='', **changes):
  """Serves the tasks of one kind."""
  torch.set_num_threads(1)
  if source:
    sys.path.insert(0, str(pathlib.Path(source)))
  tasks, version = KINDS[kind](**changes), f'PyTorch {torch.__version__}'
  if kind == 'escnn':
    version = f'escnn {importlib.metadata.version("escnn")}, {version}'
  worker.serve(version, tasks)


if __name__ == '__main__':
  sys.setrecursionlimit(10**6)  # AutoEquiv recurses through orbits
  threading.stack_size(2**29)
  thread = threading.Thread(target=main, kwargs=json.loads(sys.argv[1]))
  thread.start()
  thread.join()
