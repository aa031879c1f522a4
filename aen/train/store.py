"""The store: the results of every child ever trained, in one SQLite file.

A child is identified by its network, the data, the recipe and the seed. Several
processes may write at once; the first record of a child is kept. Nothing is
pickled. Records and parameters have checksums, because SQLite does not detect
flipped bits in values.

Legend: E epochs.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import csv
import dataclasses
import gzip
import hashlib
import io
import itertools
import json
import math
import pathlib
import re
import sqlite3
from typing import Any
import warnings

from flax import struct
from flax import traverse_util
import numpy as np

from aen import io as io_lib

WAIT_SECONDS = 30.0  # for another process to finish writing
MEMORY = ':memory:'


class ResultsError(OSError):
  """A store cannot be read or written; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class ChildKey:
  """The identity of a child."""

  network: str  # equal for equal networks; see `Space.key`
  data: str  # the fingerprint of the images
  recipe: str  # as JSON, with the version of the training code
  seed: int


@dataclasses.dataclass(frozen=True)
class Origin:
  """Where and when a child was trained.

  Results may depend on the device, and the last digits of convolutions on the
  number of threads. Launchers and workers use one thread; elsewhere, such as in
  a notebook, the number is what JAX was started with.
  """

  device: str  # its kind, such as 'cpu (AMD EPYC)'
  jax: str  # the version
  worker: str  # the process, as host:process
  started: float  # start of the job, in seconds since 1970
  finished: float  # end of the job
  workers: int = 0  # number of workers, 0 if unknown
  threads: int = 0  # number of XLA's threads on the CPU, 0 if unknown


class Record(struct.PyTreeNode):
  """The result of training a child.

  `train_child` returns curves as arrays, [E] each; the evaluator adds the
  identity of the child and converts curves to tuples of floats.

  A child diverges when its parameters are no longer finite. It keeps the
  parameters of the last finite epoch, and its later accuracies are 0, its
  losses the largest float32. So no curve contains a NaN.
  """

  train_loss: Any  # [E], mean over the steps of an epoch
  validation_accuracy: Any  # [E]
  validation_loss: Any  # [E]
  test_accuracy: Any = ()  # [E], empty if it was not measured
  few_test_accuracy: Any = ()  # [E], on a marked subset of the test images
  diverged: Any = False
  # The best epoch's parameters, on request.
  params: Any = dataclasses.field(default=None, repr=False, compare=False)
  key: ChildKey = struct.field(pytree_node=False, default=None)
  symmetries: str = struct.field(pytree_node=False, default='')
  num_weights: int = struct.field(pytree_node=False, default=0)
  seconds: float = struct.field(pytree_node=False, default=0.0)
  origin: Origin | None = struct.field(
    pytree_node=False, default=None, repr=False, compare=False
  )

  @property
  def epochs(self) -> int:
    """The number of epochs it was trained for."""
    return len(self.validation_accuracy)


