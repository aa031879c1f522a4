import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

import aen
from aen.train import augment as augment_lib

NAMES = tuple(aen.AUGMENTATIONS)
ALL = np.ones(6, bool)
NONE = np.zeros(6, bool)


def only(name):
  return aen.augmentation_mask(name)


@pytest.fixture(scope='module')
def digits():
  images = aen.load_dataset('digits').train.images[:24]
  return images.astype(np.float32) / 255


@pytest.fixture(scope='module')
def draw():
  """Matrices [N, 3, 3] of a mask, as `augment` draws them."""

  @functools.partial(jax.jit, static_argnums=(1, 2))
  def draw(key, number, shape, mask):
    return jax.vmap(augment_lib.random_matrix, (0, None, None))(
      jax.random.split(key, number), shape, mask
    )

  return lambda mask, number=24, shape=(16, 16), seed=0: np.asarray(
    draw(jax.random.key(seed), number, shape, jnp.asarray(mask))
  )


def by_scipy(image, matrix, fill=0.0):
  centre = (np.array(image.shape) - 1) / 2
  linear = matrix[:2, :2].astype(np.float64)
  offset = centre - linear @ centre + matrix[:2, 2]
  return ndimage.affine_transform(
    image, linear, offset, order=1, mode='grid-constant', cval=fill
  )


def test_the_paper_s_six():
  assert NAMES == (
    'random_rotation',
    'random_horizontal_flip',
    'random_vertical_flip',
    'random_translation',
    'random_scaling',
    'random_shear',
  )
  np.testing.assert_array_equal(aen.augmentation_mask(NAMES), ALL)
  np.testing.assert_array_equal(aen.augmentation_mask(()), NONE)
  with pytest.raises(ValueError, match='known: random_rotation'):
    aen.augmentation_mask(['rotation'])


@pytest.mark.parametrize('mask', [*map(only, NAMES), ALL, NONE])
def test_against_scipy_on_real_images(digits, draw, mask):
  got = aen.augment(jax.random.key(0), digits, mask)
  matrices = draw(mask)
  for image, matrix, changed in zip(digits, matrices, got, strict=True):
    np.testing.assert_allclose(changed, by_scipy(image, matrix), atol=2e-5)
  changed = np.abs(np.asarray(got) - digits).max((1, 2)) > 0.05
  assert changed.mean() > 0.2 if mask.any() else not changed.any()


def test_nothing_on_changes_no_bit(digits):
  np.testing.assert_array_equal(
    aen.augment(jax.random.key(1), digits, NONE), digits
  )


@pytest.mark.parametrize(
  ('name', 'axis'), [('random_horizontal_flip', 2), ('random_vertical_flip', 1)]
)
def test_flips_are_exact_and_strike_every_other_image(digits, name, axis):
  many = np.tile(digits, (10, 1, 1))
  got = np.asarray(aen.augment(jax.random.key(0), many, only(name)))
  flipped = (got == np.flip(many, axis)).all((1, 2))
  kept = (got == many).all((1, 2))
  assert (flipped | kept).all()
  assert 0.4 < flipped.mean() < 0.6


def test_matrices_stay_within_the_paper_s_limits_and_reach_them(draw):
  number, shape = 2000, (20, 30)
  drawn = {n: draw(only(n), number, shape) for n in NAMES}
  rotations = drawn['random_rotation']
  angles = np.rad2deg(np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]))
  shifts = drawn['random_translation'][:, :2, 2]
  scales = 1 / drawn['random_scaling'][:, 0, 0]
  shears = np.rad2deg(np.arctan(drawn['random_shear'][:, 1, 0]))
  for values, low, high in (
    (angles, -30, 30),
    (shifts[:, 0], -4, 4),
    (shifts[:, 1], -6, 6),
    (scales, 0.9, 1.1),
    (shears, -10, 10),
  ):
    room = 0.02 * (high - low)
    assert low - 1e-4 <= values.min() < low + room
    assert high - room < values.max() <= high + 1e-4
    assert abs(values.mean() - (low + high) / 2) < 0.05 * (high - low)
  np.testing.assert_array_equal(shifts, np.round(shifts))
  determinants = np.linalg.det(rotations)
  np.testing.assert_allclose(determinants, 1, rtol=1e-5)


def test_masks_only_switch_what_is_drawn(draw):
  """A bit more changes no other draw; the product is in the bits' order."""
  single = [draw(only(name)) for name in NAMES]
  expected = functools.reduce(np.matmul, single)
  np.testing.assert_allclose(draw(ALL), expected, atol=1e-5)


def test_every_image_and_every_key_its_own_change(digits):
  same = np.tile(digits[:1], (4, 1, 1))
  first, second = (
    np.asarray(aen.augment(jax.random.key(seed), same, ALL)) for seed in (0, 1)
  )
  assert all((first[0] != first[i]).any() for i in (1, 2, 3))
  assert (first != second).any()
  again = aen.augment(jax.random.key(0), same, ALL)
  np.testing.assert_array_equal(first, again)


def test_all_64_masks_are_one_program(digits):
  images = digits[:2, :8, :8]
  masks = (np.arange(64)[:, None] >> np.arange(6)) % 2
  augment_lib._augmented.clear_cache()
  keys = jax.random.split(jax.random.key(0), 64)
  for key, mask in zip(keys[:9], masks[:9].astype(np.float32), strict=True):
    aen.augment(key, images, mask)
  assert augment_lib._augmented._cache_size() == 1
  together = jax.vmap(aen.augment, (0, None, 0))(
    keys, images, masks.astype(np.float32)
  )
  assert together.shape == (64, 2, 8, 8)
  for i in range(0, 9, 4):
    np.testing.assert_allclose(
      together[i],
      aen.augment(keys[i], images, masks[i].astype(np.float32)),
      atol=1e-6,
    )


def test_channels_go_together_and_borders_are_filled():
  images = np.random.default_rng(0).uniform(size=(3, 12, 10, 2))
  images = images.astype(np.float32)
  mask, key = only('random_translation'), jax.random.key(0)
  both = aen.augment(key, images, mask, np.array([5.0, -1.0], np.float32))
  for channel, fill in enumerate((5.0, -1.0)):
    one = aen.augment(key, images[..., channel], mask, fill)
    np.testing.assert_array_equal(both[..., channel], one)
  assert (both[..., 0] == 5).any()
  assert both.shape == images.shape


def test_integers_become_floats_and_half_stays_half():
  for given, expected in (
    (jnp.uint8, jnp.float32),
    (jnp.float32, jnp.float32),
    (jnp.bfloat16, jnp.bfloat16),
  ):
    images = jnp.ones((2, 8, 8), given)
    got = jax.eval_shape(aen.augment, jax.random.key(0), images, ALL)
    assert (got.shape, got.dtype) == (images.shape, expected)


@pytest.mark.parametrize(
  ('shape', 'mask'),
  [
    ((8, 8), ALL),
    ((2, 8, 8), ALL[:5]),
    ((2,) * 5, ALL),
    ((0, 8, 8), ALL),
    ((2, 0, 8), ALL),
  ],
)
def test_wrong_shapes_are_said(shape, mask):
  with pytest.raises(ValueError, match='augment needs images'):
    aen.augment(jax.random.key(0), np.zeros(shape, np.float32), mask)


def test_a_mask_is_true_or_false():
  mask = np.array([1, 0, np.nan, 0, 0, 0], np.float32)
  with pytest.raises(ValueError, match='mask must be true or false'):
    aen.augment(jax.random.key(0), np.zeros((2, 8, 8), np.float32), mask)
