"""Flags that several launchers share.

Options are declared once, as fields of `Recipe`, `SearchConfig`, `DQNConfig`
and `Workers`, or as arguments of `load_dataset`. `from_fields` turns each into
a flag with the same default, type and description. A launcher calls the
functions it needs, with its own defaults; each returns a function that reads
the values once flags are parsed.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import inspect
import pathlib
import re
import types
import typing
from typing import Any

from absl import flags

import aen
from aen import __main__ as command
from aen.data import dataset as dataset_lib
from aen.data import splits
from aen.nn import mlp as mlp_lib
from aen.search import agent as agent_lib
from aen.search import search as search_lib
from aen.search import strategies
from aen.train import executors
from aen.train import recipe as recipe_lib
from experiments import launch

# Fields of the agent whose names a recipe has too, or which need a longer one.
_AGENT_NAMES = {
  'hidden_sizes': 'q_hidden_sizes',
  'learning_rate': 'q_learning_rate',
  'batch_size': 'q_batch_size',
  'models': 'models_per_epsilon',
}


def from_fields(
  config: Callable[..., Any],
  *,
  only: Sequence[str] = (),
  exclude: Sequence[str] = (),
  names: Mapping[str, str] = types.MappingProxyType({}),
  choices: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
  notes: Mapping[str, str] = types.MappingProxyType({}),
  independent: bool = True,
  **defaults: Any,
) -> Callable[[], dict[str, Any]]:
  """Defines a flag for each field of a dataclass, or argument of a function.

  Args:
    config: The dataclass or function.
    only: Fields that get a flag; all by default.
    exclude: Fields that get none.
    names: Flag names that differ from their field's.
    choices: Allowed values, by field.
    notes: Text to append to a field's description.
    independent: Whether to check each field on its own while parsing.
    **defaults: Defaults that differ from the field's, by flag name.

  Returns:
    A function that returns the values by field, once flags are parsed.
  """
  kinds, texts = typing.get_type_hints(config), help_texts(config)
  read: dict[str, Callable[[], Any]] = {}

  def check(value: Any, field: str) -> bool:
    try:  # None is filled in later
      return value is None or bool(config(**{field: value}))
    except ValueError as error:
      raise flags.ValidationError(str(error)) from error

  for field, parameter in inspect.signature(config).parameters.items():
    if field in exclude or (only and field not in only):
      continue
    kind, name = kinds[field], names.get(field, field)
    if isinstance(kind, types.UnionType):  # such as int | None
      kind = typing.get_args(kind)[0]
    default = defaults.pop(name, parameter.default)
    if default is None:
      default = typing.get_origin(kind) or kind
    text = f'{texts[field]} {notes.get(field, "")}'.strip()
    limit = choices.get(field, 0 if kind is int else None)
    launch.define(**{name: (default, text, limit)})
    if independent:
      flags.register_validator(name, functools.partial(check, field=field))
    read[field] = functools.partial(_value, name, *typing.get_args(kind)[:1])
  assert not defaults, f'{config.__name__} has no flags {[*defaults]}'
  return lambda: {field: value() for field, value in read.items()}


def help_texts(config: Callable[..., Any]) -> dict[str, str]:
  """Returns a docstring's description of each attribute or argument."""
  section = re.split('(?:Attributes|Args):\n', inspect.getdoc(config) or '')[-1]
  entries = re.split(r'^  (?=\w)', section.split('\n\n')[0], flags=re.MULTILINE)
  pairs = (entry.split(': ', 1) for entry in entries[1:])
  return {name: ' '.join(text.replace('`', '').split()) for name, text in pairs}


def _value(name: str, element: Callable[[str], Any] | None = None) -> Any:
  """Returns a flag's value; `element` is the type of a tuple's elements."""
  value = flags.FLAGS[name].value
  try:
    return tuple(map(element, value)) if element and value else value
  except ValueError as error:
    raise ValueError(
      f'--{name} must be numbers separated by commas, got {",".join(value)}'
    ) from error


def recipe(**defaults: Any) -> Callable[[int], recipe_lib.Recipe]:
  """Defines the children's recipe, a function of the number of images."""
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


def workers() -> Callable[[], executors.Workers]:
  """Defines where children are trained."""
  choices = {'executor': tuple(executors.EXECUTORS)}
  values = from_fields(executors.Workers, choices=choices, independent=False)
  return lambda: executors.Workers(**values())


