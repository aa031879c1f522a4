"""Search spaces: what states mean, and programs that many networks share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aen
from aen import spaces


def test_the_papers_space():
  space = spaces.mlp_space((28, 28), 10)
  assert len(space) == 216
  assert space.bits == tuple(aen.SYMMETRIES)
  assert space.template.hidden_shapes == ((20, 20), (20, 20))
  assert space.num_weights(0) == 477600
  rotation = space.lattice.network('rotation')
  assert space.names(rotation) == ('rotation',)
  both = space.lattice.network(('rotation', 'horizontal_flip'))
  assert space.implied(both) == ('vertical_flip',)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
def test_keys_are_equal_exactly_for_equal_networks(head):
  space = spaces.mlp_space((8, 8), 3, head=head)
  keys = [space.key(network) for network in range(len(space))]
  assert len(set(keys)) == len(space)
  names = ('rotation', 'vertical_flip')
  smaller = spaces.mlp_space((8, 8), 3, names, head=head)
  for network in range(len(smaller)):
    twin = space.lattice.network(smaller.names(network))
    assert smaller.key(network) == space.key(twin)
  other = spaces.mlp_space((8, 8), 4, names, head=head)
  assert other.key(0) != smaller.key(0)


def test_the_head_is_part_of_the_key():
  keys = {
    spaces.mlp_space((8, 8), 3, ('rotation',), head=head).key(1)
    for head in ('dense', 'invariant')
  }
  assert len(keys) == 2


@pytest.mark.parametrize('image_shape', [(8, 8), (6, 6, 3), (3, 3), (5, 8)])
@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.filterwarnings('ignore:left out')
def test_programs_compute_what_the_models_do(image_shape, head):
  space = spaces.mlp_space(image_shape, 3, head=head)
  x = jax.random.normal(jax.random.key(0), (2, *image_shape))
  for network in {0, len(space) // 2, len(space) - 1}:
    program, inputs = space.program(network), space.inputs(network)
    _, variables = program.apply(
      inputs, x, rngs={'params': jax.random.key(1)}, mutable=['params']
    )
    params = jax.tree.map(
      lambda leaf: leaf + jnp.arange(leaf.size).reshape(leaf.shape) / leaf.size,
      variables['params'],
    )
    model = space.model(network)
    np.testing.assert_allclose(
      program.apply({'params': params, **inputs}, x),
      model.apply({'params': space.unpad(network, params)}, x),
      rtol=2e-5,
      atol=2e-5,
    )


@pytest.mark.filterwarnings('ignore:left out')
def test_the_default_table_is_what_can_act():
  assert spaces.mlp_space((5, 5), 2).bits == (
    'rotation',
    'horizontal_flip',
    'vertical_flip',
    'horizontal_translation',
    'vertical_translation',
  )
  wide = spaces.mlp_space((4, 6), 2).bits
  assert 'rotation' not in wide
  assert 'left_vertical_scramble' in wide


def test_what_is_left_out_is_said_in_one_line():
  with pytest.warns(UserWarning, match='cannot act on 4×6 images: rotation'):
    spaces.mlp_space((4, 6), 2)


def test_a_named_symmetry_that_cannot_act_is_an_error():
  with pytest.raises(ValueError, match='square'):
    spaces.mlp_space((28, 20), 10, ('rotation',))


@pytest.mark.parametrize('side', range(1, 65))
def test_hidden_sides_are_of_the_same_kind(side):
  hidden = spaces.hidden_side(side)
  assert hidden <= side
  assert hidden % 2 == side % 2
  assert hidden % 4 == 0 or side % 4
  assert hidden == side if side <= 16 else abs(hidden - side * 5 / 7) <= 2


def test_small_grids_get_channels_and_colour_gets_one():
  assert spaces.mlp_space((4, 4), 2, ()).template.features == (25, 25)
  assert spaces.mlp_space((16, 16, 3), 2, ()).template.features == (1, 1)
  assert spaces.mlp_space((16, 16), 2, ()).template.features is None


def test_a_space_is_made_again_from_its_description():
  def shift(array):
    return np.roll(array, 1, axis=0)

  own = aen.Symmetry('shift', shift)
  space = spaces.mlp_space((6, 6), 3, ('rotation', own), head='invariant')
  again = spaces.from_spec(space.spec(), (own,))
  assert [again.key(n) for n in range(len(again))] == [
    space.key(n) for n in range(len(space))
  ]
  with pytest.raises(ValueError, match='shift are not built in'):
    spaces.from_spec(space.spec())
