"""Data sets: by name, from files, and as TFDS builders.

Importing this package registers the builders of `aen.datasets.builders` with
TFDS, if TFDS is installed (which takes most of a second); everything else works
without it.
"""

import contextlib

from aen.datasets.dataset import Dataset
from aen.datasets.dataset import fingerprint
from aen.datasets.dataset import PUBLISHED_MEAN
from aen.datasets.dataset import PUBLISHED_STD
from aen.datasets.dataset import Split
from aen.datasets.figures import draw_samples
from aen.datasets.finding import Places
from aen.datasets.loading import from_arrays
from aen.datasets.loading import load_dataset
from aen.datasets.preparing import prepare_tfds
from aen.datasets.preparing import write_npz
from aen.datasets.sources import SOURCES
from aen.datasets.splits import PAPER_SIZES
from aen.datasets.transformations import CONFIGS
from aen.datasets.transformations import invert
from aen.datasets.transformations import Record

with contextlib.suppress(ImportError):  # TFDS is optional
  from aen.datasets import builders

__all__ = (
  'CONFIGS',
  'Dataset',
  'PAPER_SIZES',
  'PUBLISHED_MEAN',
  'PUBLISHED_STD',
  'Places',
  'Record',
  'SOURCES',
  'Split',
  'builders',
  'draw_samples',
  'fingerprint',
  'from_arrays',
  'invert',
  'load_dataset',
  'prepare_tfds',
  'write_npz',
)
