"""Search spaces: which networks there are, and how each is trained.

A state is a set of choices, written as an integer: bit k stands for the k-th
choice. States with the same weight sharing are one network. Other terms are
defined in the glossary of docs/design.md.

Legend: K bits, 2^K states, R networks.
"""

import abc
from collections.abc import Iterable, Sequence
import dataclasses
import functools
import hashlib
from typing import Any, ClassVar
import warnings

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from aen.groups import lattice as lattice_lib
from aen.groups import symmetries as symmetries_lib
from aen.train.child import ChildInputs

EMPTY = 0  # the state without any choice, where searches begin


def toggle(state: jax.Array, bit: jax.Array) -> jax.Array:
  """Returns the state with one bit flipped."""
  return state ^ jnp.left_shift(jnp.int32(1), bit.astype(jnp.int32))


class Networks:
  """Maps states to networks, and names both.

  Attributes:
    bits: The names of the K choices.
    network_of: The network of every state, int32 [2^K].
  """

  bits: tuple[str, ...]
  network_of: np.ndarray

  def __len__(self) -> int:
    return len(self.shortest_states)

  @functools.cached_property
  def shortest_states(self) -> np.ndarray:
    """Each network's state with the fewest bits, the lowest one. int32 [R]."""
    return lattice_lib.shortest_states(self.network_of)

  @functools.cached_property
  def implied_states(self) -> np.ndarray:
    """All choices that each network implies, as a state. int32 [R]."""
    states = np.zeros(len(self), np.int32)
    every = np.arange(self.network_of.size, dtype=np.int32)
    np.bitwise_or.at(states, self.network_of, every)
    return states

  def names(self, network: int) -> tuple[str, ...]:
    """Returns the shortest names of a network."""
    return lattice_lib.chosen(int(self.shortest_states[network]), self.bits)

  def implied(self, network: int) -> tuple[str, ...]:
    """Returns the further names that the shortest ones imply.

    Choices that every network implies, such as flips of a grid with one column,
    are left out.
    """
    shortest = int(self.shortest_states[network])
    always = int(np.bitwise_and.reduce(self.implied_states))
    implied = int(self.implied_states[network]) & ~shortest & ~always
    return lattice_lib.chosen(implied, self.bits)

  def network(self, names: Iterable[str]) -> int:
    """Returns the network with the named choices."""
    names = set(names)
    if unknown := sorted(names.difference(self.bits)):
      raise ValueError(
        f'there is no choice {unknown[0]!r}, but: {", ".join(self.bits)}'
      )
    state = sum(1 << self.bits.index(name) for name in names)
    return int(self.network_of[state])


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Networks):
  """Networks given by their states alone."""

  bits: tuple[str, ...]
  network_of: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Space(Table, abc.ABC):
  """The networks that a search chooses among.

  For each network, a space names the program that trains it, and the inputs
  that specialise the program to this network.

  Attributes:
    image_shape: The shape of one example: the grid, then any channels.
    template: A network with all candidate symmetries, which are the first bits.
    lattice: The lattice of networks, if symmetries are the only choices.
  """

  helper: ClassVar[str]  # what may improve a network, such as 'symmetry'
  # Rebuilds a space from its `spec` and custom symmetries, as module:function.
  factory: ClassVar[str] = 'aen.search.result:from_spec'

  image_shape: tuple[int, ...]
  template: Any
  lattice: lattice_lib.Lattice | None

  @abc.abstractmethod
  def key(self, network: int) -> str:
    """Returns a name that equal networks share, also across spaces."""

  @abc.abstractmethod
  def num_weights(self, network: int) -> int:
    """Returns the number of free weights."""

  @abc.abstractmethod
  def program(self, network: int) -> nn.Module:
    """Returns the module to train; equal modules share a compiled program.

    Its attribute `kernel_init` is replaced by the recipe's.
    """

  @abc.abstractmethod
  def inputs(self, network: int) -> ChildInputs:
    """Returns the inputs that specialise the program to this network."""

  def model(self, network: int) -> nn.Module:
    """Returns the network as a Flax module."""
    return self.template.clone(symmetries=self.symmetries_of(network))

  def spec(self) -> dict[str, Any]:
    """Returns the arguments to rebuild this space by `from_spec`, for JSON."""
    return {
      'image_shape': self.image_shape,
      'num_classes': self.template.num_classes,
      'symmetries': [s.name for s in self.symmetries],
      'actions': self.actions(),
    }

  def actions(self) -> list[str]:
    """Returns a fingerprint of what each symmetry does to the grid."""
    return [action(s, self.grid) for s in self.symmetries]

  def unpad(self, network: int, params: Any) -> Any:
    """Converts parameters of the program to those of `model`."""
    del network
    return params

  def baseline(self, network: int) -> int:
    """Returns the network without symmetry to compare a network with."""
    del network
    return 0

  def baselines(self) -> list[int]:
    """Returns all networks that others are compared with, 0 first."""
    return sorted({self.baseline(network) for network in range(len(self))})

  @property
  def symmetries(self) -> tuple[symmetries_lib.Symmetry, ...]:
    """The candidate symmetries."""
    return self.template.symmetries

  @property
  def grid(self) -> tuple[int, ...]:
    """The first axes of an example, on which symmetries act."""
    return self.image_shape[:2]

  def symmetries_of(self, network: int) -> tuple[symmetries_lib.Symmetry, ...]:
    """Returns the fewest symmetries that generate a network."""
    state = int(self.shortest_states[network])
    return lattice_lib.chosen(state, self.symmetries)


def action(symmetry: symmetries_lib.Symmetry, grid: Sequence[int]) -> str:
  """Returns a fingerprint of what a symmetry does to a grid."""
  permuted = symmetries_lib.permutation(symmetry, grid)
  return hashlib.sha256(permuted.tobytes()).hexdigest()[:12]


def applicable(
  grids: Sequence[Sequence[int]],
  candidates: Iterable[str] | None = None,
) -> tuple[symmetries_lib.Symmetry, ...]:
  """Returns the candidates that act on all grids; warns about the others.

  The first grid is that of the inputs; its number of axes selects the default
  candidates from `CANDIDATES`.

  >>> [s.name for s in applicable([(28, 20)], ['rotation', 'vertical_flip'])]
  ['vertical_flip']
  """
  if candidates is None:
    known = symmetries_lib.CANDIDATES
    if len(grids[0]) not in known:
      raise ValueError(
        f'there are no default symmetries of grids with {len(grids[0])} axes,'
        f' got {tuple(grids[0])}; give your own as functions of an array or as'
        ' permutations: symmetries=[…], or name fewer axes: grid_axes=2'
      )
    candidates = [s.name for s in known[len(grids[0])]]
  found = [symmetries_lib.NAMED[name] for name in candidates]
  kept = tuple(s for s in found if acts(s, grids))
  if dropped := [s.name for s in found if s not in kept]:
    shape = '×'.join(map(str, grids[0]))
    what = 'images' if len(grids[0]) == 2 else 'grids'
    warnings.warn(
      f'left out, because they cannot act on {shape} {what}:'
      f' {", ".join(dropped)}',
      stacklevel=3,
    )
  return kept


def acts(
  symmetry: symmetries_lib.Symmetry, grids: Iterable[Sequence[int]]
) -> bool:
  """Whether a symmetry acts on all grids."""
  try:
    for grid in grids:
      symmetries_lib.permutation(symmetry, grid)
  except ValueError:
    return False
  return True
