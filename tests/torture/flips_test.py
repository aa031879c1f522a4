"""Flipped bits in every file that a run writes and reads again."""

import collections
import os
import random
import shutil

import numpy as np
import pytest

import aen
from aen import io as io_lib
from aen.groups import sharing as sharing_lib
from aen.search import landscape as landscape_lib
from aen.train import store as store_lib
from tests.search import search_test
from tests.torture import figures

FLIPS = 3000

pytestmark = pytest.mark.torture


def numbers_of_result(run_dir):
  result = aen.SearchResult.load(run_dir)
  leaves = [
    np.asarray(leaf).tobytes()
    for layer in result.best.variables['params'].values()
    for leaf in layer.values()
  ]
  parts = (result.ranking, result.trace, result.counts, result.verdict)
  more = (result.q_values, result.config, result.best.gain, result.num_images)
  return repr((*parts, *more, result.best.scaling)), leaves


def numbers_of_config(config):
  def read(run_dir):
    io_lib.open_run(run_dir, config)
    return repr(io_lib.read_json(run_dir / 'config.json'))

  return read


def numbers_of_store(keys, name):
  def read(run_dir):
    with store_lib.Results(run_dir / name) as store:
      found = [store.get(key, with_params=True) for key in keys]
    return [
      # A child whose key is damaged is trained again, to the same numbers.
      'missing' if r is None else repr((r.replace(params=None), r.params))
      for r in found
    ]

  return read


def numbers_of_cache(run_dir):
  os.environ['AEN_CACHE_DIR'] = str(run_dir / 'cache')
  sharing_lib.clear_memory_cache()
  sharing = aen.dense_sharing(('rotation',), (8, 8), (8, 8))
  return sharing.kernel.tobytes()


def numbers_of_landscape(run_dir):
  landscape = landscape_lib.load(run_dir / 'landscape.npz')
  return repr([np.asarray(a).tolist() for a in vars(landscape).values()])


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """A finished search, and beside it the other files that are read again."""
  run_dir = tmp_path_factory.mktemp('run')
  forget = store_lib.Results.forget_params
  store_lib.Results.forget_params = lambda store: None
  search_test.start(run_dir)
  store_lib.Results.forget_params = forget
  landscape_lib.Landscape(
    name='random',
    symmetries=('rotation',),
    network_of=[0, 1],
    weights=[3, 2],
    seeds=[0, 1],
    validation=np.random.default_rng(0).random((2, 2, 3)),
    test=np.random.default_rng(1).random((2, 2, 3)),
    seconds=np.ones((2, 2)),
  ).save(run_dir / 'landscape.npz')
  return run_dir


def test_no_flipped_bit_changes_a_number(finished, tmp_path, monkeypatch):
  monkeypatch.setattr(sharing_lib, 'MIN_CACHED_POINTS', 1)
  monkeypatch.setenv('AEN_CACHE_DIR', str(finished / 'cache'))
  with store_lib.Results(finished / 'results.sqlite') as store:
    keys = [
      store_lib.ChildKey(*row)
      for row in store._run('SELECT network, data, recipe, seed FROM results')
    ]
    store._run('PRAGMA wal_checkpoint(TRUNCATE)')
  shutil.copy(finished / 'results.sqlite', finished / 'rows.sqlite')
  with store_lib.Results(finished / 'rows.sqlite') as store:
    store.forget_params()
    store._run('PRAGMA wal_checkpoint(TRUNCATE)')
  readers = {
    'result.json': numbers_of_result,
    'best': numbers_of_result,
    'config.json': numbers_of_config(aen.SearchResult.load(finished).config),
    'results.sqlite': numbers_of_store(keys, 'results.sqlite'),
    'rows.sqlite': numbers_of_store(keys, 'rows.sqlite'),
    'cache': numbers_of_cache,
    'landscape.npz': numbers_of_landscape,
  }
  expected = {name: read(finished) for name, read in readers.items()}
  rng, outcomes = random.Random(figures.SEED), collections.Counter()
  for i in range(figures.size(FLIPS, least=30)):
    name = list(readers)[i % len(readers)]
    run_dir = tmp_path / 'run'
    shutil.copytree(finished, run_dir)
    path = run_dir / name
    if path.is_dir():
      files = sorted(
        p for p in path.rglob('*') if p.stat().st_size * p.is_file()
      )
      path = rng.choice(files)
    content = bytearray(path.read_bytes())
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    where = f'{path.relative_to(run_dir)}, byte {place}, bit {bit}'
    outcome = classify(readers[name], run_dir, expected[name], where)
    outcomes[name, outcome] += 1
    shutil.rmtree(run_dir)
  print(dict(outcomes))
  total, noticed = (
    outcomes.total(),
    sum(n for (_, outcome), n in outcomes.items() if outcome == 'noticed'),
  )
  figures.write(
    'summary',
    'bits flipped in store, result, config, checkpoint, cache, landscape',
    f'{total} flips',
    f'0 numbers changed; {noticed} reported in one line, the others read or'
    ' repaired to the same numbers',
  )


def classify(read, run_dir, expected, where):
  """Returns 'noticed' or 'same'; fails with one line if a number changed."""
  try:
    found = read(run_dir)
  except (ValueError, OSError) as error:  # the classes of our own errors
    message = str(error)
    assert '\n' not in message, f'{where}: {message}'
    assert str(run_dir) in message, f'{where}: names no file: {message}'
    for raw in ('allow_pickle', 'JSONDecodeError', 'OperationalError'):
      assert raw not in message, f'{where}: {message}'
    return 'noticed'
  except Exception as error:
    pytest.fail(f'{where}: {type(error).__name__}: {error}')
  if isinstance(found, list):  # of a store
    pairs = zip(found, expected, strict=True)
    same = all(a in (b, 'missing') for a, b in pairs)
  else:
    same = found == expected
  assert same, f'{where}: changed a number silently'
  return 'same'


def test_damaged_data_files_are_read_or_refused(tmp_path):
  """Flips and cuts in the users' own .npz files; CRCs guard their values."""
  path, rng = tmp_path / 'mine.npz', random.Random(figures.SEED)
  images = np.random.default_rng(0).integers(0, 256, (20, 4, 4), np.uint8)
  outcomes, labels = collections.Counter(), np.arange(20) % 2
  for i in range(figures.size(1000, least=30)):
    save = (np.savez, np.savez_compressed)[i % 2]
    save(path, x_train=images, y_train=labels)
    expected = aen.load_dataset(path).fingerprint
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    if i % 3:
      content[place] ^= 1 << rng.randrange(8)
    else:
      del content[place:]
    path.write_bytes(content)
    where = f'byte {place} of call {i}'
    outcome = classify(
      lambda _: aen.load_dataset(path).fingerprint, path, expected, where
    )
    outcomes[outcome] += 1
  figures.write(
    'summary',
    'damaged .npz files of images',
    f'{outcomes.total()} flips and cuts',
    f'0 images changed; {outcomes["noticed"]} reported in one line',
  )
