"""experiments/make_dataset.py, run for real."""

from absl.testing import flagsaver
import numpy as np
from PIL import Image
import pytest

import aen
from aen.data import figures
from aen.data import finding
from aen.data import prepare as prepare_lib
from tests import launchers


@pytest.fixture(scope='module')
def launcher():
  return launchers.load('make_dataset')


def test_writes_npz_and_figures(launcher, tmp_path, capsys):
  with flagsaver.flagsaver(
    dataset=['g_digits/aug5', 'g_digits/aug2_group', 'tic_tac_toe'],
    output_dir=str(tmp_path),
  ):
    launcher.main(['make_dataset'])
  names = {path.name for path in tmp_path.iterdir()}
  assert names == {
    'g_digits-aug5.npz',
    'g_digits-aug2_group.npz',
    'tic_tac_toe.npz',
  }
  assert capsys.readouterr().out.count('wrote ') == 3
  boards = aen.load_dataset(tmp_path / 'tic_tac_toe.npz')
  by_name = aen.load_dataset('tic_tac_toe')
  assert boards.fingerprint == by_name.fingerprint
  assert boards.class_names == by_name.class_names


@pytest.mark.slow
@pytest.mark.parametrize('ending', ['', '_group'])
def test_draws_both_sample_figures(launcher, tmp_path, ending):
  with flagsaver.flagsaver(
    dataset=[f'g_digits/aug3{ending}'],
    format='none',
    figures=True,
    output_dir=str(tmp_path),
  ):
    launcher.main(['make_dataset'])
  for kind in ('singles', 'combinations'):
    with Image.open(tmp_path / f'g_digits{ending}_{kind}.png') as figure:
      pixels = np.asarray(figure.convert('L'))
    assert min(pixels.shape) > 500
    assert pixels.std() > 50


def test_max_examples_are_named_as_partial(launcher, tmp_path):
  with flagsaver.flagsaver(
    dataset=['g_digits/iaug4'], max_examples=5, output_dir=str(tmp_path)
  ):
    launcher.main(['make_dataset'])
  (path,) = tmp_path.iterdir()
  assert path.name == 'g_digits-iaug4-partial-5-5.npz'


def test_prepares_for_tfds(launcher, tmp_path, monkeypatch):
  pytest.importorskip('tensorflow_datasets')
  calls = []

  def prepare(name, places, max_examples):
    calls.append((name, places, max_examples))
    return tmp_path / name

  monkeypatch.setattr(prepare_lib, 'prepare_tfds', prepare)
  with flagsaver.flagsaver(
    dataset=['g_mnist/aug5'],
    format='tfds',
    data_dir=str(tmp_path),
    raw_dir=str(tmp_path),
    max_examples=7,
  ):
    launcher.main(['make_dataset'])
  places = finding.Places(str(tmp_path), str(tmp_path))
  assert calls == [('g_mnist/aug5', places, 7)]


def test_figures_need_transformations(tmp_path):
  with pytest.raises(ValueError, match="ask for 'g_digits/aug3'"):
    figures.draw_samples('digits', finding.Places(), tmp_path)
