from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import aen
from aen.groups import orbits as orbits_lib
from aen.groups.orbits import canonical
from aen.groups.paper import elements
from aen.groups.symmetries import PAPER_SYMMETRIES


@st.composite
def generator_sets(draw, max_points=7, max_generators=3):
  size = draw(st.integers(1, max_points))
  count = draw(st.integers(0, max_generators))
  generators = [
    np.array(draw(st.permutations(range(size))), np.int32) for _ in range(count)
  ]
  return size, generators


@st.composite
def partitions(draw, count):
  size = draw(st.integers(1, 40))
  labels = st.lists(st.integers(0, 9), min_size=size, max_size=size)
  return [np.array(draw(labels)) for _ in range(count)]


def components(permutations, num_points):
  """An implementation that is not ours: scipy's connected components."""
  rows = np.tile(np.arange(num_points), len(permutations))
  columns = np.concatenate([*permutations, np.arange(0)])
  graph = coo_array(
    (np.ones(rows.size), (rows, columns)), shape=(num_points, num_points)
  )
  return canonical(connected_components(graph, directed=False)[1])


def cyclic_group(generator):
  return [g.tolist() for g in elements([generator], generator.size)]


def random_permutations(rng, num_points, num_swaps, count):
  """Permutations with few unfixed points, so that there are many orbits."""
  for _ in range(count):
    permutation = np.arange(num_points)
    points = rng.choice(num_points, num_swaps, replace=False)
    permutation[points] = np.roll(points, 1)
    yield permutation


@pytest.mark.parametrize('name', aen.SYMMETRIES)
@pytest.mark.parametrize('shape', [(4, 4), (28, 28), (6, 6, 3)])
def test_permutations_are_in_gather_form(name, shape):
  image = np.random.default_rng(0).random(shape)
  permutation = aen.permutation(name, shape)
  assert permutation.dtype == np.int32
  np.testing.assert_array_equal(
    aen.SYMMETRIES[name](image).ravel(), image.ravel()[permutation]
  )


def test_users_functions_in_other_dimensions():
  assert aen.permutation(lambda x: x[::-1], (5,)).tolist() == [4, 3, 2, 1, 0]
  assert aen.permutation(lambda x: x[::-1], 5).tolist() == [4, 3, 2, 1, 0]
  cube = aen.permutation(lambda x: x.transpose(2, 0, 1), (3, 3, 3))
  assert aen.orbits([cube], 27).max() + 1 == 11  # (27 + 2 * 3) / 3, Burnside


