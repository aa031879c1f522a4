"""The study of the screen: the exact truth, and a small run."""

import csv

from absl.testing import flagsaver
import pytest

from tests import launchers

FLIPS = ('horizontal_flip', 'vertical_flip')
TRUTH = {  # on grids of side 12, where translations by 4 have order 3
  'aug0': (),
  'aug1': (
    *FLIPS,
    'horizontal_scramble',
    'top_horizontal_scramble',
    'bottom_horizontal_scramble',
  ),
  'aug2': (
    *FLIPS,
    'vertical_scramble',
    'left_vertical_scramble',
    'right_vertical_scramble',
  ),
  'aug3': ('top_horizontal_scramble',),
  'aug4': (),
  'iaug1': ('rotation',),
  'iaug2': ('horizontal_flip',),
  'iaug4': (),
  'iaug6': (),
  'iaug4_group': ('horizontal_translation',),
  'iaug6_group': ('rotation_scramble',),
}


@pytest.fixture
def launcher():
  return launchers.load('screen')


@pytest.mark.parametrize('name', TRUTH)
def test_the_truth_is_known_by_enumeration(launcher, name):
  assert launcher.invariant_sets.true_symmetries(name, side=12) == TRUTH[name]


@pytest.mark.slow
def test_a_small_study_of_the_level(launcher, tmp_path, capsys):
  out = tmp_path / 'out'
  with flagsaver.flagsaver(parts=['level'], num_sets=2, out=str(out)):
    launcher.main([])
  with open(out / 'level.csv') as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 2 * (4 * 3 + 1)
  assert 'of 10 sets at level 0.05' in capsys.readouterr().out


def test_parts_have_names(launcher):
  with (
    flagsaver.flagsaver(parts=['weather']),
    pytest.raises(ValueError, match='got weather'),
  ):
    launcher.main([])
