"""The store: what is put stays, whatever happens."""

import dataclasses
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import warnings

import chex
import numpy as np
import pytest

from aen.train import store as store_lib

RECORD = store_lib.Record(
  key=store_lib.ChildKey('network', 'data', '{"epochs": 2}', 7),
  symmetries='rotation + horizontal_flip',
  num_weights=63440,
  train_loss=(1.5, 0.1 + 0.2),
  validation_accuracy=(0.25, 0.5),
  validation_loss=(1.25, 3.4e38),
  test_accuracy=(),
  few_test_accuracy=(),
  diverged=True,
  seconds=0.25,
)


def records(count, start=0, **changes):
  return [
    dataclasses.replace(
      RECORD, key=dataclasses.replace(RECORD.key, seed=start + i), **changes
    )
    for i in range(count)
  ]


def test_what_is_put_is_got(tmp_path):
  path = tmp_path / 'deep' / 'results.sqlite'
  with store_lib.Results(path) as store:
    assert store.get(RECORD.key) is None
    store.put([RECORD])
    assert store.get(RECORD.key) == RECORD
  with store_lib.Results(path) as store:
    assert store.get(RECORD.key) == RECORD
    assert len(store) == 1


@pytest.mark.parametrize('part', ['network', 'data', 'recipe', 'seed'])
def test_every_part_of_the_key_counts(part):
  store = store_lib.Results()
  store.put([RECORD])
  other = 8 if part == 'seed' else 'other'
  assert store.get(dataclasses.replace(RECORD.key, **{part: other})) is None


def test_the_first_result_stands_and_gains_parameters():
  store = store_lib.Results()
  store.put([RECORD])
  weights = {'hidden': {'kernel': np.arange(3.0)}}
  store.put([dataclasses.replace(RECORD, num_weights=1, params=weights)])
  assert store.get(RECORD.key) == RECORD
  found = store.get(RECORD.key, with_params=True).params
  chex.assert_trees_all_equal(found, weights)
  other = {'hidden': {'kernel': np.zeros(3)}}
  store.put([dataclasses.replace(RECORD, params=other)])
  found = store.get(RECORD.key, with_params=True).params
  chex.assert_trees_all_equal(found, weights)
  store.forget_params()
  assert store.get(RECORD.key, with_params=True).params is None
  assert store.get(RECORD.key) == RECORD


def test_a_batch_is_stored_whole_or_not_at_all():
  store = store_lib.Results()
  broken = dataclasses.replace(RECORD, symmetries=None)
  with pytest.raises(store_lib.ResultsError, match='NOT NULL'):
    store.put([*records(3), broken])
  assert len(store) == 0
  store.put(records(3))
  assert len(store) == 3


@pytest.mark.parametrize('ending', ['csv', 'csv.gz'])
def test_csv_goes_out_and_comes_in_again(tmp_path, ending):
  store, copy = store_lib.Results(), store_lib.Results()
  store.put([*records(3), *records(2, 9, test_accuracy=(0.5, 1.0))])
  first, second = tmp_path / f'a.{ending}', tmp_path / f'b.{ending}'
  store.export_csv(first)
  assert copy.import_csv(first) == 5
  copy.export_csv(second)
  assert first.read_bytes() == second.read_bytes()
  assert first.read_bytes().startswith(b'\x1f\x8b') == ending.endswith('gz')
  for record in records(3):
    assert copy.get(record.key) == record
  assert copy.import_csv(first) == 5
  assert len(copy) == 5


@pytest.mark.parametrize(
  ('old', 'new', 'message'),
  [
    ('network,', 'net,', 'expected the columns network'),
    ('63440', 'many', 'line 2: expected 13 columns'),
    ('"[0.25, 0.5]"', '"[0.25, NaN]"', 'validation_accuracy holds values'),
    ('"[0.25, 0.5]"', '"[0.25, 50.0]"', 'validation_accuracy holds values'),
    ('"[0.25, 0.5]"', '"[0.25]"', 'different numbers of epochs'),
    (',0.25\n', '\n', 'line 2: expected 13 columns'),
  ],
)
def test_a_wrong_csv_is_refused_whole(tmp_path, old, new, message):
  store, path = store_lib.Results(), tmp_path / 'a.csv'
  store.put(records(1))
  store.export_csv(path)
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new))
  copy = store_lib.Results()
  with pytest.raises(ValueError, match=message):
    copy.import_csv(path)
  assert len(copy) == 0


