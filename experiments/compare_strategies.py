r"""Which strategy finds a good network soonest?

Runs strategies on landscapes, where every network's true value is known, with
many seeds each, and writes regret.csv, summary.csv and regret.png.

  python -m experiments.compare_strategies --landscapes=a.npz,b.npz

A search sees one seed's validation accuracies and picks the network with the
best it has seen. Regret is how much that pick falls short of the best network,
both judged by the mean over all seeds of test accuracy. Observed regret is the
same, judged by the accuracies that the search saw: how well it searches, apart
from how well those tell networks apart.

A strategy is a name, of `CONTENDERS` below or of `aen.search.strategies`, or a
call with options, such as --strategy='dqn(hidden_sizes=(64, 64))'. Results are
kept in --out and reused; delete its folder `traces` to start over. A few
minutes a landscape; the paper's DQN adds one or two minutes per seed. The same
command resumes an interrupted run.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import hashlib
import pathlib
from typing import Any

from absl import flags
from matplotlib import figure
import numpy as np

from aen.report import charts
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import strategies
from experiments import launch
from experiments import results
from experiments import rows as rows_lib
from experiments import traces as traces_lib

_LANDSCAPES = flags.DEFINE_list(
  'landscapes', None, 'Landscape files (.npz), separated by commas.'
)
_STRATEGIES = flags.DEFINE_multi_string(
  'strategy', None, 'A strategy; repeat for several. All contenders by default.'
)
_SEEDS = flags.DEFINE_integer(
  'seeds', 200, 'Searches of each strategy.', lower_bound=2
)
_LIGHT_SEEDS = flags.DEFINE_integer(
  'light_seeds', 100, 'Searches of each DQN but the wide ones.', lower_bound=2
)
_WIDE_SEEDS = flags.DEFINE_integer(
  'wide_seeds',
  20,
  "Searches of each DQN with the paper's 400-wide network.",
  lower_bound=2,
)
_JUDGE = flags.DEFINE_enum(
  'judge', 'test', ['test', 'validation'], 'Accuracies that count as true.'
)
_OUT = flags.DEFINE_string(
  'out', 'runs/compare_strategies', 'Folder for traces, tables and picture.'
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
_LOCAL_ROUNDS = 3000


def main(_: list[str]) -> None:
  """Compares, prints and writes tables and picture."""
  if not _LANDSCAPES.value:
    raise ValueError(
      '--landscapes must name files made by experiments.landscape, got none'
    )
  out = pathlib.Path(_OUT.value)
  rows: list[dict[str, Any]] = []
  summary: list[dict[str, Any]] = []
  with launch.resumable():
    for landscape in [landscape_lib.load(f) for f in _LANDSCAPES.value]:
      for label in _STRATEGIES.value or CONTENDERS:
        contender = Contender.of(label, landscape)
        traces = contender.search(landscape, out / 'traces')
        numbers = np.arange(contender.searches)
        curves = compare.curves(traces, landscape, numbers, _JUDGE.value)
        named = {'landscape': landscape.name, 'strategy': label}
        named['searches'] = contender.searches
        rows += [named | row for row in _curve_rows(curves)]
        truth = landscape.values(_JUDGE.value)
        summary += [
          named | row for row in _summary_rows(curves['networks'], truth)
        ]
      print(results.regret_table(summary, landscape.name), flush=True)
  rows_lib.write(out / 'regret.csv', rows)
  rows_lib.write(out / 'summary.csv', summary)
  draw(summary).savefig(out / 'regret.png', metadata={'Software': None})
  print(f'Tables and picture: {out}')


@dataclasses.dataclass(frozen=True)
class Contender:
  """A strategy, how long it runs and how often."""

  label: str
  call: str
  details: str  # whatever else decides what it does
  strategy: strategies.Strategy
  rounds: int
  searches: int
  chunk: int  # searches at once

  @classmethod
  def of(cls, label: str, landscape: landscape_lib.Landscape) -> 'Contender':
    """Returns the strategy of a label, for a landscape."""
    call = CONTENDERS.get(label, label)
    name, options = parse(call)
    strategy = traces_lib.make_strategy(landscape, name, **options)
    details, searches, chunk = '', _SEEDS.value, _CHUNK
    if name == 'dqn':
      agent = agent_lib.DQNConfig(**options)
      details, wide = repr(agent), max(agent.hidden_sizes) >= 400
      searches = _WIDE_SEEDS.value if wide else _LIGHT_SEEDS.value
      chunk = 1 if wide else _CHUNK
    rounds = _rounds(name, options, landscape)
    return cls(label, call, details, strategy, rounds, searches, chunk)

  def search(
    self, landscape: landscape_lib.Landscape, folder: pathlib.Path
  ) -> compare.Trace:
    """Returns the traces of all searches; runs those that are not known."""
    parts = []
    for first in range(0, self.searches, self.chunk):
      last = min(first + self.chunk, self.searches)
      path = folder / self._file_name(landscape, first, last)
      traces = traces_lib.load(path)
      if traces is None:
        print(
          f'{landscape.name}: {self.label}, searches {first} to {last - 1}',
          flush=True,
        )
        traces = compare.search_landscape(
          self.strategy,
          landscape,
          np.arange(first, last),
          self.rounds,
          vectorised=self.chunk > 1,
        )
        traces_lib.save(path, traces)
      parts.append(traces)
    return compare.Trace(*(np.concatenate(x) for x in zip(*parts, strict=True)))

  def _file_name(
    self, landscape: landscape_lib.Landscape, first: int, last: int
  ) -> str:
    asked = self.call, self.details, self.rounds, landscape.fingerprint
    digest = hashlib.sha256(repr((*asked, first, last)).encode()).hexdigest()
    name, short = landscape.name.replace('/', '_'), self.call.split('(')[0]
    return f'{name}-{short}-{first:03}-{digest[:16]}.npz'


def parse(call: str) -> tuple[str, dict[str, Any]]:
  """Reads a name, or a call with literal keyword arguments.

  >>> parse('halving(factor=3)')
  ('halving', {'factor': 3})
  """
  try:
    tree = ast.parse(call.strip(), mode='eval').body
    if isinstance(tree, ast.Name):
      return tree.id, {}
    if isinstance(tree, ast.Call) and not tree.args:
      options = {k.arg: ast.literal_eval(k.value) for k in tree.keywords}
      return tree.func.id, options
  except (SyntaxError, ValueError, AttributeError, TypeError):
    pass
  raise ValueError(
    f'expected a strategy such as random or dqn(discount=0.9), got {call!r}'
  )


def _rounds(
  name: str, options: dict[str, Any], landscape: landscape_lib.Landscape
) -> int:
  """Returns how many rounds a search takes at most."""
  per_round = options.get('per_round', 1)
  steps = {
    'exhaustive': len(landscape),
    'random': len(landscape.network_of),
    'halving': 3 * len(landscape),
    'local': _LOCAL_ROUNDS,
    'evolution': options.get('max_steps', 1000),
    'dqn': options.get('max_steps', agent_lib.DQNConfig().max_steps),
  }[name]
  if name == 'random' and options.get('distinct', True):
    steps = len(landscape)
  return -(-steps // per_round)


def _curve_rows(curves: dict[str, compare.Curves]) -> Iterator[dict[str, Any]]:
  """Yields the points at which a regret changes; between them it is flat."""
  for kind, curve in curves.items():
    statistics = _statistics(curve)
    for x in np.flatnonzero(np.diff(statistics['regret'], prepend=np.inf)):
      yield {
        'cost': kind,
        'spent': int(curve.cost[x]),
        **{name: f'{values[x]:.6f}' for name, values in statistics.items()},
      }


def _summary_rows(
  curve: compare.Curves, truth: np.ndarray
) -> Iterator[dict[str, Any]]:
  """Yields the regret and the gain after some numbers of networks.

  The gain is the accuracy of the pick over that of the average network, less
  one: how much better than picking a network at random.
  """
  statistics = _statistics(curve)
  for spent in AT:
    if spent <= len(truth):
      at = {name: values[spent - 1] for name, values in statistics.items()}
      gain = (truth.max() - at['regret']) / truth.mean() - 1
      yield {
        'networks': spent,
        **{name: round(value, 5) for name, value in at.items()},
        'gain': round(gain, 4),
        'gain_band': round(at['band'] / truth.mean(), 4),
      }


def _statistics(curve: compare.Curves) -> dict[str, np.ndarray]:
  """Returns means and half their 95 % intervals, by column. Each [X]."""
  regret, band = compare.mean_and_band(curve.regret)
  observed, observed_band = compare.mean_and_band(curve.observed)
  return {
    'regret': regret,
    'band': band,
    'observed': observed,
    'observed_band': observed_band,
  }


def draw(summary: Sequence[Mapping[str, Any]]) -> figure.Figure:
  """Draws each strategy's regret, one bar per strategy.

  Args:
    summary: The rows of summary.csv; those after `AT[1]` networks are drawn, or
      after as many as all landscapes have.
  """
  landscapes = {row['landscape'] for row in summary}
  spent = Counter((row['strategy'], int(row['networks'])) for row in summary)
  common = {n for (_, n), count in spent.items() if count == len(landscapes)}
  after = min(AT[1], max(common))
  values: dict[str, dict[str, float]] = {}
  for row in summary:
    if int(row['networks']) == after:
      of_strategy = values.setdefault(row['strategy'], {})
      of_strategy[row['landscape']] = 100 * float(row['regret'])
  return charts.regrets(values, after)


if __name__ == '__main__':
  launch.run(main)
