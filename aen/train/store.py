"""The store: what became of every child that was ever trained.

One SQLite file, safe for several processes at once (the first result of a child
stands). A child is known by four things: its network, the images, the recipe
and the seed. Nothing is pickled.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import csv
import dataclasses
import gzip
import io
import json
import math
import os
import pathlib
import sqlite3
from typing import Any

from aen import io as io_lib

SCHEMA_VERSION = 2
WAIT_SECONDS = 30.0  # for another process to finish writing
MEMORY = ':memory:'


class ResultsError(OSError):
  """A store that cannot be read or written; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class ChildKey:
  """What a child is; two with equal keys are the same child.

  Attributes:
    network: Names the network: equal networks, equal names.
    data: The fingerprint of the images.
    recipe: How it is trained, the version of the training code included.
    seed: Its random seed.
  """

  network: str
  data: str
  recipe: str
  seed: int


@dataclasses.dataclass(frozen=True)
class Record:
  """What became of a child, epoch by epoch.

  Attributes:
    key: Which child.
    symmetries: The network in words, for people.
    num_weights: Its free kernel weights.
    train_loss: The mean over each epoch's steps.
    validation_accuracy: After each epoch.
    validation_loss: After each epoch.
    test_accuracy: After each epoch; empty if it was not measured.
    few_test_accuracy: The same on some of the test images, counted apart.
    diverged: Whether the parameters stopped being finite.
    seconds: Its share of the wall time.
    params: The best epoch's parameters as bytes, if they were kept.
  """

  key: ChildKey
  symmetries: str
  num_weights: int
  train_loss: tuple[float, ...]
  validation_accuracy: tuple[float, ...]
  validation_loss: tuple[float, ...]
  test_accuracy: tuple[float, ...]
  few_test_accuracy: tuple[float, ...]
  diverged: bool
  seconds: float
  params: bytes | None = dataclasses.field(default=None, repr=False)


_CURVES = (
  'train_loss',
  'validation_accuracy',
  'validation_loss',
  'test_accuracy',
  'few_test_accuracy',
)
_KEY = tuple(field.name for field in dataclasses.fields(ChildKey))
COLUMNS = (
  *_KEY,
  'symmetries',
  'num_weights',
  *_CURVES,
  'diverged',
  'seconds',
)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS results (
  network TEXT NOT NULL, data TEXT NOT NULL, recipe TEXT NOT NULL,
  seed INTEGER NOT NULL, symmetries TEXT NOT NULL,
  num_weights INTEGER NOT NULL, train_loss TEXT NOT NULL,
  validation_accuracy TEXT NOT NULL, validation_loss TEXT NOT NULL,
  test_accuracy TEXT NOT NULL, diverged INTEGER NOT NULL,
  seconds REAL NOT NULL, params BLOB,
  few_test_accuracy TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY ({', '.join(_KEY)})) WITHOUT ROWID
