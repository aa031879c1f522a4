"""`discover` on any data: what a new user tries, works or is told why not."""

import dataclasses
import functools
import re
import subprocess
import sys
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image
import pytest
from sklearn import metrics

import aen
from aen import __main__ as command
from aen import report
from aen.data import load as load_lib
from aen.data import own
from aen.groups import symmetries as symmetries_lib
from aen.search import mlp_space
from aen.search import result as result_lib
from aen.search import search as search_lib
from aen.train import child as child_lib
from aen.train import recipe as recipe_lib
from aen.train import score as score_lib
from aen.train import store as store_lib

# One program for all rows of the trial: equal shapes, sizes and recipes.
SHORT = {
  'recipe': {'epochs': 2, 'batch_size': 16},
  'top': 1,
  'retrain_seeds': 1,
  'retrain_epochs': 2,
  'progress': False,
}
COUNT = 60


@functools.cache
def images(dtype='float32'):
  """Bright images are of class 1."""
  rng = np.random.default_rng(0)
  dark = rng.integers(0, 2, (COUNT, 4, 4))
  dark[classes() == 1] += 2
  return dark.astype(dtype)


@functools.cache
def classes():
  return np.random.default_rng(1).integers(0, 2, COUNT)


def tried(x, y, **options):
  return aen.discover(x, y, symmetries=(), **SHORT, **options)


def test_the_number_of_grid_axes_has_a_sensible_default():
  expected = {
    (12,): 1,
    (3, 3): 2,
    (28, 28): 2,
    (60, 4): 1,
    (16, 1): 1,
    (28, 28, 3): 2,
    (32, 32, 12): 2,
    (8, 8, 8): 3,
    (8, 8, 8, 2): 3,
  }
  for shape, axes in expected.items():
    assert own.as_inputs(np.zeros((2, *shape)))[1] == axes
  data = load_lib.from_examples(np.ones((12, 60, 4)), np.arange(12) % 2)
  line = data.summary()
  assert 'of 60 with 4 channels (grid_axes=1), 2 classes (0, 1)' in line


LABELS = {
  'numbers': lambda y: y,
  'gappy': lambda y: 7 * y - 3,
  'strings': lambda y: np.array(['cat', 'dog'])[y],
  'list of strings': lambda y: [['cat', 'dog'][i] for i in y],
  'bool': lambda y: y == 1,
  'whole floats': lambda y: y.astype(float),
  'column': lambda y: y[:, None],
  'tuples': lambda y: [(0, 'a') if i else (1, 'b') for i in y],
  'tuples of two lengths': lambda y: [(0, 'a') if i else (1,) for i in y],
  'two types': lambda y: [7 if i else 'a' for i in y],
}


@pytest.mark.parametrize('kind', LABELS)
def test_labels_of_any_kind_are_classes_and_come_back(kind):
  labels = LABELS[kind](classes())
  best = tried(images(), labels).best
  answers = best.predict(images())
  flat = np.ravel(labels) if kind == 'column' else labels
  same = [a == b for a, b in zip(answers.tolist(), list(flat), strict=True)]
  assert np.mean(same) > 0.8
  assert len(best.class_names) == 2
  probabilities = best.predict_proba(images())
  assert probabilities.shape == (COUNT, 2)
  np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
  assert [best.classes[i] for i in probabilities.argmax(axis=1)] == list(
    answers.tolist()
  )


def test_one_hot_labels_are_classes():
  best = tried(images(), np.eye(2)[classes()]).best
  assert set(best.predict(images())) <= {0, 1}


@pytest.mark.parametrize('dtype', ['bool', 'int64', 'uint8', 'float64'])
def test_images_of_any_number_type(dtype):
  x = images('int64') > 1 if dtype == 'bool' else (60 * images()).astype(dtype)
  assert tried(x, classes()).best.accuracy > 0.8


def fails(message, x, y, **options):
  with pytest.raises(ValueError, match=message) as caught:
    aen.discover(x, y, **options, progress=False)
  assert '\n' not in str(caught.value)


