"""`python -m aen DATA`: which symmetries help on these data?

  python -m aen path/to/images            a folder with a folder per class
  python -m aen data.npz --max_minutes=5  arrays x_train and y_train
  python -m aen data.csv --target=price   a column to predict, others as inputs
  python -m aen screen DATA               only test which symmetries data have

Prints the verdict and writes report.html to the run directory.
"""
# JAX and Matplotlib are imported when needed, so that --help is fast.

import argparse
from collections.abc import Sequence
import importlib
import pathlib
import sys
from typing import Any

from aen import _module
from aen.data import load as load_lib
from aen.data import own
from aen.groups import symmetries as symmetries_lib


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status, 2 for errors of the user."""
  words = list(sys.argv[1:] if argv is None else argv)
  only_screen = words[:1] == ['screen']
  arguments = _parser().parse_args(words[1:] if only_screen else words)
  try:
    name = pathlib.Path(arguments.data).resolve().stem
    run_dir = pathlib.Path(arguments.run_dir or f'runs/aen/{name}')
    (_screen if only_screen else _discover)(arguments, run_dir)
  except (ValueError, TypeError, OSError, ImportError) as error:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    return 2
  except KeyboardInterrupt:
    print('\ninterrupted; the same command resumes', file=sys.stderr)
    return 130
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    'python -m aen',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add(
    'data',
    help='a folder of class folders of images, an .npz or .csv file, or the'
    ' name of a built-in data set, such as digits',
  )
  add('--target', help='column of a .csv file to predict')
  add(
    '--grid_axes',
    type=int,
    help='number of grid axes; one more may hold channels',
  )
  add('--task', choices=own.TASKS, help='by default inferred from the labels')
  add(
    '--symmetries',
    help='names or module:function, separated by commas; modules may be in the'
    ' working directory',
  )
  add('--network', default='mlp', help='mlp or cnn')
  add('--strategy', help='which networks to train')
  add('--downscale', type=int, default=1, help='average blocks of this side')
  add('--max_networks', type=int, help='train at most this many networks')
  add('--max_minutes', type=float, help='time limit in minutes')
  add('--seed', type=int, default=0, help='random seed')
  add('--run_dir', help='where to write, by default runs/aen/<name of data>')
  return parser


def _discover(arguments: argparse.Namespace, run_dir: pathlib.Path) -> None:
  report = _module('report')
  search_lib = _module('search.search')
  options = vars(arguments)  # the other flags are arguments of `discover`
  source = options.pop('data'), options.pop('target')
  images, labels, data = load_lib.read_examples(*source)
  for name in ('grid_axes', 'task', 'downscale', 'seed'):
    data[name] = options.pop(name)
  options['symmetries'] = _symmetries(arguments.symmetries)
  options['run_dir'] = run_dir
  result = search_lib.discover(images, labels, **data, **options)
  examples = load_lib.from_examples(images, labels, **data)
  page = report.write(result, examples, run_dir)
  print(f'{result.verdict}\nreport: {page}')


def _screen(arguments: argparse.Namespace, run_dir: pathlib.Path) -> None:
  screen_lib = _module('search.screen')
  images, labels, _ = load_lib.read_examples(arguments.data, arguments.target)
  images, axes = own.as_inputs(images, arguments.grid_axes)
  labels, _ = own.as_targets(labels, arguments.task)
  screening = screen_lib.screen(
    images,
    screen_lib.binned(labels),
    _symmetries(arguments.symmetries),
    grid=images.shape[1 : 1 + axes],
    seed=arguments.seed,
  )
  print(screening.verdict)
  run_dir.mkdir(parents=True, exist_ok=True)
  path = run_dir / 'screening.png'
  screening.figure().savefig(path)
  print(f'figure: {path}')


def _symmetries(words: str | None) -> list[Any] | None:
  """Converts names and `module:function`, separated by commas."""
  if words is None:
    return None
  if '' not in sys.path:
    sys.path.insert(0, '')  # the working directory, also for the command `aen`
  return [symmetry(word) for word in words.split(',')]


def symmetry(word: str) -> Any:
  """Returns a name unchanged, and `module:function` as a `Symmetry`.

  A dot in place of the colon is accepted, too.
  """
  module, _, name = word.rpartition(':' if ':' in word else '.')
  if not module:
    return word
  how = (
    'write module:function, such as numpy:transpose, with a module in the'
    ' working directory or on PYTHONPATH'
  )
  try:
    function = getattr(importlib.import_module(module), name, None)
  except (ImportError, TypeError) as error:  # TypeError: of leading dots
    raise ValueError(
      f'--symmetries: cannot import {module!r} ({error}); {how}'
    ) from error
  if not callable(function):
    raise ValueError(f'--symmetries: {module} has no function {name!r}; {how}')
  return symmetries_lib.Symmetry(word, function)


if __name__ == '__main__':
  sys.exit(main())
