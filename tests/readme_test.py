"""Every snippet of the README runs, and CI runs the README's test command."""

import pathlib
import re

from absl import flags
from absl.testing import flagsaver
import numpy as np
from PIL import Image
import pytest

from aen.search import search as search_lib
from tests import launchers

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
  monkeypatch.setattr(
    search_lib, 'SEARCH_STEPS', 10
  )  # one short training will do
  monkeypatch.setattr(search_lib, 'MIN_EPOCHS', 1)
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


def told_commands():
  """All commands of pages and of launchers' help: launcher, then flags."""
  pages = [ROOT / 'README.md', ROOT / 'RESULTS.md', ROOT / 'CONTRIBUTING.md']
  pages += [*(ROOT / 'docs').glob('*.md'), *(ROOT / 'experiments').glob('*.py')]
  found = set()
  for page in pages:
    text = page.read_text('utf-8').replace('\\\n', ' ')
    for name, words in re.findall(
      r'python -m experiments\.(\w+)((?:\s+--[^\s`\')]+)*)', text
    ):
      found.add((name, *(word.replace('…', '') for word in words.split())))
  return sorted(found)


@pytest.mark.parametrize('command', told_commands(), ids=' '.join)
def test_launchers_take_the_flags_that_they_are_told_with(command):
  name, *words = command
  launchers.load(name)
  with flagsaver.flagsaver():
    if '--help' not in words:
      flags.FLAGS([name, *words])


def test_the_tree_names_what_is_there():
  tree = re.search(r'## The tree\n+```\n(.*?)```', README, re.S).group(1)
  named = {line.split()[0].rstrip('/') for line in tree.splitlines()}
  modules = {
    str(path.relative_to(ROOT)) for path in (ROOT / 'aen').glob('*.py')
  } - {'aen/__init__.py'}
  assert modules <= named
  assert all((ROOT / name).exists() for name in named)
