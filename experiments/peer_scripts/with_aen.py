"""The tasks of all peers in aen; the argument is JSON: `cache`, a folder.

With a folder, XLA's compilations are read from there, and written there.
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


def trainer(network, images):
  """Returns a training step of a network."""
  optimizer = optax.sgd(1e-3, momentum=0.9)
  labels = jnp.arange(len(images)) % 10

  def loss(params, key):
    out = network.apply({'params': params}, images, **mode(key))
    return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean()

  def mode(key):
    cnn = isinstance(network, aen.GroupCNN)
    return {'train': True, 'rngs': {'dropout': key}} if cnn else {}

  @functools.partial(jax.jit, donate_argnums=0)
  def update(state, key):
    params, opt_state = state
    updates, opt_state = optimizer.update(
      jax.grad(loss)(params, key), opt_state
    )
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


def main(cache):
  """Serves the tasks."""
  if cache:
    os.environ['AEN_CACHE_DIR'] = cache
    executors.keep_compilations()
    os.environ['AEN_CACHE_DIR'] = ''
  sides, small = worker.SIDES, worker.SMALL
  images = jnp.ones((worker.BATCH, sides[0], sides[0]))
  spec = worker.CNN
  names = symmetries.PAPER_SYMMETRIES

  def construct(names, before, after):
    sharing.clear_memory_cache()
    aen.dense_sharing(names, (before,) * 2, (after,) * 2)

  def mlp(sides):
    hidden = [(side, side) for side in sides[1:]]
    return aen.EquivariantMLP(
      ('rotation',), in_shape=(sides[0],) * 2, hidden_shapes=hidden
    )

  large = functools.cache(lambda: trainer(mlp(sides), images))
  little = functools.cache(
    lambda: trainer(mlp([small] * 3), images[:, :small, :small])
  )
  pictures = jnp.ones((spec['batch'], *spec['shape']))
  cnn = aen.GroupCNN(('rotation', 'horizontal_flip'), in_shape=spec['shape'])
  convolve = functools.cache(lambda: trainer(cnn, pictures))

  def child():
    construct(('rotation',), *sides[:2])
    construct(('rotation',), *sides[1:])
    step = large()  # in a search, all children share its program
    for _ in range(worker.STEPS):
      step()

  versions = {
    name: importlib.metadata.version(name) for name in ('jax', 'flax')
  }
  worker.serve(
    f'aen {aen.__version__}, '
    + ', '.join(f'{name} {number}' for name, number in versions.items()),
    {
      'construct one': lambda: construct(('rotation',), *sides[:2]),
      'construct twelve': lambda: construct(names, *sides[:2]),
      'construct small': lambda: construct(('rotation',), small, small),
      'mlp step': lambda: large()(),
      'small mlp step': lambda: little()(),
      'child': child,
      'cnn step': lambda: convolve()(),
    },
  )


if __name__ == '__main__':
  main(**json.loads(sys.argv[1]))
