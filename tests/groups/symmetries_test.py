import functools
import subprocess
import sys

import numpy as np
import pytest

import aen
from aen.groups import symmetries as symmetries_lib

ORDERS_ON_28 = {
  'rotation': 4,
  'horizontal_flip': 2,
  'vertical_flip': 2,
  'horizontal_translation': 7,
  'vertical_translation': 7,
  'rotation_scramble': 4,
  'horizontal_scramble': 2,
  'vertical_scramble': 2,
  'left_vertical_scramble': 2,
  'right_vertical_scramble': 2,
  'top_horizontal_scramble': 2,
  'bottom_horizontal_scramble': 2,
}


def order(symmetry, shape):
  points = np.arange(np.prod(shape)).reshape(shape)
  transformed, count = symmetry(points), 1
  while not np.array_equal(transformed, points):
    transformed, count = symmetry(transformed), count + 1
  return count


def test_the_table_has_the_papers_names_in_the_papers_order():
  assert tuple(ORDERS_ON_28)[:12] == symmetries_lib.PAPER_SYMMETRIES
  assert all(s.name == name for name, s in aen.SYMMETRIES.items())


def test_every_named_symmetry_is_specified_here():
  known = tuple(aen.SYMMETRIES)
  assert tuple(ORDERS_ON_28) == known, 'add the order of the new symmetry'
  shown = {*DESTINATIONS, 'rotation', 'rotation_scramble'}  # by examples
  assert shown == {*known}, 'add where the new symmetry maps a pixel'


@pytest.mark.parametrize('name', ORDERS_ON_28)
def test_orders(name):
  symmetry = aen.SYMMETRIES[name]
  assert order(symmetry, (28, 28)) == ORDERS_ON_28[name]
  five_not_seven = 5 if 'translation' in name else ORDERS_ON_28[name]
  assert order(symmetry, (20, 20)) == five_not_seven


def test_goldens_where_the_direction_matters():
  grid = np.arange(64).reshape(8, 8)
  right = aen.SYMMETRIES['horizontal_translation'](grid)
  assert right[0].tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
  down = aen.SYMMETRIES['vertical_translation'](grid)
  assert down[:, 0].tolist() == [32, 40, 48, 56, 0, 8, 16, 24]
  # On a side of six, four to the right is not four to the left.
  six = aen.SYMMETRIES['horizontal_translation'](np.arange(36).reshape(6, 6))
  assert six[0].tolist() == [2, 3, 4, 5, 0, 1]


def test_golden_of_the_quadrants_on_four_by_four():
  quadrants = np.block(
    [
      [np.full((2, 2), 'a'), np.full((2, 2), 'b')],
      [np.full((2, 2), 'd'), np.full((2, 2), 'c')],
    ]
  )
  transformed = aen.SYMMETRIES['rotation_scramble'](quadrants)
  assert [''.join(row) for row in transformed] == [
    'ddaa',
    'ddaa',
    'ccbb',
    'ccbb',
  ]
  # The contents of the quadrants are not rotated.
  numbers = aen.SYMMETRIES['rotation_scramble'](np.arange(16).reshape(4, 4))
  assert numbers.tolist() == [
    [8, 9, 0, 1],
    [12, 13, 4, 5],
    [10, 11, 2, 3],
    [14, 15, 6, 7],
  ]


# Where the pixel (i, j) of an m×m grid goes, straight from the paper's table.
DESTINATIONS = {
  'horizontal_flip': lambda i, j, m, h: (i, m - 1 - j),
  'vertical_flip': lambda i, j, m, h: (m - 1 - i, j),
  'horizontal_translation': lambda i, j, m, h: (i, (j + 4) % m),
  'vertical_translation': lambda i, j, m, h: ((i + 4) % m, j),
  'horizontal_scramble': lambda i, j, m, h: (i, (j + h) % m),
  'vertical_scramble': lambda i, j, m, h: ((i + h) % m, j),
  'left_vertical_scramble': lambda i, j, m, h: (
    ((i + h) % m, j) if j < h else (i, j)
  ),
  'right_vertical_scramble': lambda i, j, m, h: (
    ((i + h) % m, j) if j >= h else (i, j)
  ),
  'top_horizontal_scramble': lambda i, j, m, h: (
    (i, (j + h) % m) if i < h else (i, j)
  ),
  'bottom_horizontal_scramble': lambda i, j, m, h: (
    (i, (j + h) % m) if i >= h else (i, j)
  ),
}


