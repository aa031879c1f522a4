"""Flags that several launchers share.

Options are declared once, as fields of `Recipe`, `SearchConfig`, `DQNConfig`,
and of `Images` and `Networks` below: `from_fields` makes a flag of each, with
its default, its type and its help text (the `Attributes:` of the docstring). A
launcher calls the functions that it needs, with the defaults that differ there;
each returns a function that returns what the user asked for.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import importlib
import inspect
import pathlib
import re
import types
import typing
from typing import Any

from absl import flags

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import finding
from aen.data import splits
from aen.nn import mlp as mlp_lib
from aen.search import agent as agent_lib
from aen.search import search as search_lib
from aen.search import strategies
from aen.train import recipe as recipe_lib

# Fields whose flags have other names: a child has a batch size of its own.
_AGENT_NAMES = {
  'hidden_sizes': 'q_hidden_sizes',
  'learning_rate': 'q_learning_rate',
  'batch_size': 'q_batch_size',
  'models': 'models_per_epsilon',
}
# Options of the agent that another strategy has too.
_SHARED = {'evolution': ('max_steps',)}
_SIMPLE = {
  bool: flags.DEFINE_bool,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
}


def from_fields(
  config: type,
  *,
  only: Sequence[str] = (),
  exclude: Sequence[str] = (),
  names: Mapping[str, str] | None = None,
  choices: Mapping[str, Sequence[str]] | None = None,
  notes: Mapping[str, str] | None = None,
  independent: bool = True,
  **defaults: Any,
) -> Callable[[], dict[str, Any]]:
  """Defines a flag for each field of a config dataclass.

  Args:
    config: The dataclass.
    only: The fields that get a flag; all by default.
    exclude: Fields that get none.
    names: Flags that are not named like their field.
    choices: The values that a field may have.
    notes: What only the flag's help text says of a field.
    independent: Whether a field can be checked without the others.
    **defaults: By flag, instead of the field's.

  Returns:
    A function that returns the fields' values, once flags are parsed.
  """
  kinds, texts = typing.get_type_hints(config), help_texts(config)
  parsers: dict[str, Callable[[], Any]] = {}
  for field in dataclasses.fields(config):
    if field.name in exclude or (only and field.name not in only):
      continue
    name = (names or {}).get(field.name, field.name)
    parsers[field.name] = _define(
      name,
      defaults.pop(name, field.default),
      f'{texts[field.name]} {(notes or {}).get(field.name, "")}'.strip(),
      kinds[field.name],
      (choices or {}).get(field.name),
    )
    if independent:
      flags.register_validator(name, _checker(config, field.name))
  assert not defaults, f'{config.__name__} has no flags {[*defaults]}'
  return lambda: {field: parse() for field, parse in parsers.items()}


def help_texts(config: type) -> dict[str, str]:
  """Returns what the docstring of a class says of each attribute."""
  section = (inspect.getdoc(config) or '').partition('Attributes:\n')[2]
  entries = re.split(r'^  (?=\w)', section.split('\n\n')[0], flags=re.MULTILINE)
  pairs = (entry.split(': ', 1) for entry in entries[1:])
  return {name: ' '.join(text.replace('`', '').split()) for name, text in pairs}


def _define(
  name: str,
  default: Any,
  text: str,
  kind: Any,
  choices: Sequence[str] | None,
) -> Callable[[], Any]:
  """Defines one flag; returns a function that returns its value."""
  if choices is not None:
    holder = flags.DEFINE_enum(name, default, list(choices), text)
    return lambda: holder.value
  if typing.get_origin(kind) is types.UnionType:  # such as int | None
    kind = typing.get_args(kind)[0]
  if kind in _SIMPLE:
    bounds = {'lower_bound': 0} if kind is int else {}
    holder = _SIMPLE[kind](name, default, text, **bounds)
    return lambda: holder.value
  element = typing.get_args(kind)[0]  # of tuple[int, ...]
  words = default and [str(value) for value in default]
  holder = flags.DEFINE_list(name, words, text)

  def parse() -> tuple[Any, ...] | None:
    try:
      return holder.value and tuple(element(word) for word in holder.value)
    except ValueError as error:
      raise ValueError(
        f'--{name} must be numbers separated by commas, got'
        f' {",".join(holder.value)}'
      ) from error

  return parse


def _checker(config: type, field: str) -> Callable[[Any], bool]:
  """Returns a validator that asks the dataclass; None is to be filled in."""

  def check(value: Any) -> bool:
    try:
      return value is None or bool(config(**{field: value}))
    except ValueError as error:
      raise flags.ValidationError(str(error)) from error

  return check


def recipe(**defaults: Any) -> Callable[[int], recipe_lib.Recipe]:
  """Defines how children are trained; epochs by default as many as suit.

  Returns:
    A function from the number of training images to the recipe.
  """
  defaults = {'epochs': None, 'criterion': 'likelihood'} | defaults
  note = 'By default as many as take 250 steps, and at least 4.'
  values = from_fields(
    recipe_lib.Recipe,
    notes={} if defaults['epochs'] else {'epochs': note},
    choices=recipe_lib.CHOICES,
    **defaults,
  )

  def make(num_images: int) -> recipe_lib.Recipe:
    given = {name: v for name, v in values().items() if v is not None}
    return search_lib.default_recipe(num_images, **given)

  return make


def search(**defaults: Any) -> Callable[[recipe_lib.Recipe], aen.SearchConfig]:
  """Defines the search: the strategy, its seeds, the retraining.

  Returns:
    A function from the children's recipe to the configuration.
  """
  own = {field.name for field in dataclasses.fields(aen.SearchConfig)}
  searching = from_fields(
    aen.SearchConfig,
    exclude=('recipe', 'options'),
    choices={'strategy': [*strategies.STRATEGIES]},
    **{'strategy': 'dqn'} | {k: v for k, v in defaults.items() if k in own},
  )
  agent = from_fields(
    agent_lib.DQNConfig,
    exclude=('num_bits', 'afterstates'),
    names=_AGENT_NAMES,
    notes={'models': 'One number stands for all.'},
    independent=False,
    **{k: v for k, v in defaults.items() if k not in own},
  )

  def make(recipe: recipe_lib.Recipe) -> aen.SearchConfig:
    fields = searching()
    options = _options(fields['strategy'], agent())
    return aen.SearchConfig(recipe, options=tuple(options.items()), **fields)

  return make


def _options(strategy: str, agent: Mapping[str, Any]) -> dict[str, Any]:
  """Returns a strategy's options; raises if it would ignore one that is set."""
  if strategy == 'dqn':
    models, levels = agent['models'], len(agent['epsilons'])
    options = {
      **agent,
      'models': models * levels if len(models) == 1 else models,
    }
    agent_lib.DQNConfig(**options)  # raises if they do not go together
    return options
  shared = _SHARED.get(strategy, ())
  for field in agent.keys() - shared:
    name = _AGENT_NAMES.get(field, field)
    if not flags.FLAGS[name].using_default_value:
      raise ValueError(
        f'--{name} is for --strategy=dqn, got --strategy={strategy};'
        ' leave one of them out'
      )
  return {field: agent[field] for field in shared}


