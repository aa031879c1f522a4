"""Which symmetries do the data have? A randomisation test, before any training.

A symmetry g of order m generates the cyclic group {1, g, …, g^(m-1)}. The null
hypothesis is that this group leaves the distribution of the examples of every
class as it is. Then an independent, uniformly random power of g applied to each
example changes nothing in distribution, so for *any* statistic T the p-value

    p = (1 + #{b: T_b ≥ T}) / (B + 1)

is exact, where T_b is T of the b-th randomised data. Examples that g does not
change are no exception.

T is a kernel mean discrepancy. With φ the random Fourier features of a Gaussian
kernel, and x_0 = x, x_1, …, x_(L-1) distinct random powers of g applied to x,

    T = Σ_c n_c/N · ‖ mean over examples of class c of φ(x_0) - mean_l φ(x_l) ‖²

A randomisation exchanges x_0 with a uniformly drawn x_l in every example. This
is exact as well, because x_0, …, x_(L-1) are exchangeable under the null
hypothesis, and it needs L ≤ 4 feature vectors per example, whatever the order.
Nothing else in T may depend on which of them is the original: frequencies are
drawn independently of the data, and the bandwidth is a function of norms, which
rearranging an example does not change.

Legend: N examples of P points with C channels, G groups, S symmetries of equal
L, F frequencies, B randomisations, K blocks of Q examples.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import math
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from aen import io as io_lib
from aen.groups import symmetries as symmetries_lib
from aen.groups.orbits import orbits
from aen.groups.orbits import pair
from aen.groups.orbits import permutation
from aen.search import space as space_lib

LEVEL = 0.05  # of the family-wise error
BOUND = 0.55  # of pairs told apart, below which a symmetry may be accepted
_POWER = 0.9  # with which `examples_needed` suffice
_MAX_POWERS = 4  # L
_MAX_PAIRS = 2**25  # of points, up to which closures are computed
_BLOCKS = (16, 32, 64, 128, 256, 512)  # Q to choose from
_NUM_SAMPLES = 6  # examples that the figure shows

REJECTED, ACCEPTED, UNDECIDED = 'rejected', 'accepted', 'undecided'


@dataclasses.dataclass(frozen=True)
class Tested:
  """What the test says about one symmetry.

  Attributes:
    outcome: 'rejected': the distribution is not invariant. 'accepted': it is
      compatible with invariance, and examples are hardly ever told from their
      transformed copies. 'undecided': there are too few examples to tell.
    order: The order of the symmetry on this grid.
    p_value: Exact for this symmetry alone.
    adjusted_p_value: Corrected for the number of symmetries (Holm).
    effect: Shown an example and its transformed copy, a classifier that was
      fitted to the other examples picks the original in this share of cases;
      0.5 is chance.
    effect_limit: The upper 95 % confidence limit of `effect`.
    discrepancy: T minus its mean under randomisation, relative to the mean of
      ‖φ(x_0) - mean_l φ(x_l)‖². Unbiased, so it may be below 0.
    noise: The standard deviation of the same under randomisation.
    critical: The (1 - level) quantile under randomisation, in units of `noise`.
  """

  outcome: str
  order: int
  p_value: float
  adjusted_p_value: float
  effect: float
  effect_limit: float
  discrepancy: float
  noise: float
  critical: float

  def power(self, factor: float) -> float:
    """Returns the probability of p ≤ level with `factor` times the examples.

    This takes the discrepancy as measured for the true one. T is about normal,
    its variance at most v² + 2√2 v δ for a discrepancy δ and a noise v, which
    falls as 1/N.
    """
    noise = max(self.noise, 1e-12) / factor
    truth = max(self.discrepancy, 0.0)
    spread = math.sqrt(noise**2 + 2 * math.sqrt(2) * noise * truth)
    return float(stats.norm.cdf((truth - self.critical * noise) / spread))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Screening:
  """Which symmetries the data have.

  Attributes:
    tested: What the test says about each candidate, by name.
    num_examples: N.
    num_groups: Groups of dependent examples; N if all are independent.
    num_duplicates: Examples that equal an earlier one.
    num_randomizations: B.
    level: Of the family-wise error.
    bound: Of `Tested.effect_limit`, below which a symmetry is accepted.
    implied: Further candidates that every network with the accepted symmetries
      has; None if the grid is too large to tell.
    generators: As few accepted symmetries as give the same network, found by
      leaving out what the others imply.
    samples: Some examples and their transformed copies, for `figure`.
      [1 + candidates, samples, *grid, channels]
  """

  tested: Mapping[str, Tested]
  num_examples: int
  num_groups: int
  num_duplicates: int
  num_randomizations: int
  level: float
  bound: float
  implied: tuple[str, ...] | None
  generators: tuple[str, ...]
  samples: np.ndarray

  @property
  def rejected(self) -> tuple[str, ...]:
    """Symmetries that the data do not have."""
    return self._with(REJECTED)

  @property
  def accepted(self) -> tuple[str, ...]:
    """Symmetries that the data are compatible with."""
    return self._with(ACCEPTED)

  @property
  def undecided(self) -> tuple[str, ...]:
    """Symmetries that more examples are needed for."""
    return self._with(UNDECIDED)

  def _with(self, outcome: str) -> tuple[str, ...]:
    return tuple(n for n, t in self.tested.items() if t.outcome == outcome)

  @property
  def p_values(self) -> dict[str, float]:
    """Exact p-values, each for one symmetry alone."""
    return {name: t.p_value for name, t in self.tested.items()}

  @property
  def adjusted_p_values(self) -> dict[str, float]:
    """Holm's p-values: reject those up to α for a family-wise error of α."""
    return {name: t.adjusted_p_value for name, t in self.tested.items()}

  @property
  def effects(self) -> dict[str, float]:
    """How often an example is told from its transformed copy; 0.5 is chance."""
    return {name: t.effect for name, t in self.tested.items()}

  @property
  def conflicts(self) -> tuple[str, ...]:
    """Rejected symmetries that every network with the accepted ones has."""
    return tuple(n for n in self.implied or () if n in self.rejected)

  @property
  def examples_needed(self) -> dict[str, int | None]:
    """How many examples would settle each question.

    For a rejected symmetry: how many suffice to reject it in nine of ten cases.
    For another: how many suffice for its effect limit to fall below the bound,
    if its effect is what it seems; None if that is not below the bound itself.
    """
    return {name: self._needed(t) for name, t in self.tested.items()}

  def _needed(self, tested: Tested) -> int | None:
    if tested.outcome == REJECTED:
      factors = np.geomspace(1 / self.num_examples, 1, 200)
      enough = [f for f in factors if tested.power(f) >= _POWER]
      return math.ceil(min(enough, default=1) * self.num_examples)
    room = self.bound - max(tested.effect, 0.5)
    if room <= 0:
      return None
    needed = (stats.norm.ppf(0.95) / (2 * room)) ** 2
    return math.ceil(needed * self.num_examples / self.num_groups)

  @property
  def verdict(self) -> str:
    """The answer in words."""
    parts = []
    if self.accepted:
      parts.append(f'The data are compatible with {_list(self.accepted)}.')
    if self.undecided:
      needed = [self.examples_needed[name] or 0 for name in self.undecided]
      least = f'; about {max(needed)} would do' if max(needed) else ''
      parts.append(
        f'{self.num_examples} examples are too few to decide on'
        f' {_list(self.undecided)}{least}.'
      )
    if self.rejected:
      nearest = min(self.rejected, key=lambda n: self.tested[n].discrepancy)
      effect = 100 * self.tested[nearest].effect
      which = 'every candidate'
      if self.accepted or self.undecided:
        which = f'{len(self.rejected)} of {len(self.tested)} candidates'
      parts.append(
        f'They do not have {which} (level {100 * self.level:g} % for all'
        f' together); the nearest is {nearest}, told apart in {effect:.0f} % of'
        ' cases, where 50 % is chance.'
      )
    if self.conflicts:
      parts.append(
        'A network with the accepted symmetries also has'
        f' {_list(self.conflicts)}, which the data do not have.'
      )
    if self.num_duplicates:
      parts.append(
        f'{self.num_duplicates} examples equal an earlier one and were'
        ' transformed with it.'
      )
    return ' '.join(parts) or 'There was no symmetry to test.'

  def __repr__(self) -> str:
    return f'Screening({self.verdict!r})'

  def order(self, table: space_lib.Table, weights: np.ndarray) -> list[int]:
    """Returns all networks, most promising first, for the strategy 'screened'.

    The discrepancy of a network is the largest of its symmetries'; that of
    accepted symmetries counts as 0. Networks are sorted by their discrepancy,
    and those with equal ones by their weights, fewest first: the largest
    accepted network comes first of all.

    Args:
      table: The networks; choices that were not tested do not count.
      weights: The number of weights of each network. [R]
    """

    def discrepancy(network: int) -> float:
      names = table.state_names(int(table.implied_states[network]))
      found = [self.tested[name] for name in names if name in self.tested]
      parts = [t.discrepancy for t in found if t.outcome != ACCEPTED]
      return max([0.0, *parts])

    return sorted(
      range(len(table)), key=lambda n: (discrepancy(n), int(weights[n]), n)
    )

  def figure(self) -> Any:
    """Draws examples beside their transformed copies, with every outcome."""
    from matplotlib import figure  # only needed here

    colours = {REJECTED: '#D55E00', ACCEPTED: '#009E73', UNDECIDED: '#E69F00'}
    rows, columns = self.samples.shape[:2]
    low, high = float(self.samples.min()), float(self.samples.max())
    drawn = figure.Figure((3.4 + 0.6 * columns, 0.64 * rows), dpi=150)
    grid = drawn.subplots(rows, columns, squeeze=False)
    drawn.subplots_adjust(left=3.3 / (3.4 + 0.6 * columns), right=0.99)
    drawn.subplots_adjust(top=0.99, bottom=0.01, wspace=0.06, hspace=0.12)
    titles = [('the examples', '#222222')]
    for name, tested in self.tested.items():
      told = f'told apart in {100 * tested.effect:.0f} %'
      text = f'{name}\n{tested.outcome}, {told}, p = {tested.p_value:.3g}'
      titles.append((text.replace('$', r'\$'), colours[tested.outcome]))
    for row, images, (text, colour) in zip(
      grid, self.samples, titles, strict=True
    ):
      for ax, image in zip(row, images, strict=True):
        image = (image - low) / ((high - low) or 1)
        image = image if image.shape[-1] == 3 else image.mean(axis=-1)
        image = image if image.ndim > 1 else image[None]
        if image.ndim > 3 or (image.ndim == 3 and image.shape[-1] != 3):
          image = image[image.shape[0] // 2]  # a slice of a volume
        ax.imshow(image, cmap='gray', vmin=0, vmax=1, aspect='auto')
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(color=colour, linewidth=1.2)
      row[0].annotate(
        text,
        (-0.15, 0.5),
        xycoords='axes fraction',
        ha='right',
        va='center',
        fontsize=7,
        color=colour,
      )
    return drawn


def screen(
  inputs: np.ndarray,
  labels: np.ndarray | None = None,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  groups: np.ndarray | None = None,
  grid: Sequence[int] | None = None,
  level: float = LEVEL,
  bound: float = BOUND,
  num_randomizations: int = 999,
  num_frequencies: int = 256,
  seed: int = 0,
) -> Screening:
  """Tests which symmetries the data have, without training anything.

  Args:
    inputs: Examples, independent of each other. [N, *grid], or with channels,
      such as [N, H, W, C].
    labels: The class of each example [N]; the test is then whether the
      distribution of each class is invariant. By default the distribution of
      all examples.
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix; by
      default those of `SYMMETRIES` that can act on the grid.
    groups: Examples with equal numbers depend on each other, such as augmented
      copies of one image, and are transformed together. [N]. Equal examples
      always are.
    grid: The axes of an example that symmetries act on; by default all of one
      or two, else the first two. The others are channels.
    level: The probability of rejecting any symmetry that the data have.
    bound: Accept a symmetry that is not rejected if the upper confidence limit
      of its effect is at most this.
    num_randomizations: B. With S symmetries, at least S / level - 1.
    num_frequencies: F, of the random Fourier features.
    seed: Random seed.

  Returns:
    The screening: `.accepted`, `.rejected`, `.undecided`, `.verdict`, …

  >>> ring = np.random.default_rng(0).normal(size=(600, 8))
  >>> screen(ring, symmetries=lambda x: np.roll(x, 1)).rejected
  ()
  """
  examples, grid = _as_examples(inputs, grid)
  num_examples = len(examples)
  classes = _as_classes(labels, num_examples)
  if symmetries is None:
    if len(grid) != 2:
      raise ValueError(
        f'the built-in symmetries act on images, got a grid of shape {grid};'
        ' give your own as functions of an array: symmetries=[…]'
      )
    symmetries = space_lib.applicable([grid])
  symmetries = symmetries_lib.as_symmetries(symmetries)
  for value, name in (
    (num_randomizations, 'num_randomizations'),
    (num_frequencies, 'num_frequencies'),
  ):
    io_lib.positive(value, name)
  if num_randomizations + 1 < len(symmetries) / level:
    raise ValueError(
      f'rejecting one of {len(symmetries)} symmetries at level {level} needs'
      f' num_randomizations ≥ {math.ceil(len(symmetries) / level) - 1}, got'
      f' {num_randomizations}'
    )
  group_of, num_duplicates = _as_groups(groups, examples)
  rng = np.random.default_rng(seed)
  permutations = [permutation(symmetry, grid) for symmetry in symmetries]
  cycles = [_Cycles.of(points) for points in permutations]
  blocks = _blocks(classes, group_of, rng)
  frequencies = _frequencies(examples, num_frequencies, rng)
  num_groups = int(group_of.max()) + 1
  found: dict[int, _Statistics] = {}
  for num_powers in sorted({min(c.order, _MAX_POWERS) for c in cycles}):
    if num_powers == 1:
      continue  # the identity on this grid
    chosen = [
      i for i, c in enumerate(cycles) if min(c.order, _MAX_POWERS) == num_powers
    ]
    choices = rng.integers(
      num_powers, size=(num_groups, num_randomizations + 1), dtype=np.uint8
    )
    choices[:, 0] = 0  # the data as they are
    program = _program(num_powers)
    stacked = _stack(
      [cycles[i] for i in chosen],
      [_powers(cycles[i], num_powers, num_groups, rng) for i in chosen],
    )
    result = program(examples, frequencies, blocks, choices, stacked)
    for row, i in enumerate(chosen):
      found[i] = _Statistics(*(np.asarray(part[row]) for part in result))
  identity = _Statistics(
    np.zeros(num_randomizations + 1), np.zeros(()), np.full((), 0.5)
  )
  statistics = [found.get(i, identity) for i in range(len(cycles))]
  p_values = np.array([_p_value(s.values) for s in statistics])
  adjusted = holm(p_values)
  tested = {
    symmetry.name: _conclude(
      s, cycle.order, float(p), float(q), level, bound, num_groups
    )
    for symmetry, cycle, s, p, q in zip(
      symmetries, cycles, statistics, p_values, adjusted, strict=True
    )
  }
  accepted = [
    i for i, t in enumerate(tested.values()) if t.outcome == ACCEPTED
  ]
  implied, generators = _closure(permutations, accepted)
  names = list(tested)
  samples = _samples(examples, classes, permutations)
  return Screening(
    tested=tested,
    num_examples=num_examples,
    num_groups=num_groups,
    num_duplicates=num_duplicates,
    num_randomizations=num_randomizations,
    level=level,
    bound=bound,
    implied=implied and tuple(names[i] for i in implied),
    generators=tuple(names[i] for i in generators),
    samples=samples.reshape(*samples.shape[:2], *grid, samples.shape[-1]),
  )


def holm(p_values: np.ndarray) -> np.ndarray:
  """Returns Holm's adjusted p-values.

  >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
  [0.03, 0.06, 0.06]
  """
  order = np.argsort(p_values)
  scaled = p_values[order] * np.arange(len(p_values), 0, -1)
  adjusted = np.empty(len(p_values))
  adjusted[order] = np.minimum(1, np.maximum.accumulate(scaled))
  return adjusted


def _as_examples(
  inputs: np.ndarray, grid: Sequence[int] | None
) -> tuple[np.ndarray, tuple[int, ...]]:
  """Returns examples [N, P, C] without their mean, and the grid."""
  inputs = np.asarray(inputs)
  if inputs.ndim < 2 or len(inputs) < 2 or not inputs.size:
    raise ValueError(
      'expected at least two examples, [N, *grid] or [N, *grid, channels], got'
      f' an array of shape {inputs.shape}'
    )
  if inputs.dtype.kind not in 'buif' or not np.isfinite(inputs).all():
    raise ValueError(
      f'expected examples of finite numbers, got {inputs.dtype} with'
      ' something else among them'
    )
  shape = inputs.shape[1:]
  axes = len(grid) if grid is not None else min(2, len(shape))
  if grid is not None and tuple(grid) != shape[:axes]:
    raise ValueError(
      f'grid must be the first axes of an example, whose shape is {shape}, got'
      f' {tuple(grid)}'
    )
  points = math.prod(shape[:axes])
  examples = inputs.reshape(len(inputs), points, -1).astype(np.float32)
  # Rearranging points changes neither the mean of a channel nor its scale.
  return examples - examples.mean(axis=(0, 1)), shape[:axes]


def _as_classes(labels: np.ndarray | None, num_examples: int) -> np.ndarray:
  """Returns the class of each example as numbers from 0. int [N]."""
  if labels is None:
    return np.zeros(num_examples, int)
  labels = np.asarray(labels)
  if labels.shape != (num_examples,):
    raise ValueError(
      f'expected one label for each of {num_examples} examples, got shape'
      f' {labels.shape}'
    )
  found, classes = np.unique(labels, return_inverse=True)
  if len(found) > max(2, num_examples // 2):
    raise ValueError(
      f'labels must be classes, got {len(found)} different values for'
      f' {num_examples} examples; leave labels out to test the distribution of'
      ' all examples'
    )
  return classes


def _as_groups(
  groups: np.ndarray | None, examples: np.ndarray
) -> tuple[np.ndarray, int]:
  """Returns the group of each example, and how many equal an earlier one."""
  num_examples = len(examples)
  rows = [example.tobytes() for example in examples]
  first: dict[bytes, int] = {}
  equal = np.array([first.setdefault(r, i) for i, r in enumerate(rows)])
  num_duplicates = num_examples - len(first)
  links = [equal]
  if groups is not None:
    groups = np.asarray(groups)
    if groups.shape != (num_examples,):
      raise ValueError(
        f'expected one group for each of {num_examples} examples, got shape'
        f' {groups.shape}'
      )
    links.append(groups)
  labels = np.zeros(num_examples, int)
  if len(links) == 1:
    return np.unique(equal, return_inverse=True)[1], num_duplicates
  from aen.groups.orbits import join  # both kinds of ties, transitively

  del labels
  return join(*links), num_duplicates


def _frequencies(
  examples: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
  """Draws the frequencies of φ. float32 [P, C, F].

  The kernel is exp(-‖x - y‖² / s²), s² half the median of ‖x‖²: narrow enough
  to see differences between distributions that have the same mean.
  """
  scale = float(np.median(np.square(examples).sum(axis=(1, 2)))) / 2
  drawn = rng.normal(size=(*examples.shape[1:], count))
  return (drawn * math.sqrt(2 / (scale or 1.0))).astype(np.float32)


class _Cycles(NamedTuple):
  """A permutation by its cycles: any power of it is one gather."""

  points: np.ndarray  # int32 [P], cycle after cycle
  start: np.ndarray  # int32 [P], where the cycle of each point begins
  place: np.ndarray  # int32 [P], the place of each point in its cycle
  length: np.ndarray  # int32 [P], of its cycle
  kind: np.ndarray  # int32 [P], the place of that length in `lengths`
  lengths: np.ndarray  # int32 [lengths], all different
  order: int

  @classmethod
  def of(cls, permutation: np.ndarray) -> '_Cycles':
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
    order = math.lcm(*lengths.tolist())
    arrays = (points, start, place, length, kind, lengths)
    return cls(*(array.astype(np.int32) for array in arrays), order)


def _powers(
  cycles: _Cycles, num_powers: int, num_groups: int, rng: np.random.Generator
) -> np.ndarray:
  """Draws each group's powers of a symmetry, distinct, the first of them 0.

  Orders can exceed every integer type, so a power is given by its remainders
  modulo the lengths of the cycles. int32 [G, L, lengths]
  """
  order = cycles.order
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


def _stack(
  cycles: Sequence[_Cycles], powers: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
  """Returns the arrays of several symmetries, each [S, …]."""
  fields = [np.stack(field) for field in list(zip(*cycles, strict=True))[:5]]
  width = max(p.shape[-1] for p in powers)
  padded = [
    np.pad(p, ((0, 0), (0, 0), (0, width - p.shape[-1]))) for p in powers
  ]
  return *fields, np.stack(padded)


class _Blocks(NamedTuple):
  """Examples in blocks of one class, classes in order; padding weighs 0."""

  rows: np.ndarray  # int32 [K, Q]
  group: np.ndarray  # int32 [K, Q]
  tie: np.ndarray  # int32 [K, Q], equal for examples of one group and class
  class_: np.ndarray  # int32 [K]
  begins: np.ndarray  # float32 [K], 1 where a class begins
  weight: np.ndarray  # float32 [K, Q], 1 / √(N n_c)


def _blocks(
  classes: np.ndarray, group_of: np.ndarray, rng: np.random.Generator
) -> _Blocks:
  counts = np.bincount(classes)
  # A block costs about as much as 50 more of its examples.
  size = min(_BLOCKS, key=lambda q: (-(-counts // q) * (q + 50)).sum())
  of_class = -(-counts // size)
  num_blocks = int(of_class.sum())
  rows = np.full((num_blocks, size), -1, np.int32)
  order = np.argsort(classes, kind='stable')
  class_ = np.repeat(np.arange(len(counts)), of_class)
  for c, part in enumerate(np.split(order, np.cumsum(counts)[:-1])):
    padded = np.full(of_class[c] * size, -1, np.int32)
    padded[: part.size] = part
    rows[class_ == c] = padded.reshape(-1, size)
  used = rows >= 0
  ties = group_of * len(counts) + classes
  tie = np.unique(ties, return_inverse=True)[1]
  return _Blocks(
    rows=np.maximum(rows, 0),
    group=group_of[rows].astype(np.int32),
    tie=tie[rows].astype(np.int32),
    class_=class_.astype(np.int32),
    begins=np.diff(class_, prepend=-1).clip(0, 1).astype(np.float32),
    weight=np.where(
      used, 1 / np.sqrt(len(classes) * counts[class_])[:, None], 0
    ).astype(np.float32),
  )


class _Statistics(NamedTuple):
  """Of one symmetry."""

  values: Any  # float32 [B + 1], T and then every T_b
  size: Any  # float32 [], the mean of ‖φ(x_0) - mean_l φ(x_l)‖²
  effect: Any  # float32 [], how often examples are told from their copies


@functools.cache
def _program(num_powers: int) -> Any:
  """Compiles the test of all symmetries that have L powers to exchange."""
  return jax.jit(functools.partial(_test, num_powers))


def _test(
  num_powers: int,
  examples: jax.Array,  # [N, P, C]
  frequencies: jax.Array,  # [P, C, F]
  blocks: _Blocks,
  choices: jax.Array,  # uint8 [G, B + 1]
  symmetries: tuple[jax.Array, ...],
) -> _Statistics:
  num_points, num_channels, num_frequencies = frequencies.shape
  num_features = 2 * num_frequencies
  flat = frequencies.reshape(num_points * num_channels, num_frequencies)

  def features(points: jax.Array) -> jax.Array:  # [Q, P, C] -> [Q, 2 F]
    angles = jnp.dot(
      points.reshape(len(points), -1), flat, precision=jax.lax.Precision.HIGHEST
    )
    waves = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1)
    return waves / math.sqrt(num_frequencies)

  def one(symmetry: tuple[jax.Array, ...]) -> _Statistics:
    cycle, start, place, length, kind, powers = symmetry

    def power(
      points: jax.Array, remainders: jax.Array
    ) -> jax.Array:  # [Q, P, C], [Q, lengths]
      index = cycle[start + (place + remainders[:, kind]) % length]
      return jnp.take_along_axis(points, index[:, :, None], axis=1)

    def add(carry: Any, block: _Blocks) -> Any:
      sums, total = carry  # [B + 1, 2 F], [B + 1]
      total = total + block.begins * jnp.square(sums).sum(axis=1)
      sums = sums * (1 - block.begins)
      points, drawn = examples[block.rows], powers[block.group]
      phi = jnp.stack(
        [features(power(points, drawn[:, l])) for l in range(num_powers)]
      )  # [L, Q, 2 F]
      centred = phi - phi.mean(axis=0)
      # Σ_l centred_l = 0, so the choice 0 is minus the sum of all others.
      choice = choices[block.group]  # [Q, B + 1]
      for l in range(1, num_powers):
        sign = (choice == l).astype(jnp.float32) - (choice == 0)
        weighted = centred[l] * block.weight[:, None]
        sums = sums + jnp.dot(
          sign.T, weighted, precision=jax.lax.Precision.HIGHEST
        )
      used = block.weight > 0
      size = jnp.where(used, jnp.square(centred[0]).sum(axis=1), 0).sum()
      apart = jnp.where(used[:, None], phi[0] - phi[1], 0)
      return (sums, total), (size, apart)

    width = choices.shape[1]
    begin = (jnp.zeros((width, num_features)), jnp.zeros(width))
    (sums, total), (sizes, apart) = jax.lax.scan(add, begin, blocks)
    effect = _effect(apart, blocks, len(examples))
    values = total + jnp.square(sums).sum(axis=1)
    return _Statistics(values, sizes.sum() / len(examples), effect)

  return jax.lax.map(one, symmetries)


def _effect(
  apart: jax.Array, blocks: _Blocks, num_examples: int
) -> jax.Array:
  """Returns how often the kernel mean classifier picks the original.

  It is fitted to the examples of the same class that are in other groups.

  Args:
    apart: φ(x_0) - φ(x_1), 0 for padding. [K, Q, 2 F]
    blocks: What they are.
    num_examples: N.
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


def _p_value(values: np.ndarray) -> float:
  """Returns the p-value; values equal up to rounding are ties."""
  observed, randomised = values[0], values[1:]
  tolerance = 1e-5 * observed + 1e-12
  return (1 + np.sum(randomised >= observed - tolerance)) / len(values)


def _conclude(
  statistics: _Statistics,
  order: int,
  p_value: float,
  adjusted: float,
  level: float,
  bound: float,
  num_groups: int,
) -> Tested:
  randomised = statistics.values[1:].astype(float)
  size, centre = float(statistics.size) or 1.0, randomised.mean()
  noise = float(randomised.std())
  critical = 0.0
  if noise > 0:
    critical = float((np.quantile(randomised, 1 - level) - centre) / noise)
  effect = float(statistics.effect)
  # Wilson's score interval: sensible for effects near 1 too.
  limit = float(
    stats.binomtest(
      round(effect * num_groups), num_groups, alternative='less'
    )
    .proportion_ci(0.95, method='wilson')
    .high
  )
  if adjusted <= level:
    outcome = REJECTED
  elif order == 1 or limit <= bound:
    outcome = ACCEPTED
  else:
    outcome = UNDECIDED
  return Tested(
    outcome=outcome,
    order=order,
    p_value=p_value,
    adjusted_p_value=adjusted,
    effect=effect,
    effect_limit=limit,
    discrepancy=float((statistics.values[0] - centre) / size),
    noise=noise / size,
    critical=critical,
  )


def _closure(
  permutations: Sequence[np.ndarray], accepted: Sequence[int]
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
  """Returns what the accepted symmetries imply, and which of them are needed.

  A linear layer from the grid to itself that is equivariant to the accepted
  symmetries has one weight per orbit of pairs of points. It is equivariant to
  each symmetry that maps every orbit to itself.
  """
  num_points = permutations[0].size if permutations else 0
  if num_points**2 > _MAX_PAIRS:
    return None, tuple(accepted)
  pairs = [pair(points, points) for points in permutations]

  def labels(chosen: Sequence[int]) -> np.ndarray:
    return orbits((pairs[i] for i in chosen), num_points**2)

  def has(shared: np.ndarray, i: int) -> bool:
    return np.array_equal(shared, shared[pairs[i]])

  if not accepted:
    return (), ()
  shared = labels(accepted)
  implied = tuple(
    i
    for i in range(len(permutations))
    if i not in accepted and has(shared, i)
  )
  needed = list(accepted)
  for i in reversed(accepted):
    rest = [j for j in needed if j != i]
    if has(labels(rest), i):
      needed = rest
  return implied, tuple(needed)


def _samples(
  examples: np.ndarray, classes: np.ndarray, permutations: Sequence[np.ndarray]
) -> np.ndarray:
  """Returns examples of different classes and their copies."""
  first = np.unique(classes, return_index=True)[1]
  rows = np.unique(np.concatenate([first, np.arange(_NUM_SAMPLES)]))
  rows = [*first, *(r for r in rows if r not in first)][:_NUM_SAMPLES]
  shown = examples[[r for r in rows if r < len(examples)]]
  return np.stack([shown, *(shown[:, points] for points in permutations)])


def _list(names: Sequence[str]) -> str:
  """Returns names as a phrase.

  >>> _list(['a', 'b', 'c'])
  'a, b and c'
  """
  *rest, last = names
  return f'{", ".join(rest)} and {last}' if rest else last
