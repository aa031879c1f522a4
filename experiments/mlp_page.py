"""The page's part about MLPs: the paper's tables, its searches, and ours."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import pathlib

import numpy as np

from aen.search import agent as agent_lib
from experiments import markdown
from experiments import mlp_results
from experiments import published_mlp
from experiments import stage_times
from experiments.mlp_results import Network
from experiments.published_mlp import Line

_TITLES = {'g_mnist': 'G-MNIST', 'g_fashion_mnist': 'G-Fashion-MNIST'}
_COLUMNS = ['none', *(names[0] for names in published_mlp.NETWORKS[1:])]


def sections(folder: pathlib.Path) -> Iterator[str]:
  """Yields the sections whose files are there."""
  tables = published_mlp.read(folder / 'tables.csv')
  if not tables:
    return
  yield "## The paper's MLP tables"
  yield ''
  yield (
    'Networks with one symmetry at most, on 10 000 images for ten epochs by the'
    " published recipe, in percent. *Paper's protocol*: the best epoch on the"
    ' same 1000 test images. *Honest*: the epoch that is best on 1000 other'
    ' validation images, all 10 000 test images. Columns have their true'
    ' meaning: the paper prints Eq6 to Eq12 in another order than IAug6 to'
    ' IAug12 ([errata](docs/errata.md)).'
  )
  yield ''
  yield from markdown.command('python -m experiments.reproduce --raw_dir=…')
  yield ''
  yield from times(folder / 'times.csv')
  for kind, configs in (
    ('one symmetry', published_mlp.SINGLE),
    ('several symmetries', published_mlp.MULTIPLE),
  ):
    for base, title in _TITLES.items():
      if not mlp_results.has(tables, base, configs):
        continue
      ours = mlp_results.grid(tables, base, configs)
      paper = published_mlp.table(base, configs)
      yield ''
      yield f'### {title}, {kind}'
      yield ''
      yield f'{mlp_results.compare(ours, paper)}.'
      yield ''
      if configs is published_mlp.SINGLE:
        yield from single_table(base, title, ours, paper)
      else:
        yield from multiple_table(base, tables, paper)
  yield ''
  yield flattery(tables)
  if retrained := published_mlp.read(folder / 'networks.csv'):
    others = published_mlp.read(folder / 'recipes.csv')
    yield ''
    yield from searches(tables, retrained, others)
    if others:
      yield ''
      lessons = published_mlp.read(folder / 'lessons.csv')
      yield from causes([*retrained, *others, *lessons])
  if either := published_mlp.read(folder / 'halves.csv'):
    yield ''
    yield from halves(either)


def times(path: pathlib.Path) -> Iterator[str]:
  """Yields how long it took, and where."""
  rows = stage_times.read(path)
  if not rows:
    return
  stopped = sum(row['state'] == stage_times.STOPPED for row in rows)
  machines = ', '.join(dict.fromkeys(row['machine'] for row in rows))
  yield (
    f'All stages together {stage_times.running(rows) / 60:.0f} minutes'
    f' ([which](results/mlp/{path.name}); when two ran side by side, their time'
    f' counts once), stopped {stopped} times and gone on with; {machines}.'
  )


def single_table(
  base: str, title: str, ours: np.ndarray, paper: np.ndarray
) -> Iterator[str]:
  """Yields what the table of single symmetries says. [13, 13]."""
  yield (
    'Does a network suit the images that were moved by its symmetry?'
    f' {mlp_results.diagonals(ours, paper)}.'
  )
  yield ''
  yield f'![{title}: paper and ours](results/mlp/{base}_single.png)'
  yield ''
  rows = [
    [config, *(f'{o:.1f} ({p:.1f})' for o, p in zip(mine, theirs, strict=True))]
    for config, mine, theirs in zip(
      published_mlp.SINGLE, ours, paper, strict=True
    )
  ]
  yield from markdown.folded(
    "Row by row: ours (paper's)", markdown.table(['data', *_COLUMNS], rows)
  )


def multiple_table(
  base: str, lines: Sequence[Line], paper: np.ndarray
) -> Iterator[str]:
  """Yields the table of several symmetries, by both protocols."""
  found = {(n.dataset, n.role): n for n in mlp_results.networks(lines)}
  rows = []
  for config, row in zip(published_mlp.MULTIPLE, paper, strict=True):
    cells = []
    for names, theirs in zip(published_mlp.NETWORKS, row, strict=True):
      network = found[f'{base}/{config}', ' '.join(names) or 'plain']
      cells.append(f'{network.published} ({theirs:.1f}); {network.honest}')
    rows.append([config, *cells])
  yield from markdown.folded(
    "Row by row: paper's protocol, mean ± s.d. of the seeds (paper); honest",
    markdown.table(['data', *_COLUMNS], rows),
  )


def flattery(lines: Sequence[Line]) -> str:
  """Says how much better the paper's protocol makes networks look."""
  found = mlp_results.networks(lines)
  gaps = [n.published.mean - n.honest.mean for n in found]
  return (
    "The paper's protocol flatters: on average over these"
    f' {len(found)} networks its number is {np.mean(gaps):.2f} points above the'
    ' honest one of the same children.'
  )