CURVES = (
  'train_loss',
  'validation_accuracy',
  'validation_loss',
  'test_accuracy',
  'few_test_accuracy',
)
_KEY = tuple(field.name for field in dataclasses.fields(ChildKey))
COLUMNS = (*_KEY, 'symmetries', 'num_weights', *CURVES, 'diverged', 'seconds')
_SIGNED = (*COLUMNS, 'origin')  # covered by checksums
_IS_CHILD = ' AND '.join(f'{name} = ?' for name in _KEY)
# Migrations from each version of the schema to the next; 0 is a new file.
_MIGRATIONS = (
  (
    f"""CREATE TABLE results (
      network TEXT NOT NULL, data TEXT NOT NULL, recipe TEXT NOT NULL,
      seed INTEGER NOT NULL, symmetries TEXT NOT NULL,
      num_weights INTEGER NOT NULL, train_loss TEXT NOT NULL,
      validation_accuracy TEXT NOT NULL, validation_loss TEXT NOT NULL,
      test_accuracy TEXT NOT NULL, diverged INTEGER NOT NULL,
      seconds REAL NOT NULL, params BLOB,
      PRIMARY KEY ({', '.join(_KEY)})) WITHOUT ROWID""",
  ),
  ("ALTER TABLE results ADD few_test_accuracy TEXT NOT NULL DEFAULT '[]'",),
  (
    'ALTER TABLE results ADD origin TEXT',
    "ALTER TABLE results ADD checksum TEXT NOT NULL DEFAULT ''",
    # Children whose training failed, until they are trained.
    f"""CREATE TABLE failures (
      network TEXT NOT NULL, data TEXT NOT NULL, recipe TEXT NOT NULL,
      seed INTEGER NOT NULL, reason TEXT NOT NULL,
      PRIMARY KEY ({', '.join(_KEY)})) WITHOUT ROWID""",
  ),
)
SCHEMA_VERSION = len(_MIGRATIONS)
# File systems where SQLite's write-ahead log does not work, because machines do
# not share memory.
_NETWORK_FILE_SYSTEMS = re.compile(
  r'(fuse\.)?(afs|beegfs|ceph|cifs|gfs2|glusterfs|gpfs|lustre|nfs4?|ocfs2'
  r'|orangefs|panfs|pvfs2|s3fs|smb3|smbfs|sshfs|wekafs)'
)
_MOUNTS = pathlib.Path('/proc/mounts')  # Linux
# Part of SQLite's message -> advice.
_ADVICE = {
  'locked': 'another process is writing: wait for it, or interrupt it',
  'readonly': 'make it writable, or choose another run directory',
  'unable to open': 'make it writable, or choose another run directory',
  'full': 'free some space and start again: finished children are kept',
  'I/O': 'free some space and start again: finished children are kept',
}
_DAMAGED = (
  'the file is damaged: move it away (its children will be trained again) or'
  ' restore a copy'
)
_MARK = b'aen params 1\n'  # then a SHA-256, then an .npz file


