"""Statistics of the results, and comparisons with the paper's numbers.

Accuracies are in percent. Legend: 13 networks, without symmetry and with each
of the twelve symmetries.
"""

from collections.abc import Iterable, Mapping, Sequence
import re
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from experiments import published_mlp
from experiments import rows as rows_lib
from experiments.rows import Row


class Estimate(NamedTuple):
  """A mean over seeds, and its uncertainty."""

  mean: float
  standard_error: float
  spread: float  # standard deviation of the seeds

  def __str__(self) -> str:
    return f'{self.mean:.1f} ± {self.spread:.1f}'


def estimate(values: Sequence[float]) -> Estimate:
  """Returns the estimate, in percent, from accuracies between 0 and 1."""
  values = 100 * np.asarray(values, float)
  spread = values.std(ddof=1) if values.size > 1 else np.nan
  return Estimate(values.mean(), spread / np.sqrt(values.size), spread)


class Network(NamedTuple):
  """A network on a data set, with statistics over its seeds."""

  role: str
  dataset: str
  symmetries: str
  weights: int
  num_seeds: int
  paper: Estimate  # by the paper protocol
  test: Estimate  # by the validation protocol
  validation: Estimate

  @property
  def words(self) -> str:
    """Its symmetries, joined by plus signs."""
    return rows_lib.words(self.symmetries)

  @property
  def place(self) -> str:
    """Its rank in the search that found it."""
    return self.role.removeprefix('search ')


def networks(rows: Iterable[Row]) -> list[Network]:
  """Groups rows by data set and role, in order of first occurrence."""
  gathered = rows_lib.by(('dataset', 'role'), rows)
  return [
    Network(
      role,
      dataset,
      found[0]['symmetries'],
      int(found[0]['weights']),
      len(found),
      *(
        estimate([float(row[column]) for row in found])
        for column in ('published', 'validation_protocol', 'validation')
      ),
    )
    for (dataset, role), found in gathered.items()
  ]


def cells(
  rows: Sequence[Row], base: str, configs: Sequence[str]
) -> list[list[Network]]:
  """Returns our networks of a table; nothing if a data set is missing."""
  known = {(n.dataset, n.symmetries): n for n in networks(rows)}
  names = [' '.join(symmetries) for symmetries in published_mlp.NETWORKS]
  datasets = [f'{base}/{config}' for config in configs]
  if any((dataset, '') not in known for dataset in datasets):
    return []
  return [[known[dataset, name] for name in names] for dataset in datasets]


def grid(rows: Sequence[Row], base: str, configs: Sequence[str]) -> np.ndarray:
  """Returns means over seeds, by the paper protocol. [rows, 13]."""
  ours = cells(rows, base, configs)
  return np.array([[network.paper.mean for network in row] for row in ours])


def compare(ours: np.ndarray, paper: np.ndarray) -> str:
  """Describes how far our accuracies are from the paper's."""
  return (
    f'{ours.size} cells, mean absolute difference from the paper'
    f' {np.abs(ours - paper).mean():.2f} points, mean difference'
    f' {(ours - paper).mean():+.2f}'
  )


def diagonals(ours: np.ndarray, paper: np.ndarray) -> str:
  """Describes if networks suit images transformed by their own symmetry."""
  found = {
    'ours': ours,
    "the paper's": paper,
    "the paper's, columns as printed": published_mlp.literally(paper),
  }
  return 'diagonal of bits 6 to 12: ' + '; '.join(
    f'{name} p = {published_mlp.diagonal_p(values):.4f}'
    for name, values in found.items()
  )


class Found(NamedTuple):
  """The networks found on a data set, and those to compare them with."""

  dataset: str
  printed: float  # the paper's accuracy
  paper: Network  # the best that the search found, by the paper protocol
  validation: Network  # the best that the search found, in validation
  single: Network  # the best with at most one symmetry, in validation
  ours: Network | None  # like `paper`, trained by our recipe
  theirs: Network | None  # the network that the paper's search found

  @property
  def by_our_recipe(self) -> str:
    """The accuracy of `ours`, if there is one."""
    return str(self.ours.paper) if self.ours else ''

  @property
  def trained(self) -> str:
    """The accuracy of `theirs`, if there is one."""
    return str(self.theirs.paper) if self.theirs else ''


