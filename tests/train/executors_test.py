"""Jobs and executors: the same records everywhere, whatever fails."""

from concurrent import futures
import dataclasses
import json
import os
import signal
import time

import jax
import numpy as np
import pytest

import aen
from aen.search import gcnn_space
from aen.search import mlp_space
from aen.search import search as search_lib
from aen.train import evaluate as evaluate_lib
from aen.train import executors
from aen.train import jobs as jobs_lib
from aen.train import store as store_lib

RECORD = store_lib.Record((1.0,), (0.5,), (1.0,))
REQUESTS = [(network, seed) for network in (0, 1) for seed in (0, 1, 2)]


def plus_one(number):
  return number + 1


def pid(_):
  return os.getpid()


def die(path):
  """Dies, but not the second time."""
  if path and not os.path.exists(path):
    open(path, 'w').close()
    os.kill(os.getpid(), signal.SIGKILL)
  return os.getpid()


def fail(message):
  raise ValueError(message)


def own(array):
  """A symmetry that a worker can import."""
  return array[:, ::-1]


def test_processes_run_jobs_and_raise_their_errors(tmp_path):
  with executors.Processes(2) as processes:
    found = [processes.submit(plus_one, i) for i in range(20)]
    assert [future.result() for future in found] == list(range(1, 21))
    assert 1 <= len(processes.pids()) <= 2
    with pytest.raises(ValueError, match='a reason'):
      processes.submit(fail, 'a reason').result()
    before = processes.submit(pid, None).result()
    assert before in processes.pids()  # an error ends no process


@pytest.mark.slow
def test_the_last_process_to_finish_gets_the_next_job():
  with executors.Processes(3) as processes:
    futures.wait([processes.submit(time.sleep, 0.5) for _ in range(3)])
    assert len(processes.pids()) == 3
    found = {processes.submit(pid, None).result() for _ in range(12)}
    assert len(found) == 1


def test_a_process_that_dies_fails_one_job_and_is_replaced(tmp_path):
  with executors.Processes(1) as processes:
    first = processes.submit(pid, None).result()
    dying = processes.submit(die, str(tmp_path / 'died'))
    later = processes.submit(die, str(tmp_path / 'died'))
    with pytest.raises(executors.WorkerError, match=r'died \(exit code -9\)'):
      dying.result()
    assert later.result() != first
  with pytest.raises(ProcessLookupError):
    os.kill(later.result(), 0)  # closing ends them


@pytest.mark.parametrize(
  ('options', 'says'),
  [
    ({'executor': 'procesess'}, "one of local, processes, ray .*'procesess'"),
    ({'executor': 3}, r'have a method submit\(function, job\), got 3'),
    ({'workers': 2}, 'workers=2 is for the executors processes and ray'),
    ({'executor': 'ray', 'workers': 0}, 'workers must be a whole number'),
    ({'retries': -1}, 'retries must be at least 0, got -1'),
    ({'time_limit': 0}, 'time_limit must be positive, got 0'),
  ],
)
def test_wrong_options_are_one_line(options, says):
  with pytest.raises(ValueError, match=says):
    executors.Workers(**options)


class Here:
  """Runs jobs at once, in this process, except those that are sabotaged."""

  def __init__(self, sabotage=None):
    self.jobs, self.sabotage = [], sabotage or (lambda job, answer: answer())

  def submit(self, function, job):
    self.jobs.append(job)
    future = futures.Future()
    try:
      future.set_result(self.sabotage(job, lambda: function(job)))
    except BaseException as error:
      future.set_exception(error)
    return future


class Silent:
  """As submitit: futures that call nobody back."""

  def __init__(self, executor):
    self.executor = executor

  def submit(self, function, job):
    class Waiting:
      result = self.executor.submit(function, job).result

    return Waiting()


