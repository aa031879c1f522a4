"""Which children are trained together, and on how many devices."""

import dataclasses
import types

import jax
import pytest

import aen
from aen.search import mlp_space
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

RECORD = store_lib.Record((1.0,), (0.5,), (1.0,))


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
    lambda self, batch, devices, recipe: (
      trained.append((len(batch), len(devices)))
      or [dataclasses.replace(RECORD, key=self._key(r, recipe)) for r in batch]
    ),
  )
  devices = [types.SimpleNamespace(platform='cpu') for _ in range(4)]
  monkeypatch.setattr(jax, 'devices', lambda: devices)
  evaluate([(0, seed) for seed in range(children)])
  assert trained == [(size, num_devices) for size in sizes]


def test_keys_from_before_there_were_schedules_stay_valid():
  first = aen.Recipe()
  assert 'schedule' not in recipe_lib.recipe_key(first)
  cosine = aen.Recipe(schedule='cosine')
  assert '"schedule": "cosine"' in recipe_lib.recipe_key(cosine)


def test_equal_recipes_have_one_key():
  whole = recipe_lib.Recipe(learning_rate=1, momentum=0)
  same = recipe_lib.Recipe(learning_rate=1.0, momentum=0.0)
  keys = [recipe_lib.recipe_key.__wrapped__(r) for r in (whole, same)]
  assert keys[0] == keys[1]