def found(
  tables: Sequence[Row], retrained: Sequence[Row], others: Sequence[Row] = ()
) -> list[Found]:
  """Returns our version of the paper's AEN column, by both protocols.

  Args:
    tables: Rows of networks with at most one symmetry.
    retrained: Rows of the networks that the search found, trained by the
      published recipe.
    others: Rows of the same networks, trained by other recipes.
  """
  printed, search = published_mlp.found(), r'search \d+'
  singles, searched, again = map(networks, (tables, retrained, others))

  def best(dataset: str, found: list[Network], roles: str, by: str) -> Any:
    own = [n for n in found if n.dataset == dataset]
    matching = [n for n in own if re.fullmatch(roles, n.role)]
    return max(matching, key=lambda n: getattr(n, by).mean, default=None)

  return [
    Found(
      name,
      printed[name].test_accuracy,
      paper=best(name, searched, search, 'paper'),
      validation=best(name, searched, search, 'validation'),
      single=best(name, singles, '.*', 'validation'),
      ours=best(name, again, f'{search}, {published_mlp.OURS}', 'paper'),
      theirs=best(name, searched, 'paper', 'paper'),
    )
    for name in dict.fromkeys(network.dataset for network in searched)
  ]


def shortfalls(column: Iterable[tuple[Found, Network]]) -> str:
  """Names the rows below the paper's by more than two standard errors.

  Ours vary with the seeds, and both with the sample of 1000 test images.
  """
  lacking = []
  for row, network in column:
    short, share = row.printed - network.paper.mean, row.printed / 100
    images = 2 * 100**2 * share * (1 - share) / 1000
    error = float(np.sqrt(network.paper.standard_error**2 + images))
    if short > 2 * error:
      errors = f'{short / error:.1f} standard errors'
      lacking.append(f'{row.dataset} (by {short:.1f} points, {errors})')
  return ', '.join(lacking) or 'none'


def paired(differences: Sequence[float] | np.ndarray) -> tuple[float, float]:
  """Returns the mean and half of its 95 % interval by Student's t."""
  values = np.asarray(differences, float)
  margin = stats.t.ppf(0.975, values.size - 1) * stats.sem(values)
  return float(values.mean()), float(margin)


def with_interval(
  values: Sequence[float] | np.ndarray, spec: str = '+.2f'
) -> str:
  """Formats the mean and its 95 % interval; a single value has none."""
  if len(values) == 1:
    return format(values[0], spec)
  mean, margin = paired(values)
  low, high = mean - margin, mean + margin
  return f'{mean:{spec}} ({low:{spec}} … {high:{spec}})'


def regret_table(rows: Iterable[Mapping[str, Any]], landscape: str) -> str:
  """Returns the regret of every strategy on a landscape, in Markdown."""
  lines: dict[str, dict[str, str]] = {}
  for row in (row for row in rows if row['landscape'] == landscape):
    regret, band, observed = (
      100 * float(row[name]) for name in ('regret', 'band', 'observed')
    )
    first = {landscape: row['strategy'], 'searches': str(row['searches'])}
    line = lines.setdefault(row['strategy'], first)
    cell = f'{regret:.2f} ± {band:.2f} ({observed:.2f})'
    line[f'{row["networks"]} networks'] = cell
  return rows_lib.markdown([*lines.values()])


# Large group CNNs to compare: symmetries, augmentations, size.
GCNN_CONTROLS = {
  'baseline': ('', '', 'large'),
  'D4': ('rotation horizontal_flip', '', 'large'),
}
_GCNN_TASK = ('dataset', 'recipe', 'train', 'validation', 'test')
GCNN_NETWORK = ('symmetries', 'augmentations', 'size')


class Accuracies(NamedTuple):
  """Test accuracies of one network in percent, one per seed."""

  last: list[float]  # after the last epoch
  best: list[float]  # at the best epoch on the test images: the paper protocol
  validated: list[float]  # at the best epoch on the validation images


def gcnn_accuracies(rows: Iterable[Row]) -> Accuracies:
  """Returns test accuracies for three ways of choosing the epoch."""
  found = Accuracies([], [], [])
  for row in rows:
    test = np.array(row['test_accuracy'].split(), float)
    validation = np.array(row['validation_accuracy'].split(), float)
    found.last.append(test[-1])
    found.best.append(test.max())
    found.validated.append(test[validation.argmax()])
  return found


def gcnn_table(rows: Iterable[Row]) -> str:
  """Returns our rows of the paper's table of group CNNs, in Markdown."""
  lines = []
  for children in rows_lib.by((*_GCNN_TASK, *GCNN_NETWORK), rows).values():
    row = children[0]
    trained = [child for child in children if not is_stuck(child)]
    ours = gcnn_accuracies(trained or children)
    images = '{train} + {validation} / {test}'.format_map(row)
    line = {
      'data': row['dataset'],
      'training + validation / test images': images,
      'symmetries': rows_lib.words(row['symmetries']),
      'augmentations': rows_lib.words(row['augmentations']),
      'size': row['size'],
      'recipe': row['recipe'] or 'published',
      'weights': row['weights'],
      'paper': row['paper'] and f'{float(row["paper"]):.2f}',
      'last epoch': _mean_and_error(ours.last),
      'best test epoch': _mean_and_error(ours.best),
      'best validation epoch': _mean_and_error(ours.validated),
      'stuck': f'{len(children) - len(trained)} of {len(children)}',
    }
    lines.append(line)
  return rows_lib.markdown(lines)


