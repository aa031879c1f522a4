"""The result of a search: the ranking, the best network, and its gain.

Legend: N images.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import csv
import dataclasses
import functools
import json
import pathlib
from typing import Any
from typing import NamedTuple

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


@dataclasses.dataclass(frozen=True)
class Ranked:
  """One network of the ranking.

  Attributes:
    network: Its number in the space.
    symmetries: Its shortest names.
    implied: The names that come with those.
    num_weights: The number of free weights.
    search: Its score in the search.
    retrained: Its score after retraining, if it was among the best.
  """

  network: int
  symmetries: tuple[str, ...]
  implied: tuple[str, ...]
  num_weights: int
  search: score_lib.Score
  retrained: score_lib.Score | None = None

  @property
  def name(self) -> str:
    """The names as one phrase."""
    return in_words(self.symmetries)


def in_words(symmetries: Sequence[str]) -> str:
  """Returns a network's names as one phrase."""
  return ' + '.join(symmetries) or 'no symmetry'


@dataclasses.dataclass(frozen=True, eq=False)
class Best:
  """The chosen network, trained.

  Attributes:
    symmetries: Its shortest names: of symmetries, and of any other choices;
      empty for the network without symmetry.
    implied: The symmetries that come with them.
    model: The Flax module.
    variables: Its parameters, {'params': …}.
    scaling: Applied by `predict` to images.
    image_shape: (H, W) or (H, W, C).
    accuracy: On the test images, mean over seeds.
    baseline_accuracy: The same for the baseline.
    gain: The difference.
    class_names: One per label, if known.
  """

  symmetries: tuple[str, ...]
  implied: tuple[str, ...]
  model: nn.Module
  variables: Mapping[str, Any]
  scaling: evaluate_lib.Scaling
  image_shape: tuple[int, ...]
  accuracy: float
  baseline_accuracy: float
  gain: score_lib.Gain
  class_names: tuple[str, ...] = ()

  @property
  def name(self) -> str:
    """The names as one phrase."""
    return in_words(self.symmetries)

  def __repr__(self) -> str:
    return f'Best({self.name}, {100 * self.accuracy:.1f} % right)'

  def predict(self, images: np.ndarray) -> np.ndarray:
    """Returns the class of each image, int [N].

    Uses the child with the best validation score; `accuracy` is the mean over
    all children.

    Args:
      images: As they were given to the search.
    """
    images, shape = np.asarray(images), self.image_shape
    if images.shape[1:] not in (shape, (*shape, 1)):
      raise ValueError(
        f'expected images [N, {", ".join(map(str, shape))}], as in the search,'
        f' got shape {images.shape}'
      )
    scaled = self.scaling(images.reshape(-1, *shape))
    if not np.isfinite(scaled).all():
      raise ValueError('expected images of finite numbers, got some NaN or inf')
    return predict(self.model, self.variables, scaled)

  def export(self, path: io_lib.PathLike) -> None:
    """Writes an ONNX file: raw pixels in, class scores out; see `aen.export`.

    Args:
      path: Where the file is written.
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


def predict(
  model: nn.Module, variables: Mapping[str, Any], images: np.ndarray
) -> np.ndarray:
  """Returns the class of each scaled image, int [N]."""
  batches = range(0, len(images), _PREDICT_BATCH)
  parts = [
    np.asarray(_classes(model, variables, images[i : i + _PREDICT_BATCH]))
    for i in batches
  ]
  return np.concatenate(parts) if parts else np.zeros(0, np.int32)


@functools.partial(jax.jit, static_argnums=0)
def _classes(
  model: nn.Module, variables: Mapping[str, Any], images: jax.Array
) -> jax.Array:
  logits: Any = model.apply(variables, images)
  return logits.argmax(axis=-1)


@dataclasses.dataclass(frozen=True)
class Counts:
  """The cost of a search.

  Attributes:
    steps: States proposed, with repeats.
    states: Distinct states seen.
    networks: Distinct networks trained.
  """

  steps: int
  states: int
  networks: int


class Step(NamedTuple):
  """A proposed state and its value."""

  state: int
  value: float
  epsilon: float | None = None  # the probability of a random action, if any


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
  """The result of a search.

  Attributes:
    dataset: The name of the data set.
    num_images: Training, validation and test images of the final networks.
    best: The chosen network.
    ranking: All trained networks, best first: the retrained ones by their final
      score, the others by their score in the search.
    counts: The cost of the search.
    trace: Every proposed state, in order.
    q_values: The agent's final estimates, for the empty and the best state, of
      the value of toggling each bit: (state, values) each.
    space: The networks it chose among.
    screening: Which symmetries the training images have, if that was tested.
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

  @property
  def baseline(self) -> int:
    """The network that the chosen one is compared with; maybe itself."""
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
    best, num_test, helper = self.best, self.num_images[2], self.space.helper
    right = f'{100 * best.accuracy:.1f} % of {num_test} test images right'
    if self.is_baseline:
      which = f' ({best.name})' if best.symmetries else ''
      return (
        f'No {helper} helps: none did better on the validation images than the'
        f' network without {helper}{which}, which gets {right}.'
      )
    name = best.name
    if best.implied:
      name += f', which also implies {", ".join(best.implied)}'
    compared = (
      f'{name}: {right}, against {100 * best.baseline_accuracy:.1f} % without'
      f' {helper}: {best.gain}'
    )
    if best.gain.is_clear:
      return f'{compared}.'
    doubt = 'which may be chance'
    return f'No {helper} clearly helps. The best was {compared}, {doubt}.'

  def __repr__(self) -> str:
    return f'SearchResult({self.dataset!r}, {self.answer!r})'

  def save(self, directory: io_lib.PathLike) -> None:
    """Writes result.json, ranking.csv, trace.csv and the best checkpoint."""
    directory = pathlib.Path(directory)
    save_params(directory / 'best', self.best.variables)
    write_ranking(directory / 'ranking.csv', self.ranking)
    write_trace(directory / 'trace.csv', self)
    with io_lib.written_text(directory / 'result.json') as file:
      json.dump(_as_json(self), file, indent=2, ensure_ascii=False)

  @classmethod
  def load(
    cls,
    directory: io_lib.PathLike,
    symmetries: symmetries_lib.SymmetryLike = (),
  ) -> 'SearchResult':
    """Reads what `save` wrote.

    Args:
      directory: Where it was saved.
      symmetries: Your own symmetries among those of the search; files hold only
        names.
    """
    directory = pathlib.Path(directory)
    path = directory / 'result.json'
    try:
      stored = json.loads(path.read_text('utf-8'))
      return _from_json(stored, directory / 'best', symmetries)
    except FileNotFoundError as error:
      raise FileNotFoundError(
        f'{directory} holds no result ({error.filename} is not there); give the'
        ' directory of a search that has finished'
      ) from error
    except (KeyError, TypeError, json.JSONDecodeError) as error:
      raise ValueError(
        f'{path} is no result that this version of aen can read ({error!r});'
        ' run the search again, finished children are not trained twice'
      ) from error


