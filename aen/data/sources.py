"""The catalogue: every data set that can be loaded by name.

A source knows its official files, how to read them, and how to arrange what
they hold the way this package gives it out (upright, labels from 0).
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import pathlib
import string
import types

from aen.data import embedded
from aen.data import errors
from aen.data import official
from aen.data import readers
from aen.data import transform
from aen.data.arrays import Parts
from aen.data.files import File

Paths = Mapping[str, pathlib.Path]


@dataclasses.dataclass(frozen=True)
class Source:
  """A data set by name.

  Attributes:
    name: What users ask for.
    class_names: One per label.
    shape: Of one image.
    counts: Images in the train and test parts.
    read: Maps the paths of `files` to the parts as published.
    folder: Where the files lie below a raw directory.
    files: The official files; none if the set is embedded.
    arrange: Maps parts as published to parts as given out.
    tfds_name: Under which TFDS knows it, with its config; '' if it does not.
    manual: How to get files that cannot be downloaded by code.
    partial: Which .npz below a raw directory holds a part of the set.
    read_partial: Reads that file, arranged.
    system_dirs: Where operating systems install the files.
  """

  name: str
  class_names: tuple[str, ...]
  shape: tuple[int, ...]
  counts: tuple[int, int]
  read: Callable[[Paths], Parts]
  folder: str = ''
  files: tuple[File, ...] = ()
  arrange: Callable[[Parts], Parts] = lambda parts: parts
  tfds_name: str = ''
  manual: str = ''
  partial: str = ''
  read_partial: Callable[[pathlib.Path], Parts] = readers.npz
  system_dirs: tuple[str, ...] = ()


def find(name: str) -> tuple[Source, transform.Config | None]:
  """Returns the source of a name, and the config of its transformations.

  `'mnist'` has no config; `'g_mnist/aug3'` is MNIST with config `aug3`.
  """
  if name in SOURCES:
    return SOURCES[name], None
  base, config = _g_base(name)
  for plain in (base, name.removeprefix('g_')):
    if name.startswith('g_') and plain in SOURCES and plain not in G_NAMES:
      raise ValueError(
        f'{name!r}: transformations need grey square images of even side, got'
        f' {plain} with {" x ".join(map(str, SOURCES[plain].shape))}; load'
        f' {plain!r} as it is, or transform one of {", ".join(G_NAMES)}'
      )
  if base not in G_NAMES:
    raise errors.unknown(
      'data set',
      name,
      [*SOURCES, *(f'g_{base}/aug3' for base in G_NAMES)],
      summary=(
        f'{", ".join(SOURCES)}; g_<name>/<config> for the grey square ones,'
        " such as 'g_mnist/aug3'; and paths of .npz files or image folders"
      ),
    )
  return SOURCES[base], transform.config(config)


def is_name(name: str) -> bool:
  """Whether a name is in the catalogue, whatever its config."""
  return name in SOURCES or _g_base(name)[0] in G_NAMES


def _g_base(name: str) -> tuple[str, str]:
  """Splits `'g_mnist/aug3'` into `'mnist'` and `'aug3'`."""
  if not name.startswith('g_'):
    return '', ''
  base, _, config = name.removeprefix('g_').rpartition('/')
  return base, config


_DIGITS = tuple(string.digits)
_UPPER = tuple(string.ascii_uppercase)
_MERGED = (*_DIGITS, *_UPPER, *'abdefghnqrt')
_FASHION = (
  'T-shirt/top',
  'Trouser',
  'Pullover',
  'Dress',
  'Coat',
  'Sandal',
  'Shirt',
  'Sneaker',
  'Bag',
  'Ankle boot',
)
_KUZUSHIJI = ('o', 'ki', 'su', 'tsu', 'na', 'ha', 'ma', 'ya', 're', 'wo')
_OBJECTS = (
  'airplane',
  'automobile',
  'bird',
  'cat',
  'deer',
  'dog',
  'frog',
  'horse',
  'ship',
  'truck',
)


def _emnist(
  config: str, class_names: tuple[str, ...], counts: tuple[int, int]
) -> Source:
  from_one = class_names == _UPPER  # the letters are numbered from 1
  return Source(
    name=f'emnist/{config}',
    class_names=class_names,
    shape=(28, 28),
    counts=counts,
    read=readers.emnist(config),
    folder='emnist',
    files=official.EMNIST,
    arrange=readers.upright(first_label=int(from_one)),
    tfds_name=f'emnist/{config}',
    partial=f'emnist_{config}_*.npz',
  )


_MNIST = Source(
  name='mnist',
  class_names=_DIGITS,
  shape=(28, 28),
  counts=(60000, 10000),
  read=readers.idx,
  folder='mnist',
  files=official.MNIST,
  tfds_name='mnist',
)
_ROT_MNIST = Source(
  name='rot_mnist',
  class_names=_DIGITS,
  shape=(28, 28),
  counts=(12000, 50000),
  read=readers.amat,
  folder='rot_mnist',
  files=(File(readers.AMAT_TRAIN), File(readers.AMAT_TEST)),
  tfds_name='rot_mnist',
  manual=(
    'unpack mnist_rotation_new.zip, published at'
    ' http://www.iro.umontreal.ca/~lisa/icml2007data, there, or load'
    " 'rot_mnist_made', the same recipe applied to MNIST"
  ),
)
_ROT_MNIST_MADE = dataclasses.replace(
  _MNIST,
  name='rot_mnist_made',
  counts=_ROT_MNIST.counts,
  read=readers.rotated_mnist,
  tfds_name='rot_mnist_made',
)

_TABLE = (
  Source(
    name='digits',
    class_names=_DIGITS,
    shape=(16, 16),
    counts=embedded.DIGITS_COUNTS,
    read=lambda _: embedded.digits(),
  ),
  Source(
    name='tic_tac_toe',
    class_names=embedded.OUTCOMES,
    shape=(3, 3),
    counts=embedded.BOARD_COUNTS,
    read=lambda _: embedded.tic_tac_toe(),
  ),
  _MNIST,
  Source(
    name='fashion_mnist',
    class_names=_FASHION,
    shape=(28, 28),
    counts=(60000, 10000),
    read=readers.idx,
    folder='fashion_mnist',
    files=official.FASHION,
    tfds_name='fashion_mnist',
    # Debian's package dataset-fashion-mnist: same images, packed again.
    system_dirs=('/usr/share/datasets/fashion-mnist',),
  ),
  Source(
    name='kmnist',
    class_names=_KUZUSHIJI,
    shape=(28, 28),
    counts=(60000, 10000),
    read=readers.idx,
    folder='kmnist',
    files=official.KMNIST,
    tfds_name='kmnist',
    partial='kmnist_*.npz',
  ),
  _emnist('letters', _UPPER, (88800, 14800)),
  _emnist('balanced', _MERGED, (112800, 18800)),
  _emnist(
    'byclass', (*_DIGITS, *_UPPER, *string.ascii_lowercase), (697932, 116323)
  ),
  _emnist('bymerge', _MERGED, (697932, 116323)),
  _emnist('digits', _DIGITS, (240000, 40000)),
  _emnist('mnist', _DIGITS, (60000, 10000)),
  Source(
    name='cifar10',
    class_names=_OBJECTS,
    shape=(32, 32, 3),
    counts=(50000, 10000),
    read=readers.cifar10,
    folder='cifar10',
    files=official.CIFAR10,
    tfds_name='cifar10',
    partial='cifar10_*.npz',
  ),
  Source(
    name='svhn_cropped',
    class_names=_DIGITS,
    shape=(32, 32, 3),
    counts=(73257, 26032),
    read=readers.svhn,
    folder='svhn_cropped',
    files=official.SVHN,
    tfds_name='svhn_cropped',
    partial='svhn_*.npz',
  ),
  _ROT_MNIST,
  # The published experiments train on the large file and test on the small.
  dataclasses.replace(
    _ROT_MNIST,
    name='rot_mnist/swapped',
    counts=_ROT_MNIST.counts[::-1],
    arrange=readers.swap,
  ),
  _ROT_MNIST_MADE,
  dataclasses.replace(
    _ROT_MNIST_MADE,
    name='rot_mnist_made/swapped',
    counts=_ROT_MNIST_MADE.counts[::-1],
    arrange=readers.swap,
  ),
  Source(
    name='sign_language_mnist',
    class_names=tuple(c for c in _UPPER if c not in 'JZ'),  # these two move
    shape=(28, 28),
    counts=(27455, 7172),
    read=readers.sign_csv,
    folder='sign_language_mnist',
    files=(File(readers.SIGN_TRAIN), File(readers.SIGN_TEST)),
    tfds_name='sign_language_mnist',
    manual=(
      'fetch the CSV files of Sign Language MNIST (datamunge/'
      'sign-language-mnist at kaggle.com) and put them there'
    ),
    partial='asl_sign_mnist_*.npz',
    read_partial=readers.sign_npz,
  ),
)
SOURCES: Mapping[str, Source] = types.MappingProxyType(
  {source.name: source for source in _TABLE}
)

# Grey square images of even side, on which all twelve symmetries act.
G_NAMES = tuple(
  name
  for name, source in SOURCES.items()
  if len(source.shape) == 2
  and source.shape[0] == source.shape[1]
  and source.shape[0] % 2 == 0
)
