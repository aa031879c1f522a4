"""PyTorch, without symmetry and with escnn, AutoEquiv or the authors' code.

The argument is JSON: `kind`, one of dense, escnn, autoequiv, authors, repaired,
and of the last three `source`, the folder of the clone. `repaired` is the
authors' code with its index lists as tensors; as lists, they are converted in
every step. Of escnn also what differs from `worker.CNN`; it is run by
`experiments.conv_benchmark --escnn=PYTHON` too, with the Python of an
environment that has escnn and PyTorch.
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

ROTATION = [1] + [0] * 11  # of the authors' twelve


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
  images = torch.rand(worker.BATCH, worker.SIDES[0] ** 2)
  ready = functools.cache(lambda: trainer(make(), images))

  def child():
    step = trainer(make(), images)
    for _ in range(worker.STEPS):
      step()

  return {'mlp step': lambda: ready()(), 'child': child}


def of_cnn(make, batch, shape, channels, dense, **options):
  """Returns the task of a CNN; `make` returns its layers and their width."""
  images = torch.rand(batch, shape[2], *shape[:2])

  def network():
    layers, width = make(shape, channels, **options)
    area = math.prod(((side - 4) // 2 - 4) // 2 for side in shape[:2])
    return nn.Sequential(
      *layers,
      nn.Flatten(),
      nn.Linear(width * area, dense),
      nn.ReLU(),
      nn.Dropout(0.5),
      nn.Linear(dense, 50),
      nn.Linear(50, 10),
    )

  ready = functools.cache(lambda: trainer(network(), images))
  return {'cnn step': lambda: ready()()}


def plain():
  """An MLP of the same widths, a CNN with the channels of all elements."""
  n = [side**2 for side in worker.SIDES]

  def mlp():
    return nn.Sequential(
      nn.Linear(n[0], n[1]),
      nn.ReLU(),
      nn.Linear(n[1], n[2]),
      nn.ReLU(),
      nn.Linear(n[2], 10),
    )

  def cnn(shape, channels, group):
    del group
    layers, before, channels = [], shape[2], 8 * channels
    for i in range(4):
      layers += [nn.Conv2d(before, channels, 3), nn.ReLU()]
      layers += [nn.MaxPool2d(2)] if i % 2 else []
      before = channels
    return layers, channels

  return {**of_mlp(mlp), **of_cnn(cnn, **worker.CNN)}


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

  def cnn(shape, channels, group):
    space = spaces[group]()
    before = group_nn.FieldType(space, shape[2] * [space.trivial_repr])
    hidden = group_nn.FieldType(space, channels * [space.regular_repr])
    layers = []
    for i in range(4):
      layers += [group_nn.R2Conv(before, hidden, 3), group_nn.ReLU(hidden)]
      layers += [group_nn.PointwiseMaxPool(hidden, 2)] if i % 2 else []
      before = hidden
    return [Features(*layers)], hidden.size

  return of_cnn(cnn, **{**worker.CNN, **changes})


def rotation(side):
  """Returns rotation by 90° as a list."""
  return np.rot90(np.arange(side**2).reshape(side, side)).ravel().tolist()


def autoequiv():
  """The MLP in AutoEquiv, and its constructions."""
  import autoequiv as ae

  turns = [[rotation(side)] for side in worker.SIDES]

  def network():
    return nn.Sequential(
      nn.Unflatten(1, (1, -1)),
      ae.LinearEquiv(turns[0], turns[1], 1, 1),
      nn.ReLU(),
      ae.LinearEquiv(turns[1], turns[2], 1, 1),
      nn.ReLU(),
      nn.Flatten(),
      nn.Linear(worker.SIDES[2] ** 2, 10),
    )

  return of_mlp(network) | {
    'construct one': lambda: ae.create_colored_matrix(turns[0], turns[1])
  }


def authors(repaired=False):
  """The MLP in the authors' code, and its constructions."""
  import equivariance_functions
  import equivariance_search_utilities as utilities

  points = [side**2 for side in worker.SIDES]

  def network():
    made = utilities.get_equivariant_network([*points, 10], ROTATION)
    if repaired:
      made.eq_indices = [torch.tensor(index) for index in made.eq_indices]
    return made

  def construct(choices):
    index = list(range(points[0] * points[1]))
    equivariance_functions.get_G_list_equivariance_indices_graph(
      *worker.SIDES[:2], choices, index
    )

  if repaired:  # what is repaired is the step alone
    return of_mlp(network)
  return of_mlp(network) | {
    'construct one': lambda: construct(ROTATION),
    'construct twelve': lambda: construct([1] * 12),
  }


KINDS = {
  'dense': plain,
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
