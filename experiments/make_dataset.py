r"""Prepares a data set on disk, and draws its sample figures.

For TFDS (`tfds.data_source('g_mnist/aug5')` then reads it):
  python -m experiments.make_dataset --dataset=g_mnist/aug5 --format=tfds
As one .npz file, with the paper's sample figures:
  python -m experiments.make_dataset --dataset=g_mnist/aug5 --format=npz \
    --output_dir=/tmp/g_mnist --figures

Ten seconds and five for the 70000 images of G-MNIST on two cores.
"""

from collections.abc import Sequence
import dataclasses

from absl import flags

from aen.data import figures
from aen.data import finding
from aen.data import prepare
from experiments import launch
from experiments import place_flags

_DATASET = flags.DEFINE_multi_string(
  'dataset',
  ['g_digits/aug5'],
  "Names as in aen.load_dataset, such as 'mnist' or 'g_mnist/aug5'; give the"
  ' flag several times for several sets.',
)
_FORMAT = flags.DEFINE_enum(
  'format',
  'npz',
  ['tfds', 'npz', 'both', 'none'],
  'What to write: a TFDS directory below --data_dir, an .npz file in'
  ' --output_dir, both, or only figures.',
)
_FIGURES = flags.DEFINE_bool(
  'figures', False, 'Draw the sample figures of G-data sets in --output_dir.'
)
_OUTPUT_DIR = flags.DEFINE_string(
  'output_dir', 'datasets', 'Where .npz files and figures are written.'
)
_MAX_EXAMPLES = flags.DEFINE_integer(
  'max_examples',
  None,
  'At most so many images per split, for trying things out; with'
  ' --format=tfds, give it a --data_dir of its own.',
  lower_bound=1,
)


@dataclasses.dataclass(frozen=True)
class Config:
  """What to make of which data sets."""

  names: tuple[str, ...]
  format: str
  figures: bool
  output_dir: str
  places: finding.Places
  max_examples: int | None = None


def make(config: Config) -> list[str]:
  """Makes everything that was asked for; returns what was written."""
  written = []
  for name in config.names:
    if config.format in ('tfds', 'both'):
      written.append(
        prepare.prepare_tfds(
          name, config.places, max_examples=config.max_examples
        )
      )
    if config.format in ('npz', 'both'):
      written.append(
        prepare.write_npz(
          name,
          config.places,
          config.output_dir,
          max_examples=config.max_examples,
        )
      )
    if config.figures:
      written += figures.draw_samples(name, config.places, config.output_dir)
  return [str(path) for path in written]


def main(_: Sequence[str]) -> None:
  """Turns flags into a config, makes the data sets, says where they are."""
  config = Config(
    names=tuple(_DATASET.value),
    format=_FORMAT.value,
    figures=_FIGURES.value,
    output_dir=_OUTPUT_DIR.value,
    places=place_flags.places(),
    max_examples=_MAX_EXAMPLES.value,
  )
  for path in make(config):
    print(f'wrote {path}')


if __name__ == '__main__':
  launch.run(main)
