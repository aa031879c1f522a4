"""The pages about MLPs, from files that look like a whole reproduction."""

import dataclasses
import hashlib
import pathlib
import re
import shutil

import numpy as np
import pytest

import aen
from aen.search import compare
from aen.search import landscape as landscape_lib
from experiments import published_mlp
from experiments import rows as rows_lib
from experiments import traces
from tests import launchers

ROOT = pathlib.Path(__file__).parents[2]
NAMES = [
  f'{base}/{config}'
  for base in published_mlp.BASES
  for config in published_mlp.MULTIPLE
]


def children(rng, dataset, role, symmetries, accuracy, seeds=3):
  """Children whose accuracy by the paper protocol is as given, on average."""
  for seed in range(seeds):
    yield {
      'role': role,
      'dataset': dataset,
      'symmetries': symmetries,
      'seed': seed,
      'weights': 1000,
      'published': accuracy + 0.004 * (seed - 1),
      'validation_protocol': accuracy - 0.012,
      'validation': accuracy + 0.001 * rng.standard_normal(),
      'seconds': 5.0,
    }


@pytest.fixture(scope='module')
def root(tmp_path_factory):
  """A folder with the paper's own numbers in place of ours."""
  root = tmp_path_factory.mktemp('clone')
  folder, rng = root / 'results/mlp', np.random.default_rng(0)
  lines = {'tables': [], 'networks': [], 'recipes': [], 'lessons': []}
  lines['halves'] = []
  for base in published_mlp.BASES:
    for configs in (published_mlp.SINGLE, published_mlp.MULTIPLE):
      for config, row in zip(
        configs, published_mlp.table(base, configs), strict=True
      ):
        for names, value in zip(published_mlp.NETWORKS, row, strict=True):
          symmetries = ' '.join(names)
          role, dataset = symmetries or 'plain', f'{base}/{config}'
          lines['tables'] += children(
            rng, dataset, role, symmetries, value / 100
          )
  for name, cell in published_mlp.found().items():
    share = cell.test_accuracy / 100
    for role, gain in {'search 1': 0, 'search 2': -0.1, 'plain': -0.2}.items():
      lines['networks'] += children(rng, name, role, 'rotation', share + gain)
    for title, gain in {
      'sgd': -0.07,
      'fan-in': 0.01,
      'our recipe': 0.03,
    }.items():
      role = f'search 1, {title}'
      lines['recipes'] += children(rng, name, role, 'rotation', share + gain)
    lines['recipes'] += children(
      rng, name, 'plain, our recipe', '', share - 0.18
    )
    for role, name_of, gain in (
      ('search 1, as many weights', name, 0.01),
      ('plain, invariant head', name, -0.3),
      ('search 1, invariant head', name, -0.05),
      ('plain, exact moves', f'{name}_group', -0.1),
      ('search 1, exact moves', f'{name}_group', 0.1),
    ):
      lines['lessons'] += children(rng, name_of, role, '', share + gain)
    for half, title in enumerate(published_mlp.HALVES):
      easier = 0.03 * half * name.startswith('g_mnist/')
      for role in ('plain', 'search 1'):
        lines['halves'] += children(
          rng, name, f'{role}, {title}', '', share + easier
        )
  for name, found in lines.items():
    rows_lib.write(folder / f'{name}.csv', found)
  write_landscapes(folder)
  (folder / 'times.csv').write_text(
    'started,stage,bases,state,seconds,machine\n'
    '2026-01-01T00:00:00+00:00,tables,g_mnist,stopped,60,2 × x86_64\n'
    '2026-01-01T00:02:00+00:00,tables,g_mnist,finished,540,2 × x86_64\n'
    '2026-01-01T00:03:00+00:00,searches,g_mnist,finished,60,2 × x86_64\n'
    '2026-01-01T00:10:00+00:00,networks,g_mnist,finished,120,2 × x86_64\n'
  )
  return root


def write_landscapes(folder):
  known = landscape_lib.load(ROOT / 'results/landscapes/g_mnist_aug2.npz')
  found = [dataclasses.replace(known, name=name) for name in NAMES]
  landscape_lib.save_all(folder / 'landscapes.npz', found)
  states = np.random.default_rng(0).permutation(4096)[:300].astype(np.int32)
  values = known.best_so_far(0)[known.network_of[states], -1]
  trace = compare.Trace(states, np.full(300, 4, np.int32), values)
  for landscape in found:
    traces.save(traces.path_of(folder, landscape), trace)


@pytest.fixture(scope='module')
def pages(root):
  return launchers.load('results_page').pages(root)


def test_the_papers_numbers_differ_by_nothing_from_themselves(pages):
  page = pages['RESULTS.md']
  assert page.count('difference from the paper 0.00 points') == 4
  assert page.count('169 cells') == page.count('78 cells') == 2
  assert '1.20 points above that of the validation protocol' in page
  assert 'All stages together 11 minutes' in page  # not 13: some overlap
  assert 'interrupted and resumed 1 times' in page


