"""Ways to find symmetries: the truth, augmentation, the file, the table."""

import pathlib
import re

from absl.testing import flagsaver
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import aen
from aen.data import transform
from aen.groups.symmetries import PAPER_SYMMETRIES
from tests import launchers

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def discovery():
  return launchers.load('discovery')


def patterns(side=4, num=400, seed=0):
  """Noisy patterns of two classes, half of each flipped left to right."""
  rng = np.random.default_rng(seed)
  labels = rng.integers(2, size=num)
  images = 1.5 * rng.normal(size=(2, side, side))[labels]
  flipped = rng.random(num) < 0.5
  images[flipped] = images[flipped, :, ::-1]
  images += rng.normal(size=images.shape)
  return images.astype(np.float32), labels


@pytest.mark.parametrize('side', [12, 14, 16])
def test_the_truth_is_what_a_uniform_law_over_the_group_has(discovery, side):
  """Enumerates transformed images of one point each, with their shares."""
  for name, planted in {**discovery.PLANTED, **discovery.MADE}.items():
    original = np.arange(side * side).reshape(side, side)
    law = {original.tobytes()}
    image = original
    while (image := aen.SYMMETRIES[planted](image)).tobytes() not in law:
      law.add(image.tobytes())
    images = [np.frombuffer(x, original.dtype).reshape(side, side) for x in law]
    true = tuple(
      s
      for s in PAPER_SYMMETRIES
      if {aen.SYMMETRIES[s](x).tobytes() for x in images} == law
    )
    assert discovery.truth(name, side) == true


def test_shifts_by_four_of_sixteen_imply_swapped_halves(discovery):
  assert discovery.truth('g_digits/iaug4_group', 16) == (
    'horizontal_translation',
    'horizontal_scramble',
  )
  assert discovery.truth('g_mnist/iaug1', 14) == ('rotation',)


def test_the_truth_agrees_with_the_study_of_the_screen():
  """Which enumerates products of generators with their probabilities."""
  screen = launchers.load('screen').invariant_sets
  expected = {
    f'g_{base}/{config}': screen.true_symmetries(config, side)
    for base, configs, side in (
      ('digits', [f'iaug{k}_group' for k in range(1, 13)], 16),
      ('mnist', ['iaug1', 'iaug2', 'iaug3'], 28),
    )
    for config in configs
  }
  discovery = launchers.load('discovery')
  for name, true in expected.items():
    side = 16 if 'digits' in name else 28
    assert discovery.truth(name, side) == true


def test_made_sets_are_made_with_their_symmetry(discovery):
  for name, planted in {**discovery.PLANTED, **discovery.MADE}.items():
    if '/' in name:
      config = transform.config(name.split('/')[1])
      assert config.symmetries == (planted,)


def test_planted_sets_are_those_of_the_truth():
  truth = launchers.load('truth')
  expected = truth.load('planted', 'horizontal_flip', 3)
  discovery = launchers.load('discovery')
  (name,) = (n for n, s in discovery.PLANTED.items() if s == 'horizontal_flip')
  problem = discovery.load(name, 3)
  np.testing.assert_array_equal(
    problem.test_images, expected.normalised().test.images
  )
  assert len(problem.labels) == len(expected.train) + len(expected.validation)


def test_cycles_are_powers(discovery):
  image = np.arange(256).reshape(16, 16)
  for name in PAPER_SYMMETRIES:
    powers = discovery.augmentation.cycle(name, 16)
    transformed = image
    for power in powers:
      np.testing.assert_array_equal(image.ravel()[power], transformed.ravel())
      transformed = aen.SYMMETRIES[name](transformed)
    np.testing.assert_array_equal(transformed, image)


FLIPS = ('horizontal_flip', 'vertical_flip')


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_learned_augmentation_finds_a_planted_flip(discovery, seed):
  images, labels = patterns(seed=seed)
  found = discovery.augmentation.learned(images, labels, seed, FLIPS)
  assert found == ('horizontal_flip',)


def test_compared_augmentation_asks_for_two_standard_errors(
  discovery, monkeypatch
):
  """On four splits, with made-up validation accuracies."""
  lib, calls = discovery.augmentation, []
  gains = {
    'rotation': (0.01, 0.02, 0.03, 0.02),  # 0.020, standard error 0.0041
    'horizontal_flip': (0.0, 0.03, 0.0, 0.03),  # 0.015, 0.0087
    'vertical_flip': (-0.1, -0.1, -0.1, -0.1),
  }
  networks = [*gains.values(), (0.0,) * 4]  # the last without augmentation
  accuracies = (0.8 + 0.1 * i + n[i] for i in range(4) for n in networks)

  def fit(key, model, collections, images, labels, powers, orders, logits):
    calls.append((int(orders[0]), float(logits[0]), len(labels)))
    return {}, logits

  monkeypatch.setattr(lib, 'fit', fit)
  monkeypatch.setattr(lib, 'accuracy', lambda *_: next(accuracies))
  images, labels = patterns(num=40)
  found = lib.compared(images, labels, 0, tuple(gains))
  assert found == ('rotation',)
  always, never = (np.inf, 30), (-np.inf, 30)
  expected = [(4, *always), (2, *always), (2, *always), (4, *never)]
  assert calls == 4 * expected


