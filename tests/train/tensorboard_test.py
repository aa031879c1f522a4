"""Curves for TensorBoard, read back by its own reader."""

import subprocess
import sys

import numpy as np
import pytest

import aen
from aen.search import mlp_space
from aen.search import search as search_lib
from aen.train import store as store_lib
from aen.train import tensorboard

pytest.importorskip('tensorboardX')
reader = pytest.importorskip(
  'tensorboard.backend.event_processing.event_multiplexer'
)


def read(directory):
  """Returns TensorBoard's view: run -> tag -> [(epoch, value)]."""
  runs = reader.EventMultiplexer().AddRunsFromDirectory(str(directory))
  runs.Reload()
  return {
    run: {
      tag: [(event.step, event.value) for event in runs.Scalars(run, tag)]
      for tag in tags['scalars']
    }
    for run, tags in runs.Runs().items()
  }


def record(seed=0, **changes):
  key = store_lib.ChildKey('network', 'data', 'recipe', seed)
  fields = {
    'train_loss': (0.5, 0.25),
    'validation_accuracy': (0.75, 1.0),
    'validation_loss': (1.5, 1.25),
    'key': key,
    'symmetries': 'rotation + transpose/2',
    'seconds': 3.0,
  }
  return store_lib.Record(**{**fields, **changes})


def test_a_child_is_a_run(tmp_path):
  child, other = record(), record(seed=1, test_accuracy=(0.5, 0.75))
  tensorboard.callback(tmp_path)([child, other])
  runs = read(tmp_path)
  assert set(runs) == {tensorboard.run_name(child), tensorboard.run_name(other)}
  assert tensorboard.run_name(child).startswith('rotation+transpose_2/seed_0_')
  curves = {
    'loss/train': [(1, 0.5), (2, 0.25)],
    'loss/validation': [(1, 1.5), (2, 1.25)],
    'accuracy/validation': [(1, 0.75), (2, 1.0)],
  }
  assert runs[tensorboard.run_name(child)] == curves
  curves['accuracy/test'] = [(1, 0.5), (2, 0.75)]
  assert runs[tensorboard.run_name(other)] == curves


def test_a_child_that_is_trained_again_replaces_its_run(tmp_path):
  write = tensorboard.callback(tmp_path)
  write([record(train_loss=(9.0, 9.0))])
  write([record()])
  ((_, curves),) = read(tmp_path).items()
  assert curves['loss/train'] == [(1, 0.5), (2, 0.25)]


def test_a_diverged_child_has_no_loss(tmp_path):
  largest = float(np.finfo(np.float32).max)
  tensorboard.callback(tmp_path)(
    [record(validation_loss=(1.5, largest), symmetries='')]
  )
  ((name, curves),) = read(tmp_path).items()
  assert name.startswith('no_symmetry/')
  assert curves['loss/validation'][0] == (1, 1.5)
  assert np.isnan(curves['loss/validation'][1][1])


def test_all_children_of_a_search(tmp_path):
  data = aen.load_dataset('tic_tac_toe')
  space = mlp_space.mlp_space(
    data.image_shape, data.num_classes, ['horizontal_flip'], features=2
  )
  config = aen.SearchConfig(
    aen.Recipe(epochs=2), 'exhaustive', top=1, retrain_seeds=2
  )
  write, children = tensorboard.callback(tmp_path), []

  def on_trained(records):
    write(records)
    children.extend(records)

  search_lib.search(data, space, config, on_trained=on_trained)
  assert len(children) >= 4
  runs = read(tmp_path)
  assert set(runs) == set(map(tensorboard.run_name, children))
  for child in children:
    found = runs[tensorboard.run_name(child)]
    for field in ('train_loss', 'validation_loss', 'validation_accuracy'):
      steps, values = zip(*found[tensorboard.CHARTS[field]], strict=True)
      assert steps == tuple(range(1, child.epochs + 1))
      np.testing.assert_allclose(values, getattr(child, field), rtol=1e-6)


def test_without_the_extra_it_says_what_to_install():
  code = (
    'import sys; sys.modules["tensorboardX"] = None\n'
    'from aen.train import tensorboard\n'
    'try: tensorboard.callback("x")\n'
    'except ModuleNotFoundError as error: print(error)'
  )
  run = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  assert run.stdout == (
    'writing curves for TensorBoard needs tensorboardX; pip install'
    ' "aen[tensorboard]"\n'
  )
