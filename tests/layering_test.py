"""Imports go one way: each module only from those above it in the walk."""

import ast
import pathlib
import subprocess
import sys

import pytest

import aen

PACKAGE = pathlib.Path(aen.__file__).parent
WALK = (
  'files',
  'checks',
  'symmetries',
  'orbits',
  'sharing',
  'lattice',
  'landscapes',
  'testing',
  'layers',
  'windows',
  'convolutions',
  'pooling',
  'conversions',
  'networks',
  'group_cnn',
  'datasets',
  'augmentations',
  'recipes',
  'children',
  'spaces',
  'rewards',
  'environment',
  'replay',
  'dqn',
  'strategies',
  'results',
  'scoring',
  'evaluation',
  'outcome',
  'runs',
  'survey',
  'tables',
  'exploration',
  'search',
  'report',
)
NUMPY_ONLY = WALK[: WALK.index('testing')]


def module_names():
  found = {path.stem for path in PACKAGE.glob('*.py')} - {'__init__'}
  return sorted(
    found | {path.parent.name for path in PACKAGE.glob('*/__init__.py')}
  )


def source_files(module):
  if (PACKAGE / f'{module}.py').exists():
    return [PACKAGE / f'{module}.py']
  return sorted((PACKAGE / module).rglob('*.py'))


def imports(module):
  """Yields every dotted name that a module imports, wherever it does so."""
  for path in source_files(module):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
      elif isinstance(node, ast.ImportFrom):
        yield from (f'{node.module}.{alias.name}' for alias in node.names)


def test_every_module_has_its_place_in_the_walk():
  assert set(module_names()) <= set(WALK)


@pytest.mark.parametrize('module', module_names())
def test_imports_go_one_way(module):
  above = set(WALK[: WALK.index(module) + 1])
  used = {name.split('.')[1] for name in imports(module) if name[:4] == 'aen.'}
  assert used <= above
  assert 'aen' not in set(imports(module))


@pytest.mark.parametrize('module', NUMPY_ONLY)
def test_the_first_modules_never_import_jax(module):
  roots = {name.split('.')[0] for name in imports(module)}
  assert not roots & {'jax', 'jaxlib', 'flax', 'optax', 'chex'}


def test_importing_the_package_is_light():
  code = (
    'import sys, aen; aen.SYMMETRIES; aen.dense_sharing;'
    'heavy = {"jax", "flax", "matplotlib", "scipy", "tensorflow_datasets"};'
    'print(sorted(heavy & set(sys.modules)))'
  )
  run = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  assert run.stdout.strip() == '[]'


def test_every_public_name_is_there():
  for name in aen.__all__:
    assert getattr(aen, name) is not None
  assert callable(aen.orbits)
  assert callable(aen.lattice)
  with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
    aen.nonsense  # noqa: B018
