"""Evaluating networks: looked up in the store, or trained in batches.

A search asks for (network, seed) pairs and gets records. Whoever has a cluster
passes `search` another evaluator.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import functools
import time
from typing import Any
from typing import Protocol

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from aen.data import dataset as dataset_lib
from aen.train import child as child_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib
from aen.train.store import Record

Request = tuple[int, int]  # a network and a seed
# (requests, epochs or None for the recipe's) -> one record per request
Evaluate = Callable[[Sequence[Request], int | None], list[Record]]


class Networks(Protocol):
  """What an evaluator needs of a search space; see `aen.search.space.Space`."""

  def key(self, network: int, /) -> str:
    """Returns a name that equal networks share."""

  def names(self, network: int, /) -> tuple[str, ...]:
    """Returns the shortest names of a network."""

  def num_weights(self, network: int, /) -> int:
    """Returns the number of free weights."""

  def program(self, network: int, /) -> nn.Module:
    """Returns the model that trains it, padded."""

  def inputs(self, network: int, /) -> child_lib.ChildInputs:
    """Returns what makes the program this network."""

  def unpad(self, network: int, params: Any, /) -> Any:
    """Returns the program's parameters as the network's."""


@dataclasses.dataclass(frozen=True)
class Scaling:
  """Standardises pixels: (x - mean) / std."""

  mean: float
  std: float

  def __call__(self, images: np.ndarray) -> np.ndarray:
    """Returns float32 images."""
    scaled = (np.asarray(images, np.float32) - self.mean) / self.std
    return scaled.astype(np.float32, copy=False)


def scaling_of(images: np.ndarray) -> Scaling:
  """Returns the published scaling of grey levels, else mean 0, variance 1."""
  if images.dtype == np.uint8 and images.ndim == 3:
    mean, std = dataset_lib.PUBLISHED_MEAN, dataset_lib.PUBLISHED_STD
    return Scaling(255 * mean, 255 * std)
  std = float(images.std(dtype=np.float64))
  if std == 0:
    raise ValueError(
      'all pixels of all training images have the same value; give images that'
      ' differ'
    )
  return Scaling(float(images.mean(dtype=np.float64)), std)


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluator:
  """Trains the children that are not in the store yet.

  Attributes:
    space: What the numbers of networks mean.
    data: The images.
    fingerprint: The fingerprint of these images.
    recipe: The children's hyperparameters.
    store: Where records are kept; each batch is one transaction.
    keep_params: Whether to keep the parameters too.
    children_per_batch: As in `train_children`.
    on_trained: Called with the records of every batch.
  """

  space: Networks
  data: child_lib.ChildData
  fingerprint: str
  recipe: recipe_lib.Recipe
  store: store_lib.Results
  keep_params: bool = False
  children_per_batch: int | None = None
  on_trained: Callable[[Sequence[Record]], None] = lambda records: None

  def __call__(
    self, requests: Sequence[Request], epochs: int | None = None
  ) -> list[Record]:
    """Returns one record per request, in order.

    Args:
      requests: The children.
      epochs: How long to train them, instead of the recipe's.
    """
    recipe = self.recipe
    if epochs is not None:
      recipe = dataclasses.replace(recipe, epochs=epochs)
    found: dict[Request, Record] = {}
    missing = []
    for request in dict.fromkeys(requests):
      record = self.store.get(self._key(request, recipe), self.keep_params)
      if record is None or (self.keep_params and record.params is None):
        missing.append(request)
      else:
        found[request] = record
    for batch, devices in self._batches(missing):
      records = self._train(batch, devices, recipe)
      self.store.put(records)
      self.on_trained(records)
      found |= dict(zip(batch, records, strict=True))
    return [found[request] for request in requests]

  def _key(
    self, request: Request, recipe: recipe_lib.Recipe
  ) -> store_lib.ChildKey:
    network, seed = request
    return store_lib.ChildKey(
      network=self._network_key(network),
      data=self.fingerprint,
      recipe=recipe_lib.recipe_key(recipe),
      seed=int(seed),
    )

  @functools.cached_property
  def _network_key(self) -> Callable[[int], str]:
    return functools.lru_cache(maxsize=None)(self.space.key)

  def _batches(
    self, requests: Sequence[Request]
  ) -> Iterator[tuple[list[Request], list[jax.Device]]]:
    """Yields batches of children that share a program, and their devices."""
    each = self.children_per_batch or child_lib.default_batch(jax.devices()[0])
    by_program: dict[nn.Module, list[Request]] = {}
    for request in requests:
      by_program.setdefault(self.space.program(request[0]), []).append(request)
    for same in by_program.values():
      devices = jax.devices()[: -(-len(same) // each)]  # none is idle
      size = each * len(devices)
      for start in range(0, len(same), size):
        yield same[start : start + size], devices

  def _train(
    self,
    batch: Sequence[Request],
    devices: Sequence[jax.Device],
    recipe: recipe_lib.Recipe,
  ) -> list[Record]:
    start = time.perf_counter()
    networks, seeds = zip(*batch, strict=True)
    inputs = jax.tree.map(
      lambda *leaves: jnp.stack(leaves), *map(self.space.inputs, networks)
    )
    kernel_init = recipe_lib.INITIALIZERS[recipe.initializer].kernel_init
    trained = child_lib.train_children(
      jnp.stack([jax.random.key(seed) for seed in seeds]),
      inputs.collections,
      self.data,
      child_lib.ChildConfig(
        self.space.program(networks[0]).clone(kernel_init=kernel_init),
        recipe,
        self.keep_params,
      ),
      children_per_batch=self.children_per_batch,
      devices=devices,
      augmentations=inputs.augmentations,
    )
    trained = jax.device_get(trained)
    seconds = (time.perf_counter() - start) / len(batch)
    return [
      self._record(
        request, jax.tree.map(lambda leaf, i=i: leaf[i], trained), recipe
      ).replace(seconds=seconds)
      for i, request in enumerate(batch)
    ]

  def _record(
    self, request: Request, trained: Record, recipe: recipe_lib.Recipe
  ) -> Record:
    """Adds who the child is; curves become tuples of floats."""
    network, _ = request
    test = 0 if self.data.test is None else len(self.data.test.labels)
    few = 0 if self.data.few is None else int(self.data.few.sum())

    def accuracy(curve: Any, total: int) -> tuple[float, ...]:
      """Returns count / total in double precision; R² as it is."""
      if self.data.validation.labels.dtype.kind == 'f' or (
        recipe.criterion == 'balanced_accuracy'
      ):
        return tuple(map(float, curve))
      return tuple(round(float(value) * total) / total for value in curve)

    params = trained.params
    return trained.replace(
      train_loss=tuple(map(float, trained.train_loss)),
      validation_accuracy=accuracy(
        trained.validation_accuracy, len(self.data.validation.labels)
      ),
      validation_loss=tuple(map(float, trained.validation_loss)),
      test_accuracy=accuracy(trained.test_accuracy, test),
      few_test_accuracy=accuracy(trained.few_test_accuracy, few),
      diverged=bool(trained.diverged),
      params=None if params is None else self.space.unpad(network, params),
      key=self._key(request, recipe),
      symmetries=' + '.join(self.space.names(network)),
      num_weights=self.space.num_weights(network),
    )


def make_evaluator(
  data: dataset_lib.Dataset,
  scaling: Scaling | None = None,
  *,
  measure_test: bool = False,
  few: np.ndarray | None = None,
  **options: Any,
) -> Evaluator:
  """Returns an evaluator that trains on a data set.

  Args:
    data: The images.
    scaling: Applied to all images; `scaling_of` by default.
    measure_test: Whether to measure test accuracy after every epoch.
    few: Test images whose accuracy is also measured apart. bool [N]
    **options: The other fields of `Evaluator`.
  """
  scaling = scaling or scaling_of(data.train.images)
  check_batch(data, options['recipe'])
  splits = [data.train, data.validation]
  if measure_test:
    splits.append(data.test)
  examples: list[Any] = [
    child_lib.Examples(
      jnp.asarray(scaling(split.images)), jnp.asarray(split.labels)
    )
    for split in splits
  ]
  black = min(0, data.train.images.min())  # unless pixels may be negative
  if few is not None:
    splits.append(data.test.take(np.flatnonzero(few)))
    few = jnp.asarray(few, bool)
  return Evaluator(
    data=child_lib.ChildData(*examples)._replace(
      few=few, black=float(scaling(black))
    ),
    fingerprint=dataset_lib.fingerprint(*splits),
    **options,
  )


def check_batch(data: dataset_lib.Dataset, recipe: recipe_lib.Recipe) -> None:
  """Raises unless there are enough training images for a batch."""
  if len(data.train) < recipe.batch_size:
    raise ValueError(
      f'{len(data.train)} training images are fewer than a batch of'
      f' {recipe.batch_size}; give more images, or a smaller batch_size (of the'
      ' recipe, or as a flag)'
    )


class ProgressBar:
  """A progress bar of children on a terminal; silent elsewhere."""

  def __init__(
    self,
    what: str,
    total: int | None,
    also: Callable[[Sequence[Record]], None] | None = None,
  ) -> None:
    """Starts the bar.

    Args:
      what: The label before the bar.
      total: The number of children; None if unknown.
      also: Called with the same records.
    """
    self._also = also
    self._bar = tqdm.tqdm(total=total, desc=what, unit='child', disable=None)
    self._bar.set_postfix_str('compiling')
    self._best = 0.0

  def __call__(self, records: Sequence[Record]) -> None:
    """Counts children that were trained."""
    self._best = max(
      self._best, *(max(record.validation_accuracy) for record in records)
    )
    self._bar.set_postfix_str(f'best {100 * self._best:.1f} %', refresh=False)
    self._bar.update(len(records))
    if self._also is not None:
      self._also(records)

  def __enter__(self) -> 'ProgressBar':
    return self

  def __exit__(self, *_: object) -> None:
    self._bar.close()
