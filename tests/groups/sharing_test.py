import concurrent.futures
import errno
import functools
import os
import subprocess
import sys

import numpy as np
import pytest

import aen
from aen.groups import sharing as sharing_lib

GRIDS = [
  ((28, 28), (20, 20)),
  ((8, 8), (4, 4)),
  ((6, 6), (6, 6)),
  ((4, 4), (1,)),
]


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
  """An empty disk cache that takes partitions of any size."""
  monkeypatch.setenv('AEN_CACHE_DIR', str(tmp_path))
  monkeypatch.setattr(sharing_lib, 'MIN_CACHED_POINTS', 0)
  sharing_lib.clear_memory_cache()
  yield tmp_path
  sharing_lib.clear_memory_cache()


@pytest.mark.parametrize('name', aen.SYMMETRIES)
@pytest.mark.parametrize(('in_shape', 'out_shape'), GRIDS[:3])
def test_kernels_and_biases_do_not_change_under_the_symmetry(
  name, in_shape, out_shape
):
  shared = aen.dense_sharing((name,), in_shape, out_shape)
  p, q = aen.permutation(name, in_shape), aen.permutation(name, out_shape)
  assert shared.kernel.dtype == shared.bias.dtype == np.int32
  np.testing.assert_array_equal(shared.kernel[p][:, q], shared.kernel)
  np.testing.assert_array_equal(shared.bias[q], shared.bias)
  assert shared.num_weights == len(np.unique(shared.kernel))
  assert shared.num_biases == len(np.unique(shared.bias))


@pytest.mark.parametrize('name', aen.SYMMETRIES)
def test_invariant_layers(name):
  shared = aen.dense_sharing((name,), (8, 8), (10,), invariant=True)
  p = aen.permutation(name, (8, 8))
  np.testing.assert_array_equal(shared.kernel[p], shared.kernel)
  assert shared.num_weights == 10 * (aen.orbits([p], 64).max() + 1)
  assert shared.num_biases == 10


def test_no_symmetry_shares_nothing():
  shared = aen.dense_sharing((), (3, 3), (2,))
  np.testing.assert_array_equal(shared.kernel, np.arange(18).reshape(9, 2))
  assert (shared.num_weights, shared.num_biases) == (18, 2)


def test_sharings_of_several_symmetries_are_joins():
  names = list(aen.SYMMETRIES)[:4]
  shared = aen.dense_sharing(names, (8, 8), (4, 4))
  generators = [
    aen.pair(aen.permutation(n, (8, 8)), aen.permutation(n, (4, 4)))
    for n in names
  ]
  expected = aen.orbits(generators, 64 * 16)
  np.testing.assert_array_equal(shared.kernel.ravel(), expected)
  parts = [aen.dense_sharing((n,), (8, 8), (4, 4)) for n in names]
  joined = aen.join(*(part.kernel.ravel() for part in parts))
  np.testing.assert_array_equal(joined, expected)


def test_equal_key_means_equal_sharing():
  shared = functools.partial(aen.dense_sharing, in_shape=(8, 8))
  one = shared(('rotation', 'horizontal_flip'), out_shape=(4, 4))
  same = shared(('vertical_flip', 'rotation'), out_shape=(4, 4))
  renamed = shared([np.rot90, lambda x: x[:, ::-1]], out_shape=(4, 4))
  assert one.key == same.key == renamed.key
  assert one == same
  assert len({one, same, renamed}) == 1
  others = [
    shared(('rotation',), out_shape=(4, 4)),
    shared(('rotation', 'horizontal_flip'), out_shape=(16,), invariant=True),
    shared((), out_shape=(4, 4)),
    aen.dense_sharing((), (4, 4), (8, 8)),  # as many weights, another shape
  ]
  assert len({one, *others}) == 5


def test_shared_arrays_cannot_be_changed_by_accident():
  shared = aen.dense_sharing(('rotation',), (4, 4), (4, 4))
  with pytest.raises(ValueError, match='read-only'):
    shared.kernel[0, 0] = 5


def test_named_symmetries_must_act_on_both_grids():
  with pytest.raises(ValueError, match='rotation needs a square grid'):
    aen.dense_sharing(('rotation',), (8, 8), (4, 6))


