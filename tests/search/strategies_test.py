"""Properties of every strategy, and what is special about each."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aen
from aen.search import compare
from aen.search import space as space_lib
from aen.search import strategies
from aen.search.strategies.sweep import rungs

NAMES = (
  *('rotation', 'horizontal_flip', 'vertical_flip'),
  *('left_vertical_scramble', 'top_horizontal_scramble'),
)
K, EPOCHS, ROUNDS = len(NAMES), 4, 200
SMALL_DQN = dict(
  hidden_sizes=(8,),
  batch_size=4,
  replay_capacity=50,
  epsilons=(1.0, 0.5, 0.1),
  models=(5, 10, 15),
  max_steps=120,
  episode_length=7,
)
OPTIONS = {'dqn': SMALL_DQN, 'evolution': {'population': 6, 'max_steps': 90}}
CASES = [
  *((name, {}) for name in strategies.STRATEGIES),
  ('random', {'distinct': False, 'per_round': 3}),
  ('evolution', {'per_round': 3}),
  ('local', {'per_round': 3}),
  ('screened', {'starts': (7, 0, 3, 5), 'per_round': 3}),
  ('screened', {'toggles': tuple(range(len(NAMES)))[::-1]}),
  ('halving', {'candidates': 7, 'factor': 3, 'per_round': 2}),
  ('dqn', {'walkers': 3}),
]


@functools.cache
def lattice():
  return aen.lattice(NAMES, [(4, 4), (4, 4)])


@functools.cache
def table():
  curves = np.random.default_rng(0).random((len(lattice()), EPOCHS))
  return np.maximum.accumulate(curves, axis=1).astype(np.float32)


def make(name, options):
  options = OPTIONS.get(name, {}) | options
  return strategies.make(
    name, K, network_of=lattice().network_of, epochs=EPOCHS, **options
  )


@functools.cache
def programs(name, options):
  """Compiles a strategy's functions once for all tests."""
  strategy = make(name, dict(options))

  def search(key):
    return compare.simulate(
      strategy, key, table(), lattice().network_of, ROUNDS
    )

  def step(state):
    state, proposal = strategy.propose(state)
    found = jnp.asarray(table())[
      jnp.asarray(lattice().network_of)[proposal.states], proposal.epochs - 1
    ]
    found = jnp.where(proposal.states >= 0, found, 7.0)  # unused: ignored
    return strategy.observe(state, proposal, found), proposal

  return strategy, jax.jit(search), jax.jit(step)


def search(name, options, key):
  return programs(name, tuple(options.items()))[1](key)


each = pytest.mark.parametrize(('name', 'options'), CASES)


@each
def test_proposes_states_and_learns_their_values(name, options):
  _, trace = search(name, options, jax.random.key(1))
  states, epochs, values = (np.asarray(x) for x in trace)
  used = states >= 0
  assert states.shape == (
    ROUNDS,
    options.get('per_round', options.get('walkers', 1)),
  )
  assert set(states[~used].tolist()) <= {strategies.NO_STATE}
  assert states.max() < 2**K
  assert epochs[used].min() >= 1
  assert epochs.max() <= EPOCHS
  expected = table()[lattice().network_of[states], epochs - 1]
  np.testing.assert_array_equal(values, np.where(used, expected, 0))
  assert not epochs[~used].any()
  assert name == 'halving' or set(epochs[used].tolist()) == {EPOCHS}


@each
def test_counts_what_it_did(name, options):
  state, trace = search(name, options, jax.random.key(2))
  used = np.asarray(trace.states)[np.asarray(trace.states) >= 0]
  counts, network_of = state.counts, lattice().network_of
  states, networks = {0, *used.tolist()}, {0, *network_of[used].tolist()}
  assert int(counts.steps) == used.size
  assert int(counts.states) == len(states)
  assert int(counts.networks) == len(networks)
  assert set(np.flatnonzero(counts.seen_states).tolist()) == states
  assert set(np.flatnonzero(counts.seen_networks).tolist()) == networks


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'options'), CASES)
def test_one_scan_is_the_loop_of_propose_and_observe(name, options):
  """Until the end, after which nothing is asked for and nothing changes."""
  key = jax.random.key(4)
  strategy, _, step = programs(name, tuple(options.items()))
  last, trace = search(name, options, key)
  state = strategy.init(key, table()[0, -1])
  for number in range(ROUNDS):
    before, (state, proposal) = state, step(state)
    assert_same(proposal.states, trace.states[number])
    if strategy.finished(before):
      break
  assert strategy.finished(last), f'not over after {ROUNDS} rounds: see OPTIONS'
  assert (trace.states[number:] == strategies.NO_STATE).all()
  if name == 'dqn':  # what it would have done, did it go on
    state = state._replace(actions=before.actions)
  jax.tree.map(assert_same, state, before)


def assert_same(x, y):
  if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
    x, y = jax.random.key_data(x), jax.random.key_data(y)
  np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize('name', strategies.STRATEGIES)
