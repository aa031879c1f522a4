"""Official files: every format is read, every damage is one clear error."""

import dataclasses
import errno
import gzip
import hashlib
import os
import socket
import sys
import tarfile

import numpy as np
import pytest

import aen
from aen.data import catalogue
from aen.data import finding
from aen.data import prepare
from aen.data import readers
from aen.data import transform
from tests.data import tiny

FROM_FILES = tuple(
  name
  for name, source in catalogue.SOURCES.items()
  if source.files and not source.swapped
  # Made from official files by code; tested apart.
  if source.format not in ('rotated_mnist', 'sign_photographs', 'sign_negative')
)
TRAIN_IMAGES = 'train-images-idx3-ubyte.gz'


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path_factory):
  def refuse(*_, **__):
    raise OSError('Name or service not known')

  monkeypatch.setattr(socket, 'getaddrinfo', refuse)
  empty = tmp_path_factory.mktemp('tfds')
  monkeypatch.setenv('TFDS_DATA_DIR', str(empty))


@pytest.fixture
def use_tiny(monkeypatch, tmp_path):
  """Puts tiny files of a set below tmp_path, and into the catalogue."""

  def use(name, **options):
    source = tiny.tiny_source(name, tmp_path, **options)
    table = dict(catalogue.SOURCES) | {name: source}
    monkeypatch.setattr(catalogue, 'SOURCES', table)
    return source

  return use


@pytest.mark.parametrize('name', FROM_FILES)
def test_every_format_is_read(name, use_tiny, tmp_path):
  source = use_tiny(name)
  data = aen.load_dataset(name, raw_dir=tmp_path, num_validation=0)
  parts = tiny.random_parts((40, 20), source.shape, len(source.class_names))
  for split in ('train', 'test'):
    found, expected = getattr(data, split), getattr(parts, split)
    images = expected.images
    if source.transposed:
      images = images.swapaxes(1, 2)
    np.testing.assert_array_equal(found.images, images)
    np.testing.assert_array_equal(found.labels, expected.labels)
  assert data.name == name
  assert data.class_names == source.class_names
  assert not data.partial


@pytest.mark.parametrize('name', catalogue.SOURCES)
def test_every_entry_of_the_catalogue_is_complete(name):
  source = catalogue.SOURCES[name]
  assert {source.format, source.partial_format} <= set(readers.READERS)
  assert source.description
  assert source.licence
  assert len(set(source.class_names)) == len(source.class_names)
  assert set(source.sample_classes) <= set(source.class_names)
  assert bool(source.folder) == bool(source.files)
  for file in source.files:
    assert file.url.endswith(f'/{file.name}') or source.manual
    assert file.sha256 and file.size or not file.url
  assert len(source.extracted) != 1  # told from the archive by their number
  assert all(file.sha256 and file.size for file in source.extracted)


def test_raw_dir_from_the_environment(use_tiny, tmp_path, monkeypatch):
  use_tiny('mnist')
  monkeypatch.setenv('AEN_RAW_DIR', str(tmp_path))
  assert len(aen.load_dataset('g_mnist/aug5').test) == 20
  monkeypatch.setenv('AEN_RAW_DIR', str(tmp_path / 'gone'))
  with pytest.raises(FileNotFoundError, match='AEN_RAW_DIR=.*unset it'):
    aen.load_dataset('mnist')


def test_sign_language_labels_skip_j(use_tiny, tmp_path):
  use_tiny('sign_language_mnist', counts=(48, 24))
  data = aen.load_dataset('sign_language_mnist', raw_dir=tmp_path)
  assert data.class_names[8:10] == ('I', 'K')
  assert sorted(set(data.test.labels)) == list(range(24))
  source = catalogue.SOURCES['sign_language_mnist']
  paths = [tmp_path / source.folder / file.name for file in source.files]
  path = paths[1]
  bad = path.read_text().replace('\n10,', '\n9,', 1)
  path.write_text(bad)
  with pytest.raises(ValueError, match='labels 0…24 without 9'):
    list(readers.READERS[source.format](source, paths))