def test_a_damaged_file_is_one_line_and_left_alone(tmp_path):
  path = tmp_path / 'results.sqlite'
  path.write_bytes(b'this is no database, it is text. ' * 100)
  before = path.read_bytes()
  with pytest.raises(store_lib.ResultsError, match='is damaged: move it away'):
    store_lib.Results(path)
  assert path.read_bytes() == before


def test_a_hole_in_the_file_is_found(tmp_path):
  path = tmp_path / 'results.sqlite'
  with store_lib.Results(path) as store:
    store.put(records(300))
  content = bytearray(path.read_bytes())
  middle = len(content) // 2
  content[middle : middle + 8192] = os.urandom(8192)
  path.write_bytes(content)
  with pytest.raises(store_lib.ResultsError, match='damaged') as error:
    store_lib.Results(path)
  assert '\n' not in str(error.value)


def test_another_versions_file_is_refused(tmp_path):
  path = tmp_path / 'results.sqlite'
  connection = sqlite3.connect(path)
  connection.execute('PRAGMA user_version = 99')
  connection.close()
  with pytest.raises(store_lib.ResultsError, match='format is 99'):
    store_lib.Results(path)


def test_an_older_file_is_read_and_written(tmp_path):
  path = tmp_path / 'results.sqlite'
  older = [c for c in store_lib.COLUMNS if c != 'few_test_accuracy']
  connection = sqlite3.connect(path)
  connection.execute(
    f'CREATE TABLE results ({", ".join(older)}, params,'
    ' PRIMARY KEY (network, data, recipe, seed)) WITHOUT ROWID'
  )
  row = store_lib._as_row(RECORD)
  known = [row[store_lib.COLUMNS.index(c)] for c in older]
  connection.execute(
    f'INSERT INTO results VALUES ({", ".join("?" * len(known))}, NULL)', known
  )
  connection.execute('PRAGMA user_version = 1')
  connection.commit()
  connection.close()
  (newer,) = records(1, 20, few_test_accuracy=(0.5, 0.75))
  for _ in range(2):
    with store_lib.Results(path) as store:
      assert store.get(RECORD.key) == RECORD
      store.put([newer])
      assert store.get(newer.key) == newer


def test_a_locked_file_is_one_line(tmp_path, monkeypatch):
  monkeypatch.setattr(store_lib, 'WAIT_SECONDS', 0.05)
  path = tmp_path / 'results.sqlite'
  with store_lib.Results(path) as store, store_lib.Results(path) as other:
    other._run('BEGIN IMMEDIATE')
    with pytest.raises(store_lib.ResultsError, match='locked; another process'):
      store.put([RECORD])
    other._run('ROLLBACK')
    store.put([RECORD])
    assert other.get(RECORD.key) == RECORD


def test_a_full_disk_loses_nothing(tmp_path):
  path = tmp_path / 'results.sqlite'
  with store_lib.Results(path) as store:
    store.put(records(3))
    pages = store._run('PRAGMA page_count')[0][0]
    store._run(f'PRAGMA max_page_count = {pages}')
    with pytest.raises(store_lib.ResultsError, match='full; free some space'):
      store.put(records(500, start=3))
    assert len(store) == 3
    store._run('PRAGMA max_page_count = 100000')
    store.put(records(500, start=3))
  with store_lib.Results(path) as store:
    assert len(store) == 503


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(store_lib.ResultsError, match='choose one that you may'):
    store_lib.Results(tmp_path / 'file' / 'results.sqlite')
  with pytest.raises(store_lib.ResultsError, match='choose another run dir'):
    store_lib.Results(tmp_path)


_WRITER = """
import sys
import warnings
sys.path[:0] = sys.argv[3:]
from tests.train import store_test as results_test
from aen.train import store as store_lib
store = store_lib.Results(sys.argv[1])
print('ready', flush=True)
start = int(sys.argv[2])
for i in range(100):
  store.put(results_test.records(5, start=start + 5 * i))
  print(i, flush=True)
"""


