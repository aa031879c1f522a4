"""Settings for all tests."""

import os

# Most of the time goes into compiling many small programs that run once.
os.environ.setdefault(
  'XLA_FLAGS',
  '--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true',
)
