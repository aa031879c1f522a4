"""TFDS builders of the sets TFDS does not have; importing registers them.

They need no TensorFlow: images are stored as PNG in array_record files, and
`tfds.data_source` reads them. Examples keep the order of the official files.
"""

from collections.abc import Iterator
import pathlib
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from aen.data import cards
from aen.data import files
from aen.data import png
from aen.data import sources
from aen.data import transform
from aen.data.arrays import Part
from aen.data.arrays import Parts

_CHUNK = 4096  # images transformed at once


class _ArrayBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Writes the parts of a source, which it was given or else downloads."""

  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  source: sources.Source
  parts: Parts | None = None  # as given out, before transforming

  def _info(self) -> tfds.core.DatasetInfo:
    card = cards.card(self.source.name, self._config)
    return tfds.core.DatasetInfo(
      builder=self,
      description=card.description,
      features=tfds.features.FeaturesDict(self._features()),
      supervised_keys=('image', 'label'),
      homepage=card.homepage,
      citation=card.citation,
      license=card.licence,
      disable_shuffling=True,
    )

  @property
  def _config(self) -> transform.Config | None:
    if self.builder_config is None:
      return None
    return transform.config(self.builder_config.name)

  def _features(self) -> dict[str, Any]:
    features = {
      'image': tfds.features.Image(shape=(*self.source.shape, 1)),
      'label': tfds.features.ClassLabel(names=list(self.source.class_names)),
    }
    if self._config is not None:
      features['powers'] = tfds.features.Tensor(
        shape=(transform.NUM_BITS,), dtype=np.int32
      )
      features['angle'] = tfds.features.Scalar(dtype=np.float32)
    return features

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
    parts = self.parts
    if parts is None:
      paths = self._paths(dl_manager)
      for file in self.source.files:
        files.verify(paths[file.name], file)
      parts = self.source.arrange(self.source.read(paths))
    return {
      'train': self._generate_examples(parts.train, 'train'),
      'test': self._generate_examples(parts.test, 'test'),
    }

  def _paths(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, pathlib.Path]:
    if self.MANUAL_DOWNLOAD_INSTRUCTIONS:
      folder = pathlib.Path(dl_manager.manual_dir)
      return {file.name: folder / file.name for file in self.source.files}
    found = dl_manager.download({f.name: f.url for f in self.source.files})
    return {name: pathlib.Path(path) for name, path in found.items()}

  def _generate_examples(
    self, side: Part, split: str
  ) -> Iterator[tuple[int, dict[str, Any]]]:
    for start in range(0, len(side), _CHUNK):
      rows = np.arange(start, min(start + _CHUNK, len(side)))
      images, extras = self._transform(side.images[rows], rows, split)
      for i, row in enumerate(rows):
        yield (
          int(row),
          {
            'image': png.encode(images[i]),
            'label': int(side.labels[row]),
            **{key: values[i] for key, values in extras.items()},
          },
        )

  def _transform(
    self, images: np.ndarray, rows: np.ndarray, split: str
  ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    if self._config is None:
      return images, {}
    side = images.shape[1]
    record = transform.draw(self._config, side, rows, split=split)
    extras = {
      'powers': record.powers.astype(np.int32),
      'angle': record.angles,
    }
    return transform.transform(images, record), extras


_G_CONFIGS = [
  tfds.core.BuilderConfig(
    name=config.name, description=cards.describe_config(config)
  )
  for config in transform.CONFIGS.values()
]


class GMnist(_ArrayBuilder):
  """MNIST with transformed images."""

  name = 'g_mnist'
  source = sources.SOURCES['mnist']
  BUILDER_CONFIGS = _G_CONFIGS


class GFashionMnist(_ArrayBuilder):
  """Fashion-MNIST with transformed images."""

  name = 'g_fashion_mnist'
  source = sources.SOURCES['fashion_mnist']
  BUILDER_CONFIGS = _G_CONFIGS


class RotMnist(_ArrayBuilder):
  """The published RotMNIST."""

  name = 'rot_mnist'
  source = sources.SOURCES['rot_mnist']
  MANUAL_DOWNLOAD_INSTRUCTIONS = source.manual


class RotMnistMade(_ArrayBuilder):
  """RotMNIST's recipe applied to MNIST; not the published set."""

  name = 'rot_mnist_made'
  source = sources.SOURCES['rot_mnist_made']


class SignLanguageMnist(_ArrayBuilder):
  """Sign Language MNIST (ASL), labels 0…23."""

  name = 'sign_language_mnist'
  source = sources.SOURCES['sign_language_mnist']
  MANUAL_DOWNLOAD_INSTRUCTIONS = source.manual


BUILDERS = {
  builder.name: builder
  for builder in (
    GMnist,
    GFashionMnist,
    RotMnist,
    RotMnistMade,
    SignLanguageMnist,
  )
}
