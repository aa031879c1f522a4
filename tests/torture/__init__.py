"""Torture: kills, concurrent processes, bit flips, full disks, fuzzed calls.

`python -m pytest -m torture` runs a bounded part, `AEN_TORTURE=1` the whole,
`AEN_TORTURE_SEED` another one. With `AEN_TORTURE_TABLE=docs/reliability.md` the
figures are written into the tables of that page.
"""
