"""Folders of images, one folder per class."""

import pathlib

import numpy as np

from aen.data.arrays import Part
from aen.data.arrays import part

_ENDINGS = ('.png', '.jpg', '.jpeg', '.bmp', '.gif', '.tif', '.tiff', '.webp')
_SPLITS = ('train', 'test', 'val', 'valid', 'validation')
_GREY = ('1', 'L')
_GREY_16 = ('I;16', 'I;16L', 'I;16B', 'I;16N')
_LEVELS_16 = 257  # 65535 // 255: how many 16-bit levels make one of 8 bits


def read(
  folder: pathlib.Path,
) -> tuple[Part, Part | None, tuple[str, ...]]:
  """Reads `<folder>/<class>/<image>` or `<folder>/<train|test>/<class>/…`.

  Hidden files and folders (leading dot) and `__MACOSX` are ignored, and so is
  what lies beside `train` and `test` if both are there. A class folder without
  images is an error; `test` may leave out classes of `train`.

  Returns:
    The training part, the test part if there is one, and the class names.
  """
  divided = (folder / 'train').is_dir() and (folder / 'test').is_dir()
  if not divided:
    _refuse_half_divided(folder)
  train_dir = folder / 'train' if divided else folder
  names = _class_names(train_dir)
  if not names:
    raise ValueError(
      f'{train_dir}: expected one folder per class with its images inside, got'
      ' no folders; move the images into class-named folders'
    )
  train = _read_classes(train_dir, names)
  test = _read_classes(folder / 'test', names) if divided else None
  return train, test, names


def _class_names(folder: pathlib.Path) -> tuple[str, ...]:
  found = (p.name for p in folder.iterdir() if p.is_dir())
  return tuple(
    sorted(n for n in found if n != '__MACOSX' and not n.startswith('.'))
  )


def _image_paths(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(
    p
    for p in folder.glob('*')
    if p.suffix.lower() in _ENDINGS
    and not p.name.startswith('.')
    and not p.is_dir()
  )


def _refuse_half_divided(folder: pathlib.Path) -> None:
  """Raises ValueError if folders are splits; a class may be called train."""
  names = _class_names(folder)
  splits = [name for name in names if name.lower() in _SPLITS]
  inner = [name for name in splits if _class_names(folder / name)]
  if inner or (splits and len(splits) == len(names)):
    raise ValueError(
      f'{folder}: expected train/ and test/ with class folders in each, or'
      f' class folders only, got {", ".join(f"{name}/" for name in splits)};'
      ' rename or move the folders'
    )


def _read_classes(folder: pathlib.Path, names: tuple[str, ...]) -> Part:
  """Reads the images of every class, in the order of names and file names."""
  present = _class_names(folder)
  unknown = sorted(set(present) - set(names))
  if unknown:
    raise ValueError(
      f'{folder}: expected only the classes {", ".join(names)}, got'
      f' {", ".join(unknown)} too; remove them or add them to train'
    )
  paths, labels = [], []
  for name in present:
    found = _image_paths(folder / name)
    if not found:
      raise ValueError(
        f'{folder / name}: expected images ({", ".join(_ENDINGS)}) in this'
        ' class folder, got none; add some or remove the folder'
      )
    paths += found
    labels += [names.index(name)] * len(found)
  if not paths:
    raise ValueError(
      f'{folder}: expected the class folders {", ".join(names)}, got none; add'
      ' them with their images'
    )
  images = _same_form([_read_image(path) for path in paths], paths)
  return part(images, np.array(labels), where=str(folder))


def _read_image(path: pathlib.Path) -> np.ndarray:
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
      if mode not in (*_GREY, *_GREY_16, 'I', 'F'):
        image = image.convert('RGB')
      pixels = np.asarray(image)
  except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:
    raise ValueError(
      f'{path}: expected an image that Pillow can read, got {_reason(e)};'
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


def _reason(error: Exception) -> str:
  """Says in one line what is wrong, without the path."""
  if isinstance(error, OSError) and error.strerror:
    return error.strerror
  if 'cannot identify' in str(error):
    return 'a damaged file or another format'
  return ' '.join(str(error).split())


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