class Results(contextlib.AbstractContextManager['Results']):
  """The store, in a file or in memory.

  >>> store = Results()
  >>> len(store)
  0
  """

  def __init__(self, path: io_lib.PathLike = MEMORY) -> None:
    """Opens a store, creating the file if necessary.

    Raises:
      ResultsError: The file cannot be written, is locked, or is no store.
    """
    self.path = str(path)
    if self.path != MEMORY:
      path = io_lib.as_path(path, 'the path of a store')
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
    return self._run('SELECT COUNT(*) FROM results')[0][0]

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Closes the file; all records are already on disk."""
    self._connection.close()

  def get(self, key: ChildKey, with_params: bool = False) -> Record | None:
    """Returns a child's record, or None if it is not stored."""
    found = self._records(
      f'WHERE {_IS_CHILD}', dataclasses.astuple(key), with_params
    )
    return found[0] if found else None

  def put(self, records: Iterable[Record]) -> None:
    """Stores records, all or none; the first record of a child is kept.

    Parameters are added to a record that was stored without them.
    """
    columns = (*_SIGNED, 'checksum', 'params')
    statement = (
      f'INSERT INTO results ({", ".join(columns)}) VALUES'
      f' ({", ".join("?" * len(columns))}) ON CONFLICT ({", ".join(_KEY)})'
      ' DO UPDATE SET params = COALESCE(params, excluded.params)'
    )
    rows = []
    for record in records if isinstance(records, Iterable) else [records]:
      if not isinstance(record, Record):
        raise ValueError(f'expected records of children, got {record!r}')
      _check_curves(record)
      params = None if record.params is None else pack(record.params)
      row = _as_row(record)
      rows.append((*row, _checksum(row), params))
    with self._transaction():
      try:
        self._connection.executemany(statement, rows)
      except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f'a record cannot be stored: {error}') from error
      self._connection.executemany(
        f'DELETE FROM failures WHERE {_IS_CHILD}',
        [row[: len(_KEY)] for row in rows],
      )

  def put_failure(self, key: ChildKey, reason: str) -> None:
    """Stores why training a child failed, until it succeeds."""
    row = (*dataclasses.astuple(key), reason)
    self._run('INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)', row)

  def failures(self) -> dict[ChildKey, str]:
    """Returns the children whose training failed, with the reasons."""
    rows = self._run('SELECT * FROM failures')
    return {ChildKey(*key): reason for *key, reason in rows}

  def origins(self) -> list[Origin]:
    """Returns where and when children were trained, if known."""
    rows = self._run('SELECT origin FROM results WHERE origin IS NOT NULL')
    return [Origin(**json.loads(origin)) for (origin,) in rows]

  def forget_params(self) -> None:
    """Deletes all parameters, which take most of the file."""
    self._run('UPDATE results SET params = NULL WHERE params IS NOT NULL')
    self._run('VACUUM')

  def export_csv(self, path: io_lib.PathLike) -> None:
    """Writes all records without parameters, sorted by key.

    Files named *.gz are compressed. Equal records give equal bytes.
    """
    records = self._records(f'ORDER BY {", ".join(_KEY)}')
    with contextlib.ExitStack() as stack:
      if _is_compressed(path):
        whole = stack.enter_context(io_lib.written_whole(path))
        packed: Any = gzip.GzipFile('', 'wb', fileobj=whole, mtime=0)
        text = io.TextIOWrapper(packed, encoding='utf-8', newline='')
        file = stack.enter_context(text)
      else:
        file = stack.enter_context(io_lib.written_text(path))
      writer = csv.writer(file, lineterminator='\n')
      writer.writerow(COLUMNS)
      for record in records:
        safe = record.replace(symmetries=io_lib.cell(record.symmetries))
        writer.writerow(_as_row(safe)[: len(COLUMNS)])

  def import_csv(self, path: io_lib.PathLike) -> int:
    """Adds the records of a file that `export_csv` wrote, all or none.

    Returns the number of records in the file.
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
      records = []
      for line in lines:
        try:
          record = _as_record((*line, None, None))
        except (ValueError, TypeError) as error:
          raise ValueError(
            f'{path}, line {lines.line_num}: expected {len(COLUMNS)} columns as'
            f' export_csv writes them, got {len(line)} ({error}); nothing was'
            ' imported'
          ) from error
        symmetries = io_lib.from_cell(record.symmetries)
        records.append(record.replace(symmetries=symmetries))
    self.put(records)
    return len(records)

  def _prepare(self) -> None:
    ((version,),) = self._run('PRAGMA user_version')
    if not 0 <= version <= SCHEMA_VERSION:
      raise ResultsError(
        f'{self.path} was written by another version of aen (its format is'
        f' {version}, this one reads {SCHEMA_VERSION}); choose another run'
        ' directory'
      )
    ((damage,),) = self._run('PRAGMA quick_check(1)')
    if damage != 'ok':
      raise sqlite3.DatabaseError(damage)
    self._choose_journal()
    if version == SCHEMA_VERSION:
      return
    with self._transaction():  # in which no other process can do the same
      ((version,),) = self._run('PRAGMA user_version')
      for statement in itertools.chain(*_MIGRATIONS[version:]):
        self._run(statement)
      unsigned = f"SELECT {', '.join(_SIGNED)} FROM results WHERE checksum = ''"
      for row in self._run(unsigned):
        self._run(
          f'UPDATE results SET checksum = ? WHERE {_IS_CHILD}',
          (_checksum(row), *row[: len(_KEY)]),
        )
      self._run(f'PRAGMA user_version = {SCHEMA_VERSION}')

  def _choose_journal(self) -> None:
    """Uses a write-ahead log, except on network file systems."""
    if self.path == MEMORY or (kind := _network_file_system(self.path)) is None:
      self._run('PRAGMA journal_mode = WAL')
      self._run('PRAGMA synchronous = NORMAL')
      return
    self._run('PRAGMA journal_mode = DELETE')
    warnings.warn(
      f'{self.path} is on a network file system ({kind}), where SQLite cannot'
      ' keep a write-ahead log: it keeps a rollback journal instead, which is'
      ' slower; let no second process write to it',
      stacklevel=2,
    )

  def _records(
    self, which: str, values: Sequence[Any] = (), with_params: bool = False
  ) -> list[Record]:
    """Returns records; raises a `ResultsError` if one is damaged."""
    columns = (*_SIGNED, 'checksum', 'params' if with_params else 'NULL')
    selected = f'SELECT {", ".join(columns)} FROM results {which}'
    records = []
    for *row, checksum, params in self._run(selected, values):
      try:
        if checksum != _checksum(row):
          raise ValueError('its checksum does not match')
        records.append(_as_record((*row, params)))
      except Exception as error:  # zipfile raises nearly anything
        raise ResultsError(
          f'{self.path}: the record of a child is damaged ({error}); {_DAMAGED}'
        ) from error
    return records

  def _run(
    self, statement: str, values: Sequence[Any] = ()
  ) -> list[tuple[Any, ...]]:
    with self._explained():
      return self._connection.execute(statement, values).fetchall()

  @contextlib.contextmanager
  def _transaction(self) -> Iterator[None]:
    self._run('BEGIN IMMEDIATE')
    with self._explained(), self._connection:  # commits, or rolls back
      yield

  @contextlib.contextmanager
  def _explained(self) -> Iterator[None]:
    """Converts SQLite's errors to a `ResultsError` with advice."""
    try:
      yield
    except sqlite3.Error as error:
      advice = (a for part, a in _ADVICE.items() if part in str(error))
      why = ' '.join(str(error).split())
      raise ResultsError(
        f'{self.path}: {why}; {next(advice, _DAMAGED)}'
      ) from error


