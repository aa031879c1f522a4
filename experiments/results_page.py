r"""Writes RESULTS.md from the files in results/: no number on it is typed in.

  python -m experiments.results_page

Each section says which command made its files. Also writes, if their files are
there, docs/lessons.md (what the reproduction teaches), results/mlp/README.md
(the data card of the landscapes), and the pictures of these pages. The prose is
in experiments/pages. Ten seconds.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import datetime
import functools
import hashlib
import json
import pathlib
import re
import string
import tomllib
from typing import Any

from absl import flags
from matplotlib import figure
import numpy as np
from scipy import stats

from aen import io as io_lib
from aen.data import transform
from aen.report import charts
from aen.report import style
from aen.search import agent as agent_lib
from aen.search import landscape as landscape_lib
from aen.search import result as result_lib
from experiments import figures
from experiments import launch
from experiments import published_mlp
from experiments import results
from experiments import retraining
from experiments import rows as rows_lib
from experiments import traces
from experiments.rows import markdown
from experiments.rows import table
from experiments.rows import words

_ROOT = flags.DEFINE_string(
  'root', '.', 'The clone: where results/ is, and the pages are written.'
)
_TEMPLATES = pathlib.Path(__file__).parent / 'pages'
_COLUMNS = ['none', *(names[0] for names in published_mlp.NETWORKS[1:])]
_COMPARISONS = tomllib.loads(
  (_TEMPLATES / 'comparisons.toml').read_text('utf-8')
)
_AT_EQUAL_SIZE = 'chosen with as many weights as the baseline, less baseline'
# Roles in files: what the search chose, as it is and widened; the baseline.
_FIRST, _WIDE = 'search 1', 'search 1, as many weights'
_BASELINE = retraining.BASELINE

Values = Mapping[str, object]  # what a section's placeholders stand for


def main(_: Sequence[str]) -> None:
  """Writes the pages and their pictures."""
  root = pathlib.Path(_ROOT.value)
  for name, content in pages(root).items():
    with io_lib.written_text(root / name) as file:
      file.write(content)
    print(f'wrote {root / name}')
  for path, drawn in pictures(root / 'results'):
    with io_lib.written_whole(path) as picture:
      picture.write(style.png(drawn))
    print(f'wrote {path}')


def pages(root: pathlib.Path) -> dict[str, str]:
  """Returns the text of every page whose files are there, by its path."""
  files = Files(root / 'results')
  found = {'RESULTS.md': fill('RESULTS.md', files)}
  if files.landscapes:
    found['docs/lessons.md'] = fill('lessons.md', files)
    found['results/mlp/README.md'] = fill('landscapes.md', files)
  return found


def fill(template: str, files: 'Files') -> str:
  """Fills in each section of a template, as often as there are values."""
  text = (_TEMPLATES / template).read_text('utf-8')
  parts = re.split(r'^<!-- section: (\w+) -->\n', text, flags=re.MULTILINE)
  blocks = [
    string.Template(section.strip()).substitute(values)
    for name, section in zip(parts[1::2], parts[2::2], strict=True)
    for values in SECTIONS[name](files)
  ]
  return '\n\n'.join(blocks) + '\n'


@dataclasses.dataclass(frozen=True)
class Files:
  """The folder of results."""

  folder: pathlib.Path

  def mlp(self, *names: str) -> list[rows_lib.Row]:
    """Returns the rows of the reproduction's files."""
    paths = [self.folder / f'mlp/{name}.csv' for name in names]
    return [row for path in paths for row in rows_lib.read(path)]

  def by_role(self, *names: str) -> dict[tuple[str, str], results.Network]:
    """Returns networks by data set and role."""
    found = results.networks(self.mlp(*names))
    return {(network.dataset, network.role): network for network in found}

  @functools.cached_property
  def landscapes(self) -> dict[str, landscape_lib.Landscape]:
    """All landscapes, by data set; none if they are not there."""
    path = self.folder / 'mlp/landscapes.npz'
    return landscape_lib.load_all(path) if path.exists() else {}

  @functools.cached_property
  def searches(self) -> dict[str, tuple[Any, landscape_lib.Landscape]]:
    """The searches that are there, each with its landscape, by data set."""
    found = {
      name: (traces.load_one(self.folder / 'mlp', landscape), landscape)
      for name, landscape in self.landscapes.items()
    }
    return {name: pair for name, pair in found.items() if pair[0] is not None}


