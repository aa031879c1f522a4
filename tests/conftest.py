"""Settings for all tests."""

import os

import hypothesis

# Most of the time goes into compiling many small programs that run once.
os.environ.setdefault(
  'XLA_FLAGS',
  '--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true',
)

# A slow machine is no failure: no test asserts a time.
hypothesis.settings.register_profile('aen', deadline=None)
hypothesis.settings.load_profile('aen')
