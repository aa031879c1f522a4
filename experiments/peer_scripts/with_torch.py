"""PyTorch without symmetry; AutoEquiv and the authors' code, from clones.

The argument is JSON: `kind`, one of dense, autoequiv, authors, repaired, and
`source`, the folder of the clone. `repaired` is the authors' code with its
index lists as tensors; as lists, they are converted in every step.
"""

import functools
import json
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


def dense():
  """Returns an MLP of the same widths."""
  n = [side**2 for side in worker.SIDES]
  return nn.Sequential(
    nn.Linear(n[0], n[1]),
    nn.ReLU(),
    nn.Linear(n[1], n[2]),
    nn.ReLU(),
    nn.Linear(n[2], 10),
  )


def cnn():
  """Returns a CNN with the channels of all group elements."""
  channels, hidden = 8 * worker.CNN['channels'], worker.CNN['dense']
  layers, before = [], 1
  for i in range(4):
    layers += [nn.Conv2d(before, channels, 3), nn.ReLU()]
    layers += [nn.MaxPool2d(2)] if i % 2 else []
    before = channels
  return nn.Sequential(
    *layers,
    nn.Flatten(),
    nn.Linear(channels * 16, hidden),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(hidden, 50),
    nn.Linear(50, 10),
  )


def rotation(side):
  """Returns rotation by 90° as a list."""
  return np.rot90(np.arange(side**2).reshape(side, side)).ravel().tolist()


def autoequiv():
  """Returns the MLP in AutoEquiv, and its constructions."""
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

  return network, {
    'construct one': lambda: ae.create_colored_matrix(turns[0], turns[1])
  }


def authors(repaired):
  """Returns the MLP in the authors' code, and its constructions."""
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
    return network, {}
  return network, {
    'construct one': lambda: construct(ROTATION),
    'construct twelve': lambda: construct([1] * 12),
  }


def main(kind, source):
  """Serves the tasks of one kind."""
  torch.set_num_threads(1)
  if source:
    sys.path.insert(0, str(pathlib.Path(source)))
  make, tasks = {
    'dense': lambda: (dense, {}),
    'autoequiv': autoequiv,
    'authors': lambda: authors(False),
    'repaired': lambda: authors(True),
  }[kind]()
  images = torch.rand(worker.BATCH, worker.SIDES[0] ** 2)
  ready = functools.cache(lambda: trainer(make(), images))

  def child():
    step = trainer(make(), images)
    for _ in range(worker.STEPS):
      step()

  tasks |= {'mlp step': lambda: ready()(), 'child': child}
  if kind == 'dense':
    squares = torch.rand(worker.CNN['batch'], 1, 28, 28)
    convolve = functools.cache(lambda: trainer(cnn(), squares))
    tasks['cnn step'] = lambda: convolve()()
  worker.serve(f'PyTorch {torch.__version__}', tasks)


if __name__ == '__main__':
  sys.setrecursionlimit(10**6)  # AutoEquiv recurses through orbits
  threading.stack_size(2**29)
  thread = threading.Thread(target=main, kwargs=json.loads(sys.argv[1]))
  thread.start()
  thread.join()
