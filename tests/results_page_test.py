"""The page of results is what the files say."""

import pathlib

import pytest

from tests import launchers

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def launcher():
  return launchers.load('results_page')


def test_the_page_is_up_to_date(launcher):
  page = (ROOT / 'RESULTS.md').read_text('utf-8')
  assert page == '\n'.join(launcher.lines(ROOT / 'results')) + '\n'


def test_every_picture_is_there(launcher):
  page = '\n'.join(launcher.lines(ROOT / 'results'))
  for line in page.splitlines():
    if line.startswith('!['):
      path = line.split('(')[1].rstrip(')')
      assert (ROOT / path).exists(), path


def test_without_files_there_are_no_sections(launcher, tmp_path):
  assert '##' not in '\n'.join(launcher.lines(tmp_path))
