"""Data sets that need no file: handwritten digits and tic-tac-toe."""

import numpy as np


def digits() -> tuple[np.ndarray, np.ndarray]:
  """Returns scikit-learn's handwritten digits, each pixel doubled to 16 x 16.

  Images are uint8 [1797, 16, 16], sorted by writer, with grey values 0…16
  scaled to 0…255; labels are int [1797].
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
  return images, bunch.target


_BLANK, _O, _X = range(3)
_PIXELS = np.array([128, 1, 255], np.uint8)  # of blank, o and x
_CELLS = np.arange(9).reshape(3, 3)
_LINES = np.array(
  [*_CELLS, *_CELLS.T, _CELLS.diagonal(), np.fliplr(_CELLS).diagonal()]
)


def tic_tac_toe() -> tuple[np.ndarray, np.ndarray]:
  """Returns all 958 final boards of tic-tac-toe with their outcomes.

  Images are uint8 [958, 3, 3], with 255 for x (who plays first), 1 for o and
  128 for blank; labels are int [958], 0 (x wins), 1 (o wins) or 2 (draw).
  Outcomes are invariant under rotations and reflections of the board.
  """
  boards = np.indices((3,) * 9).reshape(9, -1).T  # [3**9, 9]
  x_line, o_line = (
    (boards[:, _LINES] == mark).all(axis=2).any(axis=1) for mark in (_X, _O)
  )
  lead = (boards == _X).sum(axis=1) - (boards == _O).sum(axis=1)
  full = (boards != _BLANK).all(axis=1)
  # Whoever played last has a line, or the board is full and nobody has.
  outcomes = np.stack(
    [
      x_line & ~o_line & (lead == 1),
      o_line & ~x_line & (lead == 0),
      full & ~x_line & ~o_line & (lead == 1),
    ]
  )
  final = outcomes.any(axis=0)
  images = _PIXELS[boards[final]].reshape(-1, 3, 3)
  return images, outcomes[:, final].argmax(axis=0)
