r"""How fast are other libraries at the same work?

  python -m experiments.peers --sources=FOLDER   # a quarter of an hour

Runs a script of experiments/peer_scripts for each library in a virtual
environment, created in --env_dir if missing (which takes some more minutes).
The processes are pinned to one core and take turns; processor time is measured.
AutoEquiv and the code of the paper's authors are not packages: their rows need
clones, named AutoEquiv and autoequivariant_networks, in --sources. A library
that cannot be installed, or fails, gets a row that says why. An interrupted run
resumes with the first missing row. Writes results/peers.csv and, from it,
docs/peers.md.
"""

from collections.abc import Mapping, Sequence
import contextlib
import os
import pathlib
import string
import subprocess
import sys
import tempfile
import tomllib
from typing import Any, NamedTuple
import venv

from aen import io as io_lib
from experiments import launch
from experiments import rows as rows_lib
from experiments.peer_scripts import worker as worker_lib

_FLAGS = launch.define(
  env_dir=('runs/peers', 'Folder of environments and of unfinished runs.'),
  sources=('runs/peers', 'Folder of clones of libraries without a package.'),
  core=(0, 'Core to which processes are pinned.', 0),
  rounds=(6, 'Rounds; the fastest counts.', 1),
  root=('.', 'Root of the repository, with results/ and docs/.'),
  only=([], 'Measure only rows whose name contains this text; keep others.'),
  page_only=(False, 'Only write docs/peers.md from the existing table.'),
)

_FOLDER = pathlib.Path(__file__).parent
_SHORT = 0.2  # seconds per round; shorter tasks are repeated
_LONG = 2.0  # seconds; longer tasks run once after the warm-up
_VERY_LONG = 10.0  # seconds; longer tasks run once: no compilation takes that
_CPU = '+cpu'  # version suffix of wheels without CUDA


class Peer(NamedTuple):
  """A library and how to run its tasks; see peers.toml."""

  installs: Sequence[str]  # the first one names its environment
  script: str
  spec: Mapping[str, Any]


_TABLES = tomllib.loads((_FOLDER / 'peers.toml').read_text('utf-8'))
PEERS = {name: Peer(**peer) for name, peer in _TABLES['peers'].items()}
TASKS, FRESH, COLUMNS = (_TABLES[k] for k in ('tasks', 'fresh', 'columns'))
WARM = 'aen, compiled before'
# By library: its process; its values, or why there are none.
Workers = dict[str, worker_lib.Worker]
Found = dict[str, list[float] | str]


def main(_: list[str]) -> None:
  """Measures, writes the table and the page."""
  root = pathlib.Path(_FLAGS.root)
  table = root / 'results/peers.csv'
  if not _FLAGS.page_only:
    measure(table)
  with io_lib.written_text(root / 'docs/peers.md') as file:
    file.write(page(rows_lib.read(table, COLUMNS)))
  print(f'wrote {table} and {root / "docs/peers.md"}')


def measure(table: pathlib.Path) -> None:
  """Writes a row for each task of each library."""
  os.sched_setaffinity(0, {_FLAGS.core})  # the workers inherit it
  unfinished = pathlib.Path(_FLAGS.env_dir, 'unfinished.csv')
  unfinished.parent.mkdir(parents=True, exist_ok=True)
  done = {row['what'] for row in rows_lib.read(unfinished, COLUMNS)}
  workers: Workers = {}
  missing = []  # rows that say why a library has no worker
  with contextlib.ExitStack() as stack:
    for peer in PEERS:
      try:
        workers[peer] = stack.enter_context(start(peer))
      except ValueError as error:
        print(f'{peer}: {error}')
        missing.append(_row(peer=peer, value=str(error)))
    for measured, tasks in ((_in_turns, TASKS), (_in_new_processes, FRESH)):
      for task, what in tasks.items():
        wanted = not _FLAGS.only or any(text in what for text in _FLAGS.only)
        if wanted and what not in done:
          rows = _rows(what, measured(task, workers), workers)
          rows_lib.add(unfinished, [*missing, *rows], ('what', 'peer'))
  if not _FLAGS.only:
    table.unlink(missing_ok=True)
  rows_lib.add(table, rows_lib.read(unfinished), ('what', 'peer'))
  unfinished.unlink()


def _row(**cells: str) -> dict[str, str]:
  return dict.fromkeys(COLUMNS, '') | cells


