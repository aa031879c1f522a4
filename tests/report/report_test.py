"""The page and its figures, drawn from a small result made by hand."""

import dataclasses
import html.parser
import io
import json
import pathlib
import re
import string
import subprocess
import sys
import tomllib

import jax
from matplotlib import figure
import numpy as np
from PIL import Image
import pytest

import aen
from aen import report
from aen.data import load as load_lib
from aen.report import charts
from aen.report import page
from aen.report import style
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.train import evaluate as evaluate_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

ACCURACY = 0.5  # of network 0; each further network is 1 % better
NAUGHTY = '<b>"mirror" & $co$</b>'
PNG = b'\x89PNG\r\n\x1a\n'


def mirror(x):
  return np.flip(x, axis=1)


def score(accuracy, seeds=1):
  return score_lib.Score(accuracy**2, accuracy, 0.02, 0.7, seeds, 0)


@pytest.fixture(scope='module')
def space():
  table = ('rotation', 'vertical_flip', aen.Symmetry(NAUGHTY, mirror))
  return mlp_space.mlp_space((4, 4), 2, table, features=2, head='invariant')


def ranked(space, network, retrained=False):
  accuracy = ACCURACY + network / 100
  return result_lib.Ranked(
    network,
    space.names(network),
    space.implied(network),
    space.num_weights(network),
    score(accuracy),
    score(accuracy + 0.1, seeds=3) if retrained else None,
  )


def random_variables(model):
  rng = np.random.default_rng(0)
  shapes = jax.eval_shape(model.init, jax.random.key(0), np.zeros((1, 4, 4)))
  return jax.tree.map(lambda x: rng.normal(size=x.shape), shapes)


def result_of(space, best=None, trace=None):
  """A search of all networks; the last is the best, unless told otherwise."""
  last = len(space) - 1 if best is None else best
  order = [last, *(n for n in range(len(space))[::-1] if n != last)]
  ranking = tuple(ranked(space, n, n in (0, last)) for n in order)
  model = space.model(last)
  sweep = [result_lib.Step(int(s), 0.5) for s in space.shortest_states]
  return result_lib.SearchResult(
    dataset=f'toy {NAUGHTY}',
    num_images=(40, 10, 20),
    best=result_lib.Best(
      symmetries=space.names(last),
      implied=space.implied(last),
      model=model,
      variables=random_variables(model),
      scaling=evaluate_lib.Scaling(0.0, 1.0),
      image_shape=(16, 16),
      accuracy=0.875,
      baseline_accuracy=0.75,
      gain=score_lib.Gain(0.125, 0.0312, 0.2188, 0.0478),
    ),
    ranking=ranking,
    counts=result_lib.Counts(1234, 7, 5),
    trace=tuple(sweep if trace is None else trace),
    space=space,
  )


@pytest.fixture(scope='module')
def result(space):
  return result_of(space)


@pytest.fixture(scope='module')
def data():
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (70, 4, 4), np.uint8)
  labels = np.arange(70) % 2
  return load_lib.from_arrays(images, labels, class_names=[NAUGHTY, 'other'])


class Parser(html.parser.HTMLParser):
  """Keeps the elements and the text, and checks that tags are balanced."""

  VOID = ('meta', 'link', 'img', 'wbr')

  def __init__(self, text):
    super().__init__()
    self.open, self.elements, self.words = [], [], []
    self.feed(text)
    self.close()
    assert self.open == []

  def handle_starttag(self, tag, attrs):
    self.elements.append((tag, dict(attrs)))
    if tag not in self.VOID:
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    self.words.append(data)

  def all(self, tag):
    return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope='module')
def run_dir(result, data, tmp_path_factory):
  folder = tmp_path_factory.mktemp('run')
  config = {'config': {'seed': 3, 'note': NAUGHTY}, 'environment': {}}
  (folder / 'config.json').write_text(json.dumps(config))
  assert report.write(result, data, folder) == folder / 'report.html'
  return folder


