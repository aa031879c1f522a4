"""The paper's sample figures: originals beside their transformed copies."""

from collections.abc import Mapping
from collections.abc import Sequence
import pathlib

import numpy as np

from aen import io as io_lib
from aen.data import finding
from aen.data import sources
from aen.data import transform
from aen.data.arrays import Part
from aen.groups import symmetries as symmetries_lib

# The classes that the paper shows; of other sets, the first four.
_SHOWN = {
  'mnist': ('5', '7', '2', '1'),
  'digits': ('5', '7', '2', '1'),
  'fashion_mnist': ('Sneaker', 'Sandal', 'Pullover', 'Ankle boot'),
}
_NUM_SHOWN = 4


def draw_samples(
  name: str, places: finding.Places, figures_dir: io_lib.PathLike
) -> list[pathlib.Path]:
  """Draws both sample figures of a G-data set as PNG.

  The first shows originals and each single transformation, made once so that
  it can be seen; the second originals and Aug1…Aug5 as the data set draws them.

  Args:
    name: Such as `'g_mnist/aug3'`; of its config only the flavour, published
      or `_group`, matters.
    places: Where to find the images.
    figures_dir: Where to put `g_mnist_singles.png` and
      `g_mnist_combinations.png` (`_group` after the name in that flavour).

  Returns:
    The two files.
  """
  source, config = sources.find(name)
  if config is None:
    raise ValueError(
      f'sample figures show transformations, which {name!r} has none of; ask'
      f" for 'g_{name}/aug3'"
    )
  ending = '' if config.as_published else '_group'
  test = finding.find(source, None, places).parts.test
  rows = _first_of_classes(test, source)
  labels = [source.class_names[label] for label in test.labels[rows]]
  base = f'g_{source.name.replace("/", "_")}{ending}'
  flavour = 'as published' if config.as_published else 'exact rearrangements'
  title = f'{base} ({flavour})'
  singles = pathlib.Path(figures_dir) / f'{base}_singles.png'
  _draw(
    _singles(test.images[rows], rows, ending),
    labels,
    singles,
    title=f'{title}: each transformation, made once',
  )
  combinations = pathlib.Path(figures_dir) / f'{base}_combinations.png'
  _draw(
    _combinations(test.images[rows], rows, ending),
    labels,
    combinations,
    title=f'{title}: combinations, as drawn',
  )
  return [singles, combinations]


def _first_of_classes(test: Part, source: sources.Source) -> np.ndarray:
  shown = _SHOWN.get(source.name, source.class_names[:_NUM_SHOWN])
  labels = [source.class_names.index(name) for name in shown]
  return np.array([np.flatnonzero(test.labels == n)[0] for n in labels])


def _singles(
  images: np.ndarray, rows: np.ndarray, ending: str
) -> dict[str, np.ndarray]:
  """Returns the columns of the first figure: heading to images [4, H, H]."""
  columns = {'Original': images}
  for bit, symmetry in enumerate(symmetries_lib.SYMMETRIES, start=1):
    config = transform.config(f'iaug{bit}{ending}')
    drawn = transform.draw(config, images.shape[1], rows, split='test')
    once = np.tile(np.array(config.bits, np.uint8), (len(rows), 1))
    record = transform.Record(config, once, drawn.angles)
    heading = symmetry.replace('_', ' ') + 's'
    columns[heading] = transform.transform(images, record)
  return columns


def _combinations(
  images: np.ndarray, rows: np.ndarray, ending: str
) -> dict[str, np.ndarray]:
  """Returns the columns of the second figure: heading to images [4, H, H]."""
  columns = {'Original': images}
  for k in range(1, 6):
    config = transform.config(f'aug{k}{ending}')
    record = transform.draw(config, images.shape[1], rows, split='test')
    columns[f'Aug{k}'] = transform.transform(images, record)
  return columns


def _draw(
  columns: Mapping[str, np.ndarray],
  labels: Sequence[str],
  path: pathlib.Path,
  *,
  title: str,
) -> None:
  """Draws one column per heading, one row per label."""
  from matplotlib import figure  # optional, slow to import

  size = (1.05 * len(columns) + 0.8, 1.05 * len(labels) + 0.9)
  sheet = figure.Figure(figsize=size, dpi=150, layout='constrained')
  sheet.suptitle(title, fontsize=11)
  grid = sheet.subplots(len(labels), len(columns), squeeze=False)
  for axes_of_row, label, images in zip(
    grid, labels, zip(*columns.values(), strict=True), strict=True
  ):
    axes_of_row[0].set_ylabel(label, fontsize=9, rotation=0, ha='right')
    for axes, image in zip(axes_of_row, images, strict=True):
      axes.imshow(image, cmap='gray', vmin=0, vmax=255)
      axes.set(xticks=[], yticks=[])
  for axes, heading in zip(grid[0], columns, strict=True):
    axes.set_title(heading.capitalize().replace(' ', '\n'), fontsize=8)
  with io_lib.written_whole(path) as f:
    sheet.savefig(f, format='png')
