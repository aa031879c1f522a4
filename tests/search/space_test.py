"""Search spaces: what states mean, and programs that many networks share."""

import functools
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aen
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import result as result_lib


def test_the_papers_space():
  space = mlp_space.mlp_space((28, 28), 10)
  assert len(space) == 216
  assert space.bits == PAPER_SYMMETRIES
  assert space.template.hidden_shapes == ((20, 20), (20, 20))
  assert space.num_weights(0) == 477600
  rotation = space.lattice.network('rotation')
  assert space.names(rotation) == ('rotation',)
  both = space.lattice.network(('rotation', 'horizontal_flip'))
  assert space.implied(both) == ('vertical_flip',)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
def test_keys_are_equal_exactly_for_equal_networks(head):
  space = mlp_space.mlp_space((8, 8), 3, head=head)
  keys = [space.key(network) for network in range(len(space))]
  assert len(set(keys)) == len(space)
  names = ('rotation', 'vertical_flip')
  smaller = mlp_space.mlp_space((8, 8), 3, names, head=head)
  for network in range(len(smaller)):
    twin = space.lattice.network(smaller.names(network))
    assert smaller.key(network) == space.key(twin)
  other = mlp_space.mlp_space((8, 8), 4, names, head=head)
  assert other.key(0) != smaller.key(0)


def test_the_head_is_part_of_the_key():
  keys = {
    mlp_space.mlp_space((8, 8), 3, ('rotation',), head=head).key(1)
    for head in ('dense', 'invariant')
  }
  assert len(keys) == 2