def always(_: Files) -> Iterator[Values]:
  """A section without numbers."""
  yield {}


def mlp_tables(files: Files) -> Iterator[Values]:
  """What the tables are."""
  if files.mlp('tables'):
    yield {}


def mlp_times(files: Files) -> Iterator[Values]:
  """How long the reproduction took, and where."""
  if rows := files.mlp('times'):
    yield {
      'minutes': f'{running(rows) / 60:.0f}',
      'stopped': sum(row['state'] == 'stopped' for row in rows),
      'machines': ', '.join(dict.fromkeys(row['machine'] for row in rows)),
    }


def running(rows: Sequence[rows_lib.Row]) -> float:
  """Returns the seconds in which at least one stage was running."""
  total, until = 0.0, 0.0
  for row in sorted(rows, key=lambda row: row['started']):
    start = datetime.datetime.fromisoformat(row['started']).timestamp()
    end = start + float(row['seconds'])
    total += max(0.0, end - max(start, until))
    until = max(until, end)
  return total


def mlp_single(files: Files) -> Iterator[Values]:
  """The table of single symmetries of each base. [13, 13]."""
  configs = published_mlp.SINGLE
  for values, ours, paper in _grids(files, configs):
    rows = [
      [config, *(f'{o:.1f} ({p:.1f})' for o, p in zip(*cells, strict=True))]
      for config, *cells in zip(configs, ours, paper, strict=True)
    ]
    yield {
      **values,
      'diagonals': results.diagonals(ours, paper),
      'table': markdown(['data', *_COLUMNS], rows),
    }


def mlp_multiple(files: Files) -> Iterator[Values]:
  """The table of several symmetries of each base, by both protocols."""
  configs, found = published_mlp.MULTIPLE, files.by_role('tables')
  roles = [' '.join(n) or _BASELINE for n in published_mlp.NETWORKS]
  for values, _, paper in _grids(files, configs):
    rows = []
    for config, printed in zip(configs, paper, strict=True):
      ours = [found[f'{values["base"]}/{config}', role] for role in roles]
      cells = [
        f'{network.paper} ({theirs:.1f}); {network.test}'
        for network, theirs in zip(ours, printed, strict=True)
      ]
      rows.append([config, *cells])
    yield {**values, 'table': markdown(['data', *_COLUMNS], rows)}


def _grids(
  files: Files, configs: Sequence[str]
) -> Iterator[tuple[dict[str, str], np.ndarray, np.ndarray]]:
  """Yields what both tables say of each base, our numbers and the paper's."""
  rows = files.mlp('tables')
  for base, title in published_mlp.BASES.items():
    if results.has(rows, base, configs):
      ours = results.grid(rows, base, configs)
      paper = published_mlp.table(base, configs)
      compared = results.compare(ours, paper)
      values = {'base': base, 'title': title, 'compared': compared}
      yield values, ours, paper


def mlp_protocols(files: Files) -> Iterator[Values]:
  """How much better the paper protocol makes networks look."""
  if found := results.networks(files.mlp('tables')):
    gap = np.mean([n.paper.mean - n.test.mean for n in found])
    yield {'count': len(found), 'gap': f'{gap:.2f}'}


def mlp_searches(files: Files) -> Iterator[Values]:
  """What the searches found, beside the paper's AEN column."""
  retrained = files.mlp('networks')
  if not retrained:
    return
  found = results.found(files.mlp('tables'), retrained, files.mlp('recipes'))
  columns = {'the published recipe': [(row, row.paper) for row in found]}
  if ours := [(row, row.ours) for row in found if row.ours]:
    columns[published_mlp.OURS] = ours
  gains = [row.validation.test.mean - row.single.test.mean for row in found]
  mean, margin = results.paired(gains)
  yield {
    'table': _found_table(found, files.by_role('networks')),
    'averages': ' '.join(
      f'Averaged over {len(column)} data sets, paper protocol:'
      f' {np.mean([network.paper.mean for _, network in column]):.2f} by'
      f" {recipe}, the paper's {np.mean([r.printed for r, _ in column]):.2f}."
      for recipe, column in columns.items()
    ),
    'short': '\n'.join(
      f'- by {recipe}, {len(column)} rows: {_short(column)}.'
      for recipe, column in columns.items()
    ),
    'count': len(found),
    'gain': f'{mean:+.2f}',
    'interval': f'{mean - margin:+.2f} … {mean + margin:+.2f}',
    'max_steps': agent_lib.DQNConfig().max_steps,
    'top': table(
      [n for n in results.networks(retrained) if n.role.startswith('search ')],
      {
        'data': lambda n: n.dataset,
        'place': lambda n: n.role.removeprefix('search '),
        'network': lambda n: words(n.symmetries),
        'weights': lambda n: str(n.weights),
        'paper protocol': lambda n: str(n.paper),
        'validation protocol': lambda n: str(n.test),
      },
    ),
  }


