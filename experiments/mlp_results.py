"""What our MLP tables say, beside the paper's.

Accuracies are in percent. Legend: 13 networks (none, and each of the twelve
symmetries), S seeds.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments import published_mlp
from experiments.published_mlp import Line


class Estimate(NamedTuple):
  """A mean, and its standard error over seeds."""

  mean: float
  standard_error: float
  spread: float  # standard deviation of the seeds

  def __str__(self) -> str:
    return f'{self.mean:.1f} ± {self.spread:.1f}'


def estimate(values: Sequence[float]) -> Estimate:
  """Returns the mean over seeds of shares, in percent."""
  values = 100 * np.asarray(values, float)
  spread = values.std(ddof=1) if values.size > 1 else np.nan
  return Estimate(values.mean(), spread / np.sqrt(values.size), spread)


@dataclasses.dataclass(frozen=True)
class Network:
  """A network on a data set: all its seeds."""

  role: str
  dataset: str
  symmetries: str
  weights: int
  num_seeds: int
  published: Estimate
  honest: Estimate
  validation: Estimate


def networks(lines: Iterable[Line]) -> list[Network]:
  """Gathers the seeds of every role on every data set, in order."""
  gathered: dict[tuple[str, str], list[Line]] = {}
  for line in lines:
    gathered.setdefault((line.child.dataset, line.role), []).append(line)
  return [
    Network(
      role=role,
      dataset=dataset,
      symmetries=found[0].child.symmetries,
      weights=found[0].child.weights,
      num_seeds=len(found),
      **{
        name: estimate([getattr(line.child, name) for line in found])
        for name in ('published', 'honest', 'validation')
      },
    )
    for (dataset, role), found in gathered.items()
  ]


def has(lines: Iterable[Line], base: str, configs: Sequence[str]) -> bool:
  """Whether all data sets of a table are there."""
  known = {line.child.dataset for line in lines}
  return all(f'{base}/{config}' in known for config in configs)


def grid(
  lines: Sequence[Line], base: str, configs: Sequence[str]
) -> np.ndarray:
  """Returns the paper's protocol, mean over seeds. [rows, 13]."""
  means = {(n.dataset, n.symmetries): n.published.mean for n in networks(lines)}
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
  """Says whether networks suit the images that were moved by their symmetry."""
  literal = published_mlp.literally
  found = {
    'ours': ours,
    "the paper's": paper,
    "the paper's, columns as printed": literal(paper),
  }
  return 'diagonal of bits 6 to 12: ' + '; '.join(
    f'{name} p = {published_mlp.diagonal_p(values):.4f}'
    for name, values in found.items()
  )


class Found(NamedTuple):
  """What the search found on a data set, beside its rivals."""

  dataset: str
  paper: float
  published: Network  # the best of the search's networks, paper's protocol
  honest: Network  # the best in validation
  single: Network  # of the networks with one symmetry at most, likewise
  better: Network | None  # like `published`, trained by our recipe


def found(
  tables: Sequence[Line], retrained: Sequence[Line], better: Sequence[Line] = ()
) -> list[Found]:
  """Returns the AEN column, by both protocols.

  Args:
    tables: The networks with one symmetry at most.
    retrained: The networks that the search found, by the published recipe.
    better: The same by other recipes.
  """
  paper = published_mlp.found()
  singles, searched, again = (
    _by_dataset(networks(lines)) for lines in (tables, retrained, better)
  )
  rows = []
  for dataset, candidates in searched.items():
    chosen = _searched(candidates)
    ours = _searched(again.get(dataset, ()), f', {published_mlp.OURS}')
    rows.append(
      Found(
        dataset,
        paper[dataset].test_accuracy,
        max(chosen, key=_by_test),
        max(chosen, key=lambda n: n.validation.mean),
        max(singles[dataset], key=lambda n: n.validation.mean),
        max(ours, key=_by_test, default=None),
      )
    )
  return rows


def _searched(candidates: Iterable[Network], ending: str = '') -> list[Network]:
  return [
    network
    for network in candidates
    if network.role.startswith('search ') and network.role.endswith(ending)
  ]


def _by_test(network: Network) -> float:
  return network.published.mean


def combined_error(
  ours: Network, paper: float, num_images: int = 1000
) -> float:
  """Returns the standard error of the paper's AEN less ours, in points.

  Ours varies with the seeds, and both with the drawing of their test images.
  """
  share = paper / 100
  images = 2 * 100**2 * share * (1 - share) / num_images
  return float(np.sqrt(ours.published.standard_error**2 + images))


def _by_dataset(found: Iterable[Network]) -> dict[str, list[Network]]:
  gathered: dict[str, list[Network]] = {}
  for network in found:
    gathered.setdefault(network.dataset, []).append(network)
  return gathered


def paired(differences: Sequence[float]) -> tuple[float, float]:
  """Returns the mean and half its 95 % interval, by Student's t."""
  values = np.asarray(differences, float)
  error = values.std(ddof=1) / np.sqrt(values.size)
  return float(values.mean()), float(
    stats.t.ppf(0.975, values.size - 1) * error
  )


def with_interval(differences: Sequence[float]) -> str:
  """Says what `paired` returns."""
  mean, margin = paired(differences)
  return f'{mean:+.2f} ({mean - margin:+.2f} … {mean + margin:+.2f})'
