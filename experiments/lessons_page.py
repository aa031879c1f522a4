"""What the reproduction teaches: one page, from its files."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import pathlib
from typing import NamedTuple

from scipy import stats

from aen.data import transform
from aen.search import landscape as landscape_lib
from experiments import markdown
from experiments import mlp_results
from experiments import mlp_searches
from experiments import published_mlp
from experiments.mlp_results import Network

PLAIN = 'plain'
GENERATING = 'the symmetries that the data were made with'
SEARCHED = "the DQN's choice"
BEST = 'the best in validation'


def lines(folder: pathlib.Path) -> Iterator[str]:
  """Yields the page's lines."""
  yield '# What the reproduction teaches'
  yield ''
  yield (
    'Made by `python -m experiments.results_page` from `results/mlp/`, which'
    ' `python -m experiments.reproduce` makes. Differences are in points of'
    ' accuracy on all 10 000 test images, in the epoch that is best in'
    ' validation, with 95 % intervals over data sets.'
  )
  found = known_landscapes(folder)
  if found:
    yield ''
    yield from agreement(found, marks(folder, found))
  gathered = changed(folder)
  if _widened(gathered):
    yield ''
    yield from contrasts(gathered)


def known_landscapes(
  folder: pathlib.Path,
) -> dict[str, landscape_lib.Landscape]:
  """Returns all landscapes, by data set; none if they are not there."""
  path = folder / 'landscapes.npz'
  return landscape_lib.load_all(path) if path.exists() else {}


def marks(
  folder: pathlib.Path, found: Mapping[str, landscape_lib.Landscape]
) -> dict[str, dict[str, int]]:
  """Returns the networks to point out, by data set and by what they are."""
  marked = {}
  for name, landscape in found.items():
    config = transform.CONFIGS[name.split('/')[1]]
    networks = {
      PLAIN: 0,
      GENERATING: landscape.network(config.symmetries),
      BEST: int(landscape.values('validation').argmax()),
    }
    if (path := mlp_searches.path(folder, landscape)).exists():
      (networks[SEARCHED],) = mlp_searches.top_networks(
        mlp_searches.read(path), landscape, 1
      )
    marked[name] = networks
  return marked


def agreement(
  found: Mapping[str, landscape_lib.Landscape],
  marked: Mapping[str, Mapping[str, int]],
) -> Iterator[str]:
  """Yields where optimum, search and generating symmetries differ."""
  yield '## Optimum, search, and the symmetries that the data were made with'
  yield ''
  yield (
    'Test accuracy of the networks of each landscape (4000 images, four'
    ' epochs, mean over seeds, 2000 test images), and the place among all'
    ' networks by the same number.'
  )
  yield ''
  kinds = [PLAIN, GENERATING, BEST, SEARCHED]
  yield from markdown.table(
    ['data', *kinds, 'the best is', 'correlation with log weights'],
    [
      _agreement_row(landscape, marked[name], kinds)
      for name, landscape in found.items()
    ],
  )
  yield ''
  yield '![All networks of each data set](../results/mlp/landscapes.png)'
  yield ''
  same = [m[BEST] == m.get(SEARCHED) for m in marked.values()]
  made = [m[BEST] == m[GENERATING] for m in marked.values()]
  yield (
    f'The DQN, which sees one seed, chooses the network that is best in'
    f' validation over all seeds on {sum(same)} of {len(same)} data sets. On'
    f' {sum(made)} the best network is the one with exactly the symmetries that'
    ' the data were made with; on the others fewer of them, or others, do'
    ' better.'
  )


def _agreement_row(
  landscape: landscape_lib.Landscape,
  marked: Mapping[str, int],
  kinds: list[str],
) -> list[str]:
  values = 100 * landscape.values()
  places = stats.rankdata(-values, method='min').astype(int)
  cells = [
    f'{values[marked[kind]]:.1f} ({places[marked[kind]]}.)'
    if kind in marked
    else ''
    for kind in kinds
  ]
  names = ' '.join(landscape.names(marked[BEST]))
  related = stats.spearmanr(landscape.weights, values).statistic
  return [landscape.name, *cells, markdown.words(names), f'{related:+.2f}']


_WIDE = ', as many weights'
_INVARIANT = ', invariant head'
_EXACT = ', exact moves'
_FOUND = 'search 1'