@pytest.mark.parametrize('name', DESTINATIONS)
@pytest.mark.parametrize('side', [4, 6, 20, 28])
def test_every_pixel_goes_where_the_table_says(name, side):
  image = np.random.default_rng(0).random((side, side))
  transformed = aen.SYMMETRIES[name](image)
  for i in range(side):
    for j in range(side):
      assert (
        transformed[DESTINATIONS[name](i, j, side, side // 2)] == image[i, j]
      )


@pytest.mark.parametrize('name', aen.SYMMETRIES)
def test_channels_are_carried_along(name):
  image = np.random.default_rng(0).random((8, 8, 3))
  transformed = aen.SYMMETRIES[name](image)
  for channel in range(3):
    np.testing.assert_array_equal(
      transformed[..., channel], aen.SYMMETRIES[name](image[..., channel])
    )


@pytest.mark.parametrize(
  ('name', 'shape', 'says'),
  [
    ('rotation', (28, 20), r'rotation needs a square grid, got \(28, 20\)'),
    ('rotation', (16,), 'needs a grid of two axes'),
    ('horizontal_flip', (16,), 'needs a grid of two axes'),
    ('vertical_translation', (16,), 'needs a grid of two axes'),
    ('horizontal_scramble', (4, 7), r'even number of columns, got \(4, 7\)'),
    ('vertical_scramble', (7, 4), 'even number of rows'),
    ('rotation_scramble', (6, 7), 'even number of rows and columns'),
    ('left_vertical_scramble', (6, 7), 'even number of rows and columns'),
    ('top_horizontal_scramble', (7, 6), 'even number of rows and columns'),
  ],
)
def test_a_shape_it_cannot_act_on_is_an_error(name, shape, says):
  with pytest.raises(ValueError, match=says):
    aen.permutation(name, shape)


def test_shapes_that_need_not_be_even_or_square():
  assert aen.permutation('horizontal_flip', (3, 5)).size == 15
  assert aen.permutation('horizontal_scramble', (3, 6)).size == 18
  assert aen.permutation('rotation', (7, 7)).size == 49
  assert aen.permutation('rotation_scramble', (4, 6)).size == 24


def test_an_edited_function_is_another_symmetry():
  def shift(steps):
    return aen.Symmetry('shift', lambda x: np.roll(x, steps, axis=0))

  assert shift(1) == shift(1)
  assert hash(shift(1)) == hash(shift(1))
  assert shift(1) != shift(2)
  assert aen.Symmetry('a', lambda x: x[::-1]) != aen.Symmetry(
    'a', lambda x: x[:, ::-1]
  )
  assert aen.Symmetry('a', np.flipud) == aen.Symmetry('a', np.flipud)
  assert aen.Symmetry('a', np.flipud) != aen.Symmetry('a', np.fliplr)
  once, twice = (functools.partial(np.roll, shift=n) for n in (1, 2))
  assert aen.Symmetry('a', once) == aen.Symmetry('a', once)
  assert aen.Symmetry('a', once) != aen.Symmetry('a', twice)


def test_methods_differ_by_their_owner_and_functions_by_keyword_defaults():
  class Shift:
    def __init__(self, step):
      self.step = step

    def shift(self, x):
      return np.roll(x, self.step, axis=0)

  def make(step):
    def shift(x, *, by=step):
      return np.roll(x, by, axis=0)

    return aen.Symmetry('shift', shift)

  one, two = Shift(1), Shift(2)
  assert aen.Symmetry('shift', one.shift) == aen.Symmetry('shift', one.shift)
  assert aen.Symmetry('shift', one.shift) != aen.Symmetry('shift', two.shift)
  assert make(1) == make(1)
  assert make(1) != make(2)


def test_symmetries_are_equal_by_name():
  first = aen.Symmetry('mine', lambda x: x[::-1])
  again = aen.Symmetry('mine', lambda x: x[::-1])
  assert first == again
  assert hash(first) == hash(again)
  assert first != aen.Symmetry('other', first.fn)


def test_whatever_users_write_becomes_a_tuple():
  def mirror(x):
    return x[::-1]

  mixed = symmetries_lib.as_symmetries(
    ['rotation', mirror, aen.Symmetry('x', abs)]
  )
  assert [s.name for s in mixed] == ['rotation', 'mirror', 'x']
  assert symmetries_lib.as_symmetries(
    'rotation'
  ) == symmetries_lib.as_symmetries(('rotation',))
  every = symmetries_lib.as_symmetries(aen.SYMMETRIES)
  assert every == tuple(aen.SYMMETRIES.values())
  assert symmetries_lib.as_symmetries(None) == ()
  partial = functools.partial(np.roll, shift=1)
  assert symmetries_lib.as_symmetries(partial)[0](np.arange(3)).tolist() == [
    2,
    0,
    1,
  ]


@pytest.mark.parametrize('key', [0, None, 1])
def test_keys_of_a_mapping_are_names(key):
  (flip,) = symmetries_lib.as_symmetries({'': lambda x: x[::-1]})
  assert not flip.name
  with pytest.raises(ValueError, match='a Symmetry is a name and a function'):
    symmetries_lib.as_symmetries({key: lambda x: x[::-1]})


def test_lambdas_have_the_same_name_in_every_process():
  code = (
    'import aen\n'
    'from aen.groups import symmetries\n'
    'flips = [lambda x: x[::-1], lambda x: [y for y in x[:, ::-1]]]\n'
    'print([s.name for s in symmetries.as_symmetries(flips)])'
  )
  names = {
    subprocess.run(
      [sys.executable, '-c', code], capture_output=True, text=True, check=True
    ).stdout
    for _ in range(2)
  }
  assert len(names) == 1
  assert 'function_line_3_' in names.pop()


def test_lambdas_are_told_apart():
  one, two = symmetries_lib.as_symmetries([lambda x: x[::-1], lambda x: x])
  assert one != two


def test_two_functions_of_one_name_are_an_error():
  def roll(step):
    def roll(x):
      return np.roll(x, step)

    return roll

  with pytest.raises(ValueError, match="both called 'roll'"):
    symmetries_lib.as_symmetries([roll(1), roll(2)])


@pytest.mark.parametrize(
  ('wrong', 'says'),
  [
    ('rotations', "did you mean 'rotation'"),
    ('zzz', 'known names: rotation, horizontal_flip'),
    (3, 'got 3'),
    ([3], 'got 3'),
  ],
)
def test_no_symmetry_at_all(wrong, says):
  with pytest.raises(ValueError, match=says):
    symmetries_lib.as_symmetries(wrong)


POINT_GROUPS = {  # names -> order of the group
  (): 1,
  ('horizontal_flip',): 2,
  ('vertical_flip',): 2,
  ('horizontal_flip', 'vertical_flip'): 4,
  ('rotation',): 4,
  ('rotation', 'horizontal_flip'): 8,
  ('rotation', 'vertical_flip'): 8,
  ('rotation', 'horizontal_flip', 'vertical_flip'): 8,
}


@pytest.mark.parametrize(
  ('names', 'size'), POINT_GROUPS.items(), ids=map('+'.join, POINT_GROUPS)
)
def test_groups_of_the_plane(names, size):
  group = aen.group(names)
  assert group.order == size
  assert_is_group(group)
  assert group == aen.group(tuple(reversed(names)))


def assert_is_group(group):
  n = np.arange(group.order)
  np.testing.assert_array_equal(group.table[0], n)
  np.testing.assert_array_equal(group.table[:, 0], n)
  np.testing.assert_array_equal(group.table[n, group.inverse], 0)
  for g in n:  # (gh)k = g(hk), for all h, k at once
    np.testing.assert_array_equal(
      group.table[group.table[g]], group.table[g][group.table]
    )
  for g in n:
    for h in n:
      np.testing.assert_array_equal(
        group.elements[group.table[g, h]],
        group.elements[g] @ group.elements[h],
      )


def test_all_three_bits_make_d4_and_not_sixteen_copies():
  d4 = aen.group(('rotation', 'horizontal_flip'))
  assert d4 == aen.group(('rotation', 'vertical_flip'))
  assert d4 == aen.group(('rotation', 'horizontal_flip', 'vertical_flip'))
  assert aen.group(('horizontal_flip',)) != aen.group(('vertical_flip',))


@pytest.mark.parametrize('names', POINT_GROUPS, ids='+'.join)
def test_elements_as_symmetries_multiply_as_the_table_says(names):
  group = aen.group(names)
  image = np.random.default_rng(0).random((5, 5, 2))
  for g in range(group.order):
    for h in range(group.order):
      np.testing.assert_array_equal(
        group.symmetry(g)(group.symmetry(h)(image)),
        group.symmetry(group.table[g, h])(image),
      )


def test_generators_are_among_the_elements():
  image = np.random.default_rng(0).random((5, 5))
  group = aen.group(('rotation', 'horizontal_flip'))
  elements = {group.symmetry(g)(image).tobytes() for g in range(group.order)}
  for name in ('rotation', 'horizontal_flip', 'vertical_flip'):
    assert aen.SYMMETRIES[name](image).tobytes() in elements


def test_the_48_symmetries_of_the_cube():
  def cycle_axes(x):
    return np.transpose(x, (1, 2, 0))

  cube = aen.group([cycle_axes, np.rot90, lambda x: x[::-1]], ndim=3)
  assert cube.order == 48
  assert_is_group(cube)


def test_one_dimension():
  assert aen.group([lambda x: x[::-1]], ndim=1).order == 2


@pytest.mark.parametrize('name', symmetries_lib.PAPER_SYMMETRIES[3:])
def test_what_no_convolution_can_have_is_refused(name):
  with pytest.raises(ValueError, match='not a rotation or reflection'):
    aen.group((name,))


def test_a_symmetry_is_a_name_and_a_function():
  with pytest.raises(ValueError, match='a name and a function of an array'):
    aen.Symmetry(np.rot90, 'rotation')
  with pytest.raises(ValueError, match='a name and a function of an array'):
    aen.Symmetry(None, np.rot90)
  with pytest.raises(ValueError, match='ndim must be at least 1'):
    aen.group((), ndim=0)


@pytest.mark.parametrize(
  'function',
  [lambda x: x + 1, lambda x: x - 1, lambda x: x / 1, lambda x: x[0]],
)
def test_what_is_no_permutation_generates_no_group(function):
  with pytest.raises(ValueError, match='not a rotation or reflection'):
    aen.group([function])


def test_rolls_do_not_pass_as_the_identity():
  with pytest.raises(ValueError, match='already built into every convolution'):
    aen.group([lambda x: np.roll(x, 6, axis=0)])


@pytest.mark.parametrize(
  ('fn', 'why'),
  [
    (lambda x: x[::-1] / 1.0, 'not a rotation or reflection'),
    (lambda x: 1 // 0, 'cannot act on the grid .* ZeroDivisionError'),
    (lambda x: {}['a'], 'KeyError'),
    (lambda x: x.max() - x, 'depends on the values'),
    (lambda x: None, 'must return an array'),
  ],
)
def test_whatever_a_function_does_group_answers_in_one_line(fn, why):
  with pytest.raises(ValueError, match=why) as error:
    aen.group([fn])
  assert str(error.value).count('\n') == 0


def test_groups_are_bounded():
  def swap(i):
    return aen.Symmetry(f'swap_{i}', lambda x: np.swapaxes(x, i, i + 1))

  for ndim in (7, 9, 2.5, 'two', None):
    with pytest.raises(ValueError, match='ndim must be at least 1 and at most'):
      aen.group((), ndim)
  assert aen.group([swap(i) for i in range(3)], 4).order == 24
  flip = aen.Symmetry('flip', lambda x: x[::-1])
  with pytest.raises(ValueError, match='more than 1000 elements'):
    aen.group([flip, *(swap(i) for i in range(4))], 5)
