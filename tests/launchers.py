"""Launchers, imported one at a time: each owns the process's absl flags."""

import importlib
import sys
import types

from absl import flags

import experiments


def load(name: str) -> types.ModuleType:
  """Imports `experiments.<name>` after taking back other launchers' flags."""
  for module in [m for m in sys.modules if m.startswith('experiments.')]:
    for flag in list(flags.FLAGS.flags_by_module_dict().get(module, ())):
      delattr(flags.FLAGS, flag.name)
    del sys.modules[module]
    vars(experiments).pop(module.removeprefix('experiments.'), None)
  module = importlib.import_module(f'experiments.{name}')
  flags.FLAGS([name])
  return module