RANKING_COLUMNS = (
  'rank',
  'symmetries',
  'implied',
  'num_weights',
  'score',
  'validation_accuracy',
  'standard_error',
  'validation_loss',
  'num_seeds',
  'num_diverged',
  'retrained_score',
  'retrained_accuracy',
  'retrained_standard_error',
  'retrained_loss',
)


def write_ranking(path: io_lib.PathLike, ranking: Sequence[Ranked]) -> None:
  """Writes the ranking as CSV; equal rankings give equal bytes."""

  def numbers(score: score_lib.Score | None) -> list[str]:
    if score is None:
      return [''] * 4
    fields = (score.value, score.accuracy, score.standard_error, score.loss)
    return [f'{number:.6f}' for number in fields]

  rows = (
    (
      rank,
      entry.name,
      ' + '.join(entry.implied),
      entry.num_weights,
      *numbers(entry.search),
      entry.search.num_seeds,
      entry.search.num_diverged,
      *numbers(entry.retrained),
    )
    for rank, entry in enumerate(ranking, start=1)
  )
  _write_csv(path, RANKING_COLUMNS, rows)


def write_trace(path: io_lib.PathLike, result: SearchResult) -> None:
  """Writes every step of the search as CSV."""
  rows = (
    (
      number,
      step.state,
      int(result.space.network_of[step.state]),
      f'{step.value:.6f}',
      '' if step.epsilon is None else f'{step.epsilon:g}',
    )
    for number, step in enumerate(result.trace, start=1)
  )
  _write_csv(path, ('step', 'state', 'network', 'value', 'epsilon'), rows)