@pytest.fixture(scope='module')
def written(run_dir):
  return (run_dir / 'report.html').read_text('utf-8')


@pytest.fixture(scope='module')
def parsed(written):
  return Parser(written)


def test_the_page_says_what_was_found(result, parsed):
  words = re.sub(r'\s+', ' ', ''.join(parsed.words))
  assert result.verdict in words
  for number in ('87.5 %', '75.0 %', '+12.5 points', '+3.1 … +21.9', '1 234'):
    assert number in words
  assert 'aen.SearchResult.load(' in words
  assert 'config.seed' in words


def test_the_page_begins_with_what_the_data_have(space, data, tmp_path):
  train = data.train
  screening = aen.screen(train.images, train.labels, space.symmetries)
  loaded = type(screening).from_json(
    json.loads(json.dumps(screening.as_json()))
  )
  result = dataclasses.replace(result_of(space), screening=loaded)
  parsed = Parser(report.write(result, data, tmp_path).read_text('utf-8'))
  words = re.sub(r'\s+', ' ', ''.join(parsed.words))
  assert screening.verdict in words
  assert words.index('What the data have') < words.index('Ranking')
  assert (tmp_path / 'screening.png').exists()


def test_the_page_says_nothing_about_data_that_were_not_screened(written):
  assert 'What the data have' not in written


def test_regrets_are_one_bar_per_strategy_the_best_on_top():
  values = {'slow': {'a': 4.0, 'b': 2.0}, 'quick': {'a': 1.0, 'b': 0.5}}
  (ax,) = charts.regrets(values, after=10).axes
  assert [t.get_text() for t in ax.get_yticklabels()] == ['quick', 'slow']
  assert [bar.get_width() for bar in ax.patches] == [0.75, 3.0]
  assert 'after 10 networks' in ax.get_title(loc='left')


def test_the_page_needs_nothing_but_itself(written, parsed):
  assert not re.search(r'(https?:)?//\w', re.sub(r'base64,[^"]*', '', written))
  for tag, attrs in parsed.elements:
    assert tag not in ('iframe', 'object', 'base')
    for name in ('src', 'href', 'srcset', 'data', 'action'):
      assert attrs.get(name, 'data:').startswith('data:')
  assert '@import' not in written
  assert 'url(' not in written


def test_every_image_is_in_the_page_and_beside_it(run_dir, parsed):
  images = parsed.all('img')
  files = {path.stem: path.read_bytes() for path in run_dir.glob('*.png')}
  assert set(files) == {
    'transformed',
    'top_networks',
    'frequencies',
    'weights',
    'lattice',
    'orbits',
    'sharing',
    'kernel',
    'samples',
  }
  assert all(content.startswith(PNG) for content in files.values())
  shown = {attrs['src'] for attrs in images}
  embedded = {
    re.search(r'src="([^"]*)"', page.picture(content, '', '')).group(1)
    for content in files.values()
  }
  assert shown == embedded
  assert len({attrs['alt'] for attrs in images}) == len(images)
  assert all(len(attrs['alt']) > 10 for attrs in images)


def test_names_are_shown_and_never_obeyed(written, parsed):
  assert '<b>"' not in written
  assert not any(NAUGHTY in str(attrs) for attrs in parsed.all('script'))
  words = ''.join(parsed.words)
  assert words.count(NAUGHTY) >= 4  # title, verdict, ranking, configuration
  bold = ''.join(re.findall(r'<b>(.*?)</b>', written))
  assert 'mirror' not in bold


