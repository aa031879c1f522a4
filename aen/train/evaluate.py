"""Evaluating networks: looked up in the store, or trained in batches.

A search asks for (network, seed) pairs and gets records; how they come about is
this module's business. Whoever has a cluster gives `search` another evaluator.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import io
import json
import operator
import time
from typing import Any
from typing import Protocol

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import tqdm

from aen.data import dataset as dataset_lib
from aen.train import child as child_lib
from aen.train import recipe as recipe_lib
from aen.train import store as store_lib

Request = tuple[int, int]  # a network and a seed


class Networks(Protocol):
  """What an evaluator asks of a search space; see `aen.search.space.Space`."""

  def key(self, network: int, /) -> str:
    """Returns a name that equal networks share."""

  def names(self, network: int, /) -> tuple[str, ...]:
    """Returns the shortest names of a network."""

  def num_weights(self, network: int, /) -> int:
    """Returns the number of free weights."""

  def program(self, network: int, /) -> nn.Module:
    """Returns the model that trains it, padded."""

  def inputs(self, network: int, /) -> Mapping[str, Any]:
    """Returns what makes the program this network."""

  def unpad(self, network: int, params: Any, /) -> Any:
    """Returns the program's parameters as the network's."""


@dataclasses.dataclass(frozen=True)
class Scaling:
  """How pixels become numbers of about unit size: (x - mean) / std."""

  mean: float
  std: float

  def __call__(self, images: np.ndarray) -> np.ndarray:
    """Returns float32 images."""
    scaled = (np.asarray(images, np.float32) - self.mean) / self.std
    return scaled.astype(np.float32, copy=False)


def scaling_of(images: np.ndarray) -> Scaling:
  """As published for grey levels; else to mean 0 and variance 1."""
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
  """Trains what the store does not know yet.

  Attributes:
    space: What the numbers of networks mean.
    data: The images.
    fingerprint: Names exactly these images.
    recipe: How children are trained.
    store: Where results are kept; each batch is one transaction.
    keep_params: Whether to keep the parameters too.
    children_per_batch: As in `child_lib.train_children`.
    on_trained: Is called with the records of every batch.
  """

  space: Networks
  data: child_lib.ChildData
  fingerprint: str
  recipe: recipe_lib.Recipe
  store: store_lib.Results
  keep_params: bool = False
  children_per_batch: int | None = None
  on_trained: Callable[[Sequence[store_lib.Record]], None] = lambda records: (
    None
  )

  def __call__(
    self, requests: Sequence[Request], epochs: int | None = None
  ) -> list[store_lib.Record]:
    """Returns one record per request, in their order.

    Args:
      requests: The children.
      epochs: How long they train, instead of the recipe's.
    """
    if epochs not in (None, self.recipe.epochs):
      shorter = dataclasses.replace(self.recipe, epochs=epochs)
      return dataclasses.replace(self, recipe=shorter)(requests)
    wanted = dict.fromkeys(requests)
    missing = [r for r in wanted if not self._is_known(r)]
    for batch, devices in self._batches(missing):
      self._train(batch, devices)
    found: dict[Request, Any] = {
      r: self.store.get(self._key(*r), self.keep_params) for r in wanted
    }
    return [found[request] for request in requests]

  def _is_known(self, request: Request) -> bool:
    known = self.store.get(self._key(*request), self.keep_params)
    return known is not None and not (self.keep_params and not known.params)

  def _key(self, network: int, seed: int) -> store_lib.ChildKey:
    return store_lib.ChildKey(
      network=self._network_key(network),
      data=self.fingerprint,
      recipe=recipe_key(self.recipe),
      seed=int(seed),
    )

  @functools.cached_property
  def _network_key(self) -> Callable[[int], str]:
    return functools.lru_cache(maxsize=None)(self.space.key)

  def _batches(
    self, requests: Sequence[Request]
  ) -> Iterator[tuple[list[Request], list[jax.Device]]]:
    """Divides requests into batches of one program each, and its devices."""
    each = self.children_per_batch or child_lib.default_batch(jax.devices()[0])
    groups: dict[nn.Module, list[Request]] = {}
    for request in requests:
      groups.setdefault(self.space.program(request[0]), []).append(request)
    for group in groups.values():
      devices = jax.devices()[: -(-len(group) // each)]  # none would be idle
      size = each * len(devices)
      for start in range(0, len(group), size):
        yield group[start : start + size], devices

  def _train(
    self, batch: Sequence[Request], devices: Sequence[jax.Device]
  ) -> None:
    start = time.perf_counter()
    networks, seeds = zip(*batch, strict=True)
    trained = child_lib.train_children(
      jnp.stack([jax.random.key(seed) for seed in seeds]),
      jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *map(self.space.inputs, networks)
      ),
      self.data,
      child_lib.ChildConfig(
        self.space.program(networks[0]).clone(
          kernel_init=recipe_lib.INITIALIZERS[self.recipe.initializer]
        ),
        self.recipe,
        self.keep_params,
      ),
      children_per_batch=self.children_per_batch,
      devices=devices,
    )
    trained = jax.device_get(trained)
    seconds = (time.perf_counter() - start) / len(batch)
    each = [
      jax.tree.map(operator.itemgetter(i), trained) for i in range(len(batch))
    ]
    records = [
      self._record(request, child, seconds)
      for request, child in zip(batch, each, strict=True)
    ]
    self.store.put(records)
    self.on_trained(records)

  def _record(
    self, request: Request, child: child_lib.ChildResult, seconds: float
  ) -> store_lib.Record:
    network, seed = request
    params = None
    if self.keep_params:
      params = pack(self.space.unpad(network, child.params))
    return store_lib.Record(
      key=self._key(network, seed),
      symmetries=' + '.join(self.space.names(network)),
      num_weights=self.space.num_weights(network),
      train_loss=_floats(child.train_loss),
      validation_accuracy=self._shares(child.validation_accuracy, 'validation'),
      validation_loss=_floats(child.validation_loss),
      test_accuracy=self._shares(child.test_accuracy, 'test'),
      few_test_accuracy=self._shares(child.few_test_accuracy, 'few'),
      diverged=bool(child.diverged),
      seconds=seconds,
      params=params,
    )

  def _shares(
    self, curve: jax.Array | np.ndarray | None, part: str
  ) -> tuple[float, ...]:
    """Returns float32 shares of a part's images without their rounding."""
    total = self._sizes.get(part, 0)
    return tuple(round(value * total) / total for value in _floats(curve))

  @functools.cached_property
  def _sizes(self) -> dict[str, int]:
    """How many images count in each part."""
    data, test = self.data, self.data.test
    sizes = {'validation': len(data.validation.labels)}
    if test is not None:
      sizes['test'] = len(test.labels)
    if data.few is not None:
      sizes['few'] = int(data.few.sum())
    return sizes


