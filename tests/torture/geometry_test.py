"""Convolutions of random geometry: exactly equivariant, or refused."""

import collections

import jax
import numpy as np
import pytest

import aen
from tests.torture import figures

pytestmark = pytest.mark.torture

GROUPS = [
  (),
  ('horizontal_flip',),
  ('vertical_flip',),
  ('rotation',),
  ('horizontal_flip', 'vertical_flip'),
  ('rotation', 'horizontal_flip'),
]
LITERAL = {
  'rotation': lambda x: np.rot90(x, axes=(1, 2)),
  'horizontal_flip': lambda x: x[:, :, ::-1],
  'vertical_flip': lambda x: x[:, ::-1],
}


def test_no_geometry_loses_equivariance_silently():
  rng, outcomes = np.random.default_rng(figures.SEED), collections.Counter()

  def pick(options):
    return options[rng.integers(len(options))]

  for i in range(figures.size(1000, least=10)):
    symmetries, lifting = pick(GROUPS), bool(rng.integers(2))
    options = {
      'kernel_size': pick([(1, 1), (2, 2), (3, 3), (1, 3), (3, 1), (4, 4)]),
      'strides': pick([1, 2, 3, (1, 2)]),
      'padding': pick(['SAME', 'VALID', 0, 1, (1, 2), ((0, 1), (1, 0))]),
      'kernel_dilation': pick([1, 1, 2]),
      'method': pick([None, 'conv', 'patches']),
    }
    space = pick([(4, 4), (5, 5), (6, 6), (7, 7), (4, 6), (5, 4)])
    if rng.integers(2):  # mostly what the check lets pass
      options |= {'strides': 1, 'padding': pick(['SAME', 'VALID', 1])}
      options['kernel_size'] = pick([(1, 1), (3, 3), (5, 5)])
    where = f'call {i}: {symmetries} lifting={lifting} {options} on {space}'
    try:
      layer = aen.EquivariantConv(symmetries, 2, lifting=lifting, **options)
      order = layer.group().order
      shape = (1, *space, *([] if lifting else [order]), 2)
      x = rng.normal(size=shape).astype(np.float32)
      y, variables = layer.init_with_output(jax.random.key(i), x)
    except ValueError:
      outcomes['refused'] += 1
      continue
    y, group = np.asarray(y), layer.group()
    for name in symmetries:
      came_from = group.table[group.inverse[group.find(name)]]
      moved = LITERAL[name](x)
      moved = moved if lifting else np.take(moved, came_from, 3)
      got = np.asarray(layer.apply(variables, np.ascontiguousarray(moved)))
      expected = np.take(LITERAL[name](y), came_from, 3)
      assert got.shape == expected.shape, where
      off = np.abs(got - expected).max() / max(1, np.abs(expected).max())
      assert off < 1e-4, f'{where}: not equivariant to {name}, off by {off:.1e}'
    outcomes['equivariant'] += 1
  figures.write(
    'summary',
    'geometries of convolutions',
    f'{outcomes.total()} layers',
    f'{outcomes["equivariant"]} equivariant, {outcomes["refused"]} refused in'
    ' one line, 0 silently broken',
  )
