import itertools

import numpy as np
import pytest

import aen
from aen.groups import spectral
from tests import small_groups

GRIDS = [
  ((28, 28), (20, 20)),
  ((8, 8), (8, 8)),
  ((9, 9), (6, 6)),
  ((6, 4), (4, 2)),
]


def acting(names, *grids):
  """Returns the symmetries among these that act on all grids."""
  found = []
  for name in names:
    try:
      for grid in grids:
        aen.permutation(name, grid)
    except ValueError:
      continue
    found.append(aen.SYMMETRIES[name])
  return tuple(found)


def sampled_sets(count=12):
  """Returns the table's single symmetries, then random sets of them."""
  rng = np.random.default_rng(0)
  names = list(aen.SYMMETRIES)
  sizes = rng.integers(2, 6, count)
  drawn = [tuple(rng.choice(names, size, replace=False)) for size in sizes]
  return [*((name,) for name in names), tuple(names), *drawn]


def apply(form, x, weights):
  """The formulas of the module's docstring, in NumPy."""
  structure = form.structure

  def by_block(terms, own):
    """The terms of each block, which lie one after another."""
    ends = np.cumsum([block.size for block in own])
    assert ends[-1] == len(terms)
    return dict(zip(own, np.split(terms, ends[:-1]), strict=True))

  signals, start, in_order = [], 0, np.argsort(form.in_place)
  for s, (c, n) in enumerate(structure.in_sectors):
    part = x[:, in_order[start : start + c * n]].reshape(-1, c, n)
    terms = np.einsum('kc,bcn->kbn', form.analysis[s], part)
    own = [block for block in structure.blocks if s in block.inputs]
    signals.append(by_block(terms, own))
    start += c * n
  kernels, start = {}, 0
  for (s, t), matrix, q in zip(
    structure.pairs, form.kernel, structure.cosets, strict=True
  ):
    shape = q, structure.in_sectors[s][1], structure.out_sectors[t][1]
    size = np.prod(shape)
    index = form.index[start : start + size].reshape(shape)
    terms = np.einsum('kq,qnm->knm', matrix, weights[index])
    own = [b for b in structure.blocks if s in b.inputs and t in b.outputs]
    kernels[s, t] = by_block(terms, own)
    start += size
  assert start == form.index.size
  products = [[] for _ in structure.out_sectors]
  for block in structure.blocks:
    for t in block.outputs:
      terms = (signals[s][block] @ kernels[s, t][block] for s in block.inputs)
      products[t].append(sum(terms))
  parts = [
    np.einsum('ck,kbm->bcm', matrix, np.concatenate(part))
    for matrix, part in zip(form.synthesis, products, strict=True)
  ]
  y = np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)
  return y[:, form.out_place]


def num_multiplications(structure):
  """Multiplications of the products, per example; N · M for a dense layer."""
  return sum(
    block.size * structure.in_sectors[s][1] * structure.out_sectors[t][1]
    for block in structure.blocks
    for s, t in itertools.product(block.inputs, block.outputs)
  )


def assert_exact(form, index):
  rng = np.random.default_rng(0)
  weights = rng.standard_normal(int(index.max()) + 1)
  x = rng.standard_normal((3, index.shape[0]))
  expected = x @ weights[index]
  error = np.abs(apply(form, x, weights) - expected).max()
  assert error <= 1e-12 * np.abs(expected).max()
  assert form.shape == index.shape


def assert_one_entry_per_orbit(form, group, num_in):
  pairs = [
    aen.pair(element[:num_in], element[num_in:] - num_in)
    for element in group.elements
  ]
  num_orbits = aen.orbits(pairs, pairs[0].size).max() + 1
  assert form.index.size == num_orbits


@pytest.mark.parametrize('invariant', [False, True])
@pytest.mark.parametrize(('in_shape', 'out_shape'), GRIDS)
@pytest.mark.parametrize('names', sampled_sets(), ids='+'.join)
def test_exact_for_the_table_of_symmetries(
  names, in_shape, out_shape, invariant
):
  symmetries = acting(names, in_shape, out_shape)
  layer = symmetries, in_shape, out_shape
  index = aen.dense_sharing(*layer, invariant).kernel
  form = spectral.dense_spectral(*layer, index, invariant, force=True)
  if symmetries and any(aen.permutation(s, in_shape)[0] for s in symmetries):
    assert_exact(form, index)
    assert num_multiplications(form.structure) < index.size


