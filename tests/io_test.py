import errno
import os

import pytest

from aen import io as io_lib


def test_files_appear_only_when_complete(tmp_path):
  path = tmp_path / 'deep' / 'file'
  with io_lib.written_whole(path) as f:
    f.write(b'old')
  assert path.read_bytes() == b'old'

  def fail(error):
    with io_lib.written_whole(path) as f:
      f.write(b'new')
      raise error

  with pytest.raises(OSError, match='no space left while writing .*file;'):
    fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
  with pytest.raises(KeyError):
    fail(KeyError('anything else'))
  assert path.read_bytes() == b'old'
  assert [p.name for p in path.parent.iterdir()] == ['file']


def test_missing_and_broken_packages_name_the_extra():
  with (
    pytest.raises(ModuleNotFoundError) as missing,
    io_lib.needed_for('drawing', 'data'),
  ):
    import a_package_that_nobody_has  # noqa: F401
  assert str(missing.value) == (
    'drawing needs a_package_that_nobody_has; pip install "aen[data]"'
  )
  assert missing.value.name == 'a_package_that_nobody_has'
  with (
    pytest.raises(ImportError, match=r'needs os; pip .*": cannot import name'),
    io_lib.needed_for('drawing', 'data'),
  ):
    from os import what_it_does_not_have  # noqa: F401
