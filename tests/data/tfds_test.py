"""TFDS without TensorFlow: prepared here, read by anybody."""

import errno
import io
import os
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest

import aen
from aen.data import builders
from aen.data import catalogue
from aen.data import finding
from aen.data import prepare
from aen.data import transform
from tests.data import tiny

tfds = pytest.importorskip('tensorflow_datasets')

STOCK = (
  'mnist',
  'fashion_mnist',
  'kmnist',
  'emnist/letters',
  'cifar10',
  'svhn_cropped',
)
OWN = (
  'g_mnist/aug5',
  'g_mnist/aug5_group',
  'g_fashion_mnist/iaug12',
  'rot_mnist',
  'sign_language_mnist',
)


@pytest.fixture
def use_tiny(monkeypatch, tmp_path):
  """Puts tiny official files below tmp_path/raw; returns where to look."""

  def use(name):
    base = catalogue.find(name)[0].name
    source = tiny.tiny_source(base, tmp_path / 'raw')
    table = dict(catalogue.SOURCES) | {base: source}
    monkeypatch.setattr(catalogue, 'SOURCES', table)
    for builder in builders.BUILDERS.values():
      if builder.source.name == base:
        monkeypatch.setattr(builder, 'source', source)
    return finding.Places(tmp_path / 'raw', tmp_path / 'tfds', download=False)

  return use


def test_no_tensorflow_is_used():
  assert 'tensorflow' not in sys.modules


def test_builders_are_registered_by_importing_the_package():
  known = tfds.list_builders(with_community_datasets=False)
  assert set(builders.BUILDERS) <= set(known)
  configs = tfds.builder_cls('g_mnist').builder_configs
  assert set(configs) == set(transform.CONFIGS)
  assert set(tfds.builder_cls('g_fashion_mnist').builder_configs) == set(
    configs
  )


@pytest.mark.parametrize('name', [*STOCK, *OWN])
def test_prepared_sets_are_read_by_plain_tfds(name, use_tiny, tmp_path):
  places = use_tiny(name)
  folder = prepare.prepare_tfds(name, places)
  assert folder.is_relative_to(tmp_path / 'tfds' / name)
  source = tfds.data_source(name, data_dir=tmp_path / 'tfds')
  assert (len(source['train']), len(source['test'])) == (40, 20)
  example = source['test'][0]
  assert example['image'].dtype == np.uint8
  assert np.ndim(example['image']) == 3


@pytest.mark.parametrize('name', [*STOCK, *OWN])
def test_tfds_and_raw_files_give_the_same_data(name, use_tiny, tmp_path):
  places = use_tiny(name)
  prepare.prepare_tfds(name, places)
  raw = aen.load_dataset(name, raw_dir=tmp_path / 'raw')
  prepared = aen.load_dataset(name, data_dir=tmp_path / 'tfds', download=False)
  assert prepared.fingerprint == raw.fingerprint
  if raw.train.record is not None:
    for split in ('train', 'validation', 'test'):
      ours, theirs = (getattr(d, split).record for d in (raw, prepared))
      np.testing.assert_array_equal(ours.powers, theirs.powers)
      np.testing.assert_array_equal(ours.angles, theirs.angles)


def test_stock_sets_keep_their_form(use_tiny, tmp_path):
  data_dir = tmp_path / 'tfds'
  prepare.prepare_tfds('emnist/letters', use_tiny('emnist/letters'))
  letters = tfds.data_source('emnist/letters', split='test', data_dir=data_dir)
  assert {int(e['label']) for e in letters} <= set(range(1, 27))
  stored = {e['image'].tobytes() for e in letters}
  published = tiny.random_parts((40, 20), (28, 28), 26).test.images
  assert stored == {image.tobytes() for image in published}
  prepare.prepare_tfds('cifar10', use_tiny('cifar10'))
  objects = tfds.data_source('cifar10', split='train', data_dir=data_dir)
  assert {e['id'] for e in objects} >= {b'train_00000', b'train_00039'}
  builder = tfds.builder('cifar10', data_dir=data_dir)
  assert builder.info.features['label'].names[3] == 'cat'


def test_plain_users_need_nothing_of_ours(use_tiny, tmp_path):
  prepare.prepare_tfds('g_mnist/aug5', use_tiny('g_mnist/aug5'))
  code = (
    'import sys, tensorflow_datasets as tfds\n'
    f'data_dir = {str(tmp_path / "tfds")!r}\n'
    'source = tfds.data_source("g_mnist/aug5", split="test",'
    ' data_dir=data_dir)\n'
    'example = source[3]\n'
    'print(len(source), example["image"].shape, len(example["powers"]),'
    ' -180 <= example["angle"] <= 180,'
    ' "aen" in sys.modules, "tensorflow" in sys.modules)'
  )
  environment = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
  result = subprocess.run(
    [sys.executable, '-c', code],
    capture_output=True,
    text=True,
    check=False,
    cwd=tmp_path,
    env=environment,
  )
  assert result.stdout.strip() == '20 (28, 28, 1) 12 True False False', (
    result.stderr
  )


def test_a_set_without_builder_is_refused():
  with pytest.raises(ValueError, match="'g_digits/aug3' has no TFDS builder"):
    prepare.prepare_tfds('g_digits/aug3', finding.Places())


