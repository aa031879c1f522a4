"""The paper's tables of MLPs: what it prints, and how to measure the same.

`published_mlp.csv` has every accuracy of the tables of single and of multiple
symmetries and of the searches. The paper numbers the networks Eq6…Eq12 in
another order than the transformations IAug6…IAug12; the file has both the
column as printed and the symmetry that it really is.

Legend: 13 rows, data sets; 13 columns, networks.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import csv
import dataclasses
import functools
import itertools
import pathlib
from typing import Any
from typing import NamedTuple

import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import finding
from aen.search import mlp_space
from aen.search import tables
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

BASES = ('g_mnist', 'g_fashion_mnist')
SINGLE = tuple(f'iaug{bit}' for bit in range(13))
MULTIPLE = tuple(f'aug{number}' for number in range(6))
NETWORKS = ((), *((name,) for name in aen.SYMMETRIES))
AEN = 'AEN'  # the column of what the search found
# The column Eq(k) is the network equivariant to symmetry number …
NETWORK_OF_COLUMN = (1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 6, 7)
# As in the published code; a hidden layer's bias is where ours is.
RECIPE = recipe_lib.Recipe(
  epochs=10, initializer='published', fresh_order=False, criterion='accuracy'
)
# That recipe changed: as the paper's text has it; and one thing after another,
# up to the recipe that we would choose.
OURS = 'our recipe'
RECIPES = {
  'sgd': dataclasses.replace(RECIPE, optimizer='sgd'),
  'fan-in': dataclasses.replace(RECIPE, initializer='fan_in'),
  'fan-in, fresh order': recipe_lib.Recipe(epochs=10),
  OURS: recipe_lib.Recipe(epochs=10, schedule='cosine'),
}
# Parts of the test images, in the official order.
HALVES = ('first half of the test images', 'last half of the test images')
FILE = pathlib.Path(__file__).with_suffix('.csv')


class Printed(NamedTuple):
  """A cell of the paper's tables."""

  base: str
  config: str
  column: str  # as printed
  symmetries: str  # names, separated by spaces: what the network really has
  test_accuracy: float  # in percent


@dataclasses.dataclass(frozen=True)
class Line:
  """A child of ours, and why it was trained."""

  role: str
  child: tables.Judged


_FIELDS = {
  field.name: field.type for field in dataclasses.fields(tables.Judged)
}


def write(path: pathlib.Path, lines: Sequence[Line]) -> None:
  """Writes one line per child."""
  with io_lib.written_text(path) as file:
    writer = csv.DictWriter(file, ['role', *_FIELDS], lineterminator='\n')
    writer.writeheader()
    for line in lines:
      writer.writerow({'role': line.role} | dataclasses.asdict(line.child))


def add(path: pathlib.Path, lines: Sequence[Line]) -> None:
  """Writes lines beside those that are there, in place of older ones."""

  def known(line: Line) -> tuple[str, str, int]:
    return line.role, line.child.dataset, line.child.seed

  together = {known(line): line for line in [*read(path), *lines]}
  write(path, list(together.values()))


def read(path: pathlib.Path) -> list[Line]:
  """Reads what `write` wrote; nothing if there is no such file."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    return [
      Line(
        row['role'],
        tables.Judged(
          **{name: kind(row[name]) for name, kind in _FIELDS.items()}
        ),
      )
      for row in csv.DictReader(file)
    ]


def printed() -> Iterator[Printed]:
  """Yields all cells."""
  with open(FILE, newline='', encoding='utf-8') as file:
    for row in csv.DictReader(file):
      yield Printed(**{**row, 'test_accuracy': float(row['test_accuracy'])})


def found() -> dict[str, Printed]:
  """Returns the cells of what the paper's searches found, by data set."""
  return {
    f'{cell.base}/{cell.config}': cell
    for cell in printed()
    if cell.column == AEN
  }


def table(base: str, configs: Sequence[str]) -> np.ndarray:
  """Returns accuracies in percent, columns by what they are. [rows, 13]."""
  cells = {
    (cell.config, tuple(cell.symmetries.split())): cell.test_accuracy
    for cell in printed()
    if cell.base == base and cell.column != AEN
  }
  return np.array([[cells[c, names] for names in NETWORKS] for c in configs])


def literally(columns: np.ndarray) -> np.ndarray:
  """Puts columns [..., 13] back into the order in which they are printed."""
  return columns[..., [0, *NETWORK_OF_COLUMN]]


def measure(
  name: str,
  networks: Sequence[Sequence[str]],
  seeds: Sequence[int],
  recipe: recipe_lib.Recipe,
  store: store_lib.Results,
  places: finding.Places,
  on_trained: Callable[[Sequence[store_lib.Record]], None],
  half: int | None = None,
  **options: Any,
) -> list[tables.Judged]:
  """Trains networks on a data set at the paper's size, and judges them.

  Args:
    name: Such as 'g_mnist/aug5'.
    networks: Names of symmetries, one tuple per network.
    seeds: Each network is trained with every one.
    recipe: How.
    store: What is known is not trained again.
    places: Where files are.
    on_trained: Is called with the records of what is trained.
    half: The paper's protocol looks at this one of `HALVES`, instead of the
      paper's number of images.
    **options: Of `mlp_space.mlp_space`.
  """
  data, few = load(name, places)
  if half is not None:
    few = len(HALVES) * np.arange(len(few)) // len(few) == half
  space = _space(data.image_shape, data.num_classes, **options)
  return tables.train_table(
    data, few, space, networks, seeds, recipe, store, on_trained
  )


def load(
  name: str, places: finding.Places
) -> tuple[dataset_lib.Dataset, np.ndarray]:
  """Loads the paper's 10 000 training images, and all test images.

  Returns:
    The data set, with 1000 other images for validation; and which of the test
    images the paper looks at.
  """
  where = dataclasses.asdict(places)
  data = aen.load_dataset(name, num_train=10000, num_validation=1000, **where)
  part = aen.load_dataset(name, size='retrain', **where)
  return data, tables.few_of(data, part)


@functools.cache
def _space(
  image_shape: tuple[int, ...],
  num_classes: int,
  **options: Any,
) -> mlp_space.MLPSpace:
  options = {'head': 'dense', **options}
  return mlp_space.mlp_space(image_shape, num_classes, **options)


def double_centred(values: np.ndarray) -> np.ndarray:
  """Takes away what rows and what columns have in common."""
  rows, columns = (values.mean(axis=axis, keepdims=True) for axis in (1, 0))
  return values - rows - columns + values.mean()


def diagonal_p(values: np.ndarray, first: int = 6) -> float:
  """Does a network do best on the images that were moved by its symmetry?

  An exact permutation test: of all ways to name the columns from `first` on,
  the share of those whose diagonal, after double centring, is as large.

  Args:
    values: [13, 13]
    first: The first of the rows and columns in question.
  """
  square = double_centred(values)[first:, first:]
  rows = np.arange(len(square))
  sums = [
    square[rows, list(order)].sum() for order in itertools.permutations(rows)
  ]
  return float(np.mean(np.array(sums) >= square.trace() - 1e-9))
