"""Rows of all result files: CSV on disk, Markdown on pages.

A row is text by column, as in the file, so that a file that is read and written
again keeps its bytes. The column `published` is the accuracy by the paper
protocol.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import csv
import pathlib
from typing import Any

from aen import io as io_lib

Row = Mapping[str, str]
Answer = Mapping[str, object]  # a row before it is written


def read(path: pathlib.Path, columns: Iterable[str] = ()) -> list[Row]:
  """Returns a file's rows, none if there is no file; it must have `columns`."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    stored = csv.DictReader(file)
    if missing := set(columns) - set(stored.fieldnames or ()):
      raise ValueError(
        f'{path} lacks the column {min(missing)!r}: another version wrote it;'
        ' delete it, the store beside it knows all that was trained'
      )
    return list(stored)


def write(path: pathlib.Path, rows: Sequence[Mapping[str, object]]) -> None:
  """Writes rows, all of them or nothing; the first one names the columns."""
  with io_lib.written_text(path) as file:
    writer = csv.DictWriter(file, rows[0], restval='', lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)


def add(path: pathlib.Path, rows: Iterable[Row], key: Sequence[str]) -> None:
  """Writes rows beside those in the file, in place of those with their key."""
  known = {tuple(r[k] for k in key): r for r in [*read(path), *rows]}
  write(path, list(known.values()))


def by(
  columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> dict[tuple[Any, ...], list[Any]]:
  """Groups rows by some of their columns, in the order of first occurrence."""
  found: dict[tuple[Any, ...], list[Any]] = {}
  for row in rows:
    found.setdefault(tuple(row[name] for name in columns), []).append(row)
  return found


def markdown(rows: Sequence[Row]) -> str:
  """Returns a table in Markdown; the first row names the columns."""
  cells = [rows[0], *(row.values() for row in rows)]
  head, *lines = ('| ' + ' | '.join(line) + ' |' for line in cells)
  return '\n'.join([head, '|' + '---|' * len(rows[0]), *lines])


def words(names: str) -> str:
  """Returns names that are separated by spaces as one phrase."""
  return names.replace(' ', ' + ') or 'none'


def ask_all(
  path: pathlib.Path, questions: Iterable[Answer], ask: Callable[..., Answer]
) -> list[Answer]:
  """Asks what a file has no row of; prints and writes each row at once.

  A question is the columns that tell rows apart; `ask` takes them and returns
  the other columns. Rows of the file are kept, so the same call resumes a run.
  Returns all rows.
  """
  rows: list[Answer] = [*read(path)]
  known = {frozenset((k, str(v)) for k, v in row.items()) for row in rows}
  for question in questions:
    columns = {(k, str(v)) for k, v in question.items()}
    if not any(columns <= row for row in known):
      rows.append({**question, **ask(**question)})
      write(path, rows)
      print(', '.join(f'{k}: {v}' for k, v in rows[-1].items()))
  return rows


def of_search(best: Any, right: bool, scores: Sequence[str]) -> dict[str, Any]:
  """Returns the columns of a search: what was chosen, and what it gains.

  `best` is a `SearchResult.best`; `scores` are the columns of its score and of
  the baseline's.
  """
  numbers = {
    scores[0]: best.accuracy,
    scores[1]: best.baseline_accuracy,
    'gain': best.gain.mean,
    'low': best.gain.low,
    'high': best.gain.high,
  }
  return {
    'chosen': best.name,
    'implied': ' + '.join(best.implied),
    'right': int(right),
    **{name: f'{value:.4f}' for name, value in numbers.items()},
  }


def count(rows: Sequence[Answer]) -> str:
  """Says how many answers are right."""
  right = sum(int(str(row['right'])) for row in rows)
  return f'right in {right} of {len(rows)}'
