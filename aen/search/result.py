"""The result of a search: the ranking, the best network, and its gain.

Legend: N images.
"""

from collections.abc import Callable, Mapping, Sequence
import csv
import dataclasses
import functools
import hashlib
import os
import pathlib
import sys
import tempfile
import types
import typing
from typing import Any, NamedTuple

from flax import linen as nn
import jax
import numpy as np

from aen import io as io_lib
from aen.groups import symmetries as symmetries_lib
from aen.nn import export as export_lib
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import screen as screen_lib
from aen.search import space as space_lib
from aen.train import evaluate as evaluate_lib
from aen.train import score as score_lib

_PREDICT_BATCH = 1000
_NOT_IN_JSON = ('model', 'variables', 'image_shape')  # of `Best`
_IMBALANCE = 3  # largest class over smallest, beyond which verdicts mention it
_SCREENED = {  # outcome -> sentence about symmetries of the chosen network
  'accepted': 'The data are compatible with {}.',
  'undecided': 'The screen cannot tell whether the data have {}.',
  'rejected': 'By the screen, the data do not have {}.',
}


@dataclasses.dataclass(frozen=True)
class Ranked:
  """One network of the ranking."""

  network: int  # its number in the space
  symmetries: tuple[str, ...]  # its shortest names
  implied: tuple[str, ...]  # the names that those imply
  num_weights: int  # free weights
  search: score_lib.Score
  retrained: score_lib.Score | None = None  # if it was among the best

  @property
  def name(self) -> str:
    """The names as one phrase."""
    return in_words(self.symmetries)


def in_words(symmetries: Sequence[str]) -> str:
  """Returns a network's names as one phrase."""
  return ' + '.join(symmetries) or 'no symmetry'


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Best:
  """The chosen network, trained. Fields are in the order of result.json."""

  symmetries: tuple[str, ...]  # its shortest names, also of other choices
  implied: tuple[str, ...]  # the symmetries that they imply
  accuracy: float  # on the test images, mean over seeds; R² for regression
  baseline_accuracy: float
  balanced_accuracy: float | None = None  # mean over classes, if there are any
  baseline_balanced_accuracy: float | None = None
  class_shares: tuple[float, ...] = ()  # of the training examples
  scaling: evaluate_lib.Scaling  # applied by `predict` to images
  target_scaling: evaluate_lib.Scaling | None = None  # for regression
  classes: tuple[Any, ...] = ()  # the labels as given; 0, 1, … if empty
  gain: score_lib.Gain  # the difference of the accuracies
  class_names: tuple[str, ...] = ()  # one per label; empty for regression
  # Not in result.json:
  model: nn.Module
  variables: Mapping[str, Any]  # its parameters, {'params': …}
  image_shape: tuple[int, ...]  # of one example

  @property
  def name(self) -> str:
    """The names as one phrase."""
    return in_words(self.symmetries)

  @property
  def is_regression(self) -> bool:
    """Whether it predicts numbers rather than classes."""
    return self.target_scaling is not None

  def written(self, accuracy: float) -> str:
    """Returns an accuracy as text: in percent, or R² for regression."""
    if self.is_regression:
      return f'R² = {accuracy:.3f}'
    return f'{100 * accuracy:.1f} %'

  def __repr__(self) -> str:
    return f'Best({self.name}, {self.written(self.accuracy)})'

  def predict(self, images: np.ndarray) -> np.ndarray:
    """Returns the class of each image, or the number predicted. [N].

    Images and classes are as they were given to the search. Uses the child with
    the best validation score; `accuracy` is the mean over all children.
    """
    outputs = self._outputs(images)
    if self.target_scaling is not None:
      scaling = self.target_scaling
      return outputs[:, 0] * np.float32(scaling.std) + np.float32(scaling.mean)
    labels = outputs.argmax(axis=-1)
    if not self.classes:
      return labels
    classes = np.empty(len(self.classes), object)
    classes[:] = self.classes
    kinds = {type(value) for value in self.classes}
    if len(kinds) == 1 and kinds <= {bool, bytes, float, int, str}:
      classes = np.array(self.classes)
    return classes[labels]

  def predict_proba(self, images: np.ndarray) -> np.ndarray:
    """Returns the probability of each class, float32 [N, classes].

    Images are as they were given to the search, columns as `class_names`.
    """
    if self.is_regression:
      raise ValueError(
        'predict_proba gives probabilities of classes, but this network'
        ' predicts numbers; use predict'
      )
    return np.asarray(jax.nn.softmax(self._outputs(images), axis=-1))

  def _outputs(self, images: np.ndarray) -> np.ndarray:
    """Returns logits, or standardised numbers. float32 [N, outputs]."""
    images, shape = np.asarray(images), self.image_shape
    if images.shape[1:] not in (shape, (*shape, 1)):
      raise ValueError(
        f'expected images [N, {", ".join(map(str, shape))}], as in the search,'
        f' got shape {images.shape}'
      )
    scaled = self.scaling(images.reshape(-1, *shape))
    if not np.isfinite(scaled).all():
      raise ValueError('expected images of finite numbers, got some NaN or inf')
    return outputs(self.model, self.variables, scaled)

  def export(self, path: io_lib.PathLike) -> None:
    """Writes an ONNX file: raw pixels in, class scores out; see `aen.export`.

    Regression outputs are standardised: multiply them by `target_scaling.std`
    and add `target_scaling.mean`.
    """
    export_lib.export(
      self.model,
      self.variables,
      path,
      in_shape=self.image_shape,
      class_names=self.class_names,
      mean=self.scaling.mean,
      std=self.scaling.std,
    )


