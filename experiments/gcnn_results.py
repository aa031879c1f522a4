"""Our rows of the paper's table of group CNNs, as a file and as a table."""

from collections.abc import Iterable
from collections.abc import Iterator
import csv
import dataclasses
import pathlib

from aen import files
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
  train: int  # images
  validation: int
  test: int
  seeds: int
  paper: float | None  # test accuracies, in percent; None: not printed
  ours: float
  standard_error: float | None  # of the seeds; None: of one seed
  seconds: float  # per child

  @property
  def network(self) -> tuple[str, ...]:
    """What was trained, and on what; the rest is what became of it."""
    return (
      *(self.dataset, self.initializer),
      *(self.symmetries, self.augmentations, self.size),
    )


_FIELDS = {field.name: field.type for field in dataclasses.fields(Row)}
_MEASURED = ('ours', 'standard_error', 'seconds')


def write(path: pathlib.Path, rows: Iterable[Row]) -> None:
  """Writes rows as CSV."""
  with files.written_text(path) as file:
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
    return [_row(stored) for stored in csv.DictReader(file)]


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


def _ours(row: Row) -> str:
  if row.standard_error is None:
    return f'{row.ours:.2f}'
  return f'{row.ours:.2f} ± {row.standard_error:.2f} ({row.seeds} seeds)'