def is_stuck(row: Row) -> bool:
  """Whether a child learned nothing: all epochs have the same accuracy."""
  test = np.array(row['test_accuracy'].split(), float)
  return test.size > 1 and bool(np.ptp(test) < 0.05)


def gcnn_shortfall(rows: Iterable[Row]) -> str:
  """Describes how far we are below and above the paper.

  At the best test epoch, over the paper's rows on complete data sets.
  """
  gaps: dict[str, list[float]] = {}
  stuck = 0
  for children in rows_lib.by((*_GCNN_TASK, *GCNN_NETWORK), rows).values():
    row = children[0]
    trained = [child for child in children if not is_stuck(child)]
    stuck += len(children) - len(trained)
    official = 'partial' not in row['dataset'] and trained
    if row['paper'] and not row['recipe'] and official:
      gap = float(row['paper']) - np.mean(gcnn_accuracies(trained).best)
      gaps.setdefault(row['dataset'], []).append(gap)
  means = [
    f'{name} {np.maximum(gap, 0).mean():.2f} below and'
    f' {np.maximum(np.negative(gap), 0).mean():.2f} above'
    for name, gap in gaps.items()
  ]
  every = np.concatenate([*gaps.values()] or [np.zeros(1)])
  left_out = (
    ' Children that never left their start (see the errata) are not counted:'
    f' {stuck}.'
  )
  return (
    f'Over {len(every)} rows the mean shortfall is'
    f' {np.maximum(every, 0).mean():.2f} points, the mean excess'
    f' {np.maximum(-every, 0).mean():.2f} ({"; ".join(means)}).'
    + (left_out if stuck else '')
  )


def gcnn_negative(rows: Sequence[Row]) -> str:
  """Describes the effect of the published conversion of ASL's pixels."""
  names = ('sign_language_mnist/negative', 'sign_language_mnist')
  negative, positive = (
    [row for row in rows if row['dataset'] == name and not row['recipe']]
    for name in names
  )
  if not negative or not positive:
    return ''
  ours = [np.mean(gcnn_accuracies(each).best) for each in (negative, positive)]
  paper = np.mean([float(row['paper']) for row in positive])
  share = (ours[0] - ours[1]) / (paper - ours[1])
  return (
    "The published code converts ASL's pixels to their negative by mistake;"
    f' trained on that, `{names[0]}`, the networks reach {ours[0]:.2f} % on'
    f' average at the best test epoch instead of {ours[1]:.2f} % (paper'
    f' {paper:.2f} %), which explains {100 * share:.0f} % of the difference.'
  )


def gcnn_gains(rows: Iterable[Row]) -> str:
  """Returns a table of the gain of D4 over the baseline, in Markdown.

  With Welch's 95 % intervals over the seeds.
  """
  lines = []
  for (dataset, recipe, *_), children in rows_lib.by(_GCNN_TASK, rows).items():
    networks = rows_lib.by(GCNN_NETWORK, children)
    pair = [networks.get(network, []) for network in GCNN_CONTROLS.values()]
    if min(map(len, pair)) < 2:
      continue
    line = {'data': dataset, 'recipe': recipe or 'published'}
    baseline, symmetric = map(gcnn_accuracies, pair)
    line['baseline'] = _mean_and_error(baseline.validated)
    line['D4'] = _mean_and_error(symmetric.validated)
    for title, *both in (
      ('gain of D4 (95 %)', symmetric.validated, baseline.validated),
      ('gain at the last epoch', symmetric.last, baseline.last),
    ):
      found = stats.ttest_ind(*both, equal_var=False)
      low, high = found.confidence_interval()
      gain = np.mean(both[0]) - np.mean(both[1])
      line[title] = f'{gain:+.2f} ({low:+.2f} … {high:+.2f})'
    lines.append(line)
  if not lines:
    return 'These networks have not been trained yet.'
  return rows_lib.markdown(lines)


def _mean_and_error(values: Sequence[float]) -> str:
  mean = f'{np.mean(values):.2f}'
  if len(values) == 1:
    return mean
  error = np.std(values, ddof=1) / len(values) ** 0.5
  return f'{mean} ± {error:.2f} ({len(values)} seeds)'
