r"""Reproduces the paper's MLP results, in one command.

Runs these stages in turn:

tables: networks with at most one symmetry, on images transformed by one
  ('single') and by several ('multiple'), compared with the paper's.
landscapes: every network on the twelve data sets Aug0 to Aug5 of both bases.
searches: the paper's search on each landscape.
networks: the networks that it found, the best of all, and those with the
  symmetries that the data were made with, trained at the paper's size.
recipes: the networks that it found, trained by other recipes, up to ours.
lessons: the first network found, widened to as many weights as the baseline,
  with an invariant head, and on images transformed by exact symmetries.
halves: the baseline and the first network found, evaluated on each half of the
  test images.

  python -m experiments.reproduce --raw_dir=path/to/files

Writes CSV files, landscapes and traces to --results; takes two hours from
scratch on two cores. The same command resumes an interrupted run, also on
another machine, because everything in --results counts as known. `python -m
experiments.results_page` then writes the pages. To check reproducibility, this
retrains three known children in half a minute, and exits with 1 if any differs:
  python -m experiments.reproduce --raw_dir=path/to/files --verify=3
To train only the tables, by another recipe, and write them to --run_dir:
  python -m experiments.reproduce --raw_dir=path/to/files --stage=tables \
    --table=multiple --base=g_mnist --initializer=fan_in --fresh_order
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import datetime
import functools
import itertools
import os
import pathlib
import platform
import sys
from typing import Any, NamedTuple

import numpy as np

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import transform
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import score
from aen.train import store as store_lib
from experiments import figures
from experiments import flags
from experiments import launch
from experiments import published_mlp
from experiments import results as results_lib
from experiments import rows as rows_lib
from experiments import traces

_STAGES = [
  'tables',
  'landscapes',
  'searches',
  'networks',
  'recipes',
  'lessons',
  'halves',
]
_BASES, _TABLES = list(published_mlp.BASES), list(published_mlp.TABLES)
_FLAGS = launch.define(
  stage=(_STAGES, 'Stages to run, in this order.', _STAGES),
  base=(_BASES, 'Images to transform.', _BASES),
  table=(_TABLES, 'Tables that the stage tables trains.', _TABLES),
  single_seeds=(1, 'Seeds of each network in the single tables.', 1),
  verify=(0, 'Only retrain this many known children.', 0),
  results=('results/mlp', 'Folder of results; those in it count as known.'),
  run_dir=('runs/reproduce', 'Folder of the store.'),
)
flags.from_fields(
  aen.SearchConfig, only=('num_seeds', 'top'), num_seeds=3, top=4
)
_RECIPE = flags.recipe(**vars(published_mlp.RECIPE))
_PLACES = flags.places()
_AGENT: dict[str, Any] = {}  # the paper's
_SEARCH_RECIPE = aen.Recipe(epochs=4, criterion='accuracy')
_space = functools.cache(mlp_space.mlp_space)  # by default with a dense head
BASELINE = published_mlp.BASELINE
KEY = ('role', 'dataset', 'seed')  # identifies a row


class Task(NamedTuple):
  """Networks to train on a data set.

  With `half`, the paper protocol uses that half of the test images, in the
  order of `published_mlp.HALVES`, instead of the paper's 1000 images.
  """

  dataset: str  # such as 'g_mnist/aug5'
  networks: Mapping[str, Sequence[str]]  # their symmetries, by role
  seeds: Sequence[int] | None = None  # None for --num_seeds of them
  recipe: recipe_lib.Recipe | None = None  # None for the published one
  change: str = ''  # what differs from the paper; appended to the roles
  half: int | None = None
  options: Mapping[str, Any] = {}  # of `mlp_space.mlp_space`


def main(_: list[str]) -> None:
  """Runs what is not known yet, stage by stage."""
  run_dir = io_lib.open_run(_FLAGS.run_dir, {'experiment': 'reproduce'})
  recipe, results = _RECIPE(10000), pathlib.Path(_FLAGS.results)
  if recipe != published_mlp.RECIPE:  # that of the known results
    if _FLAGS.stage != ['tables']:
      raise ValueError(
        'flags of the recipe are for --stage=tables, got'
        f' --stage={",".join(_FLAGS.stage)}; leave out one of them'
      )
    results = run_dir
  with (
    launch.resumable(),
    store_lib.Results(run_dir / 'results.sqlite') as store,
  ):
    if (results / 'children.csv.gz').exists():
      store.import_csv(results / 'children.csv.gz')
    if _FLAGS.verify:
      sys.exit(verify(results / 'tables.csv', recipe))
    work = Reproduction(store, run_dir, results, recipe)
    for stage in _FLAGS.stage:
      with timed(results / 'times.csv', stage):
        work.run(stage)
      if stage == 'tables':
        compare_tables(results / 'tables.csv', run_dir)


@dataclasses.dataclass(frozen=True)
class Reproduction:
  """The stages, methods that return what to train on a data set."""

  store: store_lib.Results
  run_dir: pathlib.Path
  results: pathlib.Path
  recipe: recipe_lib.Recipe  # of the tables

  def run(self, stage: str) -> None:
    """Runs a stage; writes its rows after each data set."""
    tables = _FLAGS.table if stage == 'tables' else ['multiple']
    configs = [c for kind in tables for c in published_mlp.TABLES[kind]]
    rows: list[rows_lib.Row] = []
    for base, config in itertools.product(_FLAGS.base, configs):
      for task in getattr(self, stage)(f'{base}/{config}'):
        rows += train(task, self.store)
      if rows:
        rows_lib.add(self.results / f'{stage}.csv', rows, KEY)
        self.store.export_csv(self.results / 'children.csv.gz')

  def tables(self, name: str) -> list[Task]:
    """The paper's tables; --num_seeds seeds where searches are compared."""
    single = name.split('/')[1] in published_mlp.TABLES['single']
    seeds = range(_FLAGS.single_seeds) if single else None
    networks = {' '.join(n) or BASELINE: n for n in published_mlp.NETWORKS}
    return [Task(name, networks, seeds, self.recipe)]

  def landscapes(self, name: str) -> list[Task]:
    """Trains every network; its results are a landscape, not rows."""
    path = self.results / 'landscapes.npz'
    found = landscape_lib.load_all(path) if path.exists() else {}
    seeds = range(_FLAGS.num_seeds)
    for landscape in found.values():
      if not np.array_equal(landscape.seeds, seeds):
        raise ValueError(
          f'{path} has landscapes of {len(landscape.seeds)} seeds, --num_seeds'
          f' asks for {_FLAGS.num_seeds}; choose another --results'
        )
    if name not in found:
      data = load_for_search(name)
      found[name] = landscape_lib.train_landscape(
        data,
        _space(data.image_shape, data.num_classes),
        _SEARCH_RECIPE,
        seeds,
        self.run_dir / 'landscapes',
      )
      landscape_lib.save_all(path, found.values())
      print(f'{name} is in {path}')
    return []

  def searches(self, name: str) -> list[Task]:
    """Runs the paper's search on the landscape, which trains nothing."""
    self.chosen(name)
    return []

  def chosen(self, name: str) -> dict[str, Sequence[str]]:
    """Returns the networks of a data set to retrain, by role.

    Searches its landscape, unless the search is known.
    """
    path = self.results / 'landscapes.npz'
    known = landscape_lib.load_all(path) if path.exists() else {}
    if name not in known:
      raise FileNotFoundError(
        f'{path} has no landscape of {name}; run --stage=landscapes first'
      )
    landscape = known[name]
    path = traces.path_of(self.results, landscape)
    trace = traces.load(path)
    if trace is None:
      trace = compare.search_landscape(
        traces.make_strategy(landscape, 'dqn', **_AGENT),
        landscape,
        np.array([0]),
        agent_lib.DQNConfig(**_AGENT).max_steps,
        vectorised=False,
      )
      traces.save(path, trace)
      print(f'wrote {path}')
    found = traces.top_networks(trace, landscape, _FLAGS.top)
    roles = {f'search {i}': n for i, n in enumerate(found, start=1)}
    roles['best'] = int(landscape.values('validation').argmax())
    return {
      **{role: landscape.names(network) for role, network in roles.items()},
      'paper': published_mlp.found()[name].symmetries.split(),
      'generating': transform.CONFIGS[name.split('/')[1]].symmetries,
      BASELINE: (),
    }

  def networks(self, name: str) -> list[Task]:
    """The networks found, the best one, and that of the data's symmetries."""
    return [Task(name, self.chosen(name))]

  def recipes(self, name: str) -> list[Task]:
    """The networks found, trained by other recipes."""
    roles = self.chosen(name)
    first = {'search 1': roles['search 1']}
    every = {r: n for r, n in roles.items() if r.startswith('search ')}
    every[BASELINE] = ()
    ours = published_mlp.OURS
    return [
      Task(name, every if title == ours else first, None, recipe, title)
      for title, recipe in published_mlp.RECIPES.items()
    ]

  def lessons(self, name: str) -> list[Task]:
    """Is it the symmetry, or fewer weights? The head? The way data are made?"""
    pair = self.pair(name)
    first = {'search 1': pair['search 1']}
    wide = aen.EquivariantMLP(
      pair['search 1'], in_shape=(28, 28), width_matched=True
    )
    head, width = {'head': 'invariant'}, {'features': wide.widths()}
    return [
      Task(name, pair, change='invariant head', options=head),
      Task(f'{name}_group', pair, change='exact moves'),
      Task(name, first, change='as many weights', options=width),
    ]

  def halves(self, name: str) -> list[Task]:
    """Does it matter which test images are used?"""
    return [
      Task(name, self.pair(name), change=title, half=half)
      for half, title in enumerate(published_mlp.HALVES)
    ]

  def pair(self, name: str) -> dict[str, Sequence[str]]:
    """Returns the baseline and the network that the search found."""
    roles = self.chosen(name)
    return {role: roles[role] for role in (BASELINE, 'search 1')}


