"""The data card of the landscapes: what is in the file, and how to read it."""

from collections.abc import Iterator
import hashlib
import pathlib

import numpy as np

from aen.search import landscape as landscape_lib
from experiments import markdown

VERSION = 1
LOADER = """\
import numpy as np

tables = dict(np.load('landscapes.npz'))
bits = {name: 1 << k for k, name in enumerate(tables['symmetries'].tolist())}
dataset = tables['name'].tolist().index('g_mnist/aug5')
network = tables['index'][bits['rotation'] | bits['vertical_flip']]
validation = tables['validation'][dataset, network]  # [seeds, epochs]
test = tables['test'][dataset, network]
best = validation.argmax(axis=1)  # the epoch that is best in validation
print(test[np.arange(len(best)), best].mean())"""


def lines(path: pathlib.Path) -> Iterator[str]:
  """Yields the card of a file of landscapes."""
  found = landscape_lib.load_all(path)
  first = next(iter(found.values()))
  networks, seeds, epochs = first.validation.shape
  children = len(found) * networks * seeds
  hours = sum(each.seconds.sum() for each in found.values()) / 3600
  digest = hashlib.sha256(path.read_bytes()).hexdigest()
  yield f'# Landscapes of equivariant MLPs, version {VERSION}'
  yield ''
  yield (
    'What every distinct network of the twelve symmetries is worth on'
    f' {len(found)} data sets: {networks} networks × {seeds} seeds × {epochs}'
    f' epochs, validation and test apart ({children} networks trained,'
    f' {hours:.1f} hours of training). With it a search for symmetries is a'
    ' lookup, so that strategies can be compared in seconds, with error bars.'
  )
  yield ''
  yield from markdown.table(
    ['file', 'bytes', 'SHA-256'],
    [[f'`{path.name}`', str(path.stat().st_size), f'`{digest}`']],
  )
  yield ''
  yield 'Reading it takes NumPy and nothing else:'
  yield ''
  yield '```python'
  yield from LOADER.splitlines()
  yield '```'
  yield ''
  yield (
    '`aen.search.landscape.load_all` does the same, verifies the checksum'
    ' inside, and returns an `aen.Landscape` for each data set.'
  )
  yield ''
  yield '## What is in it'
  yield ''
  yield from markdown.table(['array', 'shape', 'meaning'], _arrays(path))
  yield ''
  yield '## How it was made'
  yield ''
  yield (
    'Data: G-MNIST and G-Fashion-MNIST as `aen` makes them (MNIST by LeCun,'
    ' Cortes and Burges; Fashion-MNIST by Xiao, Rasul and Vollgraf), the'
    ' configurations Aug0 to Aug5 of "Autoequivariant Network Search via Group'
    ' Decomposition": 4000 images to train on, 1000 others of the training part'
    ' to validate on, 2000 of the test part. Networks: 784 → 400 → 400 → 10,'
    ' the two hidden layers equivariant, the last one dense. Training: Adam,'
    ' learning rate 0.001, batches of 64, four epochs, kernels from'
    ' U(±1/√fan-in). A network whose training diverged would have accuracy 0'
    ' from there on.'
  )
  yield ''
  yield from markdown.command(
    'python -m experiments.reproduce --stage=landscapes --raw_dir=…'
  )
  yield ''
  yield '## What it is not for'
  yield ''
  yield (
    'The test images serve to judge what a search chose, not to choose. A'
    ' network is worth its mean over seeds; one seed tells networks apart only'
    f' to about a point (the s.d. over seeds is {_spread(found):.2f} points,'
    ' averaged over all networks). Four epochs favour networks that learn fast:'
    ' accuracies after ten epochs on 10 000 images are in `tables.csv` and'
    ' `networks.csv`. Seconds are of one machine.'
  )


def _spread(found: dict[str, landscape_lib.Landscape]) -> float:
  """Returns the mean s.d. over seeds of the last epoch's test accuracy."""
  spreads = [
    each.test[..., -1].std(axis=1, ddof=1) if len(each.seeds) > 1 else np.nan
    for each in found.values()
  ]
  return 100 * float(np.mean(spreads))


_MEANINGS = {
  'name': 'the data sets',
  'symmetries': 'the twelve symmetries; bit k of a state is the k-th',
  'index': 'the network of every state',
  'representatives': "each network's state with the fewest symmetries",
  'closures': 'the state of all symmetries that each network respects',
  'weights': 'the number of its free weights',
  'seeds': 'the seeds',
  'validation': 'accuracy after each epoch, 0 to 1: data set, network, seed',
  'test': 'the same on test images',
  'seconds': 'how long training took; of children side by side, their share',
  'sha256': "each data set's own checksum",
}


def _arrays(path: pathlib.Path) -> list[list[str]]:
  with np.load(path, allow_pickle=False) as stored:
    return [
      [f'`{name}`', ' × '.join(map(str, stored[name].shape)), meaning]
      for name, meaning in _MEANINGS.items()
    ]
