"""What is drawn, done, recorded and undone to images of the G-data sets."""

import hashlib

import numpy as np
from PIL import Image
import pytest
from scipy import ndimage
from scipy import stats

from aen.data import load as load_lib
from aen.data import transform
from aen.groups import symmetries as symmetries_lib

NAMES = tuple(transform.CONFIGS)
ORDERS_28 = (4, 2, 2, 7, 7, 4, 2, 2, 2, 2, 2, 2)


@pytest.fixture(scope='module')
def images():
  return np.random.default_rng(0).integers(0, 256, (300, 28, 28), np.uint8)


def draw(name, count=300, side=28, **options):
  config = transform.config(name)
  return transform.draw(config, side, np.arange(count), **options)


def test_configs_are_the_papers_in_both_flavours():
  published = [f'iaug{k}' for k in range(13)] + [f'aug{k}' for k in range(6)]
  assert set(NAMES) == {*published, *(f'{name}_group' for name in published)}
  bits = {name: transform.config(name).bits for name in NAMES}
  assert bits['aug1'] == (0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1)
  assert bits['aug2'] == (1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0)
  assert bits['aug3'] == (1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0)
  assert bits['aug4'] == (1,) * 6 + (0,) * 6
  assert bits['aug5'] == (1,) * 12
  for k in range(1, 13):
    assert np.flatnonzero(bits[f'iaug{k}']).tolist() == [k - 1]
    assert bits[f'iaug{k}_group'] == bits[f'iaug{k}']
  assert not any(bits['aug0'] + bits['iaug0'] + bits['aug0_group'])


@pytest.mark.parametrize('name', NAMES)
def test_the_record_inverts_the_image(name, images):
  record = draw(name)
  transformed = transform.transform(images, record)
  assert transformed.dtype == np.uint8
  if record.config.rotates_by_angle:
    with pytest.raises(ValueError, match='keep_rotation=True'):
      transform.invert(transformed, record)
    back = transform.invert(transformed, record, keep_rotation=True)
    originals = transform.rotate(images, record.angles)
  else:
    back, originals = transform.invert(transformed, record), images
    assert not record.angles.any()
  np.testing.assert_array_equal(back, originals)


@pytest.mark.parametrize('name', NAMES)
def test_transformations_are_those_of_the_symmetry_table(name, images):
  record = draw(name, count=20)
  transformed = transform.transform(images[:20], record)
  published_steps = {
    'horizontal_translation': lambda x: np.roll(x, 1, 1),
    'vertical_translation': lambda x: np.roll(x, 1, 0),
  }
  for n in range(20):
    image = images[n]
    if record.config.rotates_by_angle:
      image = transform.rotate(image[None], record.angles[n : n + 1])[0]
    for bit, key in enumerate(symmetries_lib.PAPER_SYMMETRIES):
      symmetry = symmetries_lib.SYMMETRIES[key]
      if record.config.as_published:
        symmetry = published_steps.get(key, symmetry)
      for _ in range(record.powers[n, bit]):
        image = symmetry(image)
    np.testing.assert_array_equal(transformed[n], image)


def test_original_configs_change_nothing(images):
  for name in ('aug0', 'iaug0', 'aug0_group', 'iaug0_group'):
    transformed = transform.transform(images, draw(name))
    np.testing.assert_array_equal(transformed, images)


@pytest.mark.parametrize('split', ['train', 'test'])
@pytest.mark.parametrize('name', ['aug5', 'aug5_group'])
def test_powers_are_uniform(name, split):
  record = draw(name, 20000, split=split)
  orders = ORDERS_28 if name.endswith('_group') else (1,) + (2,) * 11
  for bit, order in enumerate(orders):
    counts = np.bincount(record.powers[:, bit])
    assert len(counts) == order
    assert order == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_angles_are_uniform_and_published_bits_independent():
  record = draw('aug5', 20000)
  scaled = (record.angles.astype(np.float64) + 180) / 360
  assert 0 <= scaled.min() < 0.001
  assert 0.999 < scaled.max() <= 1
  assert stats.kstest(scaled, 'uniform').pvalue > 1e-3
  patterns = record.powers[:, 1:5] @ np.array([1, 2, 4, 8])
  assert stats.chisquare(np.bincount(patterns)).pvalue > 1e-3


@pytest.mark.parametrize('name', NAMES)
def test_an_image_does_not_depend_on_its_batch(name, images):
  whole = transform.transform(images, draw(name))
  rows = np.array([299, 0, 7, 7, 123])
  config = transform.config(name)
  record = transform.draw(config, 28, rows)
  some = transform.transform(images[rows], record)
  np.testing.assert_array_equal(some, whole[rows])


def test_seeds_and_splits_draw_differently():
  base = draw('aug5')
  for other in (draw('aug5', seed=1), draw('aug5', split='test')):
    assert (base.angles != other.angles).mean() > 0.99
    assert 0.4 < (base.powers[:, 1:] == other.powers[:, 1:]).mean() < 0.6