def outputs(
  model: nn.Module, variables: Mapping[str, Any], images: np.ndarray
) -> np.ndarray:
  """Applies a network to scaled images. float32 [N, outputs]."""
  starts = range(0, max(1, len(images)), _PREDICT_BATCH)
  batches = [images[i : i + _PREDICT_BATCH] for i in starts]
  return np.concatenate([_apply(model, variables, x) for x in batches])


@functools.partial(jax.jit, static_argnums=0)
def _apply(
  model: nn.Module, variables: Mapping[str, Any], images: jax.Array
) -> Any:
  return model.apply(variables, images)


class Counts(NamedTuple):
  """The cost of a search."""

  steps: int  # states proposed, with repeats
  states: int  # distinct states seen
  networks: int  # distinct networks trained


class Step(NamedTuple):
  """A proposed state and its value."""

  state: int
  value: float
  epsilon: float | None = None  # the probability of a random action


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
  """The result of a search.

  Attributes:
    dataset: The name of the data set.
    num_images: Training, validation and test images of the final networks.
    best: The chosen network.
    ranking: All trained networks: the chosen one, then the retrained ones by
      their final score, then the others by their score in the search.
    counts: The cost of the search.
    trace: Every proposed state, in order.
    q_values: The agent's final Q-values of the empty and of the best state, as
      (state, values of toggling each bit).
    space: The networks it chose among.
    screening: Which symmetries the training images have, if that was tested.
    config: The configuration, as in config.json; empty if it is not known.
  """

  dataset: str
  num_images: tuple[int, int, int]
  best: Best
  ranking: tuple[Ranked, ...]
  counts: Counts
  trace: tuple[Step, ...]
  space: space_lib.Space
  q_values: tuple[tuple[int, tuple[float, ...]], ...] = ()
  screening: screen_lib.Screening | None = None
  config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def baseline(self) -> int:
    """The network that the chosen one is compared with, possibly itself."""
    return self.space.baseline(self.ranking[0].network)

  @property
  def is_baseline(self) -> bool:
    """Whether the chosen network is the baseline itself."""
    return self.baseline == self.ranking[0].network

  @property
  def verdict(self) -> str:
    """The answer in words: what the data have, if tested, and what helps."""
    if self.screening is None:
      return self.answer
    return f'{self.screening.verdict}\n{self.answer}'

  @property
  def answer(self) -> str:
    """What helps, in words."""
    best, gain, helper = self.best, self.best.gain, self.space.helper
    verb, tests = 'gets', f'of {self.num_images[2]} test images right'
    gained = str(gain)  # in points of accuracy
    if best.is_regression:
      verb, tests = 'reaches', f'on {self.num_images[2]} test images'
      interval = f'{gain.low:+.3f} … {gain.high:+.3f}'
      gained = f'{gain.mean:+.3f} (95 % interval {interval})'
    reached = f'{best.written(best.accuracy)} {tests}'
    if self.is_baseline:
      without = f'the network without {helper}'
      if best.symmetries:
        without += f' ({best.name})'
      baselines = {*self.space.baselines()}
      trained = {entry.network for entry in self.ranking}
      sentences = [
        f'No {helper} helps: none did better on the validation images than'
        f' {without}, which {verb} {reached}.'
      ]
      if trained <= baselines and len(self.space) > len(baselines):
        sentences = [
          f'The budget sufficed for {without} alone, which {verb} {reached};'
          ' give more of it, or downscale=2.'
        ]
    else:
      name = best.name
      if best.implied:
        name += f', which also implies {", ".join(best.implied)}'
      compared = (
        f'{name}: {reached}, against {best.written(best.baseline_accuracy)}'
        f' without {helper}: {gained}'
      )
      sentences = [f'{compared}.']
      if not gain.is_clear:
        sentences = self._doubts(compared)
    return ' '.join([*sentences, *self._remarks()])

  def _doubts(self, compared: str) -> list[str]:
    """Returns a comparison whose gain is not clear, and further evidence."""
    best, gain, chosen = self.best, self.best.gain, self.ranking[0]
    values = {e.name: e.retrained.value for e in self.ranking if e.retrained}
    favoured = max(values, key=values.__getitem__, default=chosen.name)
    lead = 'Validation favours'
    if favoured != chosen.name:
      lead = f'As good as {favoured} by validation, with fewer weights:'
    doubts = [f'{lead} {compared}, which may be chance.']
    final = {entry.network: entry.retrained for entry in self.ranking}
    ours, theirs = chosen.retrained, final.get(self.baseline)
    if ours and theirs:
      splits = 'splits' if ours.num_seeds > 1 else 'split'
      doubts.append(
        f'Its mean over {ours.num_seeds} validation {splits} is'
        f' {best.written(ours.accuracy)}, against'
        f' {best.written(theirs.accuracy)} without.'
      )
    if self.screening is not None:
      names = {*best.symmetries, *best.implied}
      for outcome, words in _SCREENED.items():
        found = getattr(self.screening, outcome)
        if some := [name for name in found if name in names]:
          doubts.append(words.format(', '.join(some)))
    needed = gain.images_needed(self.num_images[2])
    if needed is not None:
      doubts.append(f'About {needed} test images would settle such a gain.')
    elif gain.mean > 0:
      doubts.append(
        'Seeds differ more than that: a larger retrain_seeds would tell.'
      )
    return doubts

  def _remarks(self) -> list[str]:
    """Returns a warning if the classes are imbalanced."""
    best = self.best
    ours, theirs = best.balanced_accuracy, best.baseline_balanced_accuracy
    if ours is None or theirs is None:  # regression
      return []
    shares = [share for share in best.class_shares if share]
    if max(shares) <= _IMBALANCE * min(shares):
      return []
    largest = best.class_names[int(np.argmax(best.class_shares))]
    return [
      f'The classes are imbalanced: {100 * max(shares):.0f} % are {largest}.',
      f'Balanced accuracy: {best.written(ours)}, against'
      f' {best.written(theirs)} without {self.space.helper}.',
    ]

  def __repr__(self) -> str:
    return f'SearchResult({self.dataset!r}, {self.answer!r})'

  def save(self, directory: io_lib.PathLike) -> None:
    """Writes result.json, ranking.csv, trace.csv and the best checkpoint."""
    directory = pathlib.Path(directory)
    save_params(directory / 'best', self.best.variables)
    write_ranking(directory / 'ranking.csv', self.ranking)
    write_trace(directory / 'trace.csv', self)
    io_lib.write_json(directory / 'result.json', _as_json(self))

  @classmethod
  def load(
    cls,
    directory: io_lib.PathLike,
    symmetries: symmetries_lib.SymmetryLike = (),
  ) -> 'SearchResult':
    """Reads what `save` wrote.

    Args:
      directory: Where it was saved.
      symmetries: Custom symmetries of the search, of which files hold only the
        names.

    Raises:
      DamagedError: The files are damaged.
    """
    directory = io_lib.as_path(directory, 'directory')
    stored = read(directory)
    try:
      return _from_json(stored, directory / 'best', symmetries)
    except (KeyError, TypeError, AttributeError) as error:
      raise _damaged(directory / 'result.json', repr(error)) from error


