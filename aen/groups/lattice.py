"""The distinct networks of a symmetry table, and how they contain each other.

A state is a set of symmetries, written as an integer: bit k stands for the k-th
symmetry, the first bit least significant. Many states share weights in exactly
the same way (rotation with one flip holds the other flip); they are the same
network. A network is known by its *closure*, the set of all symmetries of the
table that it respects, and networks are ordered as their closures are.

Legend: K symmetries, 2^K states, R networks, L layers.
"""

from collections.abc import Sequence
import dataclasses

import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import add_generator
from aen.groups.orbits import as_shape
from aen.groups.orbits import pair
from aen.groups.orbits import permutation

MAX_SYMMETRIES = 20
_GLANCE = 2048  # points that tell most partitions apart


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Lattice:
  """All networks that a table of symmetries can make.

  Networks are numbered by the first state that gives them, so network 0 has no
  symmetry but those that every network on these grids has.

  Attributes:
    symmetries: The table.
    grids: The grids of the inputs and of every equivariant layer's outputs.
    network_of: The network of every state. int32 [2^K].
    shortest_states: Each network's shortest name, the lowest state among the
      shortest. int32 [R].
    implied_states: All symmetries that each network respects, as a state.
      int32 [R].
    num_weights: The number of free kernel weights. int32 [R, L].
  """

  symmetries: tuple[symmetries_lib.Symmetry, ...]
  grids: tuple[tuple[int, ...], ...]
  network_of: np.ndarray
  shortest_states: np.ndarray
  implied_states: np.ndarray
  num_weights: np.ndarray

  def __len__(self) -> int:
    return len(self.shortest_states)

  def __repr__(self) -> str:
    return (
      f'Lattice({len(self.symmetries)} symmetries, {len(self.network_of)}'
      f' states, {len(self)} networks)'
    )

  def state(self, symmetries: symmetries_lib.SymmetryLike) -> int:
    """Returns symmetries of the table as a state."""
    state = 0
    for symmetry in symmetries_lib.as_symmetries(symmetries):
      if symmetry not in self.symmetries:
        raise ValueError(
          f'{symmetry.name} is not in this lattice; it was made of '
          + ', '.join(s.name for s in self.symmetries)
        )
      state |= 1 << self.symmetries.index(symmetry)
    return state

  def names(self, state: int) -> tuple[str, ...]:
    """Returns the names of a state's symmetries."""
    return tuple(
      s.name for k, s in enumerate(self.symmetries) if state >> k & 1
    )

  def network(self, symmetries: symmetries_lib.SymmetryLike) -> int:
    """Returns the network that is equivariant to the given symmetries."""
    return int(self.network_of[self.state(symmetries)])

  def implied(self, symmetries: symmetries_lib.SymmetryLike) -> tuple[str, ...]:
    """Names every symmetry of the table that comes with the given ones."""
    return self.names(int(self.implied_states[self.network(symmetries)]))

  def shortest(self, network: int) -> list[tuple[str, ...]]:
    """Returns all shortest names of a network, its representative first."""
    if not 0 <= network < len(self):
      raise ValueError(
        f'a network is a number from 0 to {len(self) - 1}, got {network}'
      )
    states = np.flatnonzero(self.network_of == network)
    sizes = np.bitwise_count(states)
    return [self.names(int(s)) for s in states[sizes == sizes.min()]]

  def contains(self, network: int, other: int) -> bool:
    """Whether `network` respects every symmetry that `other` respects."""
    return not int(self.implied_states[other]) & ~int(
      self.implied_states[network]
    )

  def coarser(self, network: int) -> list[int]:
    """Returns the networks one step up: the next larger symmetry."""
    above = [n for n in range(len(self)) if self.contains(n, network)]
    above.remove(network)
    return [
      n for n in above if not any(self.contains(n, m) for m in above if m != n)
    ]

  def finer(self, network: int) -> list[int]:
    """Returns the networks one step down: the next smaller symmetry."""
    below = [n for n in range(len(self)) if self.contains(network, n)]
    below.remove(network)
    return [
      n for n in below if not any(self.contains(m, n) for m in below if m != n)
    ]


