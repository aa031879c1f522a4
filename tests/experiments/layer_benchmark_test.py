import csv

from absl.testing import flagsaver
import jax
import numpy as np
import pytest

import aen
from tests import launchers


@pytest.fixture(scope='module')
def benchmark():
  return launchers.load('layer_benchmark')


@pytest.mark.slow
def test_a_small_run_times_every_variant(benchmark, tmp_path, capsys):
  with flagsaver.flagsaver(
    out=str(tmp_path),
    symmetries=['rotation'],
    batch=[4],
    repeats=3,
    backward=True,
  ):
    benchmark.main([])
  with open(tmp_path / 'layers.csv') as file:
    rows = {row['variant']: row for row in csv.DictReader(file)}
  assert set(rows) == {
    'dense',
    'gather',
    'auto',
    'padded',
    'scatter',
    'sorted',
    'blocks',
  }
  assert float(rows['dense']['ratio']) == 1.0
  assert 'ratio to dense: median' in capsys.readouterr().out


@pytest.mark.parametrize('make', ['_sorted_sums', '_scatter'])
@pytest.mark.parametrize(
  'names', [('rotation',), ('left_vertical_scramble',), tuple(aen.SYMMETRIES)]
)
def test_the_rivals_compute_the_same_gradient(benchmark, make, names):
  shared = aen.dense_sharing(names, (8, 8), (4, 4))
  index, count = shared.kernel, shared.num_weights
  weights = jax.random.normal(jax.random.key(0), (count,))
  target = jax.random.normal(jax.random.key(1), index.shape)
  rival = getattr(benchmark, make)(index)
  np.testing.assert_array_equal(rival(weights), weights[index])
  np.testing.assert_allclose(
    jax.grad(lambda w: (rival(w) * target).sum())(weights),
    jax.grad(lambda w: (w[index] * target).sum())(weights),
    rtol=1e-4,
    atol=1e-4,
  )


def test_blocks_of_rows_are_equivariant(benchmark):
  inputs, firsts, position = benchmark._blocks('rotation', (28, 28), (20, 20))
  assert (inputs.shape, firsts) == ((4, 784), 100)
  assert sorted(position) == list(range(400))
  x = np.random.default_rng(0).standard_normal((1, 784))
  kernel = np.random.default_rng(1).standard_normal((784, firsts))

  def apply(x):
    return (x[:, inputs] @ kernel).reshape(1, -1)[:, position]

  np.testing.assert_allclose(
    apply(x[:, aen.permutation('rotation', (28, 28))]),
    apply(x)[:, aen.permutation('rotation', (20, 20))],
    rtol=1e-9,
    atol=1e-9,
  )
