"""Reports in a real browser: light and dark, wide and narrow.

Chromium is looked for by its usual names; AEN_BROWSER names another, and then
its absence is a failure.
"""

import os
import pathlib
import re
import shutil
import string

from absl.testing import flagsaver
import numpy as np
import pytest

from aen.report import page as page_lib
from tests import launchers

sync_api = pytest.importorskip(
  'playwright.sync_api', reason='playwright is not installed; pip install it'
)
pytestmark = pytest.mark.slow

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')
SCHEMES = ('light', 'dark')
WIDTHS = (1280, 390)
LEGIBLE = 4.5  # WCAG 2.1, level AA
COMMON = {
  'epochs': 1,
  'top': 1,
  'retrain_epochs': 1,
  'retrain_seeds': 2,
  'max_steps': 8,
  'q_hidden_sizes': ['8'],
  'q_batch_size': 4,
}
SEARCHES = {
  'search_mlp': {
    'dataset': 'tic_tac_toe',
    'symmetries': ['rotation', 'horizontal_flip', 'vertical_flip'],
    'features': 2,
  },
  'search_gcnn': {
    'dataset': 'digits',
    'num_train': 64,
    'num_validation': 20,
    'num_test': 20,
    'symmetries': [],
  },
}


@pytest.fixture(scope='module')
def browser():
  given = os.environ.get('AEN_BROWSER')
  found = given or next(filter(None, map(shutil.which, BROWSERS)), None)
  if found is None:
    pytest.skip('no Chromium found; install it, or name one in AEN_BROWSER')
  with sync_api.sync_playwright() as driver:
    started = driver.chromium.launch(
      executable_path=shutil.which(found) or found
    )
    yield started
    started.close()


@pytest.fixture(scope='module', params=SEARCHES)
def report(request, browser, tmp_path_factory):
  """The report of a small search, made by its launcher."""
  run_dir = tmp_path_factory.mktemp(request.param)
  launcher = launchers.load(request.param)
  flags = {**COMMON, **SEARCHES[request.param], 'run_dir': str(run_dir)}
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  return run_dir / 'report.html'


class Visit:
  """A page, and all that it asked for and complained about."""

  def __init__(self, browser, path, scheme='light', width=WIDTHS[0]):
    self.requests, self.complaints = [], []
    self.page = browser.new_page(
      color_scheme=scheme, viewport={'width': width, 'height': 900}
    )
    self.page.on('request', lambda sent: self.requests.append(sent.url))
    self.page.on('pageerror', lambda error: self.complaints.append(str(error)))
    self.page.on('console', lambda line: self.complaints.append(line.text))
    self.page.goto(path.as_uri())

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.page.close()

  def overflow(self):
    """By how many pixels the page is wider than the window."""
    return self.page.evaluate(
      'document.documentElement.scrollWidth - window.innerWidth'
    )

  def column(self, place):
    """The values of a column of the first table, from top to bottom."""
    return self.page.eval_on_selector_all(
      f'table >> nth=0 >> tbody td:nth-child({place + 1})',
      'cells => cells.map(cell => cell.dataset.value)',
    )


@pytest.mark.parametrize('width', WIDTHS)
@pytest.mark.parametrize('scheme', SCHEMES)
def test_a_report_is_whole_and_keeps_to_itself(browser, report, scheme, width):
  with Visit(browser, report, scheme, width) as visit:
    sizes = visit.page.eval_on_selector_all(
      'img', 'all => all.map(image => image.complete && image.naturalWidth)'
    )
    assert len(sizes) >= 4
    assert all(sizes)
    visit.page.click('summary')  # the configuration
    assert visit.overflow() <= 0
    assert visit.complaints == []
    assert visit.requests == [report.as_uri()]


