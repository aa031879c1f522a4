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
  'symmetries': ('Symmetry', 'SYMMETRIES', 'group'),
  'orbits': ('permutation', 'pair', 'join', 'alg1', 'alg2'),
  'sharing': ('Sharing', 'dense_sharing', 'conv_sharing'),
  'lattice': ('Lattice', 'distinct_networks'),
  'landscapes': ('Landscape',),
  'testing': ('assert_equivariant',),
  'layers': ('EquivariantDense', 'shared_dense'),
  'convolutions': ('EquivariantConv', 'shared_conv'),
  'pooling': ('group_pool', 'spatial_pool'),
  'conversions': ('expand', 'sharing_variables', 'to_dense'),
  'networks': ('EquivariantMLP',),
  'group_cnn': ('GroupCNN',),
  'datasets': ('load_dataset',),
  'augmentations': ('AUGMENTATIONS', 'augment', 'augmentation_mask'),
  'recipes': ('Recipe',),
  'children': ('train_child', 'train_children'),
  'rewards': (),
  'environment': (),
  'replay': (),
  'dqn': (),
  'strategies': (),
  'results': ('Results',),
  'outcome': ('SearchResult',),
  'exploration': ('SearchConfig',),
  'search': ('discover',),
  'report': (),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ('__version__', 'lattice', 'orbits', *_HOME)


def __getattr__(name: str) -> Any:
  if name in _HOMES:
    return importlib.import_module(f'aen.{name}')
  if name not in _HOME:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  value = getattr(importlib.import_module(f'aen.{_HOME[name]}'), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted(__all__)
