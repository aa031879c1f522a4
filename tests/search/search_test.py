"""The search from arrays to verdict, interrupted and resumed."""

import dataclasses
import errno
import functools

import jax
import numpy as np
import pytest

import aen
from aen import io as io_lib
from aen.data import dataset as dataset_lib
from aen.data import load as load_lib
from aen.search import explore as explore_lib
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import search as search_lib
from aen.search import strategies
from aen.train import child as child_lib
from aen.train import evaluate as evaluate_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

RECIPE = recipe_lib.Recipe(
  epochs=4, batch_size=16, learning_rate=3e-3, criterion='likelihood'
)
OPTIONS = {'recipe': RECIPE, 'top': 2, 'retrain_seeds': 2, 'retrain_epochs': 6}
FLIPS = ('horizontal_flip', 'vertical_flip')


@functools.cache
def flipped_images(count=480, seed=0):
  """Noisy copies of four patterns, each mirrored at random, left to right.

  On 10×10 points hidden layers need no channels, which keeps children small.
  """
  rng = np.random.default_rng(seed)
  patterns = np.random.default_rng(1).normal(size=(4, 10, 10))
  labels = rng.integers(4, size=count)
  images = patterns[labels]
  mirrored = rng.integers(2, size=count).astype(bool)
  images[mirrored] = images[mirrored, :, ::-1]
  images = images + 3 * rng.normal(size=images.shape)
  return images.astype(np.float32), labels


@functools.cache
def found():
  return aen.discover(
    *flipped_images(), symmetries=FLIPS, head='invariant', **OPTIONS
  )


def test_discover_finds_the_planted_symmetry():
  result = found()
  assert result.best.symmetries == ('horizontal_flip',)
  assert result.best.accuracy - result.best.baseline_accuracy == pytest.approx(
    result.best.gain.mean
  )
  assert len(result.ranking) == 4
  assert result.counts == result_lib.Counts(steps=4, states=4, networks=4)
  assert sum(entry.retrained is not None for entry in result.ranking) in (2, 3)
  assert result.ranking[0].name == 'horizontal_flip'
  assert 'horizontal_flip' in result.verdict
  assert f'{result.num_images[2]} test images' in result.verdict
  assert result.screening.accepted + result.screening.undecided == (
    'horizontal_flip',
  )


def test_the_best_network_predicts_and_is_equivariant():
  best = found().best
  images, labels = flipped_images(60, seed=5)
  answers = best.predict(images)
  assert answers.shape == labels.shape
  assert (answers == labels).mean() > 0.5
  np.testing.assert_array_equal(answers, best.predict(images[:, :, ::-1]))
  logits = best.model.apply(best.variables, best.scaling(images))
  np.testing.assert_array_equal(logits.argmax(axis=-1), answers)


def test_results_are_saved_and_loaded(tmp_path):
  result = found()
  result.save(tmp_path)
  again = aen.SearchResult.load(tmp_path)
  assert again.verdict == result.verdict
  assert again.screening.as_json() == result.screening.as_json()
  assert again.ranking == result.ranking
  assert again.counts == result.counts
  assert again.trace == result.trace
  images, _ = flipped_images(60, seed=5)
  np.testing.assert_array_equal(
    again.best.predict(images), result.best.predict(images)
  )
  before = (tmp_path / 'ranking.csv').read_bytes()
  again.save(tmp_path)
  assert (tmp_path / 'ranking.csv').read_bytes() == before
  assert len(before.decode().splitlines()) == 1 + len(result.ranking)


def test_loading_nothing_or_nonsense_is_one_line(tmp_path):
  with pytest.raises(FileNotFoundError, match='holds no result'):
    aen.SearchResult.load(tmp_path)
  (tmp_path / 'result.json').write_text('{"dataset": "half a resu')
  with pytest.raises(ValueError, match='no result that this version'):
    aen.SearchResult.load(tmp_path)