@pytest.mark.parametrize(
  ('names', 'order'),
  [
    ((), 1),
    (('horizontal_flip',), 2),
    (('horizontal_flip', 'vertical_flip'), 4),
    (('rotation',), 4),
    (('rotation', 'vertical_flip'), 8),
  ],
)
@pytest.mark.parametrize('side', [1, 2, 3, 5])
def test_convolutions_have_one_filter_per_channel_pair(names, order, side):
  """The group acts freely on its own axis: |kernel| / |G| weights, exactly."""
  group = aen.group(names)
  lifting = aen.conv_sharing(group, (side, side), lifting=True)
  deeper = aen.conv_sharing(names, (side, side), lifting=False)
  assert lifting.kernel.shape == (side, side, order)
  assert deeper.kernel.shape == (side, side, order, order)
  assert lifting.num_weights == side**2
  assert deeper.num_weights == side**2 * order
  assert lifting.num_biases == deeper.num_biases == 1


def test_lifting_kernels_are_rotated_copies_of_one_filter():
  group = aen.group(('rotation', 'horizontal_flip'))
  kernel = aen.conv_sharing(group, (3, 3), lifting=True).kernel
  for g in range(group.order):
    np.testing.assert_array_equal(
      kernel[..., g], group.symmetry(g)(kernel[..., 0])
    )


def test_deeper_kernels_follow_the_definition():
  """K[r, h, k] = ψ(k⁻¹ h, k⁻¹ r): the group convolution, written out."""
  group = aen.group(('rotation', 'horizontal_flip'))
  kernel = aen.conv_sharing(group, (3, 3), lifting=False).kernel
  filters = kernel[..., 0]  # ψ: what the identity's output sees
  for k in range(group.order):
    transformed = group.symmetry(k)(filters)
    for h in range(group.order):
      source = group.table[group.inverse[k], h]
      np.testing.assert_array_equal(kernel[..., h, k], transformed[..., source])


def test_convolutions_in_one_and_three_dimensions():
  mirror = aen.conv_sharing([lambda x: x[::-1]], (5,), lifting=False)
  assert mirror.kernel.shape == (5, 2, 2)
  cube = aen.group([np.rot90, lambda x: x.transpose(1, 2, 0)], ndim=3)
  assert aen.conv_sharing(cube, (3, 3, 3), lifting=True).num_weights == 27
  with pytest.raises(ValueError, match='the kernel needs as many sides'):
    aen.conv_sharing(cube, (3, 3), lifting=True)
  with pytest.raises(ValueError, match='rotation'):
    aen.conv_sharing(('rotation',), (3, 5), lifting=True)


def test_labels_of_all_symmetries_but_one_are_used(monkeypatch):
  """Against orbits from nothing, over subsets of the whole table."""
  rng = np.random.default_rng(0)
  table = np.array(list(aen.SYMMETRIES))
  steps = []
  add_pair = sharing_lib.add_pair
  for _ in range(20):
    sharing_lib.clear_memory_cache()
    names = rng.permutation(table)[: rng.integers(2, 6)].tolist()
    whole = aen.dense_sharing(names, (8, 8), (4, 4))
    sharing_lib.clear_memory_cache()
    left_out = rng.integers(len(names))
    aen.dense_sharing(np.delete(names, left_out).tolist(), (8, 8), (4, 4))
    with monkeypatch.context() as patch:
      patch.setattr(
        sharing_lib, 'add_pair', lambda *a: steps.append(a) or add_pair(*a)
      )
      assert aen.dense_sharing(names, (8, 8), (4, 4)) == whole
  assert len(steps) <= 20


def compute(names=('rotation', 'vertical_flip')):
  return aen.dense_sharing(names, (8, 8), (4, 4))


def forbid_computing(monkeypatch):
  def fail(*_):
    raise AssertionError('orbits of the kernel were computed again')

  monkeypatch.setattr(sharing_lib, 'add_pair', fail)


def test_disk_cache_is_read_back(cache_dir, monkeypatch):
  first = compute()
  assert len(list(cache_dir.iterdir())) == 1
  sharing_lib.clear_memory_cache()
  forbid_computing(monkeypatch)
  assert compute() == first
  assert compute(('vertical_flip', 'rotation')) == first


def test_memory_cache_comes_before_disk(cache_dir, monkeypatch):
  first = compute()
  for path in cache_dir.iterdir():
    path.unlink()
  forbid_computing(monkeypatch)
  assert compute() == first


def swap_two_labels(stored):
  return stored[:32] + stored[36:40] + stored[32:36] + stored[40:]


