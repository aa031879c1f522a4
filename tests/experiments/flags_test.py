"""Flags are the fields of the config dataclasses."""

import dataclasses
import sys

from absl import flags
from absl.testing import flagsaver
import pytest

import aen
from aen.search import agent as agent_lib
from aen.train import executors
from tests import launchers

CONFIGS = (aen.Recipe, aen.SearchConfig, agent_lib.DQNConfig)


@pytest.fixture(params=['search_mlp', 'search_gcnn', 'search_benchmark'])
def launcher(request):
  return launchers.load(request.param)


@pytest.mark.parametrize(
  'config', [*CONFIGS, executors.Workers], ids=lambda config: config.__name__
)
def test_every_field_is_documented(config):
  launchers.load('search_mlp')
  texts = sys.modules['experiments.flags'].help_texts(config)
  assert list(texts) == [field.name for field in dataclasses.fields(config)]
  assert all(text.endswith('.') and '`' not in text for text in texts.values())


def test_every_field_is_a_flag(launcher):
  other = sys.modules['experiments.flags']._AGENT_NAMES
  for config, exclude in zip(
    CONFIGS,
    [(), ('recipe', 'options'), ('num_bits', 'afterstates')],
    strict=True,
  ):
    names = other if config is agent_lib.DQNConfig else {}
    for field in dataclasses.fields(config):
      assert (field.name in exclude) != (
        names.get(field.name, field.name) in flags.FLAGS
      )


def test_defaults_are_the_fields_unless_a_launcher_says_otherwise():
  launcher = launchers.load('search_mlp')
  config = launcher._SEARCH._config(launcher._SEARCH._recipe(4000))
  assert config.recipe == aen.Recipe(epochs=5, criterion='likelihood')
  options = dict(config.options)
  small = {'hidden_sizes': (64, 64), 'batch_size': 64}
  assert agent_lib.DQNConfig(**options) == agent_lib.DQNConfig(**small)
  assert config == aen.SearchConfig(config.recipe, 'dqn', config.options)


@pytest.mark.parametrize(
  'words', ['--epochs=0', '--momentum=1.5', '--top=0', '--num_seeds=501']
)
def test_what_a_config_refuses_is_refused_at_once(words, capsys):
  launchers.load('search_mlp')
  launch = sys.modules['experiments.launch']
  with flagsaver.flagsaver(), pytest.raises(SystemExit) as stop:
    launch.parse(['search_mlp', words], '')
  assert stop.value.code == 2
  error = capsys.readouterr().err
  assert f'flag {words}' in error.replace('.0', '')
  assert 'must be' in error


def test_options_of_the_agent_must_go_together():
  launcher = launchers.load('search_mlp')
  with (
    flagsaver.flagsaver(epsilons=['1', '0.5'], models_per_epsilon=['5'] * 3),
    pytest.raises(ValueError, match='of one length'),
  ):
    launcher.main([])
  with flagsaver.flagsaver(epsilons=['1', '0.5'], models_per_epsilon=['5']):
    config = launcher._SEARCH._config(aen.Recipe())
  assert dict(config.options)['models'] == (5, 5)
  with (
    flagsaver.flagsaver(q_hidden_sizes=['many']),
    pytest.raises(ValueError, match='--q_hidden_sizes must be numbers'),
  ):
    launcher.main([])


def test_workers_are_flags_of_searches():
  launcher = launchers.load('search_mlp')
  assert launcher._SEARCH._workers() == executors.Workers()
  with flagsaver.flagsaver(executor='processes', workers=3, time_limit=60.0):
    found = launcher._SEARCH._workers()
  assert found == executors.Workers('processes', 3, time_limit=60.0)
  with (
    flagsaver.flagsaver(workers=3),
    pytest.raises(ValueError, match='workers=3 is for the executors processes'),
  ):
    launcher.main([])
