"""The search: explore, retrain the best, choose one, test the choice.

`discover` is the one-call API.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import itertools
import math
import pathlib
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import load as load_lib
from aen.groups import symmetries as symmetries_lib
from aen.search import explore as explore_lib
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import screen as screen_lib
from aen.search import space as space_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors as executors_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib
from aen.train.store import Record

# The paper: 4 epochs of 4000 images, in batches of 64, which are 250 steps.
SEARCH_IMAGES = 4000
SEARCH_STEPS = 250
MIN_EPOCHS = 4
MAX_EXHAUSTIVE = 1000  # networks, beyond which `discover` uses the DQN
MAX_CNNS = 48  # networks that `discover` trains of group CNNs, by default
NETWORKS = ('mlp', 'cnn')
_EXPLORING_SHARE = 0.5  # of a time limit
_USED_SHARE = 0.85  # of a time limit, for exploring and retraining together
_FEWEST_SEEDS = 3  # of retraining, below which fewer networks are retrained
_LONG = 30  # minutes, beyond which the estimate says how to shorten a search

_Children = Mapping[int, Sequence[Record]]  # by network


def discover(
  images: Any,
  labels: Any,
  *,
  test_images: Any = None,
  test_labels: Any = None,
  class_names: Sequence[str] | None = None,
  grid_axes: int | None = None,
  task: str | None = None,
  symmetries: symmetries_lib.SymmetryLike | None = None,
  network: str = 'mlp',
  hidden_shapes: Sequence[Sequence[int]] | None = None,
  head: str = 'invariant',
  downscale: int = 1,
  strategy: str | None = None,
  recipe: recipe_lib.Recipe | Mapping[str, Any] | None = None,
  seed: int = 0,
  run_dir: io_lib.PathLike | None = None,
  executor: Any = None,
  progress: bool = True,
  **options: Any,
) -> result_lib.SearchResult:
  """Finds the symmetries that a network for these data should have.

  First, `screen` tests which symmetries the data have. Then every distinct
  network is trained on some of the examples and scored on others; the best are
  retrained with several seeds, each with its own split into training and
  validation examples; the chosen one is compared with the network without
  symmetry on test examples, which are used for nothing else.

  Args:
    images: Numbers of any shape: images [N, H, W] or [N, H, W, C], sequences
      [N, L] or [N, L, C], volumes [N, D, H, W] or [N, D, H, W, C], tables
      [N, F].
    labels: One per example. Classes (whole numbers, names, Booleans, one-hot
      rows, any hashable values), or numbers to predict.
    test_images: As `images`; by default a sixth of the examples is held out.
    test_labels: As `labels`.
    class_names: One per class, in the order of the labels.
    grid_axes: How many axes of an example are its grid, on which symmetries
      act; a further axis holds channels. By default as in `own.as_inputs`.
    task: 'classification' or 'regression'; by default regression if labels are
      floats with fractions.
    symmetries: Names, functions of an array, permutations as integer arrays,
      `Symmetry` objects, or a mix; by default those of
      `symmetries.CANDIDATES[grid_axes]` that can act on the grid, for images
      the paper's twelve.
    network: 'mlp', or 'cnn' for group CNNs on images: their symmetries,
      augmentations and size.
    hidden_shapes: The grids of the hidden layers of MLPs; see `mlp_space`.
    head: 'invariant' (the outputs do not change when the input is transformed,
      which says most about the data) or 'dense' (the paper's).
    downscale: Side of the blocks of the grid that are averaged first, for large
      images; `predict` then expects averaged images too.
    strategy: Name in `strategies.STRATEGIES`; by default 'screened' if there is
      a budget, else 'exhaustive' for at most 1000 networks, else 'dqn'.
    recipe: Hyperparameters; by default Adam, as many steps as the paper's, and
      the likelihood of the validation labels as the criterion. A dict overrides
      single fields of that default.
    seed: Random seed of the search.
    run_dir: Where to keep results; the same call resumes an interrupted search.
      By default nothing is kept.
    progress: Whether to print findings and time estimates to stderr.
    executor: Where to train, as in `search`; by default in this process.
    **options: Further fields of `SearchConfig`, such as max_networks and
      max_minutes.

  Returns:
    The result: `.best.symmetries`, `.best.predict`, `.ranking`, `.verdict`, …
  """
  started = time.monotonic()
  executors_lib.keep_compilations()

  def say(line: str) -> None:
    if progress:
      print(line, file=sys.stderr, flush=True)

  _check_options(recipe, options)
  io_lib.choice(network, 'network', NETWORKS)
  data = load_lib.from_examples(
    images,
    labels,
    test_images=test_images,
    test_labels=test_labels,
    class_names=class_names,
    grid_axes=grid_axes,
    task=task,
    downscale=downscale,
    seed=seed,
  )
  say(data.summary())
  _check(data)  # before the networks are listed, which may take long
  if network == 'cnn':
    if data.grid_axes != 2:
      raise ValueError(
        f"network='cnn' needs images, with grid_axes=2, got {data.grid_axes};"
        " leave it out, or give network='mlp'"
      )
    space: space_lib.Space = gcnn_space.gcnn_space(
      data.image_shape, data.num_outputs, symmetries, head=head
    )
  else:
    space = mlp_space.mlp_space(
      data.image_shape,
      data.num_outputs,
      symmetries,
      hidden_shapes=hidden_shapes,
      head=head,
      grid_axes=data.grid_axes,
    )
  if not isinstance(recipe, recipe_lib.Recipe):
    count = min(len(data.train), SEARCH_IMAGES)
    recipe = default_recipe(count, **dict(recipe or {}))
  budgets = [options.get(name) for name in ('max_networks', 'max_minutes')]
  if network == 'cnn' and budgets == [None, None]:
    options['max_networks'] = budgets[0] = MAX_CNNS
  if strategy is None:
    every = 'exhaustive' if len(space) <= MAX_EXHAUSTIVE else 'dqn'
    strategy = every if budgets == [None, None] else 'screened'
  config = explore_lib.SearchConfig(recipe, strategy, seed=seed, **options)
  say(
    f'{len(space)} networks of {len(space.symmetries)} symmetries, up to'
    f' {space.num_weights(0)} weights'
  )
  return search(
    data,
    space,
    config,
    run_dir,
    screened=True,
    executor=executor,
    say=say,
    started=started,
  )


def _check_options(recipe: Any, options: Mapping[str, Any]) -> None:
  """Raises if `discover` was given an unknown argument."""
  changes = {field.name for field in dataclasses.fields(recipe_lib.Recipe)}
  known = {field.name for field in dataclasses.fields(explore_lib.SearchConfig)}
  if not isinstance(recipe, recipe_lib.Recipe | Mapping | None):
    raise TypeError(f'recipe must be an aen.Recipe, got {recipe!r}')
  if isinstance(recipe, Mapping) and not recipe.keys() <= changes:
    raise TypeError(
      f'recipe may change {", ".join(sorted(changes))}, got'
      f' {", ".join(sorted(recipe.keys() - changes))}'
    )
  for name in options.keys() - known:
    hint = f'it has {", ".join(sorted(known))}'
    if name in changes:
      hint = (
        f"give recipe=aen.Recipe({name}=…, criterion='likelihood'), or"
        f" recipe={{'{name}': …}} to keep everything else"
      )
    raise TypeError(f'discover has no option {name!r}; {hint}')


def default_recipe(num_images: int, **changes: Any) -> recipe_lib.Recipe:
  """Returns a recipe with as many steps as the paper's.

  If there are fewer images than a batch, a batch is half of them.
  """
  batch_size = changes.get('batch_size', recipe_lib.Recipe.batch_size)
  if num_images < batch_size and 'batch_size' not in changes:
    batch_size = changes['batch_size'] = max(1, num_images // 2)
  epochs = math.ceil(SEARCH_STEPS / max(1, num_images // batch_size))
  defaults = {'epochs': max(MIN_EPOCHS, epochs), 'criterion': 'likelihood'}
  return recipe_lib.Recipe(**{**defaults, **changes})


def search(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  run_dir: io_lib.PathLike | None = None,
  search_images: int | None = SEARCH_IMAGES,
  on_trained: Callable[[Sequence[Record]], None] | None = None,
  evaluator: Callable[..., evaluate_lib.Evaluate] = evaluate_lib.make_evaluator,
  screened: bool = False,
  executor: Any = None,
  say: Callable[[str], None] = lambda line: None,
  started: float | None = None,
) -> result_lib.SearchResult:
  """Searches a space for the best network on a data set.

  Args:
    data: The images; the test images are used once, at the end.
    space: The networks.
    config: How to search.
    run_dir: Where to keep results; the same call resumes an interrupted search
      and reads a finished one. By default nothing is kept.
    search_images: Maximum number of training images in the search, with a
      quarter of it for validation; retraining uses all. None for no limit.
    on_trained: Called with the records of every batch that is trained.
    evaluator: Takes the arguments of `evaluate.make_evaluator` and returns a
      function of (requests, epochs) that returns one record per request.
    screened: Whether to test which symmetries the training images have, and
      include that in the result; always with the strategy 'screened'.
    executor: Where to train: 'local' (the default), 'processes', 'ray',
      anything with `submit(function, job)` such as Dask's `Client`, or
      `executors.Workers` with further options. The result is the same.
    say: Called with an estimate of how long the search takes, one line.
    started: When the time limit began, by `time.monotonic`; now by default.
  """
  clock = _Clock(config, time.monotonic() if started is None else started)
  _check(data)
  workers = executors_lib.as_workers(executor)
  description = describe(data, space, config, search_images)
  data, target_scaling = _standardised(data)
  few = at_most(data, search_images)
  evaluate_lib.check_batch(few, config.recipe)
  strategy = explore_lib.make_strategy(space, config)
  with contextlib.ExitStack() as stack:
    path: Any = store_lib.MEMORY
    if run_dir is not None:
      run_dir = pathlib.Path(run_dir)
      path = run_dir / 'results.sqlite'
      stack.enter_context(io_lib.locked(run_dir))
      before = result_lib.finished(run_dir, description, space.symmetries)
      if before is not None:
        return before
      io_lib.open_run(run_dir, description)
    store = stack.enter_context(store_lib.Results(path))
    make = functools.partial(
      evaluator,
      scaling=evaluate_lib.scaling_of(data.train.images, config.recipe.scaling),
      space=space,
      store=store,
      children_per_batch=config.children_per_batch,
      **stack.enter_context(workers.started(run_dir)),
    )
    steps = _Steps(
      data, few, space, config, clock, make, on_trained, target_scaling
    )
    with steps.progress(say) as bar:
      evaluate = make(few, recipe=config.recipe, on_trained=bar)
      wait = None
      if isinstance(evaluate, evaluate_lib.Evaluator):
        # Workers train these while this process screens the images.
        first = itertools.product(space.baselines(), config.seeds())
        wait = evaluate.prepare(list(first))
      screening = None
      if screened or config.strategy == 'screened':
        screening = screen_lib.screen(
          few.train.images,
          screen_lib.binned(few.train.labels),
          space.symmetries,
          groups=few.train.groups,
          grid=space.grid,
        )
        if config.strategy == 'screened':
          guide = screening.guide(space)
          strategy = explore_lib.make_strategy(space, config, **guide)
      if wait is not None:
        wait()
      found = explore_lib.explore(
        space, evaluate, config, strategy, clock.out_of_time, workers.count
      )
    result = steps.conclude(found, steps.retrain(found.records), screening)
    if run_dir is not None:
      result = dataclasses.replace(result, config=description)
      result.save(run_dir)
      store.forget_params()
  return result


def _check(data: dataset_lib.Dataset) -> None:
  """Raises before any training if the data cannot be searched."""
  pixels = data.train.images
  if (pixels == pixels.flat[0]).all():
    raise ValueError(
      'all pixels of all training images have the same value; give images that'
      ' differ'
    )
  labels = np.unique(data.train.labels).tolist()
  if len(labels) < 2:
    needed = 'numbers to predict that differ'
    if data.num_classes:
      needed = 'images of at least two classes'
    raise ValueError(
      f'a search needs {needed}, got {len(data.train)} training examples with'
      f' {labels} alone; give examples with others too'
    )
  for name in ('validation', 'test'):
    if not len(getattr(data, name)):
      raise ValueError(
        f'a search needs {name} images, got none; leave num_{name} out, or'
        ' give more than 0'
      )


def describe(
  data: dataset_lib.Dataset,
  space: space_lib.Space,
  config: explore_lib.SearchConfig,
  search_images: int | None,
) -> dict[str, Any]:
  """Returns everything that determines the result of a search, for JSON."""
  options = dataclasses.asdict(config) | {'options': dict(config.options)}
  for name in ('max_networks', 'max_minutes'):  # not in older run directories
    if options[name] is None:
      del options[name]
  return {
    'dataset': data.name,
    'fingerprint': data.fingerprint,
    'space': space.spec(),
    'search': options,
    'search_images': search_images,
  }


def _standardised(
  data: dataset_lib.Dataset,
) -> tuple[dataset_lib.Dataset, evaluate_lib.Scaling | None]:
  """Standardises numbers to predict to mean 0 and variance 1."""
  if data.num_classes:
    return data, None
  both = np.concatenate([data.train.labels, data.validation.labels])
  scaling = evaluate_lib.scaling_of(both)
  splits = {}
  for name in ('train', 'validation', 'test'):
    split = getattr(data, name)
    splits[name] = dataclasses.replace(split, labels=scaling(split.labels))
  return dataclasses.replace(data, **splits), scaling


def at_most(
  data: dataset_lib.Dataset, count: int | None
) -> dataset_lib.Dataset:
  """Draws at most `count` training images, and a quarter for validation."""
  if count is None:
    return data

  def part(split: dataset_lib.Split, count: int) -> dataset_lib.Split:
    order = np.random.default_rng(0).permutation(len(split))
    return split.take(np.sort(order[:count]))

  return dataclasses.replace(
    data,
    train=part(data.train, count),
    validation=part(data.validation, max(1, count // 4)),
  )


class _Clock(NamedTuple):
  """The time limit of a search, for exploring and for retraining."""

  config: explore_lib.SearchConfig
  started: float  # by `time.monotonic`

  def left(self, share: float = _USED_SHARE) -> float:
    """Returns the seconds left of a share of the time limit."""
    limit = 60 * (self.config.max_minutes or math.inf)
    return self.started + share * limit - time.monotonic()

  def out_of_time(self) -> bool:
    """Whether exploring should end."""
    return self.left(_EXPLORING_SHARE) < 0

  def final(
    self, per_child: float, num_baselines: int
  ) -> tuple[int, recipe_lib.Recipe]:
    """Returns how many networks to retrain beside the baselines, and how.

    `per_child` is the time to retrain a child, in seconds.
    """
    recipe = self.config.final_recipe()
    children = max(0.0, self.left()) / max(per_child, 1e-6)
    most = children / _FEWEST_SEEDS - num_baselines
    top = int(max(1, min(self.config.top, most)))
    share = min(1.0, children / (top + num_baselines))
    epochs = max(1, int(share * recipe.epochs))
    return top, dataclasses.replace(recipe, epochs=epochs)


@dataclasses.dataclass(frozen=True)
class _Steps:
  """The steps of a search, and what they share."""

  data: dataset_lib.Dataset  # with standardised numbers to predict
  few: dataset_lib.Dataset  # what the search trains on
  space: space_lib.Space
  config: explore_lib.SearchConfig
  clock: _Clock
  make: Callable[..., evaluate_lib.Evaluate]  # of data, recipe, on_trained
  on_trained: Callable[[Sequence[Record]], None] | None
  target_scaling: evaluate_lib.Scaling | None

  @property
  def longer(self) -> float:
    """The cost of retraining a child, relative to training it in the search."""
    longer = self.config.final_recipe().epochs / self.config.recipe.epochs
    return longer * len(self.data.train) / len(self.few.train)

  def progress(
    self, say: Callable[[str], None]
  ) -> contextlib.AbstractContextManager[Callable[..., None]]:
    """Shows the progress of a search, and says how long it takes."""
    space, config = self.space, self.config
    num_networks = min(len(space), config.max_networks or len(space))
    children = num_networks * config.num_seeds
    total = None  # strategies may end before they have seen every network
    if config.max_networks or config.strategy == 'exhaustive':
      total = children
    finalists = min(config.top, len(space)) + len(space.baselines())
    all_children = children + finalists * config.retrain_seeds * self.longer
    limit, batches = config.max_minutes, itertools.count(1)

    def estimate(records: Sequence[Record]) -> None:
      if next(batches) != 2:  # the first one includes compilation
        return
      minutes = all_children * records[0].seconds / 60
      line = f'{len(space)} networks, about {_duration(minutes)}'
      if limit is not None and minutes > limit:
        line += f'; the best found within {_duration(limit)} is returned'
      elif minutes > _LONG:
        line += '; max_minutes=…, max_networks=… or downscale=2 shorten that'
      say(line)

    return evaluate_lib.progress_bar('search', total, estimate, self.on_trained)

  def scores(
    self, children: _Children, num_images: int
  ) -> dict[int, score_lib.Score]:
    """Returns the score of each network on `num_images` images."""
    criterion, numbers = self.config.recipe.criterion, not self.data.num_classes
    return {
      network: score_lib.Score.of(records, criterion, num_images, numbers)
      for network, records in children.items()
    }

  def retrain(self, children: _Children) -> _Children:
    """Retrains the best networks and the baselines, as time allows."""
    config, baselines = self.config, self.space.baselines()
    scores = self.scores(children, len(self.few.validation))
    seconds = [r.seconds for r in itertools.chain(*children.values())]
    per_child = float(np.median(seconds)) * self.longer
    top, recipe = self.clock.final(per_child, len(baselines))
    best = sorted(scores, key=lambda n: (-scores[n].value, n))[:top]
    finalists = list(dict.fromkeys([*baselines, *best]))
    total = len(finalists) * config.retrain_seeds
    # Jobs of a seed are submitted before those of the previous one have
    # finished, unless there is a time limit to check in between.
    ahead = int(config.max_minutes is None)
    by_seed: list[list[Record]] = []
    waiting: list[Callable[[], list[Record]]] = []
    with evaluate_lib.progress_bar('retrain', total, self.on_trained) as bar:
      for seed in config.final_seeds():  # each on another split of the images
        if by_seed and self.clock.left() < len(finalists) * per_child:
          break
        data = self.data.refold(seed)
        evaluate = self.make(
          data, recipe=recipe, keep_params=True, on_trained=bar
        )
        requests = [(network, seed) for network in finalists]
        waiting.append(evaluate_lib.start(evaluate, requests))
        if len(waiting) > ahead:
          by_seed.append(waiting.pop(0)())
      by_seed += [wait() for wait in waiting]
    by_network = zip(*by_seed, strict=True)
    return dict(zip(finalists, by_network, strict=True))

  def conclude(
    self,
    found: explore_lib.Exploration,
    again: _Children,
    screening: screen_lib.Screening | None,
  ) -> result_lib.SearchResult:
    """Chooses one of the retrained networks, tests it, and ranks all."""
    data, space, criterion = self.data, self.space, self.config.recipe.criterion
    num_train, num_validation = len(data.train), len(data.validation)
    scores = self.scores(found.records, len(self.few.validation))
    # Seeds validate on different images, until all have been used.
    num_seeds = len(next(iter(again.values())))
    num_images = min(num_seeds * num_validation, num_train + num_validation)
    final_scores = self.scores(again, num_images)
    chosen = max(again, key=lambda n: (final_scores[n].value, -n))
    if screening is not None:
      chosen = _as_good(chosen, again, space, screening, criterion)

    def rank(network: int) -> tuple[bool, bool, float, int]:
      final = final_scores.get(network)
      value = (final or scores[network]).value
      return network != chosen, final is None, -value, network

    ranking = tuple(
      result_lib.Ranked(
        network=network,
        symmetries=space.names(network),
        implied=space.implied(network),
        num_weights=space.num_weights(network),
        search=scores[network],
        retrained=final_scores.get(network),
      )
      for network in sorted(scores, key=rank)
    )
    return result_lib.SearchResult(
      dataset=data.name,
      num_images=(num_train, num_validation, len(data.test)),
      best=self.test(chosen, again),
      ranking=ranking,
      counts=found.counts,
      trace=found.trace,
      q_values=found.q_values,
      space=space,
      screening=screening,
    )

  def test(self, chosen: int, again: _Children) -> result_lib.Best:
    """Compares the chosen network with its baseline on the test images."""
    data, space, recipe = self.data, self.space, self.config.recipe
    scaling = evaluate_lib.scaling_of(data.train.images, recipe.scaling)
    images, labels = scaling(data.test.images), data.test.labels

    def right(network: int) -> np.ndarray:
      """Returns whether each child gets each image right, [S, N].

      For regression, 1 - squared error / variance, whose mean is R².
      """
      model = space.model(network)
      every = [{'params': record.params} for record in again[network]]
      answers = np.array([result_lib.outputs(model, v, images) for v in every])
      if data.num_classes:
        return answers.argmax(axis=-1) == labels
      variance = max(float(labels.var(dtype=np.float64)), 1e-12)
      return 1 - np.square(answers[:, :, 0] - labels) / variance

    best, baseline = right(chosen), space.baseline(chosen)
    against = best if baseline == chosen else right(baseline)
    values = [score_lib.value([r], recipe.criterion) for r in again[chosen]]
    shown = again[chosen][int(np.argmax(values))]
    of_classes: dict[str, Any] = {}
    if data.num_classes:
      counts = np.bincount(data.train.labels, minlength=data.num_classes)
      of_classes = {
        'balanced_accuracy': score_lib.balanced(best, labels),
        'baseline_balanced_accuracy': score_lib.balanced(against, labels),
        'class_shares': tuple((counts / counts.sum()).tolist()),
      }
    return result_lib.Best(
      symmetries=space.names(chosen),
      implied=space.implied(chosen),
      model=space.model(chosen),
      variables={'params': shown.params},
      scaling=scaling,
      image_shape=data.image_shape,
      accuracy=float(best.mean()),
      baseline_accuracy=float(against.mean()),
      gain=score_lib.Gain.between(best, against),
      class_names=data.class_names,
      classes=data.classes,
      target_scaling=self.target_scaling,
      **of_classes,
    )


def _duration(minutes: float) -> str:
  """Returns a time in words.

  >>> _duration(0.5), _duration(2.2), _duration(200)
  ('30 seconds', '2 minutes', '3.3 hours')
  """
  if minutes < 1.5:
    return f'{max(1, round(60 * minutes))} seconds'
  return (
    f'{minutes:.0f} minutes' if minutes < 90 else f'{minutes / 60:.1f} hours'
  )


def _as_good(
  best: int,
  retrained: _Children,
  space: space_lib.Space,
  screening: screen_lib.Screening,
  criterion: str,
) -> int:
  """Returns the best network, or a more symmetric one that is as good.

  A network is as good if it has all symmetries of the best and further ones,
  none of which the screening rejects, and its validation score is within one
  standard error of the best, as in the rule of Breiman et al. (1984). Scores
  are compared split by split. Of all these, the one with the fewest weights.
  """
  values = {
    network: np.array([score_lib.value([r], criterion) for r in records])
    for network, records in retrained.items()
  }
  if len(values[best]) < 2:  # no standard error
    return best
  names = {n: {*space.names(n), *space.implied(n)} for n in values}
  allowed = {*screening.accepted, *screening.undecided}

  def is_as_good(network: int) -> bool:
    lost = values[best] - values[network]
    return (
      names[best] < names[network]
      and names[network] - names[best] <= allowed
      and lost.mean() <= lost.std(ddof=1) / math.sqrt(len(lost))
    )

  found = [best, *filter(is_as_good, values)]
  return min(found, key=lambda n: (space.num_weights(n), n))
