"""Dense layers in the basis of the characters of an abelian subgroup.

Let an abelian group A act on the inputs X and the outputs Y of a layer whose
kernel W is invariant, W(a·x, a·y) = W(x, y). With representatives x_i and y_j
of the orbits, stabilisers S_i and T_j, and for every character ρ of A,

    x̃_i(ρ)   = Σ_{a ∈ A/S_i} x(a·x_i) ρ̄(a)
    B_ρ[i,j] = Σ_{b ∈ A/T_j} W(x_i, b·y_j) ρ̄(b)
    y(b·y_j) = 1/|A/T_j| Σ_ρ ρ(b) Σ_i x̃_i(ρ) B_ρ[i,j],

where ρ runs over the characters that are trivial on S_i and on T_j. This
replaces the dense matrix by one block per character; the blocks together have
one entry per orbit of A on X × Y.

All arithmetic is real. A character with values ±1 contributes one term to the
sum over ρ, and two conjugate characters three, by Gauss's product of complex
numbers: with x̃ = p + iq and B = r + is,

    Re x̃B = r(p + q) - q(r + s),    Im x̃B = r(p + q) + p(s - r).

So a layer is the sum over terms k of synthesis_k ((analysis_k x) (kernel_k W)).
If A has two elements and fixes some points, see `Involution`.

Legend: N input points, M output points, |A| elements and as many characters, K
terms. The points whose orbits have the same stabiliser form a *sector* of c · n
points: c cosets of the stabiliser, n orbits.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from aen.groups import orbits as orbits_lib
from aen.groups import symmetries as symmetries_lib

MAX_ELEMENTS = 1536
_MAX_ENTRIES = 2**22  # of `Abelian.elements`
_MAX_SUBSETS = 128
_MAX_CANDIDATES = 64  # for generators of A
_BEAM = 10  # subgroups kept at each step of the search for A
# Nanoseconds of a training step per operation of `step_operations`, on one
# core; fitted by experiments/cost_model.py.
NANOSECONDS: Mapping[str, float] = {
  'multiplication': 0.0176,
  'kernel entry': 4.07,
  'block entry': 7.13,
  'entry of several sectors': 0.533,
  'activation': 3.31,
  'transform': 0.0288,
  'product': 7190.0,
}
_BATCH = 64  # the batch size that the cost model assumes


class Block(NamedTuple):
  """Terms of the same shape: k products [B, n] · [n, m] for every s and t."""

  size: int  # k
  inputs: tuple[int, ...]  # sectors of the inputs, s
  outputs: tuple[int, ...]  # sectors of the outputs, t


@dataclasses.dataclass(frozen=True)
class Structure:
  """The static part of a spectral form; the rest is data to a program.

  Terms of a sector, or of a pair of sectors, are in the order of its blocks.
  """

  num_elements: int  # |A|
  in_sectors: tuple[tuple[int, int], ...]  # (c, n) of each sector
  out_sectors: tuple[tuple[int, int], ...]  # (c, m) of each sector
  cosets: tuple[int, ...]  # q of each pair: the kernel has entries [q, n, m]
  blocks: tuple[Block, ...]  # the terms, by shape

  @property
  def pairs(self) -> list[tuple[int, int]]:
    """The pairs of sectors (s, t), in the order of `cosets`."""
    num_in, num_out = len(self.in_sectors), len(self.out_sectors)
    return list(itertools.product(range(num_in), range(num_out)))

  @property
  def entries(self) -> list[tuple[int, int, int]]:
    """The shape [q, n, m] of each pair of sectors."""
    return [
      (q, self.in_sectors[s][1], self.out_sectors[t][1])
      for q, (s, t) in zip(self.cosets, self.pairs, strict=True)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class Spectral:
  """A dense layer in the basis of characters.

  Attributes:
    structure: The shapes of the arrays below, and of the products.
    in_place: The place of each input in the order by sector, coset and orbit;
      None if they come in this order. int32 [N]
    out_place: The place of each output in this order; None to return them in
      this order. int32 [M]
    analysis: For each sector of the inputs, [K, c].
    synthesis: For each sector of the outputs, [c, K].
    kernel: For each pair of sectors, [K, q].
    index: One kernel entry per orbit of A on X × Y: its weight, or in the form
      of all layers (`spectral_form`) its place in the flattened kernel. [q, n,
      m] for each pair of sectors, concatenated. int32 [E]
  """

  # JAX treats the other fields as data.
  structure: Structure = dataclasses.field(metadata={'static': True})
  in_place: np.ndarray | None
  out_place: np.ndarray | None
  analysis: tuple[np.ndarray, ...]
  synthesis: tuple[np.ndarray, ...]
  kernel: tuple[np.ndarray, ...]
  index: np.ndarray

  def of(self, labels: np.ndarray) -> 'Spectral':
    """Returns the form of one layer, given the weight of each entry [N, M]."""
    return dataclasses.replace(self, index=labels.ravel()[self.index])

  @property
  def num_elements(self) -> int:
    """|A|."""
    return self.structure.num_elements

  @property
  def shape(self) -> tuple[int, int]:
    """(N, M), the shape of the kernel."""
    sides = self.structure.in_sectors, self.structure.out_sectors
    num_in, num_out = (sum(c * n for c, n in side) for side in sides)
    return num_in, num_out


@dataclasses.dataclass(frozen=True, eq=False)
class Involution:
  """A dense layer with a symmetry g of order two that fixes some points.

  Let x be the inputs at one point of each pair that g exchanges, x' those at
  the other, x₀ those at fixed points, and the same for the outputs y. With
  D = W(x, y) and E = W(x, y'), invariance gives

      y  = x₀ W(x₀, y) + (x + x') D + x' (E - D)
      y' = x₀ W(x₀, y) + (x + x') D + x (E - D)
      y₀ = x₀ W(x₀, y₀) + (x + x') W(x, y₀):

  one product with (x + x', x₀), and two with E - D.

  Attributes:
    in_place: The place of each input in the order x, x', x₀. int32 [N]
    out_place: The place of each output in the order y, y', y₀. int32 [M]
    first: The weights of W from (x, x₀) to (y, y₀), int32 [n + n₀, m + m₀].
    second: The weights of E, int32 [n, m].
  """

  in_place: np.ndarray
  out_place: np.ndarray
  first: np.ndarray
  second: np.ndarray
  num_elements = 2

  @classmethod
  def of(cls, exchange: np.ndarray, index: np.ndarray) -> 'Involution':
    """Returns the form of a layer with the weights W[index], index [N, M].

    The permutation `exchange` [N + M] is the action of g on inputs and outputs.
    """
    num_in = len(index)
    places, firsts, pairs = [], [], []
    for side in exchange[:num_in], exchange[num_in:] - num_in:
      points = np.arange(side.size)
      pair, fixed = np.flatnonzero(points < side), points[points == side]
      order = np.concatenate([pair, side[pair], fixed])
      places.append(np.argsort(order).astype(np.int32))
      firsts.append(np.concatenate([pair, fixed]))
      pairs.append((pair, side[pair]))
    in_place, out_place = places
    second = index[np.ix_(pairs[0][0], pairs[1][1])]
    return cls(in_place, out_place, index[np.ix_(*firsts)], second)

  @property
  def shape(self) -> tuple[int, int]:
    """(N, M), the shape of the kernel."""
    return len(self.in_place), len(self.out_place)


Form = Spectral | Involution


@dataclasses.dataclass(frozen=True, eq=False)
class Abelian:
  """An abelian group of permutations of P points, with its characters.

  ρ(a) = exp(2πi phases[ρ, a] / denominator); the trivial character is first.
  """

  elements: np.ndarray  # the identity first, int32 [|A|, P]
  phases: np.ndarray  # int64 [|A|, |A|]
  denominator: int  # a multiple of the order of every element
  generators: tuple[np.ndarray, ...] = ()

  @classmethod
  def trivial(cls, num_points: int) -> 'Abelian':
    """Returns the group of the identity."""
    identity = np.arange(num_points, dtype=np.int32)
    return cls(identity[None], np.zeros((1, 1), np.int64), 1)

  @functools.cached_property
  def places(self) -> dict[bytes, int]:
    """Maps the bytes of each element to its number."""
    return {element.tobytes(): i for i, element in enumerate(self.elements)}

  def commutes_with(self, permutation: np.ndarray) -> bool:
    """Whether every element commutes with a permutation."""
    return all(
      np.array_equal(g[permutation], permutation[g]) for g in self.generators
    )

  def extended(self, generator: np.ndarray) -> 'Abelian | None':
    """Returns the group with one more generator.

    Let g^k be the first power of g in A. The elements of the larger group are
    a·g^j with j < k, and every character ρ of A has k extensions: ρ(g) may be
    any k-th root of ρ(g^k).

    Returns:
      The larger group; None if g does not commute with A, or if the group has
      more than `MAX_ELEMENTS` elements, or more than fit into memory.
    """
    if not self.commutes_with(generator):
      return None
    powers = [np.arange(generator.size, dtype=np.int32)]
    while (power := powers[-1][generator]).tobytes() not in self.places:
      powers.append(power)
      size = len(powers) * len(self.elements)
      if size > min(MAX_ELEMENTS, _MAX_ENTRIES // generator.size):
        return None
    k, size = len(powers), len(powers) * len(self.elements)
    denominator, j = self.denominator * k, np.arange(k)
    at_power = self.phases[:, self.places[power.tobytes()]]
    roots = np.add.outer(self.denominator * j, at_power)  # [k, |A|]
    at_powers = roots[:, :, None, None] * j[:, None]
    phases = (k * self.phases[None, :, None, :] + at_powers) % denominator
    return Abelian(
      np.concatenate([self.elements[:, p] for p in powers]),
      phases.reshape(size, size),
      denominator,
      (*self.generators, generator),
    )

  def on(self, start: int, stop: int) -> 'Abelian':
    """Returns the group's action on some points, a union of orbits."""
    elements = self.elements[:, start:stop] - start
    return Abelian(elements, self.phases, self.denominator)

  def terms(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns the real characters, and one of each pair of conjugate ones."""
    twice = 2 * self.phases
    is_complex = twice % self.denominator != 0  # at an element
    number = np.arange(len(self.phases))
    first = twice[number, is_complex.argmax(1)]
    some = is_complex.any(1)
    return number[~some], number[some & (first < self.denominator)]

  def multiplicities(self, num_in: int) -> np.ndarray:
    """Counts the orbits in which each character occurs, int64 [2, |A|].

    Separately for the first `num_in` points and the others. This is the
    multiplicity in the permutation representation: the inner product with the
    numbers of fixed points.
    """
    fixed = self.elements == np.arange(self.elements.shape[1], dtype=np.int32)
    counts = np.stack([f.sum(1) for f in np.split(fixed, [num_in], axis=1)])
    cosines = np.cos(2 * np.pi / self.denominator * self.phases)
    return np.rint(counts @ cosines.T / len(fixed)).astype(np.int64)


def abelian_subsets(
  generators: Sequence[np.ndarray], num_points: int
) -> dict[int, Abelian]:
  """Returns the abelian groups that subsets of permutations generate.

  Maps a subset to its group, the empty one first. Bit k of a subset stands for
  the k-th permutation.
  """
  found = {0: Abelian.trivial(num_points)}
  for k, generator in enumerate(generators):
    for subset, group in list(found.items()):
      if len(found) < _MAX_SUBSETS and (larger := group.extended(generator)):
        found[subset | 1 << k] = larger
  return found


def dense_spectral(
  symmetries: Sequence[symmetries_lib.Symmetry],
  in_shape: Sequence[int],
  out_shape: Sequence[int],
  index: np.ndarray,
  invariant: bool = False,
  force: bool = False,
) -> Form | None:
  """Returns the fastest form of a dense layer.

  A is generated by commuting products of the layer's symmetries, including
  those of `SYMMETRIES` that the given ones imply.

  The index is the kernel of `dense_sharing`, [N, M], with the same arguments.
  Returns None if gathering the whole kernel is expected to be fastest; with
  `force`, the best `Spectral` form even so, if the layer has symmetries.

  >>> from aen.groups.sharing import dense_sharing
  >>> flip = symmetries_lib.SYMMETRIES['horizontal_flip']
  >>> index = dense_sharing((flip,), (28, 28), (20, 20)).kernel
  >>> form = dense_spectral((flip,), (28, 28), (20, 20), index)
  >>> form.num_elements, form.index.size / index.size
  (2, 0.5)
  """
  num_in, num_out = index.shape
  layer = in_shape, out_shape, invariant
  actions = [symmetries_lib.layer_action(s, *layer) for s in symmetries]
  for symmetry in symmetries_lib.SYMMETRIES.values() if actions else ():
    try:
      action = symmetries_lib.layer_action(symmetry, *layer)
    except ValueError:  # it cannot act on these grids
      continue
    if orbits_lib.is_invariant(index, *action):
      actions.append(action)
  found = [
    np.concatenate([rows, num_in + columns]) for rows, columns in actions
  ]
  products = (a[b] for a, b in itertools.product(found, repeat=2))
  identity = np.arange(num_in + num_out, dtype=np.int32).tobytes()
  distinct = {p.tobytes(): p for p in itertools.chain(found, products)}
  distinct.pop(identity, None)
  candidates = list(distinct.values())[:_MAX_CANDIDATES]
  group = best_subgroup(candidates, num_in, num_out, force)
  if not force:
    pairs = [p for p in candidates if np.array_equal(p[p], np.arange(p.size))]
    costs = [_involution_cost(p, num_in) for p in pairs]
    otherwise = step_cost(group or Abelian.trivial(num_in + num_out), num_in)
    if costs and min(costs) < otherwise:
      return Involution.of(pairs[int(np.argmin(costs))], index)
  return None if group is None else spectral_form(group, num_in).of(index)


def _involution_cost(exchange: np.ndarray, num_in: int) -> float:
  """Returns the expected nanoseconds of a training step of an `Involution`."""
  exchanged = exchange != np.arange(exchange.size)
  (n, rows), (m, columns) = (  # numbers of pairs, and of orbits
    (side.sum() // 2, side.size - side.sum() // 2)
    for side in np.split(exchanged, [num_in])
  )
  if not n * m or exchange.size == 2 * (n + m):  # no pairs, or no fixed points
    return math.inf
  return _nanoseconds(
    {
      'multiplication': 3 * _BATCH * (rows * columns + 2 * n * m),
      'kernel entry': rows * columns + n * m,
      'activation': _BATCH * exchange.size,
      'product': 3,
    }
  )


def best_subgroup(
  candidates: Sequence[np.ndarray],
  num_in: int,
  num_out: int,
  force: bool = False,
) -> Abelian | None:
  """Returns the abelian group that makes a training step fastest, if any.

  A beam search: each step extends groups by one of the candidates, which are
  permutations of inputs and outputs [N + M]. Returns None if gathering the
  whole kernel is expected to be faster, which `force` ignores.
  """
  best = None
  beam = [Abelian.trivial(num_in + num_out)]
  lowest = math.inf if force else step_cost(beam[0], num_in)
  seen: set[tuple[bool, ...]] = set()
  while True:
    grown: list[tuple[float, Abelian]] = []
    for group, candidate in itertools.product(beam, candidates):
      is_new = candidate.tobytes() not in group.places
      larger = group.extended(candidate) if is_new else None
      if larger is None:
        continue
      # Groups that candidates generate are equal if they contain the same ones.
      members = tuple(c.tobytes() in larger.places for c in candidates)
      if members not in seen:
        seen.add(members)
        grown.append((step_cost(larger, num_in), larger))
    grown.sort(key=lambda entry: entry[0])
    beam = [group for _, group in grown[:_BEAM]]
    if not grown or grown[0][0] >= lowest:
      return best
    lowest, best = grown[0]


def step_cost(group: Abelian, num_in: int) -> float:
  """Returns the expected nanoseconds of a training step of a layer."""
  return _nanoseconds(step_operations(group, num_in, _BATCH))


def _nanoseconds(operations: Mapping[str, float]) -> float:
  return sum(NANOSECONDS[name] * n for name, n in operations.items())


def step_operations(
  group: Abelian, num_in: int, batch: int
) -> dict[str, float]:
  """Counts the operations of a training step of a layer, for the cost model.

  These are multiplications in the products (forward, and two backward); entries
  of the kernel or of the blocks that are gathered, transformed and updated
  (more slowly if orbits have different stabilisers); permuted activations;
  multiplications in the transforms; and products. The trivial group stands for
  gathering the whole kernel.
  """
  num_points = group.elements.shape[1]
  if len(group.elements) == 1:
    entries = num_in * (num_points - num_in)
    return {'multiplication': 3 * batch * entries, 'kernel entry': entries}
  in_orbits, out_orbits = group.multiplicities(num_in)
  entries = in_orbits * out_orbits  # of each character
  real, pairs = group.terms()
  num_terms = (entries[real] > 0).sum() + 3 * (entries[pairs] > 0).sum()
  products = entries[real].sum() + 3 * entries[pairs].sum()
  # A character occurs once in every orbit on whose stabiliser it is trivial, so
  # that multiplicities differ if there are several stabilisers.
  several = any(len(set(n[n > 0])) > 1 for n in (in_orbits, out_orbits))
  return {
    'multiplication': 3 * batch * products,
    'block entry': entries.sum(),
    'entry of several sectors': several * entries.sum(),
    'activation': batch * num_points,
    'transform': num_terms * (batch * num_points + entries.sum()),
    'product': num_terms,
  }


def spectral_form(group: Abelian, num_in: int) -> Spectral:
  """Returns the form that all layers equivariant to a group share.

  The group permutes N = `num_in` inputs and M outputs. See `Spectral.of`.
  """
  on_outputs = group.on(num_in, group.elements.shape[1])
  inputs, outputs = _sectors(group.on(0, num_in)), _sectors(on_outputs)
  by_block = _terms_by_block(group, inputs, outputs)
  terms = _Terms(*map(np.concatenate, zip(*by_block.values(), strict=True)))

  def own(sector: _Sector) -> np.ndarray:
    """Returns which terms occur in a sector, bool [K]."""
    return sector.characters[terms.characters]

  def place(sectors: Sequence[_Sector]) -> np.ndarray:
    order = np.concatenate([sector.points.ravel() for sector in sectors])
    return np.argsort(order).astype(np.int32)

  kernel, index = [], []
  for source, target in itertools.product(inputs, outputs):
    # A row W(x_i, ·) is invariant under the stabiliser S of x_i: one entry for
    # each coset of S·T in A suffices, and these are some of the cosets of T.
    images = on_outputs.elements[source.stabiliser][:, target.points[:, 0]]
    cosets = _first_places(images.min(0))
    multiplicity = len(target.cosets) // len(cosets)
    rows = terms.kernel[own(source) & own(target)]
    kernel.append(multiplicity * rows[:, target.cosets[cosets]])
    first = source.points[0][:, None] * on_outputs.elements.shape[1]
    index.append((first + target.points[cosets][:, None, :]).ravel())
  return Spectral(
    structure=Structure(
      num_elements=len(group.elements),
      in_sectors=tuple(sector.points.shape for sector in inputs),
      out_sectors=tuple(sector.points.shape for sector in outputs),
      cosets=tuple(matrix.shape[1] for matrix in kernel),
      blocks=tuple(by_block),
    ),
    in_place=place(inputs),
    out_place=place(outputs),
    analysis=tuple(terms.analysis[own(s)][:, s.cosets] for s in inputs),
    synthesis=tuple(
      terms.synthesis[own(t)][:, t.cosets].T / len(t.cosets) for t in outputs
    ),
    kernel=tuple(kernel),
    index=np.concatenate(index),
  )


class _Sector(NamedTuple):
  """Orbits with the same stabiliser."""

  stabiliser: np.ndarray  # which elements are in it, bool [|A|]
  characters: np.ndarray  # which are trivial on it, bool [|A|]
  cosets: np.ndarray  # an element of each of its cosets, identity first, [c]
  points: np.ndarray  # of each coset and orbit, int32 [c, n]


def _sectors(group: Abelian) -> list[_Sector]:
  """Returns the sectors of the points that a group permutes."""
  points = np.arange(group.elements.shape[1])
  firsts = np.flatnonzero(group.elements.min(0) == points)  # of orbits
  fixes = group.elements[:, firsts] == firsts  # [|A|, orbits]
  by_stabiliser: dict[bytes, list[int]] = {}
  for stabiliser, first in zip(fixes.T, firsts.tolist(), strict=True):
    by_stabiliser.setdefault(stabiliser.tobytes(), []).append(first)
  sectors = []
  for key, own in by_stabiliser.items():
    stabiliser = np.frombuffer(key, bool)
    characters = (group.phases[:, stabiliser] == 0).all(1)
    cosets = _first_places(group.elements[:, own[0]])
    images = group.elements[cosets][:, own]
    sectors.append(_Sector(stabiliser, characters, cosets, images))
  return sectors


def _first_places(values: np.ndarray) -> np.ndarray:
  """Returns where each distinct value occurs first."""
  return np.sort(np.unique(values, return_index=True)[1])


class _Terms(NamedTuple):
  """The coefficients of the characters' terms at all elements, [K, |A|]."""

  characters: np.ndarray  # of the terms, [K]
  analysis: np.ndarray  # for a conjugate pair: p + q, p and q
  kernel: np.ndarray  # for a pair: r, s - r and r + s
  synthesis: np.ndarray  # for a pair: twice the real part of ρ(b) x̃B


def _terms_by_block(
  group: Abelian, inputs: Sequence[_Sector], outputs: Sequence[_Sector]
) -> dict[Block, _Terms]:
  """Groups characters that occur in the same sectors into blocks."""
  by_sectors: dict[tuple[tuple[int, ...], ...], list[int]] = {}
  real, pairs = group.terms()
  for character in (*real, *pairs):
    key = tuple(
      tuple(i for i, each in enumerate(side) if each.characters[character])
      for side in (inputs, outputs)
    )
    if all(key):
      by_sectors.setdefault(key, []).append(character)
  found = {}
  for (ins, outs), characters in by_sectors.items():
    in_pairs = np.isin(characters, pairs)
    angle = 2 * np.pi / group.denominator * group.phases[characters]
    cos, sin = np.cos(angle[in_pairs]), np.sin(angle[in_pairs])
    real_terms = np.cos(angle[~in_pairs])
    own = np.array(characters)
    terms = _Terms(
      np.concatenate([own[~in_pairs], np.tile(own[in_pairs], 3)]),
      np.concatenate([real_terms, cos - sin, cos, -sin]),
      np.concatenate([real_terms, cos, -sin - cos, cos - sin]),
      np.concatenate([real_terms, 2 * (cos - sin), -2 * sin, -2 * cos]),
    )
    found[Block(len(terms.kernel), ins, outs)] = terms
  return found
