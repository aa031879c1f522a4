"""How every launcher starts: user errors become one line, not a traceback."""

from collections.abc import Callable
import sys

from absl import app


def run(main: Callable[[list[str]], None]) -> None:
  """Runs a launcher's main; exits with 2 after an error that users can mend."""

  def guarded(argv: list[str]) -> None:
    if len(argv) > 1:
      raise app.UsageError(
        f'unexpected words {argv[1:]}; options are written --name=value'
      )
    try:
      main(argv)
    except (ValueError, OSError, ImportError) as error:
      print(f'{type(error).__name__}: {error}', file=sys.stderr)
      sys.exit(2)

  app.run(guarded)
