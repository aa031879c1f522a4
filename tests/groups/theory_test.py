"""The paper's claims, executed, and its errata.

Equivariance is checked on tables of integers, so every comparison is exact.
"""

import itertools

import numpy as np
import pytest

import aen
from aen.groups.paper import elements
from tests import small_groups as groups


def is_equivariant(function, inputs, outputs, states):
  """Whether function(g x) == g function(x) for all given g and states x.

  Args:
    function: Maps states [S, N] to outputs [S, M].
    inputs: How each g permutes the inputs.
    outputs: How each g permutes the outputs.
    states: The x to try. [S, N].
  """
  result = function(states)
  return all(
    np.array_equal(function(states[:, p]), result[:, q])
    for p, q in zip(inputs, outputs, strict=True)
  )


def all_states(num_points, values=2):
  return np.array(list(itertools.product(range(values), repeat=num_points)))


def linear(labels, num_points, rng):
  weights = rng.permutation(labels.max() + 1)  # no two are equal
  kernel = weights[labels].reshape(num_points, -1)
  return lambda x: x @ kernel


def nonlinear(generators, rng, values=2):
  """A lookup table over all states, shared along orbits: any function at all.

  φ(x)_i is entry (x, i), and φ(g x)_i = φ(x)_{g i} says that the entries (x, j)
  and (g x, g⁻¹ j) are equal: the freest equivariant function has one number for
  each orbit of (state, output).
  """
  size = generators[0].size
  states = all_states(size, values)
  digits = values ** np.arange(size)[::-1]
  images = [states[:, g] @ digits for g in generators]
  labels = aen.orbits(
    [
      aen.pair(m, np.argsort(g))
      for m, g in zip(images, generators, strict=True)
    ],
    len(states) * size,
  )
  table = rng.permutation(labels.max() + 1)[labels].reshape(len(states), size)
  return (lambda x: table[x @ digits]), labels


@pytest.mark.parametrize('name', groups.PRODUCTS)
def test_theorem_1_for_linear_layers(name):
  first, second = groups.PRODUCTS[name]
  size, rng = first[0].size, np.random.default_rng(0)
  group = elements([*first, *second], size)
  states = all_states(size)
  # Equivariant to both parts, hence to every element of the product …
  labels = aen.orbits([aen.pair(g, g) for g in (*first, *second)], size**2)
  layer = linear(labels, size, rng)
  assert is_equivariant(layer, group, group, states)
  # … and the sharing is the one that the whole product asks for.
  np.testing.assert_array_equal(
    labels, aen.orbits([aen.pair(g, g) for g in group], size**2)
  )
  # One part alone is not enough.
  for part, other in ((first, second), (second, first)):
    alone = aen.orbits([aen.pair(g, g) for g in part], size**2)
    layer = linear(alone, size, rng)
    assert is_equivariant(layer, part, part, states)
    assert not is_equivariant(layer, other, other, states)


@pytest.mark.parametrize('name', groups.PRODUCTS)
def test_theorem_1_for_nonlinear_functions(name):
  first, second = groups.PRODUCTS[name]
  size = first[0].size
  group = elements([*first, *second], size)
  states = all_states(size)
  function, labels = nonlinear([*first, *second], np.random.default_rng(1))
  sums = function(states) + function(1 - states)
  assert len(np.unique(sums, axis=0)) > 1  # linear maps give φ(1) every time
  assert is_equivariant(function, group, group, states)
  np.testing.assert_array_equal(
    labels, nonlinear(group, np.random.default_rng(1))[1]
  )


@pytest.mark.parametrize('name', groups.PRODUCTS)
def test_theorem_1_the_other_way_round(name):
  """Averaging any function over G makes it equivariant to both parts."""
  first, second = groups.PRODUCTS[name]
  size = first[0].size
  states = all_states(size)
  table = np.random.default_rng(2).integers(0, 100, (len(states), size))
  digits = 2 ** np.arange(size)[::-1]

  def averaged(x, group):
    return sum(table[x[:, g] @ digits][:, np.argsort(g)] for g in group)

  group = elements([*first, *second], size)
  for part in (first, second):
    assert is_equivariant(lambda x: averaged(x, group), part, part, states)
  only_first = elements(first, size)
  assert not is_equivariant(
    lambda x: averaged(x, only_first), second, second, states
  )


