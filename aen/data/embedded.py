"""Data sets that need no file: handwritten digits and tic-tac-toe."""

import numpy as np

from aen.data import draws
from aen.data.arrays import part
from aen.data.arrays import Parts

DIGITS_COUNTS = (1500, 297)
BOARD_COUNTS = (700, 258)
O_MARK, BLANK, X_MARK = 1, 128, 255  # the values of a board, equally far apart

OUTCOMES = ('x wins', 'o wins', 'draw')


def digits() -> Parts:
  """Returns scikit-learn's handwritten digits, each pixel doubled to 16 x 16.

  Grey values 0…16 become 0…255. The images come writer after writer, so the
  test part is the end of the file: mostly hands that training never saw.
  """
  try:
    from sklearn import datasets  # an optional dependency
  except ImportError as error:
    raise ImportError(
      "load_dataset('digits') reads scikit-learn's copy of the digits; pip"
      " install 'aen[data]'"
    ) from error
  bunch = datasets.load_digits()
  grey = (bunch.images.astype(np.uint16) * 255 + 8) // 16
  images = grey.astype(np.uint8).repeat(2, axis=1).repeat(2, axis=2)
  everything = part(images, bunch.target, where='digits')
  cut = DIGITS_COUNTS[0]
  return Parts(everything[:cut], everything[cut:])


def tic_tac_toe() -> Parts:
  """Returns all 958 final boards of tic-tac-toe with their outcomes.

  Images are [N, 3, 3] with 255 for x (who moves first), 1 for o and 128 for
  blank; labels are 0 (x wins), 1 (o wins) and 2 (draw). Outcomes do not change
  when a board is turned or reflected. The division into train and test is
  fixed and stratified.
  """
  boards = sorted(_final_boards(' ' * 9))
  value = {'x': X_MARK, 'o': O_MARK, ' ': BLANK}
  images = np.array([[value[mark] for mark in board] for board in boards])
  images = images.astype(np.uint8).reshape(-1, 3, 3)
  everything = part(
    images, np.array([_outcome(board) for board in boards]), where='tic_tac_toe'
  )
  order = draws.order(0, draws.CHOOSE_TEST, everything.labels, stratified=True)
  cut = BOARD_COUNTS[0]
  return Parts(
    everything[np.sort(order[:cut])], everything[np.sort(order[cut:])]
  )


_LINES = (
  *((r, r + 1, r + 2) for r in (0, 3, 6)),
  *((c, c + 3, c + 6) for c in (0, 1, 2)),
  (0, 4, 8),
  (2, 4, 6),
)


def _final_boards(board: str) -> set[str]:
  """Returns the boards at the ends of all games that pass through a board."""
  found, frontier = set(), {board}
  while frontier:
    ended = {b for b in frontier if _is_over(b)}
    found |= ended
    frontier = {move for b in frontier - ended for move in _moves(b)}
  return found


def _moves(board: str) -> list[str]:
  mark = 'xo'[(9 - board.count(' ')) % 2]
  return [
    board[:i] + mark + board[i + 1 :] for i in range(9) if board[i] == ' '
  ]


def _is_over(board: str) -> bool:
  return ' ' not in board or _outcome(board) != OUTCOMES.index('draw')


def _outcome(board: str) -> int:
  for mark in 'xo':
    if any(all(board[i] == mark for i in line) for line in _LINES):
      return OUTCOMES.index(f'{mark} wins')
  return OUTCOMES.index('draw')
