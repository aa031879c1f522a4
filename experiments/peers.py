r"""How fast are other libraries at the same work?

  python -m experiments.peers --sources=FOLDER   # ten minutes

Runs a script of experiments/peer_scripts for each library in a virtual
environment of its own, which is made below --env_dir if it is not there. The
processes are pinned to one core and take turns; what counts is processor time.
AutoEquiv and the code of the paper's authors are no packages: their rows need
clones, named AutoEquiv and autoequivariant_networks, in --sources. Writes
results/peers.csv and, from it, docs/peers.md.
"""

from collections.abc import Mapping
import json
import os
import pathlib
import string
import subprocess
import sys
import tempfile
from typing import Any
import venv

from absl import flags

from aen import io as io_lib
from experiments import launch
from experiments import rows as rows_lib
from experiments.peer_scripts import worker as worker_lib

_ENV_DIR = flags.DEFINE_string(
  'env_dir', 'runs/peers', 'Folder of the virtual environments.'
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
_TASKS = flags.DEFINE_multi_string(
  'task', [], 'Measure only these; other rows of the table stay.'
)
_PAGE_ONLY = flags.DEFINE_bool(
  'page_only', False, 'Write docs/peers.md from the table, measure nothing.'
)

_SCRIPTS = pathlib.Path(__file__).with_name('peer_scripts')
_TEMPLATE = pathlib.Path(__file__).with_name('pages') / 'peers.md'
_LONG = 2.0  # seconds; what takes longer runs once, and again after warming up
_VERY_LONG = 10.0  # seconds; no compilation takes longer
_AUTHORS = 'autoequivariant_networks/MNIST DQN'
_ESCNN = (  # its dependency py3nj needs a Fortran compiler, and is optional
  ('torch', 'numpy<2', 'scipy<1.14', 'lie_learn', 'joblib', 'pymanopt'),
  ('requests', 'autograd'),
  ('--no-deps', 'escnn==1.0.11'),
)
# What is installed, the script, its argument; clones are below --sources.
PEERS: dict[str, tuple[str, tuple[tuple[str, ...], ...], str, Any]] = {
  'aen': ('', (), 'aen', {'cache': ''}),
  'PyTorch, no symmetry': (
    'torch',
    (('torch', 'numpy'),),
    'torch',
    {'kind': 'dense', 'source': ''},
  ),
  'AutoEquiv': (
    'torch',
    (('torch', 'numpy'),),
    'torch',
    {'kind': 'autoequiv', 'source': 'AutoEquiv'},
  ),
  "authors' code": (
    'torch',
    (('torch', 'numpy'),),
    'torch',
    {'kind': 'authors', 'source': _AUTHORS},
  ),
  "authors' code, repaired": (
    'torch',
    (('torch', 'numpy'),),
    'torch',
    {'kind': 'repaired', 'source': _AUTHORS},
  ),
  'emlp': ('emlp', (('emlp', 'six'),), 'emlp', {}),
  'escnn': ('escnn', _ESCNN, 'escnn', worker_lib.CNN),
}
# Tasks in turn, and what fresh processes are measured on.
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
  'import': 'import',
  'mlp step': 'import to first step, MLP',
  'small mlp step': 'import to first step, MLP on 49 pixels',
  'cnn step': 'import to first step, group CNN',
}
WARM = 'aen, compiled before'
FRESH_TASK = 'fresh processes'
COLUMNS = ('what', 'peer', 'version', 'unit', 'value', 'ratio', 'low', 'high')


def main(_: list[str]) -> None:
  """Measures, writes the table and the page."""
  root = pathlib.Path(_ROOT.value)
  table = root / 'results/peers.csv'
  if not _PAGE_ONLY.value:
    measure(table)
  with io_lib.written_text(root / 'docs/peers.md') as file:
    file.write(page(rows_lib.read(table, COLUMNS)))
  print(f'wrote {table} and {root / "docs/peers.md"}')


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
    self._process = subprocess.Popen(
      [python, str(_SCRIPTS / f'with_{script}.py'), json.dumps(spec)],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env={**os.environ, **({} if environment else {'PYTHONPATH': root})},
    )
    self.about = self._answer()

  def run(self, task: str) -> dict[str, float]:
    """Runs a task; returns seconds, total seconds and peak memory."""
    self._process.stdin.write(f'{task}\n')
    self._process.stdin.flush()
    return self._answer()

  def _answer(self) -> Any:
    if not (line := self._process.stdout.readline()):
      raise ValueError('failed')
    return json.loads(line)

  def close(self) -> None:
    """Ends the process."""
    self._process.stdin.close()
    self._process.wait()


