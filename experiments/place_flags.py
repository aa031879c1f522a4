"""Flags of all experiments on real data: where files are."""

from absl import flags

from aen.data import finding

_RAW_DIR = flags.DEFINE_string(
  'raw_dir',
  None,
  'Directory of official files, <raw_dir>/<name>/<file>; by default the'
  ' environment variable AEN_RAW_DIR. Without it TFDS downloads.',
)
_DATA_DIR = flags.DEFINE_string(
  'data_dir', None, 'Where TFDS keeps data, by default ~/tensorflow_datasets.'
)
_PARTIAL = flags.DEFINE_bool(
  'partial', False, 'Accept a part of a data set where the whole is missing.'
)


def places() -> finding.Places:
  """Returns where data sets are looked for."""
  return finding.Places(
    raw_dir=_RAW_DIR.value, data_dir=_DATA_DIR.value, partial=_PARTIAL.value
  )