def _network_file_system(path: str) -> str | None:
  """Returns the type of the network file system of a path, if any."""
  try:
    mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
  except OSError:  # not Linux
    return None
  here, kind = pathlib.Path(path).resolve(), None
  deepest = -1
  for _, point, name, *_ in mounts:
    folder = pathlib.Path(point.replace('\\040', ' '))
    if here.is_relative_to(folder) and len(folder.parts) >= deepest:
      deepest, kind = len(folder.parts), name
  return kind if kind and _NETWORK_FILE_SYSTEMS.fullmatch(kind) else None


def _is_compressed(path: io_lib.PathLike) -> bool:
  return pathlib.Path(path).suffix == '.gz'


def _as_row(record: Record) -> tuple[Any, ...]:
  return (
    *vars(record.key).values(),  # astuple would copy, which takes longer
    record.symmetries,
    record.num_weights,
    *(json.dumps(getattr(record, name)) for name in CURVES),
    int(record.diverged),
    float(record.seconds),
    record.origin and json.dumps(dataclasses.asdict(record.origin)),
  )


def _checksum(row: Sequence[Any]) -> str:
  return hashlib.sha256(json.dumps(row).encode()).hexdigest()


def _as_record(row: Sequence[Any]) -> Record:
  network, data, recipe, seed, symmetries, num_weights, *rest = row
  *curves, diverged, seconds, origin, params = rest
  parsed = [tuple(json.loads(curve)) for curve in curves]
  record = Record(
    **dict(zip(CURVES, parsed, strict=True)),
    diverged=bool(int(diverged)),
    params=None if params is None else unpack(params),
    key=ChildKey(network, data, recipe, int(seed)),
    symmetries=symmetries,
    num_weights=int(num_weights),
    seconds=float(seconds),
    origin=None if origin is None else Origin(**json.loads(origin)),
  )
  _check_curves(record)
  return record


def pack(params: Any) -> bytes:
  """Serialises parameters as .npz with a checksum, without pickle."""
  flat = traverse_util.flatten_dict(params, sep='/')
  file = io.BytesIO()
  arrays: dict[str, Any] = {n: np.asarray(leaf) for n, leaf in flat.items()}
  np.savez(file, **arrays)
  packed = file.getvalue()
  return _MARK + hashlib.sha256(packed).digest() + packed


def unpack(packed: bytes) -> Any:
  """Restores packed parameters; raises a `ValueError` if they are damaged."""
  if packed.startswith(_MARK):  # earlier versions wrote the .npz file alone
    start = len(_MARK) + hashlib.sha256().digest_size
    digest, packed = packed[len(_MARK) : start], packed[start:]
    if digest != hashlib.sha256(packed).digest():
      raise ValueError('the checksum of its parameters does not match')
  elif not packed.startswith(b'PK'):
    raise ValueError('its parameters are not in the format of aen')
  with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
    return traverse_util.unflatten_dict(dict(arrays), sep='/')


def _check_curves(record: Record) -> None:
  """Raises a `ValueError` unless curves have valid values and lengths."""
  curves = {name: getattr(record, name) for name in CURVES}
  if len({len(curve) for curve in curves.values()} - {0}) != 1:
    raise ValueError('the curves have different numbers of epochs')
  for name, curve in curves.items():
    low, high = (0, 1) if name.endswith('accuracy') else (-math.inf, math.inf)
    if not all(low <= v <= high and math.isfinite(v) for v in curve):
      raise ValueError(f'{name} holds values outside {low}…{high}')
