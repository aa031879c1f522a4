"""Settings for all tests."""

from importlib import metadata
import os
import tempfile

import hypothesis

# Most of the time goes into compiling many small programs that run once.
_FLAGS = [
  '--xla_backend_optimization_level=0',
  '--xla_llvm_disable_expensive_passes=true',
]
# The former emitters compile in about half the time. A flag that XLA does not
# know ends the process: 0.7 and 0.10 know this one, 0.12 does not.
if tuple(map(int, metadata.version('jaxlib').split('.')[:2])) < (0, 11):
  _FLAGS.append('--xla_cpu_use_fusion_emitters=false')
os.environ.setdefault('XLA_FLAGS', ' '.join(_FLAGS))

# What one process compiled, the others read: they inherit the folder.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  _cache = tempfile.TemporaryDirectory(prefix='aen_tests_')
  os.environ['JAX_COMPILATION_CACHE_DIR'] = _cache.name
  os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'
  os.environ['JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES'] = '-1'
  # Orbits too, none of which another version may have written.
  os.environ['AEN_CACHE_DIR'] = os.path.join(_cache.name, 'aen')

# A busy machine is no failure: limits are of processor time.
hypothesis.settings.register_profile('aen', deadline=None)
hypothesis.settings.load_profile('aen')

# As in launchers: arrays of different ranks are not broadcast silently. Not by
# the environment, which the kernels of notebooks would inherit.
import jax  # noqa: E402, after the flags above

jax.config.update('jax_numpy_rank_promotion', 'raise')
