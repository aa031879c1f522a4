r"""What does an executor cost, and how many workers can one head serve?

First measures the overhead of a job: children that take no time, in processes
and, if installed, on Ray, with one worker and with two. Then simulates 10, 100
and 1000 workers whose children take two seconds each; the head, which makes
jobs and writes the store, is real. Finally measures how many children per
second the head can handle.

Ten minutes:
  python -m experiments.executor_benchmark
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import importlib.util
import pathlib
import tempfile
import time
from typing import Any

import jax.numpy as jnp
from matplotlib import ticker
import numpy as np

from aen.report import style
from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors
from aen.train import store as store_lib
from experiments import fake_children
from experiments import launch
from experiments import timing

_FLAGS = launch.define(
  jobs=(500, 'Jobs for measuring the overhead.', 1),
  simulated=([10, 100, 1000], 'Numbers of workers to simulate.'),
  children=(
    100_000,
    'Children of the largest simulation; smaller ones last as long.',
    1,
  ),
  seconds=(2.0, 'Seconds that a simulated child takes.'),
)
_OUT = timing.output('executor_benchmark')


def main(_: list[str]) -> None:
  """Measures, prints, and writes two tables and a figure."""
  timing.collect(overheads(), _OUT('overhead.csv'))
  lags: dict[int, np.ndarray] = {}
  timing.collect(simulations(lags), _OUT('simulation.csv'))
  path = _OUT('scaling.png')
  path.write_bytes(style.png(draw(lags)))
  print(f'Figure: {path}')


def overheads() -> Iterator[Mapping[str, Any]]:
  """Yields the overhead of a job, by executor and number of workers."""
  for name in ('processes', 'ray'):
    if name == 'ray' and importlib.util.find_spec('ray') is None:
      print('ray: not installed')
      continue
    for workers in (1, 2):
      with executors.EXECUTORS[name](workers) as executor:
        for count in (10 * workers, _FLAGS.jobs):  # the first starts workers
          with evaluated(fake_children.instead(executor)) as (evaluate, _):
            seconds, _ = timing.timed(evaluate, requests(count))
      yield {
        'executor': name,
        'workers': workers,
        'jobs': _FLAGS.jobs,
        'milliseconds per job': 1e3 * workers * seconds / _FLAGS.jobs,
        'jobs per second': _FLAGS.jobs / seconds,
      }


@contextlib.contextmanager
def evaluated(executor: Any) -> Iterator[tuple[Any, list[tuple[float, float]]]]:
  """Yields an evaluator, and the times when children finish and are stored."""
  times: list[tuple[float, float]] = []

  def note(records: Sequence[store_lib.Record]) -> None:
    now = time.time()
    times.extend((r.origin.finished, now) for r in records if r.origin)

  nothing = child_lib.Examples(jnp.zeros((1, 1)), jnp.zeros(1, jnp.int32))
  with (
    tempfile.TemporaryDirectory() as folder,
    store_lib.Results(pathlib.Path(folder, 'results.sqlite')) as store,
  ):
    evaluator = evaluate_lib.Evaluator(
      space=fake_children.SPACE,
      data=child_lib.ChildData(nothing, nothing),
      fingerprint='fake data',
      recipe=fake_children.RECIPE,
      store=store,
      on_trained=note,
      executor=executor,
      workers=executors.Workers(executor),
      folder=folder,
    )
    yield evaluator, times


def requests(count: int) -> list[tuple[int, int]]:
  """Returns requests for children of 216 networks."""
  return [(i % 216, i // 216) for i in range(count)]


def simulations(lags: dict[int, np.ndarray]) -> Iterator[Mapping[str, Any]]:
  """Yields how far the head lags behind, by number of workers."""
  largest = max(_FLAGS.simulated)
  for workers in [*_FLAGS.simulated, None]:  # None: as fast as the head can
    seconds = 0.0 if workers is None else _FLAGS.seconds
    share = 5 if workers is None else largest / workers
    count = max(1, int(_FLAGS.children / share))
    executor = fake_children.Simulated(workers or largest, seconds)
    with evaluated(executor) as (evaluate, times):
      start, busy = time.time(), time.process_time()
      evaluate(requests(count))
      wall, busy = time.time() - start, time.process_time() - busy
    finished, stored = np.array(times).T
    if workers is not None:
      lags[workers] = np.stack([finished, stored], axis=1) - finished.min()
    yield {
      'workers': workers or 'no limit',
      'children': count,
      'seconds': wall,
      'children per second': count / wall,
      'median lag (ms)': 1e3 * float(np.median(stored - finished)),
      'largest lag (ms)': 1e3 * float((stored - finished).max()),
      'head busy (%)': 100 * busy / wall,
      'microseconds of the head per child': 1e6 * busy / count,
      'utilisation (%)': 100 * count * seconds / wall / (workers or 1),
    }


def draw(lags: Mapping[int, np.ndarray]) -> Any:
  """Draws children finished and stored over time, and the lag between."""
  drawn = style.sheet(7.5, 3.4)
  left, right = drawn.subplots(1, 2)
  for color, (workers, times) in zip(
    style.QUALITATIVE, sorted(lags.items()), strict=False
  ):
    count = np.arange(1, len(times) + 1)
    label = f'{workers} workers'
    left.plot(np.sort(times[:, 0]), count, color=color, linewidth=3, alpha=0.35)
    left.plot(np.sort(times[:, 1]), count, color=color, label=label)
    lag = times[:, 1] - times[:, 0]
    right.plot(times[:, 0], lag, '.', color=color, markersize=2, alpha=0.5)
  left.set_yscale('log')
  left.yaxis.set_major_formatter(ticker.EngFormatter(sep=''))
  right.set_ylim(bottom=0)
  title = 'Children finished (pale) and stored'
  style.tidy(left, title, 'seconds', 'children', grid='both')
  title = 'From the end of a child to the store'
  style.tidy(right, title, 'seconds', 'lag in seconds', grid='both')
  style.legend(drawn, columns=3)
  return drawn


if __name__ == '__main__':
  launch.run(main)