def random_abelian(rng):
  """Returns commuting permutations of some points, with mixed stabilisers.

  Every orbit is a product of two cyclic groups, to which each generator adds an
  element of its own.
  """
  num_generators = rng.integers(1, 3)
  moduli = rng.choice([1, 2, 3, 4, 6], (rng.integers(2, 6), 2))
  steps = rng.integers(0, 6, (num_generators, len(moduli), 2))
  parts = [[] for _ in range(num_generators)]
  start = 0
  for orbit, (a, b) in enumerate(moduli):
    first, second = np.divmod(np.arange(a * b), b)
    for generator in range(num_generators):
      i, j = steps[generator, orbit]
      parts[generator].append(start + (first + i) % a * b + (second + j) % b)
    start += a * b
  rename = rng.permutation(start)
  found = []
  for part in parts:
    permutation = np.empty(start, np.int32)
    permutation[rename] = rename[np.concatenate(part)]
    found.append(permutation)
  return found


def joined(perms_in, perms_out):
  return [
    np.concatenate([p, p.size + q]).astype(np.int32)
    for p, q in zip(perms_in, perms_out, strict=True)
  ]


def index_of(generators, num_in):
  pairs = [aen.pair(g[:num_in], g[num_in:] - num_in) for g in generators]
  return aen.orbits(pairs, pairs[0].size).reshape(num_in, -1)


@pytest.mark.parametrize('seed', range(60))
def test_exact_for_random_abelian_groups(seed):
  rng = np.random.default_rng(seed)
  perms_in, perms_out = random_abelian(rng), random_abelian(rng)
  count = min(len(perms_in), len(perms_out))
  generators = joined(perms_in[:count], perms_out[:count])
  num_in = perms_in[0].size
  group = spectral.Abelian.trivial(generators[0].size)
  for generator in generators:
    assert group.commutes_with(generator)
    group = group.extended(generator)
  index = index_of(generators, num_in)
  form = spectral.spectral_form(group, num_in).of(index)
  assert_exact(form, index)
  assert_one_entry_per_orbit(form, group, num_in)
  shares_more = index // 2  # as a larger group would
  assert_exact(
    spectral.spectral_form(group, num_in).of(shares_more), shares_more
  )


