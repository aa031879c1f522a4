r"""Reproduces the paper's MLP results, in one command.

In turn: the tables of networks with one symmetry ('tables'); every network of
the twelve data sets Aug0 to Aug5 of both bases ('landscapes'); the paper's
search on each ('searches'); the networks that it found, the best of all, and
those that the data were made with, trained at the paper's size ('networks');
those that it found by other recipes, up to ours ('recipes'); the first one with
as many weights as the baseline, with an invariant head, and on images
transformed by exact symmetries ('lessons'); and judged by either half of the
test images ('halves').

  python -m experiments.reproduce --raw_dir=path/to/files

Writes CSV files, landscapes and traces to --results; from scratch four hours on
two cores. The same command resumes an interrupted run, also on another machine,
because everything in --results counts as known. `python -m
experiments.results_page` then writes the pages. To check reproducibility, this
retrains three known children, half a minute, and exits with 1 if any differs:
  python -m experiments.reproduce --raw_dir=path/to/files --verify=3
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import datetime
import os
import pathlib
import platform
import sys
import time
from typing import Any

from absl import flags as absl_flags
import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import finding
from aen.data import transform
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import mlp_space
from aen.train import store as store_lib
from experiments import flags
from experiments import launch
from experiments import published_mlp
from experiments import retraining
from experiments import rows as rows_lib
from experiments import traces
from experiments.retraining import Task

_STAGES = [
  'tables',
  'landscapes',
  'searches',
  'networks',
  'recipes',
  'lessons',
  'halves',
]
_STAGE = absl_flags.DEFINE_multi_enum(
  'stage', _STAGES, _STAGES, 'Stages to run, in this order.'
)
_BASE = absl_flags.DEFINE_multi_enum(
  'base',
  list(published_mlp.BASES),
  list(published_mlp.BASES),
  'Which images are transformed.',
)
_CHILDREN = flags.from_fields(
  aen.SearchConfig, only=('num_seeds', 'top'), num_seeds=3, top=4
)
_RECIPE = absl_flags.DEFINE_multi_enum(
  'recipe',
  list(published_mlp.RECIPES),
  list(published_mlp.RECIPES),
  "Recipes of the stage 'recipes'.",
)
_VERIFY = absl_flags.DEFINE_integer(
  'verify', 0, 'Only retrain this many known children.', lower_bound=0
)
_RESULTS = absl_flags.DEFINE_string(
  'results', 'results/mlp', 'Folder of results that count as known.'
)
_RUN_DIR = absl_flags.DEFINE_string(
  'run_dir', 'runs/reproduce', 'Folder of the store.'
)
_PLACES = flags.places()
_AGENT: dict[str, Any] = {}  # the paper's
_SEARCH_RECIPE = aen.Recipe(epochs=4, criterion='accuracy')


def main(_: Sequence[str]) -> None:
  """Runs what has not been run, stage by stage."""
  run_dir = io_lib.open_run(_RUN_DIR.value, {'experiment': 'reproduce'})
  results = pathlib.Path(_RESULTS.value)
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    if (results / 'children.csv.gz').exists():
      store.import_csv(results / 'children.csv.gz')
    work = Reproduction(
      store=store,
      run_dir=run_dir,
      results=results,
      places=_PLACES(),
      bases=tuple(_BASE.value),
      recipes=tuple(_RECIPE.value),
      **_CHILDREN(),
    )
    if _VERIFY.value:
      sys.exit(verify(work, _VERIFY.value))
    for stage in _STAGE.value:
      with timed(results / 'times.csv', stage, work.bases):
        work.run(stage)


@dataclasses.dataclass(frozen=True)
class Reproduction:
  """What all stages share."""

  store: store_lib.Results
  run_dir: pathlib.Path
  results: pathlib.Path
  places: finding.Places
  bases: tuple[str, ...]
  recipes: tuple[str, ...]
  num_seeds: int
  top: int

  def run(self, stage: str) -> None:
    """Runs a stage; after each data set, writes what is known."""
    configs = published_mlp.MULTIPLE
    if stage == 'tables':
      configs = (*published_mlp.SINGLE, *configs)
    rows: list[rows_lib.Row] = []
    for base in self.bases:
      for config in configs:
        for task in STAGES[stage](self, f'{base}/{config}'):
          rows += retraining.train(task, self.store, self.places)
        if rows:
          rows_lib.add(self.results / f'{stage}.csv', rows, retraining.KEY)
          self.store.export_csv(self.results / 'children.csv.gz')

  @property
  def seeds(self) -> range:
    """The seeds of each network."""
    return range(self.num_seeds)

  @property
  def landscape_file(self) -> pathlib.Path:
    """The landscapes of all data sets."""
    return self.results / 'landscapes.npz'

  def landscapes(self) -> dict[str, landscape_lib.Landscape]:
    """Returns the landscapes that are known, by data set."""
    if not self.landscape_file.exists():
      return {}
    return landscape_lib.load_all(self.landscape_file)

  def landscape(self, name: str) -> landscape_lib.Landscape:
    """Returns the landscape of a data set."""
    found = self.landscapes()
    if name not in found:
      raise FileNotFoundError(
        f'{self.landscape_file} has no landscape of {name}; run'
        ' --stage=landscapes first'
      )
    return found[name]

  def chosen(self, name: str) -> dict[str, Sequence[str]]:
    """Returns the networks of a data set to look at closer, by role."""
    landscape = self.landscape(name)
    found = traces.top_networks(search(self, landscape), landscape, self.top)
    roles = {f'search {i}': n for i, n in enumerate(found, start=1)}
    roles['best'] = int(landscape.values('validation').argmax())
    return {
      **{role: landscape.names(network) for role, network in roles.items()},
      'paper': published_mlp.found()[name].symmetries.split(),
      'generating': transform.CONFIGS[name.split('/')[1]].symmetries,
      retraining.BASELINE: (),
    }

  def pair(self, name: str) -> dict[str, Sequence[str]]:
    """Returns the baseline and the network that the search found."""
    roles = self.chosen(name)
    return {role: roles[role] for role in (retraining.BASELINE, 'search 1')}


def tables(work: Reproduction, name: str) -> list[Task]:
  """The paper's tables; several seeds of those that searches compete with."""
  single = name.split('/')[1] in published_mlp.SINGLE
  return [retraining.table_task(name, [0] if single else work.seeds)]


