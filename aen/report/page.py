"""The report of a search: one self-contained page, and its figures as files.

The page is written in page.html, page.css, page.js, figures.toml and
words.toml; this module fills in what a search found.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import html
import json
import pathlib
import re
import string
import struct
import tomllib
from typing import NewType

from matplotlib.figure import Figure
import numpy as np

from aen import io as io_lib
from aen.data.dataset import Dataset
from aen.groups import symmetries as symmetries_lib
from aen.nn.dense import EquivariantDense
from aen.report import charts
from aen.report import diagram
from aen.report import images
from aen.report import patterns
from aen.report import style
from aen.search import screen as screen_lib
from aen.search.result import SearchResult
from aen.train import score as score_lib
from aen.train import store as store_lib

_MAX_OUTPUTS = 8  # of one orbit, drawn as images
_PIXELS = 1.5  # of an image per pixel of the page, so that it can be magnified
_SMALL = 520  # images up to this width may share a row
_NUM_EXAMPLES = 3  # beside their transformed copies

_FIFTHS = ('lowest fifth', 'second', 'third', 'fourth', 'highest fifth')

Html = NewType('Html', str)


def write(
  result: SearchResult, data: Dataset, run_dir: io_lib.PathLike
) -> pathlib.Path:
  """Writes report.html, which needs no other file, and its figures as PNG.

  Args:
    result: The result of the search.
    data: The data set of the search.
    run_dir: Where to write. The configuration is included if there is a
      config.json.

  Returns:
    The path of report.html.
  """
  run_dir, busy = pathlib.Path(run_dir), None
  if (run_dir / 'results.sqlite').exists():
    with store_lib.Results(run_dir / 'results.sqlite') as store:
      busy = charts.utilisation(store.origins())
  words = {
    name: style.spaced(value) if isinstance(value, int) else value
    for name, value in _facts(result, data).items()
  }
  words['utilisation'] = busy.in_words if busy else ''
  parts = {name: text(value) for name, value in words.items()}
  parts['title'] = Html(html.escape(f'aen: {result.dataset}'))
  # The arguments of `SearchResult.load`.
  names = [symmetry.name for symmetry in result.space.symmetries]
  own = [name for name in names if name not in symmetries_lib.NAMED]
  functions = ', '.join(own).replace(':', '.')  # module:function, in Python
  extra = f', symmetries=[{functions}]' if own else ''
  parts['load'] = Html(html.escape(f'{str(run_dir)!r}{extra}'))
  parts['ranking'] = Html('\n'.join(_ranking(result)))
  parts['configuration'] = Html('\n'.join(_configuration(run_dir)))
  described = tomllib.loads(_read('figures.toml'))
  parts |= dict.fromkeys(described, Html(''))
  for name, drawn in _figures(result, data, busy):
    png = style.png(drawn)
    with io_lib.written_whole(run_dir / f'{name}.png') as file:
      file.write(png)
    caption = string.Template(described[name]['caption']).substitute(words)
    parts[name] = picture(png, described[name]['alt'], caption)
  path = run_dir / 'report.html'
  with io_lib.written_text(path) as file:
    file.write(render(parts))
  return path


def render(parts: Mapping[str, Html]) -> str:
  """Fills the parts, by name, into page.html.

  What stands between `<!-- if a b -->` and `<!-- end -->` is kept if part a or
  part b is not empty.
  """

  def kept(block: re.Match[str]) -> str:
    return block[2] if any(parts.get(name) for name in block[1].split()) else ''

  block = r'<!-- if ([\w ]+) -->\n(.*?)<!-- end -->\n'
  page = re.sub(block, kept, _read('page.html'), flags=re.DOTALL)
  own = {'style': _read('page.css'), 'script': _read('page.js')}
  return string.Template(page).substitute(parts, **own)


def _read(name: str) -> str:
  return pathlib.Path(__file__).with_name(name).read_text('utf-8')


def text(words: str) -> Html:
  """Escapes text for the content of an element.

  Lines may break after underscores, but not within a number or before its
  percent sign.

  >>> text('<b> has 1 234 weights')
  '&lt;b&gt; has 1&nbsp;234 weights'
  """
  escaped = html.escape(words).replace('_', '_<wbr>')
  return Html(re.sub(r'(?<=\d) (?=\d|%)', '&nbsp;', escaped))


def row(cells: Iterable[str | tuple[str, float | str]], kind: str = '') -> Html:
  """Returns a row of a table; its kind may be 'best' or 'baseline'.

  Cells are words, or pairs of a number as text and its value to sort by. Empty
  values come last.
  """
  shown = f'<tr class="{kind}">' if kind else '<tr>'
  for cell in cells:
    column = 'words' if isinstance(cell, str) else 'number'
    words, value = (cell, cell) if isinstance(cell, str) else cell
    value = html.escape(str(value))
    shown += f'<td class="{column}" data-value="{value}">{text(words)}</td>'
  return Html(f'{shown}</tr>')


def picture(png: bytes, alt: str, caption: str) -> Html:
  """Returns a figure with an embedded image."""
  data = base64.b64encode(png).decode('ascii')
  sides = struct.unpack('>II', png[16:24])
  width, height = (round(side / _PIXELS) for side in sides)
  start = '<figure class="small">' if width <= _SMALL else '<figure>'
  return Html(
    f'{start}<img width="{width}" height="{height}" alt="{html.escape(alt)}"'
    f' src="data:image/png;base64,{data}">'
    f'<figcaption>{text(" ".join(caption.split()))}</figcaption></figure>'
  )


def _facts(result: SearchResult, data: Dataset) -> dict[str, str | int]:
  """Returns the values of the names in page.html and figures.toml."""
  best, space, ranking = result.best, result.space, result.ranking
  scores = [score for e in ranking for score in (e.search, e.retrained)]
  # Baselines are trained even if they are never proposed.
  baselines = {space.baseline(entry.network) for entry in ranking}
  states = {step.state for step in result.trace}
  states |= {int(space.shortest_states[network]) for network in baselines}
  kind, scale = ('numbers', 1) if best.is_regression else ('classes', 100)
  numbers = {
    'num_classes': data.num_classes,
    'num_shown': min(data.num_classes, images.MAX_CLASSES),
    'accuracy': scale * best.accuracy,
    'baseline_accuracy': scale * best.baseline_accuracy,
    'gain': scale * best.gain.mean,
    'low': scale * best.gain.low,
    'high': scale * best.gain.high,
  }
  words = tomllib.loads(_read('words.toml'))
  said = {name: form.format(**numbers) for name, form in words[kind].items()}
  examples = f'examples of {_sides(data.image_shape)}'
  if data.grid_axes == 2:
    examples = f'images of {_sides(data.image_shape)} pixels'
  return said | {
    'dataset': result.dataset,
    'helper': space.helper,
    'num_train': result.num_images[0],
    'num_validation': result.num_images[1],
    'num_test': result.num_images[2],
    'examples': f'{examples}, {said["targets"]}',
    'measured': said['measure'].capitalize(),
    'copies': words['copies'][best.model.head],
    'verdict': result.answer,
    'screened': result.screening.verdict if result.screening else '',
    'name': best.name,
    'gain': '' if result.is_baseline else said['gain'],
    'num_trained': len(ranking),
    'num_finalists': sum(entry.retrained is not None for entry in ranking),
    'chosen': f'{best.name}: {_description(result)}',
    'num_steps': result.counts.steps,
    'num_trained_states': len(states),
    'num_states': len(space.network_of),
    'num_networks': len(space),
    'num_children': sum(score.num_seeds for score in scores if score),
    'sweep': 'yes' if _is_sweep(result) else '',
  }


def _sides(grid: Sequence[int]) -> str:
  return ' × '.join(map(str, grid))


def _description(result: SearchResult) -> str:
  """Describes the first layer of the chosen network."""
  if layer := _dense_layer(result):
    free, entries = layer.sharing().num_weights, layer.sharing().kernel.size
    instead = f' instead of {style.spaced(entries)}' if free < entries else ''
    channels = '' if layer.features is None else ' per pair of channels'
    return (
      f'the first layer maps {_sides(layer.in_shape)} pixels to'
      f' {_sides(layer.out_shape)} points, with {style.spaced(free)} free'
      f' weights{instead}{channels}.'
    )
  model, order = result.best.model, result.best.model.group().order
  each = f' for each of {order} group elements' if order > 1 else ''
  return (
    f'its features have {model.widths()[0]} channels{each}; it has'
    f' {style.spaced(result.ranking[0].num_weights)} weights. Augmentations'
    ' are applied to training images only.'
  )


def _dense_layer(result: SearchResult) -> EquivariantDense | None:
  """Returns the first layer of the chosen network, if it is dense."""
  layer = next(iter(result.best.model.sublayers().values()))
  return layer if isinstance(layer, EquivariantDense) else None


def _is_sweep(result: SearchResult) -> bool:
  """Whether every network was proposed exactly once."""
  networks = sorted(int(result.space.network_of[s]) for s, *_ in result.trace)
  return networks == list(range(len(result.space)))


def _ranking(result: SearchResult) -> Iterator[Html]:
  for rank, entry in enumerate(result.ranking, start=1):
    kind = 'baseline' if entry.network == result.baseline else ''
    diverged = ' (diverged)' if entry.search.num_diverged else ''
    cells: list[str | tuple[str, float | str]] = [
      (str(rank), rank),
      entry.name + diverged,
      ', '.join(entry.implied),
      (style.spaced(entry.num_weights), entry.num_weights),
    ]
    for score in (entry.search, entry.retrained):
      if score is None:
        cells += [('', ''), ('', '')]
        continue
      margin = 100 * score_lib.Z_95 * score.standard_error
      accuracy = f'{100 * score.accuracy:.1f} ± {margin:.1f}'
      cells.append((f'{100 * score.value:.1f}', score.value))
      cells.append((accuracy, score.accuracy))
    yield row(cells, 'best' if rank == 1 else kind)


def _configuration(run_dir: pathlib.Path) -> Iterator[Html]:
  """Yields a row per option of config.json, by its dotted name."""
  try:
    stored = json.loads((run_dir / 'config.json').read_text('utf-8'))
  except (FileNotFoundError, json.JSONDecodeError):
    return
  for name, value in io_lib.leaves(stored):
    yield row([name, value if isinstance(value, str) else json.dumps(value)])


def _figures(
  result: SearchResult, data: Dataset, busy: charts.Utilisation | None
) -> Iterator[tuple[str, Figure]]:
  """Yields the figures of the page, with their names in figures.toml."""
  ranking, space, train = result.ranking, result.space, data.train
  labels, measure = screen_lib.binned(train.labels), 'accuracy'
  class_names: Sequence[str] = data.class_names
  if result.best.is_regression:
    class_names, measure = _FIFTHS, 'R²'
  if result.best.model.symmetries:
    first = np.sort(np.unique(labels, return_index=True)[1])[:_NUM_EXAMPLES]
    drawn = images.transformed_images(
      train.images[first], result.best.model.symmetries, space.grid
    )
    yield 'transformed', drawn
  samples = images.sample_images(
    train.images, labels, class_names, grid_axes=data.grid_axes
  )
  yield 'samples', samples
  if result.screening is not None:
    samples = screen_lib.take_samples(
      train.images, labels, space.symmetries, space.grid
    )
    screening = dataclasses.replace(result.screening, samples=samples)
    yield 'screening', screening.figure()
  top = charts.top_networks(ranking, baseline=result.baseline, measure=measure)
  yield 'top_networks', top
  yield 'frequencies', charts.frequencies(ranking, space.bits)
  if space.lattice is not None:
    yield 'weights', charts.weights_against_accuracy(ranking, measure)
    values = {entry.network: entry.search.accuracy for entry in ranking}
    best = ranking[0].network
    drawn = diagram.lattice_diagram(space.lattice, values, best, measure)
    yield 'lattice', drawn
  yield from _layer_figures(result)
  if result.trace and not _is_sweep(result):
    scores = [step.value for step in result.trace]
    epsilons = [s.epsilon for s in result.trace if s.epsilon is not None]
    has_epsilons = len(epsilons) == len(scores)
    curve = charts.search_curve(scores, epsilons if has_epsilons else None)
    yield 'search_curve', curve
  if result.q_values:
    yield 'q_values', charts.q_values(result.q_values, space.bits)
  if busy is not None:
    yield 'busy_workers', charts.busy_workers(busy)


def _layer_figures(result: SearchResult) -> Iterator[tuple[str, Figure]]:
  """Yields figures of the symmetries of the chosen network."""
  model, grid = result.best.model, result.space.grid
  if not model.symmetries:
    return
  if len(grid) == 2:
    yield 'orbits', patterns.orbit_grid(model.symmetries, grid)
  layer = _dense_layer(result)
  if layer is None:
    return
  sharing, out_shape = layer.sharing(), layer.out_shape
  yield 'sharing', patterns.sharing_matrix(sharing)
  # Some outputs of one orbit, away from the middle and the edges.
  place = tuple(side // (4 - i % 2) for i, side in enumerate(out_shape))
  point = np.ravel_multi_index(place, out_shape)
  outputs = np.flatnonzero(sharing.bias == sharing.bias[point])[:_MAX_OUTPUTS]
  if len(outputs) > 1:
    weights = np.asarray(result.best.variables['params'][layer.name]['kernel'])
    of_channels = weights.reshape(len(weights), -1)[:, 0]  # the first pair
    drawn = images.kernel_images(
      of_channels[sharing.kernel], layer.in_shape, out_shape, outputs
    )
    yield 'kernel', drawn
