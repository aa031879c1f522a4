"""Statistics of the results, beside the paper's numbers.

Accuracies are in percent. Legend: 13 networks (none, and each of the twelve
symmetries), S seeds.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import re
from typing import Any
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments import published_mlp
from experiments import rows as rows_lib
from experiments.rows import Row


class Estimate(NamedTuple):
  """A mean over seeds, and how much they differ."""

  mean: float
  standard_error: float
  spread: float  # standard deviation of the seeds

  def __str__(self) -> str:
    return f'{self.mean:.1f} ± {self.spread:.1f}'


def estimate(values: Sequence[float]) -> Estimate:
  """Returns the mean of shares, in percent."""
  values = 100 * np.asarray(values, float)
  spread = values.std(ddof=1) if values.size > 1 else np.nan
  return Estimate(values.mean(), spread / np.sqrt(values.size), spread)


class Network(NamedTuple):
  """A network on a data set: all its seeds."""

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
    """Its symmetries as one phrase."""
    return rows_lib.words(self.symmetries)

  @property
  def place(self) -> str:
    """Its place in the search that found it."""
    return self.role.removeprefix('search ')


def networks(rows: Iterable[Row]) -> list[Network]:
  """Gathers the seeds of every role on every data set, in order."""
  gathered: dict[tuple[str, str], list[Row]] = {}
  for row in rows:
    gathered.setdefault((row['dataset'], row['role']), []).append(row)
  return [
    Network(
      role,
      dataset,
      found[0]['symmetries'],
      int(found[0]['weights']),
      len(found),
      *(
        estimate([float(row[column]) for row in found])
        for column in ('published', 'honest', 'validation')
      ),
    )
    for (dataset, role), found in gathered.items()
  ]


def grid(rows: Sequence[Row], base: str, configs: Sequence[str]) -> np.ndarray:
  """Returns means over seeds, by the paper protocol. [rows, 13]."""
  means = {(n.dataset, n.symmetries): n.paper.mean for n in networks(rows)}
  return np.array(
    [
      [means[f'{base}/{config}', ' '.join(n)] for n in published_mlp.NETWORKS]
      for config in configs
    ]
  )


def compare(ours: np.ndarray, paper: np.ndarray) -> str:
  """Says how near to the paper we are."""
  return (
    f'{ours.size} cells, mean absolute difference from the paper'
    f' {np.abs(ours - paper).mean():.2f} points, mean difference'
    f' {(ours - paper).mean():+.2f}'
  )


def diagonals(ours: np.ndarray, paper: np.ndarray) -> str:
  """Says whether networks suit images that their own symmetry transformed."""
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
  """What the search found on a data set, beside its rivals."""

  dataset: str
  printed: float  # the paper's accuracy
  paper: Network  # the best of the search's networks by the paper protocol
  validation: Network  # the best in validation
  single: Network  # likewise, of the networks with at most one symmetry
  ours: Network | None  # like `paper`, trained by our recipe
  theirs: Network | None  # the network that the paper's search found

  @property
  def by_our_recipe(self) -> str:
    """What to print of `ours`."""
    return str(self.ours.paper) if self.ours else ''

  @property
  def trained(self) -> str:
    """What to print of `theirs`."""
    return str(self.theirs.paper) if self.theirs else ''


def found(
  tables: Sequence[Row], retrained: Sequence[Row], others: Sequence[Row] = ()
) -> list[Found]:
  """Returns the AEN column, by both protocols.

  Rows are of networks with at most one symmetry, of those that the search found
  by the published recipe, and of the latter by other recipes.
  """
  printed = published_mlp.found()
  singles, searched, again = map(networks, (tables, retrained, others))

  def best(
    candidates: Iterable[Network], dataset: str, column: str, words: str
  ) -> Network | None:
    """Returns the best network of a data set, of those whose role matches."""
    matching = [
      network
      for network in candidates
      if network.dataset == dataset and re.fullmatch(words, network.role)
    ]
    return max(matching, key=lambda n: getattr(n, column).mean, default=None)

  any_search = r'search \d+'
  return [
    Found(
      dataset,
      printed[dataset].test_accuracy,
      best(searched, dataset, 'paper', any_search),
      best(searched, dataset, 'validation', any_search),
      best(singles, dataset, 'validation', '.*'),
      best(again, dataset, 'paper', f'{any_search}, {published_mlp.OURS}'),
      best(searched, dataset, 'paper', 'paper'),
    )
    for dataset in dict.fromkeys(network.dataset for network in searched)
  ]


def combined_error(
  ours: Network, printed: float, num_images: int = 1000
) -> float:
  """Returns the standard error of the paper's accuracy less ours, in points.

  Ours varies with the seeds, and both with the drawing of their test images.
  """
  share = printed / 100
  images = 2 * 100**2 * share * (1 - share) / num_images
  return float(np.sqrt(ours.paper.standard_error**2 + images))


def paired(differences: Sequence[float]) -> tuple[float, float]:
  """Returns the mean and half its 95 % interval, by Student's t."""
  values = np.asarray(differences, float)
  margin = stats.t.ppf(0.975, values.size - 1) * stats.sem(values)
  return float(values.mean()), float(margin)


