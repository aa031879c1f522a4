"""An exact randomisation test of invariance under powers of a symmetry.

A symmetry g of order m generates the cyclic group {1, g, …, g^(m-1)}. The null
hypothesis is that this group leaves the distribution of the examples of every
class as it is. Then an independent, uniformly random power of g applied to each
example changes nothing in distribution, so for *any* statistic T the p-value

    p = (1 + #{b: T_b ≥ T}) / (B + 1)

is exact, where T_b is T of the b-th randomised data. Examples that g does not
change are no exception.

T is a kernel mean discrepancy. With φ the random Fourier features of a Gaussian
kernel, and x_0 = x, x_1, …, x_(L-1) distinct random powers of g applied to x,

    T = Σ_c n_c/N · ‖ mean over examples of class c of φ(x_0) - mean_j φ(x_j) ‖²

A randomisation exchanges x_0 with a uniformly drawn x_j in every example. This
is exact as well, because x_0, …, x_(L-1) are exchangeable under the null
hypothesis, and it needs L ≤ 4 feature vectors per example, whatever the order.
Nothing else in T may depend on which of them is the original: frequencies are
drawn independently of the data, and the bandwidth is a function of norms, which
rearranging an example does not change.

Legend: N examples of P points with C channels, G groups, S symmetries of equal
L, F frequencies, B randomisations, K blocks of Q examples.
"""

from collections.abc import Sequence
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from aen.groups.orbits import orbits

_MAX_POWERS = 4  # L
_BLOCKS = (16, 32, 64, 128, 256, 512)  # Q to choose from
_BLOCK_COST = 50  # a block costs as much as this number of its examples
_dot = functools.partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)


class Statistics(NamedTuple):
  """The test statistics of one symmetry."""

  values: Any  # float32 [B + 1], T and then every T_b
  size: Any  # float32 [], the mean of ‖φ(x_0) - mean_j φ(x_j)‖²
  effect: Any  # float32 [], how often examples are told from their copies

  @property
  def p_value(self) -> float:
    """(1 + #{T_b ≥ T}) / (B + 1); values equal up to rounding are ties."""
    observed, randomised = self.values[0], self.values[1:]
    as_large = randomised >= observed - (1e-5 * observed + 1e-12)
    return float((1 + np.sum(as_large)) / self.values.size)


class Cycles(NamedTuple):
  """A permutation by its cycles, so that any power of it is one gather."""

  points: np.ndarray  # int32 [P], cycle after cycle
  start: np.ndarray  # int32 [P], where the cycle of each point begins
  place: np.ndarray  # int32 [P], the position of each point in its cycle
  length: np.ndarray  # int32 [P], of its cycle
  kind: np.ndarray  # int32 [P], the position of that length in `lengths`
  lengths: np.ndarray  # int32 [lengths], the distinct lengths
  order: int

  @classmethod
  def of(cls, permutation: np.ndarray) -> 'Cycles':
    """Follows the cycles, all points at once."""
    size = permutation.size
    labels = orbits([permutation], size)
    counts = np.bincount(labels)
    start_of = np.concatenate([[0], np.cumsum(counts)[:-1]])
    place = np.zeros(size, np.int64)
    here = np.unique(labels, return_index=True)[1]  # the first of each cycle
    for step in range(1, counts.max()):
      here = permutation[here]
      inside = step < counts
      place[here[inside]] = step
    start, length = start_of[labels], counts[labels]
    points = np.empty(size, np.int64)
    points[start + place] = np.arange(size)
    lengths, kind = np.unique(length, return_inverse=True)
    arrays = (points, start, place, length, kind, lengths)
    fields: list[Any] = [array.astype(np.int32) for array in arrays]
    fields.append(math.lcm(*lengths.tolist()))
    return cls(*fields)

  @property
  def num_powers(self) -> int:
    """L."""
    return min(self.order, _MAX_POWERS)