def _python(name: str, installs: tuple[tuple[str, ...], ...]) -> str:
  """Returns the Python of an environment, made if it is not there."""
  folder = pathlib.Path(_ENV_DIR.value, name)
  python = folder / 'bin/python'
  if not python.exists():
    print(f'making the environment {folder}', flush=True)
    venv.create(folder, with_pip=True)
    for words in installs:
      subprocess.run([python, '-m', 'pip', 'install', '-q', *words], check=True)
  return str(python.absolute())


def measure(table: pathlib.Path) -> None:
  """Writes a row for each library and each thing that it can do."""
  os.sched_setaffinity(0, {_CORE.value})  # the workers inherit it
  workers, missing = {}, []
  for peer in PEERS:
    try:
      workers[peer] = Worker(peer)
    except (ValueError, subprocess.CalledProcessError) as error:
      missing.append({'what': '', 'peer': peer, 'value': str(error)[:40]})
  versions = {peer: worker.about['version'] for peer, worker in workers.items()}
  rows = [{**dict.fromkeys(COLUMNS, ''), **row} for row in missing]

  def add(what: str, unit: str, found: Mapping[str, list[float]]) -> None:
    for peer, values in found.items():
      ours = found['aen']
      ratios = [a / b for a, b in zip(values, ours * len(values), strict=False)]
      row = (what, peer, versions[peer.replace(WARM, 'aen')], unit, min(values))
      of_fastest = min(values) / min(ours)
      ratios.append(of_fastest)
      rows.append(
        dict(
          zip(
            COLUMNS,
            (*row, of_fastest, min(ratios), max(ratios)),
            strict=True,
          )
        )
      )
      print(
        what, peer, f'{min(values):.4g} {unit}, {of_fastest:.3g} ×', flush=True
      )

    # An end before its time loses little.
    rows_lib.add(table, rows, ('what', 'peer'))

  chosen = _TASKS.value or [*TASKS, FRESH_TASK]
  for task, what in TASKS.items():
    if task not in chosen:
      continue
    seconds: dict[str, list[float]] = {}
    able = [p for p, worker in workers.items() if task in worker.about['tasks']]
    for number in range(_ROUNDS.value + 1):
      for peer in able:
        found = seconds.setdefault(peer, [])
        if not found or found[0] < (_LONG if number > 1 else _VERY_LONG):
          taken = workers[peer].run(task)['seconds']
          # In the first round, which does not count, programs are compiled.
          found[:] = [*found, taken] if number > 1 else [taken]
    add(what, 's', seconds)
  for worker in workers.values():
    worker.close()
  if FRESH_TASK not in chosen:
    return

  with tempfile.TemporaryDirectory() as cache:
    fresh = [(peer, peer, {}) for peer in workers]
    fresh.insert(1, (WARM, 'aen', {'cache': cache}))
    filling = Worker('aen', cache=cache)
    filling.run('cnn step')
    filling.run('mlp step')
    filling.close()
    starts: dict[str, dict[str, list[float]]] = {task: {} for task in FRESH}
    peaks: dict[str, list[float]] = {}
    for _ in range(max(1, _ROUNDS.value // 3)):
      for name, peer, changes in fresh:
        for task, found in starts.items():
          if task != 'import' and task not in workers[peer].about['tasks']:
            continue
          worker = Worker(peer, **changes)
          usage = worker.about if task == 'import' else worker.run(task)
          found.setdefault(name, []).append(usage['total'])
          worker.close()
        if 'child' in workers[peer].about['tasks'] and peer != "authors' code":
          worker = Worker(peer, **changes)
          peaks.setdefault(name, []).append(worker.run('child')['peak'])
          worker.close()
  for task, what in FRESH.items():
    add(what, 's', starts[task])
  add('peak memory of a process that trains a child', 'MiB', peaks)


def page(rows: list[rows_lib.Row]) -> str:
  """Returns docs/peers.md."""

  def number(text: str, unit: str = '') -> str:
    value = float(text)
    if unit == 's':
      return f'{1e3 * value:.3g} ms' if value < 1 else f'{value:.3g} s'
    return f'{value:.0f} {unit}' if unit else f'{float(f"{value:.3g}"):g}'

  lines = []
  for row in rows:
    if row['what']:
      spread = f'{number(row["low"])}–{number(row["high"])}'
      ours = row['peer'] == 'aen'
      lines.append(
        (
          row['what'],
          row['peer'],
          number(row['value'], row['unit']),
          '1' if ours else f'{number(row["ratio"])} ({spread})',
        )
      )
    else:
      lines.append(('everything', row['peer'], row['value'], ''))
  versions = sorted({row['version'] for row in rows if row['version']})
  return string.Template(_TEMPLATE.read_text('utf-8')).substitute(
    table=rows_lib.markdown(('what', 'library', 'time', 'of aen'), lines),
    versions='; '.join(versions),
  )


if __name__ == '__main__':
  launch.run(main)