def test_figure_1_has_two_weights():
  first, second = groups.PRODUCTS['S3 = Z3 ⋊ Z2']
  labels = aen.orbits([aen.pair(g, g) for g in (*first, *second)], 9)
  assert labels.reshape(3, 3).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_figure_2_is_s3_and_no_direct_product():
  group = elements([np.array([1, 2, 0]), np.array([0, 2, 1])], 3)
  assert len(group) == 6
  # Z3 × Z2 has an element of order 6; three points allow none.
  identity = np.arange(3)
  for g in map(np.array, itertools.permutations(range(3))):
    assert np.array_equal(g[g], identity) or np.array_equal(g[g][g], identity)


@pytest.mark.parametrize('seed', range(5))
def test_the_order_of_symmetries_is_irrelevant(seed):
  names = np.random.default_rng(seed).permutation(list(aen.SYMMETRIES)).tolist()
  expected = aen.dense_sharing(tuple(aen.SYMMETRIES), (8, 8), (4, 4))
  assert aen.dense_sharing(names, (8, 8), (4, 4)) == expected


class CountingTable(list):
  """A permutation that counts how often Γ is evaluated."""

  evaluations = 0

  def __getitem__(self, index):
    CountingTable.evaluations += 1
    return super().__getitem__(index)


@pytest.mark.parametrize(
  'names', [(name,) for name in aen.SYMMETRIES] + [tuple(aen.SYMMETRIES)]
)
def test_claim_2_as_a_count(names):
  num_points = 64 * 16
  cyclic = [
    elements(
      [aen.pair(aen.permutation(n, (8, 8)), aen.permutation(n, (4, 4)))],
      num_points,
    )
    for n in names
  ]
  tables = [[CountingTable(g.tolist()) for g in group] for group in cyclic]
  CountingTable.evaluations = 0
  aen.alg1(tables, num_points)
  bound = num_points * sum(len(group) for group in cyclic)
  # Each point is taken from the queue once, so the bound is met exactly.
  assert CountingTable.evaluations == bound


def test_alg_2_needs_the_missing_mark():
  for generators in ([np.array([1, 2, 0, 4, 3])], [np.array([1, 0, 3, 2, 4])]):
    group = [g.tolist() for g in elements(generators, 5)]
    labels = aen.orbits(generators, 5)
    printed = aen.alg2(group, 5, as_printed=True)
    np.testing.assert_array_equal(aen.alg2(group, 5), labels)
    assert not np.array_equal(printed, labels)
    assert printed.max() + 1 == 5  # "C" claims as many weights as points


def central_extension(psi):
  """The Cayley table of Z2 extended by Z2 with the 2-cocycle psi."""
  pairs = list(itertools.product(range(2), repeat=2))
  return np.array(
    [
      [2 * ((a + c + psi[b, d]) % 2) + (b + d) % 2 for c, d in pairs]
      for a, b in pairs
    ]
  )


def cocycles():
  """All maps psi: Z2 × Z2 -> Z2 that fulfil the paper's two conditions."""
  for values in itertools.product(range(2), repeat=4):
    psi = np.array(values).reshape(2, 2)
    identity = all(
      (psi[g, (h + k) % 2] + psi[h, k]) % 2
      == (psi[g, h] + psi[(g + h) % 2, k]) % 2
      for g, h, k in itertools.product(range(2), repeat=3)
    )
    if psi[0, 0] == 0 and identity:
      yield psi


def test_in_a_central_extension_the_parts_do_multiply_to_the_whole():
  found = list(cocycles())
  assert len(found) == 2  # Z2 × Z2 and Z4
  for psi in found:
    table = central_extension(psi)
    for g1, g2 in itertools.product(range(2), repeat=2):
      assert table[2 * g1, g2] == 2 * g1 + g2  # (g1, e)(e, g2) = (g1, g2)
  squares = [table[1, 1] for table in map(central_extension, found)]
  assert sorted(squares) == [0, 2]  # in Z4 the maps (e, g2) are no subgroup


@pytest.mark.parametrize(
  ('table', 'subgroup', 'representatives'),
  [
    (groups.cyclic_table(4), [2], [1]),  # Z4 over {0, 2}
    (groups.quaternion_table(), [4], [1, 2]),  # Q8 over {1, -1}; i and j
  ],
  ids=['Z4', 'Q8'],
)
def test_generators_are_enough_for_central_extensions(
  table, subgroup, representatives
):
  action = groups.regular(table)
  size = len(table)
  assert len(elements(action, size)) == size
  whole = aen.orbits([aen.pair(g, g) for g in action], size**2)

  def sharing(members):
    return aen.orbits(
      [aen.pair(action[m], action[m]) for m in members], size**2
    )

  assert not np.array_equal(sharing(subgroup), whole)
  np.testing.assert_array_equal(sharing(subgroup + representatives), whole)
  layer = linear(sharing(representatives), size, np.random.default_rng(0))
  assert is_equivariant(layer, action, action, all_states(size))
