"""Every launcher, as a shell sees it."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
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
  ],
)
def test_user_errors_are_one_line_and_exit_code_2(arguments, says):
  run = start(*arguments)
  assert run.returncode == 2
  assert says in run.stderr
  assert 'Traceback' not in run.stderr