@pytest.fixture
def evaluator(monkeypatch, tmp_path):
  """Makes evaluators whose children take no time."""

  def train(self, batch, devices, recipe):
    assert len(devices) == 1
    return [
      dataclasses.replace(RECORD, key=self._key(request, recipe))
      for request in batch
    ]

  monkeypatch.setattr(jobs_lib.Trainer, '_train', train)
  data = aen.load_dataset('tic_tac_toe')

  def make(executor, symmetries=('horizontal_flip',), **workers):
    return evaluate_lib.make_evaluator(
      data,
      space=mlp_space.mlp_space((3, 3), 2, symmetries),
      recipe=aen.Recipe(epochs=1),
      store=store_lib.Results(),
      executor=executor,
      workers=executors.Workers(executor, **workers),
      folder=tmp_path,
    )

  return make


@pytest.mark.parametrize('wrap', [lambda e: e, Silent], ids=['calls', 'silent'])
def test_records_come_in_the_order_of_requests(evaluator, wrap):
  here = Here()
  evaluate = evaluator(wrap(here))
  records = evaluate(REQUESTS[::-1])
  assert [r.key.seed for r in records] == [s for _, s in REQUESTS[::-1]]
  assert len(evaluate.store) == len(here.jobs) == 6
  assert evaluate(REQUESTS) == records[::-1]
  assert len(here.jobs) == 6  # the store knows them all


def test_workers_prepare_before_the_first_children(evaluator):
  first = [list(REQUESTS[0])]
  here = Here()
  evaluate = evaluator(here)
  wait = evaluate.prepare(REQUESTS[:1])
  # Nothing but the child: a job of this executor may be expensive.
  assert [job['requests'] for job in here.jobs] == [first]
  assert len(evaluate.store) == 0
  wait()
  assert len(evaluate.store) == 1
  here, by_name = Here(), executors.Workers('processes', workers=2)
  here.workers = 2
  evaluate = dataclasses.replace(
    evaluator(here), executor=here, workers=by_name
  )
  evaluate.prepare(REQUESTS[:1])()
  assert [job['requests'] for job in here.jobs] == [[], [], first]
  assert here.jobs[0] != here.jobs[1]
  assert len(evaluate.store) == 1
  in_process = dataclasses.replace(evaluate, executor=None)
  in_process.prepare(REQUESTS)()
  assert len(evaluate.store) == 1


def test_calls_run_beside_each_other(evaluator):
  """Their jobs are submitted before any record is waited for."""
  here = Here()
  evaluate = evaluator(here)
  first, second = evaluate.start(REQUESTS[:2]), evaluate.start(REQUESTS[2:])
  assert len(here.jobs) == 6
  assert len(evaluate.store) == 0
  assert [r.key.seed for r in second()] == [s for _, s in REQUESTS[2:]]
  assert [r.key.seed for r in first()] == [s for _, s in REQUESTS[:2]]
  assert len(evaluate.store) == 6


def test_jobs_are_submitted_as_soon_as_their_children_are_known(evaluator):
  """The key of a network of many symmetries takes a while."""
  here = Here()
  evaluate = evaluator(here)
  known, find = [], evaluate._network_key

  def key(network):
    known.append(len(here.jobs))
    return find(network)

  object.__setattr__(evaluate, '_network_key', key)
  networks = [(network, 0) for network in range(2)]
  evaluate(networks)
  assert known[:2] == [0, 1]
  assert [job['requests'] for job in here.jobs] == [[[0, 0]], [[1, 0]]]


def test_what_a_job_contains_depends_on_the_options_alone(evaluator):
  def contents(**options):
    here = Here()
    evaluator(here, **options)(REQUESTS)
    return [job['requests'] for job in here.jobs]

  assert contents() == [[list(request)] for request in REQUESTS]
  assert contents(children_per_job=4) == [
    [list(request) for request in REQUESTS[:4]],
    [list(request) for request in REQUESTS[4:]],
  ]


def test_a_job_is_json_and_travels(evaluator, tmp_path):
  here = Here()
  evaluator(here, [own, np.transpose, 'rotation'], threads=3)(REQUESTS[:1])
  (job,) = here.jobs
  assert json.loads(json.dumps(job))['recipe'] == job['recipe']
  factory, _, symmetries = job['space']
  assert factory == 'aen.search.result:from_spec'
  assert symmetries == {
    'own': f'{__name__}:own',
    'transpose': 'numpy:transpose',
  }
  assert job['environment']['PJRT_NPROC'] == '3'
  assert os.path.dirname(job['data']) == str(tmp_path)


