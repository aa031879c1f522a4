import csv

from absl.testing import flagsaver
import pytest

import aen
from aen.nn import group_cnn
from tests import launchers


@pytest.fixture(scope='module')
def benchmark():
  return launchers.load('conv_benchmark')


@pytest.mark.slow
def test_a_small_run_times_every_variant(benchmark, tmp_path, capsys):
  with flagsaver.flagsaver(
    out=str(tmp_path),
    group=['H2'],
    width=[0.2],
    shape=['16x16x1'],
    batch=2,
    repeats=3,
    children=1,
  ):
    benchmark.main([])
  with open(tmp_path / 'convolutions.csv') as file:
    (row,) = csv.DictReader(file)
  assert float(row['aen / flax']) > 0
  assert float(row['augment / aen']) > 0
  assert 'augmented / aen: median' in capsys.readouterr().out


def test_methods_are_variants(benchmark):
  network = aen.GroupCNN((), width=0.2, in_shape=(16, 16, 1))
  found = benchmark._modules(network, methods=True)
  assert {'aen conv', 'aen patches'} < set(found)
  (baseline, _), (cnn, _) = found['flax'], found['aen']
  assert baseline.features == cnn.widths()[0] == 4


def test_escnn_runs_in_a_process_of_its_own(benchmark, tmp_path):
  python = tmp_path / 'python'
  python.write_text(
    "#!/bin/sh\necho '{}'\nwhile read line; do echo '{\"total\": 1.5}'; done\n"
  )
  python.chmod(0o755)
  network = aen.GroupCNN(group_cnn.GROUPS['D4'], in_shape=(28, 28, 1))
  with benchmark._escnn(str(python), network, 'D4') as escnn:
    before = escnn.cpu_time()
    escnn.run('cnn step')
    assert escnn.cpu_time() - before >= 1.5
  assert escnn._process.returncode == 0


def test_a_python_without_escnn_is_said(benchmark, tmp_path):
  python = tmp_path / 'python'
  python.write_text('#!/bin/sh\nexit 1\n')
  python.chmod(0o755)
  network = aen.GroupCNN((), in_shape=(28, 28, 1))
  with (
    flagsaver.flagsaver(escnn=str(python)),
    pytest.raises(ValueError, match='environment with escnn'),
    benchmark._escnn(str(python), network, 'none') as escnn,
  ):
    escnn.run('cnn step')


def test_bad_shapes_are_said(benchmark):
  with (
    flagsaver.flagsaver(shape=['28']),
    pytest.raises(ValueError, match='like 28x28x1'),
  ):
    benchmark.main([])
