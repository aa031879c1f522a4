"""The distinct networks of a symmetry table, and how they contain each other.

A state is a set of symmetries, written as an integer: bit k stands for the k-th
symmetry, the first bit least significant. Many states share weights in exactly
the same way (rotation and one flip generate the other flip); they are the same
network. A network is identified by its *closure*, the set of all symmetries of
the table that it respects, and networks are ordered by inclusion of closures.

Legend: K symmetries, 2^K states, R networks, L layers, P kernel entries of all
different layers together.
"""

from collections.abc import Sequence
import dataclasses
import itertools
import math
from typing import TypeVar

import numpy as np

from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import add_generator
from aen.groups.orbits import as_shape
from aen.groups.orbits import pair
from aen.groups.orbits import permutation

MAX_SYMMETRIES = 20
_GLANCE = 2048  # points that suffice to tell most partitions apart

T = TypeVar('T')


def chosen(state: int, table: Sequence[T]) -> tuple[T, ...]:
  """Returns the entries of a table whose bits are set in a state.

  >>> chosen(0b101, ('rotation', 'horizontal_flip', 'vertical_flip'))
  ('rotation', 'vertical_flip')
  """
  return tuple(entry for k, entry in enumerate(table) if state >> k & 1)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Lattice:
  """All networks of a table of symmetries.

  Networks are numbered by their first state, so network 0 has only the
  symmetries that every network on these grids has.

  Attributes:
    symmetries: The table.
    grids: The grids of the inputs and of every equivariant layer's outputs.
    network_of: The network of every state. int32 [2^K].
    shortest_states: The state of each network with the fewest symmetries, the
      lowest of several. int32 [R].
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
    return tuple(s.name for s in chosen(state, self.symmetries))

  def network(self, symmetries: symmetries_lib.SymmetryLike) -> int:
    """Returns the network that is equivariant to the given symmetries."""
    return int(self.network_of[self.state(symmetries)])

  def implied(self, symmetries: symmetries_lib.SymmetryLike) -> tuple[str, ...]:
    """Returns the names of all symmetries of the table that these imply."""
    return self.names(int(self.implied_states[self.network(symmetries)]))

  def shortest(self, network: int) -> list[tuple[str, ...]]:
    """Returns all shortest sets of names that give a network, in order."""
    whole = isinstance(network, int | np.integer)
    if not whole or not 0 <= network < len(self):
      raise ValueError(
        f'a network is a number from 0 to {len(self) - 1}, got {network!r}'
      )
    states = np.flatnonzero(self.network_of == network)
    sizes = np.bitwise_count(states)
    return [self.names(int(s)) for s in states[sizes == sizes.min()]]

  def contains(self, network: int, other: int) -> bool:
    """Whether `network` respects every symmetry that `other` respects."""
    return bool(self.implied_states[other] & ~self.implied_states[network] == 0)

  def coarser(self, network: int) -> list[int]:
    """Returns the networks one step up: minimal ones with more symmetry."""
    above = [n for n in range(len(self)) if self.contains(n, network)]
    above.remove(network)
    return [
      n for n in above if not any(self.contains(n, m) for m in above if m != n)
    ]

  def finer(self, network: int) -> list[int]:
    """Returns the networks one step down: maximal ones with less symmetry."""
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
    symmetries: The table; the first symmetry is the least significant bit.
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
  """Returns the lattice of all networks of a symmetry table."""
  symmetries = symmetries_lib.as_symmetries(symmetries)
  if len(symmetries) > MAX_SYMMETRIES:
    raise ValueError(
      f'a lattice lists all 2^K states of K symmetries, with K at most'
      f' {MAX_SYMMETRIES}, got {len(symmetries)}; leave some out'
    )
  lists = (list, tuple, np.ndarray)
  if not isinstance(grids, lists) or any(
    not isinstance(grid, lists) or not np.ndim(grid) for grid in grids
  ):
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
  layers = list(itertools.pairwise(shapes))
  distinct = list(dict.fromkeys(layers))
  sizes = [math.prod(a) * math.prod(b) for a, b in distinct]
  ends = np.cumsum(sizes)
  as_shape(int(ends[-1]))  # raises if there are more entries than int32 labels
  # All kernels side by side are one set of points, on which each symmetry acts.
  generators = [
    np.concatenate(
      [
        pair(permutation(s, a), permutation(s, b)) + np.int32(end - size)
        for (a, b), end, size in zip(distinct, ends, sizes, strict=True)
      ]
    )
    for s in symmetries
  ]
  steps, orbits_up_to = _walk(generators, ends)
  closure_of = [min(steps, key=int.bit_count)]
  for state in range(1, 2 ** len(symmetries)):
    # One step from the state without its lowest bit.
    lowest = (state & -state).bit_length() - 1
    closure_of.append(steps[closure_of[state & (state - 1)]][lowest])
  implied_states = list(dict.fromkeys(closure_of))
  number = {closure: i for i, closure in enumerate(implied_states)}
  network_of = np.array([number[closure] for closure in closure_of], np.int32)
  by_length = np.argsort(
    np.bitwise_count(np.arange(network_of.size)), kind='stable'
  )
  _, first = np.unique(network_of[by_length], return_index=True)
  num_weights = np.diff(
    [orbits_up_to[closure] for closure in implied_states], prepend=0
  )
  columns = [distinct.index(layer) for layer in layers]
  return Lattice(
    symmetries=symmetries,
    grids=shapes,
    network_of=network_of,
    shortest_states=by_length[first].astype(np.int32),
    implied_states=np.array(implied_states, np.int32),
    num_weights=num_weights[:, columns].astype(np.int32),
  )


def _walk(
  generators: Sequence[np.ndarray], ends: np.ndarray
) -> tuple[dict[int, list[int]], dict[int, np.ndarray]]:
  """Visits every network once, adding one symmetry at a time.

  Closures commute: with A = cl(A₀ ∪ t) and B = cl(A₀ ∪ s), both cl(A ∪ s) and
  cl(B ∪ t) are cl(A₀ ∪ {s, t}). So most steps follow from steps taken before,
  and only about as many partitions are computed as there are networks. Going
  depth-first keeps few of them in memory.

  Args:
    generators: The permutation of the kernel entries by each symmetry, [K][P].
    ends: Where each layer's entries end, [L].

  Returns:
    steps: closure -> the closure after adding each symmetry, [R][K].
    orbits_up_to: closure -> the number of orbits up to each end, [R][L].
  """
  starts = np.append(0, ends[:-1])
  alone = np.arange(ends[-1], dtype=np.int32)
  bottom = _closure(0, alone, generators)
  steps: dict[int, list[int]] = {}
  orbits_up_to = {bottom: ends}
  # closure -> all (A₀, t) known to lead there
  arrivals: dict[int, list[tuple[int, int]]] = {bottom: []}
  pending = [(bottom, alone)]
  while pending:
    here, labels = pending.pop()
    steps[here] = [here] * len(generators)
    for s, generator in enumerate(generators):
      if here >> s & 1:
        continue
      there = _known_step(s, arrivals[here], steps)
      if there is None:
        joined = add_generator(labels, generator)
        there = _closure(here | 1 << s, joined, generators)
        if there not in arrivals:
          # Labels are numbered by first occurrence, layer after layer.
          orbits_up_to[there] = np.maximum.reduceat(joined, starts) + 1
          arrivals[there] = []
          pending.append((there, joined))
      steps[here][s] = there
      arrivals[there].append((here, s))
  return steps, orbits_up_to


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
  state: int, labels: np.ndarray, generators: Sequence[np.ndarray]
) -> int:
  """Adds to a state every symmetry under which the labels do not change."""
  for s, generator in enumerate(generators):
    if (
      not state >> s & 1
      and np.array_equal(labels[:_GLANCE], labels[generator[:_GLANCE]])
      and np.array_equal(labels, labels.take(generator, mode='clip'))
    ):
      state |= 1 << s
  return state
