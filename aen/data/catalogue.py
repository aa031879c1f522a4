"""The catalogue: every data set that can be loaded by name.

catalogue.toml holds the entries and explains their keys. Square greyscale sets
of even side can also be loaded as `g_<name>/<config>`.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
import textwrap
import tomllib
from typing import Any

from aen import io as io_lib
from aen.data import transform

_CATALOGUE = tomllib.loads(
  pathlib.Path(__file__).with_suffix('.toml').read_text('utf-8')
)


@dataclasses.dataclass(frozen=True)
class File:
  """An official file of a data set; see catalogue.toml."""

  name: str
  url: str = ''
  size: int = 0
  sha256: str = ''
  content_sha256: str = ''


@dataclasses.dataclass(frozen=True)
class Source:
  """An entry of catalogue.toml, where the keys are explained."""

  name: str
  format: str
  class_names: tuple[str, ...]
  shape: tuple[int, ...]
  counts: tuple[int, int]
  description: str
  licence: str
  homepage: str = ''
  citation: str = ''
  folder: str = ''
  files: tuple[File, ...] = ()
  extracted: tuple[File, ...] = ()
  transposed: bool = False
  first_label: int = 0
  swapped: bool = False
  tfds_name: str = ''
  manual: str = ''
  partial: str = ''
  partial_format: str = 'npz'
  system_dirs: tuple[str, ...] = ()
  sample_classes: tuple[str, ...] = ()
  like: str = ''

  def __str__(self) -> str:
    """Returns the data card."""
    rows = (
      self.description,
      f'Licence: {self.licence}',
      self.homepage and f'Homepage: {self.homepage}',
      self.citation,
    )
    return '\n\n'.join(row for row in rows if row) + '\n'


def _entry(name: str) -> dict[str, Any]:
  entry = _CATALOGUE['sets'][name]
  return _entry(entry['like']) | entry if 'like' in entry else entry


def _source(name: str) -> Source:
  entry = {'name': name} | _entry(name)
  fields = dataclasses.fields(Source)
  unknown = entry.keys() - {field.name for field in fields}
  required = {f.name for f in fields if f.default is dataclasses.MISSING}
  missing = required - entry.keys()
  if unknown or missing:
    raise ValueError(
      f'catalogue.toml, set {name}: unknown keys {sorted(unknown)}, missing'
      f' {sorted(missing)}; its header lists all keys'
    )
  entry |= {k: tuple(v) for k, v in entry.items() if isinstance(v, list)}
  entry['class_names'] = tuple(entry['class_names'])  # also of a string
  for key in ('files', 'extracted'):
    entry[key] = tuple(File(**file) for file in entry.get(key, ()))
  return Source(**entry)


SOURCES: Mapping[str, Source] = {
  name: _source(name) for name in _CATALOGUE['sets']
}

# Square greyscale images of even side, on which all twelve symmetries act.
G_NAMES = tuple(
  name
  for name, source in SOURCES.items()
  if source.shape == (source.shape[0],) * 2 and source.shape[0] % 2 == 0
)

_ORIGINALS = {f'g_{name}': name for name in SOURCES}


def find(name: str) -> tuple[Source, transform.Config | None]:
  """Returns the source and the config of a name.

  `'g_mnist/aug3'` is MNIST with config `aug3`; `'mnist'` has no config.
  """
  if name in SOURCES:
    return SOURCES[name], None
  base, _, config = name.rpartition('/')
  if is_name(name):
    return SOURCES[_ORIGINALS[base]], transform.config(config)
  original = _ORIGINALS.get(base) or _ORIGINALS.get(name)
  if original and original not in G_NAMES:
    raise ValueError(
      f'{name!r}: transformations need grey square images of even side, got'
      f' {original} with {" x ".join(map(str, SOURCES[original].shape))}; load'
      f' {original!r} as it is, or transform one of {", ".join(G_NAMES)}'
    )
  known = [*SOURCES, *(f'g_{base}/aug3' for base in G_NAMES)]
  summary = (
    f'{", ".join(SOURCES)}; g_<name>/<config> for the grey square ones, such as'
    " 'g_mnist/aug3'; and paths of .npz files or image folders"
  )
  raise io_lib.unknown('data set', name, known, summary=summary)


def is_name(name: str) -> bool:
  """Whether a name is in the catalogue, with any config."""
  base = name.rpartition('/')[0]
  return name in SOURCES or _ORIGINALS.get(base) in G_NAMES


def describe(config: transform.Config) -> str:
  """Describes in a sentence or two what a config does to images."""
  texts = _CATALOGUE['transformed']
  names = ', '.join(config.symmetries).replace('_', ' ')
  if not names:
    return texts['original']
  if not config.as_published:
    return texts['group'].format(names=names)
  sentences = [texts['published'].format(names=names)]
  if config.rotates_by_angle:
    sentences.append(texts['angle'])
  if 'translation' in names:
    sentences.append(texts['translation'])
  return ' '.join(sentences)


def card(source: Source, config: transform.Config | None = None) -> Source:
  """Returns a source with the complete description and citation of its card."""
  paragraphs = [
    source.description,
    f'{source.counts[0]} training and {source.counts[1]} test images of'
    f' {" x ".join(map(str, source.shape))}, in {len(source.class_names)}'
    f' classes: {", ".join(source.class_names)}.',
  ]
  citation = source.citation
  if config is not None:
    added = _CATALOGUE['transformed']
    paragraphs = [added['description'], describe(config), *paragraphs]
    citation = f'{added["citation"]}\n{citation}'
  description = '\n\n'.join(textwrap.fill(text, 80) for text in paragraphs)
  return dataclasses.replace(source, description=description, citation=citation)