def children(num_seeds: int) -> Callable[[], dict[str, Any]]:
  """Defines how many children are trained, and how many of them at once.

  Returns:
    A function that returns `num_seeds` and `children_per_batch`.
  """
  return from_fields(
    aen.SearchConfig,
    only=('num_seeds', 'children_per_batch'),
    num_seeds=num_seeds,
  )


@dataclasses.dataclass(frozen=True)
class Images:
  """Which images, and where results on them are written.

  Attributes:
    dataset: A name as in `aen.load_dataset`, such as 'g_mnist/aug5', or the
      path of an .npz file or of a folder of images.
    size: The numbers of images of one of the paper's experiments; --num_train,
      --num_validation and --num_test override it.
    num_train: Training images; all by default.
    num_validation: Validation images, taken from the training part; a sixth of
      it by default.
    num_test: Test images; all by default.
    raw_dir: Directory of official files, <raw_dir>/<name>/<file>; by default
      the environment variable AEN_RAW_DIR. Without it TFDS downloads.
    data_dir: Where TFDS keeps data, by default ~/tensorflow_datasets.
    partial: Accept a part of a data set where the whole is missing.
    run_dir: Where results are written; an interrupted run resumes there. By
      default runs/<experiment>/<dataset>.
  """

  dataset: str = 'g_digits/aug2'
  size: str | None = None
  num_train: int | None = None
  num_validation: int | None = None
  num_test: int | None = None
  raw_dir: str | None = None
  data_dir: str | None = None
  partial: bool = False
  run_dir: str | None = None

  def __post_init__(self) -> None:
    for name in ('num_train', 'num_validation', 'num_test'):
      if getattr(self, name) is not None:
        io_lib.positive(getattr(self, name), name)


