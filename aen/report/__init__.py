"""The report of a search: one HTML page, and its figures.

Every figure is a `matplotlib.figure.Figure` without global state, so that it
can be drawn in threads and shown in notebooks. The names below load when they
are first used.
"""

import importlib
from typing import Any

# If it is missing, `from aen import report` says what to install.
import matplotlib  # noqa: F401

_HOMES = {
  'charts': (
    'frequencies',
    'search_curve',
    'top_networks',
    'weights_against_accuracy',
  ),
  'diagram': ('lattice_diagram',),
  'images': ('kernel_images', 'sample_images', 'transformed_images'),
  'page': ('write',),
  'patterns': ('orbit_grid', 'sharing_graph', 'sharing_matrix'),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = tuple(_HOME)


def __getattr__(name: str) -> Any:
  if name not in _HOME:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  module = importlib.import_module(f'{__name__}.{_HOME[name]}')
  return getattr(module, name)


def __dir__() -> list[str]:
  return sorted(__all__)
