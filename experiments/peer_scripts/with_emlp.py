"""An MLP on 7×7 pixels, equivariant to rotation, in emlp."""

import functools
import importlib.metadata

from emlp.groups import Group
from emlp.reps import Rep
from emlp.reps import V
import jax
import jax.numpy as jnp
import numpy as np
import worker


class Rotation(Group):
  """Rotation by 90°, a permutation matrix."""

  def __init__(self, side):
    """Acts on side × side pixels."""
    grid = np.arange(side**2).reshape(side, side)
    self.discrete_generators = np.eye(side**2)[np.rot90(grid).ravel()][None]
    super().__init__()


def trainer():
  """Returns a training step of layers like emlp's, W = P w and b = P' b."""
  rep = V(Rotation(worker.SMALL))
  kernel = (rep >> rep).equivariant_projector()
  bias = rep.equivariant_projector()
  size = worker.SMALL**2
  images = jnp.ones((worker.BATCH, size))
  labels = jax.nn.one_hot(jnp.arange(worker.BATCH) % 10, 10)

  def loss(params):
    x = images
    for w, b in params[:2]:
      x = jax.nn.relu(x @ (kernel @ w.ravel()).reshape(w.shape).T + bias @ b)
    w, b = params[2]
    return -(labels * jax.nn.log_softmax(x @ w + b)).sum(1).mean()

  @jax.jit
  def update(params, momentum):
    gradient = jax.grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum

  # Without the dtype, the second step would be compiled again.
  full = functools.partial(jnp.full, fill_value=0.01, dtype=jnp.float32)
  square = full((size, size)), jnp.zeros(size)
  params = [square, square, (full((size, 10)), jnp.zeros(10))]
  state = [(params, jax.tree.map(jnp.zeros_like, params))]

  def step():
    state[0] = jax.block_until_ready(update(*state[0]))

  return step


def construct():
  """Solves for the equivariant kernels, without cached solutions."""
  rep = V(Rotation(worker.SMALL))
  Rep.solcache.clear()
  (rep >> rep).equivariant_basis()


if __name__ == '__main__':
  worker.serve(
    f'emlp {importlib.metadata.version("emlp")}, jax {jax.__version__}',
    {'construct small': construct, 'small mlp step': worker.prepared(trainer)},
  )
