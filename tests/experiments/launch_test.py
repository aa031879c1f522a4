"""Every launcher, as a shell sees it."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from experiments import launch

ROOT = pathlib.Path(__file__).parents[2]
LAUNCHERS = sorted(
  path.stem
  for path in (ROOT / 'experiments').glob('*.py')
  if 'launch.run(main)' in path.read_text('utf-8')
)


def start(launcher, *arguments):
  return subprocess.run(
    [sys.executable, '-m', f'experiments.{launcher}', *arguments],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.slow
@pytest.mark.parametrize(
  ('arguments', 'says'),
  [
    (('layer_benchmark', '--symmetries=rotatoin'), "did you mean 'rotation'"),
    (('make_dataset', '--dataset=g_mnits/aug1'), 'g_mnist/aug3'),
    (('construction_benchmark', '--out=/dev/null/x'), 'Not a directory'),
    (
      ('search_gcnn', '--symmetries=vertical_translation'),
      'already built into',
    ),
    (('search_gcnn', '--symmetries=numpy.nothing'), 'numpy has no function'),
    (('search_gcnn', '--notensorboard=3'), 'does not take an argument'),
  ],
)
def test_user_errors_are_one_line_and_exit_code_2(arguments, says):
  run = start(*arguments)
  assert run.returncode == 2
  assert says in run.stderr
  assert 'Traceback' not in run.stderr


@pytest.mark.slow
@pytest.mark.parametrize('asked', [None, 3])
def test_every_core_is_a_device_unless_the_user_says_otherwise(asked):
  """The devices that a launcher makes; nothing else is asked of them."""
  environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
  if asked:
    flag = f'--xla_force_host_platform_device_count={asked}'
    environment['XLA_FLAGS'] = flag
  program = (
    'from experiments import launch; import jax; launch.use_all_cores();'
    ' print(len(jax.devices()))'
  )
  run = subprocess.run(
    [sys.executable, '-c', program],
    cwd=ROOT,
    env=environment,
    capture_output=True,
    text=True,
    check=True,
  )
  cores = min(8, len(os.sched_getaffinity(0)))
  assert int(run.stdout) == (asked or cores)


@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_kill_is_as_gentle_as_ctrl_c(name, monkeypatch, capsys):
  kept, number = [], getattr(signal, name)

  def work():
    with launch.resumable():
      try:
        os.kill(os.getpid(), number)
        time.sleep(60)
      finally:
        os.kill(os.getpid(), number)  # impatience
        kept.append('what was finished')

  monkeypatch.setattr('sys.orig_argv', ['python', 'search.py', '--run_dir=a b'])
  # The tests may run in the background or under nohup, where they are ignored.
  default = signal.default_int_handler if name == 'SIGINT' else signal.SIG_DFL
  signal.signal(number, default)
  before = signal.getsignal(number)
  with pytest.raises(SystemExit) as stop:
    work()
  assert stop.value.code == 128 + number
  assert kept
  said = capsys.readouterr().err
  assert said == (
    "\ninterrupted; resume with: python search.py '--run_dir=a b'\n"
  )
  assert signal.getsignal(number) == before


_STUBBORN = """
import hashlib
from experiments import launch
with launch.resumable():
  print('begun', flush=True)
  hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)  # minutes in compiled code
"""
_IMPORTING = """
import sys
sys.argv[0] = '-m'
import experiments
print('begun', flush=True)
import time
time.sleep(60)
"""


@pytest.mark.parametrize('program', [_STUBBORN, _IMPORTING])
@pytest.mark.parametrize('name', ['SIGINT', 'SIGTERM', 'SIGHUP'])
def test_a_signal_is_heard_inside_programs_and_imports(program, name):
  number = getattr(signal, name)
  run = subprocess.Popen(
    [sys.executable, '-c', program],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
  )
  assert run.stdout.readline() == 'begun\n'
  run.send_signal(number)
  _, said = run.communicate()
  assert run.returncode == 128 + number
  assert said.startswith('\ninterrupted; resume with: python ')
  assert 'Traceback' not in said


def test_a_run_under_nohup_survives_its_terminal():
  code = (
    'import os, signal; from experiments import launch\n'
    'signal.signal(signal.SIGHUP, signal.SIG_IGN)\n'
    'with launch.resumable(): os.kill(os.getpid(), signal.SIGHUP)\n'
    'print("survived")'
  )
  run = subprocess.run(
    [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True
  )
  assert run.stdout == 'survived\n'


@pytest.mark.parametrize('launcher', LAUNCHERS)
def test_launchers_that_say_so_can_be_interrupted(launcher):
  """By Ctrl-C or SIGTERM; searches do so in `searching`."""
  text = (ROOT / f'experiments/{launcher}.py').read_text('utf-8')
  promised = 'an\ninterrupted' in text or 'an interrupted' in text
  held = 'launch.resumable()' in text or 'searching.Search(' in text
  assert promised == held
