"""Your own data: a folder of class-named folders, an .npz file, or arrays."""

from collections.abc import Sequence
import os
import pathlib
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import readers
from aen.data import splits

_PATH_STARTS = ('/', './', '../', '~')
_ENDINGS = ('.png', '.jpg', '.jpeg', '.bmp', '.gif', '.tif', '.tiff', '.webp')
_SPLITS = ('train', 'test', 'val', 'valid', 'validation')
_GREY_16 = ('I;16', 'I;16L', 'I;16B', 'I;16N')  # modes of Pillow
_LEVELS_16 = 257  # 65535 // 255: how many 16-bit levels make one of 8 bits


def is_path(name: str | os.PathLike[str]) -> bool:
  """Whether a name means a file or folder; catalogue names come first."""
  if not isinstance(name, str | os.PathLike) or name == '':
    raise ValueError(
      'expected the name of a data set or the path of an .npz file or image'
      f" folder, got {name!r}; try load_dataset('digits')"
    )
  if not isinstance(name, str):
    return True
  if catalogue.is_name(name):
    return False
  if name.startswith(_PATH_STARTS) or pathlib.Path(name).suffix:
    return True
  return os.path.exists(name)  # False where a name cannot be that of a file


def read(path: pathlib.Path) -> dataset_lib.Parts:
  """Returns the parts of a folder or an .npz file."""
  if os.path.isdir(path):
    return read_folder(path)
  if not os.path.isfile(path):
    there = os.path.exists(path)
    got = 'a pipe or device' if there else 'nothing there'
    raise (ValueError if there else FileNotFoundError)(
      f'{path}: expected an .npz file or a folder of class-named folders of'
      f' images, got {got}; check the path'
    )
  optional = ('x_test', 'y_test', 'class_names')
  arrays = readers.read_npz(path, 'x_train', 'y_train', optional=optional)
  return as_parts(*arrays, where=str(path))


def read_folder(folder: pathlib.Path) -> dataset_lib.Parts:
  """Reads `<folder>/<class>/<image>` or `<folder>/<train|test>/<class>/…`.

  Hidden files and folders (leading dot) and `__MACOSX` are ignored, and so is
  what lies beside `train` and `test` if both are there. A class folder without
  images is an error; `test` may leave out classes of `train`.
  """
  names = _class_names(folder)
  halves = [name for name in names if name.lower() in _SPLITS]
  divided = {'train', 'test'} <= {*names}
  # A class may be called train.
  nested = any(_class_names(folder / name) for name in halves)
  if not divided and (nested or (halves and len(halves) == len(names))):
    raise ValueError(
      f'{folder}: expected train/ and test/ with class folders in each, or'
      f' class folders only, got {", ".join(f"{name}/" for name in halves)};'
      ' rename or move the folders'
    )
  train_dir = folder / 'train' if divided else folder
  names = _class_names(train_dir)
  if not names:
    raise ValueError(
      f'{train_dir}: expected one folder per class with its images inside, got'
      ' no folders; move the images into class-named folders'
    )
  train = _read_classes(train_dir, names)
  test: tuple[Any, Any] = (None, None)
  if divided:
    test = _read_classes(folder / 'test', names)
  return as_parts(*train, *test, names, where=str(folder))


def _class_names(folder: pathlib.Path) -> tuple[str, ...]:
  found = [
    path
    for path in folder.iterdir()
    if path.is_dir()
    and path.name != '__MACOSX'
    and not path.name.startswith('.')
  ]
  for path in found:
    _check_inside(path, folder)
  return tuple(sorted(path.name for path in found))


def _check_inside(path: pathlib.Path, folder: pathlib.Path) -> None:
  """Raises if a link leads out of the folder that it lies in."""
  if not path.resolve().is_relative_to(folder.resolve()):
    raise ValueError(
      f'{path}: expected files and folders inside {folder}, got a link to'
      f' {path.resolve()}; copy what it links to, or remove it'
    )


