"""Our rows of the paper's table of group CNNs: a file, tables, contrasts."""

from collections.abc import Iterable
from collections.abc import Iterator
import csv
import dataclasses
import pathlib
from typing import Any

import numpy as np

from aen import io as io_lib
from experiments import markdown


@dataclasses.dataclass(frozen=True)
class Row:
  """A network of the table, trained."""

  dataset: str  # as it was loaded
  initializer: str
  symmetries: str  # names, separated by spaces
  augmentations: str
  size: str
  weights: int
  epochs: int
  train: int  # images
  validation: int
  test: int
  seeds: int
  paper: float | None  # test accuracies, in percent; None: not printed
  ours: float
  standard_error: float | None  # of the seeds; None: of one seed
  seconds: float  # per child

  @property
  def task(self) -> tuple[str, str, int, int, int]:
    """What all networks of a table have in common."""
    images = self.train, self.test
    return self.dataset, self.initializer, self.epochs, *images

  @property
  def network(self) -> tuple[str, str, str]:
    """What tells them apart."""
    return self.symmetries, self.augmentations, self.size


TURNS = 'rotation horizontal_flip vertical_flip'
MOVES = 'random_rotation random_horizontal_flip random_vertical_flip'
# What tells symmetry, its lack and its replacement apart.
_CONTRASTS = {
  'plain, small': ('', '', 'small'),
  'plain, small, images turned and mirrored': ('', MOVES, 'small'),
  'turns and flips respected, small': (TURNS, '', 'small'),
  'plain, large': ('', '', 'large'),
  'turns and flips respected, large': (TURNS, '', 'large'),
}
_FIELDS = {field.name: field.type for field in dataclasses.fields(Row)}
_MEASURED = ('ours', 'standard_error', 'seconds')


def write(path: pathlib.Path, rows: Iterable[Row]) -> None:
  """Writes rows as CSV."""
  with io_lib.written_text(path) as file:
    writer = csv.DictWriter(file, _FIELDS, lineterminator='\n')
    writer.writeheader()
    for row in rows:
      shown = {
        name: f'{value:.2f}'
        if name in _MEASURED and value is not None
        else value
        for name, value in dataclasses.asdict(row).items()
      }
      writer.writerow(shown)


def read(path: pathlib.Path) -> list[Row]:
  """Reads what `write` wrote; nothing if there is no such file."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    stored = csv.DictReader(file)
    if missing := _FIELDS.keys() - set(stored.fieldnames or ()):
      raise ValueError(
        f'{path} lacks the column {min(missing)!r}: another version wrote it;'
        ' delete it, the store beside it knows all that was trained'
      )
    return [_row(line) for line in stored]


def _row(stored: dict[str, str]) -> Row:
  values = {}
  for name, kind in _FIELDS.items():
    if kind == float | None:
      values[name] = float(stored[name]) if stored[name] else None
    else:
      values[name] = kind(stored[name])
  return Row(**values)


def table(rows: Iterable[Row]) -> Iterator[str]:
  """Yields the table in Markdown."""
  return markdown.table(
    [
      *('data', 'training + validation / test images', 'symmetries'),
      *('augmentations', 'size', 'weights', 'paper', 'ours'),
    ],
    [
      [
        row.dataset,
        f'{row.train} + {row.validation} / {row.test}',
        markdown.words(row.symmetries),
        markdown.words(row.augmentations),
        row.size,
        str(row.weights),
        '' if row.paper is None else f'{row.paper:.2f}',
        _ours(row),
      ]
      for row in rows
    ],
  )


def contrasts(rows: Iterable[Row]) -> Iterator[str]:
  """Yields what symmetry, size and turned images do, by data set."""
  found: dict[tuple[Any, ...], dict[tuple[str, ...], Row]] = {}
  for row in rows:
    found.setdefault(row.task, {})[row.network] = row
  lines = []
  for (dataset, initializer, *_, count), networks in found.items():
    chosen = [networks.get(kind) for kind in _CONTRASTS.values()]
    accuracies = [row.ours for row in chosen if row is not None]
    share = float(np.mean(accuracies)) / 100 if accuracies else 0.0
    error = 100 * np.sqrt(2 * share * (1 - share) / count)
    cells = ['' if row is None else _ours(row) for row in chosen]
    lines.append([dataset, initializer, *cells, f'{error:.1f}'])
  return markdown.table(
    ['data', 'initializer', *_CONTRASTS, 's.e. of a difference'], lines
  )


def _ours(row: Row) -> str:
  if row.standard_error is None:
    return f'{row.ours:.2f}'
  return f'{row.ours:.2f} ± {row.standard_error:.2f} ({row.seeds} seeds)'
