import functools

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import aen
from aen.groups import lattice as lattice_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.symmetries import PAPER_SYMMETRIES

SQUARE = ('rotation', 'horizontal_flip', 'vertical_flip')
PAPER_GRIDS = [(28, 28), (20, 20), (20, 20)]


@pytest.fixture(scope='module')
def paper_lattice():
  return aen.lattice(PAPER_SYMMETRIES, PAPER_GRIDS)


@pytest.mark.parametrize(
  ('grids', 'networks'),
  [
    ([(4, 4), (4, 4)], 66),
    ([(8, 8), (4, 4)], 138),
    pytest.param([(6, 6), (4, 4), (4, 4)], 244, marks=pytest.mark.slow),
  ],
)
def test_every_state_against_its_own_sharing(grids, networks, monkeypatch):
  """The walk against 4096 sharings computed one by one."""
  found = aen.lattice(PAPER_SYMMETRIES, grids)
  # … of permutations that are computed once.
  monkeypatch.setattr(
    symmetries_lib, 'permutation', functools.cache(aen.permutation)
  )
  number, weights = {}, {}
  for state in range(4096):
    shared = [
      aen.dense_sharing(found.names(state), a, b)
      for a, b in zip(grids[:-1], grids[1:], strict=True)
    ]
    keys = tuple(part.key for part in shared)
    assert found.network_of[state] == number.setdefault(keys, len(number))
    weights[number[keys]] = [part.num_weights for part in shared]
  assert len(found) == len(number) == networks
  assert found.num_weights.tolist() == list(weights.values())


def test_the_papers_networks(paper_lattice):
  assert len(paper_lattice) == 216
  assert paper_lattice.network_of.shape == (4096,)
  assert paper_lattice.num_weights[0].tolist() == [313600, 160000]
  everything = paper_lattice.network(PAPER_SYMMETRIES)
  assert paper_lattice.num_weights[everything].tolist() == [3, 58]


def test_sampled_states_of_the_papers_networks(paper_lattice):
  states = np.random.default_rng(0).choice(4096, 30, replace=False)
  keys = {}
  for state in states:
    names = paper_lattice.names(int(state))
    shared = [
      aen.dense_sharing(names, a, b)
      for a, b in zip(PAPER_GRIDS[:-1], PAPER_GRIDS[1:], strict=True)
    ]
    network = int(paper_lattice.network_of[state])
    assert paper_lattice.num_weights[network].tolist() == [
      part.num_weights for part in shared
    ]
    key = tuple(part.key for part in shared)
    assert keys.setdefault(key, network) == network
  assert len(set(keys.values())) == len(keys)


def test_shortest_states_are_shortest(paper_lattice):
  network_of, shortest_states = (
    paper_lattice.network_of,
    paper_lattice.shortest_states,
  )
  np.testing.assert_array_equal(network_of[shortest_states], np.arange(216))
  sizes = np.bitwise_count(np.arange(4096))
  for network, state in enumerate(shortest_states):
    assert sizes[state] == sizes[network_of == network].min()
    shortest = paper_lattice.shortest(network)
    assert shortest[0] == paper_lattice.names(int(state))


def test_distinct_networks_are_the_lattices():
  grids = [(8, 8), (4, 4)]
  found = aen.lattice(PAPER_SYMMETRIES, grids)
  network_of, shortest_states = aen.distinct_networks(PAPER_SYMMETRIES, grids)
  np.testing.assert_array_equal(network_of, found.network_of)
  np.testing.assert_array_equal(shortest_states, found.shortest_states)


def test_networks_are_numbered_by_first_state(paper_lattice):
  _, first = np.unique(paper_lattice.network_of, return_index=True)
  assert (np.diff(first) > 0).all()