def train(task: Task, store: store_lib.Results) -> list[rows_lib.Row]:
  """Trains children that are not in the store; returns a row for each."""
  data, few = load(task.dataset)
  if task.half is not None:
    halves = len(published_mlp.HALVES) * np.arange(len(few)) // len(few)
    few = halves == task.half
  space = _space(data.image_shape, data.num_classes, **task.options)
  recipe = task.recipe or published_mlp.RECIPE
  seeds = range(_FLAGS.num_seeds) if task.seeds is None else task.seeds
  asked = [(role, seed) for role in task.networks for seed in seeds]
  with evaluate_lib.progress_bar(task.dataset, len(asked)) as watch:
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=True,
      few=few,
      space=space,
      recipe=recipe,
      store=store,
      on_trained=watch,
    )
    networks = {r: space.network(names) for r, names in task.networks.items()}
    records = evaluate([(networks[role], seed) for role, seed in asked])
  change = task.change and f', {task.change}'
  return [
    row(record, role + change, data.name, task.networks[role], recipe.criterion)
    for (role, _), record in zip(asked, records, strict=True)
  ]


def row(
  record: store_lib.Record,
  role: str,
  dataset: str,
  symmetries: Sequence[str],
  criterion: str,
) -> rows_lib.Row:
  """Returns a child's row of a results file."""
  best = recipe_lib.best_epoch(record, criterion)
  values = {
    'role': role,
    'dataset': dataset,
    'symmetries': ' '.join(symmetries),
    'seed': record.key.seed,
    'weights': record.num_weights,
    'published': score.paper_protocol(record),
    'validation_protocol': score.validation_protocol(record, criterion),
    'validation': record.validation_accuracy[best],
    'seconds': record.seconds,
  }
  return {column: str(value) for column, value in values.items()}


