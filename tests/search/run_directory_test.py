"""One run directory: many processes, lost files, damaged files."""

import dataclasses
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import aen
from aen import io as io_lib
from aen.search import result as result_lib
from aen.train import store as store_lib
from tests.search import search_test

FILES = ('config.json', 'ranking.csv', 'result.json', 'trace.csv')


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  run_dir = tmp_path_factory.mktemp('finished')
  search_test.start(run_dir)
  return run_dir


@pytest.fixture
def copy(finished, tmp_path):
  shutil.copytree(finished, tmp_path / 'run')
  return tmp_path / 'run'


@pytest.mark.slow
def test_later_ones_wait_and_read_the_result(tmp_path, monkeypatch, capfd):
  put, trained, found = store_lib.Results.put, [], []

  def counting_put(store, records):
    trained.extend(record.key for record in records)
    put(store, records)

  monkeypatch.setattr(store_lib.Results, 'put', counting_put)
  run_dir = tmp_path / 'run'
  threads = [
    threading.Thread(target=lambda: found.append(search_test.start(run_dir)))
    for _ in range(3)
  ]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(trained) == len(set(trained)) > 0
  assert [result.ranking for result in found] == [found[0].ranking] * 3
  # Another process, if the holder has not written its name yet.
  holder = f'process {os.getpid()} on .*|another process'
  waiting = f'waiting for (?:{holder}) to finish'
  assert len(re.findall(waiting, capfd.readouterr().err)) == 2


def test_a_lock_dies_with_its_holder(tmp_path):
  code = (
    'import sys, time; from aen import io\n'
    'with io.locked(sys.argv[1]): print("held", flush=True); time.sleep(600)'
  )
  holder = subprocess.Popen(
    [sys.executable, '-c', code, str(tmp_path)],
    stdout=subprocess.PIPE,
    cwd=pathlib.Path(__file__).parents[2],
  )
  holder.stdout.readline()
  taken = threading.Event()

  def take():
    with io_lib.locked(tmp_path):
      taken.set()

  thread = threading.Thread(target=take)
  thread.start()
  assert not taken.wait(0.2)
  os.kill(holder.pid, signal.SIGKILL)
  thread.join()
  assert taken.is_set()
  holder.wait()


def test_without_locks_one_line_says_so(tmp_path, monkeypatch, capsys):
  def refuse(*_):
    raise OSError(errno.ENOLCK, 'No locks available')

  monkeypatch.setattr(io_lib.fcntl, 'flock', refuse)
  with io_lib.locked(tmp_path):
    pass
  said = capsys.readouterr().err
  assert 'cannot be locked (No locks available); run one process' in said
  assert said.count('\n') == 1


def test_a_read_only_directory_is_not_locked(copy, monkeypatch):
  def refuse(*_, **__):
    raise OSError(errno.EROFS, 'Read-only file system')

  monkeypatch.setattr(os, 'open', refuse)
  monkeypatch.setattr(io_lib, 'written_text', refuse)
  assert search_test.start(copy).ranking


def test_a_lost_configuration_does_not_lend_its_result(copy):
  (copy / 'config.json').unlink()
  with pytest.raises(ValueError, match='another run .search.seed: 0 there, 1'):
    search_test.start(copy, seed=1)
  assert not (copy / 'config.json').exists()
  assert search_test.start(copy).ranking
  assert (copy / 'config.json').exists()


def test_a_result_of_an_earlier_version_needs_its_configuration(copy):
  content = json.loads((copy / 'result.json').read_text())
  del content['config'], content['sha256'], content['best']['checksum']
  (copy / 'result.json').write_text(json.dumps(content))
  assert search_test.start(copy).ranking
  (copy / 'config.json').unlink()
  with pytest.raises(ValueError, match='not its config.json.*restore that'):
    search_test.start(copy)


def contents(run_dir):
  return {name: (run_dir / name).read_bytes() for name in FILES}


@pytest.mark.parametrize('cut', [0, 100, -1])
def test_a_truncated_result_is_made_again(copy, finished, cut, capsys):
  path = copy / 'result.json'
  path.write_bytes(path.read_bytes()[:cut])
  with pytest.raises(ValueError, match='run the search again'):
    aen.SearchResult.load(copy)
  search_test.start(copy)
  assert 'result.json is no result' in capsys.readouterr().err
  assert contents(copy) == contents(finished)