@pytest.mark.parametrize(
  ('function', 'says'),
  [
    (lambda x: x[:-1], r'expected \(4, 4\), got \(3, 4\)'),
    (lambda x: x * 0, 'lost, duplicated or altered'),
    (lambda x: x + 1, 'lost, duplicated or altered'),
    (lambda x: x - 1, 'lost, duplicated or altered'),
    (lambda x: x / 2, 'lost, duplicated or altered'),
    (lambda x: np.sort(x, axis=None).reshape(4, 4)[:, :1] + x * 0, 'lost'),
    (lambda x: x[5], r'cannot act on the grid \(4, 4\)'),
    (lambda x: None, r'expected \(4, 4\), got None'),
    (lambda x: 1 // 0, r'cannot act on the grid \(4, 4\): ZeroDivisionError'),
    (np.random.default_rng(0).permutation, 'two different ways'),
    (lambda x: x.max() - x, 'depends on the values'),
    (lambda x: np.sort(x, axis=None).reshape(x.shape), 'depends on the values'),
    (np.abs, 'depends on the values'),
    (lambda x: x % 16, 'depends on the values'),
    (lambda x: np.floor(x).astype(x.dtype), 'depends on the values'),
    (lambda x: np.clip(x, 0, 255), 'depends on the values'),
  ],
)
def test_no_bijection_is_an_error(function, says):
  with pytest.raises(ValueError, match=says):
    aen.permutation(function, (4, 4))


@pytest.mark.parametrize(
  'shape', [(), (0, 4), (4, -1), (2**16, 2**16), (4.7, 4.2), '44', None]
)
def test_impossible_grids(shape):
  with pytest.raises(
    ValueError, match='a grid is a tuple of positive whole numbers'
  ):
    aen.permutation('horizontal_flip', shape)


def test_permutation_takes_one_symmetry():
  with pytest.raises(ValueError, match='takes one symmetry, got 2'):
    aen.permutation(('rotation', 'horizontal_flip'), (4, 4))


def test_kernels_beyond_the_range_of_labels():
  with pytest.raises(
    ValueError, match='more than 2\\*\\*31 - 1 kernel entries'
  ):
    aen.pair(np.arange(10**5), np.arange(10**5))


def test_pair_permutes_a_kernel():
  rng = np.random.default_rng(0)
  kernel, p, q = rng.random((5, 7)), rng.permutation(5), rng.permutation(7)
  np.testing.assert_array_equal(
    kernel.ravel()[aen.pair(p, q)].reshape(5, 7), kernel[p][:, q]
  )


def test_labels_are_canonical_int32():
  labels = aen.orbits([np.array([3, 1, 2, 0, 5, 4])], 6)
  assert labels.dtype == np.int32
  assert labels.tolist() == [0, 1, 2, 0, 3, 3]
  assert aen.orbits([], 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
  'wrong',
  [
    np.array([0, 1]),
    np.array([0, 1, 1]),
    np.array([0, 1, 3]),
    np.array([0, -1, 2]),
    np.array([0.0, 1.0, 2.0]),
    np.array([[0, 1, 2]]),
  ],
)
def test_what_is_no_permutation_is_an_error(wrong):
  good = np.array([1, 0, 2])
  with pytest.raises(ValueError, match='permutation 1 must hold each of 0…2'):
    aen.orbits([good, wrong], 3)


@given(generator_sets())
def test_four_ways_to_the_same_orbits(problem):
  size, generators = problem
  labels = aen.orbits(generators, size)
  group = [g.tolist() for g in elements(generators, size)]
  np.testing.assert_array_equal(labels, aen.alg2(group, size))
  np.testing.assert_array_equal(
    labels, aen.alg1([cyclic_group(g) for g in generators], size)
  )
  np.testing.assert_array_equal(labels, components(generators, size))


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(2, 60))
@settings(max_examples=200)
def test_large_partitions_against_scipy(seed, count, num_swaps):
  rng = np.random.default_rng(seed)
  permutations = list(random_permutations(rng, 300, num_swaps, count))
  np.testing.assert_array_equal(
    aen.orbits(permutations, 300), components(permutations, 300)
  )


@pytest.mark.parametrize('kind', ['random', 'ascending', 'descending', 'few'])
@pytest.mark.parametrize('dtype', [np.int32, np.int64, np.uint16])
def test_cycles_through_several_blocks_against_scipy(kind, dtype, monkeypatch):
  monkeypatch.setattr(orbits_lib, '_BLOCK', 64)
  size, rng = 1000, np.random.default_rng(0)
  permutation = {
    'random': rng.permutation(size),
    'ascending': np.roll(np.arange(size), -3),
    'descending': np.roll(np.arange(size), 7),
    'few': next(random_permutations(rng, size, 20, 1)),
  }[kind].astype(dtype)
  before = permutation.copy()
  labels = aen.orbits([permutation], size)
  np.testing.assert_array_equal(permutation, before)
  assert labels.dtype == np.int32
  np.testing.assert_array_equal(labels, components([permutation], size))