def search(**defaults: Any) -> Callable[[recipe_lib.Recipe], aen.SearchConfig]:
  """Defines the search and its agent; returns a function of the recipe."""
  own = {field.name for field in dataclasses.fields(aen.SearchConfig)}
  searching = from_fields(
    aen.SearchConfig,
    exclude=('recipe', 'options'),
    notes={
      'strategy': f'One of {", ".join(strategies.STRATEGIES)}; options are'
      ' written as in halving(factor=3).'
    },
    **{'strategy': 'dqn'} | {k: v for k, v in defaults.items() if k in own},
  )
  agent = from_fields(
    agent_lib.DQNConfig,
    exclude=('num_bits', 'afterstates'),
    names=_AGENT_NAMES,
    notes={
      'models': 'A single number holds for every ε.',
      'max_steps': 'Other strategies have defaults of their own.',
    },
    independent=False,
    **{k: v for k, v in defaults.items() if k not in own},
  )

  def make(recipe: recipe_lib.Recipe) -> aen.SearchConfig:
    fields, options = searching(), agent()
    strategy, arguments = parse_strategy(fields.pop('strategy'))
    known = strategies.option_names(strategy, *arguments)
    if strategy == 'dqn':
      if len(options['models']) == 1:
        options['models'] *= len(options['epsilons'])
      agent_lib.DQNConfig(**options)  # raises if they do not fit together
    else:  # a flag of the agent sets the strategy's option of the same name
      options = {
        field: value
        for field, value in options.items()
        if not flags.FLAGS[_AGENT_NAMES.get(field, field)].using_default_value
      }
      for field in options.keys() - set(known):
        raise ValueError(
          f'--{_AGENT_NAMES.get(field, field)} is for --strategy=dqn, got'
          f' --strategy={strategy}; leave one of them out'
        )
    options |= arguments
    return aen.SearchConfig(
      recipe, strategy, options=tuple(options.items()), **fields
    )

  return make


def parse_strategy(call: str) -> tuple[str, dict[str, Any]]:
  """Parses a name, or a call with literal keyword arguments.

  >>> parse_strategy('halving(factor=3)')
  ('halving', {'factor': 3})
  """
  try:
    tree = ast.parse(call.strip(), mode='eval').body
    if isinstance(tree, ast.Name):
      return tree.id, {}
    if isinstance(tree, ast.Call) and not tree.args:
      options = {k.arg: ast.literal_eval(k.value) for k in tree.keywords}
      return tree.func.id, options
  except (SyntaxError, ValueError, AttributeError, TypeError):
    pass
  raise ValueError(
    f'expected a strategy such as random or dqn(discount=0.9), got {call!r}'
  )


class Data:
  """Flags of the data set and of the run directory."""

  def __init__(
    self, dataset: str = 'g_digits/aug2', run_dir: Any = str, **defaults: Any
  ) -> None:
    """Defines the flags, with these defaults."""
    launch.define(
      dataset=(
        dataset,
        "A name as in aen.load_dataset, such as 'g_mnist/aug5', or the path of"
        ' an .npz file or of a folder of images.',
      ),
      run_dir=(
        run_dir,
        'Where to write results, and to resume an interrupted run; by default'
        ' runs/<experiment>/<dataset>.',
      ),
    )
    self._values = from_fields(
      aen.load_dataset,
      exclude=('name', 'seed', 'stratified', 'download'),
      choices={'size': tuple(splits.PAPER_SIZES)},
      independent=False,
      **defaults,
    )
    for name in ('num_train', 'num_validation', 'num_test'):
      flags.register_validator(
        name,
        lambda number: number is None or number > 0,
        f'{name} must be a whole number of at least 1',
      )

  def run_dir(self, experiment: str) -> pathlib.Path:
    """Returns the run directory."""
    parts = pathlib.Path(flags.FLAGS.dataset).with_suffix('').parts
    words = [part for part in parts if part not in ('/', '..', '.')]
    default = pathlib.Path('runs', experiment, '_'.join(words))
    return pathlib.Path(flags.FLAGS.run_dir or default)

  def load(self, name: str | None = None) -> dataset_lib.Dataset:
    """Loads the data set `name`, by default --dataset."""
    return aen.load_dataset(name or flags.FLAGS.dataset, **self._values())


def places() -> Callable[[], dict[str, Any]]:
  """Defines where to look for files: arguments of `load_dataset`."""
  names = ('raw_dir', 'data_dir', 'partial')
  return from_fields(aen.load_dataset, only=names, independent=False)


def networks(
  exclude: Sequence[str] = (), head: str = 'invariant'
) -> Callable[[], dict[str, Any]]:
  """Defines the networks to search: keyword arguments of a space."""
  table: dict[str, Sequence[Any]] = {
    'symmetries': (
      tuple,
      'The symmetries to choose from, separated by commas; by default those of'
      ' the paper that can act on the images. Write your own as'
      ' module:function, such as numpy:transpose. Built in:'
      f' {", ".join(aen.SYMMETRIES)}. CNNs accept rotations and reflections.',
    ),
    'head': (
      head,
      'The last layer: invariant (the logits are the same for transformed'
      ' images) or dense (as in the paper).',
      mlp_lib.HEADS,
    ),
    'features': (
      int,
      'Channels at each hidden point; by default enough for a network of'
      ' reasonable size on small or colour images.',
      1,
    ),
  }
  names = [name for name in table if name not in exclude]
  launch.define(**{name: table[name] for name in names})

  def parse() -> dict[str, Any]:
    found = {name: flags.FLAGS[name].value for name in names}
    if words := found['symmetries']:
      found['symmetries'] = [command.symmetry(word) for word in words]
    return found

  return parse