def test_made_rot_mnist_is_disjoint_and_named_so(use_tiny, tmp_path):
  source = use_tiny('mnist', counts=(40, 20))
  paths = [tmp_path / 'mnist' / file.name for file in source.files]
  whole = readers.read(source, paths)
  numbered = (
    (whole.train.images, np.arange(40)),
    (whole.test.images, np.arange(40, 60)),
  )
  train, test = readers.rotate_parts(numbered, (12, 40))
  assert [len(array) for array in (*train, *test)] == [12, 12, 40, 40]
  assert len({*train[1], *test[1]}) == 52
  assert catalogue.SOURCES['rot_mnist_made'].tfds_name == 'rot_mnist_made'
  with pytest.raises(FileNotFoundError, match="or load 'rot_mnist_made'"):
    aen.load_dataset('rot_mnist', raw_dir=tmp_path)


def test_swapped_rot_mnist(use_tiny, tmp_path):
  source = use_tiny('rot_mnist', counts=(12, 30))
  swapped = dataclasses.replace(source, counts=(30, 12), swapped=True)
  places = finding.Places(tmp_path)
  standard = finding.find(source, None, places)
  published = finding.find(swapped, None, places)
  np.testing.assert_array_equal(published.train.images, standard.test.images)
  assert len(published.test) == 12


@pytest.mark.parametrize('name', ['rot_mnist', 'rot_mnist_made'])
def test_swapped_sets_have_swapped_counts(name):
  counts = catalogue.SOURCES[name].counts
  assert catalogue.SOURCES[f'{name}/swapped'].counts == counts[::-1]


def test_wrong_checksum(use_tiny, tmp_path):
  use_tiny('mnist')
  path = tmp_path / 'mnist' / TRAIN_IMAGES
  path.write_bytes(gzip.compress(tiny.idx_bytes(np.zeros((40, 28, 28)))))
  with pytest.raises(
    ValueError, match='wrong checksum, expected sha256 .* got'
  ):
    aen.load_dataset('mnist', raw_dir=tmp_path)


def test_a_file_that_was_packed_again_is_accepted(use_tiny, tmp_path):
  use_tiny('mnist')
  path = tmp_path / 'mnist' / TRAIN_IMAGES
  content = readers.read_gzip(path)
  path.write_bytes(gzip.compress(content, compresslevel=1, mtime=7))
  file = catalogue.File(path.name, sha256='0' * 64)
  with pytest.raises(ValueError, match='wrong checksum'):
    readers.verify(path, file)
  known = dataclasses.replace(
    file, content_sha256=hashlib.sha256(content).hexdigest()
  )
  readers.verify(path, known)


def test_a_file_that_was_unpacked_is_accepted(use_tiny, tmp_path):
  source = use_tiny('emnist/letters_124800')
  before = aen.load_dataset(source.name, raw_dir=tmp_path)
  files = []
  for file in source.files:
    path = tmp_path / source.folder / file.name
    content = readers.read_gzip(path)
    path.with_suffix('').write_bytes(content)
    path.unlink()
    digest = hashlib.sha256(content).hexdigest()
    files.append(dataclasses.replace(file, sha256='', content_sha256=digest))
  unpacked = dataclasses.replace(source, files=tuple(files))
  catalogue.SOURCES[source.name] = unpacked
  after = aen.load_dataset(source.name, raw_dir=tmp_path)
  assert after.fingerprint == before.fingerprint
  path.with_suffix('').write_bytes(content[:-1] + b'9')
  with pytest.raises(ValueError, match='wrong checksum'):
    aen.load_dataset(source.name, raw_dir=tmp_path)


