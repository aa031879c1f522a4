"""README and docs: snippets run, commands parse, links and trees are right."""

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
PAGES = [
  ROOT / 'README.md',
  ROOT / 'CONTRIBUTING.md',
  ROOT / 'CHANGELOG.md',
  ROOT / 'RESULTS.md',
  ROOT / 'results/mlp/README.md',
  *sorted((ROOT / 'docs').glob('*.md')),
]
# Generated from results; experiments/results_page_test.py reads them.
GENERATED = ('RESULTS.md', 'results/mlp/README.md')


def name_of(page):
  return page.relative_to(ROOT).as_posix()


def blocks(page, language):
  return re.findall(
    rf'^```{language}\n(.*?)^```', page.read_text('utf-8'), re.M | re.S
  )


SNIPPET_PAGES = [
  page
  for page in PAGES
  if blocks(page, 'python') and name_of(page) not in GENERATED
]


@pytest.fixture
def readers_own_files(tmp_path, monkeypatch):
  """What the snippets take to be there: images, an .npz file, results/."""
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (24, 8, 8), np.uint8)
  labels = np.arange(24) % 2
  for i, (image, label) in enumerate(zip(images, labels, strict=True)):
    path = tmp_path / 'path/to/folder' / f'class_{label}' / f'{i}.png'
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
  np.savez(tmp_path / 'mine.npz', x_train=images, y_train=labels)
  (tmp_path / 'results').symlink_to(ROOT / 'results')
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(search_lib, 'SEARCH_STEPS', 10)  # a short training
  monkeypatch.setattr(search_lib, 'MIN_EPOCHS', 1)
  return {'images': images, 'labels': labels}


def test_these_pages_have_snippets():
  assert {name_of(page) for page in SNIPPET_PAGES} >= {
    'README.md',
    'docs/data.md',
    'docs/layers.md',
    'docs/search.md',
  }


@pytest.mark.slow
@pytest.mark.parametrize('page', SNIPPET_PAGES, ids=name_of)
def test_python_snippets_run_from_top_to_bottom(page, readers_own_files):
  if page.name == 'export.md':
    pytest.importorskip('onnxruntime')
    pytest.importorskip('tensorboardX')
  if page.name == 'scaling.md':
    pytest.importorskip('distributed')
    pytest.importorskip('submitit')
  namespace = {'__name__': 'readme', **readers_own_files}
  for snippet in blocks(page, 'python'):
    exec(compile(snippet, name_of(page), 'exec'), namespace)
  if page.name == 'layers.md':
    lattice = namespace['lattice']
    weights = lattice.num_weights[lattice.network(('rotation',))]
    assert weights.tolist() == [78400, 40000]
  if page.name == 'data.md':
    assert namespace['data'].train.images.shape == (1250, 16, 16)


def test_there_are_two_commands_and_ci_calls_the_second():
  commands = [block.strip() for block in blocks(ROOT / 'README.md', 'bash')[:2]]
  script = (ROOT / '.ci/run').read_text()
  assert commands[1] in script.splitlines()
  install = commands[0].split(' && ')[1].removeprefix('.venv/bin/pip install ')
  assert install in script


def test_the_readme_is_short():
  assert len((ROOT / 'README.md').read_text('utf-8').split()) <= 1100


def told_commands():
  """All commands of pages and of launchers' help: launcher, then flags."""
  found = set()
  for page in [*PAGES, *(ROOT / 'experiments').glob('*.py')]:
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


def without_code(page):
  return re.sub(r'^```.*?^```', '', page.read_text('utf-8'), flags=re.M | re.S)


def anchors(page):
  """The anchors that GitHub gives to a page's headings."""
  headings = re.findall(r'^#+ (.*)$', without_code(page), re.M)
  return {
    re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
    for heading in headings
  }


@pytest.mark.parametrize('page', PAGES, ids=name_of)
def test_links_lead_somewhere(page):
  for link in re.findall(r'\]\(([^)\s]+)\)', without_code(page)):
    if link.startswith('https://'):
      continue
    path, _, anchor = link.partition('#')
    target = page.parent / path if path else page
    assert target.exists(), link
    if anchor:
      assert anchor in anchors(target), link


@pytest.mark.parametrize('page', PAGES, ids=name_of)
def test_every_page_has_one_title(page):
  text = without_code(page)
  assert text.startswith('# ')
  assert len(re.findall(r'^# ', text, re.M)) == 1


def test_every_page_is_linked_from_the_readme_or_from_one_that_is():
  pages = set(PAGES)
  seen, queue = set(), [ROOT / 'README.md']
  while queue:
    page = queue.pop()
    seen.add(page)
    links = re.findall(r'\]\(([^)#\s]+\.md)', page.read_text('utf-8'))
    found = {(page.parent / link).resolve() for link in links}
    queue += (found & pages) - seen
  assert seen == pages


DESIGN = (ROOT / 'docs/design.md').read_text('utf-8')


def test_the_tree_names_what_is_there():
  tree = re.search(r'## The tree\n+```\n(.*?)```', DESIGN, re.S).group(1)
  named = {line.split()[0].rstrip('/') for line in tree.splitlines()}
  modules = {
    str(path.relative_to(ROOT)) for path in (ROOT / 'aen').glob('*.py')
  } - {'aen/__init__.py', 'aen/__main__.py'}
  rooms = {
    str(path.parent.relative_to(ROOT))
    for path in (ROOT / 'aen').glob('*/__init__.py')
  }
  assert modules | rooms <= named
  assert all((ROOT / name).exists() for name in named)


def test_every_module_has_its_line():
  sections = re.findall(r'^### `(aen/\w+)`\n(.*?)(?=^##)', DESIGN, re.M | re.S)
  for room, section in sections:
    named = re.findall(r'^\| `([\w/]+\.py)` \|', section, re.M)
    folder = ROOT / room
    modules = {
      path.relative_to(folder).as_posix()
      for path in folder.rglob('*.py')
      if path.name != '__init__.py'
    }
    assert sorted(named) == sorted(modules), room
  assert {room for room, _ in sections} == {
    f'aen/{path.parent.name}' for path in (ROOT / 'aen').glob('*/__init__.py')
  }
