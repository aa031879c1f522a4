"""Loading by name, splits, fingerprints, and data of one's own."""

import subprocess
import sys

import numpy as np
from PIL import Image
import pytest

import aen
from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import load as load_lib
from aen.data import splits
from aen.data import transform
from aen.groups import symmetries as symmetries_lib
from tests.data import tiny


@pytest.fixture(scope='module')
def board_game():
  return aen.load_dataset('tic_tac_toe')


def run_python(code):
  result = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=False
  )
  assert result.returncode == 0, result.stderr
  return result.stdout.strip()


def test_import_aen_imports_no_tfds():
  code = (
    'import sys, aen; print(any(name in sys.modules for name in'
    ' ("tensorflow_datasets", "sklearn", "PIL", "matplotlib", "aen.data")))'
  )
  assert run_python(code) == 'False'


def test_embedded_sets_and_npz_need_neither_tfds_nor_pillow(tmp_path):
  code = (
    'import sys\n'
    'for name in ("tensorflow_datasets", "PIL", "matplotlib", "tensorflow"):\n'
    '  sys.modules[name] = None\n'
    'from aen.data import finding, load, prepare\n'
    'places = finding.Places()\n'
    f'path = prepare.write_npz("g_digits/aug3", places, {str(tmp_path)!r})\n'
    'print(load.load_dataset(path).train.images.shape)'
  )
  assert run_python(code) == '(1250, 16, 16)'


def test_digits_are_scikit_learns_doubled():
  from sklearn import datasets as sklearn_datasets

  data = aen.load_dataset('digits', num_validation=0)
  images = np.concatenate([data.train.images, data.test.images])
  labels = np.concatenate([data.train.labels, data.test.labels])
  bunch = sklearn_datasets.load_digits()
  assert images.dtype == np.uint8
  assert images.max() == 255
  np.testing.assert_array_equal(labels, bunch.target)
  for i in (0, 1):
    for j in (0, 1):
      grey = np.rint(images[:, i::2, j::2] / 255 * 16)
      np.testing.assert_array_equal(grey, bunch.images)
  assert (np.bincount(data.test.labels) >= 25).all()


def all_boards():
  data = aen.load_dataset('tic_tac_toe', num_validation=0)
  images = np.concatenate([data.train.images, data.test.images])
  return images, np.concatenate([data.train.labels, data.test.labels])


def test_tic_tac_toe_is_the_classical_set(board_game):
  images, labels = all_boards()
  assert images.shape == (958, 3, 3)
  assert len(np.unique(images.reshape(958, 9), axis=0)) == 958
  assert np.bincount(labels).tolist() == [626, 316, 16]
  assert board_game.class_names == ('x wins', 'o wins', 'draw')
  x_count, o_count = ((images == v).sum((1, 2)) for v in (255, 1))
  assert set(x_count - o_count) == {0, 1}
  assert (x_count - o_count)[labels == 0].min() == 1


def test_tic_tac_toe_has_exactly_the_squares_symmetries():
  images, labels = all_boards()
  outcome = {x.tobytes(): y for x, y in zip(images, labels, strict=True)}

  def kept(symmetry):
    transformed = (
      np.ascontiguousarray(symmetry(image)).tobytes() for image in images
    )
    return all(
      outcome.get(key) == label
      for key, label in zip(transformed, labels, strict=True)
    )

  names = ('rotation', 'horizontal_flip', 'vertical_flip')
  assert all(kept(symmetries_lib.SYMMETRIES[name]) for name in names)
  assert not kept(symmetries_lib.SYMMETRIES['horizontal_translation'])


@pytest.mark.parametrize('name', catalogue.G_NAMES)
def test_every_g_name_is_found(name):
  source, config = catalogue.find(f'g_{name}/aug3_group')
  assert source.name == name
  assert config.name == 'aug3_group'


