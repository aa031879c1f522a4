"""`load_dataset`: a data set by name, from a path, or from arrays."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import finding
from aen.data import own
from aen.data import splits


def load_dataset(
  name: str | os.PathLike[str],
  *,
  size: str | None = None,
  num_train: int | None = None,
  num_validation: int | None = None,
  num_test: int | None = None,
  seed: int = 0,
  stratified: bool = True,
  partial: bool = False,
  raw_dir: io_lib.PathLike | None = None,
  data_dir: io_lib.PathLike | None = None,
  download: bool = True,
) -> dataset_lib.Dataset:
  """Loads a data set into memory.

  Embedded: `'digits'`, `'tic_tac_toe'`. By file or download: `'mnist'`,
  `'fashion_mnist'`, `'kmnist'`, `'emnist/letters'` (and its other configs),
  `'cifar10'`, `'svhn_cropped'`, `'rot_mnist'`, `'rot_mnist_made'`,
  `'sign_language_mnist'`. With transformed images: `'g_mnist/aug3'`, and so on
  for every square greyscale set of even side and every config of
  `aen.data.transform.CONFIGS`. Or the path of an .npz file (x_train, y_train,
  optionally x_test, y_test, class_names), of a folder with one folder of images
  per class, or of a folder with train/ and test/ of that form.

  Images are uint8 as stored; `data.normalised()` converts them to float32. Your
  own float images are used as they are; your own 16-bit greyscale images are
  scaled to 8 bits.

  Args:
    name: A name above, or a path.
    size: The split sizes of one of the paper's experiments: `'search'` (4000
      training and 1000 validation images), `'retrain'` (10000 training and 1000
      test images) or `'gcnn'` (6000 training and 1000 validation images).
      `num_train`, `num_validation` and `num_test` override it.
    num_train: Number of training images; by default all that are not used for
      validation.
    num_validation: Number of validation images, out of the training part; a
      sixth of it by default, or fewer if `num_train` leaves fewer.
    num_test: Number of test images; all by default.
    seed: Determines which images are chosen (not how a G-data set transforms
      them: its pixels are part of its definition).
    stratified: Whether to choose images in proportion to the classes.
    partial: Whether to accept a part of an official set where the whole set is
      not available. The name and the fingerprint then say so.
    raw_dir: Folder of the official files, `<raw_dir>/<name>/<file>`; by default
      the environment variable AEN_RAW_DIR.
    data_dir: Where TFDS keeps its data; by default ~/tensorflow_datasets.
    download: Whether TFDS may download missing files.

  Returns:
    The splits, each with images [N, H, W] (colour: [N, H, W, C]) and labels
    [N], the class names, and a fingerprint of exactly these images.

  >>> load_dataset('tic_tac_toe')
  Dataset('tic_tac_toe', 584/116/258 train/validation/test images of 3 x 3, \
3 classes)
  """
  sizes = splits.paper_sizes(
    size, train=num_train, validation=num_validation, test=num_test
  )
  choice = dataclasses.replace(sizes, seed=seed, stratified=stratified)
  config = None
  if own.is_path(name):
    path = pathlib.Path(name).expanduser()
    parts = own.read(path)
    # A file name may be any bytes; the name of a data set must be text.
    name = os.fsencode(path.stem).decode(errors='replace')
  else:
    source, config = catalogue.find(str(name))
    places = finding.Places(raw_dir, data_dir, download, partial)
    parts = finding.find(source, config, places)
  return dataset_lib.divide(parts, str(name), choice, config)


def from_arrays(
  images: np.ndarray,
  labels: np.ndarray,
  *,
  test_images: np.ndarray | None = None,
  test_labels: np.ndarray | None = None,
  class_names: Sequence[str] | None = None,
  name: str = 'arrays',
  num_train: int | None = None,
  num_validation: int | None = None,
  num_test: int | None = None,
  seed: int = 0,
  stratified: bool = True,
  grid_axes: int = 2,
) -> dataset_lib.Dataset:
  """Makes a data set of your own arrays.

  Images are uint8 or finite float (stored as float32), [N, H, W] or
  [N, H, W, C], or with other `grid_axes` [N, *grid] or [N, *grid, C]. Class
  labels [N] are integers from 0; without `class_names` (unique, one per label)
  every class must occur. Numbers to predict are float32. Without test images, a
  sixth of the images is held out. Error messages and reports call the data set
  `name`. The other arguments are those of `load_dataset`.
  """
  test = test_images, test_labels
  parts = own.as_parts(
    (images, labels), test, class_names, where=name, grid_axes=grid_axes
  )
  choice = splits.Choice(num_train, num_validation, num_test, seed, stratified)
  data = dataset_lib.divide(parts, name, choice)
  return dataclasses.replace(data, grid_axes=grid_axes)


def from_examples(
  images: Any,
  labels: Any,
  *,
  test_images: Any = None,
  test_labels: Any = None,
  class_names: Sequence[str] | None = None,
  grid_axes: int | None = None,
  task: str | None = None,
  downscale: int = 1,
  **options: Any,
) -> dataset_lib.Dataset:
  """Makes a data set of the arguments of `discover`, which explains them.

  Images may have any shape, see `own.as_inputs`; labels may be of any kind, see
  `own.as_targets`. `options` are those of `from_arrays`.
  """
  io_lib.positive(downscale, 'downscale')
  images, grid_axes = own.as_inputs(images, grid_axes)
  if downscale != 1:
    images = own.downscaled(images, grid_axes, downscale)
    if test_images is not None:
      test_images = own.downscaled(test_images, grid_axes, downscale)
  every, count = labels, len(labels)
  if test_images is not None and test_labels is not None:
    test_images, _ = own.as_inputs(test_images, grid_axes)
    every = [*labels, *test_labels]  # classes are numbered together
  targets, classes = own.as_targets(every, task)
  if class_names is None:
    class_names = [str(value) for value in classes]
  elif classes and all(
    isinstance(value, int) and 0 <= value < len(class_names)
    for value in classes
  ):
    # Integer labels index the names, which may include unused classes.
    targets = np.array(classes, np.int32)[targets]
    classes = tuple(range(len(class_names)))
  data = from_arrays(
    images,
    targets[:count],
    test_images=test_images,
    test_labels=None if test_labels is None else targets[count:],
    class_names=class_names if classes else None,
    grid_axes=grid_axes,
    **options,
  )
  return dataclasses.replace(data, classes=classes)


def read_examples(
  name: str | os.PathLike[str], target: str | None = None
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
  """Reads arguments for `discover` from what `load_dataset` takes, or a .csv.

  Returns the inputs, the targets (of a .csv file the column `target`, by
  default the last), and keyword arguments: the test images and labels, if any.
  """
  path = pathlib.Path(name).expanduser()
  is_file = own.is_path(name) and not path.is_dir()
  if is_file and path.suffix.lower() == '.csv':
    return (*own.read_csv(path, target), {})
  if target is not None:
    raise ValueError(
      f'a target column needs a .csv file, got {name} and target {target!r}'
    )
  if is_file:
    inputs, targets, *test = own.read_arrays(path, 'x_test', 'y_test')
  else:
    data = load_dataset(name, num_validation=0)
    names = np.array(data.class_names)
    inputs, targets = data.train.images, names[data.train.labels]
    test = [data.test.images, names[data.test.labels]]
  return inputs, targets, {'test_images': test[0], 'test_labels': test[1]}
