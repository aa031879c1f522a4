r"""Reproduces the paper's MLP results, in one command.

In turn: the tables of networks with one symmetry ('tables'); every network of
the twelve data sets Aug0 to Aug5 of both bases ('landscapes'); the paper's
search on each ('searches'); the networks that it found, the best of all, and
those that the data were made with, trained at the paper's size ('networks');
those that it found by other recipes, up to ours ('recipes'); the first one with
as many weights as a plain network, with an invariant head, and on images moved
by exact symmetries ('lessons'); and judged by either half of the test images
('halves').

  python -m experiments.reproduce --raw_dir=path/to/files

A run that was stopped goes on when the same command is given again; so does one
on another machine, because what is in --results counts as known. Four hours on
two cores from nothing. `python -m experiments.results_page` then writes the
page. Do the numbers come again? This trains three children anew:
  python -m experiments.reproduce --raw_dir=path/to/files --verify=3
"""

from collections.abc import Iterator
from collections.abc import Sequence
import csv
import dataclasses
import pathlib
import sys
from typing import Any

from absl import flags
import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import transform
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import mlp_space
from aen.search import strategies
from aen.train import evaluate as evaluate_lib
from aen.train import store as store_lib
from experiments import launch
from experiments import mlp_searches
from experiments import place_flags
from experiments import published_mlp
from experiments import stage_times
from experiments.published_mlp import Line

_STAGES = [
  'tables',
  'landscapes',
  'searches',
  'networks',
  'recipes',
  'lessons',
  'halves',
]
_STAGE = flags.DEFINE_multi_enum(
  'stage',
  _STAGES,
  _STAGES,
  'What to do, in this order.',
)
_BASE = flags.DEFINE_multi_enum(
  'base', published_mlp.BASES, published_mlp.BASES, 'Which images are moved.'
)
_NUM_SEEDS = flags.DEFINE_integer(
  'num_seeds', 3, 'Children of each network.', lower_bound=1
)
_TOP = flags.DEFINE_integer(
  'top', 4, 'How many networks of a search are trained again.', lower_bound=1
)
_RECIPE = flags.DEFINE_multi_enum(
  'recipe',
  list(published_mlp.RECIPES),
  list(published_mlp.RECIPES),
  "What the stage 'recipes' trains by.",
)
_VERIFY = flags.DEFINE_integer(
  'verify', 0, 'Only train so many known children anew.', lower_bound=0
)
_RESULTS = flags.DEFINE_string(
  'results', 'results/mlp', 'Where results are kept that count as known.'
)
_RUN_DIR = flags.DEFINE_string(
  'run_dir', 'runs/reproduce', 'Where the store is kept.'
)
_AGENT: dict[str, Any] = {}  # the paper's
_SEARCH_RECIPE = aen.Recipe(epochs=4, criterion='accuracy')


@dataclasses.dataclass(frozen=True)
class Workshop:
  """What all stages share."""

  store: store_lib.Results
  run_dir: pathlib.Path
  results: pathlib.Path

  def measure(
    self,
    name: str,
    networks: dict[str, Sequence[str]],
    num_seeds: int | None = None,
    recipe: aen.Recipe | None = None,
    **options: object,
  ) -> list[Line]:
    """Trains networks, by their roles, at the paper's size."""
    seeds = range(num_seeds or _NUM_SEEDS.value)
    total = len(networks) * len(seeds)
    with evaluate_lib.ProgressBar(name, total) as watch:
      judged = published_mlp.measure(
        name,
        list(networks.values()),
        seeds,
        recipe or published_mlp.RECIPE,
        self.store,
        place_flags.places(),
        watch,
        **options,
      )
    roles = [role for role in networks for _ in seeds]
    return [Line(*pair) for pair in zip(roles, judged, strict=True)]

  def landscape(self, name: str) -> landscape_lib.Landscape:
    """Returns the landscape of a data set."""
    found = self.landscapes()
    if name not in found:
      raise FileNotFoundError(
        f'{self.landscape_file} has no landscape of {name}; run'
        ' --stage=landscapes first'
      )
    return found[name]

  @property
  def landscape_file(self) -> pathlib.Path:
    """The landscapes of all data sets."""
    return self.results / 'landscapes.npz'

  def landscapes(self) -> dict[str, landscape_lib.Landscape]:
    """Returns the landscapes that are known, by data set."""
    if not self.landscape_file.exists():
      return {}
    return landscape_lib.load_all(self.landscape_file)

  def write(self, stage: str, lines: Sequence[Line]) -> None:
    """Keeps what is known so far, as a table and as a store."""
    published_mlp.add(self.results / f'{stage}.csv', lines)
    self.store.export_csv(self.results / 'children.csv.gz')


