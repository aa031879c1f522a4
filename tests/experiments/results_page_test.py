"""The page of results is what the files say."""

import pathlib
import re

import numpy as np
import pytest

from tests import launchers

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def launcher():
  return launchers.load('results_page')


def test_the_pages_are_up_to_date(launcher):
  for name, content in launcher.pages(ROOT).items():
    assert (ROOT / name).read_text('utf-8') == content, name


def test_every_picture_is_there(launcher):
  for name, page in launcher.pages(ROOT).items():
    for line in page.splitlines():
      if line.startswith('!['):
        path = (ROOT / name).parent / line.split('(')[-1].rstrip(')')
        assert path.exists(), path


def test_every_picture_can_be_drawn_again(launcher):
  drawn = dict(launcher.pictures(ROOT / 'results'))
  assert sum(path.name == 'frequencies.png' for path in drawn) == 2
  assert all(path.exists() and figure.axes for path, figure in drawn.items())


def test_without_files_there_are_no_sections(launcher, tmp_path):
  assert '##' not in launcher.pages(tmp_path)['RESULTS.md']


@pytest.mark.parametrize(
  ('words', 'strategy'),
  [
    ('random networks', 'random'),
    ('a random walk over states', 'walk'),
    ("the paper's DQN", 'dqn'),
    ('a DQN that learns from the 16th step on', 'dqn_quick'),
    ('the same, valuing states instead of toggles', 'dqn_after'),
    ('local search with restarts', 'local'),
    ('regularised evolution', 'evolution'),
  ],
)
def test_the_means_told_are_those_of_the_file(launcher, words, strategy):
  rows = [
    row
    for row in launcher.rows_lib.read(ROOT / 'results/strategies/summary.csv')
    if row['strategy'] == strategy
  ]
  cells = [
    '{:.1f} ({:.1f})'.format(
      *(
        100 * np.mean([float(r[kind]) for r in rows if r['networks'] == spent])
        for kind in ('regret', 'observed')
      )
    )
    for spent in ('20', '50', '100')
  ]
  line = f'| {words} | {" | ".join(cells)} |'
  assert line in (ROOT / 'docs/strategies.md').read_text('utf-8').splitlines()


def test_the_readme_tells_the_numbers_of_the_reproduction():
  page, readme = (
    (ROOT / name).read_text('utf-8') for name in ('RESULTS.md', 'README.md')
  )
  near = re.findall(
    r'169 cells, mean absolute difference .*? (\S+) points', page
  )
  averages = re.findall(
    r"protocol: (\S+) by [a-z ]+ recipe, the paper's (\S+)\.", page
  )
  gain = re.search(
    r'over the 12 data sets: (\S+) points, 95 % interval (\S+ … \S+) ', page
  )
  tables, everything = (
    next(line for line in readme.splitlines() if line.startswith(start))
    for start in ("| the paper's tables of MLPs", "| all of the paper's MLP")
  )
  assert len(near) == len(averages) == 2
  assert all(number in tables for number in near)
  lessons = (ROOT / 'docs/lessons.md').read_text('utf-8')
  size = re.search(r'as many .* less baseline \| (\S+) (\(.*\)) \|', lessons)
  for number in (*averages[0], *averages[1], *gain.groups(), *size.groups()):
    assert number in everything