def with_interval(differences: Sequence[float]) -> str:
  """Says what `paired` returns."""
  mean, margin = paired(differences)
  return f'{mean:+.2f} ({mean - margin:+.2f} … {mean + margin:+.2f})'


def regret_table(rows: Iterable[Mapping[str, Any]], landscape: str) -> str:
  """Returns the regret of every strategy on a landscape, in Markdown."""
  heads, lines = {landscape: None, 'searches': None}, {}
  for row in (row for row in rows if row['landscape'] == landscape):
    heads[f'{row["networks"]} networks'] = None
    regret, band, observed = (
      100 * float(row[name]) for name in ('regret', 'band', 'observed')
    )
    first = [row['strategy'], str(row['searches'])]
    line = lines.setdefault(row['strategy'], first)
    line.append(f'{regret:.2f} ± {band:.2f} ({observed:.2f})')
  return rows_lib.markdown([*heads], lines.values())


ROTATIONS_AND_FLIPS = 'rotation horizontal_flip vertical_flip'
RANDOM_ROTATIONS_AND_FLIPS = (
  'random_rotation random_horizontal_flip random_vertical_flip'
)
# Symmetry, its lack, and its replacements: symmetries, augmentations, size.
SMALL_GCNNS = {
  'baseline, small': ('', '', 'small'),
  'baseline, small, images rotated and flipped': (
    '',
    RANDOM_ROTATIONS_AND_FLIPS,
    'small',
  ),
  'rotations and flips respected, small': (ROTATIONS_AND_FLIPS, '', 'small'),
}
_GCNN_CONTRASTS = SMALL_GCNNS | {
  'baseline, large': ('', '', 'large'),
  'rotations and flips respected, large': (ROTATIONS_AND_FLIPS, '', 'large'),
}


def gcnn_table(rows: Iterable[Row]) -> str:
  """Returns our rows of the paper's table of group CNNs, in Markdown."""
  images = 'training + validation / test images'
  choices = ('symmetries', 'augmentations')
  return rows_lib.markdown(
    ['data', images, *choices, 'size', 'weights', 'paper', 'ours'],
    [
      [
        row['dataset'],
        '{train} + {validation} / {test}'.format_map(row),
        *(rows_lib.words(row[name]) for name in choices),
        row['size'],
        row['weights'],
        row['paper'] and f'{float(row["paper"]):.2f}',
        _gcnn_cell(row),
      ]
      for row in rows
    ],
  )


def gcnn_contrasts(rows: Iterable[Row]) -> str:
  """Returns what symmetry, size and rotated images do, by data set."""
  found: dict[tuple[str, ...], dict[tuple[str, ...], Row]] = {}
  for row in rows:
    task = ('dataset', 'initializer', 'epochs', 'train', 'test')
    network = ('symmetries', 'augmentations', 'size')
    same_task = found.setdefault(tuple(row[name] for name in task), {})
    same_task[tuple(row[name] for name in network)] = row
  lines = []
  for (dataset, initializer, *_, count), networks in found.items():
    chosen = [networks.get(kind) for kind in _GCNN_CONTRASTS.values()]
    accuracies = [float(row['ours']) for row in chosen if row is not None]
    share = float(np.mean(accuracies)) / 100 if accuracies else 0.0
    error = 100 * np.sqrt(2 * share * (1 - share) / int(count))
    cells = ['' if row is None else _gcnn_cell(row) for row in chosen]
    lines.append([dataset, initializer, *cells, f'{error:.1f}'])
  return rows_lib.markdown(
    ['data', 'initializer', *_GCNN_CONTRASTS, 's.e. of a difference'], lines
  )


def _gcnn_cell(row: Row) -> str:
  if not row['standard_error']:
    return row['ours']
  return f'{row["ours"]} ± {row["standard_error"]} ({row["seeds"]} seeds)'
