r"""Writes RESULTS.md, with all its numbers computed from the files in results/.

  python -m experiments.results_page

Each section names the command that made its files. Where their files exist,
also writes docs/lessons.md (what the reproduction teaches),
results/mlp/README.md (the data card of the landscapes), and the pictures of
these pages. The text is in experiments/pages. Takes ten seconds.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from aen.train import score
from experiments import figures
from experiments import launch
from experiments import published_mlp
from experiments import results
from experiments import rows as rows_lib
from experiments import traces

_FLAGS = launch.define(
  root=('.', 'The clone: where results/ is, and the pages are written.'),
)
_TEMPLATES = pathlib.Path(__file__).parent / 'pages'
_PAGES = {
  'RESULTS.md': 'RESULTS.md',
  'docs/lessons.md': 'lessons.md',
  'results/mlp/README.md': 'landscapes.md',
}
_COMPARISONS = tomllib.loads(
  (_TEMPLATES / 'comparisons.toml').read_text('utf-8')
)
_AT_EQUAL_SIZE = 'chosen with as many weights as the baseline, less baseline'
# Roles in files: the network that the search chose, the same widened, and the
# baseline.
_FIRST, _WIDE = 'search 1', 'search 1, as many weights'
_BASELINE = published_mlp.BASELINE

Values = Mapping[str, Any]  # of the placeholders of a section


def main(_: list[str]) -> None:
  """Writes the pages and their pictures."""
  root = pathlib.Path(_FLAGS.root)
  for name, content in pages(root).items():
    with io_lib.written_text(root / name) as file:
      file.write(content)
    print(f'wrote {root / name}')
  for path, drawn in pictures(root / 'results'):
    with io_lib.written_whole(path) as picture:
      picture.write(style.png(drawn))
    print(f'wrote {path}')


def pages(root: pathlib.Path) -> dict[str, str]:
  """Returns the text of every page whose files exist, by path."""
  files = Files(root / 'results')
  found = {path: fill(name, files) for path, name in _PAGES.items()}
  return {path: text for path, text in found.items() if text}


def fill(template: str, files: 'Files') -> str:
  """Fills in the sections of a template whose files exist.

  The method of `files` with a section's name yields values; the section is
  repeated for each of them. `$name` becomes the value of that name; a line
  after `<!-- each: name -->` is repeated for every `row` in that value. A
  section without a method stays as it is.
  """
  text = (_TEMPLATES / template).read_text('utf-8')
  head = r'^<!-- section: (\w+)(?:, needs: (.*))? -->\n'
  parts = re.split(head, text, flags=re.MULTILINE)
  blocks = []
  sections = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
  for name, needs, section in sections:
    paths = (files.folder / path for path in (needs or '').split())
    if not all(path.exists() for path in paths):
      continue
    for values in getattr(files, name, lambda: [{}])():

      def repeated(line: re.Match[str], values: Values = values) -> str:
        return '\n'.join(line[2].format(row=row) for row in values[line[1]])

      block = string.Template(section.strip()).substitute(values)
      each = r'^<!-- each: (\w+) --> (.*)$'
      blocks.append(re.sub(each, repeated, block, flags=re.MULTILINE))
  return '\n\n'.join(blocks) + '\n' if blocks else ''


GENERATING = 'the symmetries that the data were made with'
SEARCHED = "the DQN's choice"
BEST = 'the best in validation'
MARKS = ('baseline', GENERATING, BEST, SEARCHED)


@dataclasses.dataclass(frozen=True)
class Files:
  """The folder of results, and the values of the pages' sections."""

  folder: pathlib.Path

  def mlp(self, *names: str) -> list[rows_lib.Row]:
    """Returns the rows of some of the reproduction's files."""
    paths = [self.folder / f'mlp/{name}.csv' for name in names]
    return [row for path in paths for row in rows_lib.read(path)]

  @functools.cached_property
  def networks(self) -> dict[tuple[str, str], results.Network]:
    """All networks except those of the tables, by data set and role."""
    found = self.mlp('networks', 'recipes', 'lessons', 'halves')
    return {(n.dataset, n.role): n for n in results.networks(found)}

  @functools.cached_property
  def landscapes(self) -> dict[str, landscape_lib.Landscape]:
    """All landscapes in the folder, by data set."""
    path = self.folder / 'mlp/landscapes.npz'
    return landscape_lib.load_all(path) if path.exists() else {}

  @functools.cached_property
  def searches(self) -> dict[str, tuple[Any, landscape_lib.Landscape]]:
    """All searches in the folder, with their landscapes, by data set."""
    return {
      name: (trace, landscape)
      for name, landscape in self.landscapes.items()
      if (trace := traces.load_one(self.folder / 'mlp', landscape))
    }

  @functools.cached_property
  def marks(self) -> dict[str, dict[str, int]]:
    """The networks to mark, by data set and by a key of `MARKS`."""
    marked = {}
    for name, landscape in self.landscapes.items():
      config = transform.CONFIGS[name.split('/')[1]]
      marked[name] = {
        'baseline': 0,
        GENERATING: landscape.network(config.symmetries),
        BEST: int(landscape.values('validation').argmax()),
      }
      if name in self.searches:
        (first,) = traces.top_networks(*self.searches[name], 1)
        marked[name][SEARCHED] = first
    return marked

  def gains(
    self, better: str, worse: str, by: str = 'test'
  ) -> dict[str, float]:
    """Returns the points that a role gains over another, by data set."""
    return {
      dataset.removesuffix('_group'): getattr(network, by).mean
      - getattr(self.networks[dataset, worse], by).mean
      for (dataset, role), network in self.networks.items()
      if role == better
    }

  @functools.cached_property
  def differences(self) -> dict[str, dict[str, float]]:
    """Points gained, by comparison and data set.

    Only of the data sets that all comparisons have; an unfinished stage lacks
    some.
    """
    compared = _COMPARISONS['contrasts'].items()
    gains = {title: self.gains(*roles) for title, roles in compared}
    names = [
      name
      for name in gains[_AT_EQUAL_SIZE]
      if all(name in each for each in gains.values())
    ]
    return {title: {n: each[n] for n in names} for title, each in gains.items()}

  def mlp_times(self) -> Iterator[Values]:
    """How long the reproduction took, overlaps counted once, and where."""
    rows = sorted(self.mlp('times'), key=lambda row: row['started'])
    seconds = until = 0.0
    for row in rows:
      start = datetime.datetime.fromisoformat(row['started']).timestamp()
      end = start + float(row['seconds'])
      seconds += max(0.0, end - max(start, until))
      until = max(until, end)
    yield {
      'minutes': f'{seconds / 60:.0f}',
      'stopped': sum(row['state'] == 'stopped' for row in rows),
      'machines': ', '.join(dict.fromkeys(row['machine'] for row in rows)),
    }

  def _tables(self, kind: str, cell: str) -> Iterator[Values]:
    """Yields a table for each base; `cell` formats our network and a number."""
    rows, configs = self.mlp('tables'), published_mlp.TABLES[kind]
    for base, title in published_mlp.BASES.items():
      if not (ours := results.cells(rows, base, configs)):
        continue
      paper = published_mlp.table(base, configs)
      means = results.grid(rows, base, configs)
      heads = ['data', *(' '.join(n) or 'none' for n in published_mlp.NETWORKS)]
      lines = [
        dict(zip(heads, (config, *map(cell.format, *cells)), strict=True))
        for config, *cells in zip(configs, ours, paper, strict=True)
      ]
      yield {
        'base': base,
        'title': title,
        'ours': means,
        'compared': results.compare(means, paper),
        'diagonals': kind == 'single' and results.diagonals(means, paper),
        'table': rows_lib.markdown(lines),
      }

  mlp_single = functools.partialmethod(
    _tables, 'single', '{0.paper.mean:.1f} ({1:.1f})'
  )
  mlp_multiple = functools.partialmethod(
    _tables, 'multiple', '{0.paper} ({1:.1f}); {0.test}'
  )

  def mlp_protocols(self) -> Iterator[Values]:
    """How much higher accuracies are by the paper protocol."""
    found = results.networks(self.mlp('tables'))
    gap = np.mean([n.paper.mean - n.test.mean for n in found])
    yield {'count': len(found), 'gap': f'{gap:.2f}'}

  def mlp_searches(self) -> Iterator[Values]:
    """The networks that the searches found, and the paper's AEN column."""
    retrained = self.mlp('networks')
    found = results.found(self.mlp('tables'), retrained, self.mlp('recipes'))
    columns = {'the published recipe': [(row, row.paper) for row in found]}
    if ours := [(row, row.ours) for row in found if row.ours]:
      columns[published_mlp.OURS] = ours
    gains = [row.validation.test.mean - row.single.test.mean for row in found]
    mean, margin = results.paired(gains)
    every = results.networks(retrained)
    yield {
      'found': found,
      'averages': ' '.join(
        f'Averaged over {len(column)} data sets, paper protocol:'
        f' {np.mean([network.paper.mean for _, network in column]):.2f} by'
        f" {recipe}, the paper's {np.mean([r.printed for r, _ in column]):.2f}."
        for recipe, column in columns.items()
      ),
      'short': [
        (recipe, len(column), results.shortfalls(column))
        for recipe, column in columns.items()
      ],
      'count': len(found),
      'gain': f'{mean:+.2f}',
      'interval': f'{mean - margin:+.2f} … {mean + margin:+.2f}',
      'max_steps': agent_lib.DQNConfig().max_steps,
      'top': [n for n in every if n.role.startswith('search ')],
    }

  def mlp_causes(self) -> Iterator[Values]:
    """The effect of single changes on the search's first network."""
    rows = []
    for title, roles in _COMPARISONS['causes'].items():
      both = [[*self.gains(*roles, by).values()] for by in ('paper', 'test')]
      if len(both[0]) > 1:
        rows.append((title, len(both[0]), *map(results.with_interval, both)))
    yield {'causes': rows}

  def mlp_halves(self) -> Iterator[Values]:
    """How much easier the last half of the test images is."""
    first, last = published_mlp.HALVES
    rows = []
    for base, title in published_mlp.BASES.items():
      cells = []
      for role in (_BASELINE, _FIRST):
        gains = self.gains(f'{role}, {last}', f'{role}, {first}', 'paper')
        own = [g for name, g in gains.items() if name.startswith(f'{base}/')]
        cells.append(results.with_interval(own))
      rows.append((title, *cells))
    yield {'bases': rows}

  def strategies(self) -> Iterator[Values]:
    """The regret of every strategy on each landscape."""
    rows = rows_lib.read(self.folder / 'strategies/summary.csv')
    names = dict.fromkeys(row['landscape'] for row in rows)
    tables = (results.regret_table(rows, name) for name in names)
    yield {'tables': '\n\n'.join(tables)}

  def gcnn_table(self) -> Iterator[Values]:
    """The paper's table of group CNNs."""
    rows = rows_lib.read(self.folder / 'gcnn/published_gcnn.csv')
    seconds = sum(float(row['seconds']) for row in rows)
    of_paper = [row for row in rows if row['paper'] and not row['recipe']]
    commands = self.folder / 'gcnn/commands.txt'
    yield {
      'count': len(rows),
      'done': len(rows_lib.by(('dataset', *results.GCNN_NETWORK), of_paper)),
      'hours': f'{seconds / 3600:.1f}',
      'commands': commands.read_text('utf-8').strip(),
      'shortfall': results.gcnn_shortfall(rows),
      'negative': results.gcnn_negative(rows),
      'gains': results.gcnn_gains(rows),
      'table': results.gcnn_table(rows),
    }

  @functools.cached_property
  def gcnn_results(self) -> dict[pathlib.Path, dict[str, Any]]:
    """The searches over group convolutions and augmentations, by file."""
    paths = sorted((self.folder / 'gcnn').glob('*/result.json'))
    return {path: json.loads(path.read_text('utf-8')) for path in paths}

  def gcnn_searches(self) -> Iterator[Values]:
    """Searches over group convolutions and augmentations."""
    for path, result in self.gcnn_results.items():
      trained = rows_lib.read(path.parent / 'children.csv')
      seconds = sum(float(row['seconds']) for row in trained)
      train, validation = result['num_images'][:2]
      ranking = []
      for place, each in enumerate(result['ranking'][:8], start=1):
        cells = [
          f'{100 * s["accuracy"]:.1f} ± {100 * s["standard_error"]:.1f}'
          if (s := each[kind])
          else ''
          for kind in ('search', 'retrained')
        ]
        names = ' + '.join(each['symmetries'])
        ranking.append((place, names, each['num_weights'], *cells))
      yield {
        **result,
        **result['counts'],
        'command': (path.parent / 'command.txt').read_text('utf-8').strip(),
        'children': len(trained),
        'minutes': f'{seconds / 60:.0f}',
        'train': train,
        'validation': validation,
        'folder': path.parent.name,
        'ranking': ranking,
      }

  def agreement(self) -> Iterator[Values]:
    """Where optimum, search and generating symmetries differ."""
    marked, rows = self.marks, []
    for name, landscape in self.landscapes.items():
      values, networks = 100 * landscape.values(), marked[name]
      places = stats.rankdata(-values, method='min').astype(int)
      row = {'data': name} | dict.fromkeys(MARKS, '')
      for kind, n in networks.items():
        row[kind] = f'{values[n]:.1f} ({places[n]}.)'
      best = landscape.names(networks[BEST])
      row['the best is'] = rows_lib.words(' '.join(best))
      related = stats.spearmanr(landscape.weights, values).statistic
      row['rank correlation with weights'] = f'{related:+.2f}'
      rows.append(row)
    yield {
      'table': rows_lib.markdown(rows),
      'count': len(marked),
      'same': sum(m[BEST] == m.get(SEARCHED) for m in marked.values()),
      'made': sum(m[BEST] == m[GENERATING] for m in marked.values()),
    }

  def contrasts(self) -> Iterator[Values]:
    """The gain of the chosen network, with single changes."""
    found, gains = self.networks, self.differences
    names, details = [*gains[_AT_EQUAL_SIZE]], _COMPARISONS['details']
    rows = [
      {'data': name}
      | {
        title: f'{found[name + end, role].test.mean:.1f}'
        for title, (role, end) in details.items()
      }
      for name in names
    ]
    yield {
      'count': len(names),
      'seeds': min(found[name, _FIRST].num_seeds for name in names),
      'changed_seeds': min(found[name, _WIDE].num_seeds for name in names),
      'gains': [
        (k, results.with_interval([*v.values()])) for k, v in gains.items()
      ],
      'verdict': verdict([*gains[_AT_EQUAL_SIZE].values()]),
      'details': rows_lib.markdown(rows),
    }

  def card(self) -> Iterator[Values]:
    """The contents of the file of landscapes."""
    path, found = self.folder / 'mlp/landscapes.npz', self.landscapes.values()
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


