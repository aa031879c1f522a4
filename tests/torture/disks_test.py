"""Full and read-only disks, where a mount is possible."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.torture import figures

ROOT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.torture

_SEARCH = """
import sys
from tests.search import search_test
try:
  search_test.start(sys.argv[1])
except Exception as error:
  print(f'{type(error).__name__}: {error}')
  sys.exit(2)
"""


def search(run_dir):
  return subprocess.run(
    [sys.executable, '-c', _SEARCH, str(run_dir)],
    cwd=ROOT,
    env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
    capture_output=True,
    text=True,
    check=False,
  )


def mount(folder, *options):
  command = ['mount', '-t', 'tmpfs', *options, 'tmpfs', str(folder)]
  try:
    subprocess.run(command, check=True, capture_output=True)
  except (OSError, subprocess.CalledProcessError):
    pytest.skip('mounting is not possible here')


@pytest.fixture
def disk(tmp_path):
  folder = tmp_path / 'disk'
  folder.mkdir()
  yield folder
  subprocess.run(['umount', str(folder)], check=False, capture_output=True)


def test_a_search_survives_a_full_disk(disk, tmp_path):
  assert search(tmp_path / 'whole').returncode == 0
  sizes = (40, 100, 200, 400)[: figures.size(4, least=2)]
  for size in sizes:
    mount(disk, '-o', f'size={size}k')
    full = search(disk / 'run')
    assert full.returncode == 2, full.stdout + full.stderr
    assert full.stdout.count('\n') == 1, full.stdout
    assert 'Traceback' not in full.stderr
    subprocess.run(['mount', '-o', 'remount,size=100m', str(disk)], check=True)
    assert search(disk / 'run').returncode == 0
    for name in ('ranking.csv', 'trace.csv', 'result.json'):
      whole = (tmp_path / 'whole' / name).read_bytes()
      assert (disk / 'run' / name).read_bytes() == whole
    subprocess.run(['umount', str(disk)], check=True)
  figures.write(
    'summary',
    'disks that fill up during a search',
    f'{len(sizes)} sizes',
    'one line; with more space all end with the same bytes',
  )


def test_a_read_only_disk_is_read(disk):
  mount(disk)
  assert search(disk / 'run').returncode == 0
  subprocess.run(['mount', '-o', 'remount,ro', str(disk)], check=True)
  finished = search(disk / 'run')
  assert finished.returncode == 0, finished.stdout + finished.stderr
  other = search(disk / 'other')
  assert other.returncode == 2
  assert other.stdout.count('\n') == 1
  assert 'ead-only' in other.stdout
  figures.write(
    'summary',
    'read-only disks',
    '2 searches',
    'a finished one is read; another is refused in one line',
  )
