"""The report of a search: which pictures, which tables, in which words."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import json
import pathlib
from typing import Any
from typing import NamedTuple

from matplotlib import figure
import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.groups import symmetries as symmetries_lib
from aen.nn import convert
from aen.nn import dense as dense_lib
from aen.report import charts
from aen.report import diagram
from aen.report import page
from aen.report import patterns
from aen.report import ranking as ranking_lib
from aen.report import samples
from aen.report import style
from aen.search import result as result_lib

_MAX_OUTPUTS = 8  # of one orbit, drawn as images


class Picture(NamedTuple):
  """One figure of the report.

  Attributes:
    name: Of its file, without ending.
    figure: What is drawn.
    alt: What it shows, for those who cannot see it.
    caption: How to read it.
  """

  name: str
  figure: figure.Figure
  alt: str
  caption: str


def write(
  result: result_lib.SearchResult,
  data: dataset_lib.Dataset,
  run_dir: io_lib.PathLike,
) -> pathlib.Path:
  """Writes report.html, one file that needs no other, and its figures as PNG.

  Args:
    result: What the search found.
    data: The images that it was given.
    run_dir: Where to write. If it holds the search's config.json, the report
      tells the configuration too.

  Returns:
    The path of report.html.
  """
  run_dir = pathlib.Path(run_dir)
  sections = list(_verdict(result, data))
  for heading, content in (
    ('Ranking', _ranking(result)),
    ('Size and structure', _structure(result)),
    ('The chosen network', _chosen(result)),
    ('The course of the search', _course(result)),
    ('The data', _data(data)),
  ):
    if shown := list(_section(content, run_dir)):
      sections += [page.heading(heading), *shown]
  sections += _loading(result, run_dir)
  sections += _configuration(run_dir)
  path = run_dir / 'report.html'
  with io_lib.written_text(path) as file:
    file.write(page.page(f'aen: {result.dataset}', sections))
  return path


def _section(
  content: Iterable[str | Picture], run_dir: pathlib.Path
) -> Iterator[str]:
  """Draws the pictures, neighbours in one row."""
  groups: Any = itertools.groupby(content, _is_picture)
  for drawn, parts in groups:
    if drawn:
      yield page.row(_drawn(part, run_dir) for part in parts)
    else:
      yield from parts


def _is_picture(part: str | Picture) -> bool:
  return isinstance(part, Picture)


def _drawn(picture: Picture, run_dir: pathlib.Path) -> str:
  png = style.png(picture.figure)
  with io_lib.written_whole(run_dir / f'{picture.name}.png') as file:
    file.write(png)
  return page.picture(png, picture.alt, picture.caption)


def _verdict(
  result: result_lib.SearchResult, data: dataset_lib.Dataset
) -> Iterator[str]:
  best, num_images = result.best, result.num_images
  helper = result.space.helper
  yield page.heading(f'Which {helper} helps on {result.dataset}?', level=1)
  yield page.paragraph(
    f'{num_images[0]} training, {num_images[1]} validation and'
    f' {num_images[2]} test images of {_sides(data.image_shape)} pixels,'
    f' {data.num_classes} classes.',
    'quiet',
  )
  yield page.paragraph(result.verdict, 'verdict')
  base = (
    _percent(best.baseline_accuracy),
    f'of test images right, without {helper}',
  )
  if result.is_baseline:
    yield page.tiles([base])
    return
  gain = best.gain
  yield page.tiles(
    [
      (_percent(best.accuracy), f'of test images right, {best.name}'),
      base,
      (
        f'{100 * gain.mean:+.1f} points',
        f'gain, 95 % interval {100 * gain.low:+.1f} … {100 * gain.high:+.1f}',
      ),
    ]
  )


def _percent(share: float) -> str:
  return f'{100 * share:.1f} %'


def _ranking(result: result_lib.SearchResult) -> Iterator[str | Picture]:
  ranking = result.ranking
  finalists = sum(entry.retrained is not None for entry in ranking)
  yield page.paragraph(
    f'All {len(ranking)} networks that were trained, best first: the'
    f' {finalists} finalists by the score they reached when retrained, then the'
    ' others by their score in the search. The score is what the search was'
    ' told to raise, accuracy or likelihood. All in percent, on validation'
    ' images, accuracies with 95 % intervals. A click on a heading sorts.'
  )
  yield ranking_lib.table(ranking, result.baseline)
  yield Picture(
    'top_networks',
    charts.top_networks(ranking, base=result.baseline),
    'Validation accuracies of the best networks with 95 % intervals',
    'The first of the ranking. Retrained networks have seen more epochs and'
    ' several seeds, so compare green with green, grey with grey.',
  )
  yield Picture(
    'frequencies',
    charts.frequencies(ranking, result.space.bits),
    'How many of the best networks have each choice, and of all that were'
    ' trained',
    'What the best networks of the ranking have in common. Where a bar reaches'
    ' beyond its diamond, the best have a choice more often than all do.',
  )


def _structure(result: result_lib.SearchResult) -> Iterator[str | Picture]:
  ranking, lattice = result.ranking, result.space.lattice
  if lattice is None:
    return
  yield Picture(
    'weights',
    charts.weights_against_accuracy(ranking),
    'Validation accuracy of every network over its number of free weights',
    'More symmetry means fewer free weights. Every dot is one network as it was'
    ' trained in the search, with its 95 % interval.',
  )
  values = {entry.network: entry.search.accuracy for entry in ranking}
  yield Picture(
    'lattice',
    diagram.lattice_diagram(lattice, values, ranking[0].network),
    'The lattice of distinct networks, coloured by validation accuracy',
    f'{len(lattice.network_of)} sets of symmetries make {len(lattice)} distinct'
    ' networks. A line joins a network to the next one that respects more; the'
    ' coloured lines are all that the chosen one contains.',
  )


def _chosen(result: result_lib.SearchResult) -> Iterator[str | Picture]:
  first = next(iter(result.best.model.sublayers().values()))
  if isinstance(first, dense_lib.EquivariantDense):
    yield from _dense_layer(result.best, first)
  else:
    yield from _group_cnn(result)


def _group_cnn(result: result_lib.SearchResult) -> Iterator[str | Picture]:
  model, weights = result.best.model, result.ranking[0].num_weights
  yield page.paragraph(
    f'{result.best.name}: its features have {model.widths()[0]} channels for'
    f' each of {model.group().order} group elements; it has'
    f' {style.spaced(weights)} weights. Augmentations acted on training images'
    ' only.'
  )
  if model.symmetries:
    yield _orbits(model.symmetries, result.space.image_shape[:2])


def _dense_layer(
  best: result_lib.Best, layer: dense_lib.EquivariantDense
) -> Iterator[str | Picture]:
  sharing = layer.sharing()
  free, entries = sharing.num_weights, sharing.kernel.size
  channels = ' per pair of channels' if layer.features is not None else ''
  yield page.paragraph(
    f'{best.name}: the first layer maps {_sides(layer.in_shape)} pixels to'
    f' {_sides(layer.out_shape)} points with {style.spaced(free)} free weights'
    f' in place of {style.spaced(entries)}{channels}.'
  )
  if not best.symmetries:
    return
  yield _orbits(layer.symmetries, layer.in_shape)
  yield Picture(
    'sharing',
    patterns.sharing_matrix(sharing),
    'The sharing pattern of the first layer as a coloured matrix',
    'Entries of one colour are one weight. Of a large layer some orbits are'
    ' shown, parted by white lines; the blocks share no weights.',
  )
  outputs = _one_orbit(sharing.bias, layer.out_shape)
  if len(outputs) > 1:
    kernel = _kernel(layer, best.variables['params'][layer.name])
    yield Picture(
      'kernel',
      patterns.kernel_images(kernel, layer.in_shape, layer.out_shape, outputs),
      'Trained weights of outputs of one orbit, as images',
      'The trained weights with which outputs of one orbit look at the image:'
      ' one picture, moved by the symmetries.',
    )


def _orbits(
  symmetries: symmetries_lib.SymmetryLike, grid: Sequence[int]
) -> Picture:
  return Picture(
    'orbits',
    patterns.orbit_grid(symmetries, grid),
    'Orbits of pixels on the image grid',
    'Pixels of one colour are carried onto each other by the symmetries: the'
    ' network treats them alike.',
  )


def _sides(grid: Sequence[int]) -> str:
  return ' × '.join(str(side) for side in grid)


def _one_orbit(labels: np.ndarray, grid: Sequence[int]) -> np.ndarray:
  """Returns some outputs of one orbit, away from the middle and the edges."""
  point = np.ravel_multi_index((grid[0] // 4, grid[1] // 3), grid)
  return np.flatnonzero(labels == labels[point])[:_MAX_OUTPUTS]


def _kernel(
  layer: dense_lib.EquivariantDense, params: Mapping[str, Any]
) -> np.ndarray:
  """Returns the dense kernel from the first channel to the first. [N, M]."""
  dense = np.asarray(convert.to_dense(layer, params)['kernel'])
  num_in, num_out = layer.sharing().kernel.shape
  features = dense.shape[1] // num_out
  return dense.reshape(num_in, -1, num_out, features)[:, 0, :, 0]


def _course(result: result_lib.SearchResult) -> Iterator[str | Picture]:
  counts, space = result.counts, result.space
  children = sum(
    score.num_seeds
    for entry in result.ranking
    for score in (entry.search, entry.retrained)
    if score is not None
  )
  yield page.tiles(
    [
      (style.spaced(counts.steps), 'steps: states proposed'),
      (
        style.spaced(counts.states),
        f'different states, of {len(space.network_of)}',
      ),
      (style.spaced(counts.networks), f'networks trained, of {len(space)}'),
      (style.spaced(children), 'children trained, retraining among them'),
    ]
  )
  if _is_sweep(result):
    yield page.paragraph('Every distinct network was trained once, in order.')
  elif result.trace:
    epsilons = [s.epsilon for s in result.trace if s.epsilon is not None]
    yield Picture(
      'search_curve',
      charts.search_curve(
        [step.value for step in result.trace],
        epsilons if len(epsilons) == len(result.trace) else None,
      ),
      'Score of each step of the search, rolling mean and best so far',
      'What the strategy proposed, step by step.',
    )
  if result.q_values:
    yield Picture(
      'q_values',
      charts.opinions(result.q_values, space.bits),
      "The agent's values of toggling each choice",
      'What the agent thinks, at the end, that toggling each choice is worth'
      ' (its reward, discounted), in the empty state and in the best one.',
    )


def _is_sweep(result: result_lib.SearchResult) -> bool:
  """Whether every network was proposed exactly once."""
  networks = sorted(int(result.space.network_of[s]) for s, *_ in result.trace)
  return networks == list(range(len(result.space)))


def _data(data: dataset_lib.Dataset) -> Iterator[Picture]:
  shown = min(data.num_classes, samples.MAX_CLASSES)
  yield Picture(
    'samples',
    samples.sample_images(
      data.train.images, data.train.labels, data.class_names
    ),
    'Training images of each class',
    f'The first training images of {shown} of {data.num_classes} classes, as'
    ' the networks see them.',
  )


def _loading(
  result: result_lib.SearchResult, run_dir: pathlib.Path
) -> Iterator[str]:
  names = [symmetry.name for symmetry in result.space.symmetries]
  own = [name for name in names if name not in symmetries_lib.SYMMETRIES]
  extra = f', symmetries=[{", ".join(own)}]' * bool(own)
  yield page.heading('Use the network')
  yield page.code(
    'import aen\n'
    f'result = aen.SearchResult.load({str(run_dir)!r}{extra})\n'
    'classes = result.best.predict(images)'
  )


def _configuration(run_dir: pathlib.Path) -> Iterator[str]:
  try:
    stored = json.loads((run_dir / 'config.json').read_text('utf-8'))
  except (FileNotFoundError, json.JSONDecodeError):
    return
  rows = [
    page.Row([page.Cell(name), page.Cell(value)])
    for name, value in _flat(stored)
  ]
  columns = (page.Column('Name'), page.Column('Value'))
  content = page.table(columns, rows, 'Configuration', sortable=False)
  yield page.heading('Configuration')
  yield page.details('All options and versions', content)


def _flat(value: Any, prefix: str = '') -> Iterator[tuple[str, str]]:
  """Yields dotted names and values as text."""
  if isinstance(value, dict):
    for name, inner in value.items():
      yield from _flat(inner, f'{prefix}.{name}' if prefix else name)
  else:
    shown = value if isinstance(value, str) else json.dumps(value)
    yield prefix, shown
