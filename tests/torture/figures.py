"""Sizes and seeds of the torture, and the tables of its figures."""

import datetime
import os
import pathlib
import tempfile

from aen import io as io_lib

SEED = int(os.environ.get('AEN_TORTURE_SEED', '0'))
SCALE = float(os.environ.get('AEN_TORTURE', '0.02'))


def size(whole, least=1):
  """Returns how much to do, given how much the whole is."""
  return max(least, round(whole * SCALE))


def write(table, what, *figures):
  """Prints a row, and writes it into the table of the page that is named."""
  row = [what, *map(str, figures)]
  print(f'\n{" | ".join(row)} | seed {SEED}')
  if 'AEN_TORTURE_TABLE' not in os.environ:
    return
  path = pathlib.Path(os.environ['AEN_TORTURE_TABLE'])
  today = datetime.datetime.now(datetime.UTC).date()
  with io_lib.locked(pathlib.Path(tempfile.gettempdir(), 'aen_torture')):
    page = with_row(path.read_text(), table, [*row, str(SEED), str(today)])
    with io_lib.written_text(path) as file:
      file.write(page)


def with_row(page, table, row):
  """Returns a page with one row of a table replaced, or added."""
  before, rest = page.split(f'<!-- {table} -->\n')
  body, after = rest.split(f'<!-- end of {table} -->')
  head, line, *rows = body.splitlines()
  rows = [r for r in rows if r.split('|')[1].strip() != row[0]]
  rows.append(f'| {" | ".join(row)} |')
  body = '\n'.join([head, line, *rows])
  return f'{before}<!-- {table} -->\n{body}\n<!-- end of {table} -->{after}'
