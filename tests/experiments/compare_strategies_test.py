import csv
import functools

from absl.testing import flagsaver
import numpy as np
import pytest

import aen
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import strategies
from tests import launchers

NAMES = ('rotation', 'horizontal_flip', 'vertical_flip')
DQN = 'dqn(hidden_sizes=(4,), batch_size=2, max_steps=30)'


@pytest.fixture(scope='module')
def launcher():
  return launchers.load('compare_strategies')


@functools.cache
def landscape():
  lattice = aen.lattice(NAMES, [(4, 4), (4, 4)])
  rng = np.random.default_rng(0)
  accuracy = np.linspace(0.3, 0.8, len(lattice))[:, None, None]
  noise = rng.uniform(-0.02, 0.02, (2, len(lattice), 2, 3))
  return aen.Landscape(
    name='planted',
    symmetries=NAMES,
    network_of=lattice.network_of,
    weights=lattice.num_weights.sum(axis=1),
    seeds=np.arange(2),
    validation=accuracy + noise[0],
    test=accuracy + noise[1],
    seconds=np.ones((len(lattice), 2)),
  )


def read(path):
  with open(path) as file:
    return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_small_comparison_and_its_resumption(
  launcher, tmp_path, capsys, monkeypatch
):
  landscape_lib.save_all(tmp_path / 'planted.npz', [landscape()])
  monkeypatch.setattr(launcher, 'AT', (2, 5))
  with flagsaver.flagsaver(
    landscapes=[str(tmp_path / 'planted.npz')],
    strategy=['random', 'exhaustive', DQN],
    seeds=6,
    light_seeds=4,
    out=str(tmp_path / 'out'),
  ):
    launcher.main([])
    first = (tmp_path / 'out/summary.csv').read_bytes()
    for name, end in (('random', 0), ('exhaustive', 100)):  # damaged
      path = next((tmp_path / 'out/traces').glob(f'planted-{name}-*'))
      path.write_bytes(path.read_bytes()[:end])
    capsys.readouterr()
    launcher.main([])
  again = [
    x for x in capsys.readouterr().out.splitlines() if ', searches ' in x
  ]
  assert again == [
    f'planted: {name}, searches 0 to 5' for name in ('random', 'exhaustive')
  ]
  assert (tmp_path / 'out/summary.csv').read_bytes() == first
  assert (tmp_path / 'out/regret.png').stat().st_size > 10_000
  rows = read(tmp_path / 'out/summary.csv')
  assert len(rows) == 3 * 2
  searches = {row['strategy']: row['searches'] for row in rows}
  assert searches == {'random': '6', 'exhaustive': '6', DQN: '4'}
  curve = read(tmp_path / 'out/regret.csv')
  assert {row['cost'] for row in curve} == {'networks', 'states'}


def test_everything_seen_nothing_to_regret():
  """The best network is best in every seed, so to see it is to pick it."""
  planted = landscape()
  numbers = np.arange(5)
  strategy = strategies.make(
    'random', 3, network_of=planted.network_of, epochs=3
  )
  traces = compare.search_landscape(strategy, planted, numbers, 6)
  curves = compare.curves(traces, planted, numbers)
  truth = planted.values()
  for kind, cost in (('networks', 6), ('states', 8)):
    curve = curves[kind]
    assert curve.cost.tolist() == list(range(1, cost + 1))
    np.testing.assert_allclose(curve.regret[:, 0], truth.max() - truth[0])
    np.testing.assert_allclose(curve.regret[:, -1], 0, atol=1e-9)
    np.testing.assert_allclose(curve.observed[:, -1], 0, atol=1e-9)
    assert (np.diff(curve.observed) <= 1e-9).all()


def test_one_after_the_other_is_the_same():
  planted, numbers = landscape(), np.arange(2, 5)
  strategy = strategies.make(
    'random', 3, network_of=planted.network_of, epochs=3
  )
  ways = [
    compare.search_landscape(strategy, planted, numbers, 20, vectorised=v)
    for v in (True, False)
  ]
  for a, b in zip(*ways, strict=True):
    np.testing.assert_array_equal(a, b)


def test_mean_and_band():
  samples = np.random.default_rng(0).standard_normal((400, 2)) * [1, 5]
  mean, band = compare.mean_and_band(samples)
  np.testing.assert_allclose(mean, samples.mean(axis=0))
  np.testing.assert_allclose(band, [1.96 / 20, 1.96 / 4], rtol=0.1)


def test_calls_are_read(launcher):
  assert launcher.parse_strategy('local') == ('local', {})
  assert launcher.parse_strategy(' dqn(models=(1, 2), discount=0.9)') == (
    'dqn',
    {'models': (1, 2), 'discount': 0.9},
  )
  for bad in ('dqn(', 'dqn(3)', '1 + 1', 'dqn(x=open("y"))', 'a.b(c=1)'):
    with pytest.raises(ValueError, match='expected a strategy such as'):
      launcher.parse_strategy(bad)
  for call in launcher.CONTENDERS.values():
    assert launcher.parse_strategy(call)[0] in strategies.STRATEGIES


def test_landscapes_must_be_named(launcher):
  with pytest.raises(ValueError, match='--landscapes must name files'):
    launcher.main([])


def test_a_landscape_has_no_screening(launcher, tmp_path):
  with pytest.raises(ValueError, match='screened needs a screening'):
    launcher.search('screened', landscape(), tmp_path)
