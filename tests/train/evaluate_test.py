"""Which children are trained together, and on how many devices."""

import types

import jax
import pytest

import aen
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import store as store_lib


@pytest.mark.parametrize(
  ('children', 'sizes', 'num_devices'),
  [(1, [1], 1), (3, [3], 3), (4, [4], 4), (9, [4, 4, 1], 4)],
)
def test_batches_leave_no_device_idle(
  monkeypatch, children, sizes, num_devices
):
  data = aen.load_dataset('tic_tac_toe')
  space = mlp_space.mlp_space((3, 3), 2, ['horizontal_flip'])
  evaluate = evaluate_lib.make_evaluator(
    data, space=space, recipe=aen.Recipe(), store=store_lib.Results()
  )
  trained = []
  monkeypatch.setattr(
    evaluate_lib.Evaluator,
    '_train',
    lambda self, batch, devices: trained.append((len(batch), len(devices))),
  )
  devices = [types.SimpleNamespace(platform='cpu') for _ in range(4)]
  monkeypatch.setattr(jax, 'devices', lambda: devices)
  evaluate([(0, seed) for seed in range(children)])
  assert trained == [(size, num_devices) for size in sizes]


def test_memos_from_before_there_were_schedules_stay_known():
  first = aen.Recipe()
  assert 'schedule' not in evaluate_lib.recipe_key(first)
  cosine = aen.Recipe(schedule='cosine')
  assert '"schedule": "cosine"' in evaluate_lib.recipe_key(cosine)
