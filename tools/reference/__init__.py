"""Writes the pages of `docs/reference/` that are made from the code, and finds stale ones.

`make reference` writes every page; `tests/tidy/test_reference.py` fails while one of them differs
from what the code says. Each module makes one page and answers `page() -> str`. A page states at
its top that it is generated. Pages depend on the code alone: not on the machine, the time or the
order of a set.
"""
