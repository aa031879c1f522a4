"""Finds symmetries by augmentation: learned as in Augerino, or compared.

Augerino (Benton et al. 2020, arXiv:2010.11882) averages a network over sampled
transformations and learns the ranges of the transformations together with the
weights, by a loss that rewards wide ranges: the widths of a uniform
distribution over a Lie algebra. Permutations have no such range. Here it is the
probability of applying a uniformly random power: 0 is no augmentation, 1 the
whole cyclic group. Discrete choices are relaxed, so that gradients reach the
probabilities. This is an independent implementation of the idea.

Legend: N images, B batch size, S symmetries of order up to L, P points.
"""

from collections.abc import Mapping
import functools
import itertools
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

import aen
from aen.groups import paper
from aen.groups.symmetries import PAPER_SYMMETRIES
from experiments import timing

BATCH, RATE = 64, 1e-3  # Adam's
STEPS = 250  # as the children of a search
FINAL_STEPS = 625  # as its retrained networks
_WIDTH = 128  # hidden units of the dense network
# Of learned augmentation: the weight of the reward, the temperature of the
# relaxation, draws per image, initial logits and their learning rate.
_REWARD, _TEMPERATURE, _COPIES, _START, _LOGIT_RATE = 0.05, 0.5, 2, -1.0, 0.03
_SPLITS, _STANDARD_ERRORS = 4, 2  # of compared augmentation


def cycle(name: str, side: int) -> list[np.ndarray]:
  """Returns the powers of a symmetry, the identity first."""
  return paper.elements([aen.permutation(name, (side, side))], side * side)


