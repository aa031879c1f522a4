r"""Writes RESULTS.md from the files in results/: no number on it is typed in.

  python -m experiments.results_page

Each section says which command made its files. Where they are there, it also
writes what the reproduction teaches (docs/lessons.md), the data card of the
landscapes (results/mlp/README.md), and the pictures of these pages.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import csv
import json
import pathlib

from absl import flags
from matplotlib import figure

from aen import io as io_lib
from aen.report import charts
from aen.report import style
from aen.search import result as result_lib
from experiments import gcnn_results
from experiments import landscape_card
from experiments import launch
from experiments import lessons_page
from experiments import markdown
from experiments import mlp_figures
from experiments import mlp_page
from experiments import mlp_results
from experiments import mlp_searches
from experiments import published_mlp

_ROOT = flags.DEFINE_string(
  'root', '.', 'The clone: where results/ is, and the pages go.'
)

Rows = list[dict[str, str]]


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
  folder = root / 'results'
  found = {'RESULTS.md': lines(folder)}
  landscapes = folder / 'mlp/landscapes.npz'
  if landscapes.exists():
    found['docs/lessons.md'] = lessons_page.lines(folder / 'mlp')
    found['results/mlp/README.md'] = landscape_card.lines(landscapes)
  return {name: '\n'.join(each) + '\n' for name, each in found.items()}


def pictures(
  folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, figure.Figure]]:
  """Yields the pictures of results whose files are there."""
  yield from mlp_pictures(folder / 'mlp')
  for path in sorted((folder / 'gcnn').glob('*/result.json')):
    result = json.loads(path.read_text('utf-8'))
    ranking = [result_lib.Ranked.from_json(each) for each in result['ranking']]
    bits = result_lib.from_spec(result['space']).bits
    yield path.with_name('frequencies.png'), charts.frequencies(ranking, bits)


def mlp_pictures(
  folder: pathlib.Path,
) -> Iterator[tuple[pathlib.Path, figure.Figure]]:
  """Yields the pictures of MLP results."""
  tables = published_mlp.read(folder / 'tables.csv')
  for base in published_mlp.BASES:
    configs = published_mlp.SINGLE
    if mlp_results.has(tables, base, configs):
      ours = mlp_results.grid(tables, base, configs)
      drawn = mlp_figures.tables(base, configs, ours)
      yield folder / f'{base}_single.png', drawn
  if found := lessons_page.known_landscapes(folder):
    marked = lessons_page.marks(folder, found)
    yield folder / 'landscapes.png', mlp_figures.spread(found, marked)
    searched = {
      name: (mlp_searches.read(path), landscape)
      for name, landscape in found.items()
      if (path := mlp_searches.path(folder, landscape)).exists()
    }
    if searched:
      yield folder / 'searches.png', mlp_figures.searches(searched)
      yield folder / 'curves.png', mlp_figures.curves(searched)
  gained = lessons_page.differences(lessons_page.changed(folder))
  if any(gained.values()):
    yield folder / 'gains.png', mlp_figures.gains(gained)


def lines(folder: pathlib.Path) -> Iterator[str]:
  """Yields the lines of the page of results, section by section."""
  yield '# Results'
  yield ''
  yield (
    'Made by `python -m experiments.results_page` from the files in'
    f' `{folder.name}/`; every section names the command that made its files.'
    ' Two CPU cores, no GPU.'
  )
  for section in (
    lambda folder: mlp_page.sections(folder / 'mlp'),
    strategies,
    published_cnns,
    searched_cnns,
  ):
    content = list(section(folder))
    if content:
      yield ''
      yield from content


def strategies(folder: pathlib.Path) -> Iterator[str]:
  """Which strategy finds a good network soonest."""
  rows = read(folder / 'strategies/summary.csv')
  if not rows:
    return
  yield '## Which strategy finds a good network soonest?'
  yield ''
  yield (
    'On landscapes, where every network of the twelve symmetries has been'
    ' trained. Regret: by how many points of test accuracy the network that a'
    ' search would choose falls short of the best one, after so many networks'
    ' trained; mean over the searches ± half a 95 % interval. In brackets the'
    ' same by the validation accuracies that the search sees: how well it'
    ' searches, apart from how well these tell networks apart.'
  )
  yield ''
  yield from markdown.command(
    'python -m experiments.compare_strategies --out=results/strategies \\',
    '  --landscapes=results/landscapes/g_mnist_aug5.npz,…',
  )
  yield ''
  yield '![Regret against networks trained](results/strategies/regret.png)'
  spents = list(dict.fromkeys(row['networks'] for row in rows))
  for landscape in dict.fromkeys(row['landscape'] for row in rows):
    chosen = [row for row in rows if row['landscape'] == landscape]
    by_strategy: dict[str, Rows] = {}
    for row in chosen:
      by_strategy.setdefault(row['strategy'], []).append(row)
    yield ''
    yield from markdown.table(
      [landscape, 'searches', *(f'{n} networks' for n in spents)],
      [
        [name, found[0]['searches'], *map(_regret, found)]
        for name, found in by_strategy.items()
      ],
    )


def _regret(row: dict[str, str]) -> str:
  regret, band, observed = (
    100 * float(row[name]) for name in ('regret', 'band', 'observed')
  )
  return f'{regret:.2f} ± {band:.2f} ({observed:.2f})'


def published_cnns(folder: pathlib.Path) -> Iterator[str]:
  """The paper's table of group CNNs."""
  rows = gcnn_results.read(folder / 'gcnn/published_gcnn.csv')
  if not rows:
    return
  seconds = sum(row.seconds * row.seeds for row in rows)
  yield "## The paper's group CNNs, and what it leaves out"
  yield ''
  yield (
    'Test accuracy in percent of the epoch that is best on validation images,'
    ' after ten epochs. Where the whole data set is not at hand, a part of it,'
    " so that the paper's numbers, from the whole, are no target; rows without"
    ' one are small networks that it leaves out: the plain CNN, the plain CNN'
    ' with turned and mirrored training images, the one that respects turns'
    f' and flips. {len(rows)} networks, {seconds / 60:.0f} minutes of training'
    ' on one core.'
  )
  yield ''
  yield from markdown.command(
    (folder / 'gcnn/commands.txt').read_text('utf-8').strip()
  )
  yield ''
  yield (
    'Symmetry, its lack, its replacement by turned and mirrored images, and its'
    ' replacement by a larger network (the standard error is of drawing the'
    ' test images; that of the seeds, where there are several, follows ±). At a'
    ' learning rate of 0.001 these are few steps: much of what differs is how'
    ' soon a network leaves its plateau, which depends on how its weights start'
    ' and, from seed to seed, on luck; a single row tells little.'
  )
  yield ''
  yield from gcnn_results.contrasts(rows)
  yield ''
  yield 'All of them:'
  yield ''
  yield from gcnn_results.table(rows)