def test_symmetries_of_sequences_travel_by_name(evaluator):
  here = Here()
  space = mlp_space.mlp_space((8,), 2, ('reversal',), grid_axes=1)
  dataclasses.replace(evaluator(here), space=space)(REQUESTS[:1])
  (job,) = here.jobs
  assert job['space'][2] == {}


@pytest.mark.parametrize('function', [lambda x: x[::-1], lambda x: x.T])
def test_a_symmetry_that_cannot_travel_is_refused(evaluator, function):
  symmetry = aen.Symmetry('mine', function)
  with pytest.raises(ValueError, match='cannot import the symmetry mine'):
    evaluator(Here(), [symmetry])(REQUESTS)


def sabotaged(times, how):
  """Does something instead of the first jobs of seed 1."""
  left = {'times': times}

  def sabotage(job, answer):
    if job['requests'][0] == [0, 1] and left['times']:
      left['times'] -= 1
      return how(answer)
    return answer()

  return sabotage


def raised(answer):
  raise OSError('the node is gone')


def nonsense(answer):
  return 'nonsense'


def iterator(answer):
  return iter(answer())


def others(answer):
  (record,) = answer()
  key = dataclasses.replace(record.key, seed=7)
  return [dataclasses.replace(record, key=key)]


@pytest.mark.parametrize(
  'how', [raised, nonsense, iterator, others, lambda _: []]
)
def test_a_job_that_fails_is_repeated(evaluator, how):
  here = Here(sabotaged(3, how))
  evaluate = evaluator(here)
  assert [r.key.seed for r in evaluate(REQUESTS)] == [s for _, s in REQUESTS]
  assert len(here.jobs) == 6 + 3
  attempts = [j['attempt'] for j in here.jobs if j['requests'] == [[0, 1]]]
  assert attempts == [1, 2, 3, 4]
  assert not evaluate.store.failures()


@pytest.mark.parametrize(
  ('how', 'reason'),
  [
    (raised, 'OSError: the node is gone'),
    (nonsense, "expected records from the worker, got 'nonsense'"),
    (others, 'records of other children'),
  ],
)
def test_a_job_that_always_fails_is_recorded(evaluator, how, reason):
  here = Here(sabotaged(3, how))
  evaluate = evaluator(here, retries=2)
  with pytest.raises(executors.WorkerError) as error:
    evaluate(REQUESTS)
  assert '1 of 6 jobs failed 3 times each' in str(error.value)
  assert 'no symmetry with seed 1' in str(error.value)
  assert reason in str(error.value)
  assert len(evaluate.store) == 5  # everything else is kept
  ((key, why),) = evaluate.store.failures().items()
  assert key.seed == 1
  assert reason in why
  evaluate(REQUESTS)  # the worker is well again
  assert len(evaluate.store) == 6
  assert not evaluate.store.failures()


def test_a_users_error_is_raised_at_once(evaluator):
  here = Here(sabotaged(1, lambda _: fail('what the user did')))
  evaluate = evaluator(here)
  with pytest.raises(ValueError, match='what the user did'):
    evaluate(REQUESTS)
  assert len(here.jobs) == 6


def test_a_users_own_broken_pool_is_one_line(evaluator):
  context = executors.multiprocessing.get_context('spawn')
  with futures.ProcessPoolExecutor(1, context) as pool:
    with pytest.raises(futures.BrokenExecutor):
      pool.submit(os._exit, 1).result()
    evaluate = evaluator(pool)
    with pytest.raises(executors.WorkerError, match="executor='processes'"):
      evaluate(REQUESTS)
  assert not evaluate.store.failures()


def test_workers_that_cannot_see_the_data_say_so(evaluator, tmp_path):
  here = Here()

  def moved(job, answer):
    return jobs_lib.run(job | {'data': str(tmp_path / 'elsewhere')})

  here.sabotage = moved
  with pytest.raises(ValueError, match='a run_dir that all machines share'):
    evaluator(here)(REQUESTS)