def main(_: Sequence[str]) -> None:
  """Does what is not done yet, stage by stage."""
  run_dir = io_lib.open_run(_RUN_DIR.value, {'experiment': 'reproduce'})
  known = pathlib.Path(_RESULTS.value)
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    if (known / 'children.csv.gz').exists():
      store.import_csv(known / 'children.csv.gz')
    workshop = Workshop(store, run_dir, known)
    if _VERIFY.value:
      verify(workshop, _VERIFY.value)
      return
    for stage in _STAGE.value:
      with stage_times.clocked(known / 'times.csv', stage, _BASE.value):
        STAGES[stage](workshop)


def make_tables(workshop: Workshop) -> None:
  """The paper's tables; several seeds of those that searches compete with."""
  lines: list[Line] = []
  networks = {
    ' '.join(names) or 'plain': names for names in published_mlp.NETWORKS
  }
  seeds = {config: 1 for config in published_mlp.SINGLE}
  seeds |= {config: _NUM_SEEDS.value for config in published_mlp.MULTIPLE}
  for base in _BASE.value:
    for config, num_seeds in seeds.items():
      lines += workshop.measure(f'{base}/{config}', networks, num_seeds)
      workshop.write('tables', lines)


def make_landscapes(workshop: Workshop) -> None:
  """Every network of every data set that the paper searches."""
  seeds = range(_NUM_SEEDS.value)
  found = workshop.landscapes()
  for landscape in found.values():
    if not np.array_equal(landscape.seeds, seeds):
      raise ValueError(
        f'{workshop.landscape_file} has landscapes of {len(landscape.seeds)}'
        f' seeds, --num_seeds asks for {len(seeds)}; choose other --results'
      )
  for name in _searched():
    if name in found:
      continue
    data = load_for_search(name)
    found[name] = landscape_lib.train_landscape(
      data,
      mlp_space.mlp_space(data.image_shape, data.num_classes, head='dense'),
      _SEARCH_RECIPE,
      seeds,
      workshop.run_dir / 'landscapes',
    )
    landscape_lib.save_all(workshop.landscape_file, found.values())
    print(f'{name} is in {workshop.landscape_file}', flush=True)


def load_for_search(name: str) -> dataset_lib.Dataset:
  """Loads the paper's sizes, with enough test images to judge by."""
  places = dataclasses.asdict(place_flags.places())
  return aen.load_dataset(name, size='search', num_test=2000, **places)


def _searched() -> Iterator[str]:
  for base in _BASE.value:
    for config in published_mlp.MULTIPLE:
      yield f'{base}/{config}'


def make_searches(workshop: Workshop) -> None:
  """The paper's search, on what every network turned out to be worth."""
  for name in _searched():
    trace(workshop, workshop.landscape(name))


def trace(
  workshop: Workshop, landscape: landscape_lib.Landscape
) -> compare.Trace:
  """Returns what the search proposed, [T]; searches if nobody did."""
  path = mlp_searches.path(workshop.results, landscape)
  if not path.exists():
    steps = agent_lib.DQNConfig(**_AGENT).max_steps
    strategy = strategies.make(
      'dqn',
      len(landscape.symmetries),
      network_of=landscape.network_of,
      epochs=landscape.validation.shape[-1],
      **_AGENT,
    )
    found = compare.search_landscape(
      strategy, landscape, np.array([0]), steps, vectorised=False
    )
    mlp_searches.write(path, found)
    print(f'wrote {path}', flush=True)
  return mlp_searches.read(path)


def make_networks(workshop: Workshop) -> None:
  """What was found, what is best, and what the data were made with."""
  lines: list[Line] = []
  for name in _searched():
    lines += workshop.measure(name, chosen(workshop, name))
    workshop.write('networks', lines)


