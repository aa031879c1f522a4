"""TFDS's own builders, prepared without TensorFlow.

A stock builder calls TensorFlow to read files and to encode images. The class
made here inherits everything else from it, so what it writes is read by plain
`tfds.data_source('mnist')`: same version, order and pixels.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from aen.data import png
from aen.data import sources
from aen.data.arrays import Part
from aen.data.arrays import Parts

# Sets with a feature `id`, and how many digits its running number has.
_ID_DIGITS = {'cifar10': 5, 'svhn_cropped': 6}


def builder(
  source: sources.Source, parts: Parts, data_dir: str
) -> tfds.core.DatasetBuilder:
  """Returns the stock builder of a source, ready to write given parts.

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
        for split, side in (('train', parts.train), ('test', parts.test))
      }

    def _generate_examples(
      self, side: Part, split: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
      for i, (image, label) in enumerate(
        zip(side.images, side.labels, strict=True)
      ):
        example = {'image': png.encode(image), 'label': int(label)}
        if name in _ID_DIGITS:
          example['id'] = f'{split}_{i:0{_ID_DIGITS[name]}d}'
        yield i, example

  Local.name = stock.name
  return Local(config=config or None, data_dir=data_dir)
