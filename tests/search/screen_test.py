"""The screen of symmetries: its level, its power, and what it reports."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy import stats

import aen
from aen.search import invariance
from aen.search import screen as screen_lib
from aen.search import space as space_lib
from experiments import invariant_sets

SQUARE = ('rotation', 'horizontal_flip', 'vertical_flip')
QUICK = {'num_randomizations': 199, 'num_frequencies': 32, 'level': 0.05}
NUM_SETS = 64  # of each kind
FLIP = aen.Symmetry('flip', lambda x: x[::-1])
# Equal examples are grouped, which makes the test conservative if they are
# equal by chance.
EXACT = [kind for kind in invariant_sets.KINDS if kind != 'boards']


def images(seed):
  inputs, labels, *_ = invariant_sets.images(np.random.default_rng(seed))
  return inputs, labels


@functools.cache
def screened(kind):
  rng, found = np.random.default_rng(0), []
  for seed in range(NUM_SETS):
    inputs, labels, symmetries, grid = invariant_sets.KINDS[kind](rng)
    found.append(
      aen.screen(inputs, labels, symmetries, grid=grid, seed=seed, **QUICK)
    )
  return found


@pytest.mark.parametrize('kind', EXACT)
def test_p_values_are_uniform(kind):
  """Each is uniform on 1/(B+1), …, 1; a little noise makes it continuous."""
  rng = np.random.default_rng(0)
  for name in screened(kind)[0].findings:
    found = np.array([s.p_values[name] for s in screened(kind)])
    smooth = found - rng.random(len(found)) / (QUICK['num_randomizations'] + 1)
    assert stats.kstest(smooth, 'uniform').pvalue > 1e-3, name


def test_the_family_wise_level_holds():
  """320 sets that have all the symmetries they are tested for."""
  found = [
    bool(s.rejected) for kind in invariant_sets.KINDS for s in screened(kind)
  ]
  assert len(found) >= 300
  assert np.mean(found) <= 0.06


@pytest.mark.slow
def test_copies_break_independence_unless_they_are_grouped():
  rng = np.random.default_rng(5)
  rejected = {'copies': 0, 'noisy': 0, 'grouped': 0}
  for seed in range(40):
    inputs, labels, *_ = invariant_sets.images(rng)
    copies, labels = np.tile(inputs, (3, 1, 1)), np.tile(labels, 3)
    noisy = copies + 1e-3 * rng.normal(size=copies.shape)
    groups = np.tile(np.arange(len(inputs)), 3)
    for name, data, ties in (
      ('copies', copies, None),
      ('noisy', noisy, None),
      ('grouped', noisy, groups),
    ):
      found = aen.screen(data, labels, SQUARE, seed=seed, groups=ties, **QUICK)
      rejected[name] += bool(found.rejected)
      assert found.num_groups == (288 if name == 'noisy' else 96)
      assert found.num_duplicates == (192 if name == 'copies' else 0)
      assert ('192 examples equal' in found.verdict) == (name == 'copies')
  assert rejected['copies'] <= 5
  assert rejected['grouped'] <= 5
  assert rejected['noisy'] >= 15  # what neither equality nor groups tell


def test_it_finds_the_planted_symmetry_and_rejects_the_others():
  data = aen.load_dataset('g_digits/iaug9_group')
  found = aen.screen(data.train.images, data.train.labels)
  assert found.accepted == ('left_vertical_scramble',)
  assert len(found.rejected) == 11
  assert found.generators == found.accepted
  assert found.implied == found.conflicts == ()
  assert max(found.p_values[name] for name in found.rejected) <= 0.05
  assert all(found.effects[name] > 0.5 for name in found.rejected)
  assert found.effects['left_vertical_scramble'] == pytest.approx(0.5, abs=0.05)
  assert 'compatible with left_vertical_scramble' in found.verdict
  assert '11 of the 12' in found.verdict
  assert 'left_vertical_scramble' in repr(found)


def test_labels_matter():
  """Classes are the orientation: invariant together, but none of them alone."""
  rng = np.random.default_rng(0)
  flips = rng.integers(2, size=400)
  rising = np.linspace(0, 2, 6) + rng.normal(size=(400, 6))
  inputs = np.where(flips[:, None] == 1, rising[:, ::-1], rising)
  assert aen.screen(inputs, flips, FLIP, **QUICK).rejected == ('flip',)
  assert aen.screen(inputs, None, FLIP, **QUICK).rejected == ()


def test_few_examples_leave_the_question_open():
  inputs, labels = images(1)
  found = aen.screen(inputs, labels, SQUARE, **QUICK)
  assert found.undecided
  assert 'too few' in found.verdict
  needed = found.examples_needed
  assert all(
    needed[name] is None or needed[name] > 96 for name in found.undecided
  )


def test_a_rejected_symmetry_needs_about_as_many_examples_as_it_says():
  rng = np.random.default_rng(0)

  def draw(count):
    return np.linspace(0, 0.5, 12) + rng.normal(size=(count, 12))

  found = aen.screen(draw(2000), symmetries=FLIP, **QUICK)
  assert found.rejected == ('flip',)
  needed = found.examples_needed['flip']
  assert 20 < needed < 2000

  def share(count):
    tests = [
      aen.screen(draw(count), symmetries=FLIP, **QUICK) for _ in range(30)
    ]
    return np.mean([bool(test.rejected) for test in tests])

  assert share(2 * needed) >= 0.8
  assert share(needed // 8) <= 0.7


def test_effects_are_accuracies():
  """Two points that are always in order are always told from the flip."""
  rng = np.random.default_rng(0)
  ordered = np.sort(rng.normal(size=(500, 2)), axis=1)
  found = aen.screen(ordered, symmetries=FLIP)
  assert found.effects['flip'] > 0.95
  again = aen.screen(rng.normal(size=(2000, 2)), symmetries=FLIP)
  assert again.effects['flip'] == pytest.approx(0.5, abs=0.05)
  assert again.accepted == ('flip',)


def test_bandwidth_and_result_do_not_depend_on_scale_and_offset():
  inputs, labels = images(1)
  one = aen.screen(inputs, labels, SQUARE, **QUICK)
  other = aen.screen(100 * inputs + 7, labels, SQUARE, **QUICK)
  for name in SQUARE:
    assert one.p_values[name] == pytest.approx(other.p_values[name], abs=0.02)


def test_the_same_seed_gives_the_same_screening():
  inputs, labels = images(1)
  one, same, other = (
    aen.screen(inputs, labels, SQUARE, seed=seed, **QUICK) for seed in (0, 0, 1)
  )
  assert one.p_values == same.p_values
  assert one.p_values != other.p_values


def test_any_power_of_a_permutation_is_a_gather():
  rng = np.random.default_rng(0)
  for points in (
    aen.permutation(invariant_sets.OF_LARGE_ORDER, (8, 8)),
    rng.permutation(300),
  ):
    cycles = invariance.Cycles.of(points)
    assert np.array_equal(
      invariant_sets.power(points, cycles.order), np.arange(points.size)
    )
    for exponent in (0, 1, 5, cycles.order - 1):
      place = (cycles.place + exponent % cycles.length) % cycles.length
      gathered = cycles.points[cycles.start + place]
      assert np.array_equal(gathered, invariant_sets.power(points, exponent))


def test_orders_beyond_64_bits():
  table, start = np.arange(400), 0
  for length in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53):
    if start + length <= 400:
      table[start : start + length] = start + (np.arange(length) + 1) % length
      start += length
  huge = aen.Symmetry('huge', lambda x: x[table])
  inputs = np.random.default_rng(0).normal(size=(60, 400))
  found = aen.screen(inputs, symmetries=huge, **QUICK)
  assert found.findings['huge'].order > 2**55
  assert found.rejected == ()


def test_powers_are_distinct_and_begin_with_the_data():
  for order in (2, 3, 4, 5, 7):
    cycles = invariance.Cycles.of((np.arange(order) + 1) % order)
    drawn = invariance.draw_powers(cycles, 500, np.random.default_rng(0))
    assert drawn.shape == (500, min(order, 4), 1)
    assert (drawn[:, 0] == 0).all()
    assert all(len(set(row)) == len(row) for row in drawn[:, :, 0].tolist())
    if order > 2:
      counts = np.bincount(drawn[:, 1, 0], minlength=order)[1:]
      assert stats.chisquare(counts).pvalue > 1e-3


def test_holm():
  found = screen_lib.holm(np.array([0.001, 0.5, 0.02, 0.02]))
  assert found.tolist() == pytest.approx([0.004, 0.5, 0.06, 0.06])


def test_the_identity_is_a_symmetry_of_everything():
  inputs = np.random.default_rng(0).normal(size=(50, 4, 4))
  found = aen.screen(inputs, symmetries='horizontal_translation', **QUICK)
  assert found.findings['horizontal_translation'].order == 1
  assert found.accepted == ('horizontal_translation',)


def test_constant_images_have_every_symmetry_that_can_be_seen():
  found = aen.screen(np.ones((400, 4, 4)), symmetries=SQUARE, **QUICK)
  assert found.p_values == dict.fromkeys(SQUARE, 1.0)
  assert found.num_groups == 1


def test_what_accepted_symmetries_imply():
  points = {name: aen.permutation(name, (4, 4)) for name in SQUARE}
  both, flip = SQUARE[:2], SQUARE[1:2]
  assert screen_lib._closure(points, both) == (SQUARE[2:], both)
  assert screen_lib._closure(points, SQUARE) == ((), both)
  assert screen_lib._closure(points, flip) == ((), flip)
  assert screen_lib._closure(points, []) == ((), ())


def test_rejected_symmetries_inside_the_closure_are_reported():
  def finding(outcome):
    return screen_lib.Finding(outcome, 2, 0.5, 0.5, 0.5, 0.5, 0.1, 0.01, 1.6)

  found = screen_lib.Screening(
    findings={
      'rotation': finding('accepted'),
      'horizontal_flip': finding('accepted'),
      'vertical_flip': finding('rejected'),
    },
    num_examples=10,
    num_groups=10,
    num_duplicates=0,
    num_randomizations=199,
    level=0.05,
    bound=0.55,
    implied=('vertical_flip',),
    generators=('rotation', 'horizontal_flip'),
    samples=np.zeros((4, 2, 4, 4, 1)),
  )
  assert found.conflicts == ('vertical_flip',)
  assert 'also has vertical_flip, which' in found.verdict
  lattice = aen.lattice(SQUARE, [(4, 4), (4, 4)])
  table = space_lib.Table(SQUARE, lattice.network_of)
  guide = found.guide(table)
  assert guide['starts'] == (table.network(found.accepted),)
  assert guide['toggles'] == (2, 0, 1)  # first what is not accepted
  other = space_lib.Table(('large', 'rotation'), np.arange(4, dtype=np.int32))
  assert found.guide(other) == {'starts': (2,), 'toggles': (0, 1)}


def test_searches_start_from_what_is_accepted_and_from_what_is_not_rejected():
  rng = np.random.default_rng(0)
  few = rng.normal(size=(40, 4, 4))  # too few to accept anything
  found = aen.screen(few, symmetries=SQUARE, **QUICK)
  lattice = aen.lattice(SQUARE, [(4, 4), (4, 4)])
  table = space_lib.Table(SQUARE, lattice.network_of)
  assert set(found.undecided) == set(SQUARE)
  nothing = table.network(())
  assert found.guide(table)['starts'] == (nothing, table.network(SQUARE))
  by_discrepancy = sorted(
    range(3), key=lambda bit: found.findings[SQUARE[bit]].discrepancy
  )
  assert found.guide(table)['toggles'] == tuple(by_discrepancy)
  first = next(iter(found.findings))
  accepted = dataclasses.replace(found.findings[first], outcome='accepted')
  found = dataclasses.replace(
    found, findings={**found.findings, first: accepted}
  )
  both = (table.network([first]), table.network(SQUARE))
  assert found.guide(table)['starts'] == both


def test_the_figure_shows_every_symmetry():
  inputs, labels = images(1)
  found = aen.screen(inputs, labels, SQUARE, **QUICK)
  drawn = found.figure()
  text = ' '.join(t.get_text() for ax in drawn.axes for t in ax.texts)
  for name in SQUARE:
    assert name in text
    assert found.findings[name].outcome in text
  colour = np.random.default_rng(0).random((30, 6, 6, 3))
  assert aen.screen(colour, symmetries=SQUARE, **QUICK).figure().axes
  rows = np.random.default_rng(0).random((30, 9))
  assert aen.screen(rows, symmetries=np.flip, **QUICK).figure().axes


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ({'inputs': np.zeros(5)}, 'at least two examples'),
    ({'inputs': np.full((9, 4, 4), np.nan)}, 'finite numbers'),
    ({'labels': np.zeros(3)}, 'one label for each of 9'),
    ({'labels': np.arange(9) / 9}, 'labels must be classes'),
    ({'groups': np.zeros(3)}, 'one group for each of 9'),
    ({'grid': (3, 4)}, 'first axes of an example'),
    (
      {
        'inputs': np.zeros((9, 2, 2, 2, 2)),
        'grid': (2, 2, 2, 2),
        'symmetries': None,
      },
      'give your own',
    ),
    ({'num_randomizations': 10}, 'num_randomizations ≥ 149, got 10'),
    ({'num_frequencies': 0}, 'num_frequencies'),
    ({'level': 5}, 'level must be between 0 and 1, got 5'),
  ],
)
def test_errors_say_what_to_do(arguments, message):
  defaults = {'inputs': np.zeros((9, 4, 4)), 'symmetries': SQUARE}
  with pytest.raises(ValueError, match=message):
    aen.screen(**defaults | arguments)


@pytest.mark.parametrize('count', [1, 7, 400, 100_000])
def test_the_limit_of_an_effect_is_that_of_scipy(count):
  for right in {0, count // 3, count // 2, count - 1, count}:
    test = stats.binomtest(right, count, alternative='less')
    expected = test.proportion_ci(0.95, method='wilson').high
    limit = screen_lib.upper_limit(right / count, count)
    np.testing.assert_allclose(limit, expected, rtol=1e-12)
