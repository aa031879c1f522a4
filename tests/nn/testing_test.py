import jax.numpy as jnp
import numpy as np
import pytest

import aen


def test_equivariant_functions_pass():
  names = tuple(aen.SYMMETRIES)
  aen.assert_equivariant(np.tanh, names, (4, 4), (4, 4))
  aen.assert_equivariant(lambda x: x.sum((1, 2)), names, (4, 4), None)
  aen.assert_equivariant(jnp.exp, names, (4, 4), (4, 4))


def test_the_message_says_which_symmetry_how_far_off_and_where():
  def broken(x):
    y = x.copy()
    y[:, 1, 2] += 100
    return y

  with pytest.raises(AssertionError) as error:
    aen.assert_equivariant(
      broken, ('horizontal_flip', 'vertical_flip'), (4, 4), (4, 4)
    )
  message = str(error.value)
  assert 'not equivariant to horizontal_flip' in message
  assert 'tolerance 1e-05' in message
  assert 'worst at output (1, 1) of example' in message or (
    'worst at output (1, 2) of example' in message
  )
  assert 'transformed fn(x) = ' in message


def test_invariance_has_its_own_words():
  with pytest.raises(AssertionError, match='not invariant to rotation'):
    aen.assert_equivariant(lambda x: x[:, 0, 0], ('rotation',), (4, 4), None)


def test_every_symmetry_is_tried():
  def only_flips(x):
    return x * np.array([[1, 2, 2, 1], [3, 4, 4, 3]] * 2)[None]

  aen.assert_equivariant(only_flips, ('horizontal_flip',), (4, 4), (4, 4))
  with pytest.raises(AssertionError, match='to vertical_flip'):
    aen.assert_equivariant(
      only_flips, ('horizontal_flip', 'vertical_flip'), (4, 4), (4, 4)
    )


def test_nan_never_passes():
  with pytest.raises(AssertionError, match='nan'):
    aen.assert_equivariant(lambda x: x * np.nan, ('rotation',), (4, 4), (4, 4))


def test_tolerance_follows_the_precision():
  def off_by(relative, dtype):
    def fn(x):
      y = np.ones(x.shape, dtype)
      y[:, 0, 0] += dtype(relative)
      return y

    return fn

  aen.assert_equivariant(
    off_by(3e-6, np.float32), ('rotation',), (4, 4), (4, 4)
  )
  with pytest.raises(AssertionError):
    aen.assert_equivariant(
      off_by(3e-6, np.float64), ('rotation',), (4, 4), (4, 4)
    )
  aen.assert_equivariant(
    off_by(3e-6, np.float64), ('rotation',), (4, 4), (4, 4), tolerance=1e-5
  )


def test_whole_numbers_must_be_right():
  def fn(x):
    y = np.full(x.shape, 25)
    y[:, 0, 0] = 24
    return y

  with pytest.raises(AssertionError, match='tolerance 0'):
    aen.assert_equivariant(fn, ('rotation',), (4, 4), (4, 4))


def test_channels_are_carried_along():
  x = np.random.default_rng(0).random((2, 4, 4, 3))
  aen.assert_equivariant(
    lambda x: x @ np.ones((3, 5)), ('rotation',), (4, 4), (4, 4), x=x
  )


def test_wrong_shapes_are_said():
  with pytest.raises(ValueError, match=r'outputs of fn must have the shape'):
    aen.assert_equivariant(lambda x: x[:, :2], ('rotation',), (4, 4), (4, 4))
  with pytest.raises(ValueError, match='inputs x must have the shape'):
    aen.assert_equivariant(
      lambda x: x, ('rotation',), (4, 4), (4, 4), x=np.ones((4, 4))
    )


def test_imaginary_parts_count():
  aen.assert_equivariant(
    lambda x: np.exp(1j * x), ('rotation',), (4, 4), (4, 4)
  )
  with pytest.raises(AssertionError, match='not equivariant to mirror'):
    aen.assert_equivariant(
      lambda x: 1j * x * np.arange(4),
      aen.Symmetry('mirror', lambda x: x[::-1]),
      (4,),
      (4,),
    )


def test_functions_may_reuse_their_output_and_change_their_input():
  buffer = np.zeros((4, 4, 4))

  def reuse(x):
    buffer[:] = x * np.arange(4)
    return buffer

  with pytest.raises(AssertionError, match='not equivariant'):
    aen.assert_equivariant(reuse, ('rotation',), (4, 4), (4, 4))

  def change(x):
    x *= 2
    return x

  given = np.random.default_rng(0).random((4, 4, 4))
  before = given.copy()
  aen.assert_equivariant(change, ('rotation',), (4, 4), (4, 4), x=given)
  np.testing.assert_array_equal(given, before)


def test_large_whole_numbers_and_infinities_are_compared_exactly():
  def off_by_one(x):
    y = np.full(x.shape, 2**60)
    y[:, 0, 0] += 1
    return y

  with pytest.raises(AssertionError, match='tolerance 0'):
    aen.assert_equivariant(off_by_one, ('rotation',), (4, 4), (4, 4))
  with np.errstate(divide='ignore'):
    x = np.round(np.random.default_rng(0).random((4, 4, 4)))
    aen.assert_equivariant(np.log, ('rotation',), (4, 4), (4, 4), x=x)

  def hidden(x):  # behind an infinity
    y = x.copy()
    y[:, 1:3, 1:3], y[:, 0, 0] = np.inf, 100
    return y

  with pytest.raises(AssertionError, match='not equivariant'):
    aen.assert_equivariant(hidden, ('rotation',), (4, 4), (4, 4))


@pytest.mark.parametrize(
  ('fn', 'x'),
  [
    (lambda x: 5.0, None),
    (lambda x: x[:1], None),
    (lambda x: x, np.zeros((0, 4, 4))),
    (lambda x: x.astype(str), None),
    (lambda x: np.zeros((4, 4, 4, 1 + int(x[0, 0, 0] > 0))), None),
  ],
)
def test_outputs_that_are_no_batch_are_said(fn, x):
  with pytest.raises(ValueError, match='the outputs of fn must'):
    aen.assert_equivariant(fn, ('rotation',), (4, 4), None, x=x)
