"""Launchers: flags, then a config, then one call of the library."""

import sys

from experiments import interrupt

if sys.argv[:1] == ['-m']:  # `python -m experiments.…` imports its launcher
  interrupt.install()