@pytest.mark.parametrize('seed', range(30))
def test_exact_for_random_involutions(seed):
  rng = np.random.default_rng(seed)

  def exchange(size):
    """A permutation of order 1 or 2: exchanges some pairs of points."""
    some = rng.permutation(size)[: 2 * rng.integers(0, size // 2 + 1)]
    found = np.arange(size)
    found[some] = some.reshape(-1, 2)[:, ::-1].ravel()
    return found

  (generator,) = joined([exchange(7)], [exchange(6)])
  index = index_of([generator], 7)
  for labels in (index, index // 2):  # the second as of a larger group
    form = spectral.Involution.of(generator, labels)
    assert form.shape == labels.shape
    x, weights = rng.standard_normal((3, 7)), rng.standard_normal(labels.size)
    n, m = form.second.shape
    first, second = weights[form.first], weights[form.second]
    pairs = x[:, np.argsort(form.in_place)]
    one, other, fixed = np.split(pairs, [n, 2 * n], axis=1)
    same = np.concatenate([one + other, fixed], axis=1) @ first
    pair, fixed = np.split(same, [m], axis=1)
    difference = second - first[:n, :m]
    parts = pair + other @ difference, pair + one @ difference, fixed
    y = np.concatenate(parts, axis=1)[:, form.out_place]
    np.testing.assert_allclose(y, x @ weights[labels], rtol=0, atol=1e-12)
    used = np.concatenate([form.first.ravel(), form.second.ravel()])
    np.testing.assert_array_equal(np.unique(used), np.unique(labels))


def test_quarter_scrambles_are_involutions():
  name, grids = 'left_vertical_scramble', ((28, 28), (20, 20))
  index = aen.dense_sharing((name,), *grids).kernel
  symmetries = (aen.SYMMETRIES[name],)
  form = spectral.dense_spectral(symmetries, *grids, index)
  assert isinstance(form, spectral.Involution)
  assert form.first.size + form.second.size == index.max() + 1
  form = spectral.dense_spectral(symmetries, *grids, index, force=True)
  assert isinstance(form, spectral.Spectral)
  flip = (aen.SYMMETRIES['horizontal_flip'],)  # has no fixed points
  index = aen.dense_sharing(flip, *grids).kernel
  form = spectral.dense_spectral(flip, *grids, index)
  assert isinstance(form, spectral.Spectral)


@pytest.mark.parametrize('seed', range(30))
def test_exact_for_random_groups_of_permutations(seed):
  rng = np.random.default_rng(seed)
  perms_in = [rng.permutation(6) for _ in range(2)]
  perms_out = [rng.permutation(5) for _ in range(2)]
  generators = joined(perms_in, perms_out)
  group = spectral.best_subgroup(generators, 6, 5, force=True)
  index = index_of(generators, 6)
  form = spectral.spectral_form(group, 6).of(index)
  assert_exact(form, index)
  assert_one_entry_per_orbit(form, group, 6)


@pytest.mark.parametrize('name', small_groups.PRODUCTS)
def test_exact_for_small_groups(name):
  generators = list(itertools.chain(*small_groups.PRODUCTS[name]))
  generators = joined(generators, generators)
  size = generators[0].size // 2
  group = spectral.best_subgroup(generators, size, size, force=True)
  index = index_of(generators, size)
  assert_exact(spectral.spectral_form(group, size).of(index), index)


@pytest.mark.parametrize(
  'orders', [(1,), (2,), (5,), (6, 4), (3, 3), (2, 2, 4)]
)
def test_characters_of_products_of_cyclic_groups(orders):
  """Homomorphisms to the unit circle, orthogonal, as many as elements."""
  size = sum(orders)
  group, start = spectral.Abelian.trivial(size), 0
  for order in orders:
    cycle = small_groups.cycle(tuple(range(start, start + order)), size=size)
    group = group.extended(cycle)
    start += order
  assert len(group.elements) == len(group.phases) == np.prod(orders)
  values = np.exp(2j * np.pi / group.denominator * group.phases)
  gram = values @ values.conj().T / len(values)
  np.testing.assert_allclose(gram, np.eye(len(values)), atol=1e-12)
  place = {element.tobytes(): i for i, element in enumerate(group.elements)}
  for a, b in itertools.product(range(len(values)), repeat=2):
    product = place[group.elements[a][group.elements[b]].tobytes()]
    np.testing.assert_allclose(values[:, a] * values[:, b], values[:, product])
  real, pairs = group.terms()
  assert len(real) + 2 * len(pairs) == len(values)
  assert (np.abs(values[real].imag) < 1e-9).all()


def test_multiplications():
  """One flip halves them; a rotation by 90° leaves five sixteenths."""

  def count(*names, grids=((28, 28), (20, 20))):
    symmetries = tuple(aen.SYMMETRIES[name] for name in names)
    index = aen.dense_sharing(names, *grids).kernel
    form = spectral.dense_spectral(symmetries, *grids, index, force=True)
    return form.num_elements, num_multiplications(form.structure) / index.size

  assert count('horizontal_flip') == (2, 1 / 2)
  assert count('rotation') == (4, 5 / 16)
  assert count('rotation', 'horizontal_flip') == (4, 1 / 4)  # both flips
  assert count('left_vertical_scramble') == (2, 5 / 8)
  # Z₇ and Z₅ have only the trivial character in common.
  assert count('horizontal_translation') == (35, 1 / 35)


def test_layers_that_gather_their_kernel():
  none = aen.dense_sharing((), (8, 8), (4, 4)).kernel
  for force in (False, True):
    assert (
      spectral.dense_spectral((), (8, 8), (4, 4), none, force=force) is None
    )
  flip = (aen.SYMMETRIES['horizontal_flip'],)
  tiny = aen.dense_sharing(flip, (2, 2), (2, 2)).kernel
  assert spectral.dense_spectral(flip, (2, 2), (2, 2), tiny) is None
  form = spectral.dense_spectral(flip, (2, 2), (2, 2), tiny, force=True)
  assert_exact(form, tiny)
  # More elements than are worth listing: 5 · 7 · 8 · 9 · 11.
  sizes = (5, 7, 8, 9, 11)
  ends = np.cumsum(sizes)
  cycles = [tuple(range(e - n, e)) for e, n in zip(ends, sizes, strict=True)]
  large = small_groups.cycle(*cycles, size=ends[-1])
  generators = joined([large], [large])
  assert spectral.best_subgroup(generators, 40, 40, force=True) is None
