import contextlib
import dataclasses

import numpy as np
import pytest

import aen
from aen.search import landscape as landscape_lib

SQUARE = ('rotation', 'horizontal_flip', 'vertical_flip')


def square_landscape(**changes):
  lattice = aen.lattice(SQUARE, [(4, 4), (4, 4)])
  rng = np.random.default_rng(0)
  fields = dict(
    name='planted',
    symmetries=SQUARE,
    network_of=lattice.network_of,
    weights=lattice.num_weights.sum(axis=1),
    seeds=np.arange(3),
    validation=rng.random((len(lattice), 3, 4)),
    test=rng.random((len(lattice), 3, 4)),
    seconds=rng.random((len(lattice), 3)),
  )
  return aen.Landscape(**fields | changes)


def test_a_saved_landscape_comes_back(tmp_path):
  landscape = square_landscape()
  landscape.save(tmp_path / 'deep' / 'x.npz')
  loaded = landscape_lib.load(tmp_path / 'deep' / 'x.npz')
  for field in dataclasses.fields(aen.Landscape):
    ours, theirs = (getattr(x, field.name) for x in (landscape, loaded))
    np.testing.assert_array_equal(ours, theirs)
    if isinstance(ours, np.ndarray):
      assert ours.dtype == theirs.dtype
      assert not theirs.flags.writeable
  assert [path.name for path in (tmp_path / 'deep').iterdir()] == ['x.npz']
  assert repr(loaded) == (
    "Landscape('planted', 3 symmetries, 6 networks, 3 seeds, 4 epochs)"
  )
  assert len(loaded) == 6


def test_networks_have_names():
  landscape = square_landscape()
  assert landscape.names(0) == ()
  for network in range(len(landscape)):
    assert landscape.network(landscape.names(network)) == network
  square = ('rotation', 'vertical_flip', 'horizontal_flip')
  assert landscape.network(square) == landscape.network(square[:2])


def test_several_landscapes_in_one_file(tmp_path):
  path = tmp_path / 'all.npz'
  rng = np.random.default_rng(1)
  several = [
    square_landscape(name=name, test=rng.random((6, 3, 4)))
    for name in ('a/one', 'b/two')
  ]
  landscape_lib.save_all(path, several)
  loaded = landscape_lib.load_all(path)
  assert [*loaded] == ['a/one', 'b/two']
  prints = [landscape.fingerprint for landscape in several]
  assert [found.fingerprint for found in loaded.values()] == prints
  with pytest.raises(ValueError, match='has 2 landscapes; read them with'):
    landscape_lib.load(path)
  several[0].save(tmp_path / 'one.npz')
  (alone,) = landscape_lib.load_all(tmp_path / 'one.npz').values()
  assert alone.fingerprint == prints[0]
  with np.load(path) as stored:
    arrays = dict(stored)
  arrays['test'][1, 0, 0, 0] += 0.5
  np.savez(path, **arrays)
  with pytest.raises(ValueError, match='checksum does not match: b/two'):
    landscape_lib.load_all(path)
  other = square_landscape(name='c', seeds=np.arange(1, 4))
  with pytest.raises(ValueError, match="same seeds, but those of 'a/one' and"):
    landscape_lib.save_all(path, [*several, other])


def test_every_damage_is_one_clear_error(tmp_path):
  path = tmp_path / 'x.npz'
  square_landscape().save(path)
  whole, expected = path.read_bytes(), square_landscape().test
  rng = np.random.default_rng(1)
  for cut in (0, 1, 30, len(whole) // 2, len(whole) - 1):
    path.write_bytes(whole[:cut])
    with pytest.raises(ValueError, match='expected a landscape'):
      landscape_lib.load(path)
  for _ in range(200):
    position = int(rng.integers(len(whole)))
    damaged = bytearray(whole)
    damaged[position] ^= 1 << int(rng.integers(8))
    path.write_bytes(damaged)
    # Some bytes of a zip file mean nothing, such as its dates.
    with contextlib.suppress(ValueError):
      np.testing.assert_array_equal(landscape_lib.load(path).test, expected)


def test_a_changed_number_is_noticed(tmp_path):
  path = tmp_path / 'x.npz'
  square_landscape().save(path)
  with np.load(path) as stored:
    arrays = dict(stored)
  arrays['validation'] = arrays['validation'] * np.float32(0.999)
  np.savez(path, **arrays)
  with pytest.raises(ValueError, match='checksum does not match'):
    landscape_lib.load(path)


def test_pickles_are_never_read(tmp_path):
  path = tmp_path / 'x.npz'
  np.savez(path, name=np.array([{}], dtype=object))
  with pytest.raises(ValueError, match='expected a landscape'):
    landscape_lib.load(path)
  with pytest.raises(FileNotFoundError):
    landscape_lib.load(tmp_path / 'nowhere.npz')


@pytest.mark.parametrize(
  ('changes', 'says'),
  [
    ({'test': np.zeros((6, 3, 3))}, r'test must have shape \(6, 3, 4\)'),
    ({'network_of': np.zeros(8, int)}, 'networks 0 to 5'),
    ({'network_of': np.zeros(4, int)}, r'network_of must have shape \(8,\)'),
    ({'validation': np.full((6, 3, 4), 97.0)}, 'from 0 to 1'),
    ({'validation': np.full((6, 3, 4), np.nan)}, 'from 0 to 1'),
    ({'validation': np.zeros(())}, 'validation must have shape'),
    (
      {'validation': np.zeros((6, 3, 0)), 'test': np.zeros((6, 3, 0))},
      'is empty',
    ),
  ],
)
def test_parts_that_do_not_fit_are_refused(changes, says):
  with pytest.raises(ValueError, match=says):
    square_landscape(**changes)


def test_what_a_search_sees_and_what_is_true():
  validation = np.zeros((6, 3, 4), np.float32)
  validation[1] = [[0.1, 0.4, 0.2, 0.4], [0, 0, 0, 0.3], [0.2, 0.1, 0, 0]]
  test = np.zeros((6, 3, 4), np.float32)
  test[1] = [[0, 0.6, 0, 0.9], [0, 0, 0, 0.3], [0.3, 0, 0, 0]]
  landscape = square_landscape(validation=validation, test=test)
  np.testing.assert_allclose(landscape.best_so_far(0)[1], [0.1, 0.4, 0.4, 0.4])
  np.testing.assert_allclose(landscape.best_so_far(2)[1], [0.2] * 4)
  np.testing.assert_allclose(landscape.values()[1], 0.4)
  np.testing.assert_allclose(landscape.values('validation')[1], 0.3)
  with pytest.raises(ValueError, match="got 'train'"):
    landscape.values('train')