def _found_table(
  found: Sequence[results.Found],
  networks: Mapping[tuple[str, str], results.Network],
) -> str:
  papers = {n.dataset: n.paper for n in networks.values() if n.role == 'paper'}
  return table(
    found,
    {
      'data': lambda row: row.dataset,
      "paper's AEN": lambda row: f'{row.printed:.1f}',
      'its network, trained here': lambda row: str(papers.get(row.dataset, '')),
      'paper protocol': lambda row: str(row.paper.paper),
      'network': lambda row: words(row.paper.symmetries),
      'weights': lambda row: str(row.paper.weights),
      'paper protocol, our recipe': lambda row: (
        str(row.ours.paper) if row.ours else ''
      ),
      'validation protocol': lambda row: str(row.validation.test),
      'best single, validation protocol': lambda row: (
        f'{row.single.test} ({words(row.single.symmetries)})'
      ),
    },
  )


def _short(column: Sequence[tuple[results.Found, results.Network]]) -> str:
  """Names the rows that fall short of the paper's by more than chance."""
  lacking = []
  for row, network in column:
    short = row.printed - network.paper.mean
    error = results.combined_error(network, row.printed)
    if short > 2 * error:
      errors = f'{short / error:.1f} standard errors'
      lacking.append(f'{row.dataset} (by {short:.1f} points, {errors})')
  return ', '.join(lacking) or 'none'


def mlp_causes(files: Files) -> Iterator[Values]:
  """What becomes of the search's first network if one thing differs."""
  if not (files.mlp('networks') and files.mlp('recipes')):
    return
  found = files.by_role('networks', 'recipes', 'lessons')
  rows = []
  for title, (role, before) in _COMPARISONS['causes'].items():
    pairs = _pairs(found, role, before).values()
    if len(pairs) > 1:
      paper = [a.paper.mean - b.paper.mean for a, b in pairs]
      test = [a.test.mean - b.test.mean for a, b in pairs]
      cells = map(results.with_interval, (paper, test))
      rows.append([title, str(len(pairs)), *cells])
  heads = ['changed', 'data sets', 'paper protocol', 'validation protocol']
  yield {'table': markdown(heads, rows)}


def _pairs(
  found: Mapping[tuple[str, str], results.Network], role: str, other: str
) -> dict[str, tuple[results.Network, results.Network]]:
  """Returns the networks of two roles, by the data sets that have the first."""
  return {
    dataset: (network, found[dataset, other])
    for (dataset, known), network in found.items()
    if known == role
  }


def mlp_halves(files: Files) -> Iterator[Values]:
  """How much easier one half of the test images is."""
  found, (first, last) = files.by_role('halves'), published_mlp.HALVES
  if not found:
    return

  def cell(base: str, role: str) -> str:
    pairs = _pairs(found, f'{role}, {last}', f'{role}, {first}').items()
    return results.with_interval(
      [a.paper.mean - b.paper.mean for d, (a, b) in pairs if d.startswith(base)]
    )

  rows = [
    [title, cell(f'{base}/', _BASELINE), cell(f'{base}/', _FIRST)]
    for base, title in published_mlp.BASES.items()
  ]
  heads = ['data', 'the baseline', "the search's first network"]
  yield {'table': markdown(heads, rows)}


def strategies(files: Files) -> Iterator[Values]:
  """How strategies were compared."""
  if _summary(files):
    yield {}


def strategies_landscape(files: Files) -> Iterator[Values]:
  """The regret of every strategy on each landscape."""
  rows = _summary(files)
  for landscape in dict.fromkeys(row['landscape'] for row in rows):
    yield {'table': results.regret_table(rows, landscape)}