def landscapes(work: Reproduction, name: str) -> list[Task]:
  """Every network; trained here, because no row is written."""
  found = work.landscapes()
  for landscape in found.values():
    if not np.array_equal(landscape.seeds, work.seeds):
      raise ValueError(
        f'{work.landscape_file} has landscapes of {len(landscape.seeds)}'
        f' seeds, --num_seeds asks for {work.num_seeds}; choose other --results'
      )
  if name not in found:
    data = load_for_search(name, work.places)
    found[name] = landscape_lib.train_landscape(
      data,
      mlp_space.mlp_space(data.image_shape, data.num_classes, head='dense'),
      _SEARCH_RECIPE,
      work.seeds,
      work.run_dir / 'landscapes',
    )
    landscape_lib.save_all(work.landscape_file, found.values())
    print(f'{name} is in {work.landscape_file}', flush=True)
  return []


def load_for_search(name: str, places: finding.Places) -> dataset_lib.Dataset:
  """Loads the paper's sizes, with enough test images to judge by."""
  where = dataclasses.asdict(places)
  return aen.load_dataset(name, size='search', num_test=2000, **where)


def searches(work: Reproduction, name: str) -> list[Task]:
  """The paper's search on the landscape, which trains nothing."""
  search(work, work.landscape(name))
  return []


def search(
  work: Reproduction, landscape: landscape_lib.Landscape
) -> compare.Trace:
  """Returns what the search proposed, [T]; searches unless that is known."""
  if (known := traces.load_one(work.results, landscape)) is not None:
    return known
  strategy = traces.make_strategy(landscape, 'dqn', **_AGENT)
  steps = agent_lib.DQNConfig(**_AGENT).max_steps
  trace = compare.search_landscape(
    strategy, landscape, np.array([0]), steps, vectorised=False
  )
  path = traces.path_of(work.results, landscape)
  traces.save(path, trace)
  print(f'wrote {path}', flush=True)
  return traces.load_one(work.results, landscape)