def test_a_cut_short_set_is_not_taken_for_the_whole(use_tiny, tmp_path):
  places = use_tiny('g_mnist/aug1')
  prepare.prepare_tfds('g_mnist/aug1', places, max_examples=5)
  with pytest.raises(ValueError, match='expected 40 training and 20 test'):
    aen.load_dataset('g_mnist/aug1', data_dir=tmp_path / 'tfds', download=False)


def test_formats_that_need_tensorflow_are_passed_over(
  use_tiny, tmp_path, monkeypatch
):
  prepare.prepare_tfds('mnist', use_tiny('mnist'))
  monkeypatch.setattr(finding, '_READABLE', ())
  with pytest.raises(FileNotFoundError, match='download=False'):
    aen.load_dataset('mnist', data_dir=tmp_path / 'tfds', download=False)


def test_a_part_is_never_prepared():
  with pytest.raises(ValueError, match='would pass for the whole'):
    prepare.prepare_tfds('kmnist', finding.Places(partial=True))


def fill_disk_after(count, monkeypatch):
  """Lets the disk be full once `count` images are encoded."""
  save, calls = Image.Image.save, []

  def limited(image, *arguments, **options):
    calls.append(image)
    if len(calls) > count:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    save(image, *arguments, **options)

  monkeypatch.setattr(Image.Image, 'save', limited)


@pytest.mark.parametrize('name', ['mnist', 'g_mnist/aug5'])
def test_nothing_half_written_is_ever_read(
  name, use_tiny, tmp_path, monkeypatch
):
  places = use_tiny(name)
  with monkeypatch.context() as patch:
    fill_disk_after(50, patch)
    with pytest.raises(OSError, match='no space left while writing'):
      prepare.prepare_tfds(name, places)
  assert not list((tmp_path / 'tfds').rglob('*.array_record*'))
  with pytest.raises(FileNotFoundError, match='got nothing there'):
    aen.load_dataset(name, data_dir=tmp_path / 'tfds', download=False)
  prepare.prepare_tfds(name, places)
  data = aen.load_dataset(name, data_dir=tmp_path / 'tfds', download=False)
  assert len(data.test) == 20


def test_what_tfds_downloaded_is_read(use_tiny, tmp_path, monkeypatch):
  use_tiny('mnist')

  def download(self, urls):
    return {name: tmp_path / 'raw' / 'mnist' / name for name in urls}

  manager = tfds.download.DownloadManager
  monkeypatch.setattr(manager, 'download', download)
  monkeypatch.setattr(finding, '_fail_fast', lambda *_: None)
  data = aen.load_dataset('mnist', data_dir=tmp_path / 'tfds')
  raw = aen.load_dataset('mnist', raw_dir=tmp_path / 'raw')
  assert data.fingerprint == raw.fingerprint


def test_failed_downloads_are_one_line(tmp_path, monkeypatch):
  errors = tfds.download.download_manager
  for raised, expected in (
    (errors.NonMatchingChecksumError('a\nb'), ValueError),
    (ConnectionResetError('reset'), FileNotFoundError),
    (tfds.download.DownloadError('status 404'), FileNotFoundError),
  ):

    def download(self, urls, raised=raised):
      raise raised

    monkeypatch.setattr(tfds.download.DownloadManager, 'download', download)
    monkeypatch.setattr(finding, '_fail_fast', lambda *_: None)
    with pytest.raises(expected, match='download') as caught:
      aen.load_dataset('kmnist', data_dir=tmp_path)
    assert '\n' not in str(caught.value)


def test_png_round_trip(tmp_path):
  builder = builders.BUILDERS['rot_mnist'](data_dir=tmp_path)
  for shape in ((28, 28, 1), (32, 32, 3), (5, 7, 1), (1, 1, 1)):
    part = tiny.random_parts((1, 1), shape, 1).train
    feature = tfds.features.Image(shape=shape)
    ((_, example),) = builder._generate_examples(part, 'train')
    data = feature.encode_example(example['image'])
    image = part.images.reshape(shape)
    np.testing.assert_array_equal(feature.decode_example_np(data), image)
    with Image.open(io.BytesIO(data)) as by_pillow:
      assert by_pillow.format == 'PNG'
      pixels = np.asarray(by_pillow).reshape(shape)
    np.testing.assert_array_equal(pixels, image)


@pytest.mark.parametrize('name', sorted(catalogue.SOURCES))
def test_every_set_has_a_card(name):
  card = catalogue.card(catalogue.SOURCES[name])
  counts = catalogue.SOURCES[name].counts
  assert f'{counts[0]} training and {counts[1]} test' in card.description
  assert card.licence
  assert 'Licence: ' in str(card)


@pytest.mark.parametrize('name', ['aug0', 'aug1', 'aug4', 'aug4_group'])
def test_cards_describe_transformations(name):
  config = transform.CONFIGS[name]
  text = catalogue.card(catalogue.SOURCES['mnist'], config).description
  assert ('±180' in text) == config.rotates_by_angle
  assert ('one pixel' in text) == (name == 'aug4')
  assert ('unchanged' in text) == (name == 'aug0')
