"""The launchers around the search, run for real on small tasks."""

from absl.testing import flagsaver
import numpy as np
import pytest

import aen
from aen.groups.symmetries import PAPER_SYMMETRIES
from aen.search import explore as explore_lib
from aen.search import landscape as landscape_lib
from tests import launchers

SMALL = {
  'dataset': 'tic_tac_toe',
  'symmetries': ['horizontal_flip'],
  'epochs': 1,
  'features': 2,
}
SHORT = {'top': 1, 'retrain_epochs': 1, 'retrain_seeds': 2}
SMALL_CNNS = {
  'dataset': 'digits',
  'num_train': 64,
  'num_validation': 20,
  'num_test': 20,
  'symmetries': [],
  'epochs': 1,
  'max_steps': 2,
  'q_hidden_sizes': ['8'],
}
SEARCHES = [
  ('search_mlp', SMALL, 258, 'lattice.png'),
  ('search_gcnn', SMALL_CNNS, 20, 'frequencies.png'),
]


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'small', 'num_test', 'picture'), SEARCHES)
def test_a_search_names_what_it_found_and_where(
  tmp_path, capsys, name, small, num_test, picture
):
  launcher = launchers.load(name)
  flags = {**small, **SHORT, 'run_dir': str(tmp_path)}
  with flagsaver.flagsaver(**flags):
    launcher.main([])
    first = capsys.readouterr().out
    launcher.main([])  # has finished: is only read
    assert capsys.readouterr().out == first
  assert f'of {num_test} test images right' in first
  assert f'report: {tmp_path / "report.html"}' in first
  names = {path.name for path in tmp_path.iterdir()}
  assert names >= {
    *('config.json', 'results.sqlite', 'ranking.csv', 'trace.csv'),
    *('report.html', 'result.json', 'best', picture),
  }
  assert (tmp_path / 'ranking.csv').read_text().count('\n') == 3
  assert aen.SearchResult.load(tmp_path).verdict in first


@pytest.mark.slow
def test_curves_for_tensorboard(tmp_path):
  accumulator = pytest.importorskip(
    'tensorboard.backend.event_processing.event_accumulator'
  )
  launcher = launchers.load('search_mlp')
  flags = {**SMALL, **SHORT, 'run_dir': str(tmp_path), 'tensorboard': True}
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  runs = list(tmp_path.glob('tensorboard/*/*'))
  assert {path.parent.name for path in runs} == {
    *('no_symmetry', 'horizontal_flip')
  }
  for run in runs:
    reader = accumulator.EventAccumulator(str(run)).Reload()
    (event,) = reader.Scalars('accuracy/validation')  # one epoch
    assert event.step == 1
    assert 0 < event.value <= 1


@pytest.mark.slow
def test_search_mlp_with_the_agent(tmp_path, capsys):
  launcher = launchers.load('search_mlp')
  flags = {
    **SMALL,
    **SHORT,
    'run_dir': str(tmp_path),
    'symmetries': ['rotation', 'horizontal_flip', 'vertical_flip'],
    'q_hidden_sizes': ['8'],
    'q_batch_size': 4,
    'max_steps': 6,
    'walkers': 2,
  }
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  assert 'test images right' in capsys.readouterr().out
  trace = (tmp_path / 'trace.csv').read_text().splitlines()
  assert 3 <= len(trace) <= 7  # fewer steps if all networks are known
  assert trace[1].endswith(',1')  # ε
  page = (tmp_path / 'report.html').read_text()
  assert 'toggling each choice' in page


@pytest.mark.parametrize(
  ('strategy', 'flag', 'value'),
  [
    ('local', 'discount', 0.9),
    ('evolution', 'epsilons', ['1']),
    ('halving', 'q_batch_size', 5),
    ('exhaustive', 'max_steps', 5),
  ],
)
def test_flags_that_a_strategy_would_ignore_are_refused(strategy, flag, value):
  launcher = launchers.load('search_mlp')
  config, recipe = launcher._SEARCH._config, aen.Recipe()
  with flagsaver.flagsaver(strategy=strategy):
    assert config(recipe).strategy == strategy  # the defaults are no offence
  with (
    flagsaver.flagsaver(**{'strategy': strategy, flag: value}),
    pytest.raises(ValueError, match=f'--{flag} is for --strategy=dqn'),
  ):
    config(recipe)


