"""Traces of searches on landscapes: their files, and what they found.

Legend: T steps.
"""

import pathlib
import zipfile

import numpy as np

from aen import io as io_lib
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import strategies


def save(path: pathlib.Path, trace: compare.Trace) -> None:
  """Writes a trace atomically."""
  with io_lib.written_whole(path) as file:
    np.savez_compressed(file, **trace._asdict())


def load(path: pathlib.Path) -> compare.Trace | None:
  """Reads a trace; returns None if the file is missing or damaged."""
  try:
    with np.load(path, allow_pickle=False) as stored:
      return compare.Trace(*(stored[name] for name in compare.Trace._fields))
  except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
    return None


def path_of(
  folder: pathlib.Path, landscape: landscape_lib.Landscape
) -> pathlib.Path:
  """Returns the path of the reproduction's search of a landscape."""
  name = landscape.name.replace('/', '_')
  return folder / 'searches' / f'{name}-{landscape.fingerprint[:12]}.npz'


def load_one(
  folder: pathlib.Path, landscape: landscape_lib.Landscape
) -> compare.Trace | None:
  """Returns the reproduction's search of a landscape, [T], or None."""
  trace = load(path_of(folder, landscape))
  return trace and compare.Trace(*(field.ravel() for field in trace))


def make_strategy(
  landscape: landscape_lib.Landscape, name: str, **options: object
) -> strategies.Strategy:
  """Makes a strategy for searching a landscape."""
  return strategies.make(
    name,
    len(landscape.symmetries),
    network_of=landscape.network_of,
    epochs=landscape.validation.shape[-1],
    **options,
  )


def top_networks(
  trace: compare.Trace, landscape: landscape_lib.Landscape, count: int
) -> list[int]:
  """Returns the best networks that a search saw, the first of equals first."""
  states, values = np.ravel(trace.states), np.ravel(trace.values)
  order = np.argsort(-values, kind='stable')
  used = order[states[order] != strategies.NO_STATE]
  networks = landscape.network_of[states[used]].tolist()
  return [*dict.fromkeys(networks)][:count]


def epsilons(trace: compare.Trace, config: agent_lib.DQNConfig) -> np.ndarray:
  """Returns the ε of each step. float32 [T]."""
  states = np.concatenate([[0], np.asarray(trace.states)])
  new = np.zeros(len(states), bool)
  new[np.unique(states, return_index=True)[1]] = True
  new &= states != strategies.NO_STATE
  return np.asarray(agent_lib.epsilon(config, new.cumsum()[:-1]))


def means(
  trace: compare.Trace, config: agent_lib.DQNConfig
) -> tuple[np.ndarray, np.ndarray]:
  """Returns each ε, in descending order, and the mean value of its steps."""
  used = np.asarray(trace.states) != strategies.NO_STATE
  made, values = epsilons(trace, config)[used], np.asarray(trace.values)[used]
  levels = np.unique(made)[::-1]
  return levels, np.array([values[made == level].mean() for level in levels])
