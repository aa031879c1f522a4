"""Files that nobody means well with: one line each, and nothing is followed."""

import gzip
import io
import os
import tarfile
import zipfile
import zlib

import numpy as np
from PIL import Image
import pytest

import aen
from aen.data import catalogue
from aen.data import readers
from tests.data import tiny


def says(match, name):
  tiny.fails(match, aen.load_dataset, name)


@pytest.fixture
def folder(tmp_path):
  for name in ('cat', 'dog'):
    tiny.save_images(tmp_path / 'pets' / name, 6)
  aen.load_dataset(tmp_path / 'pets')
  return tmp_path / 'pets'


def test_pipes_are_not_read(folder, tmp_path):
  os.mkfifo(folder / 'cat' / 'pipe.png')
  says('pipe.png: expected an image file, got a pipe', folder)
  os.mkfifo(tmp_path / 'pipe.npz')
  says('got a pipe or device', tmp_path / 'pipe.npz')
  says('got a pipe or device', '/dev/zero')


def test_links_out_of_the_folder_are_not_followed(folder, tmp_path):
  tiny.save_images(tmp_path / 'outside', 1)
  (outside,) = (tmp_path / 'outside').iterdir()
  link = folder / 'cat' / 'link.png'
  link.symlink_to(outside)
  says('link.png: expected files and folders inside .* a link to', folder)
  link.unlink()
  link.symlink_to(link)
  says('a link to nowhere', folder)
  link.unlink()
  (folder / 'bird').symlink_to(tmp_path / 'outside')
  says('bird: expected files and folders inside', folder)
  (folder / 'bird').unlink()
  inside = next((folder / 'cat').iterdir())
  (folder / 'cat' / 'again.png').symlink_to(inside)
  (tmp_path / 'entrance').symlink_to(folder)
  assert len(aen.load_dataset(tmp_path / 'entrance').train)


@pytest.mark.filterwarnings('ignore:Image size')
def test_images_that_explode(folder):
  Image.new('1', (30000, 5000)).save(folder / 'cat' / 'bomb.png')
  says('bomb.png: expected an image .* expand from', folder)


def npy(array_header):
  header = repr(array_header).encode().ljust(117) + b'\n'
  return b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header


def test_arrays_that_explode(tmp_path):
  path = tmp_path / 'bomb.npz'
  np.savez_compressed(
    path, x_train=np.zeros((2**10, 2**9, 2**9), np.uint8), y_train=[0, 1]
  )
  assert path.stat().st_size < 2**19
  says('bomb.npz: .* expand from .*without compression', path)
  header = b'\x93NUMPY\x02\x00' + (2**28).to_bytes(4, 'little')
  with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as file:
    for name in ('x_train.npy', 'y_train.npy'):
      file.writestr(name, header.ljust(2**28))
  says('bomb.npz: .* expand from .*without compression', path)
  for count in (10**6, 9):
    shape = (count, 1000, 1000)
    empty = npy({'descr': '|u1', 'fortran_order': False, 'shape': shape})
    with zipfile.ZipFile(path, 'w') as file:
      file.writestr('x_train.npy', empty)
      file.writestr('y_train.npy', empty)
    says(f'x_train.npy declares {count}000000 bytes of values and holds', path)


@pytest.mark.slow
def test_a_wrong_gzip_file_is_refused_before_it_is_expanded(tmp_path):
  path = tmp_path / 'bomb.gz'
  packer = zlib.compressobj(9, wbits=31)
  zeros = bytes(2**24)
  with path.open('wb') as file:
    for _ in range(64):  # a gigabyte
      file.write(packer.compress(zeros))
    file.write(packer.flush())
  with pytest.raises(ValueError, match=r'expand from \d+ bytes to at least'):
    readers.read_gzip(path)
  file = catalogue.File('bomb.gz', sha256='0' * 64)
  with pytest.raises(ValueError, match='wrong checksum'):
    readers.verify(path, file)


@pytest.mark.parametrize('damage', ['encrypted', 'unknown compression'])
def test_archives_that_cannot_be_read(tmp_path, damage):
  path = tmp_path / 'bad.npz'
  np.savez(path, x_train=np.zeros((9, 4, 4), np.uint8), y_train=np.arange(9))
  content = bytearray(path.read_bytes())
  for start in (b'PK\x03\x04', b'PK\x01\x02'):
    place = content.index(start) + (2 if start[2] == 1 else 0)
    if damage == 'encrypted':
      content[place + 6] |= 1
    else:
      content[place + 8] = 77
  path.write_bytes(content)
  says('bad.npz: expected an .npz file', path)


def test_links_in_archives_that_lead_in_circles(tmp_path):
  source = catalogue.SOURCES['cifar10']
  path = tmp_path / 'loop.tar'
  with tarfile.open(path, 'w') as file:
    for name, target in (('data_batch_1', 2), ('data_batch_2', 1)):
      member = tarfile.TarInfo(f'cifar-10-batches-bin/{name}.bin')
      member.type = tarfile.SYMTYPE
      member.linkname = f'data_batch_{target}.bin'
      file.addfile(member, io.BytesIO())
  tiny.fails(
    'loop.tar: expected six .bin',
    lambda: list(readers.READERS[source.format](source, [path])),
  )


def test_names_of_other_bytes(folder, tmp_path):
  other = os.fsdecode(b'caf\xe9')
  tiny.save_images(folder / other, 6)
  says('class_names must be text that UTF-8 can encode', folder)
  tiny.save_images(tmp_path / other / 'cat', 6)
  tiny.save_images(tmp_path / other / 'dog', 6)
  data = aen.load_dataset(tmp_path / other)
  assert data.name == 'caf\ufffd'
  with pytest.raises(ValueError, match='name of a Symmetry must be text'):
    aen.Symmetry(other, np.flip)


@pytest.mark.parametrize('name', ['x' * 5000, 'a\0b', '/' + 'x' * 5000])
def test_names_that_no_file_can_have(name):
  with pytest.raises((ValueError, FileNotFoundError), match='known|there'):
    aen.load_dataset(name)


def test_gzip_files_of_any_honest_size_are_read(tmp_path):
  path = tmp_path / 'zeros.gz'
  path.write_bytes(gzip.compress(bytes(2**20)))
  assert readers.read_gzip(path) == bytes(2**20)
