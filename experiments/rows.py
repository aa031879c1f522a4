"""Rows of result files: CSV on disk, Markdown on pages.

A row maps columns to text, so that reading and writing a file preserves its
bytes. The column `published` is the accuracy by the paper protocol.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import csv
import pathlib
from typing import Any

from aen import io as io_lib

Row = Mapping[str, str]
Answer = Mapping[str, object]  # a row before it is written


def read(path: pathlib.Path, columns: Iterable[str] = ()) -> list[Row]:
  """Returns the rows of a file with `columns`; none if there is no file."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    stored = csv.DictReader(file)
    if missing := set(columns) - set(stored.fieldnames or ()):
      raise ValueError(
        f'{path} lacks the column {min(missing)!r}: another version wrote it;'
        ' delete it, the store beside it has everything that was trained'
      )
    return list(stored)


def write(path: pathlib.Path, rows: Sequence[Mapping[str, object]]) -> None:
  """Writes a file atomically; the first row determines the columns."""
  with io_lib.written_text(path) as file:
    writer = csv.DictWriter(file, rows[0], restval='', lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)


def add(path: pathlib.Path, rows: Iterable[Row], key: Sequence[str]) -> None:
  """Adds rows to a file; replaces those with the same key."""
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
  """Returns a table in Markdown; the first row determines the columns."""
  cells = [rows[0], *(row.values() for row in rows)]
  head, *lines = ('| ' + ' | '.join(line) + ' |' for line in cells)
  return '\n'.join([head, '|' + '---|' * len(rows[0]), *lines])


def words(names: str) -> str:
  """Joins names that are separated by spaces by plus signs."""
  return names.replace(' ', ' + ') or 'none'


def ask_all(
  path: pathlib.Path, questions: Iterable[Answer], ask: Callable[..., Answer]
) -> list[Answer]:
  """Answers the questions that a file has no row for; returns all its rows.

  A question is a row's identifying columns; `ask` takes them as arguments and
  returns the other columns. Each new row is printed and written at once, so the
  same call resumes an interrupted run.
  """
  known = read(path)
  rows: list[Answer] = [*known]
  for question in questions:
    columns = {k: str(v) for k, v in question.items()}
    if not any(columns.items() <= row.items() for row in known):
      rows.append({**question, **ask(**question)})
      write(path, rows)
      print(', '.join(f'{k}: {v}' for k, v in rows[-1].items()))
  return rows


def of_search(best: Any, right: bool, scores: Sequence[str]) -> dict[str, Any]:
  """Returns the columns of a search: the chosen network and its gain.

  `best` is a `SearchResult.best`; `scores` names the columns of its score and
  of the baseline's.
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
  """Returns how many answers are right, in words."""
  right = sum(int(str(row['right'])) for row in rows)
  return f'right in {right} of {len(rows)}'
