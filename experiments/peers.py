r"""How fast are other libraries at the same work?

  python -m experiments.peers --sources=FOLDER   # a quarter of an hour

Runs a script of experiments/peer_scripts for each library in a virtual
environment, which is made below --env_dir if it is not there (some minutes
more). The processes are pinned to one core and take turns; what counts is
processor time. AutoEquiv and the code of the paper's authors are no packages:
their rows need clones, named AutoEquiv and autoequivariant_networks, in
--sources. What cannot be installed, or fails, gets a row that says why. An
interrupted run resumes with the first row that is missing. Writes
results/peers.csv and, from it, docs/peers.md.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import json
import os
import pathlib
import signal
import string
import subprocess
import sys
import tempfile
import threading
from typing import Any
from typing import NamedTuple
import venv

from absl import flags

from aen import io as io_lib
from experiments import launch
from experiments import rows as rows_lib
from experiments.peer_scripts import worker as worker_lib

_ENV_DIR = flags.DEFINE_string(
  'env_dir', 'runs/peers', 'Folder of environments and of unfinished runs.'
)
_SOURCES = flags.DEFINE_string(
  'sources', 'runs/peers', 'Folder of the clones that are no packages.'
)
_CORE = flags.DEFINE_integer(
  'core', 0, 'Core to which processes are pinned.', 0
)
_ROUNDS = flags.DEFINE_integer('rounds', 6, 'Rounds; the fastest counts.', 1)
_ROOT = flags.DEFINE_string(
  'root', '.', 'The clone: where results/ and docs/ are.'
)
_ONLY = flags.DEFINE_multi_string(
  'only', [], 'Measure only what contains this text; other rows stay.'
)
_PAGE_ONLY = flags.DEFINE_bool(
  'page_only', False, 'Write docs/peers.md from the table, measure nothing.'
)

_SCRIPTS = pathlib.Path(__file__).with_name('peer_scripts')
_TEMPLATE = pathlib.Path(__file__).with_name('pages') / 'peers.md'
_SHORT = 0.2  # seconds in each round; tasks that take less run several times
_LONG = 2.0  # seconds; what takes longer runs once, and again after warming up
_VERY_LONG = 10.0  # seconds; no compilation takes longer
_LIMIT = 600.0  # seconds until a process that does not answer is ended
_AUTHORS = 'autoequivariant_networks/MNIST DQN'
_CPU = '+cpu'  # wheels without CUDA are tried first
_TORCH = (('torch==2.13.0' + _CPU, 'numpy<2', 'scipy<1.14'),)
_ESCNN = (  # its dependency py3nj needs a Fortran compiler, and is optional
  ('lie_learn', 'joblib', 'pymanopt', 'requests', 'autograd'),
  ('--no-deps', 'escnn==1.0.11'),
)


class Peer(NamedTuple):
  """A library, and how its tasks are run."""

  environment: str  # a folder below --env_dir; none is this Python's own
  installs: tuple[tuple[str, ...], ...]  # arguments of pip, call by call
  script: str
  spec: Mapping[str, Any]  # its argument; `source` is a clone in --sources


PEERS = {
  'aen': Peer('', (), 'aen', {'cache': ''}),
  'PyTorch, no symmetry': Peer(
    'torch', _TORCH, 'torch', {'kind': 'dense', 'source': ''}
  ),
  'AutoEquiv': Peer(
    'torch', _TORCH, 'torch', {'kind': 'autoequiv', 'source': 'AutoEquiv'}
  ),
  "authors' code": Peer(
    'torch', _TORCH, 'torch', {'kind': 'authors', 'source': _AUTHORS}
  ),
  "authors' code, repaired": Peer(
    'torch', _TORCH, 'torch', {'kind': 'repaired', 'source': _AUTHORS}
  ),
  'emlp': Peer('emlp', (('emlp', 'six', 'flax'),), 'emlp', {}),
  'escnn': Peer('torch', _TORCH + _ESCNN, 'escnn', worker_lib.CNN),
}
WARM = 'aen, compiled before'
# What is measured by processes that take turns, and by new processes.
TASKS = {
  'construct one': 'sharing pattern of 784×400, rotation',
  'construct twelve': 'sharing pattern of 784×400, twelve symmetries',
  'construct small': 'sharing pattern of 49×49, rotation',
  'mlp step': 'training step, MLP 784→400→400→10, batch size 64',
  'small mlp step': 'training step, MLP 49→49→49→10, batch size 64',
  'child': 'a child: patterns and 250 steps of that MLP',
  'cnn step': 'training step, group CNN (D4), 28×28, batch size 32',
}
FRESH = {
  '': 'import',
  'mlp step': 'import to first step, MLP',
  'small mlp step': 'import to first step, MLP on 49 pixels',
  'cnn step': 'import to first step, group CNN',
  'child': 'peak memory of a process that trains a child',
}
COLUMNS = (
  'what',
  'peer',
  'version',
  'unit',
  'rounds',
  'value',
  'ratio',
  'low',
  'high',
)
Found = dict[
  str, list[float] | str
]  # by library: values, or why there are none


def main(_: list[str]) -> None:
  """Measures, writes the table and the page."""
  root = pathlib.Path(_ROOT.value)
  table = root / 'results/peers.csv'
  if not _PAGE_ONLY.value:
    measure(table)
  with io_lib.written_text(root / 'docs/peers.md') as file:
    file.write(page(rows_lib.read(table, COLUMNS)))
  print(f'wrote {table} and {root / "docs/peers.md"}')


def measure(table: pathlib.Path) -> None:
  """Writes a row for each library and each thing that it can do."""
  os.sched_setaffinity(0, {_CORE.value})  # the workers inherit it
  unfinished = pathlib.Path(_ENV_DIR.value, 'unfinished.csv')
  unfinished.parent.mkdir(parents=True, exist_ok=True)
  done = {row['what'] for row in rows_lib.read(unfinished, COLUMNS)}
  with contextlib.ExitStack() as stack:
    workers, rows = _start(stack)
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    for what, kind, task in _measurements():
      if what in done:
        continue
      if kind == 'turns':
        found = _in_turns(task, workers)
      else:
        found = _in_new_processes(task, workers, cache)
      rows = [*rows, *_rows(what, found, workers)]
      rows_lib.add(unfinished, rows, ('what', 'peer'))
  if not _ONLY.value:
    table.unlink(missing_ok=True)
  rows_lib.add(table, rows_lib.read(unfinished), ('what', 'peer'))
  unfinished.unlink()


def _measurements() -> Iterator[tuple[str, str, str]]:
  """Yields what is measured, in turns or by new processes, and the task."""
  for kind, tasks in (('turns', TASKS), ('new', FRESH)):
    for task, what in tasks.items():
      if not _ONLY.value or any(text in what for text in _ONLY.value):
        yield what, kind, task


def _start(
  stack: contextlib.ExitStack,
) -> tuple[dict[str, 'Worker'], list[rows_lib.Row]]:
  """Starts a worker for every library; rows say why others have none."""
  workers, rows = {}, []
  for peer in PEERS:
    try:
      workers[peer] = stack.enter_context(Worker(peer))
    except ValueError as error:
      print(f'{peer}: {error}', flush=True)
      row = {'what': '', 'peer': peer, 'value': str(error)}
      rows.append({**dict.fromkeys(COLUMNS, ''), **row})
  return workers, rows


def _in_turns(task: str, workers: Mapping[str, 'Worker']) -> Found:
  """Returns the seconds of a task, round by round."""
  found: Found = {p: [] for p, w in workers.items() if task in w.tasks}
  # In the first round, which does not count, programs are compiled.
  for number in range(1 + _ROUNDS.value):
    for peer, seconds in found.items():
      longest = _VERY_LONG if number == 1 else _LONG
      if isinstance(seconds, str) or (seconds and seconds[-1] > longest):
        continue
      try:
        taken = workers[peer].fastest(task, _SHORT if number else 0)
      except ValueError as error:
        found[peer] = str(error)
        continue
      if number == 1:
        seconds.clear()
      seconds.append(taken)
  return found


def _in_new_processes(
  task: str, workers: Mapping[str, 'Worker'], cache: str
) -> Found:
  """Returns the total seconds of a task, or the peak memory of a child."""
  variants = [(p, p, {}) for p, w in workers.items() if task in ('', *w.tasks)]
  variants.insert(1, (WARM, 'aen', {'cache': cache}))
  if task:
    with Worker('aen', cache=cache) as worker:
      worker.run(task)
  found: Found = {}
  for _ in range(max(1, _ROUNDS.value // 3)):
    for name, peer, changes in variants:
      try:
        with Worker(peer, **changes) as worker:
          usage = worker.run(task) if task else worker.about
      except ValueError as error:
        found[name] = str(error)
        continue
      values = found.setdefault(name, [])
      if not isinstance(values, str):
        values.append(usage['peak' if task == 'child' else 'total'])
  return found


def _rows(
  what: str, found: Found, workers: Mapping[str, 'Worker']
) -> list[rows_lib.Row]:
  """Returns a row for each library, with its ratios to aen."""
  ours, rows = found['aen'], []
  unit = 'MiB' if 'memory' in what else 's'
  for peer, values in found.items():
    row = dict.fromkeys(COLUMNS, '')
    version = workers['aen' if peer == WARM else peer].about['version']
    row |= {'what': what, 'peer': peer, 'version': version}
    if isinstance(values, str) or isinstance(ours, str):
      rows.append(row | {'value': values if isinstance(values, str) else ours})
      continue
    of_fastest = min(values) / min(ours)
    ratios = [a / b for a, b in zip(values, ours, strict=False)]
    numbers = {
      'rounds': len(values),
      'value': min(values),
      'ratio': of_fastest,
      'low': min(of_fastest, *ratios),
      'high': max(of_fastest, *ratios),
    }
    print(f'{what}, {peer}: {min(values):.4g} {unit}, {of_fastest:.3g} ×')
    sys.stdout.flush()
    row |= {'unit': unit, **{k: str(v) for k, v in numbers.items()}}
    rows.append(row)
  return rows


def page(rows: list[rows_lib.Row]) -> str:
  """Returns docs/peers.md."""

  def number(text: str, unit: str = '') -> str:
    value = float(text)
    if unit == 's':
      return f'{1e3 * value:.3g} ms' if value < 1 else f'{value:.3g} s'
    return f'{value:.0f} {unit}' if unit else f'{float(f"{value:.3g}"):g}'

  lines = []
  for row in rows:
    ratio, value = '', row['value']
    if row['unit']:
      ratio = number(row['ratio'])
      if row['low'] != row['high']:
        ratio += f' ({number(row["low"])}–{number(row["high"])})'
      value = number(value, row['unit'])
    lines.append((row['what'] or 'everything', row['peer'], value, ratio))
  versions = sorted({row['version'] for row in rows if row['version']})
  rounds = [int(row['rounds']) for row in rows if row['rounds']]
  return string.Template(_TEMPLATE.read_text('utf-8')).substitute(
    table=rows_lib.markdown(('what', 'library', 'value', 'of aen'), lines),
    versions='; '.join(versions),
    rounds=max(rounds, default=0),
  )


class Worker:
  """A process that runs tasks in the environment of a library."""

  def __init__(self, peer: str, **changes: Any) -> None:
    """Starts it; raises a ValueError if the library cannot be had."""
    environment, installs, script, spec = PEERS[peer]
    spec = {**spec, **changes}
    if spec.get('source'):
      source = pathlib.Path(_SOURCES.value, spec['source']).resolve()
      if not source.exists():
        raise ValueError('source not at hand')
      spec['source'] = str(source)
    python = (
      sys.executable if not environment else _python(environment, installs)
    )
    root = str(pathlib.Path(__file__).parents[1])
    self._errors = tempfile.TemporaryFile('w+')  # noqa: SIM115, see __exit__
    self._process = subprocess.Popen(
      [python, str(_SCRIPTS / f'with_{script}.py'), json.dumps(spec)],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._errors,
      text=True,
      env={**os.environ, 'PYTHONPATH': '' if environment else root},
    )
    self.about = self._answer()
    self.tasks = self.about['tasks']

  def __enter__(self) -> 'Worker':
    return self

  def __exit__(self, *_: object) -> None:
    """Ends the process."""
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()
    self._process.wait()
    self._errors.close()

  def run(self, task: str) -> dict[str, float]:
    """Runs a task; returns seconds, total seconds and peak memory."""
    try:
      self._process.stdin.write(f'{task}\n')
      self._process.stdin.flush()
    except BrokenPipeError:
      raise ValueError('ended in an earlier task') from None
    return self._answer()

  def fastest(self, task: str, seconds: float) -> float:
    """Runs a task for some seconds, at least once; returns the fastest time."""
    times = [self.run(task)['seconds']]
    while sum(times) < seconds:
      times.append(self.run(task)['seconds'])
    return min(times)

  def _answer(self) -> Any:
    timer = threading.Timer(_LIMIT, self._process.kill)
    timer.start()
    line = self._process.stdout.readline()
    timer.cancel()
    if line:
      return json.loads(line)
    if self._process.wait() == -signal.SIGKILL:
      raise ValueError(f'ended: no answer within {_LIMIT:.0f} s, or no memory')
    self._errors.seek(0)
    raise ValueError(f'failed: {_last_line(self._errors.read())}')


def _python(name: str, installs: tuple[tuple[str, ...], ...]) -> str:
  """Returns the Python of an environment; installs what it lacks."""
  folder = pathlib.Path(_ENV_DIR.value, name)
  python = folder / 'bin/python'
  installed = folder / 'installed.txt'  # what pip has installed, call by call
  if not installed.exists():
    print(f'making the environment {folder}', flush=True)
    venv.create(folder, clear=True, with_pip=True)
    installed.touch()
  for words in installs:
    if ' '.join(words) in installed.read_text().splitlines():
      continue
    if failed := _pip_install(python, words):
      raise ValueError(f'pip cannot install {words[-1]}: {failed}')
    with installed.open('a') as file:
      file.write(' '.join(words) + '\n')
  return str(python.absolute())


def _pip_install(python: pathlib.Path, words: tuple[str, ...]) -> str:
  """Installs packages; returns nothing, or why that failed."""
  print(f'installing {" ".join(words)}', flush=True)
  done = subprocess.run(
    [python, '-m', 'pip', 'install', '-q', *words],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
    check=False,
  )
  if done.returncode and any(word.endswith(_CPU) for word in words):
    return _pip_install(python, tuple(w.removesuffix(_CPU) for w in words))
  return _last_line(done.stderr) if done.returncode else ''


def _last_line(text: str) -> str:
  """Returns what a program said last, short enough for a table."""
  lines = [line for line in text.splitlines() if line.strip()] or ['no message']
  return lines[-1].replace('|', '/')[:120]


if __name__ == '__main__':
  launch.run(main)