def test_what_was_found_stands_beside_the_papers(pages):
  page = pages['RESULTS.md']
  mean = np.mean([c.test_accuracy for c in published_mlp.found().values()])
  said = re.search(
    r'12 data sets, paper protocol: (\S+) by the published recipe, the'
    r" paper's (\S+)\. Averaged over 12 data sets, paper protocol: (\S+) by"
    r" our recipe, the paper's (\S+)\.\n",
    page,
  )
  found = [float(number) for number in said.groups()]
  np.testing.assert_allclose(found, [mean, mean, mean + 3, mean], atol=0.01)
  assert 'two combined standard errors' in page
  assert '- by the published recipe, 12 rows: none.' in page
  assert '- by our recipe, 12 rows: none.' in page
  assert '| g_mnist/aug5 | 69.4 |' in page


def test_what_falls_short_is_named(root, tmp_path):
  for name in ('networks', 'tables'):
    path = f'results/mlp/{name}.csv'
    rows = rows_lib.read(root / path)
    for row in rows:
      if (name, row['dataset']) == ('networks', 'g_mnist/aug4'):
        row['published'] = str(float(row['published']) - 0.2)
    rows_lib.write(tmp_path / path, rows)
  said = launchers.load('results_page').pages(tmp_path)['RESULTS.md']
  assert (
    '- by the published recipe, 12 rows: g_mnist/aug4 (by 20.0 points' in said
  )
  assert '- by our recipe' not in said


def test_a_section_needs_only_its_own_files(root, tmp_path):
  folder = tmp_path / 'results/mlp'
  folder.mkdir(parents=True)
  shutil.copy(root / 'results/mlp/times.csv', folder)
  pages = launchers.load('results_page').pages(tmp_path)
  (page,) = pages.values()
  assert 'All stages together 11 minutes' in page
  assert '##' not in page
  assert '\n\n\n' not in page


def test_causes_are_told_apart(pages):
  page = pages['RESULTS.md']
  for cause, gain in {
    'SGD with momentum, as the text says, instead of Adam': '-7.00',
    'initial weights by the fan-in': '+1.00',
    '… and a cosine, which is our recipe': '+3.00',
    'our recipe, for the baseline': '+2.00',
    'an invariant head': '-5.00',
  }.items():
    cells = ' | '.join([f'{gain} ({gain} … {gain})'] * 2)
    assert f'| {cause} | 12 | {cells} |' in page
  assert 'best in validation of all networks and seeds, instead' not in page


def test_halves_of_the_test_images_are_compared_base_by_base(pages):
  page = pages['RESULTS.md']
  three, none = '+3.00 (+3.00 … +3.00)', '+0.00 (+0.00 … +0.00)'
  assert f'| G-MNIST | {three} | {three} |' in page
  assert f'| G-Fashion-MNIST | {none} | {none} |' in page


def test_lessons(pages):
  page = pages['docs/lessons.md']
  assert '| chosen less baseline | +20.00 (+20.00 … +20.00) |' in page
  assert 'less baseline | +21.00' in page  # with as many weights
  assert 'as they are with 3 seeds each, the changed ones with 3.' in page
  assert 'both on exactly transformed data | +20.00' in page
  assert page.count('| g_fashion_mnist/aug5 |') == 2
  assert 'it is the symmetry that helps' in page


def test_a_gain_that_may_be_chance_is_called_so():
  verdict = launchers.load('results_page').verdict
  assert 'cannot be told' in verdict([-1.0, 2.0, 0.5])
  assert 'cannot be told' in verdict([-1.0, -1.1, -1.2])
  assert 'still better' in verdict([1.0, 1.1, 1.2])


def test_the_card_is_true(root, pages, monkeypatch, capsys):
  card = pages['results/mlp/README.md']
  path = root / 'results/mlp/landscapes.npz'
  assert hashlib.sha256(path.read_bytes()).hexdigest() in card
  assert '12 data sets: 216 networks × 1 seeds × 4 epochs' in card
  (loader,) = re.findall('```python\n(.*?)```', card, re.DOTALL)
  assert len(loader.splitlines()) == 10
  monkeypatch.chdir(path.parent)
  exec(loader, {})
  known = landscape_lib.load_all(path)['g_mnist/aug5']
  network = known.network(('rotation', 'vertical_flip'))
  printed = float(capsys.readouterr().out)
  assert printed == pytest.approx(known.values()[network])
  with np.load(path) as stored:
    assert {f'`{name}`' for name in stored} <= {*card.split()}
  assert isinstance(known, aen.Landscape)


def test_pictures_are_drawn_where_the_pages_show_them(root, pages):
  drawn = dict(launchers.load('results_page').pictures(root / 'results'))
  shown = {
    ((root / name).parent / line.split('(')[-1].rstrip(')')).resolve()
    for name, page in pages.items()
    for line in page.splitlines()
    if line.startswith('![')
  }
  assert {path.resolve() for path in drawn} == shown
  assert all(figure.axes for figure in drawn.values())
