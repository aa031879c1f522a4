"""The memo: what is put stays, whatever happens."""

import dataclasses
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

from aen import results

RECORD = results.Record(
  key=results.ChildKey('network', 'data', '{"epochs": 2}', 7),
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
  with results.Results(path) as memo:
    assert memo.get(RECORD.key) is None
    memo.put([RECORD])
    assert memo.get(RECORD.key) == RECORD
  with results.Results(path) as memo:
    assert memo.get(RECORD.key) == RECORD
    assert len(memo) == 1


@pytest.mark.parametrize('part', ['network', 'data', 'recipe', 'seed'])
def test_every_part_of_the_key_counts(part):
  memo = results.Results()
  memo.put([RECORD])
  other = 8 if part == 'seed' else 'other'
  assert memo.get(dataclasses.replace(RECORD.key, **{part: other})) is None


def test_the_first_result_stands_and_gains_parameters():
  memo = results.Results()
  memo.put([RECORD])
  memo.put([dataclasses.replace(RECORD, num_weights=1, params=b'weights')])
  assert memo.get(RECORD.key) == RECORD
  assert memo.get(RECORD.key, with_params=True).params == b'weights'
  memo.put([dataclasses.replace(RECORD, params=b'others')])
  assert memo.get(RECORD.key, with_params=True).params == b'weights'
  memo.forget_params()
  assert memo.get(RECORD.key, with_params=True).params is None
  assert memo.get(RECORD.key) == RECORD


def test_a_batch_is_stored_whole_or_not_at_all():
  memo = results.Results()
  broken = dataclasses.replace(RECORD, symmetries=None)
  with pytest.raises(results.ResultsError, match='NOT NULL'):
    memo.put([*records(3), broken])
  assert len(memo) == 0
  memo.put(records(3))
  assert len(memo) == 3


@pytest.mark.parametrize('ending', ['csv', 'csv.gz'])
def test_csv_goes_out_and_comes_in_again(tmp_path, ending):
  memo, copy = results.Results(), results.Results()
  memo.put([*records(3), *records(2, 9, test_accuracy=(0.5, 1.0))])
  first, second = tmp_path / f'a.{ending}', tmp_path / f'b.{ending}'
  memo.export_csv(first)
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
  memo, path = results.Results(), tmp_path / 'a.csv'
  memo.put(records(1))
  memo.export_csv(path)
  text = path.read_text()
  assert old in text
  path.write_text(text.replace(old, new))
  copy = results.Results()
  with pytest.raises(ValueError, match=message):
    copy.import_csv(path)
  assert len(copy) == 0


def test_a_damaged_file_is_one_line_and_left_alone(tmp_path):
  path = tmp_path / 'results.sqlite'
  path.write_bytes(b'this is no database, it is text. ' * 100)
  before = path.read_bytes()
  with pytest.raises(results.ResultsError, match='is damaged: move it away'):
    results.Results(path)
  assert path.read_bytes() == before


def test_a_hole_in_the_file_is_found(tmp_path):
  path = tmp_path / 'results.sqlite'
  with results.Results(path) as memo:
    memo.put(records(300))
  content = bytearray(path.read_bytes())
  middle = len(content) // 2
  content[middle : middle + 8192] = os.urandom(8192)
  path.write_bytes(content)
  with pytest.raises(results.ResultsError, match='damaged'):
    results.Results(path)


def test_another_versions_file_is_refused(tmp_path):
  path = tmp_path / 'results.sqlite'
  connection = sqlite3.connect(path)
  connection.execute('PRAGMA user_version = 99')
  connection.close()
  with pytest.raises(results.ResultsError, match='format is 99'):
    results.Results(path)


def test_an_older_file_is_read_and_written(tmp_path):
  path = tmp_path / 'results.sqlite'
  older = [c for c in results.COLUMNS if c != 'few_test_accuracy']
  connection = sqlite3.connect(path)
  connection.execute(
    f'CREATE TABLE results ({", ".join(older)}, params,'
    ' PRIMARY KEY (network, data, recipe, seed)) WITHOUT ROWID'
  )
  row = results._as_row(RECORD)
  known = [row[results.COLUMNS.index(c)] for c in older]
  connection.execute(
    f'INSERT INTO results VALUES ({", ".join("?" * len(known))}, NULL)', known
  )
  connection.execute('PRAGMA user_version = 1')
  connection.commit()
  connection.close()
  (newer,) = records(1, 20, few_test_accuracy=(0.5, 0.75))
  for _ in range(2):
    with results.Results(path) as memo:
      assert memo.get(RECORD.key) == RECORD
      memo.put([newer])
      assert memo.get(newer.key) == newer


def test_a_locked_file_is_one_line(tmp_path, monkeypatch):
  monkeypatch.setattr(results, 'WAIT_SECONDS', 0.05)
  path = tmp_path / 'results.sqlite'
  with results.Results(path) as memo, results.Results(path) as other:
    other._run('BEGIN IMMEDIATE')
    with pytest.raises(results.ResultsError, match='locked; another process'):
      memo.put([RECORD])
    other._run('ROLLBACK')
    memo.put([RECORD])
    assert other.get(RECORD.key) == RECORD


def test_a_full_disk_loses_nothing(tmp_path):
  path = tmp_path / 'results.sqlite'
  with results.Results(path) as memo:
    memo.put(records(3))
    pages = memo._run('PRAGMA page_count').fetchone()[0]
    memo._run(f'PRAGMA max_page_count = {pages}')
    with pytest.raises(results.ResultsError, match='full; free some space'):
      memo.put(records(500, start=3))
    assert len(memo) == 3
    memo._run('PRAGMA max_page_count = 100000')
    memo.put(records(500, start=3))
  with results.Results(path) as memo:
    assert len(memo) == 503


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(results.ResultsError, match='choose one that you may'):
    results.Results(tmp_path / 'file' / 'results.sqlite')
  with pytest.raises(results.ResultsError, match='choose another run dir'):
    results.Results(tmp_path)


_WRITER = """
import sys
sys.path[:0] = sys.argv[3:]
from tests import results_test
from aen import results
memo = results.Results(sys.argv[1])
print('ready', flush=True)
start = int(sys.argv[2])
for i in range(100):
  memo.put(results_test.records(5, start=start + 5 * i))
  print(i, flush=True)
"""


def writer(path, start):
  return subprocess.Popen(
    [sys.executable, '-c', _WRITER, str(path), str(start), *sys.path],
    stdout=subprocess.PIPE,
    text=True,
    cwd=pathlib.Path(__file__).parents[1],
  )


def test_processes_share_a_memo_and_one_may_be_killed(tmp_path):
  path = tmp_path / 'results.sqlite'
  patient, killed = writer(path, 0), writer(path, 250)  # half the keys in both
  for _ in range(20):
    last = killed.stdout.readline()
  os.kill(killed.pid, signal.SIGKILL)
  assert patient.wait() == 0
  killed.wait()
  with results.Results(path) as memo:
    seeds = [row[0] for row in memo._run('SELECT seed FROM results')]
  assert set(range(500)) <= set(seeds)
  beyond = [seed for seed in seeds if seed >= 500]
  assert len(beyond) % 5 == 0  # whole transactions only
  assert int(last) == 18
