"""Fuzzed calls of every public name: right, refused in a line, or a defect."""

import ast
import collections
import functools
import pathlib
import time
import traceback
import warnings

import numpy as np
import pytest

import aen
from tests.torture import calls
from tests.torture import figures

pytestmark = [
  pytest.mark.torture,
  pytest.mark.filterwarnings('ignore'),
]

PACKAGE = pathlib.Path(aen.__file__).parent
LEAST, TOTAL = 500, 100_000
LIMIT = 10.0  # seconds of processor time
# Names whose calls take milliseconds share what is left of the total.
CHEAP = (
  *('pair', 'orbits', 'join', 'permutation', 'Symmetry', 'SYMMETRIES', 'alg1'),
  *(
    'alg2',
    'Recipe',
    'SearchConfig',
    'augmentation_mask',
    'Sharing',
    'Lattice',
  ),
  *('Landscape', 'conv_sharing', 'group'),
)


@functools.cache
def raises(path):
  """Returns the lines of a module's own `raise` statements."""
  return {
    line
    for node in ast.walk(ast.parse(pathlib.Path(path).read_text()))
    if isinstance(node, ast.Raise)
    for line in range(node.lineno, node.end_lineno + 1)
  }


def is_clear(error):
  """Whether it is one line of our own, or Python's own about the arguments."""
  if '\n' in str(error) or not isinstance(
    error, ValueError | TypeError | OSError | ImportError
  ):
    return False
  frames = traceback.extract_tb(error.__traceback__)
  inside = [
    f for f in frames if pathlib.Path(f.filename).is_relative_to(PACKAGE)
  ]
  if not inside:  # the call itself does not fit the signature
    return isinstance(error, TypeError) and 'argument' in str(error)
  last = frames[-1]
  return last.filename == inside[-1].filename and (
    last.lineno in raises(last.filename)
  )


def outcome(call):
  """Makes a call; returns 'right', 'refused', or what is wrong."""
  start = time.process_time()
  try:
    with np.errstate(all='ignore'), warnings.catch_warnings():
      warnings.simplefilter('ignore')
      got = call.fn(**call.args)
  except Exception as error:
    found = 'refused'
    if not is_clear(error):
      found = f'raised {type(error).__name__}: {str(error)[:200]!r}'
  else:
    found = 'right'
    try:
      if not call.right(got):
        found = f'returned {str(got)[:100]!r}'
    except Exception as error:
      found = f'accepted what the oracle refuses: {error!r:.100}'
  seconds = time.process_time() - start
  return found if seconds < LIMIT else f'took {seconds:.0f} s'


def shown(name, call):
  """Returns a call as one line."""
  with np.printoptions(threshold=8, edgeitems=2):
    args = ', '.join(f'{k}={v!r:.80}' for k, v in call.args.items())
  return ' '.join(f'{name}({args})'.split())


def test_every_public_name_is_called():
  assert set(calls.CALLS) == set(aen.__all__)


@pytest.mark.parametrize('name', calls.CALLS)
def test_calls_are_right_or_refused(name):
  each = LEAST
  if name in CHEAP:
    each = -(-(TOTAL - LEAST * (len(calls.CALLS) - len(CHEAP))) // len(CHEAP))
  counts, defects = collections.Counter(), {}
  for i in range(figures.size(each, least=4)):
    seed = [figures.SEED, *name.encode(), i]
    call = calls.CALLS[name](calls.Draw(seed))
    found = outcome(call)
    kind = found if found in ('right', 'refused') else 'defect'
    counts[kind] += 1
    if kind == 'defect':
      defects.setdefault(found, f'call {i}: {shown(name, call)} {found}')
  figures.write(
    'calls',
    name,
    counts.total(),
    counts['right'],
    counts['refused'],
    counts['defect'],
  )
  assert not defects, '\n'.join([f'seed {figures.SEED}', *defects.values()])
  if name == 'discover' and figures.SCALE >= 1:
    assert len(calls.TRAINED) >= 30