@given(
  st.integers(0, 2**32 - 1),
  st.lists(st.integers(1, 5), min_size=1, max_size=80),
  st.integers(1, 64),
)
@settings(max_examples=200)
def test_short_cycles_in_any_blocks_against_scipy(seed, lengths, block):
  """Permutations of order 1 to 60, made of cycles of one to five points."""
  points = np.random.default_rng(seed).permutation(sum(lengths))
  permutation = np.empty_like(points)
  for cycle in np.split(points, np.cumsum(lengths)[:-1]):
    permutation[cycle] = np.roll(cycle, 1)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(orbits_lib, '_BLOCK', block)
    labels = aen.orbits([permutation], points.size)
  np.testing.assert_array_equal(labels, components([permutation], points.size))


def test_a_long_path_needs_few_rounds_and_comes_out_right():
  num_points = 10_001  # swaps 0-1, 2-3, … and 1-2, 3-4, …: one orbit
  even = np.arange(num_points).reshape(-1)
  even[: num_points - 1] = (
    even[: num_points - 1].reshape(-1, 2)[:, ::-1].ravel()
  )
  odd = np.arange(num_points)
  odd[1:] = odd[1:].reshape(-1, 2)[:, ::-1].ravel()
  assert aen.orbits([even, odd], num_points).max() == 0
  shuffle = np.random.default_rng(0).permutation(num_points)
  back = np.argsort(shuffle)
  shuffled = [shuffle[p[back]] for p in (even, odd)]
  assert aen.orbits(shuffled, num_points).max() == 0


@given(generator_sets(max_points=12, max_generators=4), st.randoms())
def test_the_order_of_generators_does_not_matter(problem, random):
  size, generators = problem
  labels = aen.orbits(generators, size)
  random.shuffle(generators)
  np.testing.assert_array_equal(labels, aen.orbits(generators, size))


@given(generator_sets(max_points=12, max_generators=4), st.integers(0, 4))
def test_orbits_of_a_union_are_the_join(problem, cut):
  size, generators = problem
  np.testing.assert_array_equal(
    aen.orbits(generators, size),
    aen.join(
      aen.orbits(generators[:cut], size), aen.orbits(generators[cut:], size)
    ),
  )


@given(partitions(count=3))
def test_join_is_a_join(parts):
  a, b, c = parts
  joined = aen.join(a, b)
  np.testing.assert_array_equal(joined, aen.join(b, a))
  np.testing.assert_array_equal(
    aen.join(joined, c), aen.join(a, aen.join(b, c))
  )
  np.testing.assert_array_equal(aen.join(a, b, c), aen.join(joined, c))
  np.testing.assert_array_equal(aen.join(a), aen.join(a, a))
  np.testing.assert_array_equal(joined, aen.join(joined, a))  # coarser
  # The finest such: two points share a class only through a chain of links.
  rows = np.concatenate([a, a.max() + 1 + b])
  nodes = np.tile(np.arange(a.size), 2)
  graph = coo_array((np.ones(rows.size), (nodes, rows + a.size)))
  graph.resize((a.size + rows.max() + 1,) * 2)
  _, reached = connected_components(graph, directed=False)
  np.testing.assert_array_equal(joined, canonical(reached[: a.size]))


@given(st.lists(st.integers(-5, 5), min_size=1))
def test_canonical_numbers_by_first_occurrence(values):
  labels = canonical(np.array(values))
  seen = list(dict.fromkeys(values))
  assert labels.tolist() == [seen.index(v) for v in values]
  assert labels.dtype == np.int32
  np.testing.assert_array_equal(canonical(labels), labels)


def test_join_of_nothing_or_of_different_points():
  with pytest.raises(ValueError, match='at least one'):
    aen.join()
  with pytest.raises(ValueError, match='of the same points'):
    aen.join(np.zeros(3, int), np.zeros(4, int))


def test_enumeration_refuses_what_is_too_large():
  swap, cycle = np.array([1, 0, 2, 3, 4]), np.array([1, 2, 3, 4, 0])
  assert len(elements([swap, cycle], 5)) == 120
  with pytest.raises(ValueError, match='more than limit=100'):
    elements([swap, cycle], 5, limit=100)


