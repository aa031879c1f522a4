"""Chooses which compiled program trains which network.

Layers whose abelian groups have the same structure share a program, which takes
their symmetries as inputs (see `aen.groups.spectral`). Each further structure
makes some networks faster, but takes as long to compile as a few children take
to train. So a few structures are chosen that serve all networks of a space.

Legend: K symmetries, R networks, L layers (N inputs, M outputs).
"""

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from aen.groups import spectral
from aen.groups import symmetries as symmetries_lib
from aen.groups.symmetries import permutation

# What a program must save to be worth compiling, in nanoseconds of a training
# step, summed over networks: 1.5 seconds in the 250 steps of a child. Compiling
# a program takes 2.5 seconds, reading a compiled one half a second. Another
# value may assign other programs, which round results differently.
_COMPILATION = 6e6
# What a program must save if it differs from another by less padding alone: 0.5
# seconds, in the same unit. Both round alike, so this may change at any time.
_READING = 2e6
_PADDING = 0.77  # nanoseconds per weight of padding, as measured


class Choice(NamedTuple):
  """A network's program, and the group that its layers are computed with."""

  subset: int  # generators of the group, as a state; 0 for gathered kernels
  program: int  # a state that stands for all networks of the program
  sizes: tuple[int, ...]  # padded number of weights of each layer, [L]


class Programs(NamedTuple):
  """The programs of a space."""

  choices: list[Choice]  # one per network
  forms: dict[int, list[spectral.Spectral]]  # of each layer, by subset


# A group that permutes a layer's inputs and outputs, and the number of inputs.
Layer = tuple[spectral.Abelian, int]


def abelian_layers(
  symmetries: Sequence[symmetries_lib.SymmetryLike],
  grids: Sequence[Sequence[int]],
) -> dict[int, list[Layer]]:
  """Returns the layers of each set of commuting symmetries, by its state."""
  starts = np.cumsum([0, *map(math.prod, grids)]).tolist()
  generators = [
    np.concatenate(
      [i + permutation(s, g) for i, g in zip(starts, grids, strict=False)]
    ).astype(np.int32)
    for s in symmetries
  ]
  layers = list(zip(starts, starts[1:], starts[2:], strict=False))
  return {
    subset: [(group.on(a, c), b - a) for a, b, c in layers]
    for subset, group in spectral.abelian_subsets(
      generators, starts[-1]
    ).items()
  }


def choose(
  symmetries: Sequence[symmetries_lib.Symmetry],
  grids: Sequence[Sequence[int]],  # of the inputs, and of each layer's outputs
  networks: Sequence[int],  # all symmetries of each, as a state
  num_weights: np.ndarray,  # free weights, [R, L]
) -> Programs:
  """Chooses a program for every network, the first of which is the baseline.

  Greedily adds the structure that saves most, as long as it saves more than a
  compilation costs.
  """
  costs, forms = {}, {}
  by_structure: dict[tuple[spectral.Structure, ...], list[int]] = {}
  for subset, layers in abelian_layers(symmetries, grids).items():
    costs[subset] = sum(spectral.step_cost(*layer) for layer in layers)
    forms[subset] = [spectral.spectral_form(*layer) for layer in layers]
    structures = tuple(form.structure for form in forms[subset])
    by_structure.setdefault(structures, []).append(subset)

  def fastest(subsets: Sequence[int]) -> list[tuple[float, Choice]]:
    """Returns each network's fastest group among some of one structure."""
    sizes = tuple(form.index.size for form in forms[subsets[0]])
    found = []
    for symmetries_of in networks:
      own = [s for s in subsets if not s & ~symmetries_of]
      best = min(own, key=costs.__getitem__, default=None)
      cost = math.inf if best is None else costs[best]
      found.append((cost, Choice(best or 0, subsets[0], sizes)))
    return found

  def total(option: list[tuple[float, Choice]]) -> float:
    return sum(cost for cost, _ in option)

  options = [fastest(subsets) for subsets in by_structure.values()]
  chosen, saved = fastest([0]), math.inf
  while saved > _COMPILATION:
    best = chosen
    merged = (list(map(min, best, option)) for option in options)
    chosen = min(merged, key=total)
    saved = total(best) - total(chosen)
  choices = [choice for _, choice in best]
  # Only the baseline needs a weight for every entry of a gathered kernel.
  gathered = [n for n, choice in enumerate(choices) if n and not choice.subset]
  if gathered:
    most = num_weights[gathered].max(0)
    if _PADDING * len(gathered) * (num_weights[0] - most).sum() > _READING:
      padded_less = Choice(0, networks[gathered[0]], tuple(most.tolist()))
      for network in gathered:
        choices[network] = padded_less
  used = {choice.subset for choice in choices}
  return Programs(choices, {subset: forms[subset] for subset in used})
