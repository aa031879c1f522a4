"""Data cards: what a set is, how it was made, whose it is."""

import dataclasses
import textwrap

from aen.data import sources
from aen.data import transform


@dataclasses.dataclass(frozen=True)
class Card:
  """What a user should know before using a data set."""

  description: str
  licence: str
  homepage: str = ''
  citation: str = ''

  def __str__(self) -> str:
    rows = (
      self.description,
      f'Licence: {self.licence}',
      self.homepage and f'Homepage: {self.homepage}',
      self.citation,
    )
    return '\n\n'.join(row for row in rows if row) + '\n'


def card(name: str, config: transform.Config | None = None) -> Card:
  """Returns the card of a data set, with the config of its transformations."""
  source = sources.SOURCES[name]
  base = _CARDS[name.partition('/')[0]]
  counts = (
    f'{source.counts[0]} training and {source.counts[1]} test images of'
    f' {" x ".join(str(side) for side in source.shape)}, in'
    f' {len(source.class_names)} classes: {", ".join(source.class_names)}.'
  )
  paragraphs = [base.description, counts]
  citation = base.citation
  if config is not None:
    paragraphs = [_G_DESCRIPTION, describe_config(config), *paragraphs]
    citation = f'{_AEN_CITATION}\n{base.citation}'
  description = '\n\n'.join(textwrap.fill(p, 80) for p in paragraphs)
  return dataclasses.replace(base, description=description, citation=citation)


def describe_config(config: transform.Config) -> str:
  """Says in a sentence or two what a config does to images."""
  if not config.symmetries:
    return 'The original images, unchanged.'
  names = ', '.join(name.replace('_', ' ') for name in config.symmetries)
  if not config.as_published:
    return (
      f'For each of these symmetries in turn, a uniformly random number of'
      f' applications: {names}. Every move is a rearrangement of pixels, and'
      ' the record inverts it.'
    )
  moves = [f'Applied in turn, each with probability 1/2: {names}.']
  if config.turns_by_angle:
    moves.append(
      'Except that rotation is always by a uniformly random angle in ±180'
      ' degrees, taking the nearest pixel, with zeros moving in.'
    )
  if any('translation' in name for name in config.symmetries):
    moves.append('Translations are by one pixel and wrap round.')
  return ' '.join(moves)