def searches(
  tables: Sequence[Line], retrained: Sequence[Line], others: Sequence[Line]
) -> Iterator[str]:
  """Yields what the searches found, beside the paper's AEN column."""
  rows = mlp_results.found(tables, retrained, others)
  papers = {n.dataset: n for n in _with_role(retrained, 'paper')}
  yield "## What the paper's search finds"
  yield ''
  yield (
    'The DQN searches each data set on its landscape (one seed of each network,'
    ' 4000 images, four epochs, validation images), and its four best networks'
    " are trained again at the paper's size. *Paper's protocol*: the best of"
    ' the four by the very test images that are reported, as in the paper, by'
    ' the published recipe and by ours (initial weights by the fan-in, a fresh'
    ' order in every epoch, a learning rate that falls along half a cosine; as'
    ' many images and epochs). *Honest*, by the published recipe: the best of'
    ' the four, and the best of the thirteen networks with one symmetry at'
    ' most, by validation images; all test images. Mean ± s.d. of the seeds.'
  )
  yield ''
  yield from markdown.table(
    [
      *('data', "paper's AEN", 'its network, trained here', "paper's protocol"),
      *('network', 'weights', "paper's protocol, our recipe"),
      *('honest', 'best single, honest'),
    ],
    [_found_row(row, papers) for row in rows],
  )
  yield ''
  yield average(rows)
  yield ''
  yield from short_rows(rows)
  yield ''
  yield honest(rows)
  yield ''
  yield (
    'Networks in the order in which each search met them; and, as the paper'
    ' draws its searches, the mean accuracy of the steps made with each ε (a'
    f' search ends after {agent_lib.DQNConfig().max_steps} steps, some before'
    ' the last ε).'
  )
  yield ''
  yield '![The twelve searches](results/mlp/searches.png)'
  yield ''
  yield '![Mean accuracy at each ε](results/mlp/curves.png)'
  yield ''
  yield from markdown.folded(
    'The four best networks of each search, their weights and accuracies',
    top_states(retrained),
  )


def _with_role(lines: Sequence[Line], role: str) -> list[Network]:
  return [n for n in mlp_results.networks(lines) if n.role.startswith(role)]


def _found_row(
  row: mlp_results.Found, papers: Mapping[str, Network]
) -> list[str]:
  return [
    row.dataset,
    f'{row.paper:.1f}',
    str(papers[row.dataset].published) if row.dataset in papers else '',
    str(row.published.published),
    markdown.words(row.published.symmetries),
    str(row.published.weights),
    str(row.better.published) if row.better else '',
    str(row.honest.honest),
    f'{row.single.honest} ({markdown.words(row.single.symmetries)})',
  ]


def average(rows: Sequence[mlp_results.Found]) -> str:
  """Says how the average of all data sets compares with the paper's."""
  return ' '.join(
    f"Averaged over {len(column)} data sets, paper's protocol:"
    f' {np.mean([network.published.mean for _, network in column]):.2f} by'
    f" {recipe}, the paper's {np.mean([row.paper for row, _ in column]):.2f}."
    for recipe, column in _columns(rows).items()
  )


def _columns(
  rows: Sequence[mlp_results.Found],
) -> dict[str, list[tuple[mlp_results.Found, Network]]]:
  """Returns what was found, by recipe, with the rows that have it."""
  columns = {
    'the published recipe': [(row, row.published) for row in rows],
    published_mlp.OURS: [(row, row.better) for row in rows if row.better],
  }
  return {recipe: column for recipe, column in columns.items() if column}


