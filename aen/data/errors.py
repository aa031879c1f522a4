"""Errors with a hint: what was expected, what came, what to do."""

from collections.abc import Iterable
import difflib

_LONGEST = 100  # characters of a name that are shown


def unknown(
  what: str, name: str, known: Iterable[str], *, summary: str = ''
) -> ValueError:
  """Returns the error for an unknown name, suggesting the nearest known one.

  The summary, if there is one, stands for the list of all known names.
  """
  known = list(known)
  longer = [other for other in known if other.startswith(f'{name}/')]
  near = longer or difflib.get_close_matches(str(name), known, 1, 0.5)
  if len(str(name)) > _LONGEST:
    name = f'{str(name)[:_LONGEST]}…'
  hint = f'did you mean {near[0]!r}? ' if near else ''
  return ValueError(
    f'unknown {what} {name!r}; {hint}known: {summary or ", ".join(known)}'
  )
