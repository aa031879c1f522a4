"""The lattice of distinct networks that a table of symmetries generates.

A state is a set of symmetries as an integer: bit k, counted from the least
significant, stands for the k-th symmetry. States that share weights in exactly
the same way are one network: rotation and one flip generate the other flip. The
*closure* of a network is the set of all symmetries of the table to which it is
equivariant; networks are ordered by inclusion of their closures.

Legend: K symmetries, 2^K states, R networks, L layers (N inputs, M outputs).
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import hashlib
import itertools
import math
from typing import NamedTuple, TypeVar

import numpy as np

from aen import io as io_lib
from aen.groups import orbits as orbits_lib
from aen.groups import symmetries as symmetries_lib

MAX_SYMMETRIES = 20
_MIN_CACHED = 2**26  # states × pairs of points; fewer are not cached on disk
_CACHE_VERSION = b'aen lattice 1'
_MAX_CANDIDATES = 64

T = TypeVar('T')


def chosen(state: int, table: Sequence[T]) -> tuple[T, ...]:
  """Returns the entries of a table whose bits are set in a state.

  >>> chosen(0b101, ('rotation', 'horizontal_flip', 'vertical_flip'))
  ('rotation', 'vertical_flip')
  """
  return tuple(entry for k, entry in enumerate(table) if state >> k & 1)


def shortest_states(network_of: np.ndarray) -> np.ndarray:
  """Returns each network's state with the fewest symmetries, int32 [R].

  Of several, the lowest. `network_of` is the network of every state, [2^K].

  >>> shortest_states(np.array([0, 1, 2, 3, 4, 3, 5, 3])).tolist()
  [0, 1, 2, 3, 4, 6]
  """
  lengths = np.bitwise_count(np.arange(network_of.size))
  by_length = np.argsort(lengths, kind='stable')
  _, first = np.unique(network_of[by_length], return_index=True)
  return by_length[first].astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Lattice:
  """All networks of a table of symmetries.

  Networks are numbered in the order of their lowest states, so network 0 has
  only the symmetries that every network on these grids has.

  Attributes:
    symmetries: The table.
    grids: The grids of the inputs and of every equivariant layer's outputs.
    network_of: The network of every state. int32 [2^K].
    shortest_states: See `shortest_states`. int32 [R].
    implied_states: Each network's closure, as a state. int32 [R].
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
    """Returns the names of all symmetries in the closure of the given ones."""
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
    """Whether `network` is equivariant to every symmetry that `other` is."""
    return bool(self.implied_states[other] & ~self.implied_states[network] == 0)

  def coarser(self, network: int) -> list[int]:
    """Returns the minimal networks with strictly more symmetry."""
    return self._nearest(network, self.contains)

  def finer(self, network: int) -> list[int]:
    """Returns the maximal networks with strictly less symmetry."""
    return self._nearest(network, lambda n, other: self.contains(other, n))

  def _nearest(
    self, network: int, is_beyond: Callable[[int, int], bool]
  ) -> list[int]:
    beyond = [n for n in range(len(self)) if is_beyond(n, network)]
    beyond.remove(network)
    return [
      n for n in beyond if not any(is_beyond(n, m) for m in beyond if m != n)
    ]