def test_the_key_decides_and_vmap_changes_nothing(name):
  keys = jax.random.split(jax.random.key(3), 4)
  alone = programs(name, ())[1]
  together = jax.jit(jax.vmap(alone))(keys)[1]
  singles = [alone(key)[1] for key in keys]
  for i, single in enumerate(singles):
    jax.tree.map(np.testing.assert_array_equal, single, alone(keys[i])[1])
    one = jax.tree.map(lambda x, i=i: x[i], together)
    jax.tree.map(np.testing.assert_array_equal, single, one)
  different = {np.asarray(single.states).tobytes() for single in singles}
  assert len(different) == (1 if name == 'exhaustive' else len(keys))


@pytest.mark.parametrize('name', ['exhaustive', 'random', 'local', 'screened'])
def test_these_see_every_network(name):
  state, trace = search(name, {}, jax.random.key(5))
  assert state.counts.seen_networks.all()
  if name not in ('local', 'screened'):
    used = np.asarray(trace.states)[np.asarray(trace.states) >= 0]
    assert sorted(lattice().network_of[used]) == list(range(len(lattice())))


def test_networks_go_by_their_shortest_names():
  np.testing.assert_array_equal(
    space_lib.Table(NAMES, lattice().network_of).shortest_states,
    lattice().shortest_states,
  )


def test_random_states_come_once_each():
  options = {'distinct': False, 'per_round': 3}
  state, trace = search('random', options, jax.random.key(6))
  assert sorted(trace.states.ravel()[: 2**K].tolist()) == list(range(2**K))
  assert int(state.counts.states) == 2**K


def test_halving_trains_the_better_half_on():
  _, trace = search('halving', {}, jax.random.key(7))
  networks = lattice().network_of[np.asarray(trace.states).ravel()]
  epochs, place, better = np.asarray(trace.epochs).ravel(), 0, None
  for size, length in rungs(len(lattice()), EPOCHS, 2):
    rung = networks[place : place + size]
    assert set(epochs[place : place + size].tolist()) == {length}
    assert better is None or rung.tolist() == better[:size].tolist()
    better = rung[np.argsort(-table()[rung, length - 1], kind='stable')]
    place += size
  assert not epochs[place:].any()


def test_local_search_climbs_the_steepest_way():
  """One top: Σ of the bits that are right, weighted; no two states alike."""
  goal, gains = 0b10110, np.array([1.0, 2, 4, 8, 16])
  states = np.arange(32)
  right = 1 - ((states[:, None] ^ goal) >> np.arange(5) & 1)
  heights = (right @ gains / 40).astype(np.float32)[:, None]
  strategy = strategies.make('local', 5, network_of=states, epochs=1)
  _, trace = compare.simulate(strategy, jax.random.key(0), heights, states, 15)
  climbed = np.asarray(trace.states).ravel()
  for number, here in enumerate([0b00000, 0b10000, 0b10100]):
    around = climbed[5 * number : 5 * number + 5]
    assert sorted((around ^ here).tolist()) == [1, 2, 4, 8, 16]
  assert goal in climbed


def test_screened_search_climbs_from_the_best_of_its_starts():
  _, trace = search('screened', {'starts': (7, 3, 5)}, jax.random.key(0))
  shortest = lattice().shortest_states
  states = np.asarray(trace.states).ravel()
  assert states[:3].tolist() == shortest[[7, 3, 5]].tolist()
  best = max((0, 7, 3, 5), key=lambda network: table()[network, -1])
  around = states[3 : 3 + K] ^ shortest[best]
  assert sorted(around.tolist()) == [1 << k for k in range(K)]


def test_local_search_toggles_bits_in_the_given_order():
  order = tuple(np.random.default_rng(0).permutation(K).tolist())
  _, trace = search('local', {'toggles': order}, jax.random.key(0))
  around = np.asarray(trace.states).ravel()[:K]
  assert around.tolist() == [1 << bit for bit in order]


def test_screened_search_without_a_guide_is_local_search():
  for key in jax.random.split(jax.random.key(0), 3):
    alone = search('local', {}, key)[1]
    assert_same(search('screened', {}, key)[1].states, alone.states)


def test_evolution_breeds_from_the_best_and_forgets_the_oldest():
  options = {'population': 4, 'tournament': 200, 'max_steps': 40}
  state, trace = search('evolution', options, jax.random.key(8))
  steps = int(state.counts.steps)
  states = np.asarray(trace.states).ravel()[:steps]
  values = np.asarray(trace.values).ravel()
  for born in range(4, steps):
    alive = slice(born - 4, born)
    best = states[alive][values[alive] == values[alive].max()]
    assert 1 in np.bitwise_count(best ^ states[born])
  assert sorted(state.members.tolist()) == sorted(states[-4:].tolist())


def test_walkers_share_what_they_learn():
  state, trace = search('dqn', {'walkers': 3}, jax.random.key(9))
  rounds = int((np.asarray(trace.states[:, 0]) >= 0).sum())
  assert int(state.replay.added) == int(state.counts.steps) == 3 * rounds
  adam = state.agent.opt_state[0]
  assert int(adam.count) == 3 * (rounds - 1)  # from the second round on


