"""Flags of all experiments with equivariant networks: what they may be."""

import importlib

from absl import flags

import aen
from aen.nn import mlp as mlp_lib

_SYMMETRIES = flags.DEFINE_list(
  'symmetries',
  None,
  'The symmetries to choose among, separated by commas; by default all that can'
  f' act on the images, of {", ".join(aen.SYMMETRIES)} (convolutions: of the'
  ' first three). Your own are written module.function, as numpy.transpose.',
)
_HEAD = flags.DEFINE_enum(
  'head',
  'invariant',
  mlp_lib.HEADS,
  'The last layer: invariant (the answer does not change when the image is'
  ' moved) or dense (as in the paper).',
)


def head() -> str:
  """Returns the kind of the last layer."""
  return _HEAD.value


def symmetries() -> list[aen.Symmetry | str] | None:
  """Returns the symmetries to choose among; None for the default."""
  if _SYMMETRIES.value is None:
    return None
  return [_symmetry(word) for word in _SYMMETRIES.value]


def _symmetry(word: str) -> aen.Symmetry | str:
  """Returns a name as it is, and `module.function` as that function."""
  module, _, name = word.rpartition('.')
  if not module:
    return word
  function = getattr(importlib.import_module(module), name, None)
  if not callable(function):
    raise ValueError(
      f'--symmetries: {module} has no function {name!r}; write module.function,'
      ' such as numpy.transpose'
    )
  return aen.Symmetry(word, function)