def chosen(workshop: Workshop, name: str) -> dict[str, Sequence[str]]:
  """Returns the networks of a data set to look at closer, by role."""
  landscape = workshop.landscape(name)
  config = name.split('/')[1]
  found = mlp_searches.top_networks(
    trace(workshop, landscape), landscape, _TOP.value
  )
  roles = {f'search {i}': n for i, n in enumerate(found, start=1)}
  roles['best'] = int(landscape.values('validation').argmax())
  return {
    **{role: landscape.names(network) for role, network in roles.items()},
    'paper': published_mlp.found()[name].symmetries.split(),
    'generating': transform.CONFIGS[config].symmetries,
    'plain': (),
  }


def make_recipes(workshop: Workshop) -> None:
  """What was found, trained by other recipes."""
  lines: list[Line] = []
  for name in _searched():
    roles = chosen(workshop, name)
    for title in _RECIPE.value:
      asked = {'search 1': roles['search 1']}
      if title == published_mlp.OURS:
        asked = {r: n for r, n in roles.items() if r.startswith('search ')}
        asked['plain'] = ()
      found = workshop.measure(name, asked, recipe=published_mlp.RECIPES[title])
      lines += titled(title, found)
    workshop.write('recipes', lines)


def titled(title: str, lines: Sequence[Line]) -> list[Line]:
  """Says in the role what was changed."""
  return [Line(f'{line.role}, {title}', line.child) for line in lines]


def make_lessons(workshop: Workshop) -> None:
  """Is it the symmetry, or fewer weights? The head? The way data are made?"""
  lines: list[Line] = []
  for name in _searched():
    pair = _pair(workshop, name)
    for title, kind, options in (
      ('invariant head', name, {'head': 'invariant'}),
      ('exact moves', f'{name}_group', {}),
    ):
      lines += titled(title, workshop.measure(kind, pair, **options))
    wide = aen.EquivariantMLP(
      pair['search 1'], in_shape=(28, 28), width_matched=True
    )
    lines += workshop.measure(
      name,
      {'search 1, as many weights': pair['search 1']},
      features=wide.widths(),
    )
    workshop.write('lessons', lines)


def _pair(workshop: Workshop, name: str) -> dict[str, Sequence[str]]:
  roles = chosen(workshop, name)
  return {role: roles[role] for role in ('plain', 'search 1')}


def make_halves(workshop: Workshop) -> None:
  """Does it matter which of the test images are looked at?"""
  lines: list[Line] = []
  for name in _searched():
    pair = _pair(workshop, name)
    for half, title in enumerate(published_mlp.HALVES):
      lines += titled(title, workshop.measure(name, pair, half=half))
    workshop.write('halves', lines)


STAGES = {
  'tables': make_tables,
  'landscapes': make_landscapes,
  'searches': make_searches,
  'networks': make_networks,
  'recipes': make_recipes,
  'lessons': make_lessons,
  'halves': make_halves,
}


def verify(workshop: Workshop, count: int) -> None:
  """Trains known children anew, from nothing; exits with 1 if any differs."""
  path = workshop.results / 'tables.csv'
  if not path.exists():
    raise FileNotFoundError(
      f'{path} is not there, so there is nothing to train anew; run'
      ' --stage=tables first'
    )
  with open(path, newline='') as file:
    rows = list(csv.DictReader(file))
  picked = np.random.default_rng(0).choice(len(rows), count, replace=False)
  differ = 0
  for row in (rows[i] for i in picked):
    names = tuple(row['symmetries'].split())
    (again,) = published_mlp.measure(
      row['dataset'],
      [names],
      [int(row['seed'])],
      published_mlp.RECIPE,
      store_lib.Results(),
      place_flags.places(),
      lambda records: None,
    )
    same = all(
      str(getattr(again, name)) == row[name]
      for name in ('published', 'honest', 'validation', 'weights')
    )
    differ += not same
    print(
      f'{row["dataset"]}, {row["symmetries"] or "plain"}, seed {row["seed"]}:'
      f' {100 * float(row["published"]):.1f} % and'
      f' {100 * float(row["honest"]):.2f} %,'
      f' {"the same" if same else f"now {again}"}',
      flush=True,
    )
  if differ:
    sys.exit(1)


if __name__ == '__main__':
  launch.run(main)
