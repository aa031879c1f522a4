r"""Prepares a data set on disk, and draws its sample figures.

For TFDS (`tfds.data_source('g_mnist/aug5')` then reads it):
  python -m experiments.make_dataset --dataset=g_mnist/aug5 --format=tfds
As one .npz file, with the paper's sample figures:
  python -m experiments.make_dataset --dataset=g_mnist/aug5 --format=npz \
    --output_dir=/tmp/g_mnist --figures

These take ten and five seconds for the 70000 images of G-MNIST on two cores.
"""

from aen.data import figures
from aen.data import finding
from aen.data import prepare
from experiments import flags
from experiments import launch

_FLAGS = launch.define(
  dataset=(
    ['g_digits/aug5'],
    "Names as in aen.load_dataset, such as 'mnist' or 'g_mnist/aug5'; repeat"
    ' the flag for several data sets.',
  ),
  format=(
    'npz',
    'What to write: a TFDS directory below --data_dir, an .npz file in'
    ' --output_dir, both, or only figures.',
    ['tfds', 'npz', 'both', 'none'],
  ),
  figures=(False, 'Draw the sample figures of G-data sets in --output_dir.'),
  output_dir=('datasets', 'Folder of .npz files and figures.'),
  max_examples=(
    int,
    'Maximum number of images per split, for trying things out; with'
    ' --format=tfds, use a separate --data_dir.',
    1,
  ),
)
_PLACES = flags.places()


def main(_: list[str]) -> None:
  """Writes what the flags ask for, and prints where."""
  places, folder = finding.Places(**_PLACES()), _FLAGS.output_dir
  limit = {'max_examples': _FLAGS.max_examples}
  for name in _FLAGS.dataset:
    written = []
    if _FLAGS.format in ('tfds', 'both'):
      written.append(prepare.prepare_tfds(name, places, **limit))
    if _FLAGS.format in ('npz', 'both'):
      written.append(prepare.write_npz(name, places, folder, **limit))
    if _FLAGS.figures:
      written += figures.draw_samples(name, places, folder)
    for path in written:
      print(f'wrote {path}')


if __name__ == '__main__':
  launch.run(main)
