"""The page of other libraries: from its table, and the only one with ratios."""

import json
import re
import subprocess
import sys

from absl.testing import flagsaver
import pytest

import aen
from aen.nn import group_cnn
from experiments import rows as rows_lib
from tests import launchers
from tests import readme_test

ROOT = readme_test.ROOT
NAMES = re.compile(r"escnn|emlp|AutoEquiv|PyTorch|authors' code", re.I)
RATIO = re.compile(r'\d (×|times|percent|%)|of the time')


@pytest.fixture(scope='module')
def peers():
  return launchers.load('peers')


def test_the_page_is_made_from_the_table(peers):
  rows = rows_lib.read(ROOT / 'results/peers.csv', peers.COLUMNS)
  assert {row['what'] for row in rows} >= set(peers.TASKS.values())
  assert {row['peer'] for row in rows} >= set(peers.PEERS)
  text = (ROOT / 'docs/peers.md').read_text('utf-8')
  assert peers.page(rows) == text


def test_ratios_in_the_table_are_those_of_its_times(peers):
  rows = rows_lib.read(ROOT / 'results/peers.csv', peers.COLUMNS)
  ours = {r['what']: float(r['value']) for r in rows if r['peer'] == 'aen'}
  for row in (r for r in rows if r['what']):
    ratio = float(row['value']) / ours[row['what']]
    assert float(row['ratio']) == pytest.approx(ratio)
    assert float(row['low']) <= float(row['high'])


@pytest.mark.parametrize(
  'page',
  [p for p in readme_test.PAGES if p.name not in ('peers.md', 'CHANGELOG.md')],
  ids=readme_test.name_of,
)
def test_no_other_page_compares_us_with_other_libraries(page):
  for paragraph in page.read_text('utf-8').split('\n\n'):
    lines = paragraph.splitlines()
    for text in lines if paragraph.startswith('|') else [paragraph]:
      assert not (NAMES.search(text) and RATIO.search(text)), text


def test_the_group_cnn_of_all_peers_is_ours(peers):
  spec = peers.worker_lib.CNN
  cnn = aen.GroupCNN(group_cnn.GROUPS[spec['group']], in_shape=spec['shape'])
  assert cnn.widths() == (spec['channels'], spec['dense'])
  assert cnn.group().order == 8


def test_a_library_that_is_not_at_hand_gets_a_row(peers, tmp_path):
  with (
    flagsaver.flagsaver(sources=str(tmp_path)),
    pytest.raises(ValueError, match='source not at hand'),
  ):
    peers.Worker('AutoEquiv')
  row = dict.fromkeys(peers.COLUMNS, '')
  text = peers.page(
    [row | {'peer': 'AutoEquiv', 'value': 'source not at hand'}]
  )
  assert '| everything | AutoEquiv | source not at hand |' in text


def test_a_worker_answers_tasks(tmp_path):
  (tmp_path / 'script.py').write_text(
    'import sys\n'
    f'sys.path.insert(0, {str(ROOT / "experiments/peer_scripts")!r})\n'
    'import worker\n'
    "worker.serve('1.0', {'nothing': lambda: print('not an answer')})\n"
  )
  done = subprocess.run(
    [sys.executable, tmp_path / 'script.py'],
    input='nothing\n',
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  )
  about, answer = map(json.loads, done.stdout.splitlines())
  assert about['version'] == '1.0'
  assert about['tasks'] == ['nothing']
  assert 0 <= answer['seconds'] <= answer['total']
  assert answer['peak'] > 1