def load(name: str) -> tuple[dataset_lib.Dataset, np.ndarray]:
  """Loads 10 000 training, 1000 validation and all N test images.

  Also returns which of the test images the paper uses. bool [N].
  """
  sizes = {'num_train': 10000, 'num_validation': 1000}
  data = aen.load_dataset(name, **sizes, **_PLACES())
  return data, few_of(data, aen.load_dataset(name, size='retrain', **_PLACES()))


def few_of(data: dataset_lib.Dataset, part: dataset_lib.Dataset) -> np.ndarray:
  """Returns which test images of a data set are in a part of it. bool [N]."""
  few = np.isin(data.test.indices, part.test.indices)
  if few.sum() != len(part.test):
    raise ValueError(
      f'{part!r} has test images that {data!r} lacks; load both with the same'
      ' name and seed'
    )
  return few


def load_for_search(name: str) -> dataset_lib.Dataset:
  """Loads the paper's sizes for a search, but 2000 test images to judge by."""
  return aen.load_dataset(name, size='search', num_test=2000, **_PLACES())


@contextlib.contextmanager
def timed(path: pathlib.Path, stage: str) -> Iterator[None]:
  """Appends to a file how long a stage ran until it ended."""
  started = datetime.datetime.now(datetime.UTC)
  state = 'stopped'
  try:
    yield
    state = 'finished'
  finally:
    ended = datetime.datetime.now(datetime.UTC)
    seconds = round((ended - started).total_seconds())
    print(f'{stage}: {state} after {seconds} s')
    row = {
      'started': started.isoformat(timespec='seconds'),
      'stage': stage,
      'bases': ' '.join(_FLAGS.base),
      'state': state,
      'seconds': str(seconds),
      'machine': f'{os.cpu_count()} × {platform.machine()}',
    }
    if seconds:
      rows_lib.write(path, [*rows_lib.read(path), row])