TEXTS = """() => {
  const behind = element => {
    const colour = getComputedStyle(element).backgroundColor;
    const clear = colour === 'rgba(0, 0, 0, 0)' && element.parentElement;
    return clear ? behind(element.parentElement) : colour;
  };
  const own = element => [...element.childNodes].some(
    node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  return [...document.body.querySelectorAll('*')]
    .filter(element => own(element) && element.getClientRects().length)
    .map(element => [element.innerText, getComputedStyle(element).color,
                     behind(element)]);
}"""


def luminance(colour):
  """WCAG's relative luminance of 'rgb(r, g, b)'."""
  values = (
    np.array(
      [
        int(c)
        for c in re.fullmatch(r'rgb\((\d+), (\d+), (\d+)\)', colour).groups()
      ]
    )
    / 255
  )
  linear = np.where(
    values <= 0.03928, values / 12.92, ((values + 0.055) / 1.055) ** 2.4
  )
  return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize('scheme', SCHEMES)
def test_all_words_stand_out_from_what_is_behind_them(browser, report, scheme):
  with Visit(browser, report, scheme) as visit:
    visit.page.click('summary')
    shown = visit.page.evaluate(TEXTS)
  papers = [luminance(paper) for _, _, paper in shown]
  assert len(shown) > 50
  assert (np.median(papers) < 0.1) == (scheme == 'dark')
  for (words, ink, _), paper in zip(shown, papers, strict=True):
    dark, light = sorted([luminance(ink), paper])
    assert (light + 0.05) / (dark + 0.05) >= LEGIBLE, words


def test_a_click_sorts_the_ranking_and_another_reverses_it(browser, report):
  with Visit(browser, report) as visit:
    heads = visit.page.locator('table.sortable th')
    kinds = heads.evaluate_all('all => all.map(head => head.className)')
    assert kinds.count('number') >= 5
    assert len(visit.column(0)) >= 3
    for place, kind in enumerate(kinds):
      before = sorted(visit.column(place))
      orders = []
      for _ in range(2):
        heads.nth(place).locator('button').click()
        values = visit.column(place)
        assert sorted(values) == before
        orders.append([value for value in values if value])
        assert values == orders[-1] + [''] * (len(values) - len(orders[-1]))
      assert orders[0] == orders[1][::-1]
      key = float if kind == 'number' else lambda name: name[:1]
      assert sorted(orders[0], key=key) in orders


LONG = 'a_very_long_name_' * 12
NUMBERS = (10, 9, 100, 1e-7, -3, None, 2.5, *range(30, 60))


@pytest.fixture
def handmade(tmp_path):
  """A page of every part, with long words and numbers in a bad order."""
  template = pathlib.Path(page_lib.__file__).with_name('page.html')
  names = string.Template(template.read_text('utf-8')).get_identifiers()
  parts = {name: page_lib.text(LONG) for name in names}
  cells = [('', '') if n is None else (f'number {n}', n) for n in NUMBERS]
  rows = [page_lib.row([number, LONG]) for number in cells]
  parts['ranking'] = parts['configuration'] = '\n'.join(rows)
  path = tmp_path / 'page.html'
  path.write_text(page_lib.render(parts), 'utf-8')
  return path


def test_numbers_sort_as_numbers_and_long_tables_open(browser, handmade):
  numbers = sorted(number for number in NUMBERS if number is not None)
  with Visit(browser, handmade) as visit:
    rows = visit.page.locator('table >> nth=0 >> tbody tr:visible')
    assert rows.count() == 20
    for expected in (numbers, numbers[::-1]):
      visit.page.click('th button >> nth=0')
      *found, last = visit.column(0)
      assert last == ''
      assert [float(value) for value in found] == expected
    visit.page.click(f'text=Show all {len(NUMBERS)}')
    assert rows.count() == len(NUMBERS)
    visit.page.click('text=Show the first 20')
    assert rows.count() == 20
    assert visit.complaints == []


@pytest.mark.parametrize('width', WIDTHS)
def test_long_words_do_not_widen_the_page(browser, handmade, width):
  with Visit(browser, handmade, width=width) as visit:
    visit.page.click('summary')
    assert visit.overflow() <= 0
