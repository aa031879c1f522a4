"""Trains two children as a launcher does; prints a digest of their numbers.

Run with the executor, 'local' or 'processes', and the cores to use.
"""

import hashlib
import os
import sys

import numpy as np

import aen
from aen.data import load
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.train import evaluate
from aen.train import executors
from aen.train import store
from experiments import launch


def main(executor, cores):
  """Prints the digest, the threads of XLA, and the devices used."""
  os.sched_setaffinity(0, map(int, cores.split(',')))
  launch.use_all_cores()
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (160, 28, 28), np.uint8)
  data = load.from_arrays(images, rng.integers(0, 3, 160))
  recipe = aen.Recipe(epochs=1, batch_size=32)
  digest, threads = hashlib.sha256(), set()
  for space in (
    mlp_space.mlp_space((28, 28), 3, ('rotation', 'horizontal_translation')),
    gcnn_space.gcnn_space((28, 28), 3),
  ):
    workers = executors.Workers(executor)
    with workers.started() as fields, store.Results(store.MEMORY) as results:
      evaluator = evaluate.make_evaluator(
        data,
        space=space,
        recipe=recipe,
        store=results,
        keep_params=True,
        **fields,
      )
      for record in evaluator([(len(space) - 1, 0), (len(space) - 1, 1)]):
        digest.update(store.pack(record.params))
        threads.add(record.origin.threads)
  print(digest.hexdigest(), *threads)


if __name__ == '__main__':
  main(*sys.argv[1:])