def _write_csv(
  path: io_lib.PathLike, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
  with io_lib.written_text(path) as file:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(header)
    writer.writerows(rows)


def save_params(directory: pathlib.Path, variables: Mapping[str, Any]) -> None:
  """Writes an Orbax checkpoint."""
  import orbax.checkpoint as ocp  # slow to import, and only needed here

  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(directory.absolute(), dict(variables), force=True)


def load_params(directory: pathlib.Path, model: nn.Module, x: Any) -> Any:
  """Reads an Orbax checkpoint of a model's variables."""
  import orbax.checkpoint as ocp

  expected = jax.eval_shape(model.init, jax.random.key(0), x)
  with ocp.StandardCheckpointer() as checkpointer:
    return checkpointer.restore(directory.absolute(), expected)


_BEST_FIELDS = ('symmetries', 'implied', 'accuracy', 'baseline_accuracy')


def _as_json(result: SearchResult) -> dict[str, Any]:
  best = result.best
  return {
    'dataset': result.dataset,
    'num_images': result.num_images,
    'verdict': result.verdict,
    'screening': result.screening and result.screening.as_json(),
    'best': {
      'network': result.ranking[0].network,
      **{name: getattr(best, name) for name in _BEST_FIELDS},
      'scaling': dataclasses.asdict(best.scaling),
      'gain': dataclasses.asdict(best.gain),
      'class_names': best.class_names,
    },
    'counts': dataclasses.asdict(result.counts),
    'trace': result.trace,
    'q_values': result.q_values,
    'space': result.space.spec(),
    'ranking': [dataclasses.asdict(entry) for entry in result.ranking],
  }


def _from_json(
  stored: Mapping[str, Any],
  checkpoint: pathlib.Path,
  symmetries: symmetries_lib.SymmetryLike,
) -> SearchResult:
  space = from_spec(stored['space'], symmetries)
  best = dict(stored['best'])
  if 'base_accuracy' in best:  # its name in version 0.1
    best['baseline_accuracy'] = best['base_accuracy']
  model = space.model(best['network'])
  x = np.zeros((1, *space.image_shape), np.float32)

  def ranked(entry: Mapping[str, Any]) -> Ranked:
    final = entry['retrained']
    return Ranked(
      network=entry['network'],
      symmetries=tuple(entry['symmetries']),
      implied=tuple(entry['implied']),
      num_weights=entry['num_weights'],
      search=score_lib.Score(**entry['search']),
      retrained=score_lib.Score(**final) if final else None,
    )

  screening = stored.get('screening')
  return SearchResult(
    dataset=stored['dataset'],
    num_images=tuple(stored['num_images']),
    best=Best(
      symmetries=tuple(best['symmetries']),
      implied=tuple(best['implied']),
      model=model,
      variables=load_params(checkpoint, model, x),
      scaling=evaluate_lib.Scaling(**best['scaling']),
      image_shape=space.image_shape,
      accuracy=best['accuracy'],
      baseline_accuracy=best['baseline_accuracy'],
      gain=score_lib.Gain(**best['gain']),
      class_names=tuple(best.get('class_names', ())),  # older: none
    ),
    ranking=tuple(map(ranked, stored['ranking'])),
    counts=Counts(**stored['counts']),
    trace=tuple(Step(*step) for step in stored['trace']),
    q_values=tuple((state, tuple(q)) for state, q in stored['q_values']),
    space=space,
    screening=screening and screen_lib.Screening.from_json(screening),
  )


# kind -> factory(symmetries=…, **the rest of the description)
KINDS: Mapping[str, Callable[..., space_lib.Space]] = {
  'mlp': mlp_space.mlp_space,
  'gcnn': gcnn_space.gcnn_space,
}


def from_spec(
  spec: Mapping[str, Any], symmetries: symmetries_lib.SymmetryLike = ()
) -> space_lib.Space:
  """Makes the space that `Space.spec` described.

  Args:
    spec: The description; of MLPs if it names no kind.
    symmetries: Those in its table that are not in `SYMMETRIES`.
  """
  own = symmetries_lib.as_symmetries(symmetries)
  known = {**symmetries_lib.NAMED, **{s.name: s for s in own}}
  # Launchers name functions by module: found by what they do instead.
  actions = dict(zip(spec['symmetries'], spec.get('actions', ()), strict=False))
  grid = spec['image_shape'][: spec.get('grid_axes', 2)]
  for name in spec['symmetries']:
    for symmetry in own if name not in known else ():
      if space_lib.action(symmetry, grid) == actions.get(name):
        known[name] = symmetries_lib.Symmetry(name, symmetry.fn)
  if unknown := [name for name in spec['symmetries'] if name not in known]:
    raise ValueError(
      f'the symmetries {", ".join(unknown)} are not built in, and files hold'
      ' only their names; pass their functions in `symmetries`, got'
      f' {", ".join(s.name for s in own) or "none"}'
    )
  names = ('kind', 'symmetries', 'actions')
  rest = {name: value for name, value in spec.items() if name not in names}
  table = tuple(known[name] for name in spec['symmetries'])
  space = KINDS[spec.get('kind', 'mlp')](symmetries=table, **rest)
  stored = spec.get('actions', space.actions())
  for symmetry, then, now in zip(table, stored, space.actions(), strict=True):
    if then != now:
      raise ValueError(
        f'{symmetry.name} is another symmetry now than it was in the search: it'
        ' transforms the images differently; pass the function that the search'
        ' had'
      )
  return space