def short_rows(rows: Sequence[mlp_results.Found]) -> Iterator[str]:
  """Says which rows fall short of the paper's by more than chance."""
  yield (
    "Rows below the paper's by more than two combined standard errors (our"
    " seeds', and both drawings of 1000 test images):"
  )
  yield ''
  for recipe, column in _columns(rows).items():
    lacking = []
    for row, network in column:
      short = row.paper - network.published.mean
      error = mlp_results.combined_error(network, row.paper)
      if short > 2 * error:
        errors = f'{short / error:.1f} standard errors'
        lacking.append(f'{row.dataset} (by {short:.1f} points, {errors})')
    found = ', '.join(lacking) or 'none'
    yield f'- by {recipe}, {len(column)} rows: {found}.'


def honest(rows: Sequence[mlp_results.Found]) -> str:
  """Says what the search gains over the best single symmetry, honestly."""
  gains = [row.honest.honest.mean - row.single.honest.mean for row in rows]
  mean, margin = mlp_results.paired(gains)
  return (
    'Honestly, the search gains over the best single symmetry, averaged over'
    f' the {len(rows)} data sets: {mean:+.2f} points, 95 % interval'
    f' {mean - margin:+.2f} … {mean + margin:+.2f} (paired by data set).'
  )


def causes(lines: Sequence[Line]) -> Iterator[str]:
  """Yields what becomes of the search's first network if one thing differs."""
  found = {(n.dataset, n.role): n for n in mlp_results.networks(lines)}
  first, ours = 'search 1', published_mlp.OURS
  asked = {
    'the best in validation of all networks and seeds, instead': 'best',
    'SGD with momentum, as the text says, instead of Adam': f'{first}, sgd',
    'initial weights by the fan-in': f'{first}, fan-in',
    '… and a fresh order in every epoch': f'{first}, fan-in, fresh order',
    '… and a cosine, which is our recipe': f'{first}, {ours}',
    'our recipe, for the plain network': f'plain, {ours}',
    'an invariant head': f'{first}, invariant head',
  }
  yield "### Why a row differs from the paper's"
  yield ''
  yield (
    "What becomes of the search's first network, trained by the published"
    ' recipe, if one thing is changed: the search (its noise), the optimiser,'
    ' the initialisation, the head. Points, averaged over data sets, with 95 %'
    ' intervals (paired by data set).'
  )
  yield ''
  rows = []
  for title, role in asked.items():
    before = 'plain' if role.startswith('plain') else first
    pairs = [
      (found[dataset, role], found[dataset, before])
      for dataset, other in found
      if other == role
    ]
    if len(pairs) > 1:
      cells = [
        mlp_results.with_interval(
          [getattr(a, name).mean - getattr(b, name).mean for a, b in pairs]
        )
        for name in ('published', 'honest')
      ]
      rows.append([title, str(len(pairs)), *cells])
  yield from markdown.table(
    ['changed', 'data sets', "paper's protocol", 'honest'], rows
  )


def halves(lines: Sequence[Line]) -> Iterator[str]:
  """Yields how much easier one half of the test images is."""
  found = {(n.dataset, n.role): n for n in mlp_results.networks(lines)}
  first, last = published_mlp.HALVES
  yield (
    'Then there are the test images, of which the paper draws 1000 and does not'
    " say which. Points, paper's protocol, by the last 5000 test images less"
    ' by the first 5000, the same children; 95 % intervals over data sets:'
  )
  yield ''
  rows = []
  for base, title in _TITLES.items():
    cells = [
      mlp_results.with_interval(
        [
          each.published.mean
          - found[dataset, f'{role}, {first}'].published.mean
          for (dataset, other), each in found.items()
          if other == f'{role}, {last}' and dataset.startswith(f'{base}/')
        ]
      )
      for role in ('plain', 'search 1')
    ]
    rows.append([title, *cells])
  yield from markdown.table(
    ['data', 'the plain network', "the search's first network"], rows
  )


def top_states(retrained: Sequence[Line]) -> Iterator[str]:
  """Yields the best networks of every search."""
  return markdown.table(
    ['data', 'place', 'network', 'weights', "paper's protocol", 'honest'],
    [
      [
        network.dataset,
        network.role.removeprefix('search '),
        markdown.words(network.symmetries),
        str(network.weights),
        str(network.published),
        str(network.honest),
      ]
      for network in _with_role(retrained, 'search ')
    ],
  )
