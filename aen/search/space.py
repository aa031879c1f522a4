"""What a search needs to know about the networks it chooses among.

A state is an integer whose bit k stands for the k-th choice. Many states are
the same network; a space numbers the networks and says, for each, which program
trains it and which data make that program this network.

Legend: K bits, 2^K states, R networks.
"""

import abc
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import hashlib
from inspect import stack
from typing import Any
import warnings

from flax import linen as nn
import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.groups.lattice import Lattice
from aen.groups.orbits import permutation


class Space(abc.ABC):
  """The networks that a search chooses among.

  Attributes:
    helper: What may help, in words, such as 'symmetry'.
    image_shape: (H, W) or (H, W, C).
    lattice: What implies what, if that is all there is to choose.
  """

  helper: str
  image_shape: tuple[int, ...]
  lattice: Lattice | None

  @property
  @abc.abstractmethod
  def symmetries(self) -> tuple[symmetries_lib.Symmetry, ...]:
    """The table of symmetries; the first of the bits."""

  @property
  @abc.abstractmethod
  def bits(self) -> tuple[str, ...]:
    """The names of the K choices."""

  @property
  @abc.abstractmethod
  def network_of(self) -> np.ndarray:
    """The network of every state, int32 [2^K]."""

  @property
  @abc.abstractmethod
  def shortest_states(self) -> np.ndarray:
    """Each network's shortest state, int32 [R]."""

  @abc.abstractmethod
  def names(self, network: int) -> tuple[str, ...]:
    """Returns the shortest names of a network."""

  @abc.abstractmethod
  def implied(self, network: int) -> tuple[str, ...]:
    """Returns the names that come with the shortest ones."""

  @abc.abstractmethod
  def key(self, network: int) -> str:
    """Returns a name that equal networks share, whatever their table."""

  @abc.abstractmethod
  def num_weights(self, network: int) -> int:
    """Returns the number of free weights."""

  @abc.abstractmethod
  def program(self, network: int) -> nn.Module:
    """Returns a model; networks with equal ones train in one program.

    It has the attribute `kernel_init`, which is replaced by the recipe's.
    """

  @abc.abstractmethod
  def inputs(self, network: int) -> Mapping[str, Any]:
    """Returns what makes the program this network: `train_child`'s index."""

  @abc.abstractmethod
  def model(self, network: int) -> nn.Module:
    """Returns the network as its users want it."""

  @abc.abstractmethod
  def unpad(self, network: int, params: Any) -> Any:
    """Returns the program's parameters as those of the model."""

  @abc.abstractmethod
  def spec(self) -> dict[str, Any]:
    """Returns what `from_spec` needs to make this space again, for JSON."""

  def actions(self) -> list[str]:
    """Returns, for each symmetry, a name for what it does to the images."""
    grid = self.image_shape[:2]
    return [
      hashlib.sha256(permutation(s, grid).tobytes()).hexdigest()[:12]
      for s in self.symmetries
    ]

  def baseline(self, network: int) -> int:
    """Returns the network without anything that may help, to compare with."""
    del network
    return 0

  def network(self, names: Iterable[str]) -> int:
    """Returns the network of some choices, by the names of their bits."""
    names = set(names)
    if unknown := sorted(names.difference(self.bits)):
      raise ValueError(
        f'there is no choice {unknown[0]!r}, but: {", ".join(self.bits)}'
      )
    return int(
      self.network_of[sum(1 << self.bits.index(name) for name in names)]
    )

  def __len__(self) -> int:
    return len(self.shortest_states)


def default_table(
  grids: Sequence[Sequence[int]],
  candidates: Iterable[str] = symmetries_lib.SYMMETRIES,
) -> tuple[symmetries_lib.Symmetry, ...]:
  """Returns the built-in symmetries that act on all grids; warns of others."""
  kept, dropped = applicable(grids, candidates)
  if dropped:
    shape = '×'.join(map(str, grids[0]))
    warnings.warn(
      f'left out, because they cannot act on {shape} images:'
      f' {", ".join(dropped)}',
      stacklevel=_callers_level(),
    )
  return kept


def _callers_level() -> int:
  """Returns the stack level of whoever called this package."""
  names = [frame.frame.f_globals.get('__name__', '') for frame in stack(0)]
  ours = [name.split('.')[0] == __name__.split('.')[0] for name in names[1:]]
  return ours.index(False) + 1 if False in ours else len(ours)


def applicable(
  grids: Sequence[Sequence[int]],
  candidates: Iterable[str] = symmetries_lib.SYMMETRIES,
) -> tuple[tuple[symmetries_lib.Symmetry, ...], dict[str, str]]:
  """Returns the built-in symmetries that act on all grids, and why not others.

  >>> kept, dropped = applicable([(28, 20)])
  >>> [name for name in dropped]
  ['rotation']
  """
  kept, dropped = [], {}
  for name in candidates:
    try:
      for grid in grids:
        permutation(symmetries_lib.SYMMETRIES[name], grid)
    except ValueError as error:
      dropped[name] = str(error)
    else:
      kept.append(symmetries_lib.SYMMETRIES[name])
  return tuple(kept), dropped
