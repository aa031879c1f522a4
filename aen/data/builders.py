"""TFDS builders without TensorFlow; importing this registers our own.

Images are encoded as PNG by Pillow and stored in array_record files, which
`tfds.data_source` reads.
"""

from collections.abc import Iterator
import pathlib
from typing import Any

import numpy as np
from PIL import Image
import tensorflow_datasets as tfds

from aen.data import catalogue
from aen.data import dataset as dataset_lib
from aen.data import readers
from aen.data import transform

# Stock sets with a feature `id`, and the number of digits in it.
_ID_DIGITS = {'cifar10': 5, 'svhn_cropped': 6}


class _FromArrays(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Writes parts in the order of the official files."""

  source: catalogue.Source
  parts: dataset_lib.Parts | None = None  # downloaded if not given

  @property
  def _config(self) -> transform.Config | None:
    """The transformations; None for stock sets, also with a config."""
    return transform.CONFIGS.get(getattr(self.builder_config, 'name', ''))

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
    parts = self.parts
    if parts is None:
      files = self.source.files
      if self.source.manual:
        folder = pathlib.Path(dl_manager.manual_dir)
        paths = [folder / file.name for file in files]
      else:
        found = dl_manager.download({file.name: file.url for file in files})
        paths = [pathlib.Path(found[file.name]) for file in files]
      parts = readers.read(self.source, paths)
    if self.name == 'cifar10':  # the stock builder reads them from its archive
      self.info.features['label'].names = list(self.source.class_names)
    return {
      'train': self._generate_examples(parts.train, 'train'),
      'test': self._generate_examples(parts.test, 'test'),
    }

  def _generate_examples(
    self, side: dataset_lib.Split, split: str
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    side = dataset_lib.transformed(side, self._config, split)
    # Stock sets are stored as published.
    transpose = self.source.transposed
    images = side.images.swapaxes(1, 2) if transpose else side.images
    labels = side.labels + self.source.first_label
    for i, image in enumerate(images):
      example = {'image': Image.fromarray(image), 'label': int(labels[i])}
      if side.record is not None:
        example['powers'] = side.record.powers[i].astype(np.int32)
        example['angle'] = side.record.angles[i]
      if self.name in _ID_DIGITS:
        example['id'] = f'{split}_{i:0{_ID_DIGITS[self.name]}d}'
      yield i, example


class _OwnBuilder(_FromArrays, skip_registration=True):
  """A data set that TFDS does not have."""

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}

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


def _define(name: str, source: catalogue.Source) -> type[_OwnBuilder]:
  """Defines a builder class, which TFDS registers."""
  configs = [
    tfds.core.BuilderConfig(name=key, description=catalogue.describe(config))
    for key, config in transform.CONFIGS.items()
    if name == f'g_{source.name}'
  ]
  attributes = {
    'name': name,
    'source': source,
    'BUILDER_CONFIGS': configs,
    'MANUAL_DOWNLOAD_INSTRUCTIONS': source.manual or None,
  }
  return type(name, (_OwnBuilder,), attributes)


BUILDERS = {
  name: _define(name, catalogue.SOURCES[name.removeprefix('g_')])
  for name in (
    'g_mnist',
    'g_fashion_mnist',
    'rot_mnist',
    'rot_mnist_made',
    'sign_language_mnist',
  )
}


def stock_builder(source: catalogue.Source, data_dir: pathlib.Path) -> Any:
  """Returns TFDS's own builder of a source, which writes the given `parts`.

  A stock builder calls TensorFlow to read files and encode images. This one
  inherits everything else from it, so `tfds.data_source('mnist')` reads what it
  writes: the same version, order and pixels.
  """
  name, _, config = source.tfds_name.partition('/')
  stock: Any = tfds.builder_cls(name)

  class Local(_FromArrays, stock, skip_registration=True):
    """The stock builder, with images from arrays."""

    pkg_dir_path = stock.pkg_dir_path  # where the stock builder's card is

  Local.name, Local.source = stock.name, source
  return Local(config=config or None, data_dir=data_dir)
