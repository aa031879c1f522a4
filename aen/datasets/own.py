"""Your own data: a folder of class-named folders, an .npz file, or arrays."""

from collections.abc import Sequence
import os
import pathlib

import numpy as np

from aen.datasets import draws
from aen.datasets import files
from aen.datasets import sources
from aen.datasets.arrays import Part
from aen.datasets.arrays import part
from aen.datasets.arrays import Parts

TEST_SHARE = 6  # without test images, one image in six is held out

_ENDINGS = ('.png', '.jpg', '.jpeg', '.bmp', '.gif', '.tif', '.tiff', '.webp')


def is_path(name: str | os.PathLike[str]) -> bool:
  """Whether a name means a file or folder; catalogue names come first."""
  if not isinstance(name, str):
    return True
  if sources.is_name(name):
    return False
  return name.endswith('.npz') or pathlib.Path(name).exists()


def read(path: pathlib.Path) -> tuple[Parts, str, tuple[str, ...]]:
  """Returns the parts, name and class names of a folder or .npz file."""
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
  x_train, y_train = files.read_npz(path, 'x_train', 'y_train')
  with np.load(path, allow_pickle=False) as f:
    x_test, y_test, names = (
      f.get(key) for key in ('x_test', 'y_test', 'class_names')
    )
  parts = as_parts(x_train, y_train, x_test, y_test, where=str(path))
  return parts, as_class_names(names, parts, where=str(path))


def as_parts(
  images: np.ndarray,
  labels: np.ndarray,
  test_images: np.ndarray | None,
  test_labels: np.ndarray | None,
  *,
  where: str,
) -> Parts:
  """Returns train and test parts, holding some images out if need be."""
  everything = part(images, labels, where=where)
  if (test_images is None) != (test_labels is None):
    raise ValueError(
      f'{where}: expected test images and test labels, or neither, got only'
      ' one of the two'
    )
  if test_images is None:
    return _hold_out(everything)
  test = part(test_images, test_labels, where=f'{where}, test')
  if test.images.shape[1:] != everything.images.shape[1:]:
    raise ValueError(
      f'{where}: expected test images of shape {everything.images.shape[1:]}'
      f' like the training images, got {test.images.shape[1:]}'
    )
  return Parts(everything, test)


def _hold_out(everything: Part) -> Parts:
  order = draws.order(0, draws.CHOOSE_TEST, everything.labels, stratified=True)
  cut = len(order) - len(order) // TEST_SHARE
  train, test = np.sort(order[:cut]), np.sort(order[cut:])
  return Parts(everything[train], everything[test])


def as_class_names(
  names: Sequence[str] | None, parts: Parts, *, where: str
) -> tuple[str, ...]:
  """Returns one name per label, the numbers themselves by default."""
  highest = max(
    int(side.labels.max(initial=-1)) for side in (parts.train, parts.test)
  )
  if names is None:
    return tuple(str(label) for label in range(highest + 1))
  if len(names) <= highest:
    raise ValueError(
      f'{where}: expected a name for each of the labels 0…{highest}, got'
      f' {len(names)} names'
    )
  return tuple(str(name) for name in names)


def read_folder(
  folder: pathlib.Path,
) -> tuple[Parts, tuple[str, ...]]:
  """Reads `<folder>/<class>/<image>` or `<folder>/<train|test>/<class>/…`."""
  divided = (folder / 'train').is_dir() and (folder / 'test').is_dir()
  train_dir = folder / 'train' if divided else folder
  names = tuple(sorted(p.name for p in train_dir.iterdir() if p.is_dir()))
  if not names:
    raise ValueError(
      f'{train_dir}: expected one folder per class with its images inside, got'
      ' no folders'
    )
  train = _read_classes(train_dir, names)
  if not divided:
    return _hold_out(train), names
  test = _read_classes(folder / 'test', names)
  parts = as_parts(
    train.images, train.labels, test.images, test.labels, where=str(folder)
  )
  return parts, names


def _read_classes(folder: pathlib.Path, names: tuple[str, ...]) -> Part:
  """Reads the images of every class, in the order of names and file names."""
  unknown = {p.name for p in folder.iterdir() if p.is_dir()} - set(names)
  if unknown:
    raise ValueError(
      f'{folder}: expected only the classes {", ".join(names)}, got'
      f' {", ".join(sorted(unknown))} too'
    )
  paths, labels = [], []
  for label, name in enumerate(names):
    found = sorted(
      p for p in (folder / name).glob('*') if p.suffix.lower() in _ENDINGS
    )
    paths += found
    labels += [label] * len(found)
  if not paths:
    raise ValueError(
      f'{folder}: expected images ({", ".join(_ENDINGS)}) in its class'
      ' folders, got none'
    )
  images = _same_form([_read_image(path) for path in paths], paths)
  return part(images, np.array(labels), where=str(folder))


def _read_image(path: pathlib.Path) -> np.ndarray:
  """Returns an image as uint8 [H, W], or [H, W, 3] if it is coloured."""
  try:
    from PIL import Image  # an optional dependency
  except ImportError as error:
    raise ImportError(
      'reading folders of images needs Pillow; pip install pillow'
    ) from error
  try:
    with Image.open(path) as image:
      return np.asarray(image.convert('L' if image.mode in '1L' else 'RGB'))
  except (OSError, SyntaxError) as error:  # Pillow raises both for bad files
    raise ValueError(
      f'{path}: expected an image that Pillow can read, got {error}'
    ) from error


def _same_form(
  images: list[np.ndarray], paths: list[pathlib.Path]
) -> np.ndarray:
  """Stacks images; one coloured image makes all of them coloured."""
  if any(image.ndim == 3 for image in images):
    images = [
      image if image.ndim == 3 else np.stack([image] * 3, -1)
      for image in images
    ]
  for image, path in zip(images, paths, strict=True):
    if image.shape != images[0].shape:
      raise ValueError(
        f'{path}: expected images of one size, {images[0].shape[:2]} like'
        f' {paths[0].name}, got {image.shape[:2]}; resize them first'
      )
  return np.stack(images)