def test_logits_of_infinity_say_always_and_never(discovery):
  """Weights of a pixel change only if the pixel is ever lit."""
  lib = discovery.augmentation
  image = np.zeros((1, 4, 4), np.float32)
  image[0, 0, 0] = 1
  logits = jnp.array([jnp.inf, -jnp.inf])

  def trained(steps):
    params, after = lib.fit(
      jax.random.key(0),
      lib.dense(2),
      {},
      image,
      np.zeros(1, int),
      *lib.tables(FLIPS, 4),
      logits,
      steps=steps,
    )
    np.testing.assert_array_equal(after, logits)
    return np.array(params['Dense_0']['kernel'])

  change = np.abs(trained(3) - trained(0)).max(axis=1).reshape(4, 4)
  assert np.argwhere(change).tolist() == [[0, 0], [0, 3]]


def row(dataset, seed, method, true, found, accuracy, seconds=6.0):
  return {
    'dataset': dataset,
    'seed': str(seed),
    'method': method,
    'true': true,
    'found': found,
    'accuracy': str(accuracy),
    'cpu_seconds': str(seconds),
  }


def test_the_table_says_shares_and_means_with_intervals(discovery):
  name = 'g_mnist/iaug2'
  flip = 'horizontal_flip'
  rows = [row(name, seed, 'none', flip, '', 0.7) for seed in range(3)]
  rows += [
    row(name, 0, 'screen', flip, flip, 0.8, 6),
    row(name, 1, 'screen', flip, f'{flip} rotation', 0.75, 12),
    row(name, 2, 'screen', flip, '', 0.7, 18),
  ]
  lines = [
    [cell.strip() for cell in line.split('|')[1:-1]]
    for line in discovery.table(rows).splitlines()
  ]
  by_key = {(line[0], line[1]): line[2:] for line in lines}
  low, high = stats.binomtest(2, 3).proportion_ci(method='wilson')
  margin = stats.t.ppf(0.975, 2) * 5 / np.sqrt(3)
  minutes = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
  assert by_key[name, 'screen'] == [
    f'2 of 3 ({100 * low:.0f} … {100 * high:.0f} %)',
    '1 of 33 (1 … 15 %)',
    f'75.0 ({75 - margin:.1f} … {75 + margin:.1f})',
    f'+5.0 ({5 - margin:+.1f} … {5 + margin:+.1f})',
    f'0.200 ({0.2 - minutes:.3f} … {0.2 + minutes:.3f})',
  ]
  assert by_key['all', 'screen'] == by_key[name, 'screen']
  assert by_key[name, 'none'][:2] == ['', '']
  assert ('planted', 'screen') not in by_key


def test_answers_in_the_file_are_not_repeated(discovery, tmp_path, monkeypatch):
  out, page = tmp_path / 'discovery.csv', tmp_path / 'page.md'
  page.write_text('Before\n<!-- table -->\nold\n<!-- end of table -->\nAfter')
  asked = []
  methods = {
    name: lambda p, name=name: asked.append(name) or ('rotation',)
    for name in discovery.METHODS
  }
  monkeypatch.setattr(discovery, 'METHODS', methods)
  monkeypatch.setattr(discovery, 'MADE', {})
  monkeypatch.setattr(discovery, 'final_accuracy', lambda *_: 0.5)
  with flagsaver.flagsaver(out=str(out), page=str(page), num_seeds=1):
    discovery.main([])
    assert len(asked) == 2 * len(methods)
    lines = out.read_text().splitlines()
    assert len(lines) == 1 + 2 * (len(methods) + 3)
    out.write_text('\n'.join(lines[:-1]) + '\n')
    discovery.main([])
  assert asked[2 * len(methods) :] == [list(methods)[-1]]
  assert len(out.read_text().splitlines()) == len(lines)
  assert page.read_text().startswith('Before\n<!-- table -->\n| data |')
  assert page.read_text().endswith('|\n<!-- end of table -->\nAfter')


def test_the_page_holds_the_table_of_the_file(discovery):
  rows = discovery.rows_lib.read(ROOT / 'results/discovery.csv')
  page = (ROOT / 'docs/discovery.md').read_text('utf-8')
  assert discovery.with_table(page, rows) == page
  for name, true in {(stored['dataset'], stored['true']) for stored in rows}:
    side = 14 if name in discovery.MADE else 16
    assert true.split() == [*discovery.truth(name, side)]


def test_what_the_page_says_is_in_its_table():
  page = (ROOT / 'docs/discovery.md').read_text('utf-8')
  table = page.split('<!-- table -->')[1].split('<!-- end of table -->')[0]
  said = page.split('## What it shows')[1].split('## Limits')[0]
  numbers = re.findall(r'\d+\s+of\s+\d+|[+]\d+\.\d|0\.\d{3}', said)
  assert len(numbers) > 10
  for number in numbers:
    assert f' {" ".join(number.split())} (' in table, number
