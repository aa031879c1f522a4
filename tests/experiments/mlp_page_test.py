"""The pages about MLPs, from files that look like a whole reproduction."""

import dataclasses
import hashlib
import pathlib
import re

import numpy as np
import pytest

import aen
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import tables
from experiments import landscape_card
from experiments import mlp_searches
from experiments import published_mlp
from experiments.published_mlp import Line
from tests import launchers

ROOT = pathlib.Path(__file__).parents[2]
NAMES = [
  f'{base}/{config}'
  for base in published_mlp.BASES
  for config in published_mlp.MULTIPLE
]


def children(rng, dataset, role, symmetries, accuracy, seeds=3):
  """Children whose accuracy by the paper's protocol is as given, on average."""
  for seed in range(seeds):
    published, honest = accuracy + 0.004 * (seed - 1), accuracy - 0.012
    validation = accuracy + 0.001 * rng.standard_normal()
    judged = tables.Judged(
      *(dataset, symmetries, seed, 1000, published, honest, validation, 5.0)
    )
    yield Line(role, judged)


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
          lines['tables'] += children(
            *(rng, f'{base}/{config}', symmetries or 'plain', symmetries),
            value / 100,
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
      *(rng, name, 'plain, our recipe', '', share - 0.18)
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
          *(rng, name, f'{role}, {title}', '', share + easier)
        )
  for name, found in lines.items():
    published_mlp.write(folder / f'{name}.csv', found)
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
  values = known.table(0)[known.network_of[states], -1]
  trace = compare.Trace(states, np.full(300, 4, np.int32), values)
  for landscape in found:
    mlp_searches.write(mlp_searches.path(folder, landscape), trace)


@pytest.fixture(scope='module')
def pages(root):
  return launchers.load('results_page').pages(root)


def test_the_papers_numbers_differ_by_nothing_from_themselves(pages):
  page = pages['RESULTS.md']
  assert page.count('difference from the paper 0.00 points') == 4
  assert page.count('169 cells') == page.count('78 cells') == 2
  assert 'its number is 1.20 points above the honest one' in page
  assert 'All stages together 11 minutes' in page  # not 13: some overlap
  assert 'stopped 1 times' in page


def test_what_was_found_stands_beside_the_papers(pages):
  page = pages['RESULTS.md']
  mean = np.mean([c.test_accuracy for c in published_mlp.found().values()])
  said = re.search(
    r"12 data sets, paper's protocol: (\S+) by the published recipe, the"
    r" paper's (\S+)\. Averaged over 12 data sets, paper's protocol: (\S+) by"
    r" our recipe, the paper's (\S+)\.\n",
    page,
  )
  found = [float(number) for number in said.groups()]
  np.testing.assert_allclose(found, [mean, mean, mean + 3, mean], atol=0.01)
  assert 'two combined standard errors' in page
  assert '- by the published recipe, 12 rows: none.' in page
  assert '- by our recipe, 12 rows: none.' in page
  assert '| g_mnist/aug5 | 69.4 |' in page


def test_what_falls_short_is_named(root):
  page = launchers.load('results_page').mlp_page
  retrained = published_mlp.read(root / 'results/mlp/networks.csv')
  singles = published_mlp.read(root / 'results/mlp/tables.csv')
  worse = [
    Line(
      line.role,
      dataclasses.replace(line.child, published=line.child.published - 0.2),
    )
    if line.child.dataset == 'g_mnist/aug4'
    else line
    for line in retrained
  ]
  said = '\n'.join(page.searches(singles, worse, []))
  assert (
    '- by the published recipe, 12 rows: g_mnist/aug4 (by 20.0 points' in said
  )
  assert '- by our recipe' not in said


def test_causes_are_told_apart(pages):
  page = pages['RESULTS.md']
  for cause, gain in {
    'SGD with momentum, as the text says, instead of Adam': '-7.00',
    'initial weights by the fan-in': '+1.00',
    '… and a cosine, which is our recipe': '+3.00',
    'our recipe, for the plain network': '+2.00',
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
  assert '| chosen less plain | +20.00 (+20.00 … +20.00) |' in page
  assert 'less plain | +21.00' in page  # with as many weights
  assert 'as they are with 3 seeds each, the changed ones with 3.' in page
  assert 'both on exactly moved data | +20.00' in page
  assert page.count('| g_fashion_mnist/aug5 |') == 2
  assert 'it is the symmetry that helps' in page


def test_a_gain_that_may_be_chance_is_called_so():
  verdict = launchers.load('results_page').lessons_page.verdict
  assert 'cannot be told' in verdict([-1.0, 2.0, 0.5])
  assert 'cannot be told' in verdict([-1.0, -1.1, -1.2])
  assert 'still better' in verdict([1.0, 1.1, 1.2])


def test_the_card_is_true(root, pages, monkeypatch, capsys):
  card = pages['results/mlp/README.md']
  path = root / 'results/mlp/landscapes.npz'
  assert hashlib.sha256(path.read_bytes()).hexdigest() in card
  assert '12 data sets: 216 networks × 1 seeds × 4 epochs' in card
  assert len(landscape_card.LOADER.splitlines()) == 10
  assert landscape_card.LOADER in card
  monkeypatch.chdir(path.parent)
  exec(landscape_card.LOADER, {})
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