@pytest.mark.parametrize('times', range(5))
def test_rotations_by_multiples_of_90_degrees_are_exact(times, images):
  rotated = transform.rotate(images, np.full(300, 90.0 * times))
  np.testing.assert_array_equal(rotated, np.rot90(images, times, (1, 2)))


def test_rotation_agrees_with_pillow_and_scipy(images):
  angles = draw('iaug1').angles
  ours = transform.rotate(images, angles)
  pillow = [
    Image.fromarray(image).rotate(float(angle), Image.Resampling.NEAREST)
    for image, angle in zip(images, angles, strict=True)
  ]
  options = {'reshape': False, 'order': 0, 'mode': 'grid-constant'}
  scipy = [
    ndimage.rotate(image, float(angle), **options)
    for image, angle in zip(images, angles, strict=True)
  ]
  # Pillow computes with 16 bits after the point, so a few pixels round off.
  assert (ours != np.stack([np.asarray(p) for p in pillow])).mean() < 2e-3
  assert (ours != np.stack(scipy)).mean() < 1e-5


def test_smooth_rotation_agrees_with_scipy(images):
  angles = draw('iaug1').angles
  ours = transform.rotate(images, angles, smooth=True)
  options = {'reshape': False, 'order': 1, 'mode': 'grid-constant'}
  scipy = [
    ndimage.rotate(image.astype(float), float(angle), **options)
    for image, angle in zip(images, angles, strict=True)
  ]
  assert np.abs(ours - np.stack(scipy)).max() <= 0.5 + 1e-6


def test_errors_say_what_to_do(images):
  with pytest.raises(ValueError, match="did you mean 'aug3'"):
    transform.config('agu3')
  with pytest.raises(ValueError, match=r'grey square images \[N, H, H\]'):
    transform.transform(images[:, :, :20], draw('aug1'))
  with pytest.raises(ValueError, match='300 records for 10 images'):
    transform.transform(images[:10], draw('aug1'))
  with pytest.raises(ValueError, match="unknown split 'tset'"):
    draw('aug1', split='tset')
  with pytest.raises(ValueError, match='seed'):
    draw('aug1', seed=-1)


# sha256 of the images of all splits; a change of pixels is a new version.
PINNED_DIGITS = {
  'iaug0': 'e46e562ce14a3b6d',
  'iaug1': '358b7cce6f0c37e8',
  'iaug2': 'e1885500fb8150cf',
  'iaug3': '5a3307ea121a1593',
  'iaug4': '68eb09eeac8f6a56',
  'iaug5': '099a82f15127dba7',
  'iaug6': '45ece0c6ab459ba1',
  'iaug7': '0ab75320955764d4',
  'iaug8': '143f5190e3735a93',
  'iaug9': '5dafa26fd2d287c3',
  'iaug10': 'ba6481769505886e',
  'iaug11': '4d69723f4c381ab0',
  'iaug12': 'ea8ad5b65993f722',
  'aug0': 'e46e562ce14a3b6d',
  'aug1': '5e6d3d4e65f5d9d7',
  'aug2': 'e8ffa7998e574a5b',
  'aug3': 'a6a58cd0a960b58f',
  'aug4': '383a3a8ba2e8b38a',
  'aug5': '7050423abba7f658',
  'iaug0_group': 'e46e562ce14a3b6d',
  'iaug1_group': '624ca696eaf12671',
  'iaug2_group': 'e1885500fb8150cf',
  'iaug3_group': '5a3307ea121a1593',
  'iaug4_group': 'e3ad6c736d48fe1a',
  'iaug5_group': '2484c49664568e50',
  'iaug6_group': '9b2a1a9a86911901',
  'iaug7_group': '0ab75320955764d4',
  'iaug8_group': '143f5190e3735a93',
  'iaug9_group': '5dafa26fd2d287c3',
  'iaug10_group': 'ba6481769505886e',
  'iaug11_group': '4d69723f4c381ab0',
  'iaug12_group': 'ea8ad5b65993f722',
  'aug0_group': 'e46e562ce14a3b6d',
  'aug1_group': '5e6d3d4e65f5d9d7',
  'aug2_group': '16242e94369786a1',
  'aug3_group': 'f189875c02994169',
  'aug4_group': '9c499ef3a353e629',
  'aug5_group': '57e7c4f62b4419f3',
}


@pytest.mark.parametrize('name', NAMES)
def test_pixels_of_g_digits_are_pinned(name):
  data = load_lib.load_dataset(f'g_digits/{name}', num_validation=0)
  digest = hashlib.sha256(data.train.images.tobytes())
  digest.update(data.test.images.tobytes())
  assert digest.hexdigest()[:16] == PINNED_DIGITS[name]