def test_numbers_that_were_altered_are_noticed(copy):
  path = copy / 'result.json'
  text = path.read_text()
  altered = re.sub(r'("accuracy": 0\.)\d', r'\g<1>1', text, count=1)
  assert altered != text
  path.write_text(altered)
  with pytest.raises(ValueError, match='checksum does not match.*again'):
    aen.SearchResult.load(copy)
  path = copy / 'config.json'
  path.write_text(path.read_text().replace('"sha256"', '"sha257"'))
  with pytest.raises(ValueError, match='name of its checksum is damaged'):
    io_lib.open_run(copy, {})
  path.write_text(path.read_text().replace('"sha257"', '"sha256"'))
  path.write_text(re.sub(r'"numpy": "\d', '"numpy": "7', path.read_text()))
  with pytest.raises(ValueError, match='config.json is damaged.*checksum'):
    io_lib.open_run(copy, {})


def test_other_weights_are_noticed_and_made_again(copy, finished):
  right = aen.SearchResult.load(copy)
  weights = right.best.variables['params']
  wrong = {n: {**layer} for n, layer in weights.items()}
  name = next(iter(wrong))
  wrong[name]['kernel'] = np.nextafter(wrong[name]['kernel'], np.float32(9))
  result_lib.save_params(copy / 'best', {'params': wrong})
  with pytest.raises(ValueError, match='best is no result.*checksum'):
    aen.SearchResult.load(copy)
  search_test.start(copy)
  assert aen.SearchResult.load(copy).ranking == right.ranking
  assert contents(copy) == contents(finished)


def test_a_lost_checkpoint_is_one_line_and_made_again(copy):
  shutil.rmtree(copy / 'best')
  with pytest.raises(ValueError, match='best is no result'):
    aen.SearchResult.load(copy)
  assert search_test.start(copy).ranking
  assert aen.SearchResult.load(copy).ranking


def test_saving_leaves_nothing_else_behind(copy, finished):
  aen.SearchResult.load(copy).save(copy)
  assert sorted(os.listdir(copy)) == sorted(os.listdir(finished))
  assert contents(copy) == contents(finished)


def test_every_altered_value_of_the_store_is_noticed(tmp_path):
  path = tmp_path / 'results.sqlite'
  record = dataclasses.replace(
    search_test_record(), params={'layer': {'kernel': np.arange(64.0)}}
  )
  with store_lib.Results(path) as store:
    store.put([record])
    for column in set(store_lib.COLUMNS) - set(store_lib._KEY):
      (before,) = store._run(f'SELECT {column} FROM results')
      other = 2 if isinstance(before[0], int) else '[0.75, 0.5]'
      store._run(f'UPDATE results SET {column} = ?', (other,))
      with pytest.raises(store_lib.ResultsError, match='damaged.*move it'):
        store.get(record.key)
      with pytest.raises(store_lib.ResultsError, match='damaged.*move it'):
        store.export_csv(tmp_path / 'out.csv')
      store._run(f'UPDATE results SET {column} = ?', before)
    ((packed,),) = store._run('SELECT params FROM results')
    for place in range(0, len(packed), 17):
      flipped = bytearray(packed)
      flipped[place] ^= 1 << place % 8
      store._run('UPDATE results SET params = ?', (bytes(flipped),))
      assert store.get(record.key) == record
      with pytest.raises(store_lib.ResultsError, match='damaged.*move it'):
        store.get(record.key, with_params=True)


def search_test_record():
  return store_lib.Record(
    key=store_lib.ChildKey('network', 'data', '{}', 7),
    train_loss=(1.5, 0.5),
    validation_accuracy=(0.25, 0.5),
    validation_loss=(1.25, 1.0),
    seconds=0.25,
    num_weights=5,
  )


@pytest.mark.parametrize('curve', [(0.5, np.nan), (0.5, 1.5), (0.5,)])
def test_curves_that_cannot_be_are_never_stored(curve):
  store = store_lib.Results()
  wrong = dataclasses.replace(search_test_record(), validation_accuracy=curve)
  with pytest.raises(ValueError, match='curves|validation_accuracy'):
    store.put([wrong])
  assert len(store) == 0


def test_records_of_the_version_before_are_read_and_signed(tmp_path):
  path = tmp_path / 'results.sqlite'
  record = search_test_record()
  with store_lib.Results(path) as store:
    store.put([dataclasses.replace(record, params={'kernel': np.ones(3)})])
    ((packed,),) = store._run('SELECT params FROM results')
    older = packed[packed.index(b'PK') :]
    store._run('UPDATE results SET params = ?', (older,))
    for column in ('checksum', 'origin'):
      store._run(f'ALTER TABLE results DROP COLUMN {column}')
    store._run('DROP TABLE failures')
    store._run('PRAGMA user_version = 2')
  with store_lib.Results(path) as store:
    found = store.get(record.key, with_params=True)
    assert found == record
    np.testing.assert_array_equal(found.params['kernel'], np.ones(3))
    store._run('UPDATE results SET num_weights = 6')
    with pytest.raises(store_lib.ResultsError, match='damaged'):
      store.get(record.key)
