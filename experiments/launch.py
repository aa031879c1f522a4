"""Starts every launcher: parses its flags, prints user errors in one line."""

from collections.abc import Callable, Sequence
import gc
import logging
import os
import sys
from typing import Any

from absl import app
from absl import flags
from absl import logging as absl_logging
import jax

from aen.train import executors
from experiments import interrupt

resumable = interrupt.resumable

# Fewer than the cores of a large machine: each device has a copy of the images.
_MOST_DEVICES = 8
DEFINE = {  # by type
  bool: flags.DEFINE_bool,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  str: flags.DEFINE_string,
  tuple: lambda name, value, text: flags.DEFINE_list(
    name, value and [*map(str, value)], text
  ),
}
_REPEATED = {
  int: flags.DEFINE_multi_integer,
  float: flags.DEFINE_multi_float,
  str: flags.DEFINE_multi_string,
}
_HELP = {'-h', '-help', '--help', '-helpshort', '--helpshort'}


def run(main: Callable[[list[str]], None]) -> None:
  """Runs a launcher's main; exits with 2 after an error that users can fix."""

  def guarded(argv: list[str]) -> None:
    if absl_logging.get_verbosity() == absl_logging.INFO:  # absl's default
      # Silences Orbax, and JAX on missing accelerators.
      absl_logging.set_verbosity(absl_logging.WARNING)
      logging.getLogger('jax._src.xla_bridge').setLevel(logging.WARNING)
    sys.stdout.reconfigure(line_buffering=True)  # shows progress in files too
    jax.config.update('jax_numpy_rank_promotion', 'raise')
    use_all_cores()
    executors.keep_compilations()
    gc.freeze()  # modules stay: the garbage collector need not scan them
    gc.set_threshold(50_000)  # tracing makes many objects, few of them cycles
    try:
      main(argv)
    except (ValueError, OSError, ImportError) as error:
      print(f'{type(error).__name__}: {error}', file=sys.stderr)
      sys.exit(2)

  about = sys.modules[main.__module__].__doc__ or ''
  app.run(guarded, flags_parser=lambda argv: parse(argv, about))


def define(**table: Sequence[Any]) -> flags.FlagValues:
  """Defines flags as name=(default, help text, lower bound or choices).

  A flag has the type of its default; a type in place of the default means None.
  A flag with a list may be repeated, one with a tuple takes values separated by
  commas.
  """
  for name, (default, text, *rest) in table.items():
    kind, value, limit = type(default), default, (*rest, None)[0]
    if kind is type:
      kind, value = default, None
    define_one = DEFINE.get(kind) or _REPEATED[type(value[0]) if value else str]
    if limit is None:
      define_one(name, value, text)
    elif isinstance(limit, int | float):
      define_one(name, value, text, lower_bound=limit)
    else:
      enum = flags.DEFINE_multi_enum if kind is list else flags.DEFINE_enum
      enum(name, value, limit, text)
  return flags.FLAGS


def use_all_cores() -> None:
  """Makes each core a JAX device, unless the user has set their number.

  Children are divided among the devices, each of which computes in one thread:
  this is faster than training one child after another on all cores.
  """
  os.environ.update(executors.thread_environment())
  if 'xla_force_host_platform_device_count' in os.environ['XLA_FLAGS']:
    return
  if jax.config.jax_num_cpu_devices < 1:
    cores = executors.num_cores()
    jax.config.update('jax_num_cpu_devices', min(cores, _MOST_DEVICES))


def parse(argv: list[str], about: str) -> list[str]:
  """Parses flags; exits with 0 after --help, with 2 after a wrong argument."""
  if _HELP & set(argv):
    text = f'{about}\n{flags.FLAGS.module_help(__name__)}'  # all flags
    # absl appends '; repeat ...' to the full stop of a repeated flag's text.
    print(text.replace('.;\n', ';\n'))
    sys.exit(0)
  try:
    words = flags.FLAGS(argv)[1:]
    if words:
      raise flags.Error(
        f'unexpected words {words}; options are written --name=value'
      )
  except (flags.Error, ValueError) as error:  # of --noflag=value
    print(f'{error}; --help lists the flags', file=sys.stderr)
    sys.exit(2)
  return argv[:1]