def writer(path, start):
  return subprocess.Popen(
    [sys.executable, '-c', _WRITER, str(path), str(start), *sys.path],
    stdout=subprocess.PIPE,
    text=True,
    cwd=pathlib.Path(__file__).parents[2],
  )


def test_processes_share_a_store_and_one_may_be_killed(tmp_path):
  path = tmp_path / 'results.sqlite'
  patient, killed = writer(path, 0), writer(path, 250)  # half the keys in both
  for _ in range(20):
    last = killed.stdout.readline()
  os.kill(killed.pid, signal.SIGKILL)
  assert patient.wait() == 0
  killed.wait()
  with store_lib.Results(path) as store:
    seeds = [row[0] for row in store._run('SELECT seed FROM results')]
  assert set(range(500)) <= set(seeds)
  beyond = [seed for seed in seeds if seed >= 500]
  assert len(beyond) % 5 == 0  # whole transactions only
  assert int(last) == 18


def test_names_are_never_formulas_in_spreadsheets(tmp_path):
  store, copy = store_lib.Results(), store_lib.Results()
  names = ('=cmd|x', '+1', '-1', '@a', "'quoted", 'rotation')
  given = [
    dataclasses.replace(record, symmetries=name)
    for record, name in zip(records(6), names, strict=True)
  ]
  store.put(given)
  store.export_csv(tmp_path / 'a.csv')
  text = (tmp_path / 'a.csv').read_text()
  assert ",'=cmd|x," in text
  assert ',rotation,' in text
  copy.import_csv(tmp_path / 'a.csv')
  for record in given:
    assert copy.get(record.key) == record


def test_where_a_child_was_trained_is_kept_but_not_compared(tmp_path):
  origin = store_lib.Origin('cpu (model)', '1.2', 'host:3', 4.0, 5.5)
  with store_lib.Results(tmp_path / 'results.sqlite') as store:
    store.put([dataclasses.replace(RECORD, origin=origin), *records(1)])
    found = store.get(RECORD.key)
    assert (found, found.origin) == (RECORD, origin)
    assert store.origins() == [origin]
    store.export_csv(tmp_path / 'a.csv')
  copy = store_lib.Results()
  copy.import_csv(tmp_path / 'a.csv')
  assert copy.get(RECORD.key).origin is None


def test_a_failure_stays_until_the_child_is_trained():
  store = store_lib.Results()
  store.put_failure(RECORD.key, 'the worker died')
  store.put_failure(RECORD.key, 'it died again')
  assert store.failures() == {RECORD.key: 'it died again'}
  assert store.get(RECORD.key) is None
  assert len(store) == 0
  store.put([RECORD])
  assert not store.failures()


@pytest.mark.parametrize(
  ('mounted', 'kind'),
  [
    ('{0} nfs4', 'nfs4'),
    ('{0} ext4', None),
    ('/ nfs', 'nfs'),
    ('/ nfs\na {0} xfs', None),  # the deepest counts
    ('{0}/results fuse.sshfs', None),  # another folder
    ('{0} fuse.sshfs', 'fuse.sshfs'),
    ('{0} overlay', None),
  ],
)
def test_no_write_ahead_log_on_network_file_systems(
  tmp_path, monkeypatch, mounted, kind
):
  mounts = tmp_path / 'mounts'
  folder = tmp_path / 'a folder'
  folder.mkdir()
  escaped = str(folder).replace(' ', r'\040')
  mounts.write_text(f'disk {mounted.format(escaped)} rw 0 0\n')
  lines = mounts.read_text().splitlines()
  mounts.write_text('\n'.join(f'{" ".join(x.split()[:3])} rw' for x in lines))
  monkeypatch.setattr(store_lib, '_MOUNTS', mounts)
  path = folder / 'results.sqlite'
  with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter('always')
    with store_lib.Results(path) as store:
      store.put(records(3))
      assert [p.name for p in folder.glob('*-wal')] == (
        [] if kind else ['results.sqlite-wal']
      )
  assert [kind in str(w.message) for w in warned] == [True] * bool(kind)
  monkeypatch.undo()
  with store_lib.Results(path) as store:  # moved to another file system
    assert len(store) == 3
    store.put(records(5))
    assert list(folder.glob('*-wal'))
