"""Every launcher's --help, and what it says to wrong flags."""

import sys

from absl import flags
from absl.testing import flagsaver
import pytest

from tests import launchers
from tests.experiments import launch_test

MAX_COLUMNS = 100
CHECKED = ('int', 'float', 'enum', 'multi enum', 'bool')
REPEATED = ';\n    repeat this option to specify a list of values'  # absl's
WRONG = 'nonsense'


@pytest.fixture(params=launch_test.LAUNCHERS)
def launcher(request):
  return launchers.load(request.param)


def own_flags():
  """The flags of the launcher that is loaded, and of what it shares."""
  return [
    flag
    for module, found in flags.FLAGS.flags_by_module_dict().items()
    if module.startswith('experiments.')
    for flag in found
  ]


def start(launcher, *words):
  """Reads flags as a shell would have them read; returns the exit code."""
  argv = [launcher.__name__, *words]
  launch = sys.modules['experiments.launch']
  with flagsaver.flagsaver(), pytest.raises(SystemExit) as stop:
    launch.parse(argv, launcher.__doc__)
  return stop.value.code


def test_help_tells_what_it_does_and_every_flag(launcher, capsys):
  assert start(launcher, '--help') == 0
  shown = capsys.readouterr()
  assert shown.out.startswith(launcher.__doc__)
  assert f'python -m {launcher.__name__}' in shown.out
  assert shown.err == ''
  lines = shown.out.splitlines()
  assert max(map(len, lines)) <= MAX_COLUMNS
  named = {line.split(':')[0] for line in lines if line.startswith('  --')}
  for flag in own_flags():
    assert named & {f'  --{flag.name}', f'  --[no]{flag.name}'}


def test_every_flag_has_a_help_text(launcher):
  assert own_flags()
  for flag in own_flags():
    words = flag.help.removesuffix(REPEATED).split()
    assert len(words) >= 2, flag.name
    assert words[-1].endswith('.'), flag.name


def test_wrong_flags_are_one_line_and_exit_code_2(launcher, capsys):
  kinds = {flag.name: flag.flag_type() for flag in own_flags()}
  wrong = [f'--{name}={WRONG}' for name in kinds if kinds[name] in CHECKED]
  for words in [*wrong, '--no_such_flag=1', WRONG]:
    assert start(launcher, words) == 2, words
    shown = capsys.readouterr()
    assert shown.out == ''
    assert shown.err.count('\n') == 1
    assert words.partition('=')[0].lstrip('-') in shown.err
    assert '--help' in shown.err


@pytest.mark.slow
@pytest.mark.parametrize(
  ('words', 'code'),
  [(['--help'], 0), (['--steps=many'], 2), (['--steps=1'], 2), (['word'], 2)],
)
def test_a_shell_sees_the_same(words, code):
  run = launch_test.start('agent_benchmark', *words)
  assert run.returncode == code
  assert bool(run.stdout) == (code == 0)
  assert run.stderr.count('\n') == (code == 2)