def test_what_implies_what(paper_lattice):
  assert paper_lattice.implied(('rotation', 'vertical_flip')) == SQUARE
  assert paper_lattice.implied(
    ('left_vertical_scramble', 'right_vertical_scramble')
  ) == (
    'vertical_scramble',
    'left_vertical_scramble',
    'right_vertical_scramble',
  )
  assert paper_lattice.implied(()) == ()


def test_closures_are_exactly_the_symmetries_a_network_has(paper_lattice):
  for network in range(0, len(paper_lattice), 40):
    names = paper_lattice.shortest(network)[0]
    shared = [
      aen.dense_sharing(names, a, b)
      for a, b in zip(PAPER_GRIDS[:-1], PAPER_GRIDS[1:], strict=True)
    ]
    has = tuple(
      name
      for name in PAPER_SYMMETRIES
      if all(
        np.array_equal(
          part.kernel[aen.permutation(name, a)][:, aen.permutation(name, b)],
          part.kernel,
        )
        for part, a, b in zip(
          shared, PAPER_GRIDS[:-1], PAPER_GRIDS[1:], strict=True
        )
      )
    )
    assert paper_lattice.implied(names) == has


def test_neighbours_are_covers(paper_lattice):
  contains = paper_lattice.contains
  for network in range(0, len(paper_lattice), 30):
    for other in range(len(paper_lattice)):
      between = [
        n
        for n in range(len(paper_lattice))
        if n not in (network, other)
        and contains(other, n)
        and contains(n, network)
      ]
      is_cover = other != network and contains(other, network) and not between
      assert (other in paper_lattice.coarser(network)) == is_cover
    for other in paper_lattice.coarser(network):
      assert network in paper_lattice.finer(other)


def test_coarser_networks_have_fewer_weights(paper_lattice):
  for network in range(len(paper_lattice)):
    for other in paper_lattice.coarser(network):
      fewer = (
        paper_lattice.num_weights[other] <= paper_lattice.num_weights[network]
      )
      assert fewer.all()


def test_the_square():
  found = aen.lattice(SQUARE, [(3, 3), (3, 3)])
  assert len(found) == 6  # none, P4, H2, V2, H2V2, D4
  d4 = found.network(SQUARE)
  assert found.shortest(d4) == [SQUARE[:2], ('rotation', 'vertical_flip')]
  assert found.coarser(d4) == []
  assert found.finer(0) == []
  assert set(found.finer(d4)) == {
    found.network(('rotation',)),
    found.network(('horizontal_flip', 'vertical_flip')),
  }


def test_symmetries_that_do_nothing_are_in_every_network():
  found = aen.lattice(('horizontal_translation', 'rotation'), [(4, 4), (4, 4)])
  assert found.network_of.tolist() == [0, 0, 1, 1]
  assert found.implied(()) == ('horizontal_translation',)


def test_an_empty_table_and_users_own_symmetries():
  network_of, shortest_states = aen.distinct_networks((), [(3,), (2,)])
  assert (network_of.tolist(), shortest_states.tolist()) == ([0], [0])
  found = aen.lattice(
    [lambda x: x[::-1], lambda x: np.roll(x, 1)], [(5,), (5,)]
  )
  assert found.num_weights.ravel().tolist() == [25, 13, 5, 3]


def test_a_lattice_is_read_from_the_disk_cache(tmp_path, monkeypatch):
  monkeypatch.setenv('AEN_CACHE_DIR', str(tmp_path))
  table, grids = ('rotation', 'horizontal_flip'), [(4, 4), (6, 6), (4, 4)]
  computed = aen.lattice(table, grids)
  assert not list(tmp_path.iterdir())  # it takes no time
  monkeypatch.setattr(lattice_lib, '_MIN_CACHED', 0)
  stored = aen.lattice(table, grids)
  (file,) = tmp_path.iterdir()
  with monkeypatch.context() as patch:
    patch.setattr(lattice_lib, '_networks', None)
    read = aen.lattice(table, grids)
    with pytest.raises(TypeError):  # what symmetries do is part of the key
      aen.lattice(('rotation', 'vertical_flip'), grids)
  for other in (stored, read):
    assert other.symmetries == computed.symmetries
    for name in ('network_of', 'shortest_states', 'implied_states'):
      np.testing.assert_array_equal(
        getattr(other, name), getattr(computed, name)
      )
    np.testing.assert_array_equal(other.num_weights, computed.num_weights)
    assert other.num_weights.shape == (len(computed), 2)
  file.write_bytes(file.read_bytes()[:-1])
  assert len(aen.lattice(table, grids)) == len(computed)


