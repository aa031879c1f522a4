"""The timing of benchmarks, on times that are known."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments import timing


def test_variants_run_in_turn_and_warm_up_rounds_do_not_count():
  calls = []
  times = timing.interleaved(
    {name: lambda name=name: calls.append(name) for name in 'ab'}, 3
  )
  assert calls == ['a', 'b'] * 4
  assert {name: len(each) for name, each in times.items()} == {'a': 3, 'b': 3}


def test_any_clock_can_be_read():
  ticks = iter(range(100))
  times = timing.interleaved(
    {'a': lambda: next(ticks), 'b': lambda: None},
    2,
    clock=lambda: float(next(ticks)),
  )
  assert times == {'a': [2.0, 2.0], 'b': [1.0, 1.0]}


def test_ratios_are_taken_within_rounds():
  times = {'slow': [2.0, 30.0, 4.0], 'fast': [1.0, 10.0, 4.0]}
  assert timing.ratio(times, 'slow', 'fast') == 2.0
  assert timing.ratio(times, 'fast', 'fast') == 1.0
  assert timing.fastest_ratio(times, 'fast', 'slow') == 0.5
  assert timing.milliseconds(times, 'slow') == 4000.0
  said = timing.spread([3.0, 1.0, 2.5], 'sets')
  assert said == 'median 2.50, from 1.00 to 3.00, over 3 sets'


def test_a_training_step_descends():
  x = jax.random.normal(jax.random.key(0), (8, 3))
  labels = jnp.arange(8) % 10
  module = nn.Dense(10, use_bias=False)
  step, state = timing.training(module, optax.sgd(0.1), x)

  def loss(w):
    return optax.softmax_cross_entropy_with_integer_labels(x @ w, labels).mean()

  w = state[0]['kernel']
  new = step(state, {}, x)[0]['kernel']
  np.testing.assert_allclose(new, w - 0.1 * jax.grad(loss)(w), rtol=1e-6)
  assert loss(new) < loss(w)


def test_rows_are_printed_and_written(tmp_path, capsys):
  rows = [{'a': 1, 'b': 0.123456}, {'a': 2}]
  assert timing.collect(iter(rows), tmp_path / 'x.csv') == rows
  assert (tmp_path / 'x.csv').read_text() == 'a,b\n1,0.123456\n2,\n'
  said = capsys.readouterr().out.splitlines()
  assert [line.split() for line in said[:4]] == [
    ['a', 'b'],
    ['1', '0.1235'],
    ['a'],
    ['2'],
  ]
  with pytest.raises(ValueError, match='not in fieldnames'):
    timing.collect([{'a': 1}, {'c': 2}], tmp_path / 'x.csv')