def _summary(files: Files) -> list[rows_lib.Row]:
  return rows_lib.read(files.folder / 'strategies/summary.csv')


def gcnn_table(files: Files) -> Iterator[Values]:
  """The paper's table of group CNNs."""
  rows = rows_lib.read(files.folder / 'gcnn/published_gcnn.csv')
  if rows:
    seconds = sum(float(row['seconds']) * int(row['seeds']) for row in rows)
    commands = files.folder / 'gcnn/commands.txt'
    yield {
      'count': len(rows),
      'minutes': f'{seconds / 60:.0f}',
      'commands': commands.read_text('utf-8').strip(),
      'contrasts': results.gcnn_contrasts(rows),
      'table': results.gcnn_table(rows),
    }


def gcnn_searches(files: Files) -> Iterator[Values]:
  """Searches over group convolutions and augmentations."""
  for path in sorted((files.folder / 'gcnn').glob('*/result.json')):
    result = json.loads(path.read_text('utf-8'))
    trained = rows_lib.read(path.parent / 'children.csv')
    seconds = sum(float(row['seconds']) for row in trained)
    train, validation = result['num_images'][:2]
    yield {
      **result['counts'],
      'dataset': result['dataset'],
      'command': (path.parent / 'command.txt').read_text('utf-8').strip(),
      'verdict': result['verdict'],
      'children': len(trained),
      'minutes': f'{seconds / 60:.0f}',
      'train': train,
      'validation': validation,
      'folder': path.parent.name,
      'table': table(
        enumerate(result['ranking'][:8], start=1),
        {
          'place': lambda entry: str(entry[0]),
          'network': lambda entry: ' + '.join(entry[1]['symmetries']),
          'weights': lambda entry: str(entry[1]['num_weights']),
          'validation accuracy (%, ± s.e.)': lambda entry: _percent(
            entry[1]['search']
          ),
          'retrained (%, ± s.e.)': lambda entry: _percent(
            entry[1]['retrained']
          ),
        },
      ),
    }


def _percent(score: Mapping[str, float] | None) -> str:
  if score is None:
    return ''
  error = 100 * score['standard_error']
  return f'{100 * score["accuracy"]:.1f} ± {error:.1f}'


GENERATING = 'the symmetries that the data were made with'
SEARCHED = "the DQN's choice"
BEST = 'the best in validation'
MARKS = ('baseline', GENERATING, BEST, SEARCHED)


def marks(files: Files) -> dict[str, dict[str, int]]:
  """Returns the networks to point out, by data set and by what they are."""
  marked = {}
  for name, landscape in files.landscapes.items():
    config = transform.CONFIGS[name.split('/')[1]]
    marked[name] = {
      'baseline': 0,
      GENERATING: landscape.network(config.symmetries),
      BEST: int(landscape.values('validation').argmax()),
    }
    if name in files.searches:
      (first,) = traces.top_networks(*files.searches[name], 1)
      marked[name][SEARCHED] = first
  return marked


def agreement(files: Files) -> Iterator[Values]:
  """Where optimum, search and generating symmetries differ."""
  marked, rows = marks(files), []
  for name, landscape in files.landscapes.items():
    values, networks = 100 * landscape.values(), marked[name]
    places = stats.rankdata(-values, method='min').astype(int)
    cells = [
      f'{values[networks[kind]]:.1f} ({places[networks[kind]]}.)'
      if kind in networks
      else ''
      for kind in MARKS
    ]
    best = words(' '.join(landscape.names(networks[BEST])))
    related = stats.spearmanr(landscape.weights, values).statistic
    rows.append([name, *cells, best, f'{related:+.2f}'])
  heads = ['data', *MARKS, 'the best is', 'correlation with log weights']
  yield {
    'table': markdown(heads, rows),
    'count': len(marked),
    'same': sum(m[BEST] == m.get(SEARCHED) for m in marked.values()),
    'made': sum(m[BEST] == m[GENERATING] for m in marked.values()),
  }


def differences(files: Files) -> dict[str, dict[str, float]]:
  """Returns points gained, by what is compared and by data set."""
  found = files.by_role('networks', 'lessons')
  return {
    title: {
      name: found[name + end, better].test.mean
      - found[name + end, worse].test.mean
      for name, role in found
      if role == _WIDE
    }
    for title, (better, worse, end) in _COMPARISONS['contrasts'].items()
  }


