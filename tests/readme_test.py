"""Every snippet of the README runs, and CI runs the README's test command."""

import pathlib
import re

import numpy as np
from PIL import Image
import pytest

from aen import search

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / 'README.md').read_text()


def blocks(language):
  return re.findall(rf'^```{language}\n(.*?)^```', README, re.M | re.S)


@pytest.fixture
def readers_own_files(tmp_path, monkeypatch):
  """What the snippets take to be there: a folder of images, an .npz file."""
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (24, 8, 8), np.uint8)
  labels = np.arange(24) % 2
  for i, (image, label) in enumerate(zip(images, labels, strict=True)):
    path = tmp_path / 'path/to/folder' / f'class_{label}' / f'{i}.png'
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
  np.savez(tmp_path / 'mine.npz', x_train=images, y_train=labels)
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(search, 'SEARCH_STEPS', 10)  # one short training will do
  monkeypatch.setattr(search, 'MIN_EPOCHS', 1)
  return {'images': images, 'labels': labels}


@pytest.mark.slow
def test_python_snippets_run_from_top_to_bottom(readers_own_files):
  namespace = {'__name__': 'readme', **readers_own_files}
  snippets = blocks('python')
  assert len(snippets) >= 5
  for snippet in snippets:
    exec(compile(snippet, 'README.md', 'exec'), namespace)
  assert namespace['lattice'].num_weights[
    namespace['lattice'].network(('rotation',))
  ].tolist() == [78400, 40000]
  assert namespace['data'].train.images.shape == (1250, 16, 16)


def test_there_are_two_commands_and_ci_calls_the_second():
  commands = [block.strip() for block in blocks('bash')[:2]]
  script = (ROOT / '.ci/run').read_text()
  assert commands[1] in script.splitlines()
  install = commands[0].split(' && ')[1].removeprefix('.venv/bin/pip install ')
  assert install in script


def test_every_launcher_that_the_readme_names_exists():
  for module in set(re.findall(r'python -m (experiments\.\w+)', README)):
    assert (ROOT / module.replace('.', '/')).with_suffix('.py').exists()


def test_the_tree_names_what_is_there():
  tree = re.search(r'## The tree\n+```\n(.*?)```', README, re.S).group(1)
  named = {line.split()[0].rstrip('/') for line in tree.splitlines()}
  modules = {
    str(path.relative_to(ROOT)) for path in (ROOT / 'aen').glob('*.py')
  } - {'aen/__init__.py'}
  assert modules <= named
  assert all((ROOT / name).exists() for name in named)