def _floats(curve: jax.Array | np.ndarray | None) -> tuple[float, ...]:
  return () if curve is None else tuple(float(value) for value in curve)


def recipe_key(recipe: recipe_lib.Recipe) -> str:
  """Returns the part of a store key that says how children are trained."""
  fields = dataclasses.asdict(recipe)
  if recipe.schedule == recipe_lib.Recipe.schedule:
    del fields['schedule']  # so that stores older than it stay known
  return json.dumps(
    {'version': recipe_lib.RECIPE_VERSION, **fields}, sort_keys=True
  )


def pack(params: child_lib.Params) -> bytes:
  """Turns parameters into bytes, without pickle."""
  flat = traverse_util.flatten_dict(params, sep='/')
  file = io.BytesIO()
  arrays: dict[str, Any] = {n: np.asarray(leaf) for n, leaf in flat.items()}
  np.savez(file, **arrays)
  return file.getvalue()


def unpack(packed: bytes) -> child_lib.Params:
  """Turns bytes of `pack` into parameters again."""
  with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
    return traverse_util.unflatten_dict(dict(arrays), sep='/')


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
    scaling: What is done to them first; `scaling_of` by default.
    measure_test: Whether to measure the test images too, after every epoch.
    few: Which of them count apart, too. bool [N]
    **options: The other fields of `Evaluator`.
  """
  scaling = scaling or scaling_of(data.train.images)
  check_batch(data, options['recipe'])
  splits = [data.train, data.validation] + [data.test] * measure_test
  examples: list[Any] = [
    child_lib.Examples(
      jnp.asarray(scaling(split.images)), jnp.asarray(split.labels)
    )
    for split in splits
  ]
  black = min(0, data.train.images.min())  # unless the scale begins lower
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


class Watch:
  """Shows on a terminal how far training is; silent elsewhere."""

  def __init__(
    self, what: str, total: int | None, also: Callable[..., None] | None = None
  ) -> None:
    """Begins to watch.

    Args:
      what: Is shown before the bar.
      total: How many children there will be; None if nobody knows.
      also: Is called with the same records.
    """
    self._also = also
    self._bar = tqdm.tqdm(total=total, desc=what, unit='child', disable=None)
    self._best = 0.0

  def __call__(self, records: Sequence[store_lib.Record]) -> None:
    """Counts children that were trained."""
    self._best = max(
      self._best, *(max(record.validation_accuracy) for record in records)
    )
    self._bar.set_postfix_str(f'best {100 * self._best:.1f} %', refresh=False)
    self._bar.update(len(records))
    if self._also is not None:
      self._also(records)

  def __enter__(self) -> 'Watch':
    return self

  def __exit__(self, *_: object) -> None:
    self._bar.close()