def searched_cnns(folder: pathlib.Path) -> Iterator[str]:
  """Searches over group convolutions and augmentations."""
  paths = sorted((folder / 'gcnn').glob('*/result.json'))
  for number, path in enumerate(paths):
    if number:
      yield ''
    result = json.loads(path.read_text('utf-8'))
    trained = read(path.parent / 'children.csv')
    seconds = sum(float(row['seconds']) for row in trained)
    counts, images = result['counts'], result['num_images']
    yield f'## Group CNNs and augmentations searched: {result["dataset"]}'
    yield ''
    yield from markdown.command(
      (path.parent / 'command.txt').read_text('utf-8').strip()
    )
    yield ''
    yield (
      f'{result["verdict"]} ({counts["steps"]} steps, {counts["states"]}'
      f' states, {counts["networks"]} networks; {len(trained)} children in'
      f' {seconds / 60:.0f} minutes on one core. {images[0]} + {images[1]}'
      ' training and validation images.)'
    )
    yield ''
    yield from markdown.table(
      [
        *('place', 'network', 'weights', 'validation accuracy (%, ± s.e.)'),
        'retrained (%, ± s.e.)',
      ],
      [
        [
          str(place),
          ' + '.join(entry['symmetries']),
          str(entry['num_weights']),
          _percent(entry['search']),
          _percent(entry['retrained']),
        ]
        for place, entry in enumerate(result['ranking'][:8], start=1)
      ],
    )
    yield ''
    yield (
      '![How often the best networks have each choice]'
      f'({folder.name}/gcnn/{path.parent.name}/frequencies.png)'
    )


def _percent(score: dict[str, float] | None) -> str:
  if score is None:
    return ''
  error = 100 * score['standard_error']
  return f'{100 * score["accuracy"]:.1f} ± {error:.1f}'


def read(path: pathlib.Path) -> Rows:
  """Returns a CSV file's rows; none if it is not there."""
  if not path.exists():
    return []
  with open(path, newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


if __name__ == '__main__':
  launch.run(main)