@pytest.mark.slow
def test_a_users_own_symmetry_is_found_and_survives_saving(tmp_path):
  def mirror(array):
    return array[:, ::-1]

  def up(array):
    return np.roll(array, 1, axis=0)

  own = (aen.Symmetry('mirror', mirror), aen.Symmetry('up', up))
  result = aen.discover(
    *flipped_images(), symmetries=own, run_dir=tmp_path, **OPTIONS
  )
  assert result.best.symmetries == ('mirror',)
  again = aen.SearchResult.load(tmp_path, symmetries=own)
  assert again.verdict == result.verdict
  with pytest.raises(ValueError, match='mirror, up are not built in.*got none'):
    aen.SearchResult.load(tmp_path)
  by_action = aen.SearchResult.load(tmp_path, symmetries=[up, np.fliplr])
  assert by_action.verdict == result.verdict


def test_a_symmetry_that_was_edited_is_another_run(tmp_path):
  def mine(x):
    return x[::-1]

  images, labels = flipped_images()
  options = {**OPTIONS, 'recipe': dataclasses.replace(RECIPE, epochs=1)}
  aen.discover(images, labels, symmetries=[mine], run_dir=tmp_path, **options)

  def mine(x):  # as in a notebook
    return x[:, ::-1]

  with pytest.raises(ValueError, match='holds another run .space.actions'):
    aen.discover(images, labels, symmetries=[mine], run_dir=tmp_path, **options)
  with pytest.raises(ValueError, match='mine is another symmetry now'):
    aen.SearchResult.load(tmp_path, [mine])


@pytest.mark.slow
def test_the_recipes_initialiser_is_obeyed():
  images, labels = flipped_images()
  losses = {
    aen.discover(
      images,
      labels,
      symmetries=(),
      recipe=aen.Recipe(epochs=1, batch_size=16, initializer=name),
      top=1,
      retrain_seeds=1,
    )
    .ranking[0]
    .search.loss
    for name in recipe_lib.INITIALIZERS
  }
  assert len(losses) == len(recipe_lib.INITIALIZERS)


@pytest.mark.parametrize(
  ('options', 'says'),
  [
    ({'epochs': 3}, r"no option 'epochs'; give recipe=aen.Recipe.epochs=…."),
    ({'symmetry': ()}, "no option 'symmetry'; it has children_per_batch, "),
    ({'recipe': 'adam'}, "recipe must be an aen.Recipe, got 'adam'"),
  ],
)
def test_what_is_no_option_is_said(options, says):
  with pytest.raises(TypeError, match=says):
    aen.discover(*flipped_images(), **options)


SHORT = {
  'recipe': dataclasses.replace(RECIPE, epochs=1),
  'retrain_epochs': 1,
  'strategy': 'dqn',
  'options': (('max_steps', 3), ('hidden_sizes', (8,))),
}
KINDS = {  # factory, symmetries, options
  'mlp': (mlp_space.mlp_space, FLIPS, {}),
  'gcnn': (gcnn_space.gcnn_space, (), SHORT),
}


def start(run_dir, kind='mlp', **changes):
  factory, symmetries, options = KINDS[kind]
  data = load_lib.from_arrays(*flipped_images())
  space = factory(data.image_shape, data.num_classes, symmetries)
  config = explore_lib.SearchConfig(**{**OPTIONS, **options, **changes})
  return search_lib.search(data, space, config, run_dir)


class Interrupted(Exception):
  pass


def test_an_interrupted_search_resumes_and_trains_nothing_twice(
  tmp_path, monkeypatch
):
  whole = start(tmp_path / 'whole')
  put, trained = store_lib.Results.put, []

  def counting_put(store, records):
    if len(trained) in (2, 5, 7) and not stops.get(len(trained)):
      stops[len(trained)] = True
      raise Interrupted
    put(store, records)
    trained.extend(record.key for record in records)

  stops = {}
  monkeypatch.setattr(store_lib.Results, 'put', counting_put)
  for _ in range(3):
    with pytest.raises(Interrupted):
      start(tmp_path / 'parts')
  parts = start(tmp_path / 'parts')
  assert len(trained) == len(set(trained))
  assert parts.ranking == whole.ranking
  for name in ('ranking.csv', 'result.json'):
    assert (tmp_path / 'parts' / name).read_bytes() == (
      tmp_path / 'whole' / name
    ).read_bytes()
  count = len(trained)
  assert start(tmp_path / 'parts').verdict == whole.verdict
  assert len(trained) == count


