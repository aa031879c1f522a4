"""Pieces of the pages that are made from result files."""

from collections.abc import Iterator
from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
  """Yields a table."""
  yield '| ' + ' | '.join(heads) + ' |'
  yield '|' + '---|' * len(heads)
  for row in rows:
    yield '| ' + ' | '.join(row) + ' |'


def command(*lines: str) -> Iterator[str]:
  """Yields a shell command."""
  yield '```bash'
  yield from lines
  yield '```'


def folded(summary: str, content: Iterator[str]) -> Iterator[str]:
  """Yields what is shown on request."""
  yield f'<details><summary>{summary}</summary>'
  yield ''
  yield from content
  yield ''
  yield '</details>'


def words(symmetries: str) -> str:
  """Returns names that are separated by spaces as one phrase."""
  return symmetries.replace(' ', ' + ') or 'none'
