"""TFDS builders without TensorFlow; importing registers those of our own.

Images are stored as PNG, by Pillow, in array_record files, and
`tfds.data_source` reads them.
"""

from collections.abc import Iterator
import pathlib
from typing import Any

import numpy as np
from PIL import Image
import tensorflow_datasets as tfds

from aen.data import catalogue
from aen.data import readers
from aen.data import transform
from aen.data.dataset import Parts
from aen.data.dataset import Split
from aen.data.dataset import transformed

_CHUNK = 4096  # images transformed at once


class _ArrayBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Writes the parts of a source, which it was given or else downloads.

  Examples keep the order of the official files.
  """

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  source: catalogue.Source
  parts: Parts | None = None  # arranged, before transforming

  @property
  def _config(self) -> transform.Config | None:
    if self.builder_config is None:
      return None
    return transform.config(self.builder_config.name)

  def _info(self) -> tfds.core.DatasetInfo:
    features = {
      'image': tfds.features.Image(shape=(*self.source.shape, 1)),
      'label': tfds.features.ClassLabel(names=list(self.source.class_names)),
    }
    if self._config is not None:
      features['powers'] = tfds.features.Tensor(
        shape=(transform.NUM_BITS,), dtype=np.int32
      )
      features['angle'] = tfds.features.Scalar(dtype=np.float32)
    card = catalogue.card(self.source, self._config)
    return tfds.core.DatasetInfo(
      builder=self,
      description=card.description,
      features=tfds.features.FeaturesDict(features),
      supervised_keys=('image', 'label'),
      homepage=card.homepage,
      citation=card.citation,
      license=card.licence,
      disable_shuffling=True,
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
    parts = self.parts
    if parts is None:
      files = self.source.files
      if self.MANUAL_DOWNLOAD_INSTRUCTIONS:
        folder = pathlib.Path(dl_manager.manual_dir)
        paths = [folder / file.name for file in files]
      else:
        found = dl_manager.download({file.name: file.url for file in files})
        paths = [pathlib.Path(found[file.name]) for file in files]
      parts = readers.arrange(self.source, readers.read(self.source, paths))
    return {
      'train': self._generate_examples(parts.train, 'train'),
      'test': self._generate_examples(parts.test, 'test'),
    }

  def _generate_examples(
    self, side: Split, name: str
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    for start in range(0, len(side), _CHUNK):
      some = side.take(slice(start, start + _CHUNK))
      some = transformed(some, self._config, name)
      for i, example in _examples(some):
        if some.record is not None:
          example['powers'] = some.record.powers[i].astype(np.int32)
          example['angle'] = some.record.angles[i]
        yield start + i, example


def _examples(split: Split) -> Iterator[tuple[int, dict[str, Any]]]:
  for i, (image, label) in enumerate(
    zip(split.images, split.labels, strict=True)
  ):
    yield i, {'image': Image.fromarray(image), 'label': int(label)}


def _define(name: str, source: catalogue.Source) -> type[_ArrayBuilder]:
  """Defines a builder; TFDS registers every class that is defined."""
  configs = [
    tfds.core.BuilderConfig(name=config.name, description=config.description)
    for config in transform.CONFIGS.values()
    if name == f'g_{source.name}'
  ]
  attributes = {
    'name': name,
    'source': source,
    'BUILDER_CONFIGS': configs,
    'MANUAL_DOWNLOAD_INSTRUCTIONS': source.manual or None,
  }
  return type(name, (_ArrayBuilder,), attributes)


BUILDERS = {
  name: _define(name, catalogue.SOURCES[source])
  for name, source in {
    'g_mnist': 'mnist',
    'g_fashion_mnist': 'fashion_mnist',
    'rot_mnist': 'rot_mnist',
    'rot_mnist_made': 'rot_mnist_made',
    'sign_language_mnist': 'sign_language_mnist',
  }.items()
}

# Stock sets with a feature `id`, and how many digits its running number has.
_ID_DIGITS = {'cifar10': 5, 'svhn_cropped': 6}


def stock_builder(
  source: catalogue.Source, parts: Parts, data_dir: str
) -> tfds.core.DatasetBuilder:
  """Returns TFDS's own builder of a source, ready to write given parts.

  A stock builder calls TensorFlow to read files and to encode images. The class
  made here inherits everything else from it, so what it writes is read by plain
  `tfds.data_source('mnist')`: same version, order and pixels.

  Args:
    source: One that TFDS knows.
    parts: The parts as published, that is, not arranged.
    data_dir: Where TFDS keeps data.
  """
  name, _, config = source.tfds_name.partition('/')
  stock: Any = tfds.builder_cls(name)

  class Local(stock, skip_registration=True):
    """The stock builder, fed with arrays."""

    pkg_dir_path = stock.pkg_dir_path  # where the stock builder's card lies

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
      if name == 'cifar10':  # the stock builder reads them from its archive
        self.info.features['label'].names = list(source.class_names)
      return {
        split: self._generate_examples(side, split)
        for split, side in zip(('train', 'test'), parts, strict=True)
      }

    def _generate_examples(
      self, side: Split, split: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
      for i, example in _examples(side):
        if name in _ID_DIGITS:
          example['id'] = f'{split}_{i:0{_ID_DIGITS[name]}d}'
        yield i, example

  Local.name = stock.name
  return Local(config=config or None, data_dir=data_dir)
