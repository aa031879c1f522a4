"""Imports go one way: from a room to itself and to those before it."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import aen

PACKAGE = pathlib.Path(aen.__file__).parent
ROOMS = aen._ROOMS
LONGEST_CHAIN = 9


def module_names():
  """Returns the dotted names of all modules but `aen` itself."""
  paths = [path.relative_to(PACKAGE) for path in PACKAGE.rglob('*.py')]
  names = {'.'.join(path.with_suffix('').parts) for path in paths}
  return sorted(name.removesuffix('.__init__') for name in names)[1:]


MODULES = module_names()


@functools.cache
def imports(module):
  """Returns every dotted name that a module imports, wherever it does so."""
  path = PACKAGE / module.replace('.', '/')
  path = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
  found = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      found |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      found |= {f'{node.module}.{alias.name}' for alias in node.names}
  return found


@functools.cache
def dependencies(module):
  """Returns the modules that a module imports, their packages among them."""
  found = set()
  for name in imports(module):
    parts = name.split('.')[1:] if name.startswith('aen.') else []
    prefixes = {'.'.join(parts[:i]) for i in range(1, len(parts) + 1)}
    found |= {p for p in prefixes & set(MODULES) if not inside(module, p)}
  return found


def inside(module, package):
  return f'{module}.'.startswith(f'{package}.')


@functools.cache
def chain(module):
  """Returns the longest chain of imports that begins with a module."""
  return (module, *max(map(chain, dependencies(module)), key=len, default=()))


def room(module):
  return ROOMS.index(module.split('.')[0])


def test_every_module_is_in_a_room():
  assert {module.split('.')[0] for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize('module', MODULES)
def test_imports_go_one_way(module):
  assert all(room(used) <= room(module) for used in dependencies(module))
  assert 'aen' not in imports(module)
  assert module not in chain(module)[1:]  # a cycle would not end at all


def test_chains_of_imports_are_short():
  assert len(max(map(chain, MODULES), key=len)) <= LONGEST_CHAIN


@pytest.mark.parametrize(
  'module', [m for m in MODULES if m == 'io' or inside(m, 'groups')]
)
def test_the_first_rooms_never_import_jax(module):
  code = (
    f'import sys, importlib; importlib.import_module("aen.{module}");'
    'print(sorted({"jax", "flax", "optax", "chex"} & set(sys.modules)))'
  )
  run = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  assert run.stdout.strip() == '[]'


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


def test_every_module_with_public_names_exists():
  for home in aen._HOMES:
    assert home in MODULES, home