def test_a_golden_trace():
  _, trace = search('dqn', {}, jax.random.key(10))
  assert trace.states[:20].ravel().tolist() == [
    *(1, 3, 1, 9, 1, 5, 21, 1, 3, 2),
    *(18, 2, 6, 4, 4, 0, 2, 18, 2, 0),
  ]


@pytest.mark.slow
def test_the_agent_climbs_a_planted_hill():
  """One network beats the others; the nearer a state, the better it is."""
  goal, states = 0b101101, np.arange(64)
  distance = np.bitwise_count(states ^ goal)
  heights = (0.9 - 0.1 * distance).astype(np.float32)[:, None]
  strategy = strategies.make(
    'dqn',
    6,
    network_of=states,
    epochs=1,
    hidden_sizes=(32,),
    batch_size=32,
    input_scale=1.0,
    reward_scale=2.0,
    epsilons=(1.0, 0.5, 0.1),
    models=(30, 15, 19),
    max_steps=400,
    episode_length=12,
  )
  search_all = jax.jit(
    jax.vmap(lambda key: compare.simulate(strategy, key, heights, states, 400))
  )
  _, trace = search_all(jax.random.split(jax.random.key(0), 3))
  reached = np.asarray(trace.values)[:, :, 0]
  last = [row[row > 0][-50:].mean() for row in reached]
  first = [row[:50].mean() for row in reached]
  assert (reached.max(axis=1) > 0.89).all()
  assert (np.subtract(last, first) > 0.1).all(), (first, last)


def test_progress_along_a_trace():
  network_of = np.array([0, 1, 2, 2])
  values = np.array([[0.3, 0.5], [0.4, 0.9], [0.2, 0.7]], np.float32)
  trace = compare.Trace(
    states=np.array([[1, 2], [-1, 3], [1, 0]]),
    epochs=np.array([[1, 1], [0, 2], [2, 2]]),
    values=np.array([[0.4, 0.2], [0, 0.7], [0.9, 0.5]], np.float32),
  )
  found = compare.progress(trace, values, network_of)
  assert found.states.tolist() == [1, 2, 3, 4, 4, 4]
  assert found.networks.tolist() == [1, 2, 3, 3, 3, 3]
  assert found.epochs.tolist() == [2, 3, 4, 5, 6, 6]
  assert found.pick.tolist() == [0, 0, 0, 2, 1, 1]


@pytest.mark.parametrize(
  ('name', 'options'),
  [
    ('exhaustive', {'per_round': 3}),
    ('random', {'distinct': False, 'per_round': 5}),
    ('halving', {'candidates': 7, 'factor': 3, 'per_round': 2}),
  ],
)
def test_sweeps_know_how_many_rounds_they_take(name, options):
  strategy = make(name, options)
  for missing in (0, 1):
    last, _ = compare.simulate(
      strategy,
      jax.random.key(0),
      table(),
      lattice().network_of,
      strategy.max_rounds - missing,
    )
    assert strategy.finished(last) == (not missing)


def test_other_strategies_take_as_many_rounds_as_their_steps():
  assert make('evolution', {'max_steps': 90, 'per_round': 4}).max_rounds == 23
  assert make('dqn', {}).max_rounds == SMALL_DQN['max_steps']
  assert make('local', {}).max_rounds == 3000


@pytest.mark.parametrize(
  ('name', 'options', 'says'),
  [
    ('dqm', {}, "did you mean 'dqn'"),
    (
      'random',
      {'network_of': np.zeros(7, int)},
      'each of the 32 states of 5 bits',
    ),
    ('local', {'epochs': 0}, 'epochs must be a whole number of at least 1'),
    (
      'exhaustive',
      {'per_round': 0},
      'per_round must be a whole number',
    ),
    ('evolution', {'per_round': 30}, 'more than the population of 20'),
    ('halving', {'factor': 1}, 'factor must be at least 2'),
    ('dqn', {'batch_size': 0}, 'batch_size must be positive'),
    ('dqn', {'gamma': 1}, "no option 'gamma'; it has .*, discount, "),
    ('screened', {'starts': (-1,)}, 'starts must be networks from 0 to'),
    ('local', {'toggles': (0, 0, 1)}, 'toggles must be each bit from 0 to'),
    ('local', {'starts': 7}, 'an option of local has the wrong type'),
    ('evolution', {'max_steps': 2.5}, 'max_steps must be a whole number'),
    ('evolution', {'population': 'a'}, 'population must be a whole number'),
    ('halving', {'factor': 'a'}, 'an option of halving has the wrong type'),
    ('dqn', {'batch_size': 'a'}, 'an option of dqn has the wrong type'),
    ('local', {'restarts': 1}, "no option 'restarts'; it has per_round"),
  ],
)
def test_mistakes_are_named(name, options, says):
  options = {'network_of': lattice().network_of, 'epochs': EPOCHS} | options
  with pytest.raises(ValueError, match=says):
    strategies.make(name, K, **options)
