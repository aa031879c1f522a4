"""What a search found: the ranking, the best network, and what it gains.

Legend: N images.
"""

from collections.abc import Callable
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
from aen.search import gcnn_space
from aen.search import mlp_space
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
    implied: What comes with those.
    num_weights: Its free weights.
    search: What it reached in the search.
    retrained: What it reached when trained longer, if it was among the best.
  """

  network: int
  symmetries: tuple[str, ...]
  implied: tuple[str, ...]
  num_weights: int
  search: score_lib.Score
  retrained: score_lib.Score | None = None

  @property
  def name(self) -> str:
    """The network in words."""
    return in_words(self.symmetries)

  @classmethod
  def from_json(cls, stored: Mapping[str, Any]) -> 'Ranked':
    """Returns what result.json holds of one network."""
    again = stored['retrained']
    return cls(
      network=stored['network'],
      symmetries=tuple(stored['symmetries']),
      implied=tuple(stored['implied']),
      num_weights=stored['num_weights'],
      search=score_lib.Score(**stored['search']),
      retrained=score_lib.Score(**again) if again else None,
    )


def in_words(symmetries: Sequence[str]) -> str:
  """Returns a network's names as one phrase."""
  return ' + '.join(symmetries) or 'no symmetry'


@dataclasses.dataclass(frozen=True, eq=False)
class Best:
  """The network that the search chose, trained.

  Attributes:
    symmetries: Its shortest names: of symmetries, and of whatever else there
      was to choose; empty if no symmetry was chosen.
    implied: The symmetries that come with them.
    model: The Flax module.
    variables: Its parameters, {'params': …}.
    scaling: What `predict` does to images first.
    image_shape: Of those it was trained on, (H, W) or (H, W, C).
    accuracy: On the test images, the mean over seeds.
    baseline_accuracy: The same for the network it is compared with, which has
      nothing to help it.
    gain: The difference.
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

  @property
  def name(self) -> str:
    """The network in words."""
    return in_words(self.symmetries)

  def __repr__(self) -> str:
    return f'Best({self.name}, {100 * self.accuracy:.1f} % right)'

  def predict(self, images: np.ndarray) -> np.ndarray:
    """Returns the class of each image, as they came to the search. int [N].

    It asks the child that was best in validation; `accuracy` is the mean over
    all of them.
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


def predict(
  model: nn.Module, variables: Mapping[str, Any], images: np.ndarray
) -> np.ndarray:
  """Returns the class of each (scaled) image, int [N]."""
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
  """What a search has cost.

  Attributes:
    steps: States proposed, repeats among them.
    states: Different states seen.
    networks: Different networks trained.
  """

  steps: int
  states: int
  networks: int


class Step(NamedTuple):
  """One proposal of a strategy, and what it turned out to be worth."""

  state: int
  value: float
  epsilon: float | None = None  # the share of random actions, if there is one


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
  """What a search found.

  Attributes:
    dataset: The name of the data set.
    num_images: Training, validation and test images of the final networks.
    best: The network chosen.
    ranking: All networks that were trained, best first: those retrained by what
      they reached then, the others by what they reached in the search.
    counts: What the search has cost.
    trace: Every state proposed, in order.
    q_values: What an agent thought, at the end, that toggling each bit is worth
      in the empty state and in the best one: (state, values) each.
    space: The networks it chose among.
  """

  dataset: str
  num_images: tuple[int, int, int]
  best: Best
  ranking: tuple[Ranked, ...]
  counts: Counts
  trace: tuple[Step, ...]
  space: space_lib.Space
  q_values: tuple[tuple[int, tuple[float, ...]], ...] = ()

  @property
  def baseline(self) -> int:
    """The network that the chosen one is compared with; maybe itself."""
    return self.space.baseline(self.ranking[0].network)

  @property
  def is_baseline(self) -> bool:
    """Whether the chosen network has nothing to help it."""
    return self.baseline == self.ranking[0].network

  @property
  def verdict(self) -> str:
    """The answer in words."""
    best, num_test, helper = self.best, self.num_images[2], self.space.helper
    accuracies = (
      f'{100 * best.accuracy:.1f} % of {num_test} test images right, against'
      f' {100 * best.baseline_accuracy:.1f} % without {helper}'
    )
    if self.is_baseline:
      which = f' ({best.name})' * bool(best.symmetries)
      return (
        f'No {helper} helps: none did better on the validation images than the'
        f' network without {helper}{which}, which gets'
        f' {100 * best.accuracy:.1f} % of {num_test} test images right.'
      )
    also = f', which also implies {", ".join(best.implied)}' * bool(
      best.implied
    )
    if best.gain.is_clear:
      return f'{best.name}{also}: {accuracies}: {best.gain}.'
    return (
      f'No {helper} clearly helps. The best was {best.name}{also}:'
      f' {accuracies}: {best.gain}, which may be chance.'
    )

  def __repr__(self) -> str:
    return f'SearchResult({self.dataset!r}, {self.verdict!r})'

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
      symmetries: Those of your own that the search had in its table; files hold
        only names.
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