_G_DESCRIPTION = (
  'Images transformed by combinations of twelve symmetries, a benchmark for'
  ' networks that find symmetries in data. Draws are fixed by the version'
  ' (seed 0), the split and the position of the image, which is that of the'
  ' original set. `powers` says how often each symmetry was applied, `angle` by'
  ' how many degrees the image was first turned, counter-clockwise.'
)
_AEN_CITATION = """\
@article{autoequivariant_networks,
  title = {Autoequivariant Network Search via Group Decomposition},
  author = {Basu, Sourya and Magesh, Akshayaa and Yadav, Harshit and
            Varshney, Lav R.},
  year = {2021}
}
"""
_MNIST_CITATION = """\
@misc{mnist,
  title = {The MNIST database of handwritten digits},
  author = {LeCun, Yann and Cortes, Corinna and Burges, Christopher J. C.},
  year = {1998}
}
"""
_ROT_MNIST_CITATION = """\
@inproceedings{rot_mnist,
  title = {An empirical evaluation of deep architectures on problems with many
           factors of variation},
  author = {Larochelle, Hugo and Erhan, Dumitru and Courville, Aaron and
            Bergstra, James and Bengio, Yoshua},
  booktitle = {International Conference on Machine Learning},
  year = {2007}
}
"""
_CARDS = {
  'digits': Card(
    'Handwritten digits of the UCI machine learning repository, as scikit-learn'
    ' ships them, each pixel doubled from 8 x 8 to 16 x 16 and grey values'
    ' scaled from 0…16 to 0…255. The test part is the end of the file.',
    'CC BY 4.0',
    'https://archive.ics.uci.edu/dataset/80',
  ),
  'tic_tac_toe': Card(
    'All 958 boards on which a game of tic-tac-toe can end, x moving first,'
    ' enumerated by code: 255 for x, 1 for o, 128 for blank. The outcome does'
    ' not change under the eight symmetries of the square.',
    'made by code, free of rights',
  ),
  'mnist': Card(
    'MNIST: handwritten digits.',
    'CC BY-SA 3.0',
    'http://yann.lecun.com/exdb/mnist/',
    _MNIST_CITATION,
  ),
  'fashion_mnist': Card(
    'Fashion-MNIST: articles of clothing, in the form of MNIST.',
    'MIT',
    'https://github.com/zalandoresearch/fashion-mnist',
    """\
@misc{fashion_mnist,
  title = {Fashion-MNIST: a novel image dataset for benchmarking machine
           learning algorithms},
  author = {Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  year = {2017},
  eprint = {1708.07747}
}
""",
  ),
  'kmnist': Card(
    'Kuzushiji-MNIST: cursive Japanese characters, in the form of MNIST.',
    'CC BY-SA 4.0',
    'http://codh.rois.ac.jp/kmnist/',
    """\
@misc{kmnist,
  title = {Deep learning for classical Japanese literature},
  author = {Clanuwat, Tarin and Bober-Irizar, Mikel and Kitamoto, Asanobu and
            Lamb, Alex and Yamamoto, Kazuaki and Ha, David},
  year = {2018},
  eprint = {1812.01718}
}
""",
  ),
  'emnist': Card(
    'EMNIST: handwritten characters, here upright and with labels from 0.',
    'public domain (a work of NIST)',
    'https://www.nist.gov/itl/products-and-services/emnist-dataset',
    """\
@inproceedings{emnist,
  title = {EMNIST: extending MNIST to handwritten letters},
  author = {Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and
            van Schaik, Andre},
  booktitle = {International Joint Conference on Neural Networks},
  year = {2017}
}
""",
  ),
  'cifar10': Card(
    'CIFAR-10: colour photographs of objects.',
    'not stated',
    'https://www.cs.toronto.edu/~kriz/cifar.html',
    """\
@techreport{cifar10,
  title = {Learning multiple layers of features from tiny images},
  author = {Krizhevsky, Alex},
  institution = {University of Toronto},
  year = {2009}
}
""",
  ),
  'svhn_cropped': Card(
    'Street View House Numbers: colour photographs of digits.',
    'for non-commercial use only',
    'http://ufldl.stanford.edu/housenumbers/',
    """\
@inproceedings{svhn,
  title = {Reading digits in natural images with unsupervised feature learning},
  author = {Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco,
            Alessandro and Wu, Bo and Ng, Andrew Y.},
  booktitle = {NIPS Workshop on Deep Learning and Unsupervised Feature
               Learning},
  year = {2011}
}
""",
  ),
  'rot_mnist': Card(
    'RotMNIST: digits of MNIST, each turned by a random angle. Grey values were'
    ' scaled from 0…1 to 0…255 and rounded.',
    'not stated',
    'http://www.iro.umontreal.ca/~lisa/icml2007',
    _ROT_MNIST_CITATION,
  ),
  'rot_mnist_made': Card(
    "RotMNIST's recipe applied to MNIST by code; NOT the published set, and"
    ' numbers measured on the two are not comparable. 62000 different images'
    ' of the 70000 of MNIST, each turned by an angle that is uniform in ±180'
    ' degrees, with bilinear interpolation, zeros moving in.',
    'CC BY-SA 3.0, as MNIST',
    'http://yann.lecun.com/exdb/mnist/',
    _MNIST_CITATION + _ROT_MNIST_CITATION,
  ),
  'sign_language_mnist': Card(
    'Sign Language MNIST (ASL): photographs of hands that sign letters. J and Z'
    ' are movements and absent. Official labels 0…24 without 9 became 0…23.'
    ' Many images are near-duplicates of one photograph.',
    'CC0',
    'https://www.kaggle.com/datasets/datamunge/sign-language-mnist',
    """\
@misc{sign_language_mnist,
  title = {Sign Language MNIST},
  author = {tecperson},
  year = {2017}
}
""",
  ),
}
