"""The recovery of planted symmetries: problems, lines of the file, summary."""

import numpy as np
import pytest

import aen
from aen.groups import symmetries as symmetries_lib
from tests import launchers


@pytest.fixture(scope='module')
def recovery():
  return launchers.load('recovery')


def candidates(options, inputs):
  axes = options.get('grid_axes', inputs.ndim - 1)
  return symmetries_lib.as_symmetries(
    options.get('symmetries', symmetries_lib.CANDIDATES.get(axes))
  ), inputs.shape[1 : 1 + axes]


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize(
  'kind', ['sequence', 'volume', 'table', 'regression', 'permutation']
)
def test_the_planted_symmetry_is_a_candidate_that_can_act(recovery, kind, seed):
  make = recovery.KINDS[kind]
  inputs, targets, planted, options = make(np.random.default_rng(seed))
  assert len(inputs) == len(targets)
  table, grid = candidates(options, inputs)
  assert planted in {s.name for s in table}
  for symmetry in table:
    for shape in (grid, *options['hidden_shapes']):
      aen.permutation(symmetry, shape)


def test_patterns_have_the_planted_symmetry_and_no_other(recovery):
  """With little noise, every example is a power of it applied to a pattern."""
  rng = np.random.default_rng(0)
  points = np.roll(np.arange(6), 2)
  inputs, labels = recovery.transformed_patterns(rng, points, 0.0)
  for label in range(3):
    own = np.unique(inputs[labels == label].round(6), axis=0)
    assert len(own) == 3  # the order of the permutation
    np.testing.assert_array_equal(own, np.unique(own[:, points], axis=0))


def test_the_summary_counts_by_kind(recovery):
  rows = [
    {'kind': 'table', 'right': 1, 'seconds': '4.0'},
    {'kind': 'table', 'right': 0, 'seconds': '6.0'},
    {'kind': 'volume', 'right': 1, 'seconds': '2.0'},
  ]
  assert recovery.summary(rows).splitlines() == [
    'volume       right in 1 of 1, 2 s a search',
    'table        right in 1 of 2, 5 s a search',
  ]