def test_members_of_an_archive_are_accepted(use_tiny, tmp_path):
  source = use_tiny('cifar10')
  before = aen.load_dataset('cifar10', raw_dir=tmp_path)
  archive = tmp_path / 'cifar10' / source.files[0].name
  with tarfile.open(archive) as f:
    f.extractall(tmp_path / 'members', filter='data')
  archive.unlink()
  extracted = []
  for file in source.extracted:
    content = next(tmp_path.glob(f'members/*/{file.name}')).read_bytes()
    (tmp_path / 'cifar10' / file.name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    extracted.append(dataclasses.replace(file, sha256=digest))
  catalogue.SOURCES['cifar10'] = dataclasses.replace(
    source, extracted=tuple(extracted)
  )
  after = aen.load_dataset('cifar10', raw_dir=tmp_path)
  assert after.fingerprint == before.fingerprint
  (tmp_path / 'cifar10' / 'data_batch_3.bin').unlink()
  with pytest.raises(FileNotFoundError, match='or its members, data_batch_1'):
    aen.load_dataset('cifar10', raw_dir=tmp_path, download=False)


def test_the_negative_is_that_of_the_published_conversion(use_tiny, tmp_path):
  source = use_tiny('sign_language_mnist')
  paths = [tmp_path / source.folder / file.name for file in source.files]
  plain = readers.READERS['sign_csv'](source, paths)
  negative = readers.READERS['sign_negative'](source, paths)
  for (before, labels), (after, same) in zip(plain, negative, strict=True):
    assert after.dtype == np.uint8
    np.testing.assert_array_equal(after, before.astype(int) * 255 % 256)
    np.testing.assert_array_equal(labels, same)


def test_photographs_are_never_divided(use_tiny, tmp_path, monkeypatch):
  source = use_tiny('sign_language_mnist', counts=(240, 48))
  paths = [tmp_path / source.folder / file.name for file in source.files]
  random = np.random.default_rng(0)
  for path in paths:  # three noisy copies of every image
    head, *lines = path.read_text().splitlines()
    copies = []
    for line in lines:
      label, *pixels = map(int, line.split(','))
      for _ in range(3):
        noise = random.integers(-9, 10, len(pixels))
        noisy = np.clip(np.array(pixels) + noise, 0, 255)
        copies.append(','.join(map(str, (label, *noisy))))
    path.write_text('\n'.join([head, *copies]))
  arrays = readers.READERS['sign_photographs'](source, paths)
  (train, _, train_groups), (test, labels, test_groups) = arrays
  assert len(train) + len(test) == 3 * 288
  assert not set(train_groups) & set(test_groups)
  assert np.unique(np.bincount(test_groups)).tolist() == [0, 3]
  assert np.unique(labels).tolist() == list(range(24))


@pytest.mark.parametrize('kept', [0, 10, 500, -9])
def test_truncated_gzip(kept, use_tiny, tmp_path):
  use_tiny('fashion_mnist')
  path = tmp_path / 'fashion_mnist' / TRAIN_IMAGES
  path.write_bytes(path.read_bytes()[:kept])
  with pytest.raises(ValueError, match='truncated or damaged|wrong checksum'):
    aen.load_dataset('fashion_mnist', raw_dir=tmp_path)
  if kept:
    with pytest.raises(ValueError, match='truncated or damaged'):
      readers.read_gzip(path)


@pytest.mark.parametrize('name', FROM_FILES)
def test_other_truncated_files(name, use_tiny, tmp_path):
  source = use_tiny(name)
  file = source.files[0]
  path = tmp_path / source.folder / file.name
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 - 9])
  paths = [tmp_path / source.folder / f.name for f in source.files]
  with pytest.raises(ValueError, match='fetch it again'):
    list(readers.READERS[source.format](source, paths))
  with pytest.raises(ValueError, match='wrong checksum|truncated or damaged'):
    aen.load_dataset(name, raw_dir=tmp_path)


def without(text, start, stop):
  return text[:start] + text[stop:]


@pytest.mark.parametrize('name', ['rot_mnist', 'sign_language_mnist'])
@pytest.mark.parametrize(
  'damage',
  [
    lambda text: '',
    lambda text: '\n',
    lambda text: without(text, len(text) // 2, len(text) // 2 + 40),
    lambda text: text.replace(text.split('\n')[1], 'page not found', 1),
  ],
)
def test_damaged_tables(name, damage, use_tiny, tmp_path):
  source = use_tiny(name)
  paths = [tmp_path / source.folder / file.name for file in source.files]
  paths[0].write_text(damage(paths[0].read_text()))
  with pytest.raises(ValueError, match='fetch it again') as caught:
    list(readers.READERS[source.format](source, paths))
  assert '\n' not in str(caught.value)
  assert 'usecols' not in str(caught.value)


@pytest.mark.parametrize('label', ['3.7', 'nan', 'inf'])
def test_labels_of_tables_are_whole_numbers(label, use_tiny, tmp_path):
  source = use_tiny('rot_mnist')
  paths = [tmp_path / source.folder / file.name for file in source.files]
  lines = paths[0].read_text().splitlines()
  lines[1] = f'{lines[1].rpartition(" ")[0]} {label}'
  paths[0].write_text('\n'.join(lines))
  with pytest.raises(ValueError, match='labels that are not whole numbers'):
    list(readers.READERS[source.format](source, paths))


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'', 'expected an idx file'),
    (b'PK\x03\x04', 'expected an idx file'),
    (b'\x00\x00\x08\x03\x00\x00', 'header declares.*buffer is smaller'),
    (
      tiny.idx_bytes(np.zeros((4, 2, 2), np.uint8))[:-1],
      r'header declares.*size 15 into shape \(4,2,2\)',
    ),
    (
      tiny.idx_bytes(np.zeros((4, 2), np.uint8)) + b'1',
      r'header declares.*size 9 into shape \(4,2\)',
    ),
  ],
)
def test_damaged_idx(content, message):
  with pytest.raises(ValueError, match=message):
    readers.parse_idx(content, 'file')


