"""Notebooks: saved as they ran, from top to bottom, and they still run.

To execute notebooks in full and save their outputs, all of them by default:
  python -m tests.notebooks_test notebooks/quickstart.ipynb
"""

import ast
import os
import pathlib
import re
import sys

from jupyter_client import AsyncKernelManager
from jupyter_client import kernelspec
import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / 'notebooks').glob('*.ipynb'))
MAX_BYTES = 1_500_000

# Where files live on some machine, or what a warning looks like.
UNWANTED = (
  r'(?<![\w.])/(tmp|home|root|work|usr|opt|var|mnt|Users|content)/',
  r'[A-Z]:\\',
  r'\w*Warning\b',
  r'Traceback',
)


def read(path):
  return nbformat.read(path, as_version=4)


def code_cells(notebook):
  return [cell for cell in notebook.cells if cell.cell_type == 'code']


def texts(cell):
  """Yields what a cell has printed and shown, pictures left out."""
  for output in cell.outputs:
    if output.output_type == 'stream':
      yield output.text
    for kind, content in output.get('data', {}).items():
      if kind.startswith('text/'):
        yield content


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
  return request.param


def test_there_are_three():
  assert [path.stem for path in NOTEBOOKS] == [
    'layers_in_your_project',
    'paper_tour',
    'quickstart',
  ]


def test_they_are_saved_as_they_ran(path):
  notebook = read(path)
  nbformat.validate(notebook)
  cells = code_cells(notebook)
  assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
  kinds = {output.output_type for cell in cells for output in cell.outputs}
  assert 'error' not in kinds
  pictures = [
    output
    for cell in cells
    for output in cell.outputs
    if 'image/png' in output.get('data', {})
  ]
  assert len(pictures) >= 4
  assert path.stat().st_size < MAX_BYTES


def test_outputs_tell_of_no_machine_and_no_warning(path):
  for cell in code_cells(read(path)):
    assert not [o for o in cell.outputs if o.get('name') == 'stderr']
    for text in texts(cell):
      for pattern in UNWANTED:
        assert not re.search(pattern, text), text


def test_nothing_but_cells_is_kept(path):
  notebook = read(path)
  assert set(notebook.metadata) == {'kernelspec', 'language_info'}
  assert all(not cell.metadata for cell in notebook.cells)
  ids = [cell.id for cell in notebook.cells]
  prefix = path.stem.replace('_', '-')
  assert ids == [f'{prefix}-{i:02}' for i in range(1, len(ids) + 1)]


def test_they_open_in_colab_and_install_only_what_is_missing(path):
  notebook = read(path)
  badge = re.search(
    r'\(https://colab\.research\.google\.com/github/([\w-]+/[\w-]+)/blob/main/'
    r'notebooks/(\w+)\.ipynb\)',
    notebook.cells[0].source,
  )
  assert badge.group(2) == path.stem
  install = code_cells(notebook)[0].source
  assert f'https://github.com/{badge.group(1)} ' in install
  guard, *guarded = install.partition('if ')[2].splitlines()
  assert guard.startswith("importlib.util.find_spec('aen') is None:")
  assert guarded
  assert all(line.startswith('  ') for line in guarded)


def test_links_lead_somewhere(path):
  for cell in read(path).cells:
    if cell.cell_type == 'markdown':
      for link in re.findall(r'\]\(([\w./-]+)\)', cell.source):
        assert (path.parent / link).exists(), link


def test_launchers_that_they_name_exist(path):
  text = '\n'.join(cell.source for cell in read(path).cells)
  for module in re.findall(r'python -m (experiments\.\w+)', text):
    assert (ROOT / module.replace('.', '/')).with_suffix('.py').exists()


def test_sizes_are_full_unless_asked(path):
  (line,) = re.findall(r"^SIZE = .*'AEN_NOTEBOOK_SIZE'.*$", sources(path), re.M)
  assert ast.unparse(ast.parse(line)).endswith(
    "os.environ.get('AEN_NOTEBOOK_SIZE', 'full')"
  )


def sources(path):
  return '\n'.join(cell.source for cell in code_cells(read(path)))


def executed(path, size):
  """Returns a notebook after it ran from top to bottom."""
  notebook = read(path)
  # With no folder of kernels to look in, Jupyter takes this interpreter.
  manager = AsyncKernelManager(
    kernel_name='python3',
    kernel_spec_manager=kernelspec.KernelSpecManager(kernel_dirs=[]),
  )
  assert manager.kernel_spec.argv[0] == sys.executable
  client = nbclient.NotebookClient(
    notebook,
    km=manager,
    timeout=None,
    record_timing=False,
    coalesce_streams=True,
    resources={'metadata': {'path': str(path.parent)}},
  )
  client.execute(
    env={
      **os.environ,
      'AEN_NOTEBOOK_SIZE': size,
      'PYTHONPATH': str(ROOT),  # this aen, not one that is installed
    }
  )
  return notebook


@pytest.mark.slow
def test_they_run_from_top_to_bottom(path):
  before = {p.name for p in path.parent.iterdir()}
  notebook = executed(path, 'small')
  assert {p.name for p in path.parent.iterdir()} == before
  for saved, again in zip(
    code_cells(read(path)), code_cells(notebook), strict=True
  ):
    assert shown(saved) == shown(again)


def shown(cell):
  """What kinds of things a cell shows: text, pictures."""
  return sorted(
    {
      kind
      for output in cell.outputs
      for kind in output.get('data', {output.get('name'): ''})
    }
  )


if __name__ == '__main__':
  for path in map(pathlib.Path, sys.argv[1:] or NOTEBOOKS):
    nbformat.write(executed(path, 'full'), path)
