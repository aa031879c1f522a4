"""The ranking as a table of the page."""

from collections.abc import Sequence

from aen.report import page
from aen.report import style
from aen.search import result as result_lib
from aen.train import score as score_lib

_COLUMNS = (
  page.Column('Rank', numeric=True),
  page.Column('Network'),
  page.Column('Also implied'),
  page.Column('Weights', numeric=True),
  page.Column('Score in search', numeric=True, ascending=False),
  page.Column('Accuracy in search', numeric=True, ascending=False),
  page.Column('Score retrained', numeric=True, ascending=False),
  page.Column('Accuracy retrained', numeric=True, ascending=False),
)


def table(ranking: Sequence[result_lib.Ranked], base: int = 0) -> str:
  """Returns the whole ranking as HTML, best first, one row per network.

  Args:
    ranking: Best first.
    base: The network that the first is compared with.
  """
  rows = [
    _row(rank, entry, 'best' if rank == 1 else 'base' * (entry.network == base))
    for rank, entry in enumerate(ranking, start=1)
  ]
  return page.table(_COLUMNS, rows, 'Ranking of networks', sortable=True)


def _row(rank: int, entry: result_lib.Ranked, kind: str) -> page.Row:
  search, again = entry.search, entry.retrained
  return page.Row(
    [
      page.Cell(str(rank)),
      page.Cell(entry.name + ' (diverged)' * bool(search.num_diverged)),
      page.Cell(', '.join(entry.implied)),
      page.Cell(style.spaced(entry.num_weights), entry.num_weights),
      *_score(search),
      *_score(again),
    ],
    kind,
  )


def _score(score: score_lib.Score | None) -> tuple[page.Cell, page.Cell]:
  if score is None:
    return page.Cell(''), page.Cell('')
  margin = score_lib.Z_95 * score.standard_error
  return (
    page.Cell(f'{100 * score.value:.1f}', score.value),
    page.Cell(
      f'{100 * score.accuracy:.1f} ± {100 * margin:.1f}', score.accuracy
    ),
  )