def test_unknown_names_get_a_suggestion():
  with pytest.raises(ValueError, match="did you mean 'fashion_mnist'"):
    aen.load_dataset('fashon_mnist')
  with pytest.raises(ValueError, match="did you mean 'g_digits/aug3'"):
    aen.load_dataset('g_digit/aug3')
  with pytest.raises(ValueError, match="did you mean 'iaug3'"):
    aen.load_dataset('g_digits/iaug13')
  with pytest.raises(ValueError, match="did you mean 'emnist/letters'"):
    aen.load_dataset('emnist')
  with pytest.raises(ValueError, match="did you mean 'g_mnist/aug3'"):
    aen.load_dataset('g_mnist')
  with pytest.raises(ValueError, match='grey square'):
    aen.load_dataset('g_cifar10/aug3')
  with pytest.raises(ValueError, match="unknown size 'serach'; did you mean"):
    aen.load_dataset('digits', size='serach')


def test_a_g_set_carries_its_record():
  data = aen.load_dataset('g_digits/aug5_group', num_train=100)
  original = aen.load_dataset('digits', num_train=100)
  for split in ('train', 'validation', 'test'):
    found, expected = getattr(data, split), getattr(original, split)
    back = transform.invert(found.images, found.record)
    np.testing.assert_array_equal(back, expected.images)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.indices, expected.indices)


def test_paper_sizes():
  assert splits.PAPER_SIZES['search'] == splits.Choice(4000, 1000, None)
  assert splits.PAPER_SIZES['retrain'] == splits.Choice(10000, None, 1000)
  assert splits.PAPER_SIZES['gcnn'] == splits.Choice(6000, 1000, None)
  data = tiny.random_parts((12000, 2000), (2, 2), 10)
  for name, counts in {
    'search': (4000, 1000),
    'retrain': (10000, 2000),
    'gcnn': (6000, 1000),
  }.items():
    sizes = splits.paper_sizes(name)
    rows = splits.choose_train(data.train.labels, None, sizes)
    assert tuple(len(r) for r in rows) == counts


def test_explicit_numbers_override_a_paper_size():
  with pytest.raises(ValueError, match='num_train=4000 is impossible'):
    aen.load_dataset('digits', size='search')
  data = aen.load_dataset('digits', size='search', num_train=500)
  assert (len(data.train), len(data.validation)) == (500, 1000)


@pytest.mark.parametrize('stratified', [True, False])
@pytest.mark.parametrize('seed', [0, 1])
def test_splits_never_leak_and_are_nested(seed, stratified):
  labels = tiny.random_parts((600, 10), (2, 2), 10).train.labels

  def choose(train, validation):
    choice = splits.Choice(train, validation, None, seed, stratified)
    return splits.choose_train(labels, None, choice)

  few, held = choose(100, 50)
  more, held_more = choose(400, 200)
  assert not set(few) & set(held)
  assert not set(more) & set(held_more)
  assert set(few) < set(more)
  assert set(held) < set(held_more)
  assert (np.diff(few) > 0).all()
  np.testing.assert_array_equal(choose(100, 200)[0], few)
  np.testing.assert_array_equal(choose(100, 50)[1], held)


def test_stratified_splits_keep_proportions():
  labels = np.repeat(np.arange(3), (600, 300, 100)).astype(np.int32)
  for count in (10, 100, 333):
    choice = splits.Choice(count, count, seed=3)
    for rows in splits.choose_train(labels, None, choice):
      found = np.bincount(labels[rows], minlength=3)
      assert np.abs(found - count * np.array([0.6, 0.3, 0.1])).max() <= 1


def test_groups_are_never_divided():
  groups = np.repeat(np.arange(40), 15)
  labels = tiny.random_parts((600, 10), (2, 2), 10).train.labels
  choice = splits.Choice(None, 100)
  train, held = splits.choose_train(labels, groups, choice)
  assert len(held) == 100
  assert not set(groups[train]) & set(groups[held])
  assert len(train) == 600 - 7 * 15  # the seventh group was cut in two


def test_impossible_sizes_are_errors():
  with pytest.raises(ValueError, match='1500 images; ask for 0…1500'):
    aen.load_dataset('digits', num_train=2000)
  with pytest.raises(ValueError, match='300 of 1500 are left to train on'):
    aen.load_dataset('digits', num_train=1000, num_validation=1200)
  with pytest.raises(ValueError, match='num_test=-1'):
    aen.load_dataset('digits', num_test=-1)


def test_validation_takes_at_most_what_training_leaves():
  data = aen.load_dataset('digits', num_train=1400)
  assert (len(data.train), len(data.validation)) == (1400, 100)


