"""Learning curves for TensorBoard, one run per child."""

from collections.abc import Callable, Iterator, Sequence
import hashlib
import math
import pathlib
import re
import time
from typing import Any

import numpy as np

from aen import io as io_lib
from aen.train.store import Record

# A field of `Record` -> its chart.
CHARTS = {
  'train_loss': 'loss/train',
  'validation_loss': 'loss/validation',
  'validation_accuracy': 'accuracy/validation',
  'test_accuracy': 'accuracy/test',
  'few_test_accuracy': 'accuracy/few_test',
}
_FILE = 'events.out.tfevents.child'
_LARGEST = float(np.finfo(np.float32).max)  # the loss of a diverged child


def callback(directory: io_lib.PathLike) -> Callable[[Sequence[Record]], None]:
  """Returns an `on_trained` that writes curves for `tensorboard --logdir=…`."""
  with io_lib.needed_for('writing curves for TensorBoard', 'tensorboard'):
    from tensorboardX import record_writer
    from tensorboardX.proto import event_pb2
    from tensorboardX.proto import summary_pb2

  def events(record: Record) -> Iterator[Any]:
    start = time.time() - record.seconds
    yield event_pb2.Event(wall_time=start, file_version='brain.Event:2')
    for number in range(1, record.epochs + 1):
      values = []
      for field, tag in CHARTS.items():
        if len(curve := getattr(record, field)):
          value = curve[number - 1]
          value = math.nan if value >= _LARGEST else value
          values.append(summary_pb2.Summary.Value(tag=tag, simple_value=value))
      yield event_pb2.Event(
        wall_time=start + record.seconds * number / record.epochs,
        step=number,
        summary=summary_pb2.Summary(value=values),
      )

  def on_trained(records: Sequence[Record]) -> None:
    for record in records:
      run = pathlib.Path(directory) / run_name(record)
      with io_lib.clear_when_disk_is_full(run):
        run.mkdir(parents=True, exist_ok=True)
        # `SummaryWriter` costs several times as much: it starts a thread and
        # waits for the disk. A child that is trained again replaces its file.
        writer = record_writer.RecordWriter(str(run / _FILE))
        for event in events(record):
          writer.write(event.SerializeToString())
        writer.close()

  return on_trained


def run_name(record: Record) -> str:
  """Returns the name of a child's run, such as 'rotation/seed_0_1f3a9c20'.

  The last part distinguishes trainings on other images or with other recipes.
  """
  names = record.symmetries.replace(' + ', '+') or 'no_symmetry'
  names = re.sub(r'[^\w.+-]', '_', names)[:200]  # files allow 255 characters
  digest = hashlib.sha256(repr(record.key).encode()).hexdigest()[:8]
  return f'{names}/seed_{record.key.seed}_{digest}'