class DamagedError(ValueError):
  """A result is damaged on disk; running the search again restores it."""


def _damaged(path: pathlib.Path, why: object) -> DamagedError:
  return DamagedError(
    f'{path} is no result that this version of aen can read ({why}); run the'
    ' search again, finished children are not trained twice'
  )


def finished(
  run_dir: pathlib.Path,
  config: Mapping[str, Any],
  symmetries: symmetries_lib.SymmetryLike,
) -> SearchResult | None:
  """Returns the result of a search, if it has finished.

  Raises a `ValueError` for the result of another search. Reports a damaged
  result in one line and returns None: its children are still in the store.
  """
  if not (run_dir / 'result.json').exists():
    return None
  try:
    stored = read(run_dir)
    if 'config' in stored:
      io_lib.check_config(run_dir, stored['config'], config)
    elif not (run_dir / 'config.json').exists():  # of an earlier version
      raise ValueError(
        f'{run_dir} holds a result, but not its config.json, so nothing says of'
        ' which search it is; restore that file, or choose another run'
        ' directory'
      )
    io_lib.open_run(run_dir, config)
    return SearchResult.load(run_dir, symmetries)
  except DamagedError as error:
    print(f'{error}; making it again', file=sys.stderr, flush=True)
    return None


def read(directory: pathlib.Path) -> dict[str, Any]:
  """Returns the content of result.json; raises if it is damaged."""
  path = directory / 'result.json'
  try:
    return io_lib.read_json(path)
  except OSError as error:
    raise type(error)(
      f'{directory} holds no result.json ({error.strerror}); give the directory'
      ' of a search that has finished'
    ) from error
  except ValueError as error:
    raise _damaged(path, error) from error