def contrasts(files: Files) -> Iterator[Values]:
  """What becomes of a gain when one thing is changed."""
  found, gains = files.by_role('networks', 'lessons'), differences(files)
  names, details = [*gains[_AT_EQUAL_SIZE]], _COMPARISONS['details']
  if not names:
    return

  def cell(name: str, title: str) -> str:
    role, end = details[title]
    return f'{found[name + end, role].test.mean:.1f}'

  yield {
    'count': len(names),
    'seeds': min(found[name, _FIRST].num_seeds for name in names),
    'changed_seeds': min(found[name, _WIDE].num_seeds for name in names),
    'table': markdown(
      ['compared', 'difference'],
      [[k, results.with_interval([*v.values()])] for k, v in gains.items()],
    ),
    'verdict': verdict([*gains[_AT_EQUAL_SIZE].values()]),
    'details': markdown(
      ['data', *details],
      [[name, *(cell(name, title) for title in details)] for name in names],
    ),
  }


def verdict(gains: Sequence[float]) -> str:
  """Says whether symmetry helps at equal numbers of weights."""
  mean, margin = results.paired(gains)
  if mean - margin > 0:
    return (
      'With as many weights as the baseline the chosen network is still better:'
      ' it is the symmetry that helps.'
    )
  return (
    'With as many weights as the baseline the chosen network may be no better:'
    ' it cannot be told from these whether it is the symmetry that helps.'
  )


def card(files: Files) -> Iterator[Values]:
  """What is in the file of landscapes."""
  path, found = files.folder / 'mlp/landscapes.npz', files.landscapes.values()
  networks, seeds, epochs = next(iter(found)).validation.shape
  hours = sum(landscape.seconds.sum() for landscape in found) / 3600
  spreads = [
    each.test[..., -1].std(axis=1, ddof=1) if seeds > 1 else np.nan
    for each in found
  ]
  with np.load(path, allow_pickle=False) as stored:
    shapes = {
      f'shape_{name}': ' × '.join(map(str, stored[name].shape))
      for name in stored
    }
  yield {
    **shapes,
    'count': len(found),
    'networks': networks,
    'seeds': seeds,
    'epochs': epochs,
    'children': len(found) * networks * seeds,
    'hours': f'{hours:.1f}',
    'bytes': path.stat().st_size,
    'sha256': hashlib.sha256(path.read_bytes()).hexdigest(),
    'spread': f'{100 * float(np.mean(spreads)):.2f}',
  }


SECTIONS: dict[str, Callable[[Files], Iterator[Values]]] = {
  'introduction': always,
  'mlp_tables': mlp_tables,
  'mlp_times': mlp_times,
  'mlp_single': mlp_single,
  'mlp_multiple': mlp_multiple,
  'mlp_protocols': mlp_protocols,
  'mlp_searches': mlp_searches,
  'mlp_causes': mlp_causes,
  'mlp_halves': mlp_halves,
  'strategies': strategies,
  'strategies_landscape': strategies_landscape,
  'gcnn_table': gcnn_table,
  'gcnn_searches': gcnn_searches,
  'agreement': agreement,
  'contrasts': contrasts,
  'card': card,
}


def pictures(
  folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, figure.Figure]]:
  """Yields the pictures of results whose files are there."""
  files, mlp = Files(folder), folder / 'mlp'
  for values, ours, _ in _grids(files, published_mlp.SINGLE):
    drawn = figures.tables(values['base'], published_mlp.SINGLE, ours)
    yield mlp / f'{values["base"]}_single.png', drawn
  if files.landscapes:
    drawn = figures.spread(files.landscapes, marks(files))
    yield mlp / 'landscapes.png', drawn
  if files.searches:
    yield mlp / 'searches.png', figures.searches(files.searches)
    yield mlp / 'curves.png', figures.curves(files.searches)
  gained = differences(files)
  if any(gained.values()):
    yield mlp / 'gains.png', figures.gains(gained)
  for path in sorted((folder / 'gcnn').glob('*/result.json')):
    result = json.loads(path.read_text('utf-8'))
    ranking = [result_lib.Ranked.from_json(each) for each in result['ranking']]
    bits = result_lib.from_spec(result['space']).bits
    yield path.with_name('frequencies.png'), charts.frequencies(ranking, bits)


if __name__ == '__main__':
  launch.run(main)
