"""Your own data: folders of images, .npz and .csv files, or arrays."""

from collections.abc import Sequence
import contextlib
import csv
import functools
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
_MAX_CODE = 15  # uint8 images with no higher value hold codes, not grey levels
_LEVELS_16 = 257  # 65535 // 255: 16-bit levels per 8-bit level


def is_path(name: str | os.PathLike[str]) -> bool:
  """Whether a name is a path; names in the catalogue take precedence."""
  if not isinstance(name, str | os.PathLike) or name == '':
    raise ValueError(
      'expected the name of a data set or the path of an .npz file or image'
      f" folder, got {name!r}; try load_dataset('digits')"
    )
  if not isinstance(name, str):
    return True
  if catalogue.is_name(name):
    return False
  spelled = name.startswith(_PATH_STARTS) or bool(pathlib.Path(name).suffix)
  return spelled or os.path.exists(name)  # False for impossible names


def read(path: pathlib.Path) -> dataset_lib.Parts:
  """Returns the parts of a folder or an .npz file."""
  if os.path.isdir(path):
    return read_folder(path)
  *arrays, names = read_arrays(path, 'x_test', 'y_test', 'class_names')
  return as_parts(arrays[:2], arrays[2:], names, where=str(path))


def read_arrays(path: pathlib.Path, *optional: str) -> list[Any]:
  """Returns x_train, y_train and optional arrays (or None) of an .npz file."""
  _check_file(path, 'an .npz file or a folder of class-named folders of images')
  return readers.read_npz(path, 'x_train', 'y_train', optional=optional)


def _check_file(path: pathlib.Path, expected: str) -> None:
  if not os.path.isfile(path):
    there = os.path.exists(path)
    got = 'a pipe or device' if there else 'nothing there'
    raise (ValueError if there else FileNotFoundError)(
      f'{path}: expected {expected}, got {got}; check the path'
    )


def read_folder(folder: pathlib.Path) -> dataset_lib.Parts:
  """Reads `<folder>/<class>/<image>` or `<folder>/<train|test>/<class>/…`.

  Ignores hidden files and folders (leading dot), `__MACOSX`, and anything
  beside `train` and `test` if both exist. A class folder without images is an
  error; `test` may lack classes of `train`.
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
  test = _read_classes(folder / 'test', names) if divided else (None, None)
  return as_parts(train, test, names, where=str(folder))


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
  """Raises a ValueError if a path is a link to outside the folder."""
  if not path.resolve().is_relative_to(folder.resolve()):
    raise ValueError(
      f'{path}: expected files and folders inside {folder}, got a link to'
      f' {path.resolve()}; copy what it links to, or remove it'
    )


def _read_classes(
  folder: pathlib.Path, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns images and labels, sorted by class name, then file name."""
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
  if any(image.ndim == 3 for image in images):  # one is coloured: all become so
    images = [x if x.ndim == 3 else np.stack([x] * 3, -1) for x in images]
  for image, path in zip(images, paths, strict=True):
    if image.shape != images[0].shape:
      raise ValueError(
        f'{path}: expected images of one size, {images[0].shape[:2]} like'
        f' {paths[0].name}, got {image.shape[:2]}; resize them first'
      )
  return np.stack(images), np.array(labels)