def statistics(
  examples: np.ndarray,  # float32 [N, P, C]
  classes: np.ndarray,  # int [N], numbers from 0 without gaps
  group_of: np.ndarray,  # int [N], numbers from 0
  cycles: Sequence[Cycles],  # of permutations of the P points
  num_randomizations: int,
  num_frequencies: int,
  rng: np.random.Generator,
) -> list[Statistics]:
  """Tests symmetries, those with the same L in one compiled program.

  Examples of one group are transformed together.
  """
  blocks = _blocks(classes, group_of)
  frequencies = _frequencies(examples, num_frequencies, rng)
  num_groups = len(examples)  # at most; other sizes would compile again
  # The identity, which no statistic can reject.
  found = [
    Statistics(np.zeros(num_randomizations + 1), np.zeros(()), np.full((), 0.5))
  ] * len(cycles)
  for num_powers in sorted({c.num_powers for c in cycles} - {1}):
    chosen = [i for i, c in enumerate(cycles) if c.num_powers == num_powers]
    shape = (num_groups, num_randomizations + 1)
    choices = rng.integers(num_powers, size=shape, dtype=np.uint8)
    choices[:, 0] = 0  # the data as they are
    drawn = [draw_powers(cycles[i], num_groups, rng) for i in chosen]
    width = max(powers.shape[-1] for powers in drawn)
    padded = [
      np.pad(powers, ((0, 0), (0, 0), (0, width - powers.shape[-1])))
      for powers in drawn
    ]
    fields = zip(*(cycles[i][:5] for i in chosen), strict=True)
    stacked = (*map(np.stack, fields), np.stack(padded))
    tested = _test(num_powers, examples, frequencies, blocks, choices, stacked)
    for row, i in enumerate(chosen):
      found[i] = Statistics(*(np.asarray(part[row]) for part in tested))
  return found


class _Blocks(NamedTuple):
  """Examples in blocks of one class, classes in order; padding has weight 0."""

  rows: np.ndarray  # int32 [K, Q]
  group: np.ndarray  # int32 [K, Q]
  tie: np.ndarray  # int32 [K, Q], equal for examples of one group and class
  class_: np.ndarray  # int32 [K]
  begins: np.ndarray  # float32 [K], 1 where a class begins
  weight: np.ndarray  # float32 [K, Q], 1 / √(N n_c)


