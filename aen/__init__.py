"""Autoequivariant networks: find symmetries in data, build networks with them.

The names below load when they are first used, so `import aen` is light.
"""

import importlib
from typing import Any

# These two functions have the names of their modules. Binding them here, once
# and early, keeps `aen.orbits` and `aen.lattice` the functions; inside the
# package, write `from aen.orbits import join`.
from aen.lattice import lattice
from aen.orbits import orbits

__version__ = '0.1.0'

_HOMES = {
  'files': (),
  'checks': (),
  'symmetries': ('Symmetry', 'SYMMETRIES', 'group'),
  'orbits': ('permutation', 'pair', 'join', 'alg1', 'alg2'),
  'sharing': ('Sharing', 'dense_sharing', 'conv_sharing'),
  'lattice': ('Lattice', 'distinct_networks'),
  'landscapes': ('Landscape',),
  'testing': ('assert_equivariant',),
  'layers': ('EquivariantDense', 'shared_dense'),
  'windows': (),
  'convolutions': ('EquivariantConv', 'shared_conv'),
  'pooling': ('group_pool', 'spatial_pool'),
  'conversions': ('expand', 'sharing_variables', 'to_dense'),
  'networks': ('EquivariantMLP',),
  'group_cnn': ('GroupCNN',),
  'datasets': ('load_dataset',),
  'augmentations': ('AUGMENTATIONS', 'augment', 'augmentation_mask'),
  'recipes': ('Recipe',),
  'children': ('train_child', 'train_children'),
  'spaces': (),
  'rewards': (),
  'environment': (),
  'replay': (),
  'dqn': (),
  'strategies': (),
  'results': ('Results',),
  'scoring': (),
  'evaluation': (),
  'outcome': ('SearchResult',),
  'runs': (),
  'survey': (),
  'tables': (),
  'exploration': ('SearchConfig',),
  'search': ('discover',),
  'report': (),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ('__version__', 'lattice', 'orbits', *_HOME)


def __getattr__(name: str) -> Any:
  if name in _HOMES:
    return _module(name)
  if name not in _HOME:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  value = getattr(_module(_HOME[name]), name)
  globals()[name] = value
  return value


def _module(name: str) -> Any:
  try:
    return importlib.import_module(f'aen.{name}')
  except ModuleNotFoundError as error:
    if str(error.name).startswith('aen'):
      raise
    raise ModuleNotFoundError(
      f'aen.{name} needs {error.name}; pip install "aen[search]", or'
      ' "aen[dev]" for everything',
      name=error.name,
    ) from error


def __dir__() -> list[str]:
  return sorted(__all__)