def test_what_cannot_work_is_one_line_with_the_remedy():
  x, y = images(), classes()
  fails('NaN or infinity; replace them', np.where(x > 2, np.nan, x), y)
  fails('the same value', np.full((COUNT, 4, 4), 9, np.uint8), y)
  fails('NaN or infinity for 1 of 60; leave', x, [np.nan, *y[1:] / 2])
  fails(r'one at a time, such as targets\[:, 0\]', x, np.ones((COUNT, 2)) / 3)
  fails("task='regression' for numbers", np.ones((300, 4, 4)), np.arange(300))
  fails('encode words as numbers', np.full((COUNT, 4), 'a'), y)
  fails('grid_axes must be 1 or 2', x, y, grid_axes=5)
  fails('network must be one of mlp, cnn', x, y, network='rnn')
  fails("network='cnn' needs images", x.reshape(COUNT, 16), y, network='cnn')
  fails('downscale=3 must divide', x, y, downscale=3)
  cubes = np.arange(9.0 * 81).reshape(9, 3, 3, 3, 3)
  fails('no default symmetries of grids with 4 axes', cubes, y[:9], grid_axes=4)
  fails('numbers to predict that differ', x, np.full(COUNT, 0.5))
  fails('max_minutes must be', x, y, max_minutes=-1)


@pytest.mark.slow
def test_five_images_a_class_suffice():
  y = np.arange(10) % 2
  x = images()[:10] + 3 * y[:, None, None]
  options = {name: SHORT[name] for name in SHORT if name != 'recipe'}
  result = aen.discover(x, y, symmetries=(), recipe={'epochs': 2}, **options)
  assert result.num_images == (8, 1, 1)
  assert 'of 1 test images right' in result.verdict


def test_a_dict_changes_the_default_recipe_and_keeps_its_criterion():
  assert search_lib.default_recipe(500, epochs=3) == recipe_lib.Recipe(
    epochs=3, criterion='likelihood'
  )
  assert search_lib.default_recipe(40).batch_size == 20
  assert search_lib.default_recipe(64).batch_size == 64
  with pytest.raises(TypeError, match='recipe may change .*, got epoch$'):
    aen.discover(images(), classes(), recipe={'epoch': 3})


