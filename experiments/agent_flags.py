"""Flags of strategies: of the DQN agent, the paper's values by default."""

from collections.abc import Sequence

from absl import flags

from aen.search import agent as agent_lib

_DEFAULT = agent_lib.DQNConfig()

_HIDDEN_SIZES = flags.DEFINE_list(
  'q_hidden_sizes',
  [str(size) for size in _DEFAULT.hidden_sizes],
  "Widths of the Q-network's hidden layers.",
)
_EPSILONS = flags.DEFINE_list(
  'epsilons',
  [str(value) for value in _DEFAULT.epsilons],
  'The shares of random actions, in order.',
)
_MODELS = flags.DEFINE_list(
  'models_per_epsilon',
  [str(count) for count in _DEFAULT.models],
  'States not seen before that are found at each of --epsilons; one number for'
  ' all.',
)
_MIN_REPLAY = flags.DEFINE_integer(
  'min_replay',
  _DEFAULT.min_replay,
  'Updates begin when so many transitions are kept; by default --q_batch_size.',
  lower_bound=1,
)
_NUMBERS = {
  'discount': flags.DEFINE_float(
    'discount',
    _DEFAULT.discount,
    'γ, what a reward one step later is multiplied by.',
    lower_bound=0.0,
    upper_bound=1.0,
  ),
  'learning_rate': flags.DEFINE_float(
    'q_learning_rate',
    _DEFAULT.learning_rate,
    "Adam's, for the Q-network.",
    lower_bound=0.0,
  ),
  'input_scale': flags.DEFINE_float(
    'input_scale', _DEFAULT.input_scale, 'What the bits are multiplied by.'
  ),
  'reward_scale': flags.DEFINE_float(
    'reward_scale',
    _DEFAULT.reward_scale,
    'x in the reward x·exp|x| is this times the gain in accuracy (0 to 1); the'
    ' published code has 100.',
    lower_bound=0.0,
  ),
  'batch_size': flags.DEFINE_integer(
    'q_batch_size',
    _DEFAULT.batch_size,
    'Transitions in an update; the paper has 512 for MLPs, 128 for G-CNNs.',
    lower_bound=1,
  ),
  'replay_capacity': flags.DEFINE_integer(
    'replay_capacity',
    _DEFAULT.replay_capacity,
    'Transitions kept.',
    lower_bound=1,
  ),
  'target_period': flags.DEFINE_integer(
    'target_period',
    _DEFAULT.target_period,
    'The target network is copied at steps at which the number of models is a'
    ' multiple of this.',
    lower_bound=1,
  ),
  'max_steps': flags.DEFINE_integer(
    'max_steps',
    _DEFAULT.max_steps,
    'The search of dqn or evolution ends after so many steps at the latest.',
    lower_bound=1,
  ),
  'episode_length': flags.DEFINE_integer(
    'episode_length',
    _DEFAULT.episode_length,
    'Steps from the empty state until a walker returns there.',
    lower_bound=1,
  ),
  'walkers': flags.DEFINE_integer(
    'walkers',
    _DEFAULT.walkers,
    'Walkers that share replay and Q-network; one is the paper.',
    lower_bound=1,
  ),
}


# Which of these flags a strategy other than the agent has.
_SHARED = {'evolution': ('max_steps',)}


def options(strategy: str) -> tuple[tuple[str, object], ...]:
  """Returns the options of a strategy, for `SearchConfig`."""
  if strategy != 'dqn':
    shared = _SHARED.get(strategy, ())
    _refuse_others(strategy, shared)
    return tuple((name, _NUMBERS[name].value) for name in shared)
  models = [int(count) for count in _MODELS.value]
  if len(models) == 1:
    models *= len(_EPSILONS.value)
  return (
    ('hidden_sizes', tuple(int(size) for size in _HIDDEN_SIZES.value)),
    ('epsilons', tuple(float(value) for value in _EPSILONS.value)),
    ('models', tuple(models)),
    ('min_replay', _MIN_REPLAY.value),
    *((name, holder.value) for name, holder in _NUMBERS.items()),
  )


def _refuse_others(strategy: str, shared: Sequence[str]) -> None:
  """Raises if the user gave a flag that a strategy would ignore."""
  for holder in (
    *(_HIDDEN_SIZES, _EPSILONS, _MODELS, _MIN_REPLAY),
    *(holder for name, holder in _NUMBERS.items() if name not in shared),
  ):
    if not flags.FLAGS[holder.name].using_default_value:
      raise ValueError(
        f'--{holder.name} is for --strategy=dqn, got --strategy={strategy};'
        ' leave one of them out'
      )
