"""Random numbers that never change between versions.

NumPy guarantees the stream of a bit generator, but not of the methods of
`Generator`. Pixels and splits are therefore computed from raw 64-bit words.
"""

import numbers

import numpy as np

# Streams of one seed, independent of each other.
TRANSFORM = {'train': 0, 'test': 1}
CHOOSE_TRAIN = 2
CHOOSE_TEST = 3
ROTATE = {'train': 4, 'test': 5}
CHOOSE_MNIST = 6


def words(seed: int, stream: int, count: int) -> np.ndarray:
  """Draws uint64 [count]; a longer draw begins with the shorter one."""
  if not isinstance(seed, numbers.Integral) or not 0 <= seed < 2**64:
    raise ValueError(
      f'a seed is a whole number from 0 to 2**64 - 1, got {seed!r}; try seed=0'
    )
  key = np.array([seed, stream], np.uint64)
  return np.random.Philox(key=key).random_raw(count)


def unit(seed: int, stream: int, count: int) -> np.ndarray:
  """Draws float64 [count], uniform in [0, 1)."""
  return (words(seed, stream, count) >> np.uint64(11)) * 2.0**-53


def order(
  seed: int, stream: int, labels: np.ndarray, stratified: bool
) -> np.ndarray:
  """Returns the numbers 0…N-1 in random order, int64 [N].

  If stratified, every prefix (and every suffix) is class-balanced to within one
  image.
  """
  keys = words(seed, stream, len(labels))
  shuffled = np.argsort(keys, kind='stable')
  if not stratified:
    return shuffled
  fraction = np.empty(len(labels))
  for label in np.unique(labels):
    members = shuffled[labels[shuffled] == label]
    fraction[members] = (np.arange(len(members)) + 0.5) / len(members)
  return np.lexsort((keys, fraction))
