"""The programs of a space compute what its networks do."""

import functools

import chex
import jax
import numpy as np
import pytest

import aen
from aen.groups import spectral
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import mlp_space
from aen.search import programs


def small_space(monkeypatch, **options):
  """All structures that save multiplications, however few."""
  only = {kind: kind == 'multiplication' for kind in spectral.NANOSECONDS}
  monkeypatch.setattr(spectral, 'NANOSECONDS', only)
  monkeypatch.setattr(programs, '_COMPILATION', 0.0)
  options = {'hidden_shapes': ((12, 12), (12, 12)), **options}
  return mlp_space.mlp_space((8, 8), 3, PAPER_SYMMETRIES, **options)


@functools.partial(jax.jit, static_argnums=0)
def initialised(program, collections, x):
  key = {'params': jax.random.key(0)}
  y, variables = program.apply(collections, x, rngs=key, mutable=['params'])
  return y, variables['params']


@pytest.mark.slow
@pytest.mark.parametrize(
  'options', [{}, {'features': 2}, {'head': 'invariant'}], ids=str
)
def test_programs_compute_their_networks(monkeypatch, options):
  """All networks: parameters, and logits in double precision by NumPy."""
  space = small_space(monkeypatch, **options)
  assert len({space.program(network) for network in range(len(space))}) > 10
  x = np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)
  _, drawn = initialised(space.program(0).baseline(), {}, x)
  for network in range(len(space)):
    model, program = space.model(network), space.program(network)
    collections = space.inputs(network).collections
    y, params = initialised(program, collections, x)
    started = program.starting_as(jax.device_get(drawn), collections['sharing'])
    chex.assert_trees_all_equal(started, jax.device_get(params))
    own = space.unpad(network, params)
    shapes = jax.eval_shape(model.init, jax.random.key(0), x)['params']
    chex.assert_trees_all_equal_shapes(own, shapes)
    plain = jax.tree.map(np.float64, aen.to_dense(model, own))
    expected = logits(plain, x)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def logits(plain, x):
  """A plain MLP in NumPy."""
  z = x.reshape(len(x), -1)
  for name in ('hidden_0', 'hidden_1'):
    z = np.maximum(z @ plain[name]['kernel'] + plain[name]['bias'], 0)
  return z @ plain['head']['kernel'] + plain['head']['bias']


def test_few_programs_serve_the_papers_networks():
  space = mlp_space.mlp_space((28, 28), 10, PAPER_SYMMETRIES)
  found = {space.program(network) for network in range(len(space))}
  assert len(space) == 216
  assert len(found) < 10
  assert space.program(0).symmetries == ()
  for network in range(1, len(space), 9):
    group = space._programs.choices[network].subset
    assert not group & ~int(space.implied_states[network])
  # Gathered networks have few weights, but for the baseline.
  choices = space._programs.choices
  gathered = [n for n in range(1, len(space)) if not choices[n].subset]
  (sizes,) = {choices[n].sizes for n in gathered}
  counts = space.lattice.num_weights
  assert sizes == tuple(counts[gathered].max(0)) < choices[0].sizes
  assert choices[0].sizes == tuple(counts[0])


def test_small_networks_are_one_program():
  space = mlp_space.mlp_space(
    (8, 8), 3, PAPER_SYMMETRIES, hidden_shapes=((12, 12), (12, 12))
  )
  assert len({space.program(network) for network in range(len(space))}) == 1
