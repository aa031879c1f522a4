"""Flags that all experiments with MLPs share: data, networks, recipe, run."""

import pathlib

from absl import flags

import aen
from aen import children
from aen import datasets
from aen import networks
from aen import search
from aen import spaces

_DATASET = flags.DEFINE_string(
  'dataset',
  'g_digits/aug2',
  "A name as in aen.load_dataset, such as 'g_mnist/aug5', or the path of an"
  ' .npz file or of a folder of images.',
)
_SIZE = flags.DEFINE_enum(
  'size',
  None,
  list(datasets.PAPER_SIZES),
  "How many images, as in one of the paper's experiments; the flags below"
  ' override it.',
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
_RAW_DIR = flags.DEFINE_string(
  'raw_dir',
  None,
  'Directory of official files, <raw_dir>/<name>/<file>; by default the'
  ' environment variable AEN_RAW_DIR. Without it TFDS downloads.',
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, 'Where TFDS keeps data, by default ~/tensorflow_datasets.'
)
_PARTIAL = flags.DEFINE_bool(
  'partial', False, 'Accept a part of a data set where the whole is missing.'
)
_SYMMETRIES = flags.DEFINE_list(
  'symmetries',
  None,
  'The symmetries to choose among, separated by commas; by default all that can'
  f' act on the images, of {", ".join(aen.SYMMETRIES)}.',
)
_HEAD = flags.DEFINE_enum(
  'head',
  'invariant',
  networks.HEADS,
  'The last layer: invariant (the answer does not change when the image is'
  ' moved) or dense (as in the paper).',
)
_FEATURES = flags.DEFINE_integer(
  'features',
  None,
  'Channels at each hidden point; by default none on grey images of a fair'
  ' size.',
  lower_bound=1,
)
_EPOCHS = flags.DEFINE_integer(
  'epochs',
  None,
  'Epochs of a child; by default as many as give it the 250 steps of the'
  " paper's children, and at least 4.",
  lower_bound=1,
)
_BATCH_SIZE = flags.DEFINE_integer(
  'batch_size', children.Recipe.batch_size, 'Images a step.', lower_bound=1
)
_OPTIMIZER = flags.DEFINE_enum(
  'optimizer',
  children.Recipe.optimizer,
  list(children.OPTIMIZERS),
  'Of the children; sgd is with momentum.',
)
_LEARNING_RATE = flags.DEFINE_float(
  'learning_rate',
  children.Recipe.learning_rate,
  'Of the children.',
  lower_bound=0.0,
)
_MOMENTUM = flags.DEFINE_float(
  'momentum',
  children.Recipe.momentum,
  "Of the optimizer (adam's first moment).",
  lower_bound=0.0,
  upper_bound=1.0,
)
_INITIALIZER = flags.DEFINE_enum(
  'initializer',
  children.Recipe.initializer,
  list(children.INITIALIZERS),
  'How hidden kernels start: uniform by the fan-in, normal by the fan-in'
  ' (lecun, he), or as in the published code, uniform by the number of orbits.',
)
_CRITERION = flags.DEFINE_enum(
  'criterion',
  'likelihood',
  children.CRITERIA,
  'What the best epoch and the best network are best in, on the validation'
  ' images: the likelihood of the labels, or the accuracy (as in the paper).',
)
_RUN_DIR = flags.DEFINE_string(
  'run_dir',
  None,
  'Where everything is kept; a run that was stopped goes on there. By default'
  ' runs/<experiment>/<dataset>.',
)
_CHILDREN_PER_BATCH = flags.DEFINE_integer(
  'children_per_batch',
  None,
  'Children trained side by side on each device; by default as measured.',
  lower_bound=1,
)


def run_dir(experiment: str) -> str:
  """Returns the run directory."""
  if _RUN_DIR.value:
    return _RUN_DIR.value
  name = pathlib.Path(_DATASET.value).with_suffix('')
  parts = [part for part in name.parts if part not in ('/', '..', '.')]
  return str(pathlib.Path('runs', experiment, '_'.join(parts)))


def load_data() -> datasets.Dataset:
  """Loads the data set that the flags name."""
  return aen.load_dataset(
    _DATASET.value,
    size=_SIZE.value,
    num_train=_NUM_TRAIN.value,
    num_validation=_NUM_VALIDATION.value,
    num_test=_NUM_TEST.value,
    raw_dir=_RAW_DIR.value,
    data_dir=_DATA_DIR.value,
    partial=_PARTIAL.value,
  )


def make_space(data: datasets.Dataset) -> spaces.MLPSpace:
  """Returns the networks that the flags describe."""
  return spaces.mlp_space(
    data.image_shape,
    data.num_classes,
    _SYMMETRIES.value,
    features=_FEATURES.value,
    head=_HEAD.value,
    initializer=_INITIALIZER.value,
  )


def make_recipe(num_images: int) -> children.Recipe:
  """Returns how children are trained."""
  given = {} if _EPOCHS.value is None else {'epochs': _EPOCHS.value}
  return search.default_recipe(
    num_images,
    batch_size=_BATCH_SIZE.value,
    optimizer=_OPTIMIZER.value,
    learning_rate=_LEARNING_RATE.value,
    momentum=_MOMENTUM.value,
    initializer=_INITIALIZER.value,
    criterion=_CRITERION.value,
    **given,
  )


def children_per_batch() -> int | None:
  """Returns how many children train side by side."""
  return _CHILDREN_PER_BATCH.value
