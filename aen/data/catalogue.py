"""The catalogue: every data set that can be loaded by name.

The entries are in catalogue.toml, which explains their keys. To add a data set,
add an entry; if its files have a new format, add a reader too (see `readers`).
If its images are grey and square, of even side, `g_<name>/<config>` follows.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
import textwrap
import tomllib
import types
from typing import Any

from aen.data import errors
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


def _source(name: str) -> Source:
  entry = _entry(name)
  tuples = {k: tuple(v) for k, v in entry.items() if isinstance(v, list)}
  class_names = tuple(entry['class_names'])
  files = tuple(File(**file) for file in entry.get('files', ()))
  return Source(
    **entry | tuples | {'class_names': class_names, 'files': files}, name=name
  )


def _entry(name: str) -> dict[str, Any]:
  entry = _CATALOGUE['sets'][name]
  return _entry(entry['like']) | entry if 'like' in entry else entry


SOURCES: Mapping[str, Source] = types.MappingProxyType(
  {name: _source(name) for name in _CATALOGUE['sets']}
)

# Grey square images of even side, on which all twelve symmetries act.
G_NAMES = tuple(
  name
  for name, source in SOURCES.items()
  if len(source.shape) == 2
  and source.shape[0] == source.shape[1]
  and source.shape[0] % 2 == 0
)


def find(name: str) -> tuple[Source, transform.Config | None]:
  """Returns the source of a name, and the config of its transformations.

  `'mnist'` has no config; `'g_mnist/aug3'` is MNIST with config `aug3`.
  """
  if name in SOURCES:
    return SOURCES[name], None
  base, config = _split_g_name(name)
  for original in (base, name.removeprefix('g_')):
    if name.startswith('g_') and original in {*SOURCES} - {*G_NAMES}:
      raise ValueError(
        f'{name!r}: transformations need grey square images of even side, got'
        f' {original} with {" x ".join(map(str, SOURCES[original].shape))};'
        f' load {original!r} as it is, or transform one of'
        f' {", ".join(G_NAMES)}'
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
  return name in SOURCES or _split_g_name(name)[0] in G_NAMES


def _split_g_name(name: str) -> tuple[str, str]:
  """Splits `'g_mnist/aug3'` into `'mnist'` and `'aug3'`."""
  if not name.startswith('g_'):
    return '', ''
  base, _, config = name.removeprefix('g_').rpartition('/')
  return base, config


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


def card(source: Source, config: transform.Config | None = None) -> Card:
  """Returns the card of a data set, with the config of its transformations."""
  paragraphs = [
    source.description,
    f'{source.counts[0]} training and {source.counts[1]} test images of'
    f' {" x ".join(str(side) for side in source.shape)}, in'
    f' {len(source.class_names)} classes: {", ".join(source.class_names)}.',
  ]
  citation = source.citation
  if config is not None:
    added = _CATALOGUE['transformed']
    paragraphs = [added['description'], config.description, *paragraphs]
    citation = f'{added["citation"]}\n{citation}'
  description = '\n\n'.join(textwrap.fill(text, 80) for text in paragraphs)
  return Card(description, source.licence, source.homepage, citation)