@pytest.mark.parametrize(
  'damage',
  [
    lambda stored: b'',
    lambda stored: stored[:-4],
    lambda stored: stored + b'\0\0\0\0',
    lambda stored: stored[:100] + b'\xff' + stored[101:],
    swap_two_labels,
    lambda stored: b'\x80\x04K\x01.',  # a pickle
  ],
)
def test_a_damaged_file_is_recomputed_and_mended(cache_dir, damage):
  first = compute()
  good = {path: path.read_bytes() for path in cache_dir.iterdir()}
  for path, stored in good.items():
    path.write_bytes(damage(stored))
  sharing_lib.clear_memory_cache()
  assert compute() == first
  assert {path: path.read_bytes() for path in cache_dir.iterdir()} == good


def test_a_file_under_a_wrong_name_is_not_trusted(cache_dir):
  first = compute()
  compute(('rotation',))
  contents = [(path, path.read_bytes()) for path in sorted(cache_dir.iterdir())]
  for (path, _), (_, stored) in zip(
    contents, contents[1:] + contents[:1], strict=True
  ):
    path.write_bytes(stored)
  sharing_lib.clear_memory_cache()
  assert compute() == first


def test_a_full_disk_costs_a_warning_and_nothing_else(cache_dir, monkeypatch):
  def full(*_):
    raise OSError(errno.ENOSPC, 'No space left on device')

  expected = compute()
  for path in cache_dir.iterdir():
    path.unlink()
  sharing_lib.clear_memory_cache()
  monkeypatch.setattr(os, 'replace', full)
  with pytest.warns(UserWarning, match='cannot cache orbits.*No space left'):
    assert compute() == expected
  assert list(cache_dir.iterdir()) == []  # no half-written file stays behind


def test_an_empty_cache_dir_turns_the_disk_off(cache_dir, monkeypatch):
  monkeypatch.setenv('AEN_CACHE_DIR', '')
  compute()
  assert list(cache_dir.iterdir()) == []


def test_many_processes_may_fill_one_cache(cache_dir):
  code = (
    'import aen; from aen.groups import sharing; sharing.MIN_CACHED_POINTS = 0;'
    'print(aen.dense_sharing(tuple(aen.SYMMETRIES), (8, 8), (4, 4)).key)'
  )
  runs = [
    subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)
    for _ in range(4)
  ]
  keys = {run.communicate()[0].decode().strip() for run in runs}
  assert keys == {compute(tuple(aen.SYMMETRIES)).key}
  assert all(path.suffix == '.labels' for path in cache_dir.iterdir())


def test_memory_is_bounded(monkeypatch):
  sharing_lib.clear_memory_cache()
  monkeypatch.setattr(sharing_lib, 'MEMORY_CACHE_BYTES', 3 * 4 * 64 * 16)
  for name in aen.SYMMETRIES:
    aen.dense_sharing((name,), (8, 8), (4, 4))
  assert len(sharing_lib._memory) == 3
  monkeypatch.setattr(sharing_lib, 'MEMORY_CACHE_ENTRIES', 2)
  kept = [aen.conv_sharing(('rotation',), (3, 3), bool(n)) for n in (0, 1)]
  assert list(sharing_lib._memory.values()) == kept
  assert aen.conv_sharing(('rotation',), (3, 3), False) is kept[0]
  sharing_lib.clear_memory_cache()


def test_threads_may_share_the_caches(monkeypatch):
  sharing_lib.clear_memory_cache()
  monkeypatch.setattr(sharing_lib, 'MEMORY_CACHE_BYTES', 2 * 4 * 64 * 16)
  names = list(aen.SYMMETRIES) * 20

  def key(name):
    return aen.dense_sharing((name,), (8, 8), (4, 4)).key

  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = dict(zip(names, pool.map(key, names), strict=True))
  assert found == {name: key(name) for name in aen.SYMMETRIES}
  sharing_lib.clear_memory_cache()


def test_repr_says_what_is_free():
  assert repr(aen.dense_sharing(('rotation',), (28, 28), (20, 20))) == (
    'Sharing(784×400 = 313 600 weights, 78 400 free)'
  )


def test_kernels_that_are_too_large_are_said():
  for symmetries in ((), (np.flip,)):
    with pytest.raises(ValueError, match='more than 2..31 - 1 kernel entries'):
      aen.dense_sharing(symmetries, (100000,), (100000,))
