r"""Which strategy finds a good network soonest?

Runs each strategy many times on landscapes, where the true value of every
network is known, and writes regret.csv, summary.csv and regret.png.

  python -m experiments.compare_strategies --landscapes=a.npz,b.npz

A search sees the validation accuracies of one seed and picks the network with
the best one it has seen. Regret is the test accuracy, averaged over all seeds,
of the best network minus that of the pick. Observed regret is the same by the
accuracies that the search saw: it measures the search alone, without the noise
of validation.

A strategy is a name, of `CONTENDERS` below or of `aen.search.strategies`, or a
call with options, such as --strategy='dqn(hidden_sizes=(64, 64))'. Searches are
stored in --out and reused; delete its folder `traces` to start over. Takes a
few minutes per landscape; the paper's DQN adds one or two minutes per seed. The
same command resumes an interrupted run.
"""

from collections.abc import Iterator, Mapping, Sequence
import hashlib
import itertools
import pathlib
from typing import Any

from matplotlib import figure
import numpy as np

from aen.report import charts
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from experiments import launch
from experiments import results
from experiments import rows as rows_lib
from experiments import traces as traces_lib
from experiments.flags import parse_strategy

_FLAGS = launch.define(
  landscapes=(tuple, 'Files of landscapes (.npz), separated by commas.'),
  strategy=(list, 'A strategy; repeat for several. All contenders by default.'),
  seeds=(200, 'Searches of each strategy.', 2),
  light_seeds=(100, 'Searches of each DQN except wide ones.', 2),
  wide_seeds=(20, 'Searches of each DQN with 400 or more units.', 2),
  out=('runs/compare_strategies', 'Folder for traces, tables and picture.'),
)

_LIGHT = 'hidden_sizes=(64, 64), replay_capacity=2000'
_QUICK = (
  f'{_LIGHT}, batch_size=16, input_scale=1.0, max_steps=1000,'
  ' epsilons=(1.0, 0.8, 0.6, 0.4, 0.2, 0.1), models=(10, 5, 5, 5, 5, 470)'
)
CONTENDERS = {
  'random': 'random()',
  'random_states': 'random(distinct=False)',
  'local': 'local()',
  'evolution': 'evolution(max_steps=3000)',
  'halving': 'halving(candidates=64)',
  'exhaustive': 'exhaustive()',
  'walk': 'dqn(hidden_sizes=(1,), batch_size=1, replay_capacity=1,'
  ' epsilons=(1.0,), models=(1000,))',
  'dqn': 'dqn()',
  'dqn_light': f'dqn({_LIGHT}, batch_size=64)',
  'dqn_quick': f'dqn({_QUICK})',
  'dqn_after': f'dqn({_QUICK}, afterstates=True)',
}
AT = (10, 20, 50, 100)  # networks trained, in summary.csv
_CHUNK = 50


def main(_: list[str]) -> None:
  """Runs all searches, and writes tables and picture."""
  if not _FLAGS.landscapes:
    raise ValueError(
      '--landscapes must name files made by experiments.landscape, got none'
    )
  out, rows, summary = pathlib.Path(_FLAGS.out), [], []
  with launch.resumable():
    loaded = [landscape_lib.load_all(file) for file in _FLAGS.landscapes]
    for landscape in itertools.chain(*(each.values() for each in loaded)):
      truth = landscape.values()
      for label in _FLAGS.strategy or CONTENDERS:
        traces = search(label, landscape, out / 'traces')
        numbers = np.arange(len(traces.states))
        curves = compare.curves(traces, landscape, numbers)
        named = {'landscape': landscape.name, 'strategy': label}
        named['searches'] = len(numbers)
        rows += [named | row for row in _curve_rows(curves)]
        summary += [named | r for r in _summary_rows(curves['networks'], truth)]
      print(results.regret_table(summary, landscape.name))
  rows_lib.write(out / 'regret.csv', rows)
  rows_lib.write(out / 'summary.csv', summary)
  draw(summary).savefig(out / 'regret.png', metadata={'Software': None})
  print(f'Tables and picture: {out}')


