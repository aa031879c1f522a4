"""The paper's sample figures: originals beside their transformed copies."""

import dataclasses
import pathlib

import numpy as np

from aen import io as io_lib
from aen.data import catalogue
from aen.data import finding
from aen.data import transform
from aen.groups import symmetries as symmetries_lib


def draw_samples(
  name: str, places: finding.Places, figures_dir: io_lib.PathLike
) -> list[pathlib.Path]:
  """Draws both sample figures of a G-data set as PNG, and returns their paths.

  `g_mnist_singles.png` shows originals, and each symmetry applied once;
  `g_mnist_combinations.png` originals, and Aug1…Aug5 as in the data sets. Of
  the config in `name`, only the ending `_group` matters: it selects exact
  transformations, and is appended to the names of the files.
  """
  from matplotlib import figure  # optional, slow to import

  source, config = catalogue.find(name)
  if config is None:
    raise ValueError(
      'sample figures need a data set with transformations, got'
      f" {name!r}; ask for 'g_{name}/aug3'"
    )
  ending = '' if config.as_published else '_group'
  test = finding.find(source, None, places).test
  shown = source.sample_classes or source.class_names[:4]
  labels = [source.class_names.index(label) for label in shown]
  rows = np.array([np.flatnonzero(test.labels == n)[0] for n in labels])
  images = test.images[rows]  # [4, H, H]

  def transformed(config_name: str, once: bool = False) -> np.ndarray:
    config = transform.config(config_name + ending)
    record = transform.draw(config, images.shape[1], rows, split='test')
    if once:
      powers = np.tile(np.array(config.bits, np.uint8), (len(rows), 1))
      record = dataclasses.replace(record, powers=powers)
    return transform.transform(images, record)

  singles = {'Original': images} | {
    f'{symmetry.replace("_", " ")}s': transformed(f'iaug{bit}', once=True)
    for bit, symmetry in enumerate(symmetries_lib.PAPER_SYMMETRIES, start=1)
  }
  combinations = {'Original': images} | {
    f'Aug{k}': transformed(f'aug{k}') for k in range(1, 6)
  }
  base = f'g_{source.name.replace("/", "_")}{ending}'
  flavour = 'as published' if config.as_published else 'exact permutations'
  paths = []
  for kind, columns, caption in (
    ('singles', singles, 'each symmetry, applied once'),
    ('combinations', combinations, 'combinations, as drawn'),
  ):
    size = (1.05 * len(columns) + 0.8, 1.05 * len(rows) + 0.9)
    sheet = figure.Figure(figsize=size, dpi=150, layout='constrained')
    sheet.suptitle(f'{base} ({flavour}): {caption}', fontsize=11)
    grid = sheet.subplots(len(rows), len(columns), squeeze=False)
    for axes, label in zip(grid[:, 0], shown, strict=True):
      axes.set_ylabel(label, fontsize=9, rotation=0, ha='right')
    for column, (heading, copies) in zip(grid.T, columns.items(), strict=True):
      column[0].set_title(heading.capitalize().replace(' ', '\n'), fontsize=8)
      for axes, image in zip(column, copies, strict=True):
        axes.imshow(image, cmap='gray', vmin=0, vmax=255)
        axes.set(xticks=[], yticks=[])
    paths.append(pathlib.Path(figures_dir) / f'{base}_{kind}.png')
    with io_lib.written_whole(paths[-1]) as f:
      sheet.savefig(f, format='png')
  return paths
