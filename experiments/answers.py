"""Questions whose answer is known: asked once, kept in a file, counted."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import pathlib
from typing import Any

from aen.search import result as result_lib
from experiments import rows as rows_lib

Answer = Mapping[str, object]


def ask_all(
  path: pathlib.Path,
  questions: Iterable[Answer],
  ask: Callable[..., Answer],
) -> list[Answer]:
  """Asks what a file has no row of; prints and writes each row at once.

  Args:
    path: The CSV file. Its rows are kept, so the same call resumes a run.
    questions: The columns that tell rows apart.
    ask: Takes a question's columns and returns those of its answer.

  Returns:
    All rows of the file.
  """
  rows: list[Answer] = [*rows_lib.read(path)]
  known = {frozenset((k, str(v)) for k, v in row.items()) for row in rows}
  for question in questions:
    columns = {(k, str(v)) for k, v in question.items()}
    if not any(columns <= row for row in known):
      rows.append({**question, **ask(**question)})
      rows_lib.write(path, rows)
      print(', '.join(f'{k}: {v}' for k, v in rows[-1].items()), flush=True)
  return rows


def of_search(
  best: result_lib.Best, right: bool, scores: Sequence[str]
) -> dict[str, Any]:
  """Returns the columns of a search: what was chosen, and what it gains.

  `scores` are the columns of the chosen network's score and the baseline's.
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