def test_a_run_directory_of_another_configuration_is_refused(tmp_path):
  start(tmp_path)
  before = (tmp_path / 'ranking.csv').read_bytes()
  with pytest.raises(
    ValueError, match='holds another run .search.top: 2 there, 1 here'
  ):
    start(tmp_path, top=1)
  (tmp_path / 'config.json').write_text('[]')
  with pytest.raises(ValueError, match='config.json is damaged'):
    start(tmp_path)
  assert (tmp_path / 'ranking.csv').read_bytes() == before


def test_a_run_directory_that_cannot_be_made_is_one_line(tmp_path):
  (tmp_path / 'file').touch()
  with pytest.raises(OSError, match='[Nn]ot a directory'):
    start(tmp_path / 'file' / 'run')


def test_a_run_directory_that_cannot_be_written_is_one_line(
  tmp_path, monkeypatch
):
  def read_only(*_):
    raise OSError(errno.EROFS, 'Read-only file system')

  monkeypatch.setattr(io_lib, 'written_text', read_only)
  with pytest.raises(
    OSError, match=r'cannot write to .* \(Read-only .*make it'
  ):
    start(tmp_path)


def test_seeds_decide_and_repeat(tmp_path):
  data = load_lib.from_arrays(*flipped_images())
  space = mlp_space.mlp_space(data.image_shape, data.num_classes, FLIPS)
  config = explore_lib.SearchConfig(**OPTIONS)
  assert search_lib.search(data, space, config).ranking == found_dense().ranking
  other = dataclasses.replace(config, seed=1)
  assert search_lib.search(data, space, other).ranking != found_dense().ranking
  assert not set(config.seeds()) & set(config.final_seeds())
  assert not set(config.final_seeds()) & set(other.seeds())


@functools.cache
def found_dense():
  return start(None)


@pytest.mark.slow
@pytest.mark.parametrize('strategy', strategies.STRATEGIES)
def test_every_strategy_searches(strategy):
  options = {'dqn': (('max_steps', 20), ('batch_size', 8))}
  result = start(None, strategy=strategy, options=options.get(strategy, ()))
  assert 1 < result.counts.networks <= 4
  assert result.counts.steps >= result.counts.networks - 1
  by_network = {entry.network: entry for entry in found_dense().ranking}
  for entry in result.ranking:
    same = entry.search == by_network[entry.network].search
    assert same or strategy == 'halving'  # which trains most for less long


def test_halving_trains_the_best_on_and_no_other():
  """Four networks for one epoch, the better two for two, the best for four."""
  trained = []

  def evaluate(requests, epochs):
    trained.append((epochs, sorted(network for network, _ in requests)))
    curve = [0.2, 0.4, 0.6, 0.8][:epochs]
    return [
      store_lib.Record(
        key=store_lib.ChildKey(str(network), 'data', 'recipe', seed),
        symmetries='',
        num_weights=1,
        train_loss=(0.0,) * epochs,
        validation_accuracy=tuple(x + network / 100 for x in curve),
        validation_loss=(0.0,) * epochs,
        test_accuracy=(),
        few_test_accuracy=(),
        diverged=False,
        seconds=1.0,
      )
      for network, seed in requests
    ]

  space = mlp_space.mlp_space((6, 6), 2, FLIPS)
  config = explore_lib.SearchConfig(recipe_lib.Recipe(epochs=4), 'halving')
  explored = explore_lib.explore(space, evaluate, config)
  lengths = {
    n: len(r[0].validation_accuracy) for n, r in explored.records.items()
  }
  assert lengths == {
    0: 4,
    1: 1,
    2: 2,
    3: 4,
  }  # 0 is what others are compared with
  assert max(explored.trace, key=lambda step: step.value).state == 3
  assert trained[0] == (4, [0])
  asked = [
    (epochs, network) for epochs, some in trained[1:] for network in some
  ]
  assert sorted(asked) == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (4, 3)]


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda x, y: (x[0], y), r'one label per image, got labels of shape .480'),
    (lambda x, y: (x[0, 0], y), r'expected inputs \[N, L\], \[N, H, W\]'),
    (lambda x, y: (np.where(x > 2, np.nan, x), y), 'finite'),
    (lambda x, y: (x, np.zeros_like(y)), 'at least two classes'),
    (lambda x, y: (x[:20], y[:20]), 'fewer than a batch of 16'),
    (lambda x, y: (x[:, :, :4], y), 'square'),
    (lambda x, y: (np.ones_like(x), y), 'the same value'),
    (lambda x, y: (x, y[:-1]), 'one label per image'),
  ],
)
def test_bad_data_is_refused_before_any_training(change, message, monkeypatch):
  def never(*_, **__):
    raise AssertionError('trained')

  monkeypatch.setattr(child_lib, 'train_children', never)
  images, labels = change(*flipped_images())
  with pytest.raises(ValueError, match=message):
    aen.discover(images, labels, symmetries=('rotation',), **OPTIONS)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:left out')
