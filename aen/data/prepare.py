"""Prepares data sets on disk: for TFDS, or as one .npz file."""

import contextlib
import pathlib
import re
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import finding


def prepare_tfds(
  name: str, places: finding.Places, *, max_examples: int | None = None
) -> pathlib.Path:
  """Prepares a data set so that `tfds.data_source(name)` reads it.

  Returns the directory, which appears only when complete. With `max_examples`
  per split, use a separate `data_dir`: TFDS takes such a set for a whole one.
  """
  if places.partial:
    raise ValueError(
      'a part of a set is never prepared for TFDS, where it would pass for the'
      ' whole; write it as .npz, or leave partial out'
    )
  source, config = catalogue.find(name)
  tfds = finding.tfds()
  from aen.data import builders  # imports TFDS

  full_name = name if config else source.tfds_name
  own = builders.BUILDERS.get(full_name.partition('/')[0])
  if own is not None:
    source = own.source  # never with train and test swapped
    builder = tfds.builder(full_name, data_dir=places.tfds)
  elif source.tfds_name and not config:
    builder = builders.stock_builder(source, places.tfds)
  else:
    stock = {source.tfds_name for source in catalogue.SOURCES.values()}
    known = sorted({*builders.BUILDERS, *stock} - {''})
    raise ValueError(
      f'{name!r} has no TFDS builder; those with one: {", ".join(known)};'
      ' others can be written as .npz'
    )
  builder.parts = finding.find(source, None, places)
  with (
    io_lib.clear_when_disk_is_full(builder.data_dir),
    contextlib.suppress(FileExistsError),  # by another process
  ):
    builder.download_and_prepare(
      file_format='array_record',
      download_config=tfds.download.DownloadConfig(
        try_download_gcs=False, max_examples_per_split=max_examples
      ),
    )
  return pathlib.Path(builder.data_dir)


def write_npz(
  name: str,
  places: finding.Places,
  npz_dir: io_lib.PathLike,
  *,
  max_examples: int | None = None,
) -> pathlib.Path:
  """Writes a data set as one .npz file, which can be read without TFDS.

  It holds x_train, y_train, x_test, y_test, class_names, the data card, and
  for a G-data set powers_train, angles_train, powers_test and angles_test.
  Returns its path, `<npz_dir>/g_mnist-aug3.npz` for `'g_mnist/aug3'`; with
  `max_examples` per split, or of a partial set, `…-partial-….npz`.
  """
  import tqdm  # an optional dependency

  source, config = catalogue.find(name)
  parts = finding.find(source, config, places)
  arrays: dict[str, Any] = {
    'class_names': np.array(source.class_names),
    'card': np.array(str(catalogue.card(source, config))),
  }
  for part in tqdm.tqdm(('train', 'test'), desc=name):
    split = getattr(parts, part).take(slice(max_examples))
    split = dataset_lib.transformed(split, config, part)
    arrays |= {f'x_{part}': split.images, f'y_{part}': split.labels}
    if split.record is not None:
      arrays[f'powers_{part}'] = split.record.powers
      arrays[f'angles_{part}'] = split.record.angles
  file_name = re.sub(r'[^a-z0-9_]', '-', name)
  if parts.partial or max_examples is not None:
    file_name += f'-partial-{len(arrays["x_train"])}-{len(arrays["x_test"])}'
  path = pathlib.Path(npz_dir) / f'{file_name}.npz'
  with io_lib.written_whole(path) as f:
    np.savez_compressed(f, **arrays)
  return path
