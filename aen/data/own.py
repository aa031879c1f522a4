"""Your own data: a folder of class-named folders, an .npz file, or arrays."""

from collections.abc import Sequence
import os
import pathlib

import numpy as np

from aen.data import catalogue
from aen.data import readers
from aen.data import splits
from aen.data.dataset import cut
from aen.data.dataset import NUMBERING
from aen.data.dataset import part
from aen.data.dataset import Parts
from aen.data.dataset import Split

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
  reader = read_folder if path.is_dir() else read_npz
  parts, class_names = reader(path)
  return parts, path.stem, class_names


def read_npz(path: pathlib.Path) -> tuple[Parts, tuple[str, ...]]:
  """Reads x_train and y_train, and if present x_test, y_test, class_names."""
  *arrays, names = readers.read_npz(
    path, 'x_train', 'y_train', optional=('x_test', 'y_test', 'class_names')
  )
  parts = as_parts(*arrays, where=str(path))
  return parts, as_class_names(names, parts, where=str(path))


def read_folder(folder: pathlib.Path) -> tuple[Parts, tuple[str, ...]]:
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
  test = _read_classes(folder / 'test', names) if divided else None
  return _checked(train, test, where=str(folder)), names


def _class_names(folder: pathlib.Path) -> tuple[str, ...]:
  found = (path.name for path in folder.iterdir() if path.is_dir())
  return tuple(
    sorted(n for n in found if n != '__MACOSX' and not n.startswith('.'))
  )


def _read_classes(folder: pathlib.Path, names: tuple[str, ...]) -> Split:
  """Reads the images of every class, in the order of names and file names."""
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
  return part(np.stack(images), np.array(labels), where=str(folder))


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
  try:
    with Image.open(path) as image:
      mode, is_png = image.mode, image.format == 'PNG'
      if mode not in ('1', 'L', 'I', 'F', *_GREY_16):
        image = image.convert('RGB')
      pixels = np.asarray(image)
  except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:
    reason = getattr(e, 'strerror', None) or ' '.join(str(e).split())
    if 'cannot identify' in reason:
      reason = 'a damaged file or another format'
    raise ValueError(
      f'{path}: expected an image that Pillow can read, got {reason};'
      ' remove or convert it'
    ) from e
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
  *,
  where: str,
) -> Parts:
  """Returns train and test parts, holding some images out if need be."""
  train, test = part(images, labels, where=where), None
  if (test_images is None) != (test_labels is None):
    raise ValueError(
      f'{where}: expected test images and test labels, or neither, got only'
      ' one of the two; give both'
    )
  if test_images is not None and test_labels is not None:
    test = part(test_images, test_labels, where=f'{where}, test')
  return _checked(train, test, where=where)


def _checked(train: Split, test: Split | None, *, where: str) -> Parts:
  """Returns train and test parts that fit together."""
  if test is None:
    num_test = len(train) // splits.SHARE
    if not num_test:
      raise ValueError(
        f'{where}: expected at least {splits.SHARE} images, of which one in'
        f' {splits.SHARE} is held out for testing, got {len(train)}; add'
        ' images, or give test images too'
      )
    return cut(train, *splits.hold_out(train.labels, num_test))
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
      some = [*map(str, used[:5]), '…'] if len(used) > 5 else map(str, used)
      raise ValueError(
        f'{where}: expected every label of 0…{highest} to occur, got only'
        f' {", ".join(some)}; {NUMBERING}, or give class_names for all'
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
