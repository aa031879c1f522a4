"""The paper's numbers for weights, compared with ours.

The paper truncates, counts the dense head of 400 × 10 and prints the columns
Eq6…Eq12 in another order than the rows IAug6…IAug12;
`published_mlp.NETWORK_OF_COLUMN` undoes that.
"""

import json
import math
import pathlib
import re

import pytest

import aen
from aen.groups.symmetries import PAPER_SYMMETRIES
from experiments import published_mlp

HEAD = 400 * 10

ORBITS = {  # symmetry -> orbits of 784×400 and of 400×400
  (): (313600, 160000),
  ('rotation',): (78400, 40000),
  ('horizontal_flip',): (156800, 80000),
  ('vertical_flip',): (156800, 80000),
  ('horizontal_translation',): (8960, 32000),
  ('vertical_translation',): (8960, 32000),
  ('rotation_scramble',): (78400, 40000),
  ('horizontal_scramble',): (156800, 80000),
  ('vertical_scramble',): (156800, 80000),
  ('left_vertical_scramble',): (196000, 100000),
  ('right_vertical_scramble',): (196000, 100000),
  ('top_horizontal_scramble',): (196000, 100000),
  ('bottom_horizontal_scramble',): (196000, 100000),
  tuple(PAPER_SYMMETRIES): (3, 58),
}

# Millions of weights of the networks Eq0…Eq12, as printed.
PRINTED = '0.47 0.12 0.24 0.24 0.04 0.04 0.24 0.30 0.30 0.30 0.30 0.12 0.24'

# The top states of G-MNIST and G-Fashion-MNIST, Aug0…Aug5, as printed: the bits
# of the columns, and millions of weights.
TOP_STATES = {
  'g_mnist': [
    ('010000000100', '0.15'),
    ('011000000101', '0.04'),
    ('011000100000', '0.04'),
    ('100000011011', '0.018'),
    ('100000000010', '0.03'),
    ('100001010010', '0.018'),
  ],
  'g_fashion_mnist': [
    ('100000000000', '0.12'),
    ('001000000001', '0.12'),
    ('010001000000', '0.12'),
    ('001001000100', '0.04'),
    ('110000000000', '0.06'),
    ('101001000010', '0.015'),
  ],
}


def names_of_columns(bits):
  """Returns the symmetries of a printed bit vector over columns Eq1…Eq12."""
  names = list(PAPER_SYMMETRIES)
  return tuple(
    names[published_mlp.NETWORK_OF_COLUMN[k] - 1]
    for k, bit in enumerate(bits)
    if bit == '1'
  )


def names_taken_literally(bits):
  return tuple(
    name for name, bit in zip(PAPER_SYMMETRIES, bits, strict=True) if bit == '1'
  )


def num_weights(names):
  layers = ((28, 28), (20, 20)), ((20, 20), (20, 20))
  shared = [aen.dense_sharing(names, *layer) for layer in layers]
  return tuple(part.num_weights for part in shared)


def truncated(weights, like):
  decimals = len(like.split('.')[1])
  return (
    f'{math.floor(weights / 1e6 * 10**decimals) / 10**decimals:.{decimals}f}'
  )


@pytest.mark.parametrize(('names', 'expected'), ORBITS.items())
def test_orbit_counts(names, expected):
  assert num_weights(names) == expected


def test_the_table_of_parameters():
  ours = [truncated(sum(num_weights(())) + HEAD, '0.47')]
  for column in range(12):
    bits = ''.join('1' if k == column else '0' for k in range(12))
    weights = sum(num_weights(names_of_columns(bits))) + HEAD
    ours.append(truncated(weights, '0.00'))
  assert ours == PRINTED.split()


@pytest.mark.parametrize('dataset', TOP_STATES)
def test_the_weights_of_the_top_states(dataset):
  for bits, printed in TOP_STATES[dataset]:
    weights = sum(num_weights(names_of_columns(bits))) + HEAD
    assert truncated(weights, printed) == printed


def test_taken_literally_the_columns_do_not_fit():
  columns = [
    ''.join('1' if k == c else '0' for k in range(12)) for c in range(12)
  ]
  literal = [
    truncated(sum(num_weights(names_taken_literally(bits))) + HEAD, '0.00')
    for bits in columns
  ]
  wrong = [
    f'Eq{k + 1}'
    for k, (ours, printed) in enumerate(
      zip(literal, PRINTED.split()[1:], strict=True)
    )
    if ours != printed
  ]
  assert wrong == ['Eq6', 'Eq7', 'Eq8', 'Eq11', 'Eq12']


def test_these_are_the_numbers_of_the_paper():
  tables = pathlib.Path(__file__).parents[3] / 'shared/paper/tables.json'
  if not tables.exists():
    pytest.skip('the tables of the paper are not at hand')
  paper = json.loads(tables.read_text())
  printed = paper['params_millions_784_400_400_10']
  assert [float(v) for v in PRINTED.split()] == list(printed.values())
  for dataset, rows in TOP_STATES.items():
    for (bits, millions), row in zip(
      rows, paper['top_states'][dataset].values(), strict=True
    ):
      assert [int(bit) for bit in bits] == row['state']
      assert float(millions) == row['params_millions']
  for cell in published_mlp.printed():
    kind = 'multiple_symmetries'
    if cell.config.startswith('i'):
      kind = 'single_symmetry'
    config = cell.config.replace('aug', 'Aug').replace('i', 'I')
    column = paper[kind]['columns'].index(cell.column)
    assert paper[kind][cell.base][config][column] == cell.test_accuracy
    if cell.column == published_mlp.AEN:
      bits = ''.join(map(str, paper['top_states'][cell.base][config]['state']))
      assert ' '.join(names_of_columns(bits)) == cell.symmetries


def test_every_cell_has_its_true_meaning():
  cells = list(published_mlp.printed())
  assert len(cells) == 2 * (13 * 13 + 6 * 14)
  for cell in cells:
    if cell.column != published_mlp.AEN:
      number = int(cell.column[2:])
      bits = ''.join('1' if k + 1 == number else '0' for k in range(12))
      assert ' '.join(names_of_columns(bits)) == cell.symmetries


@pytest.mark.parametrize('base', published_mlp.BASES)
def test_networks_suit_their_own_images_once_the_columns_are_put_right(base):
  table = published_mlp.table(base, published_mlp.SINGLE)
  assert published_mlp.diagonal_p(table) < 0.05
  assert published_mlp.diagonal_p(published_mlp.literally(table)) > 0.3


def test_the_errata_page_tells_what_is_tested():
  root = pathlib.Path(__file__).parents[2]
  page = ' '.join((root / 'docs/errata.md').read_text('utf-8').split())
  tests = ' '.join(path.read_text() for path in (root / 'tests').rglob('*.py'))
  named = re.findall(r'`(test_\w+)`', page)
  assert len(named) >= 4
  assert not [name for name in named if f'def {name}(' not in tests]
  tables = [
    published_mlp.table(base, published_mlp.SINGLE)
    for base in published_mlp.BASES
  ]
  right = [published_mlp.diagonal_p(table) for table in tables]
  printed = [
    published_mlp.diagonal_p(published_mlp.literally(t)) for t in tables
  ]
  assert 'p = {:.4f} on G-MNIST, {:.4f} on G-Fashion'.format(*right) in page
  assert '(p = {:.2f} and {:.2f})'.format(*printed) in page
  places = zip(range(6, 13), published_mlp.NETWORK_OF_COLUMN[5:], strict=True)
  assert ' | '.join(str(place) for _, place in places) in page