def read_image(path: pathlib.Path) -> np.ndarray:
  """Returns an image as uint8 [H, W], or [H, W, 3] if it is coloured.

  Greyscale images of 16 bits are scaled from 0…65535 to 0…255.
  """
  with io_lib.needed_for('reading folders of images', 'data'):
    from PIL import Image
  with (
    readers.intact(path, 'an image that Pillow reads', 'remove or convert it'),
    Image.open(path) as image,  # reads the header only
  ):
    width, height = image.size
    readers.check_expansion(path, width * height * len(image.getbands()))
    mode, is_png = image.mode, image.format == 'PNG'
    is_deep = mode.startswith('I;16') or (mode == 'I' and is_png)
    if mode not in ('L', 'I', 'F') and not is_deep:
      image = image.convert('L' if mode == '1' else 'RGB')
    pixels = np.asarray(image)
  if is_deep:  # a PNG has 16 bits at most
    return (pixels // _LEVELS_16).astype(np.uint8)
  if mode in ('I', 'F'):
    raise ValueError(
      f'{path}: expected pixels of 8 or 16 bits, got {pixels.dtype} (Pillow'
      f' mode {mode!r}), whose range is unknown; scale them to 0…255 and save'
      ' them with 8 bits'
    )
  return pixels


def as_parts(
  train_arrays: Sequence[Any],
  test_arrays: Sequence[Any],
  class_names: Sequence[str] | None,
  *,
  where: str,
  grid_axes: int = 2,
) -> dataset_lib.Parts:
  """Checks images and labels of train and test; see `load.from_arrays`.

  If test images and labels are None, a sixth of the images is held out.
  """
  part = functools.partial(dataset_lib.part, grid_axes=grid_axes)
  has_test, has_test_labels = (array is not None for array in test_arrays)
  if has_test != has_test_labels:
    raise ValueError(
      f'{where}: expected test images and test labels, or neither, got only'
      ' one of the two; give both'
    )
  parts = [part(*train_arrays, where=where)]
  least, advice = splits.SHARE, 'add images, or give test images'
  if has_test:
    parts.append(part(*test_arrays, where=f'{where}, test'))
    least, advice = 3, 'add images'
  total = sum(map(len, parts))
  if total < least:
    raise ValueError(
      f'{where}: expected at least {least} images, got {total}; {advice}'
    )
  if not has_test:
    rows = splits.hold_out(parts[0].labels, total // splits.SHARE)
    parts = [parts[0].take(some) for some in rows]
  train, test = parts
  like, found = (
    f'shape {x.images.shape[1:]} and type {x.images.dtype}'
    for x in (train, test)
  )
  if found != like:
    raise ValueError(
      f'{where}: expected test images of {like}, like the training images, got'
      f' {found}; give both in one size, and as uint8 or as float on one scale'
    )
  names: tuple[str, ...] = ()
  if train.labels.dtype.kind != 'f':
    used = np.union1d(train.labels, test.labels)
    names = _checked_names(class_names, used, where)
  return dataset_lib.Parts(train, test, names)


def _checked_names(
  names: Sequence[str] | None, used: np.ndarray, where: str
) -> tuple[str, ...]:
  """Returns one name per label, by default its number.

  Without names, every label up to the highest must occur.
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


def read_csv(
  path: pathlib.Path, target: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Reads a header and rows of numbers; one column is the target.

  Returns the other columns, float32 [N, F], and the target column [N] (by
  default the last), as float64 if it holds numbers and else as strings.
  """
  _check_file(path, 'a .csv file')
  with open(path, newline='', encoding='utf-8-sig') as file:
    header, *rows = list(csv.reader(file)) or [[]]
  rows = [row for row in rows if row]
  if len(header) < 2 or not rows:
    raise ValueError(
      f'{path}: expected a line with the names of at least two columns, and a'
      f' line per example, got {len(header)} columns and {len(rows)} lines'
    )
  target = header[-1] if target is None else target
  if target not in header:
    raise ValueError(
      f'{path}: there is no column {target!r}; it has {", ".join(header[:20])}'
    )
  for number, row in enumerate(rows, start=2):
    if len(row) != len(header):
      raise ValueError(
        f'{path}, line {number}: expected {len(header)} columns, got {len(row)}'
      )
  cells, column = np.array(rows), header.index(target)
  try:
    inputs = np.delete(cells, column, axis=1).astype(np.float32)
  except ValueError as error:
    raise ValueError(
      f'{path}: expected numbers in all columns but {target!r} ({error}); leave'
      ' out or encode columns of words, and name the column to predict'
    ) from error
  targets = cells[:, column]
  with contextlib.suppress(ValueError):
    targets = targets.astype(np.float64)
  return inputs, targets


def as_inputs(
  inputs: np.ndarray, grid_axes: int | None = None
) -> tuple[np.ndarray, int]:
  """Converts inputs to images; also returns their number of grid axes.

  Inputs are numbers of any shape [N, …]. By default all axes of an example are
  grid axes, unless its last axis looks like channels: C of [N, H, W, C] if
  C ≤ 4 or 2C ≤ min(H, W), of [N, L, C] if 4C ≤ L, and always if an example has
  four axes or more.

  >>> [as_inputs(np.ones((9, *shape)))[1] for shape in
  ...  [(8,), (3, 3), (40, 4), (28, 28, 3), (8, 8, 8), (8, 8, 8, 2)]]
  [1, 2, 1, 2, 3, 3]
  """
  inputs = np.asarray(inputs)
  shape = inputs.shape[1:]
  if inputs.dtype.kind not in 'buif' or not shape:
    raise ValueError(
      'expected inputs [N, L], [N, H, W], [N, H, W, C], … of numbers, got'
      f' {inputs.dtype} of shape {inputs.shape}; give every example at least'
      ' one axis, and encode words as numbers'
    )
  if grid_axes is None:
    *others, last = shape
    channels = (
      len(shape) > 3
      or (len(shape) == 3 and (last <= 4 or 2 * last <= min(others)))
      or (len(shape) == 2 and 4 * last <= others[0])
    )
    grid_axes = len(shape) - channels
  if not isinstance(grid_axes, int) or not 0 <= len(shape) - grid_axes <= 1:
    raise ValueError(
      f'grid_axes must be {max(1, len(shape) - 1)} or {len(shape)} for inputs'
      f' of shape {inputs.shape} (at most the last axis holds channels), got'
      f' {grid_axes!r}; reshape the inputs'
    )
  if inputs.dtype.kind == 'f':
    return inputs, grid_axes
  # Grey levels are scaled as images; other integers, such as one-hot codes, are
  # standardised.
  grey = inputs.dtype == np.uint8 and grid_axes == 2
  if not (grey and inputs.max(initial=0) > _MAX_CODE):
    inputs = inputs.astype(np.float32)
  return inputs, grid_axes


def downscaled(images: np.ndarray, grid_axes: int, factor: int) -> np.ndarray:
  """Averages blocks of `factor` pixels a side; returns float32 images.

  >>> downscaled(np.arange(8.0).reshape(1, 2, 4), 2, 2).tolist()
  [[[2.5, 4.5]]]
  """
  images = np.asarray(images)
  shape = images.shape[1 : 1 + grid_axes]
  if any(side % factor for side in shape):
    raise ValueError(
      f'downscale={factor} must divide the sides of the grid, got {shape}; crop'
      ' the images, or choose another factor'
    )
  blocks = [part for side in shape for part in (side // factor, factor)]
  split = images.reshape(len(images), *blocks, *images.shape[1 + grid_axes :])
  axes = tuple(range(2, 2 + 2 * grid_axes, 2))
  return split.mean(axis=axes, dtype=np.float64).astype(np.float32)


MAX_CLASSES = 20  # that whole numbers may stand for, however few examples
TASKS = ('classification', 'regression')


def as_targets(
  targets: Any, task: str | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
  """Converts targets of any kind to class labels or to numbers to predict.

  Unless `task` says otherwise, floats with fractions are numbers to predict;
  strings, booleans, whole numbers, one-hot rows [N, K] and any other hashable
  values are classes. Returns labels, int32 [N] from 0, and the class of each
  label; or numbers, float32 [N], and an empty tuple.

  >>> as_targets(['cat', 'dog', 'cat'])
  (array([0, 1, 0], dtype=int32), ('cat', 'dog'))
  >>> as_targets(np.array([0.1, 0.25]))[0].dtype
  dtype('float32')
  """
  io_lib.choice(task, 'task', (*TASKS, None))
  array = _as_array(targets)
  kind = array.dtype.kind
  if array.ndim == 2 and array.shape[1] == 1:
    array = array[:, 0]
  if array.ndim == 2 and kind in 'buif' and task != 'regression':
    one_hot = np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()
    if one_hot:
      labels = array.argmax(axis=1).astype(np.int32)
      return labels, tuple(range(array.shape[1]))
  if array.ndim != 1:
    raise ValueError(
      f'expected one target per example, got shape {array.shape}; one-hot rows'
      ' hold a single 1 and otherwise 0; to predict several numbers, give one'
      ' at a time, such as targets[:, 0]'
    )
  if kind == 'f' and not np.isfinite(array).all():
    raise ValueError(
      'expected a target for every example, got NaN or infinity for'
      f' {np.count_nonzero(~np.isfinite(array))} of {len(array)}; leave those'
      ' examples out'
    )
  fractions = kind == 'f' and bool((array % 1).any())
  if task is None:
    task = TASKS[fractions]
    found = len(np.unique(array)) if kind in 'iuf' and not fractions else 0
    if found > MAX_CLASSES and 4 * found > len(array):
      raise ValueError(
        f'got {found} different whole numbers for {len(array)} examples; say'
        " what they are: task='regression' for numbers to predict,"
        " task='classification' for classes"
      )
  if task == 'regression':
    if kind not in 'biuf':
      raise ValueError(
        f"task='regression' needs numbers as targets, got {array.dtype}"
      )
    return array.astype(np.float32), ()
  if kind == 'f' and not fractions:
    array = array.astype(np.int64)
  if kind == 'O':
    values = array.tolist()
    classes = sorted(dict.fromkeys(values), key=str)
    number = {value: i for i, value in enumerate(classes)}
    labels = np.array([number[value] for value in values])
  else:
    found, labels = np.unique(array, return_inverse=True)
    classes = found.tolist()
  return labels.astype(np.int32), tuple(classes)


def _as_array(targets: Any) -> np.ndarray:
  """Returns targets as an array, of objects if tuples, None or mixed types."""
  if isinstance(targets, np.ndarray):
    return targets
  values = list(targets)
  plain = (bool, int, float, np.number, np.bool_, list, np.ndarray)
  if all(isinstance(value, plain) for value in values) or all(
    isinstance(value, str) for value in values
  ):
    try:
      return np.asarray(values)
    except ValueError as error:  # rows of different lengths
      raise ValueError(
        'expected one target per example, [N], got values of different shapes'
      ) from error
  array = np.empty(len(values), object)
  array[:] = values
  return array