def test_wrong_shapes_and_counts(use_tiny, tmp_path, monkeypatch):
  use_tiny('kmnist', shape=(28, 27))
  with pytest.raises(ValueError, match=r'expected images of shape \(28, 28\)'):
    aen.load_dataset('kmnist', raw_dir=tmp_path)
  source = use_tiny('kmnist')
  short = dataclasses.replace(source, counts=(60000, 10000))
  monkeypatch.setitem(catalogue.SOURCES, 'kmnist', short)
  with pytest.raises(
    ValueError, match='expected 60000 training and 10000 test'
  ):
    aen.load_dataset('kmnist', raw_dir=tmp_path)
  few = dataclasses.replace(source, class_names=('a', 'b'))
  monkeypatch.setitem(catalogue.SOURCES, 'kmnist', few)
  with pytest.raises(ValueError, match=r'labels 0…1, got \(28, 28\) and 0…9'):
    aen.load_dataset('kmnist', raw_dir=tmp_path)
  from_one = dataclasses.replace(source, first_label=1)
  monkeypatch.setitem(catalogue.SOURCES, 'kmnist', from_one)
  with pytest.raises(ValueError, match=r'labels 1…10, got \(28, 28\) and 0'):
    aen.load_dataset('kmnist', raw_dir=tmp_path)


@pytest.mark.parametrize('name', FROM_FILES)
def test_missing_files_without_network(name, tmp_path):
  with pytest.raises(FileNotFoundError) as caught:
    aen.load_dataset(name, raw_dir=tmp_path)
  message = str(caught.value)
  assert str(tmp_path / catalogue.SOURCES[name].folder) in message
  assert catalogue.SOURCES[name].files[0].name in message
  assert '\n' not in message
  with pytest.raises(FileNotFoundError, match='no raw_dir or AEN_RAW_DIR'):
    aen.load_dataset(name, download=False)


def test_advice_where_downloading_is_forbidden(tmp_path):
  with pytest.raises(FileNotFoundError, match='pass download=True') as caught:
    aen.load_dataset('mnist', raw_dir=tmp_path, download=False)
  assert 'try again' not in str(caught.value)


def test_a_raw_dir_that_is_a_file(tmp_path):
  path = tmp_path / 'file'
  path.write_bytes(b'')
  with pytest.raises(NotADirectoryError, match='raw_dir=.*got a file'):
    aen.load_dataset('mnist', raw_dir=path)


def test_only_missing_files_are_named(use_tiny, tmp_path):
  use_tiny('mnist')
  (tmp_path / 'mnist' / TRAIN_IMAGES).unlink()
  with pytest.raises(FileNotFoundError, match=f'expected {TRAIN_IMAGES} in'):
    aen.load_dataset('mnist', raw_dir=tmp_path)


def test_downloading_without_tfds(monkeypatch):
  monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
  with pytest.raises(FileNotFoundError, match=r'pip install "aen\[data\]"'):
    aen.load_dataset('mnist')


def partial_file(tmp_path):
  parts = tiny.random_parts((50, 20), (32, 32, 3), 10)
  np.savez(
    tmp_path / 'cifar10_50_20.npz',
    x_train=parts.train.images,
    y_train=parts.train.labels,
    x_test=parts.test.images,
    y_test=parts.test.labels,
  )