def test_the_table_has_a_row_per_network_and_sorts_by_numbers(result, parsed):
  rows = parsed.elements
  start = next(i for i, (tag, _) in enumerate(rows) if tag == 'tbody')
  stop = next(i for i in range(start, len(rows)) if rows[i][0] == 'h2') - 1
  body = [e for e in rows[start:stop] if e[0] in ('tr', 'td')]
  kinds = [attrs.get('class', '') for tag, attrs in body if tag == 'tr']
  assert len(kinds) == len(result.ranking)
  assert kinds[0] == 'best'
  assert kinds.count('baseline') == 1
  cells = [attrs['data-value'] for tag, attrs in body if tag == 'td']
  columns = len(cells) // len(kinds)
  by_row = [cells[i : i + columns] for i in range(0, len(cells), columns)]
  for values, entry in zip(by_row, result.ranking, strict=True):
    assert values[1] == entry.name
    assert float(values[3]) == entry.num_weights
    assert float(values[5]) == entry.search.accuracy
    again = entry.retrained
    assert values[7] == (str(again.accuracy) if again else '')


def test_equal_results_give_equal_bytes(result, data, run_dir, written):
  kept = {path: path.read_bytes() for path in run_dir.glob('*.png')}
  report.write(result, data, run_dir)
  assert (run_dir / 'report.html').read_text('utf-8') == written
  assert {path: path.read_bytes() for path in kept} == kept


def test_a_walk_has_a_curve_and_no_symmetry_has_no_orbits(
  space, data, tmp_path
):
  walk = [result_lib.Step(s % 4, 0.1 * s) for s in range(6)]
  report.write(result_of(space, best=0, trace=walk), data, tmp_path)
  names = {path.stem for path in tmp_path.glob('*.png')}
  assert names == {
    'top_networks',
    'frequencies',
    'weights',
    'lattice',
    'search_curve',
    'samples',
  }
  words = ''.join(Parser((tmp_path / 'report.html').read_text('utf-8')).words)
  assert 'No symmetry helps' in words
  assert 'Configuration' not in words  # no config.json here


@pytest.mark.slow
def test_group_cnns_have_the_same_report_in_fitting_words(data, tmp_path):
  cnns = gcnn_space.gcnn_space((4, 4), 2, ('rotation',))
  result = result_of(cnns)  # the last: everything on
  assert result.baseline == cnns.network(['large'])
  assert result.verdict.startswith('rotation + random_rotation + ')
  assert '75.0 % without symmetry or augmentation: +12.5' in result.verdict
  report.write(result, data, tmp_path)
  names = {path.stem for path in tmp_path.glob('*.png')}
  assert names == {
    'transformed',
    'top_networks',
    'frequencies',
    'orbits',
    'samples',
  }
  page_ = Parser((tmp_path / 'report.html').read_text('utf-8'))
  words = re.sub(r'\s+', ' ', ''.join(page_.words))
  assert 'Which symmetry or augmentation helps on' in words
  assert 'for each of 4 group elements' in words
  assert 'Size and structure' not in words
  baseline = result_of(cnns, best=cnns.network(['large']))
  verdict = baseline.verdict
  assert verdict.startswith('No symmetry or augmentation helps')
  assert 'without symmetry or augmentation (large), which gets' in verdict


@pytest.mark.slow
def test_baselines_count_as_states_even_if_never_proposed(data, tmp_path):
  cnns = gcnn_space.gcnn_space((4, 4), 2, ('rotation',))
  trace = [result_lib.Step(state, 0.5) for state in (1, 2, 3, 1)]
  small = [0, *(cnns.network_of[step.state] for step in trace)]
  trained = {*small, cnns.network(['large'])}  # the other baseline
  found = result_of(cnns, best=int(small[-1]), trace=trace)
  found = dataclasses.replace(
    found,
    ranking=tuple(e for e in found.ranking if e.network in trained),
    counts=result_lib.Counts(4, len(set(small)), len(trained)),
  )
  written = report.write(found, data, tmp_path).read_text('utf-8')
  tiles = re.findall('<b>(.*?)</b><span>(.*?)</span>', written)
  assert ('5', 'different states, of 256') in tiles
  assert ('5', 'networks trained, of 256') in tiles


