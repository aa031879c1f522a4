"""The real files, when they are there: AEN_RAW_DIR or ../shared/data."""

import functools
import hashlib
import os
import pathlib
import time

import numpy as np
import pytest

import aen
from aen.data import catalogue
from aen.data import finding
from aen.data import prepare
from aen.data import readers
from aen.data import transform

_BESIDE = pathlib.Path(__file__).parents[3] / 'shared' / 'data'
RAW_DIR = pathlib.Path(os.environ.get('AEN_RAW_DIR') or _BESIDE)

pytestmark = pytest.mark.skipif(
  not (RAW_DIR / 'mnist').is_dir(),
  reason='no raw files: set AEN_RAW_DIR to test with them',
)


def needs(pattern):
  return pytest.mark.skipif(
    not list(RAW_DIR.glob(pattern)), reason=f'no {pattern} in the raw files'
  )


@pytest.fixture(scope='module', autouse=True)
def unpack_once():
  """Every load verifies the raw files; only the first one unpacks them."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(readers, 'read_gzip', functools.cache(readers.read_gzip))
    yield


@pytest.fixture(scope='module')
def mnist():
  return aen.load_dataset('mnist', raw_dir=RAW_DIR, num_validation=0)


def test_mnist_is_the_official_set(mnist):
  assert mnist.train.images.shape == (60000, 28, 28)
  assert mnist.test.images.shape == (10000, 28, 28)
  # Counts per class and first labels, as published.
  assert np.bincount(mnist.train.labels).tolist() == [
    *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
  ]
  assert np.bincount(mnist.test.labels).tolist() == [
    *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
  ]
  assert mnist.train.labels[:6].tolist() == [5, 0, 4, 1, 9, 2]
  assert abs(mnist.train.images.mean() / 255 - 0.1307) < 5e-5
  assert abs(mnist.train.images.std() / 255 - 0.3081) < 5e-5


@needs('fashion_mnist/*')
def test_fashion_mnist_is_the_official_set():
  data = aen.load_dataset('fashion_mnist', raw_dir=RAW_DIR, num_validation=0)
  assert set(np.bincount(data.train.labels)) == {6000}
  assert set(np.bincount(data.test.labels)) == {1000}
  assert data.class_names[data.test.labels[0]] == 'Ankle boot'


def test_checksums_are_those_that_tfds_registers():
  tfds = pytest.importorskip('tensorflow_datasets')
  registered = tfds.download.checksums.get_all_url_infos()
  names = ('mnist', 'fashion_mnist', 'kmnist', 'emnist/letters', 'cifar10')
  for file in (f for name in names for f in catalogue.SOURCES[name].files):
    info = registered[file.url]
    assert (info.size, info.checksum) == (file.size, file.sha256)
    assert info.filename == file.name


@pytest.mark.slow
@pytest.mark.parametrize('name', ['mnist', 'fashion_mnist'])
def test_prepared_by_tfds_and_read_whole(name, tmp_path):
  pytest.importorskip('tensorflow_datasets')
  prepare.prepare_tfds(name, finding.Places(RAW_DIR, tmp_path))
  start = time.process_time()
  prepared = aen.load_dataset(name, data_dir=tmp_path, download=False)
  assert time.process_time() - start < 12
  raw = aen.load_dataset(name, raw_dir=RAW_DIR)
  assert prepared.fingerprint == raw.fingerprint


# sha256 of x_train, then x_test: the pixels of version 1.0.0.
PINNED_G_MNIST = {
  'mnist/aug0': '5b92582eb909c82a',
  'mnist/aug1': 'eb4b613016c5b8ff',
  'mnist/aug2': '086ad86044bcecf2',
  'mnist/aug3': '2245ef2ea2c14583',
  'mnist/aug4': '6a990473b01f14af',
  'mnist/aug5': '7715f5d30feaed15',
  'mnist/aug5_group': '2adf1fb8644b444c',
  'fashion_mnist/aug3': '02575ec4b6f29fd8',
  'fashion_mnist/aug5': '11bcb8dda0454dad',
}


@pytest.mark.slow
@pytest.mark.parametrize('name', PINNED_G_MNIST)
def test_pixels_of_g_mnist_are_pinned(name):
  start = time.process_time()
  data = aen.load_dataset(f'g_{name}', raw_dir=RAW_DIR, num_validation=0)
  assert time.process_time() - start < 60
  digest = hashlib.sha256(data.train.images.tobytes())
  digest.update(data.test.images.tobytes())
  assert digest.hexdigest()[:16] == PINNED_G_MNIST[name]


@pytest.mark.parametrize('name', ['aug1', 'aug5_group'])
def test_g_mnist_inverts_to_mnist(name, mnist):
  data = aen.load_dataset(f'g_mnist/{name}', raw_dir=RAW_DIR, num_validation=0)
  for split in ('train', 'test'):
    found, originals = getattr(data, split), getattr(mnist, split).images
    back = transform.invert(found.images, found.record)
    np.testing.assert_array_equal(back, originals)


def test_g_mnist_builder_takes_files_from_manual_dir(tmp_path):
  tfds = pytest.importorskip('tensorflow_datasets')
  from aen.data import builders  # registers them

  assert 'g_mnist' in builders.BUILDERS
  builder = tfds.builder('g_mnist/iaug6', data_dir=tmp_path)
  builder.download_and_prepare(
    file_format='array_record',
    download_config=tfds.download.DownloadConfig(
      manual_dir=RAW_DIR / 'mnist',
      try_download_gcs=False,
      max_examples_per_split=50,
    ),
  )
  images = [e['image'] for e in builder.as_data_source(split='train')]
  data = aen.load_dataset('g_mnist/iaug6', raw_dir=RAW_DIR, num_validation=0)
  np.testing.assert_array_equal(
    np.stack(images)[..., 0], data.train.images[:50]
  )


@pytest.mark.slow
def test_made_rot_mnist(mnist):
  data = aen.load_dataset('rot_mnist_made', raw_dir=RAW_DIR, num_validation=0)
  assert (len(data.train), len(data.test)) == (12000, 50000)
  # Rotation keeps ink, up to what leaves the corners.
  ink = data.test.images.mean() / mnist.train.images.mean()
  assert 0.98 < ink < 1.02


@pytest.mark.parametrize(
  ('name', 'pattern', 'counts', 'classes'),
  [
    ('cifar10', 'cifar10_*.npz', (10000, 2000), 10),
    ('emnist/letters', 'emnist_letters_*.npz', (20800, 5200), 26),
    ('kmnist', 'kmnist_*.npz', (7011, 10000), 10),
    ('svhn_cropped', 'svhn_*.npz', (1083, 949), 10),
    ('sign_language_mnist', 'asl_sign_mnist_*.npz', (5076, 2096), 24),
  ],
)
def test_parts_are_named_as_such(name, pattern, counts, classes):
  if not list(RAW_DIR.glob(pattern)):
    pytest.skip(f'no {pattern} in the raw files')
  data = aen.load_dataset(name, raw_dir=RAW_DIR, partial=True, num_validation=0)
  assert (len(data.train), len(data.test)) == counts
  assert data.name == f'{name}-partial-{counts[0]}-{counts[1]}'
  assert data.fingerprint.startswith('partial-')
  assert sorted(set(data.test.labels)) == list(range(classes))
  assert data.num_classes == classes


@needs('asl_sign_mnist_*.npz')
def test_sign_language_holds_out_whole_photographs():
  source = catalogue.SOURCES['sign_language_mnist']
  places = finding.Places(RAW_DIR, partial=True)
  groups = finding.find(source, None, places).train.groups
  data = aen.load_dataset(
    source.name, raw_dir=RAW_DIR, partial=True, num_validation=500
  )
  used, held = (groups[s.indices] for s in (data.train, data.validation))
  assert not set(used) & set(held)
  assert len(held) == 500
