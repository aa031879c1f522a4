"""Searches of the reproduction: kept in files, and what they found."""

import pathlib

import numpy as np

from aen import io as io_lib
from aen.search import agent as agent_lib
from aen.search import compare
from aen.search import landscape as landscape_lib
from aen.search import strategies


def path(
  folder: pathlib.Path, landscape: landscape_lib.Landscape
) -> pathlib.Path:
  """Returns where the search of a landscape is kept."""
  name = landscape.name.replace('/', '_')
  return folder / 'searches' / f'{name}-{landscape.fingerprint[:12]}.npz'


def write(path: pathlib.Path, trace: compare.Trace) -> None:
  """Writes a trace, all of it or nothing."""
  with io_lib.written_whole(path) as file:
    np.savez_compressed(
      file, states=trace.states, epochs=trace.epochs, values=trace.values
    )


def read(path: pathlib.Path) -> compare.Trace:
  """Reads a trace, [T]."""
  with np.load(path, allow_pickle=False) as stored:
    return compare.Trace(
      *(stored[field].ravel() for field in compare.Trace._fields)
    )


def top_networks(
  found: compare.Trace, landscape: landscape_lib.Landscape, count: int
) -> list[int]:
  """Returns the networks that a search saw do best, the first of equals."""
  states, values = np.asarray(found.states), np.asarray(found.values)
  order = np.argsort(-values, kind='stable')
  used = order[states[order] != strategies.NO_STATE]
  networks = landscape.network_of[states[used]].tolist()
  return [*dict.fromkeys(networks)][:count]


def epsilons(found: compare.Trace, config: agent_lib.DQNConfig) -> np.ndarray:
  """Returns the ε with which each step was made. float32 [T]."""
  states = np.concatenate([[0], np.asarray(found.states)])
  new = np.zeros(len(states), bool)
  new[np.unique(states, return_index=True)[1]] = True
  new &= states != strategies.NO_STATE
  return np.asarray(agent_lib.epsilon(config, new.cumsum()[:-1]))


def means(
  found: compare.Trace, config: agent_lib.DQNConfig
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the mean value of the steps made with each ε, largest ε first."""
  used = np.asarray(found.states) != strategies.NO_STATE
  made, values = epsilons(found, config)[used], np.asarray(found.values)[used]
  levels = np.unique(made)[::-1]
  return levels, np.array([values[made == level].mean() for level in levels])