# kind -> factory(symmetries=…, **the rest of the description)
KINDS: dict[str, Callable[..., space_lib.Space]] = {
  'mlp': mlp_space.mlp_space,
  'gcnn': gcnn_space.gcnn_space,
}


def from_spec(
  spec: Mapping[str, Any], symmetries: symmetries_lib.SymmetryLike = ()
) -> space_lib.Space:
  """Makes a space that `spec` described; of MLPs if it names no kind.

  Args:
    spec: The description.
    symmetries: Those in its table that are not in `SYMMETRIES`.
  """
  own = {s.name: s for s in symmetries_lib.as_symmetries(symmetries)}
  known = {**symmetries_lib.SYMMETRIES, **own}
  if unknown := [name for name in spec['symmetries'] if name not in known]:
    raise ValueError(
      f'the symmetries {", ".join(unknown)} are not built in, and files hold'
      ' only their names; pass them in `symmetries`'
    )
  rest = dict(spec)
  kind, names = rest.pop('kind', 'mlp'), rest.pop('symmetries')
  actions = rest.pop('actions', None)
  space = KINDS[kind](symmetries=tuple(known[n] for n in names), **rest)
  for name, then, now in zip(
    names, actions or space.actions(), space.actions(), strict=True
  ):
    if then != now:
      raise ValueError(
        f'{name} is another symmetry now than it was in the search: it moves'
        ' the images otherwise; pass the function that the search had'
      )
  return space


_NUMBER = '.6f'
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
  """Writes the ranking as CSV; the same ranking gives the same bytes."""
  with io_lib.written_text(path) as file:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(RANKING_COLUMNS)
    for rank, entry in enumerate(ranking, start=1):
      search, again = entry.search, entry.retrained
      writer.writerow(
        (
          rank,
          entry.name,
          ' + '.join(entry.implied),
          entry.num_weights,
          *_numbers(search),
          search.num_seeds,
          search.num_diverged,
          *(_numbers(again) if again else [''] * 4),
        )
      )


def write_trace(path: io_lib.PathLike, result: SearchResult) -> None:
  """Writes every step of the search as CSV."""
  with io_lib.written_text(path) as file:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(('step', 'state', 'network', 'value', 'epsilon'))
    for number, step in enumerate(result.trace, start=1):
      network = int(result.space.network_of[step.state])
      value = format(step.value, _NUMBER)
      epsilon = '' if step.epsilon is None else f'{step.epsilon:g}'
      writer.writerow((number, step.state, network, value, epsilon))


def _numbers(score: score_lib.Score) -> list[str]:
  numbers = (score.value, score.accuracy, score.standard_error, score.loss)
  return [format(number, _NUMBER) for number in numbers]


def save_params(directory: pathlib.Path, variables: Mapping[str, Any]) -> None:
  """Writes an Orbax checkpoint."""
  import orbax.checkpoint as ocp  # heavy, and only needed here

  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(directory.absolute(), dict(variables), force=True)


def load_params(directory: pathlib.Path, model: nn.Module, x: Any) -> Any:
  """Reads an Orbax checkpoint of a model's variables."""
  import orbax.checkpoint as ocp

  expected = jax.eval_shape(model.init, jax.random.key(0), x)
  with ocp.StandardCheckpointer() as checkpointer:
    return checkpointer.restore(directory.absolute(), expected)


def _as_json(result: SearchResult) -> dict[str, Any]:
  best = result.best
  return {
    'dataset': result.dataset,
    'num_images': result.num_images,
    'verdict': result.verdict,
    'best': {
      'network': result.ranking[0].network,
      'symmetries': best.symmetries,
      'implied': best.implied,
      'scaling': dataclasses.asdict(best.scaling),
      'accuracy': best.accuracy,
      'baseline_accuracy': best.baseline_accuracy,
      'gain': dataclasses.asdict(best.gain),
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
  best = stored['best']
  model = space.model(best['network'])
  x = np.zeros((1, *space.image_shape), np.float32)
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
      baseline_accuracy=best.get(
        'baseline_accuracy', best.get('base_accuracy')
      ),
      gain=score_lib.Gain(**best['gain']),
    ),
    ranking=tuple(Ranked.from_json(entry) for entry in stored['ranking']),
    counts=Counts(**stored['counts']),
    trace=tuple(Step(*step) for step in stored['trace']),
    q_values=tuple((state, tuple(q)) for state, q in stored['q_values']),
    space=space,
  )