def _blocks(classes: np.ndarray, group_of: np.ndarray) -> _Blocks:
  counts = np.bincount(classes)
  size = min(_BLOCKS, key=lambda q: (-(-counts // q) * (q + _BLOCK_COST)).sum())
  of_class = -(-counts // size)
  num_blocks = int(of_class.sum())
  rows = np.full((num_blocks, size), -1, np.int32)
  order = np.argsort(classes, kind='stable')
  class_ = np.repeat(np.arange(len(counts)), of_class)
  for c, part in enumerate(np.split(order, np.cumsum(counts)[:-1])):
    padded = np.full(of_class[c] * size, -1, np.int32)
    padded[: part.size] = part
    rows[class_ == c] = padded.reshape(-1, size)
  ties = group_of * len(counts) + classes
  tie = np.unique(ties, return_inverse=True)[1]
  weight = 1 / np.sqrt(len(classes) * counts[class_])
  return _Blocks(
    rows=np.maximum(rows, 0),
    group=group_of[rows].astype(np.int32),
    tie=tie[rows].astype(np.int32),
    class_=class_.astype(np.int32),
    begins=np.diff(class_, prepend=-1).clip(0, 1).astype(np.float32),
    weight=np.where(rows >= 0, weight[:, None], 0).astype(np.float32),
  )


def _frequencies(
  examples: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
  """Draws the frequencies of φ. float32 [P, C, F].

  The kernel is exp(-‖x - y‖² / s²) with s² = median(‖x‖²) / 2, narrow enough to
  distinguish distributions that have the same mean.
  """
  scale = float(np.median(np.square(examples).sum(axis=(1, 2)))) / 2
  drawn = rng.normal(size=(*examples.shape[1:], count))
  return (drawn * math.sqrt(2 / (scale or 1.0))).astype(np.float32)


def draw_powers(
  cycles: Cycles, num_groups: int, rng: np.random.Generator
) -> np.ndarray:
  """Draws each group's powers of a symmetry, distinct, the first of them 0.

  Orders can exceed every integer type, so a power is given by its remainders
  modulo the lengths of the cycles. int32 [G, L, lengths]
  """
  order, num_powers = cycles.order, cycles.num_powers
  drawn = np.zeros((num_groups, num_powers), object)
  again = np.arange(num_groups)
  while again.size:
    shape = (again.size, num_powers - 1)
    if order < 2**62:
      drawn[again, 1:] = rng.integers(1, order, shape)
    else:  # the bias of the remainder is below 2^-64
      num_bytes = order.bit_length() // 8 + 9
      numbers = [
        1 + int.from_bytes(rng.bytes(num_bytes)) % (order - 1)
        for _ in range(math.prod(shape))
      ]
      drawn[again, 1:] = np.array(numbers, object).reshape(shape)
    ordered = np.sort(drawn[again], axis=1)
    again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
  remainders = drawn[:, :, None] % cycles.lengths.astype(object)
  return remainders.astype(np.int32)


@functools.partial(jax.jit, static_argnums=0)
def _test(
  num_powers: int,
  examples: jax.Array,  # [N, P, C]
  frequencies: jax.Array,  # [P, C, F]
  blocks: _Blocks,
  choices: jax.Array,  # uint8 [G, B + 1]
  symmetries: tuple[jax.Array, ...],  # each [S, …]
) -> Statistics:
  """Tests all symmetries with the same L."""
  num_points, num_channels, num_frequencies = frequencies.shape
  flat = frequencies.reshape(num_points * num_channels, num_frequencies)

  def features(points: jax.Array) -> jax.Array:  # [Q, P, C] -> [Q, 2 F]
    angles = _dot(points.reshape(len(points), -1), flat)
    waves = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1)
    return waves / math.sqrt(num_frequencies)

  def one(symmetry: tuple[jax.Array, ...]) -> Statistics:
    cycle, start, place, length, kind, powers = symmetry

    def power(points: jax.Array, remainders: jax.Array) -> jax.Array:
      """Transforms examples [Q, P, C], given [Q, lengths]."""
      places = (place[None] + remainders[:, kind]) % length[None]
      index = cycle[start[None] + places]
      return jnp.take_along_axis(points, index[:, :, None], axis=1)

    def add(carry: Any, block: _Blocks) -> Any:
      sums, total = carry  # [B + 1, 2 F], [B + 1]
      total = total + block.begins * jnp.square(sums).sum(axis=1)
      sums = sums * (1 - block.begins)
      points, drawn = examples[block.rows], powers[block.group]
      phi = jnp.stack(
        [features(power(points, drawn[:, j])) for j in range(num_powers)]
      )  # [L, Q, 2 F]
      centred = phi - phi.mean(axis=0, keepdims=True)
      # Σ_j centred_j = 0, so the choice 0 is minus the sum of all others.
      choice = choices[block.group]  # [Q, B + 1]
      for j in range(1, num_powers):
        sign = (choice == j).astype(jnp.float32) - (choice == 0)
        weighted = centred[j] * block.weight[:, None]
        sums = sums + _dot(sign.T, weighted)
      used = block.weight > 0
      size = jnp.where(used, jnp.square(centred[0]).sum(axis=1), 0).sum()
      apart = jnp.where(used[:, None], phi[0] - phi[1], 0)
      return (sums, total), (size, apart)

    width = choices.shape[1]
    begin = (jnp.zeros((width, 2 * num_frequencies)), jnp.zeros(width))
    (sums, total), (sizes, apart) = jax.lax.scan(add, begin, blocks)
    effect = _effect(apart, blocks, len(examples))
    values = total + jnp.square(sums).sum(axis=1)
    return Statistics(values, sizes.sum() / len(examples), effect)

  return jax.lax.map(one, symmetries)


def _effect(apart: jax.Array, blocks: _Blocks, num_examples: int) -> jax.Array:
  """Returns how often the kernel mean classifier picks the original.

  It is fitted to the examples of the same class that are in other groups.
  `apart` is φ(x_0) - φ(x_1), 0 for padding. [K, Q, 2 F]
  """
  sums = jax.ops.segment_sum(
    apart.sum(axis=1), blocks.class_, num_segments=len(blocks.class_)
  )
  flat = apart.reshape(-1, apart.shape[-1])  # [K Q, 2 F]
  tied = jax.ops.segment_sum(flat, blocks.tie.ravel(), num_examples)
  others = sums[blocks.class_][:, None] - tied[blocks.tie]
  scores = (others * apart).sum(axis=-1)  # [K, Q]
  picked = jnp.where(jnp.abs(scores) < 1e-9, 0.5, scores > 0)
  return jnp.where(blocks.weight > 0, picked, 0).sum() / num_examples