class Data:
  """The data set that the flags describe."""

  def __init__(self, **defaults: Any) -> None:
    """Defines the flags of `Images`, with these defaults."""
    sizes = {'size': list(splits.PAPER_SIZES)}
    self._values = from_fields(Images, choices=sizes, **defaults)

  @property
  def name(self) -> str:
    """What --dataset says."""
    return self._values()['dataset']

  def run_dir(self, experiment: str) -> pathlib.Path:
    """Returns the run directory."""
    if given := self._values()['run_dir']:
      return pathlib.Path(given)
    parts = pathlib.Path(self.name).with_suffix('').parts
    words = [part for part in parts if part not in ('/', '..', '.')]
    return pathlib.Path('runs', experiment, '_'.join(words))

  def load(self, name: str | None = None, **counts: int) -> dataset_lib.Dataset:
    """Loads --dataset, or another one; `counts` override flags."""
    options = self._values()
    del options['run_dir']
    dataset = options.pop('dataset')
    return aen.load_dataset(name or dataset, **{**options, **counts})


def places() -> Callable[[], finding.Places]:
  """Defines where files are looked for."""
  values = from_fields(Images, only=('raw_dir', 'data_dir', 'partial'))
  return lambda: finding.Places(**values())


@dataclasses.dataclass(frozen=True)
class Networks:
  """The networks to choose among.

  Attributes:
    symmetries: The symmetries to choose among, separated by commas; by default
      all that can act on the images. Your own are written module.function, as
      numpy.transpose.
    head: The last layer: invariant (the logits are the same for transformed
      images) or dense (as in the paper).
    features: Channels at each hidden point; by default as many as give small or
      colour images a network of fair size.
  """

  symmetries: tuple[str, ...] | None = None
  head: str = 'invariant'
  features: int | None = None


def networks(
  exclude: Sequence[str] = (), **defaults: Any
) -> Callable[[], dict[str, Any]]:
  """Defines the flags of `Networks`.

  Returns:
    A function that returns keyword arguments of a space.
  """
  known = f'Those known: {", ".join(aen.SYMMETRIES)} (CNNs: the first three).'
  values = from_fields(
    Networks,
    exclude=exclude,
    choices={'head': mlp_lib.HEADS},
    notes={'symmetries': known},
    **defaults,
  )

  def parse() -> dict[str, Any]:
    found = values()
    if found['symmetries'] is not None:
      found['symmetries'] = [_symmetry(word) for word in found['symmetries']]
    return found

  return parse


def _symmetry(word: str) -> aen.Symmetry | str:
  """Returns a name as it is, and `module.function` as that function."""
  module, _, name = word.rpartition('.')
  if not module:
    return word
  function = getattr(importlib.import_module(module), name, None)
  if not callable(function):
    raise ValueError(
      f'--symmetries: {module} has no function {name!r}; write module.function,'
      ' such as numpy.transpose'
    )
  return aen.Symmetry(word, function)