def verdict(gains: Sequence[float]) -> str:
  """Returns whether symmetry helps at equal numbers of weights, in words."""
  mean, margin = results.paired(gains)
  return _COMPARISONS['verdict']['better' if mean > margin else 'unclear']


def pictures(
  folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, figure.Figure]]:
  """Yields the pictures of all results whose files exist."""
  files, mlp = Files(folder), folder / 'mlp'
  for values in files.mlp_single():
    base, ours = values['base'], values['ours']
    drawn = figures.tables(base, published_mlp.SINGLE, ours)
    yield mlp / f'{base}_single.png', drawn
  if files.landscapes:
    drawn = figures.spread(files.landscapes, files.marks)
    yield mlp / 'landscapes.png', drawn
  if files.searches:
    yield mlp / 'searches.png', figures.searches(files.searches)
    yield mlp / 'curves.png', figures.curves(files.searches)
  if any(files.differences.values()):
    yield mlp / 'gains.png', figures.gains(files.differences)
  if rows := rows_lib.read(folder / 'gcnn/published_gcnn.csv'):
    yield folder / 'gcnn/epochs.png', figures.gcnn_epochs(rows)
  for path, result in files.gcnn_results.items():
    ranking = [
      result_lib.Ranked(**each | {'search': score.Score(**each['search'])})
      for each in result['ranking']
    ]
    bits = result_lib.from_spec(result['space']).bits
    yield path.with_name('frequencies.png'), charts.frequencies(ranking, bits)


if __name__ == '__main__':
  launch.run(main)