@pytest.mark.parametrize(
  'shape', [(11, 11), (10, 12), (10, 10, 3), (12, 12, 1)], ids=str
)
def test_odd_wide_and_colour_images_just_work(shape):
  rng = np.random.default_rng(0)
  labels = np.arange(60) % 2
  images = rng.integers(0, 100, (60, *shape)).astype(np.uint8)
  images[labels == 1] += 100
  recipe = recipe_lib.Recipe(epochs=1, batch_size=16)
  result = (
    aen.discover(
      images,
      labels,
      recipe=recipe,
      top=1,
      retrain_seeds=1,
      strategy='random',
      num_seeds=1,
    )
    if shape == (11, 11)
    else aen.discover(
      images,
      labels,
      symmetries=FLIPS,
      recipe=recipe,
      top=1,
      retrain_seeds=1,
    )
  )
  assert result.best.predict(images).shape == (60,)
  with pytest.raises(ValueError, match='as in the search, got shape'):
    result.best.predict(images[:, 1:])


@pytest.mark.slow
def test_no_symmetry_is_a_verdict():
  rng = np.random.default_rng(0)
  labels = rng.integers(4, size=240)
  images = rng.normal(size=(240, 10, 10)).astype(np.float32)
  corners = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])[labels]
  images[np.arange(240), *corners.T] += 5  # which corner tells; flips mix them
  result = aen.discover(images, labels, symmetries=FLIPS, **OPTIONS)
  assert result.best.symmetries == ()
  assert result.best.gain == score_lib.Gain(0.0, 0.0, 0.0, 0.0)
  assert result.answer.startswith('No symmetry helps')
  assert result.verdict == f'{result.screening.verdict}\n{result.answer}'
  assert result.screening.rejected == FLIPS


@pytest.mark.slow
def test_the_test_images_are_touched_only_at_the_end():
  images, labels = flipped_images()
  test_images, test_labels = flipped_images(60, seed=5)

  def searched(test_labels):
    return aen.discover(
      images,
      labels,
      test_images=test_images,
      test_labels=test_labels,
      symmetries=FLIPS,
      head='invariant',
      **OPTIONS,
    )

  right, wrong = searched(test_labels), searched((test_labels + 1) % 4)
  assert wrong.best.accuracy < 0.5 < right.best.accuracy
  assert (wrong.ranking, wrong.trace) == (right.ranking, right.trace)
  jax.tree.map(
    np.testing.assert_array_equal, wrong.best.variables, right.best.variables
  )


def test_gains_and_their_intervals():
  rng = np.random.default_rng(0)
  covered = 0
  for _ in range(300):  # two networks, equally good, seeds that differ
    skill = rng.normal(0.8, 0.05, size=(2, 5, 1))
    right = rng.random((2, 5, 200)) < skill
    gain = score_lib.Gain.between(right[0], right[1])
    covered += gain.low <= 0 <= gain.high
  assert covered >= 0.93 * 300
  better = score_lib.Gain.between(
    rng.random((5, 500)) < 0.9, rng.random((5, 500)) < 0.8
  )
  assert better.is_clear
  assert str(better).startswith('+')


def test_a_score_is_that_of_the_best_epoch():
  record = store_lib.Record(
    key=store_lib.ChildKey('n', 'd', 'r', 0),
    symmetries='',
    num_weights=1,
    train_loss=(1.0, 1.0, 1.0),
    validation_accuracy=(0.5, 0.75, 0.75),
    validation_loss=(0.4, 0.7, 0.5),
    test_accuracy=(),
    few_test_accuracy=(),
    diverged=False,
    seconds=1.0,
  )
  score = score_lib.Score.of([record], 'accuracy', 100)
  assert (score.value, score.accuracy, score.loss) == (0.75, 0.75, 0.7)
  assert score.standard_error == pytest.approx(
    np.sqrt(77 / 104 * 27 / 104 / 104)
  )
  score = score_lib.Score.of([record], 'likelihood', 100)
  assert score.value == pytest.approx(np.exp(-0.4))
  assert score.accuracy == 0.5