def test_errors():
  with pytest.raises(ValueError, match='at least one of outputs'):
    aen.lattice(SQUARE, [(4, 4)])
  with pytest.raises(ValueError, match='grids must be a list of grids'):
    aen.lattice(SQUARE, (6, 6))
  with pytest.raises(ValueError, match='a number from 0 to 5, got 99'):
    aen.lattice(SQUARE, [(4, 4), (4, 4)]).shortest(99)
  with pytest.raises(ValueError, match='at most 20, got 21'):
    aen.lattice([aen.Symmetry(f's{i}', abs) for i in range(21)], [(4,), (4,)])
  with pytest.raises(ValueError, match='rotation_scramble is not in this'):
    aen.lattice(SQUARE, [(4, 4), (4, 4)]).network('rotation_scramble')


@pytest.mark.slow
def test_large_grids_whose_orbits_are_copies():
  found = aen.lattice('horizontal_flip', [(200, 200), (200, 200), (150, 150)])
  layers = np.array([40000 * 40000, 40000 * 22500])
  np.testing.assert_array_equal(found.num_weights, [layers, layers // 2])


def random_action(rng, num_symmetries):
  """Permutations of points that fall into orbits, some of them copies."""
  parts = []
  for _ in range(3):
    size, copies = rng.integers(1, 5), rng.integers(1, 4)
    part = [rng.permutation(size) for _ in range(num_symmetries)]
    parts += [part] * copies
  starts = np.cumsum([0, *(part[0].size for part in parts)])
  points = [
    np.concatenate(
      [part[k] + s for part, s in zip(parts, starts, strict=False)]
    )
    for k in range(num_symmetries)
  ]
  relabel = rng.permutation(starts[-1])  # copies lie anywhere
  return [relabel[p[np.argsort(relabel)]] for p in points]


@pytest.mark.parametrize('seed', range(30))
def test_random_tables_against_scipys_components(seed):
  """Leaving out copies of orbits changes neither networks nor counts."""
  rng = np.random.default_rng(seed)
  num_symmetries = int(rng.integers(1, 4))
  inputs, outputs = (random_action(rng, num_symmetries) for _ in range(2))
  sizes = inputs[0].size, outputs[0].size
  if sizes[0] == sizes[1]:  # a symmetry has one action per number of points
    outputs = inputs
  table = [
    symmetries_lib.named(f's{k}', (inputs[k], outputs[k]))
    for k in range(num_symmetries)
  ]
  found = aen.lattice(table, [(sizes[0],), (sizes[1],), (sizes[1],)])
  number = {}
  for state in range(2**num_symmetries):
    labels, counts = [], []
    for first, second in ((inputs, outputs), (outputs, outputs)):
      size = first[0].size * second[0].size
      graph = coo_array((size, size))
      for k in range(num_symmetries):
        if state >> k & 1:
          image = (
            first[k][:, None] * second[k].size + second[k][None, :]
          ).ravel()
          edges = (np.ones(size), (np.arange(size), image))
          graph = graph + coo_array(edges, (size, size))
      count, component = connected_components(graph, directed=False)
      labels.append(aen.join(component.astype(np.int64)).tobytes())
      counts.append(count)
    network = found.network_of[state]
    assert network == number.setdefault(tuple(labels), len(number))
    assert found.num_weights[network].tolist() == counts
  assert len(found) == len(number)