"""
# What each older format lacks.
_MIGRATIONS = {
  1: "ALTER TABLE results ADD few_test_accuracy TEXT NOT NULL DEFAULT '[]'"
}


class Results:
  """A store in a file, or in memory.

  >>> store = Results()
  >>> len(store)
  0
  """

  def __init__(self, path: str | os.PathLike[str] = MEMORY) -> None:
    """Opens a store, which is made if there is none.

    Args:
      path: The file.

    Raises:
      ResultsError: It cannot be written, is locked or damaged, or is none.
    """
    self.path = str(path)
    if self.path != MEMORY:
      path = pathlib.Path(path)
      try:
        path.parent.mkdir(parents=True, exist_ok=True)
      except OSError as error:
        raise ResultsError(
          f'cannot make the directory {path.parent} ({error.strerror}); choose'
          ' one that you may write to'
        ) from error
    with self._explained():
      self._connection = sqlite3.connect(
        self.path, timeout=WAIT_SECONDS, isolation_level=None
      )
      self._prepare()

  def __len__(self) -> int:
    return self._run('SELECT COUNT(*) FROM results').fetchone()[0]

  def __enter__(self) -> 'Results':
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Closes the file; all that was put is in it already."""
    self._connection.close()

  def get(self, key: ChildKey, with_params: bool = False) -> Record | None:
    """Returns what became of a child, or None if nothing is known."""
    columns = (*COLUMNS, 'params' if with_params else 'NULL')
    row = self._run(
      f'SELECT {", ".join(columns)} FROM results WHERE'
      f' {" AND ".join(f"{name} = ?" for name in _KEY)}',
      dataclasses.astuple(key),
    ).fetchone()
    return None if row is None else _as_record(row)

  def put(self, records: Iterable[Record]) -> None:
    """Stores records, all or none of them; a child's first result stands.

    Parameters are added to a result that was stored without them.
    """
    slots = ', '.join('?' * (len(COLUMNS) + 1))
    statement = (
      f'INSERT INTO results ({", ".join(COLUMNS)}, params) VALUES ({slots})'
      f' ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET params ='
      ' COALESCE(params, excluded.params)'
    )
    with self._transaction():
      self._connection.executemany(statement, [_as_row(r) for r in records])

  def forget_params(self) -> None:
    """Drops all parameters, which are the bulk of a store."""
    with self._transaction():
      self._run('UPDATE results SET params = NULL WHERE params IS NOT NULL')
    self._run('VACUUM')

  def export_csv(self, path: str | os.PathLike[str]) -> None:
    """Writes all results, without parameters, in the order of their keys.

    A file whose name ends in .gz is compressed; the same results give the same
    bytes.
    """
    rows = self._run(
      f'SELECT {", ".join(COLUMNS)} FROM results ORDER BY {", ".join(_KEY)}'
    )
    with _written_csv(path) as file:
      writer = csv.writer(file, lineterminator='\n')
      writer.writerow(COLUMNS)
      writer.writerows(rows)

  def import_csv(self, path: str | os.PathLike[str]) -> int:
    """Adds the results of a CSV file that `export_csv` wrote, all or none.

    Returns:
      The number of results in the file.
    """
    opened = gzip.open if _is_compressed(path) else open
    with opened(path, 'rt', newline='', encoding='utf-8') as file:
      lines = csv.reader(file)
      header = next(lines, [])
      if tuple(header) != COLUMNS:
        raise ValueError(
          f'{path}: expected the columns {", ".join(COLUMNS)}, got'
          f' {", ".join(header) or "nothing"}; is it an export?'
        )
      records = [
        _from_csv(line, f'{path}, line {lines.line_num}') for line in lines
      ]
    self.put(records)
    return len(records)

  def _prepare(self) -> None:
    version = self._run('PRAGMA user_version').fetchone()[0]
    if version not in (0, *_MIGRATIONS, SCHEMA_VERSION):
      raise ResultsError(
        f'{self.path} was written by another version of aen (its format is'
        f' {version}, this one reads {SCHEMA_VERSION}); choose another run'
        ' directory'
      )
    damage = self._run('PRAGMA quick_check(1)').fetchone()[0]
    if damage != 'ok':
      raise sqlite3.DatabaseError(damage)
    self._run('PRAGMA journal_mode = WAL')
    self._run('PRAGMA synchronous = NORMAL')
    if version != SCHEMA_VERSION:
      with self._transaction():  # in which no other process can do the same
        version = self._run('PRAGMA user_version').fetchone()[0]
        if version != SCHEMA_VERSION:
          self._run(_MIGRATIONS.get(version, _SCHEMA))
          self._run(f'PRAGMA user_version = {SCHEMA_VERSION}')

  def _run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
    with self._explained():
      return self._connection.execute(statement, values)

  @contextlib.contextmanager
  def _transaction(self) -> Iterator[None]:
    self._run('BEGIN IMMEDIATE')
    try:
      with self._explained():
        yield
        self._connection.execute('COMMIT')
    except BaseException:
      with contextlib.suppress(sqlite3.Error):
        self._connection.execute('ROLLBACK')
      raise

  @contextlib.contextmanager
  def _explained(self) -> Iterator[None]:
    """Turns SQLite's errors into one line that says what to do."""
    try:
      yield
    except sqlite3.Error as error:
      raise ResultsError(
        f'{self.path}: {error}; {_advice(str(error))}'
      ) from error


def _is_compressed(path: str | os.PathLike[str]) -> bool:
  return pathlib.Path(path).suffix == '.gz'


@contextlib.contextmanager
def _written_csv(path: str | os.PathLike[str]) -> Iterator[io.TextIOWrapper]:
  if not _is_compressed(path):
    with io_lib.written_text(path) as file:
      yield file
    return
  with (
    io_lib.written_whole(path) as whole,
    gzip.GzipFile('', 'wb', fileobj=whole, mtime=0) as packed,
    io.TextIOWrapper(packed, encoding='utf-8', newline='') as file,
  ):
    yield file


def _advice(message: str) -> str:
  """Returns what to do about an error of SQLite."""
  for words, advice in (
    ('locked', 'another process holds it: wait for that one, or stop it'),
    ('readonly', 'make it writable, or choose another run directory'),
    ('unable to open', 'make it writable, or choose another run directory'),
    ('full', 'free some space and start again: what was finished is kept'),
    ('I/O', 'free some space and start again: what was finished is kept'),
  ):
    if words in message:
      return advice
  return (
    'the file is damaged: move it away (its children will be trained again) or'
    ' restore a copy'
  )


def _as_row(record: Record) -> tuple[Any, ...]:
  curves = (json.dumps(getattr(record, name)) for name in _CURVES)
  return (
    *dataclasses.astuple(record.key),
    record.symmetries,
    record.num_weights,
    *curves,
    int(record.diverged),
    record.seconds,
    record.params,
  )


def _as_record(row: Sequence[Any]) -> Record:
  network, data, recipe, seed, symmetries, num_weights, *rest = row
  *curves, diverged, seconds, params = rest
  fields: list[Any] = [
    ChildKey(network, data, recipe, int(seed)),
    symmetries,
    int(num_weights),
    *(tuple(json.loads(curve)) for curve in curves),
    bool(int(diverged)),
    float(seconds),
    params,
  ]
  return Record(*fields)


def _from_csv(line: Sequence[str], where: str) -> Record:
  try:
    record = _as_record((*line, None))
    _check_curves(record)
  except (ValueError, TypeError) as error:
    raise ValueError(
      f'{where}: expected {len(COLUMNS)} columns as export_csv writes them, got'
      f' {len(line)} ({error}); nothing was imported'
    ) from error
  return record


def _check_curves(record: Record) -> None:
  lengths = {len(getattr(record, name)) for name in _CURVES} - {0}
  if len(lengths) != 1:
    raise ValueError('the curves have different numbers of epochs')
  for name in _CURVES:
    curve = getattr(record, name)
    low, high = (0, 1) if name.endswith('accuracy') else (-math.inf, math.inf)
    if not all(low <= v <= high and math.isfinite(v) for v in curve):
      raise ValueError(f'{name} holds values outside {low}…{high}')