def compare_tables(path: pathlib.Path, folder: pathlib.Path) -> None:
  """Prints how far the tables of a file are from the paper's; draws them."""
  rows = rows_lib.read(path)
  for base, kind in itertools.product(_FLAGS.base, _FLAGS.table):
    configs = published_mlp.TABLES[kind]
    ours = results_lib.grid(rows, base, configs)
    paper = published_mlp.table(base, configs)
    print(f'{base}, {kind}: {results_lib.compare(ours, paper)}')
    if kind == 'single':
      print(results_lib.diagonals(ours, paper))
    picture = figures.tables(base, configs, ours)
    picture.savefig(folder / f'{base}_{kind}.png')


def verify(path: pathlib.Path, recipe: recipe_lib.Recipe) -> int:
  """Retrains children of a file from scratch; returns 1 if any differs."""
  rows = rows_lib.read(path)
  if not rows:
    raise FileNotFoundError(
      f'{path} does not exist, so there is nothing to retrain; run'
      ' --stage=tables first'
    )
  rng = np.random.default_rng(0)
  picked = rng.choice(len(rows), _FLAGS.verify, replace=False)
  columns = ('published', 'validation_protocol', 'validation', 'weights')
  differ = 0
  for known in (rows[i] for i in picked):
    names = {known['role']: known['symmetries'].split()}
    task = Task(known['dataset'], names, [int(known['seed'])], recipe)
    (again,) = train(task, store_lib.Results())
    before, now = (
      ', '.join(f'{column} {row[column]}' for column in columns)
      for row in (known, again)
    )
    differ += before != now
    child = f'{known["dataset"]}, {known["role"]}, seed {known["seed"]}'
    print(f'{child}: {before};', 'the same' if before == now else f'now {now}')
  return int(differ > 0)


if __name__ == '__main__':
  launch.run(main)