_SCORES = ('value', 'accuracy', 'standard_error', 'loss')
_RANKING_HEADER = (
  'rank,symmetries,implied,num_weights,score,validation_accuracy,'
  'standard_error,validation_loss,num_seeds,num_diverged,retrained_score,'
  'retrained_accuracy,retrained_standard_error,retrained_loss'
)


def write_ranking(path: io_lib.PathLike, ranking: Sequence[Ranked]) -> None:
  """Writes the ranking as CSV; equal rankings give equal bytes."""

  def numbers(score: score_lib.Score | None) -> list[str]:
    if score is None:
      return [''] * len(_SCORES)
    return [f'{getattr(score, name):.6f}' for name in _SCORES]

  rows = [
    (
      rank,
      io_lib.cell(entry.name),
      io_lib.cell(' + '.join(entry.implied)),
      entry.num_weights,
      *numbers(entry.search),
      entry.search.num_seeds,
      entry.search.num_diverged,
      *numbers(entry.retrained),
    )
    for rank, entry in enumerate(ranking, start=1)
  ]
  _write_csv(path, _RANKING_HEADER, rows)


def write_trace(path: io_lib.PathLike, result: SearchResult) -> None:
  """Writes every step of the search as CSV."""
  rows = [
    (
      number,
      step.state,
      result.space.network_of[step.state],
      f'{step.value:.6f}',
      '' if step.epsilon is None else f'{step.epsilon:g}',
    )
    for number, step in enumerate(result.trace, start=1)
  ]
  _write_csv(path, 'step,state,network,value,epsilon', rows)


def _write_csv(
  path: io_lib.PathLike, header: str, rows: Sequence[Sequence[Any]]
) -> None:
  with io_lib.written_text(path) as file:
    file.write(f'{header}\n')
    csv.writer(file, lineterminator='\n').writerows(rows)


def save_params(directory: pathlib.Path, variables: Mapping[str, Any]) -> None:
  """Writes an Orbax checkpoint; it appears only when complete."""
  import orbax.checkpoint as ocp  # slow to import, and only needed here

  directory = directory.absolute()
  directory.parent.mkdir(parents=True, exist_ok=True)
  # Unique names, so that processes never share a half-written checkpoint.
  with (
    tempfile.TemporaryDirectory(
      prefix='.best.', suffix='.incomplete', dir=directory.parent
    ) as scratch,
    io_lib.clear_when_disk_is_full(directory),
  ):
    fresh, old = (pathlib.Path(scratch, name) for name in ('new', 'old'))
    with ocp.StandardCheckpointer() as checkpointer:
      checkpointer.save(fresh, dict(variables))
    if directory.exists():
      os.rename(directory, old)
    os.rename(fresh, directory)


def load_params(
  directory: pathlib.Path, model: nn.Module, x: Any, checksum: str | None
) -> Any:
  """Reads an Orbax checkpoint of the variables of a model with inputs x.

  Raises a `DamagedError` if it is missing, cannot be read, or does not match
  the checksum, unless that is None.
  """
  import orbax.checkpoint as ocp

  expected = jax.eval_shape(model.init, jax.random.key(0), x)
  try:
    with ocp.StandardCheckpointer() as checkpointer:
      variables = checkpointer.restore(directory.absolute(), expected)
  except Exception as error:  # Orbax raises many types
    why = (str(error).splitlines() or [repr(error)])[0]
    raise _damaged(directory, why) from error
  if checksum is not None and checksum != weights_checksum(variables):
    raise _damaged(directory, 'its checksum does not match')
  return variables


def weights_checksum(variables: Mapping[str, Any]) -> str:
  """Returns a hash of all parameters, with their names, shapes and types."""
  digest = hashlib.sha256()
  leaves, _ = jax.tree_util.tree_flatten_with_path(dict(variables))
  for name, leaf in leaves:
    array = np.asarray(leaf)
    array = array.astype(array.dtype.newbyteorder('<'), copy=False)
    header = jax.tree_util.keystr(name), array.dtype.str, array.shape
    digest.update(repr(header).encode())
    digest.update(array.tobytes())
  return digest.hexdigest()


