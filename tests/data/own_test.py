"""Data of one's own: what is wrong with it is said in one clear line."""

import pathlib
import sys

import numpy as np
from PIL import Image
import pytest

import aen
from aen.data import load as load_lib
from aen.data import own
from aen.data import transform
from tests.data import tiny

IMAGES = np.arange(12 * 16, dtype=np.uint8).reshape(12, 4, 4)
LABELS = np.arange(12) % 3


@pytest.fixture
def pets(tmp_path):
  for name in ('cat', 'dog'):
    tiny.save_images(tmp_path / 'pets' / name)
  return tmp_path / 'pets'


def save_npz(tmp_path, **arrays):
  path = tmp_path / 'mine.npz'
  np.savez(path, **{'x_train': IMAGES, 'y_train': LABELS} | arrays)
  return path


def test_grey_images_of_16_bits_are_scaled(tmp_path):
  ramp = np.linspace(0, 63000, 64).astype(np.uint16).reshape(8, 8)
  for name in ('a', 'b'):
    (tmp_path / name).mkdir()
    for i in range(6):
      Image.fromarray(ramp).save(tmp_path / name / f'{i}.png')
  data = aen.load_dataset(tmp_path)
  assert data.train.images.dtype == np.uint8
  assert data.image_shape == (8, 8)
  np.testing.assert_array_equal(data.train.images[0], ramp // 257)
  assert data.train.images.max() == 245


def test_16_bits_of_either_byte_order(tmp_path):
  values = np.array([[0, 256, 257], [32768, 65534, 65535]])
  for order in '<>':
    path = tmp_path / 'image.tif'
    Image.fromarray(values.astype(f'{order}u2')).save(path)
    found = own.read_image(path)
    np.testing.assert_array_equal(found, [[0, 0, 1], [127, 254, 255]])


def test_black_and_white_images_are_0_and_255(tmp_path):
  path = tmp_path / 'image.png'
  Image.fromarray(np.array([[False, True]])).save(path)
  np.testing.assert_array_equal(own.read_image(path), [[0, 255]])


@pytest.mark.parametrize('dtype', [np.int32, np.float32])
def test_images_of_unknown_range_are_refused(dtype, pets):
  path = pets / 'cat' / 'deep.tif'
  Image.fromarray(np.zeros((4, 4), dtype)).save(path)
  tiny.fails('deep.tif: expected pixels of 8', aen.load_dataset, pets)


def test_a_damaged_image_is_named_once(pets):
  path = pets / 'cat' / 'bad.png'
  path.write_bytes(b'no image')
  message = tiny.fails('remove or convert it', aen.load_dataset, pets)
  assert message.count('bad.png') == 1
  whole = (pets / 'cat' / '0.png').read_bytes()
  path.write_bytes(whole[:45])
  message = tiny.fails('remove or convert it', aen.load_dataset, pets)
  assert message.count('bad.png') == 1


def test_hidden_folders_and_files_are_ignored(pets, tmp_path):
  for name in ('__MACOSX', '.cache'):
    tiny.save_images(pets / name)
  (pets / 'cat' / '._0.png').write_bytes(b'what macOS adds')
  data = aen.load_dataset(pets)
  assert data.class_names == ('cat', 'dog')
  tiny.save_images(tmp_path / 'other' / '__MACOSX2')
  tiny.save_images(tmp_path / 'other' / 'dog')
  other = aen.load_dataset(tmp_path / 'other')
  assert other.class_names == ('__MACOSX2', 'dog')
  assert sum(len(s) for s in (data.train, data.validation, data.test)) == 12


def test_an_empty_class_folder_is_named(pets):
  (pets / 'emu').mkdir()
  tiny.fails('emu: expected images.*got none', aen.load_dataset, pets)


@pytest.mark.parametrize('names', [('train',), ('test',), ('train', 'val')])
def test_half_divided_folders(names, tmp_path):
  for name in names:
    tiny.save_images(tmp_path / name / 'cat')
  tiny.fails(r'expected train/ and test/', aen.load_dataset, tmp_path)


def test_a_class_may_be_called_train(pets):
  tiny.save_images(pets / 'train')
  assert aen.load_dataset(pets).class_names == ('cat', 'dog', 'train')


def test_test_folders_may_leave_out_a_class(pets, tmp_path):
  pets.rename(tmp_path / 'train')
  tiny.save_images(tmp_path / 'test' / 'dog')
  assert set(aen.load_dataset(tmp_path).test.labels) == {1}
  (tmp_path / 'test' / 'cat').mkdir()
  tiny.fails('cat: expected images', aen.load_dataset, tmp_path)
  (tmp_path / 'test' / 'cat').rmdir()
  tiny.save_images(tmp_path / 'test' / 'emu')
  tiny.fails('got emu too', aen.load_dataset, tmp_path)


def test_a_test_folder_without_classes(pets, tmp_path):
  pets.rename(tmp_path / 'train')
  (tmp_path / 'test').mkdir()
  tiny.fails('expected the class folders', aen.load_dataset, tmp_path)


@pytest.mark.parametrize('labels', [LABELS + 1, LABELS * 5])
def test_labels_that_leave_classes_out(labels, tmp_path):
  advice = r'np.unique\(labels, return_inverse=True\)\[1\]'
  tiny.fails(advice, load_lib.from_arrays, IMAGES, labels)
  path = save_npz(tmp_path, y_train=labels)
  tiny.fails(advice, aen.load_dataset, path)
  names = [str(i) for i in range(11)]
  data = load_lib.from_arrays(IMAGES, labels, class_names=names)
  assert data.num_classes == 11
  path = save_npz(tmp_path, y_train=labels, class_names=names)
  assert aen.load_dataset(path).num_classes == 11


def test_a_class_may_be_in_train_or_test_only():
  data = load_lib.from_arrays(
    IMAGES, LABELS % 2, test_images=IMAGES, test_labels=np.full(12, 2)
  )
  assert data.class_names == ('0', '1', '2')


def test_labels_that_are_no_numbers(tmp_path):
  advice = r'np.unique\(labels, return_inverse=True\)\[1\]'
  words = np.array(['cat', 'dog', 'emu'])[LABELS]
  for labels in (words, words.astype(object), LABELS > 1, LABELS / 1):
    tiny.fails(advice, load_lib.from_arrays, IMAGES, labels)
  path = save_npz(tmp_path, y_train=words)
  tiny.fails(advice, aen.load_dataset, path)
  for labels in (LABELS - 1, LABELS + 2**32):
    tiny.fails('labels from 0', load_lib.from_arrays, IMAGES, labels)


def test_train_and_test_of_different_types(tmp_path):
  path = save_npz(tmp_path, x_test=IMAGES / 255, y_test=LABELS)
  message = 'type uint8, .* got .* type float32; give both'
  tiny.fails(message, aen.load_dataset, path)
  data = load_lib.from_arrays(
    IMAGES / 255,
    LABELS,
    test_images=(IMAGES / 255).astype(np.float16),
    test_labels=LABELS,
  )
  assert data.test.images.dtype == np.float32


@pytest.mark.parametrize('value', [np.nan, np.inf, 1e300])
def test_pixels_that_are_no_numbers(value):
  images = IMAGES / 255
  images[3, 1, 2] = value
  tiny.fails('finite', load_lib.from_arrays, images, LABELS)
  tiny.fails(
    'test: expected finite',
    load_lib.from_arrays,
    IMAGES / 255,
    LABELS,
    test_images=images,
    test_labels=LABELS,
  )


def test_too_few_images():
  def make(count, num_test=None):
    test = {}
    if num_test is not None:
      images, labels = IMAGES[:num_test], np.zeros(num_test, int)
      test = {'test_images': images, 'test_labels': labels}
    labels = np.zeros(count, int)
    return load_lib.from_arrays(IMAGES[:count], labels, **test)

  tiny.fails('at least one, and .*, got .* of shape .0, 4, 4', make, 0)
  tiny.fails('test: expected images .*at least one, and .*, got', make, 6, 0)
  tiny.fails('at least 3 images, got 2', make, 1, 1)
  tiny.fails('at least 6 images.*got 5', make, 5)
  assert len(make(6).test) == 1
  assert len(make(2, 1).test) == 1


def test_a_folder_of_too_few_images(tmp_path):
  tiny.save_images(tmp_path / 'cat', 2)
  tiny.fails('at least 6 images', aen.load_dataset, tmp_path)


def test_npz_files_that_are_none(tmp_path):
  whole = save_npz(tmp_path).read_bytes()
  path = tmp_path / 'bad.npz'
  damaged = bytearray(whole)
  damaged[200:210] = b'0123456789'
  for content in (b'', b'just text', whole[:300], whole[300:], bytes(damaged)):
    path.write_bytes(content)
    message = tiny.fails('truncated or damaged', own.read, path)
    assert message.startswith(str(path))
    assert 'trust' not in message
  with path.open('wb') as f:
    np.save(f, IMAGES)
  tiny.fails('another format', aen.load_dataset, path)


def test_npz_files_that_fail_to_read(tmp_path, monkeypatch):
  def fail(error):
    def load(*_, **__):
      raise error

    monkeypatch.setattr(np, 'load', load)

  path = save_npz(tmp_path)
  fail(OSError(22, 'Invalid argument'))  # what zipfile raises for some damage
  tiny.fails('truncated or damaged', aen.load_dataset, path)
  fail(PermissionError(13, 'Permission denied', str(path)))
  tiny.fails('mine.npz', aen.load_dataset, path, kind=PermissionError)


@pytest.mark.parametrize('key', ['x_train', 'y_test', 'class_names'])
def test_npz_files_with_objects(key, tmp_path):
  path = save_npz(tmp_path, **{key: np.array([None, 'a'], object)})
  message = tiny.fails('got Python objects', aen.load_dataset, path)
  assert message.startswith(str(path))
  assert 'trust' not in message


def test_float_images_are_used_as_they_are():
  data = load_lib.from_arrays(IMAGES / 255, LABELS)
  tiny.fails('float images are used as they are', data.normalised)


@pytest.mark.parametrize('names', ['abc', np.array('abc'), 3])
def test_class_names_that_are_no_list(names):
  tiny.fails(
    'class_names as a list',
    load_lib.from_arrays,
    IMAGES,
    LABELS,
    class_names=names,
  )


def test_class_names_that_repeat():
  tiny.fails(
    'got a more than once',
    load_lib.from_arrays,
    IMAGES,
    LABELS,
    class_names=['a', 'b', 'a'],
  )


@pytest.mark.parametrize('name', [None, 3, '', b'digits', ['digits']])
def test_names_that_are_none(name):
  tiny.fails('expected the name of a data set', aen.load_dataset, name)


@pytest.mark.parametrize(
  'name',
  ['./nofolder', '../nofolder', '/x/mine.zip', 'mine.npz', '~/nofolder/x'],
)
def test_paths_that_lead_nowhere(name):
  tiny.fails(
    'got nothing there', aen.load_dataset, name, kind=FileNotFoundError
  )


def test_the_home_directory_is_found(pets, monkeypatch):
  monkeypatch.setenv('HOME', str(pets.parent))
  assert aen.load_dataset('~/pets').name == 'pets'
  assert aen.load_dataset(pathlib.Path('~/pets')).num_classes == 2


@pytest.mark.parametrize('name', ['cifar10', 'tic_tac_toe'])
@pytest.mark.parametrize('config', ['/aug1', ''])
def test_sets_that_cannot_be_transformed(name, config):
  message = f"'{name}' as it is"
  tiny.fails(message, aen.load_dataset, f'g_{name}{config}')
  tiny.fails('even side', aen.load_dataset, f'g_{name}{config}')


@pytest.mark.parametrize('seed', [1.5, 'a', None, -1])
def test_seeds_are_whole_numbers(seed):
  tiny.fails(
    'a seed is a whole number', aen.load_dataset, 'tic_tac_toe', seed=seed
  )


@pytest.mark.parametrize('option', ['num_train', 'num_validation', 'num_test'])
def test_sizes_are_whole_numbers(option):
  for size in (0.5, '3'):
    tiny.fails(
      f'{option}=.*whole number of images',
      aen.load_dataset,
      'tic_tac_toe',
      **{option: size},
    )


def test_too_small_for_a_paper_size():
  message = "num_train=4000 is impossible.*size='search'"
  tiny.fails(message, aen.load_dataset, 'digits', size='search')
  message = "left to train on.*size='search'"
  tiny.fails(message, aen.load_dataset, 'digits', size='search', num_train=900)


def test_inverting_without_a_record():
  tiny.fails('expected the Transformations', transform.invert, IMAGES, None)


def test_what_is_not_installed_is_named(pets, monkeypatch):
  monkeypatch.setitem(sys.modules, 'PIL', None)
  monkeypatch.setitem(sys.modules, 'sklearn', None)
  for name in (pets, 'digits'):
    tiny.fails(
      r'pip install "aen\[data\]"', aen.load_dataset, name, kind=ImportError
    )
