"""No test of data depends on where this machine keeps its files."""

import pytest


@pytest.fixture(autouse=True)
def _no_raw_dir(monkeypatch):
  monkeypatch.delenv('AEN_RAW_DIR', raising=False)
