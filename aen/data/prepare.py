"""Preparing data sets on disk: for TFDS, and as one .npz file each."""

import contextlib
import os
import pathlib
import re
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import finding
from aen.data import tfds_files

_CHUNK = 2000  # images transformed per tick of the progress bar


def prepare_tfds(
  name: str, places: finding.Places, *, max_examples: int | None = None
) -> pathlib.Path:
  """Prepares a data set so that plain `tfds.data_source(name)` reads it.

  Args:
    name: A set that TFDS knows, or that has a builder here.
    places: Where to find the official files, and where TFDS keeps data.
    max_examples: Upper limit of images per split, for trying things out; use a
      `data_dir` of its own, because TFDS does not tell such a set from a whole.

  Returns:
    The directory that was written. It appears only when it is complete.
  """
  if places.partial:
    raise ValueError(
      'a part of a set is never prepared for TFDS, where it would pass for the'
      ' whole; write it as .npz, or leave partial out'
    )
  builder = _builder(name, places)
  config = tfds_files.tfds().download.DownloadConfig(
    try_download_gcs=False, max_examples_per_split=max_examples
  )
  with (
    io_lib.clear_when_disk_is_full(builder.data_dir),
    contextlib.suppress(FileExistsError),  # another process was faster
  ):
    builder.download_and_prepare(
      file_format='array_record', download_config=config
    )
  return pathlib.Path(builder.data_dir)


def _builder(name: str, places: finding.Places) -> Any:
  """Returns the TFDS builder of a set, holding the arrays it will write."""
  source, config = catalogue.find(name)
  tfds = tfds_files.tfds()
  from aen.data import builders  # imports TFDS

  data_dir = os.fspath(tfds_files.resolve_dir(places.data_dir))
  full_name = name if config else source.tfds_name
  own = builders.BUILDERS.get(full_name.partition('/')[0])
  if own is not None:
    builder = tfds.builder(full_name, data_dir=data_dir)
    builder.parts = finding.find(own.source, None, places).parts
    return builder
  if config or not source.tfds_name:
    stock = {source.tfds_name for source in catalogue.SOURCES.values()}
    known = sorted({*builders.BUILDERS, *stock} - {''})
    raise ValueError(
      f'{name!r} has no TFDS builder; those with one: {", ".join(known)};'
      ' others can be written as .npz'
    )
  parts = finding.find_published(source, places)
  return builders.stock_builder(source, parts, data_dir)


def write_npz(
  name: str,
  places: finding.Places,
  npz_dir: io_lib.PathLike,
  *,
  max_examples: int | None = None,
) -> pathlib.Path:
  """Writes a whole data set as one .npz file, for people without TFDS.

  It holds x_train, y_train, x_test, y_test, class_names, the data card, and
  for a G-data set powers_train, angles_train, powers_test and angles_test.

  Args:
    name: A set by name.
    places: Where to find it.
    npz_dir: Where to put the file.
    max_examples: Upper limit of images per split, for trying things out.

  Returns:
    The file, `<npz_dir>/g_mnist-aug3.npz` for `'g_mnist/aug3'`. It appears only
    when it is complete.
  """
  source, config = catalogue.find(name)
  found = finding.find(source, config, places)
  arrays: dict[str, Any] = {
    'class_names': np.array(source.class_names),
    'card': np.array(str(catalogue.card(source, config))),
  }
  for part_name, part in found.parts._asdict().items():
    split = part.take(slice(max_examples))
    arrays[f'x_{part_name}'] = split.images
    arrays[f'y_{part_name}'] = split.labels
    if config is not None:
      import tqdm  # an optional dependency

      title = f'{name}, {part_name}'
      chunks = [
        dataset_lib.transformed(
          split.take(slice(start, start + _CHUNK)), config, part_name
        )
        for start in tqdm.trange(0, len(split), _CHUNK, desc=title)
      ]
      records = [c.record for c in chunks if c.record is not None]
      arrays |= {
        f'x_{part_name}': np.concatenate([chunk.images for chunk in chunks]),
        f'powers_{part_name}': np.concatenate([r.powers for r in records]),
        f'angles_{part_name}': np.concatenate([r.angles for r in records]),
      }
  file_name = re.sub(r'[^a-z0-9_]', '-', name)
  if found.partial or max_examples is not None:
    file_name += f'-partial-{len(arrays["x_train"])}-{len(arrays["x_test"])}'
  path = pathlib.Path(npz_dir) / f'{file_name}.npz'
  with io_lib.written_whole(path) as f:
    np.savez_compressed(f, **arrays)
  return path