@functools.cache
def tables(names: tuple[str, ...], side: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns powers int32 [S, L, P], padded with identities, and orders [S]."""
  cycles = [cycle(name, side) for name in names]
  orders = np.array([len(powers) for powers in cycles])
  filled = [c + c[:1] * (max(orders) - len(c)) for c in cycles]
  return np.array(filled, np.int32), orders


def dense(num_classes: int) -> nn.Module:
  """Returns a dense network with one hidden layer."""
  return timing.DenseMLP((_WIDTH, num_classes))


@functools.partial(
  jax.jit, static_argnames=('model', 'steps', 'copies', 'learned')
)
def fit(
  key: jax.Array,
  model: nn.Module,  # maps images [B, H, H] to class logits
  collections: Mapping[str, Any],  # its variables beside the parameters
  images: jax.Array,  # float32 [N, H, H]
  labels: jax.Array,  # int [N]
  powers: jax.Array,  # int [S, L, P]
  orders: jax.Array,  # int [S]
  logits: jax.Array,  # float32 [S]
  *,
  steps: int = STEPS,
  copies: int = 1,
  learned: bool = False,
) -> tuple[Any, jax.Array]:
  """Trains a network on randomly transformed images.

  Symmetry k applies to an image with probability p_k = sigmoid(logits[k]), and
  is then a uniformly random power g of it, which may be the identity. Relaxed,

    x ← x + b (g x - x),  b = sigmoid((logits[k] + logistic noise)/temperature),

  for all symmetries in turn. Logits of ±∞ mean always and never. Outputs are
  averaged over `copies` draws per image. If `learned`, the logits are trained
  too, by the loss cross entropy - reward · ‖p‖₂. Returns parameters and logits.
  """
  init_key, train_key = jax.random.split(key)
  _, variables = model.apply(
    collections, images[:1], rngs={'params': init_key}, mutable=['params']
  )

  def loss_fn(params: Any, logits: jax.Array, key: jax.Array) -> jax.Array:
    rows_key, noise_key, power_key = jax.random.split(key, 3)
    rows = jax.random.randint(rows_key, (BATCH,), 0, len(images))
    x = jnp.tile(images[rows].reshape(BATCH, -1), (copies, 1))
    noise = jax.random.logistic(noise_key, (len(orders), len(x)))
    gates = nn.sigmoid((logits[:, None] + noise) / _TEMPERATURE)

    def apply(x: jax.Array, inputs: Any) -> tuple[jax.Array, None]:
      key, powers, order, gate = inputs
      drawn = powers[jax.random.randint(key, (len(x),), 0, order)]
      changed = jnp.take_along_axis(x, drawn, axis=1)
      return x + gate[:, None] * (changed - x), None

    keys = jax.random.split(power_key, len(orders))
    x, _ = jax.lax.scan(apply, x, (keys, powers, orders, gates))
    outputs: Any = model.apply(
      {'params': params, **collections}, x.reshape(-1, *images.shape[1:])
    )
    outputs = outputs.reshape(copies, BATCH, -1).mean(axis=0)
    losses = optax.softmax_cross_entropy_with_integer_labels(
      outputs, labels[rows]
    )
    width = jnp.sqrt(jnp.sum(nn.sigmoid(logits) ** 2) + 1e-12)
    return losses.mean() - _REWARD * width

  optimizer, tuner = optax.adam(RATE), optax.adam(_LOGIT_RATE)

  def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
    params, logits, state, tuner_state = carry
    gradients, slopes = jax.grad(loss_fn, (0, 1))(params, logits, key)
    updates, state = optimizer.update(gradients, state)
    params = optax.apply_updates(params, updates)
    if learned:
      changes, tuner_state = tuner.update(slopes, tuner_state)
      logits = optax.apply_updates(logits, changes)
    return (params, logits, state, tuner_state), None

  params = variables['params']
  start = params, logits, optimizer.init(params), tuner.init(logits)
  keys = jax.random.split(train_key, steps)
  (params, logits, *_), _ = jax.lax.scan(step, start, keys)
  return params, logits


@functools.partial(jax.jit, static_argnames='model')
def accuracy(
  model: nn.Module, variables: Any, images: jax.Array, labels: jax.Array
) -> jax.Array:
  """Returns the classification accuracy of a network."""
  outputs: Any = model.apply(variables, images)
  return (outputs.argmax(axis=-1) == labels).mean()


def learned(
  images: np.ndarray,
  labels: np.ndarray,
  seed: int,
  symmetries: tuple[str, ...] = PAPER_SYMMETRIES,
) -> tuple[str, ...]:
  """Finds symmetries as Augerino does: those with a wide learned range.

  Probabilities start at 0.27; symmetries that end above 1/2 are found.
  """
  _, logits = fit(
    jax.random.key(seed),
    dense(int(labels.max()) + 1),
    {},
    images,
    labels,
    *tables(symmetries, images.shape[1]),
    jnp.full(len(symmetries), _START),
    steps=FINAL_STEPS,
    copies=_COPIES,
    learned=True,
  )
  return tuple(itertools.compress(symmetries, np.asarray(logits) > 0))


def compared(
  images: np.ndarray,
  labels: np.ndarray,
  seed: int,
  symmetries: tuple[str, ...] = PAPER_SYMMETRIES,
) -> tuple[str, ...]:
  """Finds symmetries that improve validation accuracy as an augmentation.

  On each of four splits, with a quarter for validation, trains one network per
  candidate and one without augmentation, with equal seeds. Symmetries that
  improve accuracy by more than two standard errors of the mean difference over
  splits are found.
  """
  rng, held_out = np.random.default_rng(seed), len(labels) // 4
  model = dense(int(labels.max()) + 1)
  powers, orders = tables(symmetries, images.shape[1])
  always = [(k, jnp.inf) for k in range(len(symmetries))]
  candidates = [*always, (0, -jnp.inf)]  # the last one is none
  scores = np.empty((_SPLITS, len(candidates)))
  for split in range(_SPLITS):
    order = rng.permutation(len(labels))
    validation, train = order[:held_out], order[held_out:]
    for number, (k, logit) in enumerate(candidates):
      params, _ = fit(
        jax.random.key(1000 * seed + split),
        model,
        {},
        images[train],
        labels[train],
        powers[[k]],
        orders[[k]],
        jnp.full(1, logit),
      )
      scores[split, number] = accuracy(
        model, {'params': params}, images[validation], labels[validation]
      )
  gains = scores[:, :-1] - scores[:, -1:]
  clear = gains.mean(axis=0) > _STANDARD_ERRORS * stats.sem(gains, axis=0)
  return tuple(itertools.compress(symmetries, clear))
