"""How long the stages of a reproduction took: kept in a file, and added up."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import csv
import datetime
import os
import pathlib
import platform
import time

from aen import io as io_lib

_HEAD = 'started,stage,bases,state,seconds,machine\n'
STOPPED, FINISHED = 'stopped', 'finished'


@contextlib.contextmanager
def clocked(
  path: pathlib.Path, stage: str, bases: Sequence[str]
) -> Iterator[None]:
  """Notes how long a stage took, be it stopped or finished."""
  started = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
  start, state = time.perf_counter(), STOPPED
  try:
    yield
    state = FINISHED
  finally:
    seconds = round(time.perf_counter() - start)
    print(f'{stage}: {state} after {seconds} s', flush=True)
    if seconds:
      machine = f'{os.cpu_count()} × {platform.machine()}'
      known = path.read_text('utf-8') if path.exists() else _HEAD
      with io_lib.written_text(path) as file:
        file.write(
          f'{known}{started},{stage},{" ".join(bases)},{state},{seconds},'
          f'{machine}\n'
        )


def read(path: pathlib.Path) -> list[dict[str, str]]:
  """Returns what was noted; nothing if there is no such file."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


def running(rows: Sequence[Mapping[str, str]]) -> float:
  """Returns the seconds in which at least one stage was running."""
  total, until = 0.0, 0.0
  for row in sorted(rows, key=lambda row: row['started']):
    start = datetime.datetime.fromisoformat(row['started']).timestamp()
    end = start + float(row['seconds'])
    total += max(0.0, end - max(start, until))
    until = max(until, end)
  return total