def hanging_space(*_):
  time.sleep(1e6)


def nothing(_):
  pass


def test_a_worker_that_exceeds_the_time_limit_is_ended(evaluator):
  """The job is made by an evaluator; only its space is another.

  The worker imports first. faulthandler prints the stacks of running threads,
  and may crash on one that is importing: then the exit code is -11, not 1.
  """
  here = Here()
  evaluator(here, time_limit=0.5)(REQUESTS[:1])
  (job,) = here.jobs
  space = [f'{__name__}:hanging_space', {}, {}]
  with executors.Processes(1) as processes:
    processes.submit(nothing, None).result()
    hanging = processes.submit(jobs_lib.run, job | {'space': space})
    with pytest.raises(executors.WorkerError, match=r'died \(exit code 1\)'):
      hanging.result()


def test_the_reason_names_the_time_limit(evaluator):
  evaluate = evaluator(Here(sabotaged(9, raised)), retries=0, time_limit=7)
  with pytest.raises(executors.WorkerError, match='time limit: 7 seconds'):
    evaluate(REQUESTS)


def kinds():
  return [
    mlp_space.mlp_space((10, 10), 2, ['rotation', own]),
    gcnn_space.gcnn_space((12, 12), 2, ['vertical_flip']),
  ]


@pytest.mark.slow
@pytest.mark.parametrize('measure_test', [True, False])
@pytest.mark.parametrize('space', kinds(), ids=['mlp', 'gcnn'])
def test_a_job_gives_the_records_of_this_process(tmp_path, space, measure_test):
  """Through JSON, files and another space object, in the same process."""
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (120, *space.image_shape), np.uint8)
  data = aen.data.load.from_arrays(images, np.arange(120) % 2)
  few = np.arange(len(data.test)) < 5 if measure_test else None
  requests = [(0, 3), (1, 3), (0, 4)]

  def records(executor):
    evaluate = evaluate_lib.make_evaluator(
      data,
      measure_test=measure_test,
      few=few,
      space=space,
      recipe=aen.Recipe(epochs=2, batch_size=16),
      store=store_lib.Results(),
      keep_params=True,
      executor=executor,
      folder=tmp_path,
    )
    return evaluate(requests)

  here, there = records(None), records(Here())
  for ours, theirs in zip(here, there, strict=True):
    assert dataclasses.replace(ours, seconds=0.0) == dataclasses.replace(
      theirs, seconds=0.0
    )
    jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)
    assert theirs.origin.jax == jax.__version__
    assert theirs.origin.device.startswith('cpu (')
    assert theirs.origin.started < theirs.origin.finished <= time.time()


def test_landscapes_and_searches_take_the_same_executors(tmp_path):
  with executors.Workers().started(tmp_path) as where:
    assert where == {}
  here = Here()
  with executors.as_workers(here).started(tmp_path) as where:
    assert where['executor'] is here
    os.makedirs(where['folder'])
  assert not list(tmp_path.iterdir())
  with pytest.raises(ValueError, match='executor must be one of'):
    search_lib.search(
      aen.load_dataset('tic_tac_toe'),
      mlp_space.mlp_space((3, 3), 2, ()),
      aen.SearchConfig(),
      executor='cluster',
    )


@pytest.mark.parametrize(
  ('folder', 'said', 'kept'),
  [('here', None, 'here/xla'), ('here', 'there', 'there'), ('', None, None)],
)
def test_compiled_programs_are_kept_unless_users_say_where(
  folder, said, kept, monkeypatch
):
  names = (
    'jax_compilation_cache_dir',
    'jax_persistent_cache_min_compile_time_secs',
  )
  before = {name: getattr(jax.config, name) for name in names}
  monkeypatch.setenv('AEN_CACHE_DIR', folder)
  try:
    jax.config.update(names[0], said)
    executors.keep_compilations()
    assert getattr(jax.config, names[0]) == kept
  finally:
    for name, value in before.items():
      jax.config.update(name, value)