@functools.cache
def regressed():
  """Sequences whose target a reversal does not change."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(240, 6)).astype(np.float32)
  y = 100 + 7 * np.square(x) @ np.array([1, -2, 3, 3, -2, 1])
  options = {**SHORT, 'recipe': {'epochs': 40, 'batch_size': 16}}
  options |= {'retrain_epochs': 60, 'retrain_seeds': 2, 'top': 2}
  options |= {'symmetries': ('reversal', 'shift_by_1')}
  return aen.discover(x, y, **options), x, y


@pytest.mark.slow
def test_numbers_are_predicted_in_their_own_units():
  result, x, y = regressed()
  best = result.best
  assert best.symmetries == ('reversal',)
  assert best.is_regression
  assert best.class_names == ()
  predicted = best.predict(x)
  share = 1 - np.mean((predicted - y) ** 2) / y.var()
  assert share > 0.5
  np.testing.assert_allclose(predicted, best.predict(x[:, ::-1]), rtol=1e-4)
  assert f'R² = {best.accuracy:.3f} on 40 test images' in result.answer
  with pytest.raises(ValueError, match='predicts numbers; use predict'):
    best.predict_proba(x)
  scores = [entry.search for entry in result.ranking]
  assert all(0 <= score.accuracy <= 1 for score in scores)


@pytest.mark.slow
def test_a_regression_is_saved_loaded_and_reported(tmp_path):
  result, x, y = regressed()
  result.save(tmp_path)
  again = aen.SearchResult.load(tmp_path)
  np.testing.assert_array_equal(again.best.predict(x), result.best.predict(x))
  assert again.verdict == result.verdict
  data = load_lib.from_examples(x, y)
  page = report.write(result, data, tmp_path).read_text('utf-8')
  assert 'test R², reversal' in page
  assert 'a number to predict' in page
  assert page.index('What the symmetries of') < page.index('>The data<')
  assert page.index('>The data<') < page.index('>Ranking<')
  assert (tmp_path / 'transformed.png').exists()


def test_imbalance_is_reported_with_the_balanced_accuracy():
  y = (np.arange(COUNT) % 10 == 0).astype(int)
  result = tried(images(), y)
  best = result.best
  assert 'imbalanced: 90 % are 0. Balanced accuracy: ' in result.answer
  assert best.balanced_accuracy <= 1
  right = np.array([[True, True, True, False]])
  assert score_lib.balanced(right, np.array([0, 0, 0, 1])) == 0.5


def test_balanced_accuracy_is_a_criterion():
  """A network that always answers 0 has 0.5 of two classes, however few."""
  rng = np.random.default_rng(0)
  labels = rng.choice(3, p=[0.8, 0.15, 0.05], size=200)
  answers = rng.integers(3, size=200)
  ours = child_lib._balanced(
    jnp.asarray(answers == labels), jnp.asarray(labels), 3
  )
  theirs = metrics.balanced_accuracy_score(labels, answers)
  np.testing.assert_allclose(ours, theirs, rtol=1e-6)
  recipe = {**SHORT['recipe'], 'criterion': 'balanced_accuracy'}
  options = {**SHORT, 'recipe': recipe}
  result = aen.discover(images(), classes(), symmetries=(), **options)
  assert result.ranking[0].search.value == result.ranking[0].search.accuracy


def test_r_squared_is_that_of_scikit_learn():
  rng = np.random.default_rng(0)
  y, predicted = rng.normal(size=(2, 50)).astype(np.float32)
  predicted = (y + 0.5 * predicted).astype(np.float32)
  loss = np.mean((y - predicted) ** 2)
  np.testing.assert_allclose(
    child_lib._r_squared(loss, jnp.asarray(y)),
    metrics.r2_score(y, predicted),
    rtol=1e-5,
  )


FLIPS = ('horizontal_flip', 'vertical_flip', 'rotation')


@pytest.mark.slow
def test_budgets_end_the_search_with_a_valid_result(capsys):
  options = {**SHORT, 'symmetries': FLIPS}
  result = aen.discover(images(), classes(), max_networks=3, **options)
  assert result.counts.networks == 3
  assert len(result.ranking) == 3
  assert set(result.best.predict(images())) <= {0, 1}
  options |= {'progress': True, 'strategy': 'exhaustive'}
  result = aen.discover(images(), classes(), max_minutes=1e-6, **options)
  assert result.counts.networks == 1  # only the baseline, and it is valid
  assert result.is_baseline
  assert 'grid_axes=2' in capsys.readouterr().err
  result = aen.discover(images(), classes(), max_networks=1, **options)
  assert result.counts.networks == 1
  assert result.answer.startswith('The budget sufficed for the network without')


def test_the_clock_shares_out_what_is_left():
  config = aen.SearchConfig(max_minutes=10.0, retrain_epochs=20)
  clock = search_lib._Clock(config, time.monotonic())
  assert not clock.out_of_time()
  top, recipe = clock.final(per_child=1.0, num_baselines=1)
  assert (top, recipe.epochs) == (8, 20)
  top, recipe = clock.final(per_child=50.0, num_baselines=1)
  assert (top, recipe.epochs) == (2, 20)
  top, recipe = clock.final(per_child=1020.0, num_baselines=1)
  assert top == 1
  assert recipe.epochs == 4  # 510 s for 2 · 1020 s
  assert search_lib._Clock(config, time.monotonic() - 301).out_of_time()
  free = search_lib._Clock(aen.SearchConfig(), 0.0)
  assert not free.out_of_time()
  assert free.final(1e9, 1)[0] == 8


def test_an_estimate_is_given_before_most_of_the_training(capsys):
  options = {**SHORT, 'symmetries': FLIPS, 'progress': True}
  aen.discover(images(), classes(), **options)
  lines = capsys.readouterr().err.splitlines()
  assert any(line.startswith('6 networks, about ') for line in lines)


def verdict_of(gain, num_test=100, **changes):
  result, *_ = regressed()
  best = dataclasses.replace(
    result.best,
    gain=gain,
    target_scaling=None,
    class_names=('a', 'b'),
    **changes,
  )
  images_of = (100, 20, num_test)
  return dataclasses.replace(result, best=best, num_images=images_of).answer


def test_symmetry_is_chosen_where_validation_cannot_tell():
  flips = ('horizontal_flip', 'vertical_flip')
  space = mlp_space.mlp_space((6, 6), 2, flips)
  none, one, both = (space.network(flips[:count]) for count in range(3))

  def choice(values, accepted=flips, undecided=()):
    retrained = {
      network: [
        store_lib.Record((0.0,), (float(value),), (0.0,)) for value in row
      ]
      for network, row in values.items()
    }
    best = max(values, key=lambda network: np.mean(values[network]))
    screening = types.SimpleNamespace(accepted=accepted, undecided=undecided)
    return search_lib._as_good(best, retrained, space, screening, 'accuracy')

  # One standard error of the paired differences is 0.02.
  scores = np.array([0.70, 0.75, 0.80])
  apart = 0.02 * 3**0.5 * np.array([-1, 0, 1])
  tie, worse = scores - 0.019 - apart, scores - 0.021 - apart
  assert choice({none: scores, one: tie}) == one
  assert choice({none: scores, one: worse}) == none
  assert choice({none: scores, one: tie, both: tie}) == both
  assert choice({none: scores, one: tie, both: worse}) == one
  assert choice({none: tie, one: scores}) == one  # symmetry is not given up
  assert choice({none: scores, one: tie}, accepted=()) == none
  assert choice({none: scores, one: tie}, (), flips) == one
  # A rejected symmetry of the best itself is no reason against others.
  assert choice({one: scores, both: tie}, flips[1:]) == both
  assert choice({one: scores, both: tie}, flips[:1]) == one
  assert choice({none: scores[1:2], one: tie[1:2]}) == none  # one split


@pytest.mark.slow
def test_the_verdict_says_that_validation_cannot_tell():
  result, *_ = regressed()
  chosen, *others = result.ranking
  favoured = next(entry for entry in others if entry.retrained)
  better = dataclasses.replace(favoured.retrained, value=1.0)
  favoured = dataclasses.replace(favoured, retrained=better)
  best = dataclasses.replace(
    result.best, gain=score_lib.Gain(0.01, -0.01, 0.03, 0.01)
  )
  changed = dataclasses.replace(result, best=best, ranking=(chosen, favoured))
  lead = f'As good as {favoured.name} by validation, with fewer weights: '
  assert changed.answer.startswith(lead + chosen.name)


@pytest.mark.slow
def test_an_unclear_gain_says_what_is_known_and_what_would_settle_it():
  unclear = score_lib.Gain(0.015, -0.003, 0.033, 0.009, 0.0)
  # The margin is twice the standard error: (2 · 0.009 / 0.015)² · 100.
  assert unclear.images_needed(100) == pytest.approx(144, abs=1)
  answer = verdict_of(unclear)
  assert answer.startswith('Validation favours reversal: ')
  assert 'which may be chance' in answer
  assert 'Its mean over 2 validation splits is' in answer
  assert 'reversal' in answer.split('splits is')[1]  # what the screen says
  needed = f'About {unclear.images_needed(100)} test images'
  assert f'{needed} would settle such a gain.' in answer
  # Rounded to 0.0, it is not clear.
  edge = score_lib.Gain(0.015, 0.0002, 0.029, 0.0075, 0.0)
  assert not edge.is_clear
  assert verdict_of(edge).startswith('Validation favours')
  by_seeds = score_lib.Gain(0.015, -0.01, 0.04, 0.02, 0.0199)
  assert by_seeds.images_needed(100) is None
  assert 'a larger retrain_seeds would tell' in verdict_of(by_seeds)
  clear = score_lib.Gain(0.015, 0.01, 0.02, 0.0025, 0.0)
  assert verdict_of(clear).startswith('reversal: ')


@pytest.mark.slow
def test_permutation_arrays_act_on_hidden_copies_of_their_points(tmp_path):
  rng = np.random.default_rng(0)
  swap = np.array([1, 0, *range(2, 10)])
  turn = np.roll(np.arange(10), 1)
  x = rng.normal(size=(COUNT, 10)).astype(np.float32)
  own_arrays = {'swap': swap, 'turn': turn}
  result = aen.discover(x, classes(), symmetries=own_arrays, **SHORT)
  assert result.space.bits == ('swap', 'turn')
  assert result.space.template.hidden_shapes == ((10,), (10,))
  np.testing.assert_array_equal(
    aen.permutation(result.space.symmetries[0], (10,)), swap
  )
  result.save(tmp_path)
  again = aen.SearchResult.load(tmp_path, own_arrays)
  assert again.verdict == result.verdict
  with pytest.raises(ValueError, match=r'holds each of 0…N - 1 once'):
    symmetries_lib.as_symmetries([np.array([0.5, 1])])
  with pytest.raises(ValueError, match='swap permutes 10 points, got a grid'):
    mlp_space.mlp_space((10,), 2, own_arrays, grid_axes=1, hidden_shapes=[(9,)])


def test_many_points_get_some_of_their_orbits_as_hidden_grid():
  pairs = np.arange(2000).reshape(-1, 2)[:, ::-1].ravel()
  space = mlp_space.mlp_space((2000,), 2, [pairs], grid_axes=1)
  (points,) = space.template.hidden_shapes[0]
  assert points == 600
  hidden = aen.permutation(space.symmetries[0], (points,))
  assert (hidden != np.arange(points)).all()  # whole orbits: pairs
  again = result_lib.from_spec(space.spec(), [pairs])
  assert again.template.hidden_shapes == space.template.hidden_shapes
  assert again.key(1) == space.key(1)


def test_functions_written_with_jax_numpy_work_inside_jit():
  def mirror(x):
    return jnp.flip(x, 0)

  layer = aen.EquivariantDense([mirror], (6,), (6,))
  x = np.arange(6.0)
  variables = jax.jit(layer.init)(jax.random.key(0), x)
  y = jax.jit(layer.apply)(variables, x)
  np.testing.assert_allclose(
    layer.apply(variables, x[::-1])[::-1], y, rtol=1e-5, atol=1e-5
  )


def test_flips_that_change_nothing_are_not_implied():
  space = mlp_space.mlp_space((16, 1), 2, ('horizontal_flip', 'vertical_flip'))
  assert len(space) == 2
  assert space.implied(1) == ()
  assert space.names(1) == ('vertical_flip',)


def test_large_images_have_capped_hidden_grids():
  for grid in ((60, 80), (128, 128), (61, 200)):
    space = mlp_space.mlp_space(grid, 2, ('horizontal_flip',))
    assert max(space.template.hidden_shapes[0]) <= 24
  space = mlp_space.mlp_space((32, 32, 32), 2, (), grid_axes=3)
  assert np.prod(space.template.hidden_shapes[0]) <= 600
  blocks = own.downscaled(np.ones((2, 8, 4, 3), np.uint8), 2, 4)
  assert blocks.shape == (2, 2, 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize('shape', [(8,), (16, 3), (4, 4, 5), (5, 5, 5, 2)])
def test_sequences_volumes_and_tables_just_work(shape, tmp_path):
  rng = np.random.default_rng(0)
  x = rng.normal(size=(COUNT, *shape)) + 2 * classes().reshape(
    -1, *(1,) * len(shape)
  )
  options = {**SHORT, 'max_networks': 4}
  result = aen.discover(x, np.array(['a', 'b'])[classes()], **options)
  assert result.best.accuracy > 0.6
  data = load_lib.from_examples(x, classes())
  assert report.write(result, data, tmp_path).exists()


@pytest.mark.slow
@pytest.mark.parametrize('numbers', [False, True])
def test_group_cnns_through_the_same_call(numbers):
  rng = np.random.default_rng(0)
  x = rng.normal(size=(COUNT, 8, 8)).astype(np.float32)
  x += 2 * classes()[:, None, None]
  y = x.mean(axis=(1, 2)) if numbers else classes()
  options = {**SHORT, 'max_networks': 3}
  result = aen.discover(x, y, network='cnn', **options)
  assert result.counts.networks == 3
  assert result.best.predict(x).shape == (COUNT,)


SCRIPT = """
import sys, numpy as np, aen
x = np.random.default_rng(0).normal(size=(60, 4, 4))
y = np.arange(60) % 2
result = aen.discover(x, y, symmetries=[lambda a: a[::-1]], run_dir=sys.argv[1],
  recipe={'epochs': 1, 'batch_size': 16}, top=1, retrain_seeds=1)