def networks(work: Reproduction, name: str) -> list[Task]:
  """What was found, what is best, and what the data were made with."""
  return [Task(name, work.chosen(name), work.seeds)]


def recipes(work: Reproduction, name: str) -> list[Task]:
  """What was found, trained by other recipes."""
  roles = work.chosen(name)
  first = {'search 1': roles['search 1']}
  every = {r: n for r, n in roles.items() if r.startswith('search ')}
  every[retraining.BASELINE] = ()
  return [
    Task(
      name,
      every if title == published_mlp.OURS else first,
      work.seeds,
      recipe=published_mlp.RECIPES[title],
      change=title,
    )
    for title in work.recipes
  ]


def lessons(work: Reproduction, name: str) -> list[Task]:
  """Is it the symmetry, or fewer weights? The head? The way data are made?"""
  pair = work.pair(name)
  first = {'search 1': pair['search 1']}
  wide = aen.EquivariantMLP(
    pair['search 1'], in_shape=(28, 28), width_matched=True
  )
  head, width = {'head': 'invariant'}, {'features': wide.widths()}
  return [
    Task(name, pair, work.seeds, change='invariant head', options=head),
    Task(f'{name}_group', pair, work.seeds, change='exact moves'),
    Task(name, first, work.seeds, change='as many weights', options=width),
  ]


def halves(work: Reproduction, name: str) -> list[Task]:
  """Does it matter which of the test images are looked at?"""
  return [
    Task(name, work.pair(name), work.seeds, change=title, half=half)
    for half, title in enumerate(published_mlp.HALVES)
  ]


# What to train for a stage on a data set.
STAGES: dict[str, Callable[[Reproduction, str], list[Task]]] = {
  'tables': tables,
  'landscapes': landscapes,
  'searches': searches,
  'networks': networks,
  'recipes': recipes,
  'lessons': lessons,
  'halves': halves,
}


@contextlib.contextmanager
def timed(
  path: pathlib.Path, stage: str, bases: Sequence[str]
) -> Iterator[None]:
  """Appends to a file how long a stage ran until it finished or was stopped."""
  started = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
  start, state = time.perf_counter(), 'stopped'
  try:
    yield
    state = 'finished'
  finally:
    seconds = round(time.perf_counter() - start)
    print(f'{stage}: {state} after {seconds} s', flush=True)
    row = {
      'started': started,
      'stage': stage,
      'bases': ' '.join(bases),
      'state': state,
      'seconds': str(seconds),
      'machine': f'{os.cpu_count()} × {platform.machine()}',
    }
    if seconds:
      rows_lib.write(path, [*rows_lib.read(path), row])


def verify(work: Reproduction, count: int) -> int:
  """Retrains known children from scratch; returns 1 if any differs, else 0."""
  path = work.results / 'tables.csv'
  rows = rows_lib.read(path)
  if not rows:
    raise FileNotFoundError(
      f'{path} is not there, so there is nothing to retrain; run'
      ' --stage=tables first'
    )
  picked = np.random.default_rng(0).choice(len(rows), count, replace=False)
  differ = 0
  for known in (rows[i] for i in picked):
    names = {known['role']: known['symmetries'].split()}
    task = Task(known['dataset'], names, [int(known['seed'])])
    (again,) = retraining.train(task, store_lib.Results(), work.places)
    same = _numbers(known) == _numbers(again)
    differ += not same
    print(
      f'{known["dataset"]}, {known["symmetries"] or "no symmetry"}, seed'
      f' {known["seed"]}: {_numbers(known)};'
      f' {"the same" if same else f"now {_numbers(again)}"}',
      flush=True,
    )
  return int(differ > 0)


def _numbers(row: rows_lib.Row) -> str:
  """Returns all of a child that has to be reproduced."""
  return (
    f'{row["published"]} by the paper protocol, {row["honest"]} by the'
    f' validation protocol, {row["validation"]} in validation,'
    f' {row["weights"]} weights'
  )


if __name__ == '__main__':
  launch.run(main)
