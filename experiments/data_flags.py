"""Flags of all experiments on images: which images, and where results go."""

import dataclasses
import pathlib

from absl import flags

import aen
from aen.data import dataset as dataset_lib
from aen.data import splits
from experiments import place_flags

_DATASET = flags.DEFINE_string(
  'dataset',
  'g_digits/aug2',
  "A name as in aen.load_dataset, such as 'g_mnist/aug5', or the path of an"
  ' .npz file or of a folder of images.',
)
_SIZE = flags.DEFINE_enum(
  'size',
  None,
  list(splits.PAPER_SIZES),
  "How many images, as in one of the paper's experiments;"
  ' --num_train, --num_validation and --num_test override it.',
)
_NUM_TRAIN = flags.DEFINE_integer(
  'num_train', None, 'Training images; all by default.', lower_bound=2
)
_NUM_VALIDATION = flags.DEFINE_integer(
  'num_validation',
  None,
  'Validation images, out of the training part; a sixth of it by default.',
  lower_bound=1,
)
_NUM_TEST = flags.DEFINE_integer(
  'num_test', None, 'Test images; all by default.', lower_bound=1
)
_RUN_DIR = flags.DEFINE_string(
  'run_dir',
  None,
  'Where everything is kept; a run that was stopped goes on there. By default'
  ' runs/<experiment>/<dataset>.',
)


def run_dir(experiment: str) -> str:
  """Returns the run directory."""
  if _RUN_DIR.value:
    return _RUN_DIR.value
  name = pathlib.Path(_DATASET.value).with_suffix('')
  parts = [part for part in name.parts if part not in ('/', '..', '.')]
  return str(pathlib.Path('runs', experiment, '_'.join(parts)))


def name() -> str:
  """Returns what the flag --dataset says."""
  return _DATASET.value


def load_data(
  dataset: str | None = None, num_test: int | None = None
) -> dataset_lib.Dataset:
  """Loads a data set, as the flags say where the arguments do not."""
  return aen.load_dataset(
    dataset or _DATASET.value,
    size=_SIZE.value,
    num_train=_NUM_TRAIN.value,
    num_validation=_NUM_VALIDATION.value,
    num_test=num_test or _NUM_TEST.value,
    **dataclasses.asdict(place_flags.places()),
  )
