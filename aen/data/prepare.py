"""Preparing data sets on disk: for TFDS, and as one .npz file each."""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import os
import pathlib
import re
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import cards
from aen.data import finding
from aen.data import sources
from aen.data import tfds_files
from aen.data import transform
from aen.data.arrays import Part

_CHUNK = 2000  # images transformed per tick of the progress bar


def prepare_tfds(
  name: str, places: finding.Places, *, max_examples: int | None = None
) -> pathlib.Path:
  """Prepares a data set so that plain `tfds.data_source(name)` reads it.

  Args:
    name: A set that TFDS knows, or that has a builder here.
    places: Where to find the official files, and where TFDS keeps data.
    max_examples: At most so many images per split, for trying things out; use a
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
  source, config = sources.find(name)
  tfds = tfds_files.tfds()
  from aen.data import builders  # imports TFDS
  from aen.data import stock  # imports TFDS

  data_dir = os.fspath(tfds_files.resolve_dir(places.data_dir))
  full_name = name if config else source.tfds_name
  own = builders.BUILDERS.get(full_name.partition('/')[0])
  if own is not None:
    builder = tfds.builder(full_name, data_dir=data_dir)
    builder.parts = finding.find(own.source, None, places).parts
    return builder
  if config or not source.tfds_name:
    raise ValueError(
      f'{name!r} has no TFDS builder; those with one:'
      f' {", ".join(_with_builder(builders.BUILDERS))}; others can be written'
      ' as .npz'
    )
  parts = finding.find_published(source, places)
  return stock.builder(source, parts, data_dir)


def _with_builder(own: Iterable[str]) -> list[str]:
  stock = {source.tfds_name for source in sources.SOURCES.values()}
  return sorted({*own, *stock} - {''})


def npz_path(name: str, npz_dir: io_lib.PathLike) -> pathlib.Path:
  """Returns where `write_npz` puts a data set."""
  return pathlib.Path(npz_dir) / f'{re.sub(r"[^a-z0-9_]", "-", name)}.npz'


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
    max_examples: At most so many images per split, for trying things out.

  Returns:
    The file, `<npz_dir>/g_mnist-aug3.npz` for `'g_mnist/aug3'`. It appears only
    when it is complete.
  """
  source, config = sources.find(name)
  found = finding.find(source, config, places)
  arrays: dict[str, Any] = {
    'class_names': np.array(source.class_names),
    'card': np.array(str(cards.card(source.name, config))),
  }
  for split in ('train', 'test'):
    side = getattr(found.parts, split)[:max_examples]
    arrays |= _arrays(side, split, config, name)
  is_part = found.partial or max_examples is not None
  counts = f'-partial-{len(arrays["x_train"])}-{len(arrays["x_test"])}'
  path = npz_path(name + counts * is_part, npz_dir)
  with io_lib.written_whole(path) as f:
    np.savez_compressed(f, **arrays)
  return path


def _arrays(
  side: Part, split: str, config: transform.Config | None, name: str
) -> dict[str, np.ndarray]:
  """Returns the arrays of one split, by their names in the file."""
  arrays = {f'x_{split}': side.images, f'y_{split}': side.labels}
  if config is None:
    return arrays
  record = side.record
  if record is None:
    record = transform.draw(
      config, side.images.shape[1], np.arange(len(side)), split=split
    )
    images = [
      transform.transform(side.images[rows], record[rows])
      for rows in _chunks(len(side), f'{name}, {split}')
    ]
    arrays[f'x_{split}'] = np.concatenate(images)
  return arrays | {
    f'powers_{split}': record.powers,
    f'angles_{split}': record.angles,
  }


def _chunks(count: int, label: str) -> Iterator[slice]:
  """Yields slices that cover 0…count, under a progress bar."""
  import tqdm  # an optional dependency

  with tqdm.tqdm(total=count, desc=label, unit=' images') as bar:
    for start in range(0, count, _CHUNK):
      stop = min(start + _CHUNK, count)
      yield slice(start, stop)
      bar.update(stop - start)