def test_a_report_that_fails_leaves_the_old_one(result, data, tmp_path):
  (tmp_path / 'report.html').write_text('old')
  (tmp_path / 'top_networks.png').mkdir()  # cannot be replaced by a file
  with pytest.raises(OSError, match='top_networks'):
    report.write(result, data, tmp_path)
  assert (tmp_path / 'report.html').read_text() == 'old'
  assert not list(tmp_path.glob('.*incomplete'))


SHARING = aen.dense_sharing(('rotation',), (4, 4), (4, 4))
FIGURES = {
  'top_networks': lambda r: report.top_networks(r.ranking, count=2),
  'frequencies': lambda r: report.frequencies(r.ranking, r.space.bits, 2),
  'weights': lambda r: report.weights_against_accuracy(r.ranking),
  'lattice': lambda r: report.lattice_diagram(r.space.lattice, {0: 0.5}, 2),
  'curve': lambda _: report.search_curve([0.1, 0.3, 0.2], [1, 0.5, 0.5]),
  'matrix': lambda _: report.sharing_matrix(SHARING),
  'excerpt': lambda _: report.sharing_matrix(SHARING, max_side=8),
  'graph': lambda _: report.sharing_graph(
    aen.dense_sharing(('rotation',), (2, 2), (2, 2))
  ),
  'orbits': lambda _: report.orbit_grid(('rotation',), (6, 6)),
}


@pytest.mark.parametrize('name', FIGURES)
def test_figures_have_labelled_axes_and_are_not_empty(name, result):
  drawn = FIGURES[name](result)
  assert type(drawn) is figure.Figure
  ax = drawn.axes[0]
  assert ax.get_xlabel()
  assert ax.get_ylabel()
  assert ax.get_title(loc='left')
  with Image.open(io.BytesIO(style.png(drawn))) as image:
    pixels = np.asarray(image.convert('RGB'))
  assert (pixels != 255).any(axis=-1).mean() > 0.01
  packed = pixels.astype(np.int32) @ np.array([2**16, 2**8, 1], np.int32)
  assert np.unique(packed).size > 20
  edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
  assert (edge == 255).all()  # nothing is cut off


def test_top_networks_end_with_the_one_without_symmetries(result):
  ax = report.top_networks(result.ranking, count=2).axes[0]
  names = [label.get_text() for label in ax.get_yticklabels()]
  assert len(names) == 3
  assert names[-1] == 'no symmetry'
  low, high = ax.get_xlim()
  assert high > 100 * result.ranking[0].retrained.accuracy
  assert low < 100 * ACCURACY


def test_frequencies_count_what_is_implied_too(result):
  bits = result.space.bits
  ax = report.frequencies(result.ranking, bits, count=1).axes[0]
  best = result.ranking[0]
  owned = [100 * (name in best.symmetries + best.implied) for name in bits]
  assert [bar.get_width() for bar in ax.patches] == owned
  implied_states = result.space.lattice.implied_states
  among_all = [100 * np.mean(implied_states >> k & 1) for k in range(len(bits))]
  np.testing.assert_allclose(ax.lines[0].get_xdata(), among_all)


def test_intervals_end_at_0_and_100_percent(space):
  certain = result_lib.Ranked(0, (), (), 9, score(0.99))
  ax = report.weights_against_accuracy([certain]).axes[0]
  (bars,) = [c for c in ax.collections if hasattr(c, 'get_segments')]
  ((_, low), (_, high)) = bars.get_segments()[0]
  assert low == pytest.approx(99 - 2 * score_lib.Z_95)
  assert high == pytest.approx(100)


def test_the_diagram_joins_exactly_the_next_networks(result):
  lattice = result.space.lattice
  ax = report.lattice_diagram(lattice, {0: 0.5, 1: 0.7}, best=1).axes[0]
  pale, marked = [c for c in ax.collections if hasattr(c, 'get_segments')]
  covers = [(n, m) for n in range(len(lattice)) for m in lattice.coarser(n)]
  within = [pair for pair in covers if lattice.contains(1, pair[1])]
  assert len(marked.get_segments()) == len(within) > 0
  assert len(pale.get_segments()) == len(covers) - len(within)
  for (_, low), (_, high) in pale.get_segments():
    assert high > low  # more symmetry is higher up