@pytest.fixture(scope='module')
def paper_layer():
  """How each symmetry permutes the 784 × 400 weights of the paper's layer."""
  return {
    name: aen.pair(
      aen.permutation(name, (28, 28)), aen.permutation(name, (20, 20))
    )
    for name in aen.SYMMETRIES
  }


@pytest.mark.parametrize(
  'name',
  [
    # Both translations have order 35, which takes seconds: one is slow.
    pytest.param(
      name,
      marks=pytest.mark.slow if name == 'vertical_translation' else [],
    )
    for name in aen.SYMMETRIES
  ],
)
def test_both_algorithms_agree_with_ours_on_the_papers_layer(name, paper_layer):
  generator = paper_layer[name]
  labels = aen.orbits([generator], generator.size)
  group = cyclic_group(generator)
  np.testing.assert_array_equal(labels, aen.alg1([group], generator.size))
  np.testing.assert_array_equal(labels, aen.alg2(group, generator.size))


@pytest.mark.parametrize(
  ('in_shape', 'out_shape', 'order'),
  [((4, 4), (2, 2), 192), ((4, 4), (4, 4), 192), ((8, 8), (4, 4), 768)],
)
def test_all_twelve_where_the_whole_group_can_be_enumerated(
  in_shape, out_shape, order
):
  generators = [
    aen.pair(aen.permutation(name, in_shape), aen.permutation(name, out_shape))
    for name in PAPER_SYMMETRIES
  ]
  size = generators[0].size
  group = elements(generators, size)
  assert len(group) == order
  labels = aen.orbits(generators, size)
  by_parts = aen.alg1([cyclic_group(g) for g in generators], size)
  np.testing.assert_array_equal(labels, by_parts)
  np.testing.assert_array_equal(
    labels, aen.alg2([g.tolist() for g in group], size)
  )


def test_a_function_that_works_in_place_is_a_symmetry():
  def reverse(x):
    x[:] = x[::-1].copy()
    return x

  expected = np.arange(12).reshape(4, 3)[::-1].ravel()
  np.testing.assert_array_equal(aen.permutation(reverse, (4, 3)), expected)


@pytest.mark.parametrize(
  'given', [[0.9, 1.7], [0, 2**32 + 1], [0, 0], [1, 2], [[0, 1]], [], ['a']]
)
def test_pairs_are_of_permutations(given):
  for arguments in ((given, [0, 1]), ([0, 1], given)):
    with pytest.raises(ValueError, match='must (hold each of|be an array)'):
      aen.pair(*map(np.array, arguments))


@pytest.mark.parametrize(
  'given', [([], []), ([0, np.nan],), ([None, 1],), ([0, 1], [0]), (3,)]
)
def test_joins_are_of_labels(given):
  with pytest.raises(ValueError, match='join needs'):
    aen.join(*map(np.array, given))


@pytest.mark.parametrize('name', aen.SYMMETRIES)
def test_rows_and_columns_against_permutations_of_pairs(name):
  p, q = aen.permutation(name, (8, 8)), aen.permutation(name, (4, 4))
  shape, whole = (64, 16), aen.pair(p, q)
  labels, alone = np.arange(64 * 16, dtype=np.int32)[:, None], np.zeros(1, int)
  for other in ('vertical_flip', 'rotation_scramble'):
    r, s = aen.permutation(other, (8, 8)), aen.permutation(other, (4, 4))
    labels = orbits_lib.add_pair(labels, aen.pair(r, s), alone)
    by_pairs = orbits_lib.add_pair(labels, whole, alone)
    by_rows = orbits_lib.add_pair(labels.reshape(shape), p, q)
    np.testing.assert_array_equal(by_rows.ravel(), by_pairs.ravel())
    assert orbits_lib.is_invariant(by_rows, p, q)
    assert orbits_lib.is_invariant(labels.reshape(shape), p, q) == (
      np.array_equal(labels, labels[whole])
    )
