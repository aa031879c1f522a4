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


def test_the_conclusions_of_the_page_are_those_of_the_table(peers):
  """The page states them in words, above the table."""
  rows = rows_lib.read(ROOT / 'results/peers.csv', peers.COLUMNS)
  measured = [row for row in rows if row['unit'] and row['peer'] != 'aen']

  def ratios(task, *but):
    own = [row for row in measured if task in row['what']]
    return {
      (row['what'], row['peer']): float(row['ratio'])
      for row in own
      if row['peer'] not in but
    }

  warm = peers.WARM
  assert min(ratios('sharing pattern').values()) > 1
  assert min(ratios('training step').values()) > 1
  # From an empty cache all but emlp are faster, with a full one none is.
  cold = ratios('import to first step', warm, 'emlp')
  assert max(cold.values()) < 1
  of_warm = {
    what: ratio
    for (what, peer), ratio in ratios('import to first step').items()
    if peer == warm
  }
  for (what, _), ratio in ratios('import to first step', warm).items():
    assert ratio > of_warm[what]
  memory = ratios('peak memory').values()
  assert 0.8 < min(memory) < max(memory) < 1.25


def test_ratios_in_the_table_are_those_of_its_times(peers):
  rows = rows_lib.read(ROOT / 'results/peers.csv', peers.COLUMNS)
  ours = {r['what']: float(r['value']) for r in rows if r['peer'] == 'aen'}
  for row in rows:
    if not row['unit']:  # not at hand, or failed: the value says why
      assert row['value']
      continue
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
    peers.start('AutoEquiv')
  row = dict.fromkeys(peers.COLUMNS, '')
  text = peers.page(
    [row | {'peer': 'AutoEquiv', 'value': 'source not at hand'}]
  )
  assert '| everything | AutoEquiv | source not at hand |' in text


def test_what_fails_gets_a_row_that_says_why(peers, tmp_path, monkeypatch):
  (tmp_path / 'with_dying.py').write_text(
    'import json\n'
    "about = {'version': '1.0', 'tasks': ['step']}\n"
    'print(json.dumps(about), flush=True)\n'
    'input()\n'
    "raise OSError('no such | thing')\n"
  )
  monkeypatch.setattr(peers.worker_lib, '_SCRIPTS', tmp_path)
  monkeypatch.setitem(peers.PEERS, 'dying', peers.Peer((), 'dying', {}))
  with peers.start('dying') as worker:
    found = peers._in_turns('step', {'dying': worker})
    assert found == {'dying': 'failed: OSError: no such / thing'}
    again = peers._in_turns('step', {'dying': worker})
    assert again == {'dying': 'ended in an earlier task'}
    (row,) = peers._rows(
      'a step', {'aen': [1.0]} | found, {'dying': worker, 'aen': worker}
    )[1:]
  assert '| a step | dying | failed: OSError: no such / thing |  |' in (
    peers.page([row])
  )


def test_an_environment_that_pip_cannot_make_is_an_error(peers, tmp_path):
  (tmp_path / 'env/bin').mkdir(parents=True)
  (tmp_path / 'env/installed.txt').touch()
  python = tmp_path / 'env/bin/python'
  python.write_text('#!/bin/sh\necho "$5" >> "$0.log"\necho no >&2\nexit 1\n')
  python.chmod(0o755)
  with (
    flagsaver.flagsaver(env_dir=str(tmp_path)),
    pytest.raises(ValueError, match='pip cannot install torch==1.0.cpu: no'),
  ):
    peers._python('env', (('torch==1.0+cpu',),))
  tried = (tmp_path / 'env/bin/python.log').read_text().splitlines()
  assert tried == ['torch==1.0+cpu', 'torch==1.0']


def test_an_interrupted_run_resumes(peers, tmp_path, monkeypatch):
  (tmp_path / 'with_fake.py').write_text(
    'import sys\n'
    f'sys.path.insert(0, {str(ROOT / "experiments/peer_scripts")!r})\n'
    'import worker\n'
    "tasks = dict.fromkeys(('child', 'mlp step'), lambda: None)\n"
    "worker.serve('1.0', tasks)\n"
  )
  monkeypatch.setattr(peers.worker_lib, '_SCRIPTS', tmp_path)
  monkeypatch.setattr(peers, '_SHORT', 0.0)
  fake = peers.Peer((), 'fake', {})
  monkeypatch.setattr(peers, 'PEERS', {'a': fake, 'aen': fake})
  monkeypatch.setattr(peers, 'FRESH', {'child': 'peak memory'})
  monkeypatch.setattr(peers.os, 'sched_setaffinity', lambda *_: None)
  measured = []
  in_turns = peers._in_turns

  def interrupted(task, workers):
    if measured == ['mlp step']:
      raise KeyboardInterrupt
    measured.append(task)
    return in_turns(task, workers)

  monkeypatch.setattr(peers, '_in_turns', interrupted)
  monkeypatch.setattr(
    peers, 'TASKS', {'mlp step': 'a step', 'child': 'a child'}
  )
  table = tmp_path / 'peers.csv'
  with flagsaver.flagsaver(env_dir=str(tmp_path / 'env'), rounds=1):
    with pytest.raises(KeyboardInterrupt):
      peers.measure(table)
    assert not table.exists()
    measured[:] = ['resumed']
    peers.measure(table)
  assert measured == ['resumed', 'child']
  rows = rows_lib.read(table, peers.COLUMNS)
  assert [(r['what'], r['peer']) for r in rows] == [
    *((what, peer) for what in ('a step', 'a child') for peer in ('a', 'aen')),
    *(('peak memory', peer) for peer in ('a', peers.WARM, 'aen')),
  ]
  assert not (tmp_path / 'env/unfinished.csv').exists()


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
