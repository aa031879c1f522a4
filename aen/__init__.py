"""Autoequivariant networks: find symmetries in data, build networks with them.

Names are imported on first use, so `import aen` is fast.
"""

import importlib
from typing import Any

__version__ = '0.1.0'

# A module imports only from its own package and those before it in this list,
# as `tests/layering_test.py` checks.
_ROOMS = ('io', 'groups', 'nn', 'data', 'train', 'search', 'report', '__main__')
_HOMES = {
  'groups.symmetries': ('Symmetry', 'SYMMETRIES', 'permutation'),
  'groups.point_group': ('group',),
  'groups.orbits': ('pair', 'orbits', 'join'),
  'groups.sharing': ('Sharing', 'dense_sharing', 'conv_sharing'),
  'groups.lattice': ('Lattice', 'distinct_networks', 'lattice'),
  'groups.paper': ('alg1', 'alg2'),
  'nn.testing': ('assert_equivariant',),
  'nn.dense': ('EquivariantDense', 'shared_dense'),
  'nn.conv': ('EquivariantConv', 'shared_conv'),
  'nn.pooling': ('group_pool', 'spatial_pool'),
  'nn.convert': ('expand', 'sharing_variables', 'to_dense'),
  'nn.mlp': ('EquivariantMLP',),
  'nn.group_cnn': ('GroupCNN',),
  'nn.export': ('export',),
  'data.load': ('load_dataset',),
  'train.augment': ('AUGMENTATIONS', 'augment', 'augmentation_mask'),
  'train.recipe': ('Recipe',),
  'train.child': ('train_child', 'train_children'),
  'train.store': ('Results',),
  'search.screen': ('screen',),
  'search.landscape': ('Landscape',),
  'search.result': ('SearchResult',),
  'search.explore': ('SearchConfig',),
  'search.search': ('discover',),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ('__version__', *_HOME)


def __getattr__(name: str) -> Any:
  if name in _ROOMS:
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