def distinct_networks(
  symmetries: symmetries_lib.SymmetryLike, grids: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `network_of` and `shortest_states` of a symmetry table's lattice.

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
  """Returns the lattice of all networks of a symmetry table.

  The grids are those of the inputs and of each equivariant layer's outputs.
  """
  symmetries = symmetries_lib.as_symmetries(symmetries)
  if len(symmetries) > MAX_SYMMETRIES:
    raise ValueError(
      f'a lattice lists all 2^K states of K symmetries, with K at most'
      f' {MAX_SYMMETRIES}, got {len(symmetries)}; leave some out'
    )
  lists = (list, tuple, np.ndarray)
  if (
    not isinstance(grids, lists)
    or len(grids) < 2
    or any(not isinstance(grid, lists) or not np.ndim(grid) for grid in grids)
  ):
    raise ValueError(
      'grids must be a list of grids, that of the inputs and at least one of'
      f' outputs, such as [(28, 28), (20, 20)], got {grids!r}'
    )
  shapes = tuple(symmetries_lib.as_shape(grid) for grid in grids)
  permutations = {
    shape: [symmetries_lib.permutation(s, shape) for s in symmetries]
    for shape in shapes
  }
  layers = list(itertools.pairwise(shapes))
  num_states = 2 ** len(symmetries)
  pairs = sum(math.prod(a) * math.prod(b) for a, b in layers)

  def compute() -> np.ndarray:
    return np.concatenate(_networks(permutations, layers), axis=None)

  if num_states * pairs < _MIN_CACHED:
    found = compute()
  else:
    parts = [repr(shapes).encode()]
    parts += [p.tobytes() for shape in shapes for p in permutations[shape]]
    digest = hashlib.sha256(b'|'.join([_CACHE_VERSION, *parts]))
    found = io_lib.from_disk(digest.hexdigest(), compute)
  network_of, found = found[:num_states], found[num_states:]
  implied_states, num_weights = np.split(found, [int(network_of.max()) + 1])
  return Lattice(
    symmetries=symmetries,
    grids=shapes,
    network_of=network_of,
    shortest_states=shortest_states(network_of),
    implied_states=implied_states,
    num_weights=num_weights.reshape(-1, len(layers)),
  )


def _networks(
  permutations: Mapping[tuple[int, ...], Sequence[np.ndarray]],
  layers: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns `network_of`, `implied_states` and `num_weights` of a lattice.

  `permutations` maps the shape of a grid to the action of each symmetry, [K].
  """
  sets = {s: _reduced(p, math.prod(s)) for s, p in permutations.items()}
  distinct = list(dict.fromkeys(layers))
  steps, orbits_of = _walk([(sets[a], sets[b]) for a, b in distinct])
  closure_of = [min(steps, key=int.bit_count)]
  for state in range(1, 2 ** len(permutations[layers[0][0]])):
    # One step from the state without its lowest bit.
    lowest = (state & -state).bit_length() - 1
    closure_of.append(steps[closure_of[state & (state - 1)]][lowest])
  implied_states = list(dict.fromkeys(closure_of))
  number = {closure: i for i, closure in enumerate(implied_states)}
  columns = [distinct.index(layer) for layer in layers]
  num_weights = np.array([orbits_of[closure] for closure in implied_states])
  return (
    np.array([number[closure] for closure in closure_of], np.int32),
    np.array(implied_states, np.int32),
    num_weights[:, columns].astype(np.int32),
  )


class _Points(NamedTuple):
  """A set of points on which every symmetry of a table acts."""

  permutations: list[np.ndarray]  # [K][N]
  copies: np.ndarray  # the multiplicity of each point, int64 [N]


def _reduced(permutations: Sequence[np.ndarray], num_points: int) -> _Points:
  """Removes the orbits of a grid that are copies of others.

  Let A and B be orbits under the whole table, and f: A → B a bijection with
  f(g x) = g f(x) for every symmetry g. Then f × id maps the orbits of any state
  on A × Y to its orbits on B × Y, so that A alone decides which states share
  weights in the same way, and B only adds to the number of weights.
  """
  labels = orbits_lib.orbits(permutations, num_points)
  # A bijection f preserves cycle lengths, which leaves few candidates.
  lengths = [np.zeros_like(labels)]
  for p in permutations:
    cycles = orbits_lib.orbits([p], num_points)
    lengths.append(np.bincount(cycles)[cycles])
  stacked = np.stack(lengths, axis=1)
  kinds = np.unique(stacked, axis=0, return_inverse=True)[1].ravel()
  by_orbit = np.argsort(labels, kind='stable')
  members = np.split(by_orbit, np.cumsum(np.bincount(labels))[:-1])
  kept: dict[bytes, list[np.ndarray]] = {}  # by the kinds of their points
  copies = np.zeros(len(labels), np.int64)
  image = np.full(len(labels), -1)
  for orbit in members:
    alike = kept.setdefault(np.sort(kinds[orbit]).tobytes(), [])
    for other in alike:
      if orbit.size == 1 or _is_copy(permutations, kinds, orbit, other, image):
        copies[other] += 1
        break
    else:
      alike.append(orbit)
      copies[orbit] = 1
  points = np.flatnonzero(copies)
  place = np.cumsum(copies > 0, dtype=np.int32) - np.int32(1)
  return _Points([place[p[points]] for p in permutations], copies[points])


def _is_copy(
  permutations: Sequence[np.ndarray],
  kinds: np.ndarray,
  orbit: np.ndarray,
  other: np.ndarray,
  image: np.ndarray,
) -> bool:
  """Whether some bijection of two orbits commutes with all permutations.

  The image of one point determines it. At most `_MAX_CANDIDATES` images are
  tried: missing a copy costs time, but does not change the result. `image` is
  scratch space, one entry per point.
  """
  candidates = other[kinds[other] == kinds[orbit[0]]]
  for candidate in candidates[:_MAX_CANDIDATES]:
    image[orbit] = -1
    image[orbit[0]] = candidate
    reached = orbit[:1]
    while reached.size:  # gather form: image[p[x]] = p[image[x]]
      new = []
      for p in permutations:
        there = p[reached]
        fresh = image[there] < 0
        image[there[fresh]] = p[image[reached[fresh]]]
        new.append(there[fresh])
      reached = np.concatenate(new)
    if np.array_equal(np.sort(image[orbit]), other) and all(
      np.array_equal(image[p[orbit]], p[image[orbit]]) for p in permutations
    ):
      return True
  return False


def _walk(
  layers: Sequence[tuple[_Points, _Points]],
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
  """Visits every network once, depth-first, adding one symmetry at a time.

  With A = cl(A₀ ∪ t) and B = cl(A₀ ∪ s), both cl(A ∪ s) and cl(B ∪ t) equal
  cl(A₀ ∪ {s, t}). So most steps follow from earlier ones, and about as many
  partitions are computed as there are networks. Few are in memory at a time.

  Returns:
    steps: closure -> the closure after adding each symmetry, [R][K].
    orbits_of: closure -> the number of orbits in each layer, [R][L].
  """
  num_symmetries = len(layers[0][0].permutations)
  actions = [
    [(a.permutations[s], b.permutations[s]) for a, b in layers]
    for s in range(num_symmetries)
  ]

  def closure(state: int, labels: Sequence[np.ndarray]) -> int:
    """Adds to a state every symmetry under which the labels do not change."""
    for s, action in enumerate(actions):
      if not state >> s & 1 and all(
        orbits_lib.is_invariant(part, *perms)
        for part, perms in zip(labels, action, strict=True)
      ):
        state |= 1 << s
    return state

  def count(labels: Sequence[np.ndarray]) -> list[int]:
    """Counts the orbits in each layer, with multiplicity."""
    counts = []
    for part, (a, b) in zip(labels, layers, strict=True):
      copies = np.ones(int(part.max()) + 1, np.int64)
      if max(a.copies.max(), b.copies.max()) > 1:
        copies[part] = np.multiply.outer(a.copies, b.copies)
      counts.append(int(copies.sum()))
    return counts

  sizes = [(len(a.copies), len(b.copies)) for a, b in layers]
  symmetries_lib.as_shape(sum(n * m for n, m in sizes))  # raises if too many
  alone = [np.arange(n * m, dtype=np.int32).reshape(n, m) for n, m in sizes]
  bottom = closure(0, alone)
  steps: dict[int, list[int]] = {}
  orbits_of = {bottom: count(alone)}
  # closure -> all known (A₀, t) with cl(A₀ ∪ t) = closure
  arrivals: dict[int, list[tuple[int, int]]] = {bottom: []}
  pending = [(bottom, alone)]
  while pending:
    here, labels = pending.pop()
    steps[here] = [here] * num_symmetries
    for s, action in enumerate(actions):
      if here >> s & 1:
        continue
      there = _known_step(s, arrivals[here], steps)
      if there is None:
        joined = [
          orbits_lib.add_pair(part, *perms)
          for part, perms in zip(labels, action, strict=True)
        ]
        there = closure(here | 1 << s, joined)
        if there not in arrivals:
          orbits_of[there] = count(joined)
          arrivals[there] = []
          pending.append((there, joined))
      steps[here][s] = there
      arrivals[there].append((here, s))
  return steps, orbits_of


def _known_step(
  s: int, arrivals: Sequence[tuple[int, int]], steps: dict[int, list[int]]
) -> int | None:
  """Returns the closure after adding s, if earlier steps determine it."""
  for origin, t in arrivals:
    aside = steps[origin][s]
    if aside >> t & 1:
      return aside
    if aside in steps:
      return steps[aside][t]
  return None
