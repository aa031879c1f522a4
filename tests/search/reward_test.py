import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aen.search import agent as agent_lib


def test_the_papers_formula():
  accuracy = np.linspace(0, 1, 11)
  x = 3.0 * (accuracy - 0.4)
  np.testing.assert_allclose(
    agent_lib.reward(accuracy, 0.4, scale=3.0), x * np.exp(np.abs(x)), rtol=1e-5
  )
  np.testing.assert_allclose(agent_lib.reward(0.6, 0.6), 0.0)


@pytest.mark.parametrize('scale', [1.0, agent_lib.DEFAULT_SCALE, 40.0])
def test_better_networks_earn_more(scale):
  earned = np.asarray(agent_lib.reward(np.linspace(0, 1, 101), 0.5, scale))
  assert (np.diff(earned) > 0).all()
  np.testing.assert_allclose(earned, -earned[::-1], rtol=1e-4)


@pytest.mark.parametrize('scale', [100.0, 1e6, 1e30])
def test_no_scale_overflows(scale):
  earned = agent_lib.reward(np.array([0.0, 0.5, 1.0]), 0.5, scale)
  sums = 1e13 * earned
  assert np.isfinite(earned).all()
  assert np.isfinite(sums).all()
  slope = jax.grad(lambda a: agent_lib.reward(a, 0.5, scale))(jnp.float32(0.9))
  assert np.isfinite(slope)