def test_a_large_lattice_is_drawn_in_part(monkeypatch, result):
  lattice = result.space.lattice
  monkeypatch.setattr('aen.report.diagram.MAX_NETWORKS', 3)
  values = {n: n / 100 for n in range(len(lattice))}
  drawn = report.lattice_diagram(lattice, values, best=1)
  assert drawn.axes[0].get_title(loc='left') == '3 networks'


def test_the_curve_shows_rolling_mean_and_best_so_far():
  ax = report.search_curve([0.2, 0.4, 0.3], window=2).axes[0]
  each, mean, best = [line.get_ydata() for line in ax.lines]
  np.testing.assert_allclose(each, [20, 40, 30])
  np.testing.assert_allclose(mean, [20, 30, 35])
  np.testing.assert_allclose(best, [20, 40, 40])


def test_the_curve_names_every_epsilon_once():
  ax = report.search_curve([0.1] * 4, [1.0, 1.0, 0.5, 0.1]).axes[0]
  assert [text.get_text() for text in ax.texts] == ['ε 1', 'ε 0.5', 'ε 0.1']


@pytest.mark.parametrize('max_side', [16, 8])
def test_the_matrix_colours_exactly_the_sharing(max_side):
  ax = report.sharing_matrix(SHARING, max_side).axes[0]
  colours = np.asarray(ax.images[0].get_array()).reshape(-1, 3)
  assert colours.shape[0] == max_side**2
  rows = [int(label.get_text()) for label in ax.get_yticklabels()]
  columns = [int(label.get_text()) for label in ax.get_xticklabels()]
  labels = SHARING.kernel[np.ix_(rows, columns)].ravel()
  same = labels[:, None] == labels
  alike = (colours[:, None] == colours).all(axis=-1)
  np.testing.assert_array_equal(same, alike)


def test_orbits_on_the_grid_are_those_of_the_symmetries():
  ax = report.orbit_grid(('rotation', 'vertical_flip'), (4, 4)).axes[0]
  letters = np.empty((4, 4), str)
  for text in ax.texts:
    column, row = text.get_position()
    letters[row, column] = text.get_text()
  assert letters.tolist() == [
    ['A', 'B', 'B', 'A'],
    ['B', 'C', 'C', 'B'],
    ['B', 'C', 'C', 'B'],
    ['A', 'B', 'B', 'A'],
  ]


def test_kernel_images_are_the_columns_of_the_kernel():
  kernel = np.arange(12.0).reshape(6, 2)
  drawn = report.kernel_images(kernel, (2, 3), (2,), [1, 0])
  shown = [ax.images[0].get_array() for ax in drawn.axes[:2]]
  np.testing.assert_array_equal(shown[0], [[1, 3, 5], [7, 9, 11]])
  np.testing.assert_array_equal(shown[1], [[0, 2, 4], [6, 8, 10]])
  titles = [ax.get_title() for ax in drawn.axes[:2]]
  assert titles == ['output (1)', 'output (0)']