def test_fingerprint_is_of_exactly_the_images(board_game):
  again = aen.load_dataset('tic_tac_toe')
  assert board_game.fingerprint == again.fingerprint
  variants = [
    aen.load_dataset('tic_tac_toe', seed=1),
    aen.load_dataset('tic_tac_toe', num_test=100),
    aen.load_dataset('tic_tac_toe', stratified=False),
    board_game.normalised(),
  ]
  prints = {board_game.fingerprint, *(v.fingerprint for v in variants)}
  assert len(prints) == 5


# A change of these means that the same call gives other images.
def test_fingerprints_are_pinned(board_game):
  assert board_game.fingerprint == 'acd1506a91e2850b66e5414953ead7b4'
  data = aen.load_dataset('g_digits/aug5')
  assert data.fingerprint == 'f122f7b2e826dc019253a7dfcf4742d1'


def test_normalised_as_published():
  data = aen.load_dataset('digits', num_train=50)
  images = data.normalised().train.images
  expected = (data.train.images.astype(np.float64) / 255 - 0.1307) / 0.3081
  assert images.dtype == np.float32
  np.testing.assert_allclose(images, expected, atol=1e-6)
  unit = data.normalised(mean=0, std=1)
  assert unit.test.images.max() == 1.0
  with pytest.raises(ValueError, match='call it once'):
    unit.normalised()


def test_repr_tells_what_is_there(board_game):
  assert repr(board_game) == (
    "Dataset('tic_tac_toe', 584/116/258 train/validation/test images of"
    ' 3 x 3, 3 classes)'
  )
  assert board_game.num_classes == 3
  assert board_game.image_shape == (3, 3)


@pytest.fixture
def folder(tmp_path):
  random = np.random.default_rng(0)
  for name in ('cat', 'dog'):
    (tmp_path / name).mkdir()
    for i in range(12):
      image = Image.fromarray(random.integers(0, 256, (8, 8), np.uint8))
      image.save(tmp_path / name / f'{i:02d}.png')
  return tmp_path


def test_folder_of_class_folders(folder):
  data = aen.load_dataset(folder, num_validation=4)
  assert data.class_names == ('cat', 'dog')
  assert [len(s) for s in (data.train, data.validation, data.test)] == [
    16,
    4,
    4,
  ]
  assert data.image_shape == (8, 8)
  assert np.bincount(data.test.labels).tolist() == [2, 2]
  assert aen.load_dataset(str(folder)).name == folder.name


def test_folder_with_its_own_test_images(folder):
  for split in ('train', 'test'):
    for name in ('cat', 'dog'):
      (folder / split / name).mkdir(parents=True)
      for i in range(6):
        colour = Image.new('RGB', (4, 6), (i, 2 * i, 3 * i))
        colour.save(folder / split / name / f'{i}.png')
  data = aen.load_dataset(folder)
  assert data.image_shape == (6, 4, 3)
  assert (len(data.train) + len(data.validation), len(data.test)) == (12, 12)


def test_names_come_before_folders_of_the_same_name(folder, monkeypatch):
  (folder / 'g_digits' / 'aug3').mkdir(parents=True)
  monkeypatch.chdir(folder)
  assert aen.load_dataset('g_digits/aug3').num_classes == 10


def test_bad_folders_are_errors(folder, tmp_path_factory):
  with pytest.raises(ValueError, match='expected one folder per class'):
    aen.load_dataset(tmp_path_factory.mktemp('empty'))
  Image.new('L', (9, 8)).save(folder / 'dog' / 'wide.png')
  with pytest.raises(
    ValueError, match=r'wide.png: expected images of one size'
  ):
    aen.load_dataset(folder)
  (folder / 'dog' / 'wide.png').write_bytes(b'no image')
  with pytest.raises(ValueError, match=r'wide.png: expected an image that'):
    aen.load_dataset(folder)
  with pytest.raises(FileNotFoundError, match='check the path'):
    aen.load_dataset(folder / 'missing')