class Contrast(NamedTuple):
  """Two networks that differ in what is asked about."""

  better: str
  worse: str
  suffix: str = ''  # of the data set


_AT_EQUAL_SIZE = 'chosen with as many weights as plain, less plain'
CONTRASTS = {
  'chosen less plain': Contrast(_FOUND, PLAIN),
  _AT_EQUAL_SIZE: Contrast(_FOUND + _WIDE, PLAIN),
  'chosen with as many weights as plain, less chosen as it is': Contrast(
    _FOUND + _WIDE, _FOUND
  ),
  'chosen less plain, both with an invariant head': Contrast(
    _FOUND + _INVARIANT, PLAIN + _INVARIANT
  ),
  'chosen with an invariant head, less chosen with a dense head': Contrast(
    _FOUND + _INVARIANT, _FOUND
  ),
  'chosen less plain, both on exactly moved data': Contrast(
    _FOUND + _EXACT, PLAIN + _EXACT, '_group'
  ),
}


def changed(folder: pathlib.Path) -> list[Network]:
  """Returns the networks that were found, and what was changed about them."""
  return [
    network
    for name in ('networks', 'lessons')
    for network in mlp_results.networks(
      published_mlp.read(folder / f'{name}.csv')
    )
  ]


def differences(gathered: Sequence[Network]) -> dict[str, dict[str, float]]:
  """Returns points gained, by what is compared and by data set."""
  honest = {(n.dataset, n.role): n.honest.mean for n in gathered}
  return {
    title: {
      name: honest[name + suffix, better] - honest[name + suffix, worse]
      for name in _widened(gathered)
    }
    for title, (better, worse, suffix) in CONTRASTS.items()
  }


def _widened(gathered: Sequence[Network]) -> list[str]:
  """Returns the data sets of which everything is known."""
  return [n.dataset for n in gathered if n.role == _FOUND + _WIDE]


def contrasts(gathered: Sequence[Network]) -> Iterator[str]:
  """Yields what becomes of a gain when one thing is changed."""
  honest = {(n.dataset, n.role): n.honest.mean for n in gathered}
  names = _widened(gathered)
  yield '## Is it the symmetry, or the smaller number of weights?'
  yield ''
  yield (
    'The network that the search chose against the plain one, as it is, and'
    ' widened until it has as many weights as the plain one; with an invariant'
    ' head, whose answers do not change when the image is moved; and on data'
    ' moved by exact powers of the generators (`_group`) instead of the'
    f' published random moves. Averages over {len(names)} data sets; the'
    f' networks as they are with {_seeds(gathered, _FOUND)} seeds each, the'
    f' changed ones with {_seeds(gathered, _FOUND + _WIDE)}.'
  )
  yield ''
  found = differences(gathered)
  yield from markdown.table(
    ['compared', 'difference'],
    [
      [title, mlp_results.with_interval([*each.values()])]
      for title, each in found.items()
    ],
  )
  yield ''
  yield verdict([*found[_AT_EQUAL_SIZE].values()])
  yield ''
  yield '![What the chosen network gains](../results/mlp/gains.png)'
  yield ''
  roles = [
    *(PLAIN, _FOUND, _FOUND + _WIDE),
    *(PLAIN + _INVARIANT, _FOUND + _INVARIANT),
  ]
  exact = [PLAIN + _EXACT, _FOUND + _EXACT]
  yield from markdown.folded(
    'Data set by data set',
    markdown.table(
      ['data', *(role.replace(_FOUND, 'chosen') for role in (*roles, *exact))],
      [
        [
          name,
          *(f'{honest[name, role]:.1f}' for role in roles),
          *(f'{honest[f"{name}_group", role]:.1f}' for role in exact),
        ]
        for name in names
      ],
    ),
  )


def _seeds(gathered: Sequence[Network], role: str) -> int:
  """Returns how many seeds all networks of a role have at least."""
  return min(n.num_seeds for n in gathered if n.role == role)


def verdict(gains: Sequence[float]) -> str:
  """Says whether symmetry helps at equal numbers of weights."""
  mean, margin = mlp_results.paired(gains)
  if mean - margin > 0:
    return (
      'With as many weights as the plain network the chosen one is still'
      ' better: it is the symmetry that helps.'
    )
  return (
    'With as many weights as the plain network the chosen one may be no better:'
    ' it cannot be told from these whether it is the symmetry that helps.'
  )