@pytest.mark.parametrize(
  'shape', [(4, 6), (4, 6, 3), (4, 6, 2)], ids=['grey', 'colour', 'two']
)
def test_samples_of_floats_fill_the_range(shape):
  images = np.linspace(-3, 5, 8 * np.prod(shape)).reshape(8, *shape)
  labels = np.array([0, 0, 0, 2, 2, 2, 2, 2])
  drawn = report.sample_images(images, labels, 'abc', per_class=2)
  (ax,) = drawn.axes
  shown = [image.get_array() for image in ax.images]
  assert len(shown) == 4
  assert {s.shape for s in shown} == {shape if shape[-1] == 3 else (4, 6)}
  assert all(0 <= s.min() < s.max() <= 1 for s in shown)
  assert [text.get_text() for text in ax.texts] == ['a', 'c']


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: report.search_curve([]), 'at least one step'),
    (lambda: report.search_curve([0.1], [1, 1]), 'one epsilon per step'),
    (lambda: report.sharing_graph(SHARING), 'draw sharing_matrix'),
    (
      lambda: report.sharing_matrix(aen.conv_sharing(('rotation',), (3, 3), 1)),
      'dense layer',
    ),
    (lambda: report.orbit_grid((), (4,)), r'grid \(H, W\)'),
    (
      lambda: report.sample_images(np.zeros((0, 2, 2)), np.zeros(0, int), ''),
      'got none',
    ),
  ],
)
def test_errors_say_what_to_do(call, message):
  with pytest.raises(ValueError, match=message):
    call()


def test_colours_differ():
  for count in (1, 7, 8, 200):
    found = style.colours(count)
    assert found.shape == (count, 3)
    assert len(np.unique(found.round(3), axis=0)) == count
    assert found.min() >= 0
    assert found.max() <= 1


def test_q_values_show_any_name():
  drawn = charts.q_values([(0, (0.1,)), (1, (-0.2,))], ['$bad_{$'])
  assert style.png(drawn)


def test_figures_are_found_by_name():
  assert set(report.__all__) <= set(dir(report))
  assert all(callable(getattr(report, name)) for name in report.__all__)
  with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
    report.nonsense  # noqa: B018


def test_without_matplotlib_the_import_says_what_to_install():
  code = 'import sys; sys.modules["matplotlib"] = None; from aen import report'
  run = subprocess.run([sys.executable, '-c', code], capture_output=True)
  assert b'needs matplotlib; pip install "aen[search]"' in run.stderr


def test_every_described_figure_has_its_place_on_the_page():
  folder = pathlib.Path(page.__file__).parent
  described = tomllib.loads((folder / 'figures.toml').read_text('utf-8'))
  template = string.Template((folder / 'page.html').read_text('utf-8'))
  assert described.keys() <= set(template.get_identifiers())


def origin(worker, started, finished, workers=0):
  return store_lib.Origin('cpu', '1', worker, started, finished, workers)


def test_utilisation_is_the_mean_of_busy_workers():
  jobs = [origin('a', 0, 10), origin('a', 0, 10), origin('b', 0, 5)]
  found = charts.utilisation(jobs)  # two children of one job
  assert (found.workers, found.seconds, found.mean) == (2, 10, 1.5)
  assert 'a utilisation of 75 %' in found.in_words
  assert charts.utilisation(jobs[:2]) is None  # one process
  idle = charts.utilisation([*jobs, origin('c', 14, 16, workers=4)])
  assert (idle.workers, idle.seconds, idle.mean) == (4, 16, 17 / 16)
  resumed = charts.utilisation([*jobs, origin('c', 1010, 1020)])
  assert (resumed.seconds, resumed.mean) == (20, 25 / 20)
  times, busy = (
    charts.busy_workers(found).axes[0].collections[0].get_paths()[0].vertices.T
  )
  assert (times.max() * 60, busy.max()) == (10, 2)


def test_the_page_says_how_busy_workers_were(result, data, tmp_path):
  written = report.write(result, data, tmp_path).read_text('utf-8')
  assert 'utilisation' not in written
  with store_lib.Results(tmp_path / 'results.sqlite') as store:
    for seed, worker in enumerate('ab'):
      key = store_lib.ChildKey('network', 'data', 'recipe', seed)
      record = store_lib.Record((1.0,), (0.5,), (1.0,), key=key)
      store.put([record.replace(origin=origin(worker, seed, seed + 3))])
  written = report.write(result, data, tmp_path).read_text('utf-8')
  assert '2 workers trained for 0.1 minutes' in written
  assert (tmp_path / 'busy_workers.png').exists()