def test_partial_sets_only_when_asked_for(tmp_path):
  partial_file(tmp_path)
  with pytest.raises(FileNotFoundError, match='accept it with partial=True'):
    aen.load_dataset('cifar10', raw_dir=tmp_path)
  data = aen.load_dataset('cifar10', raw_dir=tmp_path, partial=True)
  assert data.partial
  assert data.name == 'cifar10-partial-50-20'
  assert data.fingerprint.startswith('partial-')


def test_a_whole_set_comes_before_a_part(use_tiny, tmp_path):
  partial_file(tmp_path)
  use_tiny('cifar10')
  data = aen.load_dataset('cifar10', raw_dir=tmp_path, partial=True)
  assert (data.name, data.partial) == ('cifar10', False)


def test_two_parts_are_ambiguous(tmp_path):
  partial_file(tmp_path)
  (tmp_path / 'cifar10_1_1.npz').write_bytes(b'')
  with pytest.raises(ValueError, match='expected one part of cifar10'):
    aen.load_dataset('cifar10', raw_dir=tmp_path, partial=True)


def test_partial_sign_language_holds_out_whole_photographs(tmp_path):
  random = np.random.default_rng(0)
  labels = np.delete(np.arange(25), 9).repeat(8).astype(np.uint8)
  groups = np.arange(48).repeat(4)
  np.savez(
    tmp_path / 'asl_sign_mnist_192.npz',
    x=random.integers(0, 256, (192, 28, 28), np.uint8),
    y=labels,
    group=groups,
    is_test=groups % 4 == 3,
  )
  data = aen.load_dataset(
    'sign_language_mnist', raw_dir=tmp_path, partial=True, num_validation=20
  )
  assert data.name == 'sign_language_mnist-partial-144-48'
  train_groups = groups[groups % 4 != 3]
  used, held = (train_groups[s.indices] for s in (data.train, data.validation))
  assert not set(used) & set(held)
  assert data.train.labels.max() == 23


def test_system_packages_are_found(use_tiny, tmp_path, monkeypatch):
  source = use_tiny('fashion_mnist')
  folder = str(tmp_path / 'fashion_mnist')
  monkeypatch.setitem(
    catalogue.SOURCES,
    'fashion_mnist',
    dataclasses.replace(source, system_dirs=(folder,)),
  )
  assert len(aen.load_dataset('fashion_mnist').test) == 20
  real = '/usr/share/datasets/fashion-mnist'
  monkeypatch.undo()
  assert catalogue.SOURCES['fashion_mnist'].system_dirs == (real,)


def test_npz_on_a_full_disk(tmp_path, monkeypatch):
  def fill(f, **_):
    f.write(b'half of it')
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr(np, 'savez_compressed', fill)
  with pytest.raises(OSError, match='nothing half-written was kept'):
    prepare.write_npz('g_digits/aug5', finding.Places(), tmp_path)
  assert not list(tmp_path.iterdir())


def test_npz_holds_everything(tmp_path):
  path = prepare.write_npz('g_digits/aug5_group', finding.Places(), tmp_path)
  assert path.name == 'g_digits-aug5_group.npz'
  with np.load(path) as f:
    assert f['x_train'].shape == (1500, 16, 16)
    assert f['powers_test'].shape == (297, 12)
    assert f['angles_train'].shape == (1500,)
    assert 'Licence: CC BY 4.0' in str(f['card'])
    assert f['class_names'].tolist() == list('0123456789')
    record = transform.Transformations(
      transform.CONFIGS['aug5_group'], f['powers_test'], f['angles_test']
    )
    originals = transform.invert(f['x_test'], record)
  digits = aen.load_dataset('digits')
  np.testing.assert_array_equal(originals, digits.test.images)
  loaded = aen.load_dataset(path)
  by_name = aen.load_dataset('g_digits/aug5_group')
  assert loaded.fingerprint == by_name.fingerprint


@pytest.mark.parametrize('value', [-3.0, 256.0, np.nan])
def test_values_that_are_no_pixels_are_refused(value, tmp_path):
  path = tmp_path / 'x.amat'
  np.savetxt(path, [[0.0, 255.0, value, *np.zeros(782)]])
  message = '784 pixels from 0 to 255 .*values from'
  with pytest.raises(ValueError, match=message):
    readers.read_table(path, label=-1)