def distinct_networks(
  symmetries: symmetries_lib.SymmetryLike, grids: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
  """Maps every state of a symmetry table to its network.

  Args:
    symmetries: The table: its first symmetry is the least significant bit.
    grids: The grid of the inputs and of each equivariant layer's outputs.

  Returns:
    The network of each state, int32 [2^K], and each network's shortest state,
    int32 [R].

  >>> network_of, shortest_states = distinct_networks(
  ...   ('rotation', 'horizontal_flip', 'vertical_flip'), [(4, 4), (4, 4)])
  >>> network_of.tolist()
  [0, 1, 2, 3, 4, 3, 5, 3]
  """
  found = lattice(symmetries, grids)
  return found.network_of, found.shortest_states


def lattice(
  symmetries: symmetries_lib.SymmetryLike, grids: Sequence[Sequence[int]]
) -> Lattice:
  """Returns the lattice of the networks that a symmetry table can make."""
  symmetries = symmetries_lib.as_symmetries(symmetries)
  if len(symmetries) > MAX_SYMMETRIES:
    raise ValueError(
      f'a lattice lists all 2^K states of K symmetries and takes at most'
      f' {MAX_SYMMETRIES}, got {len(symmetries)}; leave some out, or search'
      ' with a strategy that needs no table'
    )
  if np.ndim(grids) == 0 or any(np.ndim(grid) == 0 for grid in grids):
    raise ValueError(
      'grids must be a list of grids, such as [(28, 28), (20, 20)], got'
      f' {grids!r}'
    )
  shapes = tuple(as_shape(grid) for grid in grids)
  if len(shapes) < 2:
    raise ValueError(
      'a network needs the grid of its inputs and at least one of outputs, got'
      f' {shapes}'
    )
  layers = list(zip(shapes[:-1], shapes[1:], strict=True))
  steps, weights = _walk(
    [_Layer.between(symmetries, *layer) for layer in dict.fromkeys(layers)]
  )
  closure_of = _close_all_states(steps, len(symmetries))
  implied_states = np.array(list(dict.fromkeys(closure_of)), np.int32)  # [R]
  number = {closure: i for i, closure in enumerate(implied_states.tolist())}
  network_of = np.array([number[closure] for closure in closure_of], np.int32)
  by_length = np.argsort(
    np.bitwise_count(np.arange(network_of.size)), kind='stable'
  )
  _, first = np.unique(network_of[by_length], return_index=True)
  column = {layer: i for i, layer in enumerate(dict.fromkeys(layers))}
  num_weights = np.array(
    [weights[c] for c in implied_states.tolist()], np.int32
  )
  return Lattice(
    symmetries=symmetries,
    grids=shapes,
    network_of=network_of,
    shortest_states=by_length[first].astype(np.int32),
    implied_states=implied_states,
    num_weights=num_weights[:, [column[layer] for layer in layers]],
  )


@dataclasses.dataclass(frozen=True)
class _Layer:
  """How a table of symmetries moves the weights of one layer."""

  num_points: int
  generators: list[np.ndarray]  # K of int32 [N * M]

  @classmethod
  def between(
    cls,
    symmetries: Sequence[symmetries_lib.Symmetry],
    in_shape: tuple[int, ...],
    out_shape: tuple[int, ...],
  ) -> '_Layer':
    return cls(
      int(np.prod(in_shape)) * int(np.prod(out_shape)),
      [
        pair(permutation(s, in_shape), permutation(s, out_shape))
        for s in symmetries
      ],
    )


def _close_all_states(
  steps: dict[int, list[int]], num_symmetries: int
) -> list[int]:
  """Returns the closure of every state, one step from a smaller state's."""
  closure_of = [min(steps, key=int.bit_count)]
  for state in range(1, 2**num_symmetries):
    lowest = (state & -state).bit_length() - 1
    closure_of.append(steps[closure_of[state & (state - 1)]][lowest])
  return closure_of


def _walk(
  layers: Sequence[_Layer],
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
  """Visits every network once, joining one symmetry at a time.

  Closures commute: with A = cl(A₀ ∪ t) and B = cl(A₀ ∪ s), both cl(A ∪ s) and
  cl(B ∪ t) are cl(A₀ ∪ {s, t}). So most steps follow from steps taken before,
  and only about as many joins are computed as there are networks. Going deep
  first keeps few labellings in memory.

  Args:
    layers: The layers whose sharing tells networks apart.

  Returns:
    steps: closure -> the closure after adding each symmetry, [R][K].
    weights: closure -> the number of free weights of each layer, [R][L].
  """
  num_symmetries = len(layers[0].generators)
  nothing = [np.arange(layer.num_points, dtype=np.int32) for layer in layers]
  bottom = _closure(0, nothing, layers)
  steps, weights = {}, {bottom: [layer.num_points for layer in layers]}
  # closure -> all (A₀, t) known to lead there
  arrivals: dict[int, list[tuple[int, int]]] = {bottom: []}
  pending = [(bottom, nothing)]
  while pending:
    here, labels = pending.pop()
    steps[here] = [here] * num_symmetries
    for s in range(num_symmetries):
      if here >> s & 1:
        continue
      there = _known_step(s, arrivals[here], steps)
      if there is None:
        joined = [
          add_generator(part, layer.generators[s])
          for part, layer in zip(labels, layers, strict=True)
        ]
        there = _closure(here | 1 << s, joined, layers)
        if there not in weights:
          weights[there] = [int(part.max()) + 1 for part in joined]
          arrivals[there] = []
          pending.append((there, joined))
      steps[here][s] = there
      arrivals[there].append((here, s))
  return steps, weights


def _known_step(
  s: int, arrivals: Sequence[tuple[int, int]], steps: dict[int, list[int]]
) -> int | None:
  for origin, t in arrivals:
    aside = steps[origin][s]
    if aside >> t & 1:
      return aside
    if aside in steps:
      return steps[aside][t]
  return None


def _closure(
  state: int, labels: Sequence[np.ndarray], layers: Sequence[_Layer]
) -> int:
  """Adds to a state every symmetry under which the labels do not change."""
  for s in range(len(layers[0].generators)):
    if not state >> s & 1 and all(
      _unchanged(part, layer.generators[s])
      for part, layer in zip(labels, layers, strict=True)
    ):
      state |= 1 << s
  return state


def _unchanged(labels: np.ndarray, generator: np.ndarray) -> bool:
  glance = labels[:_GLANCE], labels[generator[:_GLANCE]]
  return np.array_equal(*glance) and np.array_equal(labels, labels[generator])
