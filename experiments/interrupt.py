"""Signals end a run within seconds and print the command that resumes it.

Imports nothing slow, to be ready before JAX is imported.
"""

from collections.abc import Iterator
import contextlib
import os
import shlex
import signal
import sys
import threading
from typing import Any

# A closed terminal sends SIGHUP, which not every system has.
SIGNALS = [
  getattr(signal, name)
  for name in ('SIGINT', 'SIGTERM', 'SIGHUP')
  if hasattr(signal, name)
]
_PATIENCE = 1.0  # seconds
_said = threading.Event()  # whether the line was printed, which happens once
_installed = threading.Event()


def install() -> None:
  """Makes signals end the process at once."""
  _installed.set()
  for number in _heeded():
    signal.signal(number, lambda number, _: _end(number))


@contextlib.contextmanager
def resumable() -> Iterator[None]:
  """Ends a run at a signal and prints the command that resumes it.

  Closes open contexts first. But Python handles signals only between bytecode
  instructions, and a compiled program may run for minutes: after a second, a
  thread ends the process. The store and all files are written such that this
  loses nothing.
  """
  if threading.current_thread() is not threading.main_thread():
    yield  # only the main thread may handle signals
    return
  _said.clear()
  numbers, done = _heeded(), threading.Event()
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  before: dict[int, Any] = {n: signal.signal(n, _raise) for n in numbers}
  wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  threading.Thread(target=_watch, args=(reader, done), daemon=True).start()
  try:
    yield
  except KeyboardInterrupt as error:
    number = error.args[0] if error.args else signal.SIGINT
    if _installed.is_set():  # JAX may take seconds to shut down
      sys.stdout.flush()
      _end(number)
    print(_line(), file=sys.stderr)
    sys.exit(128 + number)
  finally:
    done.set()
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
      signal.signal(number, handler)
    os.close(writer)


def _heeded() -> list[int]:
  """Returns the signals that this process does not ignore."""
  return [n for n in SIGNALS if signal.getsignal(n) != signal.SIG_IGN]


def _raise(number: int, _: Any) -> None:
  for other in SIGNALS:  # a second one must not interrupt the first
    signal.signal(other, signal.SIG_IGN)
  raise KeyboardInterrupt(number)


def _watch(reader: int, done: threading.Event) -> None:
  received = os.read(reader, 1)
  os.close(reader)
  if received and not done.wait(_PATIENCE):
    _end(received[0])


def _end(number: int) -> None:
  if not _said.is_set():
    os.write(2, f'{_line()}\n'.encode())
  os._exit(128 + number)


def _line() -> str:
  _said.set()
  command = shlex.join(['python', *sys.orig_argv[1:]])
  return f'\ninterrupted; resume with: {command}'
