"""Tests exactly which symmetries the data have, before any training.

`invariance` tests every candidate symmetry; this module turns p-values into
outcomes, and outcomes into words, a figure and the options of a search.

Legend: N examples, S symmetries, B randomisations.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
from typing import Any

import numpy as np
from scipy import special

from aen import io as io_lib
from aen.data import own
from aen.groups import orbits
from aen.groups import symmetries as symmetries_lib
from aen.search import invariance
from aen.search import space as space_lib

# The family-wise error rate. Data with a single symmetry lose it with this
# probability, so it is lower than the usual 5 %.
LEVEL = 0.02
BOUND = 0.55  # share of pairs told apart, up to which symmetries are accepted
_RANDOMIZATIONS = 999
_POWER = 0.9  # of the test with `examples_needed`
_MAX_PAIRS = 2**25  # of points, up to which closures are computed
_NUM_SAMPLES = 6  # examples in the figure
_NUM_BINS = 5  # of numbers to predict

REJECTED, ACCEPTED, UNDECIDED = 'rejected', 'accepted', 'undecided'


@dataclasses.dataclass(frozen=True)
class Finding:
  """The outcome of the test of one symmetry.

  Attributes:
    outcome: 'rejected': the distribution is not invariant. 'accepted': it is
      compatible with invariance, and examples are hardly ever told from their
      transformed copies. 'undecided': there are too few examples to tell.
    order: The order of the symmetry on this grid.
    p_value: Exact for this symmetry alone.
    adjusted_p_value: Corrected for the number of symmetries (Holm).
    effect: How often a classifier that was fitted to the other examples can
      tell an example from its transformed copy; 0.5 is chance.
    effect_limit: The upper 95 % confidence limit of `effect`.
    discrepancy: T minus its mean under randomisation, relative to the mean of
      ‖φ(x_0) - mean_j φ(x_l)‖². Unbiased, so it may be below 0.
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

    Assumes that the true discrepancy δ is the measured one. T is about normal
    with a variance of at most v² + 2√2 v δ, where the noise v falls as 1/N.
    """
    noise = max(self.noise, 1e-12) / factor
    truth = max(self.discrepancy, 0.0)
    spread = math.sqrt(noise**2 + 2 * math.sqrt(2) * noise * truth)
    return float(special.ndtr((truth - self.critical * noise) / spread))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Screening:
  """Which symmetries the data have.

  Attributes:
    findings: The outcome for each candidate, by name.
    num_examples: N.
    num_groups: Groups of dependent examples; N if all are independent.
    num_duplicates: Examples that equal an earlier one.
    num_randomizations: B.
    level: The family-wise error rate.
    bound: Of `Finding.effect_limit`, up to which a symmetry is accepted.
    implied: Further candidates that the accepted symmetries imply in a network;
      None if the grid is too large to tell.
    generators: Accepted symmetries that imply all others, found by leaving out,
      one after another, what the rest implies.
    samples: Some examples and their transformed copies, for `figure`; none
      after loading. [1 + S, samples, *grid, channels]
  """

  findings: Mapping[str, Finding]
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
    """Symmetries for which there are too few examples to tell."""
    return self._with(UNDECIDED)

  def _with(self, outcome: str) -> tuple[str, ...]:
    return tuple(n for n, f in self.findings.items() if f.outcome == outcome)

  @property
  def p_values(self) -> dict[str, float]:
    """Exact p-values, each for one symmetry alone."""
    return {name: f.p_value for name, f in self.findings.items()}

  @property
  def adjusted_p_values(self) -> dict[str, float]:
    """Holm's p-values: reject those ≤ α for a family-wise error rate of α."""
    return {name: f.adjusted_p_value for name, f in self.findings.items()}

  @property
  def effects(self) -> dict[str, float]:
    """How often examples are told from transformed copies; 0.5 is chance."""
    return {name: f.effect for name, f in self.findings.items()}

  @property
  def conflicts(self) -> tuple[str, ...]:
    """Rejected symmetries that the accepted ones imply in a network."""
    return tuple(n for n in self.implied or () if n in self.rejected)

  @property
  def examples_needed(self) -> dict[str, int | None]:
    """How many examples are needed to decide on each symmetry.

    For a rejected symmetry, enough to reject it with a power of 90 %. For
    others, enough for the effect limit to fall below the bound, assuming that
    the effect is as measured; None if that is not below the bound itself.
    """
    needed: dict[str, int | None] = {}
    for name, finding in self.findings.items():
      room = self.bound - max(finding.effect, 0.5)
      if finding.outcome == REJECTED:
        factors = np.geomspace(1 / self.num_examples, 1, 200)
        enough = [f for f in factors if finding.power(f) >= _POWER]
        needed[name] = math.ceil(min(enough, default=1) * self.num_examples)
      elif room > 0:
        groups = (special.ndtri(0.95) / (2 * room)) ** 2
        needed[name] = math.ceil(groups * self.num_examples / self.num_groups)
      else:
        needed[name] = None
    return needed

  @property
  def verdict(self) -> str:
    """The answer in words."""
    parts = []
    if self.accepted:
      parts.append(f'The data are compatible with {_list(self.accepted)}.')
    if self.undecided:
      needed = self.examples_needed
      most = max(needed[name] or 0 for name in self.undecided)
      least = f'; about {most} would do' if most else ''
      parts.append(
        f'{self.num_examples} examples are too few to decide on'
        f' {_list(self.undecided)}{least}.'
      )
    if self.rejected:
      nearest = min(self.rejected, key=lambda n: self.findings[n].discrepancy)
      lacking = 'They lack' if parts else 'The data lack'
      parts.append(
        f'{lacking} {len(self.rejected)} of the {len(self.findings)} candidate'
        f' symmetries (family-wise level {100 * self.level:g} %); the nearest'
        f' of these is {nearest}: examples are told from their transformed'
        f' copies in {100 * self.effects[nearest]:.0f} % of cases, where 50 %'
        ' is chance.'
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

  def as_json(self) -> dict[str, Any]:
    """Returns all fields but the samples, for JSON."""
    fields = dataclasses.asdict(self)
    del fields['samples']
    return fields

  @classmethod
  def from_json(cls, stored: Mapping[str, Any]) -> 'Screening':
    """Reads what `as_json` returned; it has no samples."""
    findings = {n: Finding(**f) for n, f in stored['findings'].items()}
    implied = stored['implied']
    fields = dict(stored) | {
      'findings': findings,
      'implied': None if implied is None else tuple(implied),
      'generators': tuple(stored['generators']),
      'samples': np.zeros((1 + len(findings), 0, 1, 1)),
    }
    return cls(**fields)

  def guide(self, table: space_lib.Networks) -> dict[str, tuple[int, ...]]:
    """Returns the options of the strategy 'screened' for some networks.

    It starts at the networks with all accepted symmetries and with all that are
    not rejected. From there it first toggles what is not accepted, in ascending
    order of discrepancy; choices that were not tested have none.
    """
    networks = [
      table.network(name for name in names if name in table.bits)
      for names in (self.accepted, (*self.accepted, *self.undecided))
    ]

    def key(bit: int) -> tuple[bool, float]:
      name = table.bits[bit]
      found = self.findings.get(name)
      return name in self.accepted, found.discrepancy if found else 0.0

    return {
      'starts': tuple(dict.fromkeys(networks)),
      'toggles': tuple(sorted(range(len(table.bits)), key=key)),
    }

  def figure(self) -> Any:
    """Draws examples beside their transformed copies, with every outcome."""
    from matplotlib import figure  # only needed here

    colours = {REJECTED: '#D55E00', ACCEPTED: '#009E73', UNDECIDED: '#E69F00'}
    rows, columns = self.samples.shape[:2]
    if not columns:
      raise ValueError(
        'a loaded screening has no examples to draw; call aen.screen again, or'
        ' set `samples` to what take_samples returns'
      )
    titles = [('the examples', '#222222')]
    for name, finding in self.findings.items():
      told = f'told apart in {100 * finding.effect:.0f} %'
      text = f'{name}\n{finding.outcome}, {told}, p = {finding.p_value:.3g}'
      titles.append((text.replace('$', r'\$'), colours[finding.outcome]))
    low, high = float(self.samples.min()), float(self.samples.max())
    width = 2.7 + 0.6 * columns
    drawn = figure.Figure((width, 0.64 * rows), dpi=150)
    axes = drawn.subplots(rows, squeeze=False)[:, 0]
    drawn.subplots_adjust(2.6 / width, 0.01, 0.99, 0.99, hspace=0.12)
    for ax, images, title in zip(axes, self.samples, titles, strict=True):
      text, colour = title
      shown = []
      for image in (images - low) / ((high - low) or 1):
        image = image if image.shape[-1] == 3 else image.mean(axis=-1)
        image = image if image.ndim > 1 else image[None]
        if image.ndim > 3 or (image.ndim == 3 and image.shape[-1] != 3):
          image = image[image.shape[0] // 2]  # a slice of a volume
        gap = np.ones((len(image), 1 + image.shape[1] // 20, *image.shape[2:]))
        shown += [image, gap]
      row = np.concatenate(shown[:-1], axis=1)
      edges = np.cumsum([part.shape[1] for part in shown[:-2]]) - 0.5
      ax.imshow(row, cmap='gray', vmin=0, vmax=1, aspect='auto')
      ax.vlines(edges, -0.5, len(row) - 0.5, colour, linewidth=1.2)
      ax.set(xticks=[], yticks=[])
      ax.spines[:].set(color=colour, linewidth=1.2)
      left: Any = {'ha': 'right', 'va': 'center', 'transform': ax.transAxes}
      ax.text(-0.15 / columns, 0.5, text, fontsize=7, color=colour, **left)
    return drawn


def upper_limit(share: float, count: int) -> float:
  """Returns the upper end of a one-sided 95 % interval for a proportion.

  Wilson's score interval, which also holds near 1:
    (p + z²/2n + z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n).
  """
  z = float(special.ndtri(0.95)) / math.sqrt(count)
  spread = z * math.sqrt(share * (1 - share) + z**2 / 4)
  return (share + z**2 / 2 + spread) / (1 + z**2)


def screen(
  inputs: np.ndarray,
  labels: np.ndarray | None = None,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  *,
  groups: np.ndarray | None = None,
  grid: Sequence[int] | None = None,
  level: float = LEVEL,
  bound: float = BOUND,
  num_randomizations: int | None = None,
  num_frequencies: int = 256,
  seed: int = 0,
) -> Screening:
  """Tests which symmetries the data have, without training anything.

  Args:
    inputs: Examples, independent of each other. [N, *grid], or with channels,
      such as [N, H, W, C].
    labels: The class of each example [N], to test whether the distribution of
      each class is invariant. By default that of all examples is tested.
    symmetries: Names, functions of an array, `Symmetry` objects, or a mix; by
      default those of `symmetries.CANDIDATES` that can act on the grid.
    groups: The group of each example [N]. Examples of one group depend on each
      other, such as augmented copies of one image, and are transformed
      together. Equal examples always are.
    grid: The shape of the first axes of an example, on which symmetries act; by
      default as in `own.as_inputs`. The others are channels.
    level: The largest probability of rejecting any symmetry that the data have.
    bound: A symmetry that is not rejected is accepted if the upper confidence
      limit of its effect is at most this.
    num_randomizations: B, at least S / level - 1 with S symmetries; by default
      999, or that if it is more.
    num_frequencies: The number of random Fourier frequencies, F.
    seed: Random seed.

  Returns:
    The screening: `.accepted`, `.rejected`, `.undecided`, `.verdict`, …

  >>> ring = np.random.default_rng(0).normal(size=(600, 8))
  >>> screen(ring, symmetries=lambda x: np.roll(x, 1)).rejected
  ()
  """
  examples, grid = _as_examples(inputs, grid)
  classes = _as_classes(labels, len(examples))
  if symmetries is None:
    symmetries = space_lib.applicable([grid])
  # A symmetry that is given twice is one hypothesis.
  symmetries = tuple(dict.fromkeys(symmetries_lib.as_symmetries(symmetries)))
  seed = io_lib.seed(seed)
  io_lib.real(bound, 'bound', 0, np.inf)
  if not isinstance(level, float) or not 0 < level < 1:
    raise ValueError(f'level must be between 0 and 1, got {level!r}')
  fewest = math.ceil(len(symmetries) / level) - 1
  if num_randomizations is None:
    num_randomizations = max(_RANDOMIZATIONS, fewest)
  io_lib.positive(num_randomizations, 'num_randomizations')
  io_lib.positive(num_frequencies, 'num_frequencies')
  if num_randomizations < fewest:
    raise ValueError(
      f'rejecting one of {len(symmetries)} symmetries at level {level} needs'
      f' num_randomizations ≥ {fewest}, got {num_randomizations}'
    )
  group_of, num_duplicates = _as_groups(groups, examples)
  num_groups = int(group_of.max()) + 1
  permutations = {
    s.name: symmetries_lib.permutation(s, grid) for s in symmetries
  }
  cycles = list(map(invariance.Cycles.of, permutations.values()))
  found = invariance.statistics(
    examples,
    classes,
    group_of,
    cycles,
    num_randomizations,
    num_frequencies,
    np.random.default_rng(seed),
  )
  adjusted = holm(np.array([statistics.p_value for statistics in found]))
  rows = zip(permutations, cycles, found, adjusted.tolist(), strict=True)
  findings = {
    name: _conclude(cycle.order, statistics, p_value, level, bound, num_groups)
    for name, cycle, statistics, p_value in rows
  }
  accepted = [n for n, f in findings.items() if f.outcome == ACCEPTED]
  implied, generators = _closure(permutations, accepted)
  return Screening(
    findings=findings,
    num_examples=len(examples),
    num_groups=num_groups,
    num_duplicates=num_duplicates,
    num_randomizations=num_randomizations,
    level=level,
    bound=bound,
    implied=implied,
    generators=generators,
    samples=take_samples(inputs, labels, symmetries, grid),
  )


def binned(labels: np.ndarray) -> np.ndarray:
  """Returns classes unchanged, and numbers as their quintile.

  If (g x, y) is distributed as (x, y), this holds within every range of y.
  """
  if labels.dtype.kind != 'f':
    return labels
  edges = np.quantile(labels, np.arange(1, _NUM_BINS) / _NUM_BINS)
  return np.searchsorted(edges, labels)


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
  inputs = io_lib.array(inputs, 'the examples')
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
  if grid is None:
    grid = shape[: own.as_inputs(inputs)[1]]
  grid = symmetries_lib.as_shape(grid)
  if grid != shape[: len(grid)]:
    raise ValueError(
      f'grid must be the first axes of an example, whose shape is {shape}, got'
      f' {grid}'
    )
  flat = inputs.reshape(len(inputs), math.prod(grid), -1).astype(np.float32)
  # Rearranging points changes neither the mean of a channel nor its scale.
  return flat - flat.mean(axis=(0, 1)), grid


def _as_classes(labels: np.ndarray | None, num_examples: int) -> np.ndarray:
  """Returns the class of each example as numbers from 0. int [N]."""
  if labels is None:
    return np.zeros(num_examples, int)
  labels = _one_each(labels, 'label', num_examples)
  found, classes = np.unique(labels, return_inverse=True)
  if labels.dtype.kind == 'f' and len(found) > max(2, num_examples // 2):
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
  first: dict[bytes, int] = {}
  equal = [first.setdefault(x.tobytes(), i) for i, x in enumerate(examples)]
  ties = [np.array(equal)]
  if groups is not None:
    ties.append(_one_each(groups, 'group', len(examples)))
  return orbits.join(*ties), len(examples) - len(first)


def _one_each(values: Any, what: str, num_examples: int) -> np.ndarray:
  """Returns an array [N]; raises a ValueError for any other shape."""
  try:
    found = np.asarray(values)
  except ValueError:  # rows of different lengths
    found = np.asarray(None)
  if found.shape != (num_examples,):
    raise ValueError(
      f'expected one {what} for each of {num_examples} examples, got shape'
      f' {found.shape}'
    )
  return found


def _conclude(
  order: int,
  statistics: invariance.Statistics,
  adjusted: float,
  level: float,
  bound: float,
  num_groups: int,
) -> Finding:
  randomised = statistics.values[1:].astype(float)
  size, centre = float(statistics.size) or 1.0, randomised.mean()
  noise = float(randomised.std())
  critical = 0.0
  if noise > 0:
    critical = float((np.quantile(randomised, 1 - level) - centre) / noise)
  effect = float(statistics.effect)
  limit = upper_limit(round(effect * num_groups) / num_groups, num_groups)
  if adjusted <= level:
    outcome = REJECTED
  elif order == 1 or limit <= bound:
    outcome = ACCEPTED
  else:
    outcome = UNDECIDED
  return Finding(
    outcome=outcome,
    order=order,
    p_value=statistics.p_value,
    adjusted_p_value=adjusted,
    effect=effect,
    effect_limit=limit,
    discrepancy=float((statistics.values[0] - centre) / size),
    noise=noise / size,
    critical=critical,
  )


def _closure(
  permutations: Mapping[str, np.ndarray], accepted: Sequence[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
  """Returns what the accepted symmetries imply, and their generators.

  A linear layer from the grid to itself that is equivariant to the accepted
  symmetries has one weight per orbit of pairs of points. It is equivariant to
  each symmetry that maps every orbit to itself.
  """
  num_points = max((p.size for p in permutations.values()), default=0)
  if num_points**2 > _MAX_PAIRS:
    return None, tuple(accepted)

  def implied_by(names: Sequence[str], others: Sequence[str]) -> list[str]:
    pairs = np.arange(num_points**2, dtype=np.int32)
    shared = pairs.reshape(num_points, num_points)
    for points in map(permutations.__getitem__, names):
      shared = orbits.add_pair(shared, points, points)
    actions = {name: permutations[name] for name in others}
    return [n for n, p in actions.items() if orbits.is_invariant(shared, p, p)]

  implied = implied_by(accepted, [n for n in permutations if n not in accepted])
  needed = list(accepted)
  for name in reversed(accepted):
    rest = [other for other in needed if other != name]
    if implied_by(rest, [name]):
      needed = rest
  return tuple(implied), tuple(needed)


def take_samples(
  inputs: np.ndarray,
  labels: np.ndarray | None,
  symmetries: Sequence[symmetries_lib.Symmetry],
  grid: Sequence[int],
) -> np.ndarray:
  """Returns examples of different classes, and their transformed copies.

  Takes what `screen` takes. float32 [1 + S, samples, *grid, channels]
  """
  inputs = np.asarray(inputs)
  classes = np.zeros(len(inputs), int) if labels is None else labels
  first = np.unique(classes, return_index=True)[1].tolist()
  rows = list(dict.fromkeys([*first, *range(len(inputs))]))[:_NUM_SAMPLES]
  grid = tuple(grid)
  flat = inputs[rows].reshape(len(rows), math.prod(grid), -1)
  points = [symmetries_lib.permutation(s, grid) for s in symmetries]
  copies = np.stack([flat, *(flat[:, p] for p in points)]).astype(np.float32)
  return copies.reshape(*copies.shape[:2], *grid, -1)


def _list(names: Sequence[str]) -> str:
  """Returns names as a phrase.

  >>> _list(['a', 'b', 'c'])
  'a, b and c'
  """
  *rest, last = names
  return f'{", ".join(rest)} and {last}' if rest else last