print(result.space.bits)
"""


@pytest.mark.slow
def test_a_lambda_resumes_in_another_process(tmp_path):
  said = {
    subprocess.run(
      [sys.executable, '-c', SCRIPT, str(tmp_path / 'run')],
      capture_output=True,
      text=True,
      check=True,
    ).stdout
    for _ in range(2)
  }
  assert len(said) == 1


@pytest.mark.slow
def test_the_command_on_a_folder_of_images(tmp_path, capsys, monkeypatch):
  for name, level in (('cat', 40), ('dog', 200)):
    folder = tmp_path / 'pets' / name
    folder.mkdir(parents=True)
    for i in range(20):
      pixels = np.random.default_rng(i).integers(0, 50, (6, 6)) + level
      Image.fromarray(pixels.astype(np.uint8)).save(folder / f'{i}.png')
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'mine.py').write_text('def mirror(x):\n  return x[:, ::-1]\n')
  words = ['pets', '--symmetries=mine:mirror', '--max_networks=2']
  assert command.main(words) == 0
  said = capsys.readouterr().out
  assert 'report: runs/aen/pets/report.html' in said
  assert (tmp_path / 'runs/aen/pets/report.html').exists()
  assert command.main(['screen', 'pets']) == 0
  assert 'figure: runs/aen/pets/screening.png' in capsys.readouterr().out


def test_errors_of_the_command_are_one_line(tmp_path, capsys):
  (tmp_path / 'table.csv').write_text('a,b,kind\n1,2,x\n3,word,y\n')
  for name, side in (('cat', 6), ('dog', 7)):
    (tmp_path / 'mixed' / name).mkdir(parents=True)
    for i in range(4):
      image = Image.fromarray(np.full((6, side), i, np.uint8))
      image.save(tmp_path / 'mixed' / name / f'{i}.png')
  mixed = r'of one size, \(6, 6\) like .* got \(6, 7\); resize them first'
  cases = {
    (str(tmp_path / 'mixed'),): mixed,
    (str(tmp_path / 'none.csv'),): 'got nothing there; check the path',
    (str(tmp_path / 'table.csv'),): "all columns but 'kind' .*'word'",
    (str(tmp_path / 'table.csv'), '--target=c'): "no column 'c'; it has a, b",
    (str(tmp_path / 'none'),): 'none',
    ('digits', '--symmetries=nowhere:f'): "No module named 'nowhere'",
    (
      'digits',
      '--symmetries=numpy:f',
    ): "numpy has no function 'f'.*module:function",
  }
  for words, message in cases.items():
    assert command.main(list(words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


def test_tables_are_read_with_the_column_to_predict(tmp_path):
  path = tmp_path / 'table.csv'
  path.write_text('a,b,kind\n1,2,x\n3,4,y\n5,6,x\n')
  inputs, targets = own.read_csv(path)
  np.testing.assert_array_equal(inputs, [[1, 2], [3, 4], [5, 6]])
  assert targets.tolist() == ['x', 'y', 'x']
  path.write_text('a,b,price\n1,2,0.5\n3,4,1.5\n')
  inputs, targets = own.read_csv(path, 'a')
  np.testing.assert_array_equal(inputs, [[2, 0.5], [4, 1.5]])
  assert targets.tolist() == [1, 3]
  path.write_text('a,b\n1,2\n3\n')
  with pytest.raises(ValueError, match='line 3: expected 2 columns, got 1'):
    own.read_csv(path)
