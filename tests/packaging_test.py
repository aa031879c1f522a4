"""What is built holds the whole package and nothing else, and installs."""

import email
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
from PIL import Image
import pytest

import aen

ROOT = pathlib.Path(__file__).parents[1]
MADE_BY_RUNS = ('.*', '__pycache__', 'build', 'dist', '*.egg-info', 'runs')
HEAVY = (
  'chex',
  'jax',
  'flax',
  'optax',
  'orbax',
  'matplotlib',
  'sklearn',
  'tensorflow_datasets',
)
OPTIONAL = ('matplotlib', 'sklearn', 'tensorflow_datasets', 'PIL', 'tqdm')


def python(*words, executable=sys.executable, cwd=None):
  run = subprocess.run(
    [executable, *map(str, words)],
    cwd=cwd,
    env={'PATH': '', 'JAX_PLATFORMS': 'cpu'},
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
  return run.stdout.strip()


def test_importing_the_package_loads_nothing_heavy():
  code = f'import sys, aen; print(sorted({set(HEAVY)} & set(sys.modules)))'
  assert python('-c', code, cwd=ROOT) == '[]'


@pytest.fixture(scope='module')
def built(tmp_path_factory):
  """A wheel and an sdist of a clone in which somebody has worked."""
  clone = tmp_path_factory.mktemp('clone') / 'aen'
  shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*MADE_BY_RUNS))
  (clone / 'runs').mkdir()
  (clone / 'runs/__init__.py').touch()
  folder = tmp_path_factory.mktemp('dist')
  python(
    *('-m', 'build', '--no-isolation', '--sdist', '--wheel'),
    *('--outdir', folder, clone),
  )
  return folder


@pytest.fixture(scope='module')
def sdist(built):
  (path,) = built.glob('*.tar.gz')
  return path


@pytest.fixture(scope='module')
def wheels(built, sdist):
  """From the clone, and from the sdist."""
  (from_clone,) = built.glob('*.whl')
  python(
    *('-m', 'pip', 'wheel', '--no-deps', '--no-index', '--no-build-isolation'),
    *('--wheel-dir', built / 'again', sdist),
  )
  return {'clone': from_clone, 'sdist': built / 'again' / from_clone.name}


def package():
  """All files of the package, as they are in the clone."""
  return {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / 'aen').rglob('*')
    if path.is_file() and path.suffix != '.pyc'
  }


@pytest.mark.slow
def test_wheels_hold_the_package_and_nothing_else(wheels):
  about = f'aen-{aen.__version__}.dist-info/'
  contents = []
  for path in wheels.values():
    with zipfile.ZipFile(path) as file:
      contents.append({name: file.read(name) for name in file.namelist()})
  assert contents[0] == contents[1]
  names = {name for name in contents[0] if not name.startswith(about)}
  assert names == package()
  assert any(name.endswith('/LICENSE') for name in contents[0])


@pytest.mark.slow
def test_the_wheel_names_versions_and_requirements_that_are_pinned(wheels):
  with zipfile.ZipFile(wheels['clone']) as file:
    about = f'aen-{aen.__version__}.dist-info/METADATA'
    metadata = email.message_from_bytes(file.read(about))
  supported = {
    f'Programming Language :: Python :: {version}'
    for version in ('3', '3.11', '3.12', '3.13')
  }
  assert supported <= set(metadata.get_all('Classifier'))
  names = {
    re.match(r'[\w.-]+', requirement).group().lower().replace('_', '-')
    for requirement in metadata.get_all('Requires-Dist')
  }
  pinned = re.findall(
    r'^([\w.-]+)==', (ROOT / 'requirements.txt').read_text(), re.M
  )
  assert {'chex', 'flax', 'jax', 'numpy', 'scipy'} <= names <= set(pinned)


@pytest.mark.slow
def test_the_sdist_holds_what_is_built_from_it(sdist):
  with tarfile.open(sdist) as file:
    names = {
      member.name.partition('/')[2]
      for member in file.getmembers()
      if member.isfile()
    }
  expected = {'setup.py', 'pyproject.toml', 'README.md', 'LICENSE'}
  assert names >= package() | expected
  assert not {name.split('/')[0] for name in names} & {'tests', 'runs'}


USE = f"""
import sys
import aen
print(aen.__version__, aen.__file__)
for name in {OPTIONAL}:
  sys.modules[name] = None  # as if it were not installed
import jax
layer = aen.EquivariantDense(('rotation',), (4, 4), (2, 2))
variables = layer.init(jax.random.key(0), jax.numpy.ones((1, 4, 4)))
aen.assert_equivariant(
  lambda x: layer.apply(variables, x), ('rotation',), (4, 4), (2, 2)
)
"""


def installed(wheel, folder):
  """Returns the Python and the packages of an environment with a wheel.

  The environment gets the package alone, then sees the packages of ours.
  """
  python('-m', 'venv', '--without-pip', folder / 'venv')
  (own,) = (folder / 'venv').glob('bin/python')
  python(
    *('-m', 'pip', '--python', own, 'install', '--no-deps', '--no-index'),
    wheel,
  )
  (site,) = (folder / 'venv').glob('lib/python*/site-packages')
  ours = [path for path in sys.path if path.endswith('-packages')]
  (site / 'ours.pth').write_text('\n'.join(ours))
  return own, site


@pytest.mark.slow
@pytest.mark.parametrize('source', ['clone', 'sdist'])
def test_what_is_built_installs_and_works_without_extras(
  wheels, source, tmp_path
):
  own, site = installed(wheels[source], tmp_path)
  version, path = python('-c', USE, executable=own, cwd=tmp_path).split()
  assert version == aen.__version__
  assert pathlib.Path(path) == site / 'aen/__init__.py'


@pytest.mark.slow
def test_the_command_works_on_a_folder_of_images(wheels, tmp_path):
  own, _ = installed(wheels['clone'], tmp_path)
  for name, level in (('cat', 40), ('dog', 200)):
    (tmp_path / 'pets' / name).mkdir(parents=True)
    for i in range(20):
      pixels = np.random.default_rng(i).integers(0, 50, (6, 6)) + level
      path = tmp_path / 'pets' / name / f'{i}.png'
      Image.fromarray(pixels.astype(np.uint8)).save(path)
  said = python(
    '-m', 'aen', 'pets', '--max_networks=2', executable=own, cwd=tmp_path
  )
  assert said.endswith('report: runs/aen/pets/report.html')
  assert (tmp_path / 'runs/aen/pets/report.html').exists()
  (script,) = own.parent.glob('aen')
  assert 'usage: python -m aen' in python(script, '--help', executable=own)