def _in_turns(task: str, workers: Workers) -> Found:
  """Returns the seconds of a task by round, with libraries taking turns."""
  found: Found = {p: [] for p, w in workers.items() if task in w.about['tasks']}
  # A first round, which does not count, compiles programs.
  for number in range(1 + _FLAGS.rounds):
    for peer, seconds in found.items():
      longest = _VERY_LONG if number == 1 else _LONG
      if isinstance(seconds, str) or (seconds and seconds[-1] > longest):
        continue
      try:
        taken = workers[peer].fastest(task, _SHORT if number else 0)
        found[peer] = [taken] if number == 1 else [*seconds, taken]
      except ValueError as error:
        found[peer] = str(error)
  return found


def _in_new_processes(task: str, workers: Workers) -> Found:
  """Returns the total seconds of a new process, or its peak memory (child)."""
  variants = [
    (peer, peer, {})
    for peer, worker in workers.items()
    if task in ('', *worker.about['tasks'])
  ]
  found: Found = {}
  with tempfile.TemporaryDirectory() as cache:
    variants.insert(1, (WARM, 'aen', {'cache': cache}))
    if task:
      with start('aen', cache=cache) as worker:
        worker.run(task)
    for _ in range(max(1, _FLAGS.rounds // 3)):
      for name, peer, changes in variants:
        values = found.setdefault(name, [])
        if isinstance(values, str):
          continue
        try:
          with start(peer, **changes) as worker:
            usage = worker.run(task) if task else worker.about
          values.append(usage['peak' if task == 'child' else 'total'])
        except ValueError as error:
          found[name] = str(error)
  return found


def _rows(what: str, found: Found, workers: Workers) -> list[rows_lib.Row]:
  """Returns a row for each library, with its ratios to aen."""
  ours, rows = found['aen'], []
  unit = 'MiB' if 'memory' in what else 's'
  for peer, values in found.items():
    version = workers['aen' if peer == WARM else peer].about['version']
    row = _row(what=what, peer=peer, version=version)
    if isinstance(values, str) or isinstance(ours, str):
      row['value'] = values if isinstance(values, str) else str(ours)
    else:
      value, ratio = min(values), min(values) / min(ours)
      ratios = [ratio, *(a / b for a, b in zip(values, ours, strict=False))]
      numbers = len(values), value, ratio, min(ratios), max(ratios)
      names = ('rounds', 'value', 'ratio', 'low', 'high')
      row |= zip(names, map(str, numbers), strict=True)
      row['unit'] = unit
      print(f'{what}, {peer}: {value:.4g} {unit}, {ratio:.3g} ×')
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
    line = {'what': row['what'] or 'everything', 'library': row['peer']}
    lines.append({**line, 'value': value, 'of aen': ratio})
  template = string.Template((_FOLDER / 'pages/peers.md').read_text('utf-8'))
  return template.substitute(
    table=rows_lib.markdown(lines),
    versions='; '.join(sorted({row['version'] for row in rows} - {''})),
    rounds=max((int(row['rounds'] or 0) for row in rows), default=0),
  )


def start(peer: str, **changes: Any) -> worker_lib.Worker:
  """Starts a library's process; raises ValueError if that is impossible."""
  installs, script, spec = PEERS[peer]
  spec = {**spec, **changes}
  if spec.get('source'):
    source = pathlib.Path(_FLAGS.sources, spec['source']).resolve()
    if not source.exists():
      raise ValueError('source not at hand')
    spec['source'] = str(source)
  if not installs:
    path = str(_FOLDER.parent)
    return worker_lib.Worker(sys.executable, script, spec, path)
  calls = [call for name in installs for call in _TABLES['installs'][name]]
  return worker_lib.Worker(_python(installs[0], calls), script, spec)


def _python(name: str, installs: Sequence[Sequence[str]]) -> str:
  """Returns the Python of an environment, after installing what it lacks."""
  folder = pathlib.Path(_FLAGS.env_dir, name)
  python = folder / 'bin/python'
  installed = folder / 'installed.txt'  # arguments of pip, call by call
  if not installed.exists():
    print(f'making the environment {folder}')
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


def _pip_install(python: pathlib.Path, words: Sequence[str]) -> str:
  """Installs packages; returns '' or the error."""
  print(f'installing {" ".join(words)}')
  command = [python, '-m', 'pip', 'install', '-q', *words]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode and any(word.endswith(_CPU) for word in words):
    return _pip_install(python, [w.removesuffix(_CPU) for w in words])
  return worker_lib.last_line(done.stderr) if done.returncode else ''


if __name__ == '__main__':
  launch.run(main)