def search(
  label: str, landscape: landscape_lib.Landscape, folder: pathlib.Path
) -> compare.Trace:
  """Returns the traces of all searches; runs those that are not stored.

  The name of a file has a digest of everything that determines its contents.
  """
  call = CONTENDERS.get(label, label)
  name, options = parse_strategy(call)
  if name == 'screened' and not options:
    raise ValueError(
      'screened needs a screening of the data, which a landscape does not have;'
      ' give starts and toggles, or run experiments.screen --parts=strategies'
    )
  strategy = traces_lib.make_strategy(landscape, name, **options)
  rounds = strategy.max_rounds
  details, searches, chunk = '', _FLAGS.seeds, _CHUNK
  if name == 'dqn':
    agent = agent_lib.DQNConfig(**options)
    details, searches = repr(agent), _FLAGS.light_seeds
    if max(agent.hidden_sizes) >= 400:
      searches, chunk = _FLAGS.wide_seeds, 1
  parts = []
  for first in range(0, searches, chunk):
    last = min(first + chunk, searches)
    asked = call, details, rounds, landscape.fingerprint, first, last
    digest = hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
    stem = f'{landscape.name.replace("/", "_")}-{call.split("(")[0]}'
    path = folder / f'{stem}-{first:03}-{digest}.npz'
    traces = traces_lib.load(path)
    if traces is None:
      print(f'{landscape.name}: {label}, searches {first} to {last - 1}')
      traces = compare.search_landscape(
        strategy, landscape, np.arange(first, last), rounds, chunk > 1
      )
      traces_lib.save(path, traces)
    parts.append(traces)
  return compare.Trace(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _curve_rows(curves: dict[str, compare.Curves]) -> Iterator[dict[str, Any]]:
  """Yields the points at which a regret changes; between them it is flat."""
  for kind, curve in curves.items():
    found = _statistics(curve)
    for x in np.flatnonzero(np.diff(found['regret'], prepend=np.inf)):
      at = {name: f'{values[x]:.6f}' for name, values in found.items()}
      yield {'cost': kind, 'spent': int(curve.cost[x]), **at}


def _summary_rows(
  curve: compare.Curves, truth: np.ndarray
) -> Iterator[dict[str, Any]]:
  """Yields the regret and the gain after the numbers of networks in `AT`.

  The gain is the accuracy of the pick divided by the mean accuracy of all
  networks, minus one: the gain over picking a network at random.
  """
  found = _statistics(curve)
  for spent in (number for number in AT if number <= len(truth)):
    at = {name: values[spent - 1] for name, values in found.items()}
    gain = (truth.max() - at['regret']) / truth.mean() - 1
    yield {
      'networks': spent,
      **{name: round(value, 5) for name, value in at.items()},
      'gain': round(gain, 4),
      'gain_band': round(at['band'] / truth.mean(), 4),
    }


def _statistics(curve: compare.Curves) -> dict[str, np.ndarray]:
  """Returns means and half their 95 % intervals, by column. Each [X]."""
  columns = ('regret', 'band', 'observed', 'observed_band')
  pairs = map(compare.mean_and_band, (curve.regret, curve.observed))
  return dict(zip(columns, itertools.chain(*pairs), strict=True))


def draw(summary: Sequence[Mapping[str, Any]]) -> figure.Figure:
  """Draws the regret of each strategy as a bar.

  After `AT[1]` networks, or as many as all landscapes have.
  """
  landscapes = rows_lib.by(('landscape',), summary).values()
  most = [max(row['networks'] for row in rows) for rows in landscapes]
  after = min(AT[1], *most)
  shown = [row for row in summary if row['networks'] == after]
  values = {
    strategy: {row['landscape']: 100 * row['regret'] for row in rows}
    for (strategy,), rows in rows_lib.by(('strategy',), shown).items()
  }
  return charts.regrets(values, after)


if __name__ == '__main__':
  launch.run(main)