def _read_classes(
  folder: pathlib.Path, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns images and labels, in the order of class and file names."""
  present = _class_names(folder)
  unknown = sorted(set(present) - set(names))
  if unknown:
    raise ValueError(
      f'{folder}: expected only the classes {", ".join(names)}, got'
      f' {", ".join(unknown)} too; remove them or add them to train'
    )
  if not present:
    raise ValueError(
      f'{folder}: expected the class folders {", ".join(names)}, got none; add'
      ' them with their images'
    )
  paths, labels = [], []
  for name in present:
    found = sorted(
      path
      for path in (folder / name).iterdir()
      if path.suffix.lower() in _ENDINGS
      and not path.name.startswith('.')
      and not path.is_dir()
    )
    if not found:
      raise ValueError(
        f'{folder / name}: expected images ({", ".join(_ENDINGS)}) in this'
        ' class folder, got none; add some or remove the folder'
      )
    for path in found:
      if not path.is_file():
        raise ValueError(
          f'{path}: expected an image file, got a pipe, a device or a link to'
          ' nowhere; remove it'
        )
      _check_inside(path, folder)
    paths += found
    labels += [names.index(name)] * len(found)
  images = [read_image(path) for path in paths]
  if any(image.ndim == 3 for image in images):  # one in colour: all in colour
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
  return np.stack(images), np.array(labels)


def read_image(path: pathlib.Path) -> np.ndarray:
  """Returns an image as uint8 [H, W], or [H, W, 3] if it is coloured.

  Grey images of 16 bits are scaled from 0…65535 to 0…255.
  """
  try:
    from PIL import Image  # an optional dependency
  except ImportError as error:
    raise ImportError(
      "reading folders of images needs Pillow; pip install 'aen[data]'"
    ) from error
  with (
    readers.intact(path, 'an image that Pillow reads', 'remove or convert it'),
    Image.open(path) as image,  # reads the header only
  ):
    width, height = image.size
    readers.check_expansion(path, width * height * len(image.getbands()))
    mode, is_png = image.mode, image.format == 'PNG'
    if mode not in ('1', 'L', 'I', 'F', *_GREY_16):
      image = image.convert('RGB')
    pixels = np.asarray(image)
  if mode in _GREY_16 or (mode == 'I' and is_png):  # a PNG has 16 bits at most
    return (pixels // _LEVELS_16).astype(np.uint8)
  if mode in ('I', 'F'):
    raise ValueError(
      f'{path}: expected pixels of 8 or 16 bits, got {pixels.dtype} (Pillow'
      f' mode {mode!r}), whose range is unknown; scale them to 0…255 and save'
      ' them with 8 bits'
    )
  return pixels.astype(np.uint8) * 255 if mode == '1' else pixels


def as_parts(
  images: np.ndarray,
  labels: np.ndarray,
  test_images: np.ndarray | None,
  test_labels: np.ndarray | None,
  class_names: Sequence[str] | None,
  *,
  where: str,
) -> dataset_lib.Parts:
  """Returns parts that fit together, holding out test images if need be."""
  train = dataset_lib.part(images, labels, where=where)
  if (test_images is None) != (test_labels is None):
    raise ValueError(
      f'{where}: expected test images and test labels, or neither, got only'
      ' one of the two; give both'
    )
  if test_images is None or test_labels is None:
    num_test = len(train) // splits.SHARE
    if not num_test:
      raise ValueError(
        f'{where}: expected at least {splits.SHARE} images, of which one in'
        f' {splits.SHARE} is held out for testing, got {len(train)}; add'
        ' images, or give test images too'
      )
    train, test = (
      dataset_lib.part(train.images[rows], train.labels[rows], where=where)
      for rows in splits.hold_out(train.labels, num_test)
    )
  else:
    test = dataset_lib.part(test_images, test_labels, where=f'{where}, test')
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
  used = np.union1d(train.labels, test.labels)
  return dataset_lib.Parts(
    train, test, _checked_names(class_names, used, where)
  )


def _checked_names(
  names: Sequence[str] | None, used: np.ndarray, where: str
) -> tuple[str, ...]:
  """Returns one name per label, the numbers themselves by default.

  Without names, every label up to the highest must be used.
  """
  highest = int(used[-1])
  if names is None:
    if len(used) <= highest:
      some = [*map(str, used[:5]), '…'] if len(used) > 5 else map(str, used)
      raise ValueError(
        f'{where}: expected every label of 0…{highest} to occur, got only'
        f' {", ".join(some)}; {dataset_lib.NUMBERING}, or give class_names for'
        f' all {highest + 1} classes'
      )
    return tuple(str(label) for label in used)
  if np.ndim(names) != 1:
    raise ValueError(
      f'{where}: expected class_names as a list of names, got {names!r}; put'
      " them in a list, such as ['cat', 'dog']"
    )
  names = tuple(io_lib.text(str(n), f'{where}: class_names') for n in names)
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