def test_grey_levels_are_scaled_as_published_and_others_by_themselves():
  rng = np.random.default_rng(0)
  grey = rng.integers(0, 256, (50, 6, 6), np.uint8)
  np.testing.assert_allclose(
    evaluate_lib.scaling_of(grey)(grey),
    (grey / 255 - dataset_lib.PUBLISHED_MEAN) / dataset_lib.PUBLISHED_STD,
    rtol=1e-5,
  )
  colour = rng.integers(100, 256, (50, 6, 6, 3), np.uint8)
  for images in (colour, colour / 255, grey / 255):
    scaled = evaluate_lib.scaling_of(images)(images)
    assert scaled.mean() == pytest.approx(0, abs=1e-5)
    assert scaled.std() == pytest.approx(1, abs=1e-5)


def test_parameters_become_bytes_and_come_back():
  params = {'a': {'kernel': np.arange(6.0).reshape(2, 3)}, 'b': np.float32(1)}
  again = store_lib.unpack(store_lib.pack(params))
  jax.tree.map(np.testing.assert_array_equal, again, params)


@pytest.mark.parametrize('strategy', ['random', 'local', 'evolution'])
def test_the_path_depends_on_the_configuration_alone(strategy, monkeypatch):
  space = mlp_space.mlp_space((6, 6), 2, FLIPS)

  def trace(num_devices, children_per_batch):
    devices = [jax.devices()[0]] * num_devices
    monkeypatch.setattr(jax, 'devices', lambda: devices)
    config = explore_lib.SearchConfig(
      recipe_lib.Recipe(epochs=2),
      strategy,
      children_per_batch=children_per_batch,
    )
    return explore_lib.explore(space, invented_records, config).trace

  assert trace(1, None) == trace(8, None) == trace(1, 5)


def test_a_time_limit_leaves_no_worker_idle():
  space = mlp_space.mlp_space((6, 6), 2, ('rotation', *FLIPS))
  config = explore_lib.SearchConfig(
    recipe_lib.Recipe(epochs=2),
    'exhaustive',
    children_per_batch=1,
    max_minutes=10.0,
  )
  sizes = []

  def evaluate(requests, epochs):
    sizes.append(len(requests))
    return invented_records(requests, epochs)

  options = {'out_of_time': lambda: False, 'num_workers': 2}
  explore_lib.explore(space, evaluate, config, **options)
  assert sum(sizes) == len(space)
  assert sizes[0] == 1
  assert set(sizes[1:-1]) == {2}


def invented_records(requests, epochs):
  return [
    store_lib.Record(
      train_loss=(0.0,) * epochs,
      validation_accuracy=((7 * network + 3) % 5 / 10,) * epochs,
      validation_loss=(0.0,) * epochs,
    )
    for network, _ in requests
  ]


def test_a_search_takes_another_evaluator():
  made = []

  def evaluator(data, **options):
    evaluate = evaluate_lib.make_evaluator(data, **options)
    made.append(options['recipe'].epochs)
    return evaluate

  data = load_lib.from_arrays(*flipped_images())
  space = mlp_space.mlp_space(data.image_shape, data.num_classes, FLIPS)
  config = explore_lib.SearchConfig(**OPTIONS)
  result = search_lib.search(data, space, config, evaluator=evaluator)
  assert result.ranking == found_dense().ranking
  assert made == [4, 6, 6]  # the search, and each seed of the retraining


def test_a_gcnn_search_counts_both_baselines():
  space = gcnn_space.gcnn_space((16, 16), 2, ('horizontal_flip',))
  options = (('max_steps', 3), ('hidden_sizes', (8,)))
  config = explore_lib.SearchConfig(
    recipe_lib.Recipe(epochs=1), 'dqn', options=options
  )
  explored = explore_lib.explore(space, invented_records, config)
  assert explored.counts.steps == 3
  assert explored.counts.networks <= explored.counts.states
  config = dataclasses.replace(config, max_networks=1)
  explored = explore_lib.explore(space, invented_records, config)
  assert explored.counts.networks == 2  # baselines are trained in any case
