"""Double precision for a block of a test, on every supported JAX."""

import contextlib

import jax
import jax.experimental


def enable_x64(enabled: bool) -> contextlib.AbstractContextManager[None]:
  """`jax.enable_x64`, which older versions keep elsewhere."""
  home = jax if hasattr(jax, 'enable_x64') else jax.experimental
  return home.enable_x64(enabled)