def test_evolution_shares_a_flag_with_the_agent():
  launcher = launchers.load('search_mlp')
  with flagsaver.flagsaver(strategy='evolution', max_steps=7):
    config = launcher._SEARCH._config(aen.Recipe())
  assert config.options == (('max_steps', 7),)
  with flagsaver.flagsaver(strategy='evolution(population=9)'):
    config = launcher._SEARCH._config(aen.Recipe())
  assert (config.strategy, config.options) == (
    'evolution',
    (('population', 9),),
  )
  with (
    flagsaver.flagsaver(strategy='evolutoin'),
    pytest.raises(ValueError, match="did you mean 'evolution'"),
  ):
    launcher._SEARCH._config(aen.Recipe())


@pytest.mark.parametrize(('name', 'small'), [s[:2] for s in SEARCHES])
def test_ctrl_c_prints_the_command_that_resumes(
  tmp_path, monkeypatch, capsys, name, small
):
  launcher = launchers.load(name)

  def interrupt(*_, **__):
    raise KeyboardInterrupt

  monkeypatch.setattr(explore_lib, 'explore', interrupt)
  command = ['python', f'{name}.py', '--run_dir=a b']
  monkeypatch.setattr('sys.orig_argv', command)
  flags = {**small, **SHORT, 'run_dir': str(tmp_path)}
  with flagsaver.flagsaver(**flags), pytest.raises(SystemExit) as stop:
    launcher.main([])
  assert stop.value.code == 130
  error = capsys.readouterr().err
  assert 'interrupted; resume with: python' in error
  assert "'--run_dir=a b'" in error


def test_landscape_writes_a_file_that_loads(tmp_path, capsys):
  launcher = launchers.load('landscape')
  flags = {**SMALL, 'run_dir': str(tmp_path), 'num_seeds': 2}
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  assert 'landscape.npz' in capsys.readouterr().out
  landscape = landscape_lib.load(tmp_path / 'landscape.npz')
  assert landscape.validation.shape == (2, 2, 1)
  assert landscape.test.max() > 0.3
  assert landscape.symmetries == ('horizontal_flip',)
  lines = (tmp_path / 'children.csv').read_text().splitlines()
  assert len(lines) == 1 + 4


@pytest.mark.slow
def test_search_benchmark_prints_ratios(tmp_path, capsys):
  launcher = launchers.load('search_benchmark')
  flags = {
    **SMALL,
    'run_dir': str(tmp_path / 'run'),
    'batches': [1, 2],
    'repeats': 1,
  }
  with flagsaver.flagsaver(**flags):
    launcher.main([])
  out = capsys.readouterr().out
  assert '2 of 2 networks end to end' in out
  assert 'compiled programs: 1;' in out
  assert 'all but training' in out
  assert '2 children per batch' in out


def test_truth_asks_fairly_and_counts():
  launcher = launchers.load('truth')
  asked = list(launcher.questions(5, 20, gains=['g_mnist', 'g_fashion_mnist']))
  kinds = [question['kind'] for question in asked]
  assert kinds.count('gain') == 9 + 5
  assert kinds.count('planted') == 60
  assert kinds.count('shuffled') == 20
  planted = {q['subject'] for q in asked if q['kind'] == 'planted'}
  assert planted == set(PAPER_SYMMETRIES)
  data = aen.load_dataset('digits')
  permuted = launcher.shuffled(data)
  for name in ('train', 'validation', 'test'):
    before, after = getattr(data, name), getattr(permuted, name)
    np.testing.assert_array_equal(before.images, after.images)
    assert (before.labels != after.labels).mean() > 0.5
    np.testing.assert_array_equal(
      np.bincount(before.labels), np.bincount(after.labels)
    )
  rows = [
    {**question, 'right': int(i % 2)} for i, question in enumerate(asked[:3])
  ]
  assert 'right in 1 of 1' in launcher.summary(rows)