def test_npz_of_ones_own(tmp_path):
  parts = tiny.random_parts((60, 12), (8, 8, 3), 4)
  path = tmp_path / 'mine.npz'
  np.savez(path, x_train=parts.train.images, y_train=parts.train.labels)
  data = aen.load_dataset(path)
  assert data.name == 'mine'
  assert len(data.test) == 10
  assert data.class_names == ('0', '1', '2', '3')
  np.savez(path, images=parts.train.images)
  with pytest.raises(ValueError, match='expected the arrays x_train, y_train'):
    aen.load_dataset(path)
  path.write_bytes(path.read_bytes()[:2000])
  with pytest.raises(ValueError, match='truncated or damaged'):
    aen.load_dataset(path)


def test_arrays_of_ones_own():
  parts = tiny.random_parts((60, 12), (8, 8), 4)
  images, labels = parts.train.images, parts.train.labels
  data = load_lib.from_arrays(
    images[..., None],
    labels,
    test_images=parts.test.images,
    test_labels=parts.test.labels,
    class_names=('a', 'b', 'c', 'd'),
  )
  assert data.image_shape == (8, 8)
  assert [len(s) for s in (data.train, data.validation, data.test)] == [
    50,
    10,
    12,
  ]
  floats = load_lib.from_arrays(images / 255, labels)
  assert floats.train.images.dtype == np.float32


def test_examples_may_be_downscaled():
  parts = tiny.random_parts((60, 12), (8, 8), 4)
  images, test = parts.train.images, parts.test.images
  data = load_lib.from_examples(
    images,
    parts.train.labels,
    test_images=test,
    test_labels=parts.test.labels,
    downscale=4,
  )
  assert data.image_shape == (2, 2)
  for split, full in ((data.train, images), (data.test, test)):
    corners = full[split.indices, :4, :4].mean(axis=(1, 2))
    np.testing.assert_array_equal(split.images[:, 0, 0], corners)
    assert split.images.dtype == np.float32


def test_wrong_arrays_are_errors():
  parts = tiny.random_parts((60, 12), (8, 8), 4)
  images, labels = parts.train.images, parts.train.labels
  for arguments, message in (
    ((images.astype(int), labels), 'uint8'),
    ((images[0], labels), r'\[N, H, W\]'),
    ((images, labels[:-1]), 'one label per image'),
    ((images, labels - 1), 'whole labels from 0'),
    ((images, labels / 2), 'whole labels from 0'),
  ):
    with pytest.raises(ValueError, match=message):
      load_lib.from_arrays(*arguments)
  with pytest.raises(ValueError, match='or neither'):
    load_lib.from_arrays(images, labels, test_images=images)
  with pytest.raises(ValueError, match=r'test images of shape \(8, 8\)'):
    load_lib.from_arrays(
      images, labels, test_images=images[:, :4], test_labels=labels
    )
  with pytest.raises(ValueError, match='labels 0…3, got 2 names'):
    load_lib.from_arrays(images, labels, class_names=('a', 'b'))


def test_refolding_redraws_the_division():
  data = aen.load_dataset('digits')
  again = data.refold(1)
  assert len(again.train) == len(data.train)
  assert len(again.validation) == len(data.validation)
  both = np.concatenate([again.train.indices, again.validation.indices])
  np.testing.assert_array_equal(np.sort(both), np.arange(1500))
  assert set(again.validation.indices) != set(data.validation.indices)
  assert again.test is data.test
  by_index = aen.load_dataset('digits', num_validation=0).train
  for split in (again.train, again.validation):
    np.testing.assert_array_equal(split.images, by_index.images[split.indices])
    np.testing.assert_array_equal(split.labels, by_index.labels[split.indices])
  assert data.refold(1).fingerprint == again.fingerprint
  assert data.refold(2).fingerprint != again.fingerprint


def test_refolding_keeps_together_what_belongs_together():
  images = np.arange(60 * 4, dtype=np.uint8).reshape(60, 2, 2)
  split = dataset_lib.Split(
    images[:40], np.arange(40) % 2, np.arange(40), groups=np.arange(40) // 4
  )
  rest = dataset_lib.Split(
    images[40:],
    np.arange(20) % 2,
    np.arange(40, 60),
    groups=10 + np.arange(20) // 4,
  )
  data = dataset_lib.Dataset('x', split, rest, rest, ('a', 'b')).refold(3)
  assert not set(data.train.groups) & set(data.validation.groups)
