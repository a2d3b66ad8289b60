"""What a node asks of its process: assertions, memory, open files, and no test library."""

import gc
import resource
import sys
from typing import Final

from tidelog.errors import UsageError

_OPEN_FILES_WANTED: Final = 1 << 16
_OPEN_FILES_NEEDED: Final = 256
_NEVER: Final = 1_000_000_000
"""Collections of the middle generation before one of all objects."""


def skip_test_libraries() -> None:
    """Keeps hypothesis out of a node's process. phantom-types, which kio stands on, imports it
    where it is installed: 0.3 s and 15 MB in every node. `None` makes that import fail as if it
    were not there. Only for processes of our own."""
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]


def require_assertions() -> None:
    """Raises `UsageError` when Python removed the assertions."""
    if not __debug__:
        raise UsageError(
            "Python runs with -O, which removes the checks that stop a broken node",
            "start without -O and without PYTHONOPTIMIZE",
        )


def raise_open_files() -> int:
    """Asks for as many descriptors as there may be, for logs and connections; returns how many
    there are. Raises `UsageError` for too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft < _OPEN_FILES_NEEDED:
        raise UsageError(
            f"this process may open `{soft}` files at a time",
            f"allow it {_OPEN_FILES_NEEDED} at least (`ulimit -n`), better one per replica",
        )
    return min(soft, _OPEN_FILES_WANTED)


def settle_memory() -> None:
    """Takes what the imports and the start made out of the collector's sight, and keeps its
    collections short: one looks at some six thousand young objects, two milliseconds
    (`turn_times.py` collects where that would not hold). One of all
    objects takes 130 ms with 6,000 partitions, and would find nothing: partitions that are deleted
    leave no cycles (`tests/unit/broker/test_node.py`), connections, groups and requests none that
    were found after thousands of each."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(3_000, 1, _NEVER)
