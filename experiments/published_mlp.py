"""The paper's tables of MLPs.

`published_mlp.csv` has every accuracy of the tables of single and multiple
symmetries and of the searches. The paper numbers the networks Eq6…Eq12 and the
transformations IAug6…IAug12 in different orders; the file has both the column
as printed and its actual symmetry.

Legend: 13 rows, data sets; 13 columns, networks.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import itertools
import pathlib
from typing import NamedTuple

import numpy as np

from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.train import recipe as recipe_lib
from experiments import rows as rows_lib

BASES = {'g_mnist': 'G-MNIST', 'g_fashion_mnist': 'G-Fashion-MNIST'}
SINGLE = tuple(f'iaug{bit}' for bit in range(13))
MULTIPLE = tuple(f'aug{number}' for number in range(6))
TABLES = {'single': SINGLE, 'multiple': MULTIPLE}
NETWORKS = ((), *((name,) for name in PAPER_SYMMETRIES))
AEN = 'AEN'  # the column of the networks found by search
BASELINE = 'plain'  # the role, in files, of the network without symmetry
# Column Eq(k) is the network equivariant to symmetry NETWORK_OF_COLUMN[k - 1].
NETWORK_OF_COLUMN = (1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 6, 7)
# As in the published code, except that hidden layers have our kind of bias.
RECIPE = recipe_lib.Recipe(
  epochs=10, initializer='published', fresh_order=False, criterion='accuracy'
)
# Variants of that recipe: the optimizer of the paper's text; then one change
# after another, up to the recipe that we would choose.
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
  symmetries: str  # names, separated by spaces: its actual symmetries
  test_accuracy: float  # in percent


def printed() -> Iterator[Printed]:
  """Yields all cells."""
  for row in rows_lib.read(FILE):
    yield Printed(**{**row, 'test_accuracy': float(row['test_accuracy'])})


def found() -> dict[str, Printed]:
  """Returns the cells of the paper's searches, by data set."""
  return {
    f'{cell.base}/{cell.config}': cell
    for cell in printed()
    if cell.column == AEN
  }


def table(base: str, configs: Sequence[str]) -> np.ndarray:
  """Returns accuracies in percent, columns by actual symmetry. [rows, 13]."""
  cells = {
    (cell.config, tuple(cell.symmetries.split())): cell.test_accuracy
    for cell in printed()
    if cell.base == base and cell.column != AEN
  }
  return np.array([[cells[c, names] for names in NETWORKS] for c in configs])


def literally(columns: np.ndarray) -> np.ndarray:
  """Reorders columns [..., 13] as the paper prints them."""
  return columns[..., [0, *NETWORK_OF_COLUMN]]


def double_centred(values: np.ndarray) -> np.ndarray:
  """Subtracts the means of rows and of columns, and adds the overall mean."""
  rows, columns = (values.mean(axis=axis, keepdims=True) for axis in (1, 0))
  return values - rows - columns + values.mean()


def diagonal_p(values: np.ndarray, first: int = 6) -> float:
  """Tests if networks do best on images transformed by their own symmetry.

  Returns the p-value of an exact permutation test on `values` [13, 13]: the
  share of permutations of the columns from `first` on whose diagonal, after
  double centring, has at least as large a sum.
  """
  square = double_centred(values)[first:, first:]
  rows = np.arange(len(square))
  sums = [
    square[rows, list(order)].sum() for order in itertools.permutations(rows)
  ]
  return float(np.mean(np.array(sums) >= square.trace() - 1e-9))