@pytest.mark.slow
@pytest.mark.parametrize('image_shape', [(8, 8), (6, 6, 3), (3, 3), (5, 8)])
@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.filterwarnings('ignore:left out')
def test_programs_compute_what_the_models_do(image_shape, head):
  space = mlp_space.mlp_space(image_shape, 3, head=head)
  x = jax.random.normal(jax.random.key(0), (2, *image_shape))
  for network in {0, len(space) // 2, len(space) - 1}:
    program, inputs = space.program(network), space.inputs(network).collections
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
  assert mlp_space.mlp_space((5, 5), 2).bits == (
    'rotation',
    'horizontal_flip',
    'vertical_flip',
    'horizontal_translation',
    'vertical_translation',
  )
  wide = mlp_space.mlp_space((4, 6), 2).bits
  assert 'rotation' not in wide
  assert 'left_vertical_scramble' in wide


def test_what_is_left_out_is_said_in_one_line():
  with pytest.warns(UserWarning, match='cannot act on 4×6 images: rotation'):
    mlp_space.mlp_space((4, 6), 2)


def test_a_named_symmetry_that_cannot_act_is_an_error():
  with pytest.raises(ValueError, match='square'):
    mlp_space.mlp_space((28, 20), 10, ('rotation',))


@pytest.mark.parametrize('side', range(1, 65))
def test_hidden_sides_are_of_the_same_kind(side):
  hidden = mlp_space.hidden_side(side)
  assert hidden <= side
  assert hidden % 2 == side % 2
  assert hidden % 4 == 0 or side % 4
  assert hidden == side if side <= 16 else abs(hidden - side * 5 / 7) <= 2


def test_small_grids_get_channels_and_colour_gets_one():
  assert mlp_space.mlp_space((4, 4), 2, ()).template.features == (25, 25)
  assert mlp_space.mlp_space((16, 16, 3), 2, ()).template.features == (1, 1)
  assert mlp_space.mlp_space((16, 16), 2, ()).template.features is None


def transpose(array):
  return np.swapaxes(array, 0, 1)


DIAGONAL = aen.Symmetry('diagonal', transpose)


@functools.cache
def make_gcnn_space(*symmetries, **options):
  return gcnn_space.gcnn_space((16, 16), 3, symmetries or None, **options)


def test_the_papers_space_of_group_cnns():
  space = gcnn_space.gcnn_space((28, 28), 10)
  assert len(space.bits) == 10
  assert len(space) == 6 * 2**6 * 2
  assert space.template.padding == 'VALID'
  assert space.names(0) == ('small',)
  assert space.num_weights(0) == 48720
  both = ('rotation', 'horizontal_flip')
  network = space.network((*both, 'random_shear', 'large'))
  assert space.names(network) == (*both, 'random_shear', 'large')
  assert space.implied(network) == ('vertical_flip',)
  assert space.names(space.baseline(network)) == ('large',)
  assert space.baseline(space.network(both)) == 0
  _, first_states = np.unique(space.network_of, return_index=True)
  assert (np.diff(first_states) > 0).all()  # numbered as they first occur
  np.testing.assert_array_equal(
    space.network_of[space.shortest_states], np.arange(len(space))
  )


def test_choices_that_generate_the_same_group_are_the_same_network():
  space = make_gcnn_space()
  rotation, flips = 'rotation', ('horizontal_flip', 'vertical_flip')
  extra = ('random_scaling', 'large')
  square = {space.network((rotation, *some, *extra)) for some in subsets(flips)}
  assert len(square) == 2  # rotations alone, or with either flip or both
  keys = {space.key(network) for network in range(len(space))}
  assert len(keys) == len(space)
  other = make_gcnn_space('vertical_flip', DIAGONAL)  # they generate rotations
  network = other.network(('vertical_flip', 'diagonal', *extra))
  assert other.key(network) == space.key(
    space.network((rotation, *flips, *extra))
  )
  assert make_gcnn_space(head='invariant').key(0) != space.key(0)


def subsets(names):
  return itertools.chain.from_iterable(
    itertools.combinations(names, count) for count in range(len(names) + 1)
  )


def test_groups_of_one_order_share_a_program():
  space = make_gcnn_space()
  networks = (*range(6), *range(len(space) - 6, len(space)))
  assert len({space.program(network) for network in networks}) == 4 * 2
  masks = [space.inputs(network).augmentations for network in networks]
  assert [int(mask.sum()) for mask in masks] == [0] * 6 + [6] * 6
  x = jax.random.normal(jax.random.key(0), (2, 16, 16))
  network = space.network(('horizontal_flip', 'vertical_flip', 'random_shear'))
  program, model = space.program(network), space.model(network)
  inputs = space.inputs(network).collections
  shapes = jax.eval_shape(model.init, jax.random.key(1), x)['params']
  rng = np.random.default_rng(0)
  params = jax.tree.map(lambda leaf: 0.1 * rng.normal(size=leaf.shape), shapes)
  assert program.symmetries != model.symmetries
  np.testing.assert_allclose(
    jax.jit(program.apply)({'params': params, **inputs}, x),
    jax.jit(model.apply)({'params': space.unpad(network, params)}, x),
    rtol=2e-5,
    atol=2e-5,
  )


@pytest.mark.parametrize(
  ('shape', 'options', 'message'),
  [
    ((28, 20), {'symmetries': ('rotation',)}, 'rotations need square images'),
    ((30, 30), {}, 'pad them to 32×32'),
    ((3, 3), {}, 'which needs 4×4'),
    ((16, 16), {'symmetries': ('vertical_scramble',)}, 'not a rotation or r'),
  ],
)
def test_group_cnns_that_cannot_be_are_refused(shape, options, message):
  with pytest.raises(ValueError, match=message):
    gcnn_space.gcnn_space(shape, 3, **options)


def test_wide_images_are_not_rotated():
  with pytest.warns(UserWarning, match='cannot act on 28×20 images: rotation'):
    space = gcnn_space.gcnn_space((28, 20), 3)
  assert [s.name for s in space.symmetries] == [
    'horizontal_flip',
    'vertical_flip',
  ]


@pytest.mark.parametrize(
  'space',
  [
    mlp_space.mlp_space((6, 6), 3, ('rotation', DIAGONAL), head='invariant'),
    make_gcnn_space('rotation', DIAGONAL, head='invariant'),
  ],
  ids=lambda space: type(space).__name__,
)
def test_a_space_is_made_again_from_its_description(space):
  spec = json.loads(json.dumps(space.spec()))
  again = result_lib.from_spec(spec, (DIAGONAL,))
  assert type(again) is type(space)
  assert [again.key(n) for n in range(len(again))] == [
    space.key(n) for n in range(len(space))
  ]
  with pytest.raises(ValueError, match='diagonal are not built in'):
    result_lib.from_spec(spec)


@pytest.mark.parametrize('head', ['dense', 'invariant'])
@pytest.mark.parametrize('image_shape', [(8, 8), (8, 8, 3), (16, 16)])
def test_weights_are_counted_as_the_models_count_them(image_shape, head):
  space = mlp_space.mlp_space(image_shape, 3, head=head)
  channels = image_shape[2] if len(image_shape) == 3 else 1
  for network in range(0, len(space), 7):
    expected = space.model(network).num_weights(channels)
    assert space.num_weights(network) == expected