def _as_json(result: SearchResult) -> dict[str, Any]:
  fields = vars(result.best).items()
  best = {name: x for name, x in fields if name not in _NOT_IN_JSON}
  for name in ('scaling', 'target_scaling', 'gain'):
    best[name] = best[name] and dataclasses.asdict(best[name])
  best['classes'] = [
    value if isinstance(value, str | int | float) else str(value)
    for value in result.best.classes
  ]
  return {
    'dataset': result.dataset,
    'num_images': result.num_images,
    'verdict': result.verdict,
    'screening': result.screening and result.screening.as_json(),
    'best': {
      'network': result.ranking[0].network,
      **best,
      'checksum': weights_checksum(result.best.variables),
    },
    'counts': result.counts._asdict(),
    'trace': result.trace,
    'q_values': result.q_values,
    'space': result.space.spec(),
    'ranking': [dataclasses.asdict(entry) for entry in result.ranking],
    'config': result.config,
  }


def _from_json(
  stored: dict[str, Any],
  checkpoint: pathlib.Path,
  symmetries: symmetries_lib.SymmetryLike,
) -> SearchResult:
  space = from_spec(stored['space'], symmetries)
  best, screening = stored['best'], stored.get('screening')
  if 'base_accuracy' in best:  # its name in version 0.1
    best['baseline_accuracy'] = best['base_accuracy']
  model = space.model(best['network'])
  x = np.zeros((1, *space.image_shape), np.float32)
  of_best = {
    'model': model,
    # Files of earlier versions have no checksum.
    'variables': load_params(checkpoint, model, x, best.get('checksum')),
    'image_shape': space.image_shape,
  }
  return _restored(
    SearchResult,
    stored,
    best=_restored(Best, best, **of_best),
    trace=tuple(Step(*step) for step in stored['trace']),
    space=space,
    screening=screening and screen_lib.Screening.from_json(screening),
    config=stored.get('config', {}),
  )


def _restored(kind: Any, stored: Any, **others: Any) -> Any:
  """Converts JSON to a dataclass, or to one of its fields, by its type.

  Fields that older files lack keep their defaults.
  """
  parts = typing.get_args(kind)
  if types.NoneType in parts and stored is not None:  # such as Score | None
    return _restored(parts[0], stored)
  if isinstance(stored, dict):
    hints = typing.get_type_hints(kind)
    known = stored.keys() & hints.keys() - others.keys()
    return kind(**{n: _restored(hints[n], stored[n]) for n in known}, **others)
  if isinstance(stored, list):
    part = parts[0] if parts else Any
    return tuple(_restored(part, value) for value in stored)
  return stored


# kind -> factory(symmetries=…, **rest of the spec)
KINDS: Mapping[str, Callable[..., space_lib.Space]] = {
  'mlp': mlp_space.mlp_space,
  'gcnn': gcnn_space.gcnn_space,
}


def from_spec(
  spec: Mapping[str, Any], symmetries: symmetries_lib.SymmetryLike = ()
) -> space_lib.Space:
  """Rebuilds a space from its `Space.spec`; without a kind, one of MLPs.

  Symmetries that are not built in must be passed.
  """
  rest = dict(spec)
  kind, names = rest.pop('kind', 'mlp'), rest.pop('symmetries')
  actions = rest.pop('actions', [None] * len(names))  # missing in older files
  own = symmetries_lib.as_symmetries(symmetries)
  known = {**symmetries_lib.NAMED, **{s.name: s for s in own}}
  grid = spec['image_shape'][: spec.get('grid_axes', 2)]
  # Launchers name functions by module: match these by their action instead.
  for name, action in zip(names, actions, strict=True):
    for symmetry in own if name not in known else ():
      if space_lib.action(symmetry, grid) == action:
        known[name] = symmetries_lib.Symmetry(name, symmetry.fn)
  if unknown := [name for name in names if name not in known]:
    raise ValueError(
      f'the symmetries {", ".join(unknown)} are not built in, and files hold'
      ' only their names; pass their functions in `symmetries`, got'
      f' {", ".join(s.name for s in own) or "none"}'
    )
  table = tuple(known[name] for name in names)
  space = KINDS[kind](symmetries=table, **rest)
  for symmetry, then, now in zip(table, actions, space.actions(), strict=True):
    if then not in (None, now):
      raise ValueError(
        f'{symmetry.name} is another symmetry now than it was in the search: it'
        ' transforms the images differently; pass the function that the search'
        ' had'
      )
  return space
