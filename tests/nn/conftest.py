"""Settings for the tests of layers and networks."""

import chex
import pytest


@pytest.fixture(autouse=True)
def clear_trace_counter():
  """`chex.assert_max_traces` counts traces within one test."""
  chex.clear_trace_counter()
