"""Your own data: a folder of class-named folders, an .npz file, or arrays."""

from collections.abc import Sequence
import os
import pathlib

import numpy as np

from aen.data import draws
from aen.data import files
from aen.data import folders
from aen.data import sources
from aen.data.arrays import NUMBERING
from aen.data.arrays import Part
from aen.data.arrays import part
from aen.data.arrays import Parts

TEST_SHARE = 6  # without test images, one image in six is held out

_PATH_STARTS = ('/', './', '../', '~')


def is_path(name: str | os.PathLike[str]) -> bool:
  """Whether a name means a file or folder; catalogue names come first."""
  if not isinstance(name, str | os.PathLike) or name == '':
    raise ValueError(
      'expected the name of a data set or the path of an .npz file or image'
      f" folder, got {name!r}; try load_dataset('digits')"
    )
  if not isinstance(name, str):
    return True
  if sources.is_name(name):
    return False
  path = pathlib.Path(name)
  return name.startswith(_PATH_STARTS) or bool(path.suffix) or path.exists()


def read(path: pathlib.Path) -> tuple[Parts, str, tuple[str, ...]]:
  """Returns the parts, name and class names of a folder or .npz file."""
  path = path.expanduser()
  if not path.exists():
    raise FileNotFoundError(
      f'{path}: expected an .npz file or a folder of class-named folders of'
      ' images, got nothing there; check the path'
    )
  if path.is_dir():
    parts, class_names = read_folder(path)
  else:
    parts, class_names = read_npz(path)
  return parts, path.stem, class_names


def read_npz(path: pathlib.Path) -> tuple[Parts, tuple[str, ...]]:
  """Reads x_train and y_train, and if present x_test, y_test, class_names."""
  x_train, y_train, x_test, y_test, names = files.read_npz(
    path, 'x_train', 'y_train', optional=('x_test', 'y_test', 'class_names')
  )
  parts = as_parts(x_train, y_train, x_test, y_test, where=str(path))
  return parts, as_class_names(names, parts, where=str(path))


def read_folder(folder: pathlib.Path) -> tuple[Parts, tuple[str, ...]]:
  """Reads a folder of images; see `folders.read`."""
  train, test, names = folders.read(folder)
  return _divide(train, test, where=str(folder)), names


def as_parts(
  images: np.ndarray,
  labels: np.ndarray,
  test_images: np.ndarray | None,
  test_labels: np.ndarray | None,
  *,
  where: str,
) -> Parts:
  """Returns train and test parts, holding some images out if need be."""
  train = part(images, labels, where=where)
  if (test_images is None) != (test_labels is None):
    raise ValueError(
      f'{where}: expected test images and test labels, or neither, got only'
      ' one of the two; give both'
    )
  if test_images is None or test_labels is None:
    return _divide(train, None, where=where)
  test = part(test_images, test_labels, where=f'{where}, test')
  return _divide(train, test, where=where)


def _divide(train: Part, test: Part | None, *, where: str) -> Parts:
  _check_pixels(train, where)
  if test is None:
    return _hold_out(train, where)
  _check_pixels(test, f'{where}, test')
  if test.images.shape[1:] != train.images.shape[1:]:
    raise ValueError(
      f'{where}: expected test images of shape {train.images.shape[1:]} like'
      f' the training images, got {test.images.shape[1:]}; resize them'
    )
  if test.images.dtype != train.images.dtype:
    raise ValueError(
      f"{where}: expected test images of the training images' type"
      f' {train.images.dtype}, got {test.images.dtype}; give both as uint8, or'
      ' both as float on one scale'
    )
  if len(train) + len(test) < 3:
    raise ValueError(
      f'{where}: expected at least 3 images, got {len(train) + len(test)}; add'
      ' images'
    )
  return Parts(train, test)


def _check_pixels(side: Part, where: str) -> None:
  if not side.images.size:
    raise ValueError(
      f'{where}: expected at least one image, got an array of shape'
      f' {side.images.shape}; add images'
    )
  if side.images.dtype != np.uint8 and not np.isfinite(side.images).all():
    raise ValueError(
      f'{where}: expected finite pixels, got NaN or infinity; replace them,'
      ' say by np.nan_to_num(images)'
    )


def _hold_out(everything: Part, where: str) -> Parts:
  if len(everything) < TEST_SHARE:
    raise ValueError(
      f'{where}: expected at least {TEST_SHARE} images, of which one in'
      f' {TEST_SHARE} is held out for testing, got {len(everything)}; add'
      ' images, or give test images too'
    )
  order = draws.order(0, draws.CHOOSE_TEST, everything.labels, stratified=True)
  cut = len(order) - len(order) // TEST_SHARE
  train, test = np.sort(order[:cut]), np.sort(order[cut:])
  return Parts(everything[train], everything[test])


def as_class_names(
  names: Sequence[str] | None, parts: Parts, *, where: str
) -> tuple[str, ...]:
  """Returns one name per label, the numbers themselves by default.

  Without names, every label up to the highest must occur, in train or test.
  """
  used = np.union1d(parts.train.labels, parts.test.labels)
  highest = int(used[-1])
  if names is None:
    if len(used) <= highest:
      raise ValueError(
        f'{where}: expected every label of 0…{highest} to occur, got only'
        f' {_some(used)}; {NUMBERING}, or give class_names for all'
        f' {highest + 1} classes'
      )
    return tuple(str(label) for label in used)
  if np.ndim(names) != 1:
    raise ValueError(
      f'{where}: expected class_names as a list of names, got {names!r}; put'
      " them in a list, such as ['cat', 'dog']"
    )
  names = tuple(str(name) for name in names)
  if len(names) <= highest:
    raise ValueError(
      f'{where}: expected a name for each of the labels 0…{highest}, got'
      f' {len(names)} names; give {highest + 1}'
    )
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ValueError(
      f'{where}: expected class_names that differ, got {", ".join(twice)} more'
      ' than once; rename or merge these classes'
    )
  return names


def _some(labels: np.ndarray) -> str:
  shown = ', '.join(str(label) for label in labels[:5])
  return shown + ', …' if len(labels) > 5 else shown
