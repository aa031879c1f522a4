"""Flags of all experiments that train children: how they are trained."""

from absl import flags

from aen.search import search as search_lib
from aen.train import recipe as recipe_lib

_EPOCHS = flags.DEFINE_integer(
  'epochs',
  None,
  'Epochs of a child; by default as many as give it the 250 steps of the'
  " paper's children, and at least 4.",
  lower_bound=1,
)
_BATCH_SIZE = flags.DEFINE_integer(
  'batch_size', recipe_lib.Recipe.batch_size, 'Images a step.', lower_bound=1
)
_OPTIMIZER = flags.DEFINE_enum(
  'optimizer',
  recipe_lib.Recipe.optimizer,
  list(recipe_lib.OPTIMIZERS),
  'Of the children; sgd is with momentum.',
)
_LEARNING_RATE = flags.DEFINE_float(
  'learning_rate',
  recipe_lib.Recipe.learning_rate,
  'Of the children.',
  lower_bound=0.0,
)
_MOMENTUM = flags.DEFINE_float(
  'momentum',
  recipe_lib.Recipe.momentum,
  "Of the optimizer (adam's first moment).",
  lower_bound=0.0,
  upper_bound=1.0,
)
_INITIALIZER = flags.DEFINE_enum(
  'initializer',
  recipe_lib.Recipe.initializer,
  list(recipe_lib.INITIALIZERS),
  'How hidden kernels start: uniform by the fan-in, normal by the fan-in'
  ' (lecun, he), or as in the published code, uniform by the number of orbits.',
)
_FRESH_ORDER = flags.DEFINE_bool(
  'fresh_order',
  recipe_lib.Recipe.fresh_order,
  "Whether the images' order is new in every epoch, or, as in the published"
  " code, the first epoch's.",
)
_SCHEDULE = flags.DEFINE_enum(
  'schedule',
  recipe_lib.Recipe.schedule,
  list(recipe_lib.SCHEDULES),
  'What becomes of the learning rate: as it is to the end, as in the paper, or'
  ' down to nothing along half a cosine.',
)
_CRITERION = flags.DEFINE_enum(
  'criterion',
  'likelihood',
  recipe_lib.CRITERIA,
  'What the best epoch and the best network are best in, on the validation'
  ' images: the likelihood of the labels, or the accuracy (as in the paper).',
)
_CHILDREN_PER_BATCH = flags.DEFINE_integer(
  'children_per_batch',
  None,
  'Children trained side by side on each device; by default as measured.',
  lower_bound=1,
)


def make_recipe(num_images: int) -> recipe_lib.Recipe:
  """Returns how children are trained."""
  given = {} if _EPOCHS.value is None else {'epochs': _EPOCHS.value}
  return search_lib.default_recipe(
    num_images,
    batch_size=_BATCH_SIZE.value,
    optimizer=_OPTIMIZER.value,
    learning_rate=_LEARNING_RATE.value,
    momentum=_MOMENTUM.value,
    initializer=_INITIALIZER.value,
    fresh_order=_FRESH_ORDER.value,
    criterion=_CRITERION.value,
    schedule=_SCHEDULE.value,
    **given,
  )


def children_per_batch() -> int | None:
  """Returns how many children train side by side."""
  return _CHILDREN_PER_BATCH.value
