"""Search spaces: what a state of the search is, as a network to train."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from aen import symmetries as symmetries_lib
from aen.spaces.base import applicable
from aen.spaces.base import Space
from aen.spaces.gcnn import gcnn_space
from aen.spaces.gcnn import GCNNSpace
from aen.spaces.gcnn import LARGE
from aen.spaces.mlp import hidden_side
from aen.spaces.mlp import mlp_space
from aen.spaces.mlp import MLPSpace

# kind -> factory(symmetries=…, **the rest of the description)
KINDS: dict[str, Callable[..., Space]] = {'mlp': mlp_space, 'gcnn': gcnn_space}

__all__ = (
  'KINDS',
  'LARGE',
  'GCNNSpace',
  'MLPSpace',
  'Space',
  'applicable',
  'from_spec',
  'gcnn_space',
  'hidden_side',
  'mlp_space',
)


def from_spec(
  spec: Mapping[str, Any], symmetries: symmetries_lib.SymmetryLike = ()
) -> Space:
  """Makes a space that `spec` described; of MLPs if it names no kind.

  Args:
    spec: The description.
    symmetries: Those in its table that are not in `SYMMETRIES`.
  """
  own = {s.name: s for s in symmetries_lib.as_symmetries(symmetries)}
  known = {**symmetries_lib.SYMMETRIES, **own}
  if unknown := [name for name in spec['symmetries'] if name not in known]:
    raise ValueError(
      f'the symmetries {", ".join(unknown)} are not built in, and files hold'
      ' only their names; pass them in `symmetries`'
    )
  rest = dict(spec)
  kind, names = rest.pop('kind', 'mlp'), rest.pop('symmetries')
  actions = rest.pop('actions', None)
  space = KINDS[kind](symmetries=tuple(known[n] for n in names), **rest)
  for name, then, now in zip(
    names, actions or space.actions(), space.actions(), strict=True
  ):
    if then != now:
      raise ValueError(
        f'{name} is another symmetry now than it was in the search: it moves'
        ' the images otherwise; pass the function that the search had'
      )
  return space
