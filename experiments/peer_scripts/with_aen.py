"""The tasks of all peers in aen.

The argument is JSON: `cache`, a folder for XLA's compilation cache, or ''.
"""

import functools
import importlib.metadata
import json
import os
import sys

os.environ['AEN_CACHE_DIR'] = ''  # sharing patterns are computed, not read

import jax
import jax.numpy as jnp
import optax
import worker

import aen
from aen.groups import sharing
from aen.groups import symmetries
from aen.train import executors


def trainer(network, images, **options):
  """Returns a training step of a network."""
  optimizer = optax.sgd(1e-3, momentum=0.9)
  labels = jnp.arange(len(images)) % 10

  def loss(params, key):
    rngs = {'dropout': key}
    out = network.apply({'params': params}, images, rngs=rngs, **options)
    return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean()

  @functools.partial(jax.jit, donate_argnums=0)
  def update(state, key):
    params, opt_state = state
    gradient = jax.grad(loss)(params, key)
    updates, opt_state = optimizer.update(gradient, opt_state)
    return optax.apply_updates(params, updates), opt_state

  @jax.jit
  def init(key):
    params = network.init(key, images)['params']
    return params, optimizer.init(params)

  key = jax.random.key(0)
  states = [init(key)]

  def step():
    states[0] = jax.block_until_ready(update(states[0], key))

  return step


def mlp(images, *sides):
  """Returns a training step of an MLP; `sides` are those of hidden grids."""
  hidden = [(side, side) for side in sides]
  network = aen.EquivariantMLP(
    ('rotation',), in_shape=images.shape[1:], hidden_shapes=hidden
  )
  return trainer(network, images)


def construct(names, before, after):
  """Computes the sharing pattern of a layer."""
  sharing.clear_memory_cache()
  aen.dense_sharing(names, (before,) * 2, (after,) * 2)


def main(cache):
  """Serves the tasks."""
  if cache:
    os.environ['AEN_CACHE_DIR'] = cache
    executors.keep_compilations()
    os.environ['AEN_CACHE_DIR'] = ''
  one, twelve = ('rotation',), symmetries.PAPER_SYMMETRIES
  sides, small, spec = worker.SIDES, worker.SMALL, worker.CNN
  images = jnp.ones((worker.BATCH, sides[0], sides[0]))
  little = worker.prepared(lambda: mlp(images[:, :small, :small], small, small))
  step = worker.prepared(lambda: mlp(images, *sides[1:]))
  cnn = aen.GroupCNN(('rotation', 'horizontal_flip'), in_shape=spec['shape'])
  pictures = jnp.ones((spec['batch'], *spec['shape']))

  def child():
    construct(one, *sides[:2])
    construct(one, *sides[1:])
    for _ in range(worker.STEPS):
      step()  # in a search, all children share its program

  flax = importlib.metadata.version('flax')
  worker.serve(
    f'aen {aen.__version__}, jax {jax.__version__}, flax {flax}',
    {
      'construct one': lambda: construct(one, *sides[:2]),
      'construct twelve': lambda: construct(twelve, *sides[:2]),
      'construct small': lambda: construct(one, small, small),
      'mlp step': step,
      'small mlp step': little,
      'child': child,
      'cnn step': worker.prepared(lambda: trainer(cnn, pictures, train=True)),
    },
  )


if __name__ == '__main__':
  main(**json.loads(sys.argv[1]))
