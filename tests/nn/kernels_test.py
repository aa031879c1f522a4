import numpy as np
import pytest

import aen
from aen.nn import kernels


@pytest.mark.parametrize('width', [2, 8])
@pytest.mark.parametrize(
  'names', [('rotation',), ('left_vertical_scramble',), tuple(aen.SYMMETRIES)]
)
def test_sum_tables_sum_every_class(names, width):
  labels = aen.dense_sharing(names, (8, 8), (4, 4)).kernel.ravel()
  values = np.random.default_rng(0).integers(-9, 10, labels.size)
  sums = values
  for table in kernels.sum_tables(labels, width):
    assert len(table) <= width
    sums = np.append(sums, 0)[table].sum(0)
  expected = np.bincount(labels, weights=values)
  np.testing.assert_array_equal(sums, expected)
