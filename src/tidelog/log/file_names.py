"""The names of the files in a partition's directory.

A file of a segment is named by the segment's base offset, in 20 digits, and a suffix; a producer
snapshot by the offset that it was taken at. Files that a replacement of segments has not finished
carry a second suffix (`replacement.py`).
"""

from collections.abc import Iterable
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
CHECKPOINT_SUFFIX: Final = ".checkpoint"
"""Of a snapshot of the metadata, beside the metadata log."""
CORRUPT_SUFFIX: Final = ".corrupt"
"""Follows the name of a file that was set aside."""
TEMPORARY_SUFFIX: Final = ".tmp"
"""Follows the name of a file that is not complete yet."""
DELETED_SUFFIX: Final = ".deleted"
"""Follows the name of a segment's file that is no longer part of the log."""
GAPS_FILE: Final = "has-gaps"
"""An empty file beside the segments of a log in which offsets may be missing between batches."""

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_NAME_DIGITS: Final = 20


def offset_name(offset: int) -> str:
    """The base name of a segment's files: the offset with 20 digits."""
    return f"{offset:0{_NAME_DIGITS}d}"


def offset_of(name: str) -> int:
    """The offset in a file's name; -1 when it does not begin with one."""
    digits = name[:_NAME_DIGITS]
    return int(digits) if digits.isdecimal() else -1


def offsets_in(names: Iterable[str], *suffixes: str) -> dict[str, int]:
    """The names that are an offset and one of the suffixes, and nothing else, each with its offset.
    Without suffixes: the log files and indexes of segments."""
    wanted = suffixes or SEGMENT_SUFFIXES
    found = {name: offset_of(name) for name in names if name[_NAME_DIGITS:] in wanted}
    return {name: offset for name, offset in found.items() if offset >= 0}
