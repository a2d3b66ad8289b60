"""Replacing segments by others so that a crash in between loses nothing and doubles nothing.

A cleaner or a split writes new segments beside the old ones and then lets them take their place, in
steps that a start can finish or undo. Each step is a suffix behind the names of the new files:

1. `.cleaned`: being written; the old segments count.
2. `.swap`: complete and durable; from the first rename on, the new segments count.
3. none: in place, once the old segments are gone (`.deleted` meanwhile).

A round may write several segments. Its renames to `.swap` run from the highest base offset down, so
a `.cleaned` that is left shows that the round was not complete. Its `.swap` files go too.

Here is what a start does (`finish_swaps`). `cleaning/swap.py` makes such files.

Source: Kafka's `LocalLog.replaceSegments`, `LogLoader.completeSwapOperations`.
"""

from typing import Final

from tidelog.errors import LogDamaged
from tidelog.limits import FILE_DELETION_WORK
from tidelog.log.batch_file import BatchFile
from tidelog.log.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
    offsets_in,
)
from tidelog.log.pieces import Pieces
from tidelog.log.values import LogEnv

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_UNFINISHED: Final = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX)


def finish_swaps(env: LogEnv, path: str) -> Pieces[list[str]]:
    """Ends a compaction or split that a crash interrupted; returns the names that remain.
    `.cleaned` files are unfinished work and go; `.swap` files are complete and take the place of
    the segments whose offsets they cover, unless an unfinished `.cleaned` of the same round shows
    that the round was not complete."""
    disk = env.disk
    names = disk.list_dir(path)
    if not [name for name in names if name.endswith(_UNFINISHED)]:
        return names
    cleaned_bases = [offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    obsolete = [name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX))]
    if cleaned_bases:
        incomplete = [name for name in swaps if offset_of(name) >= min(cleaned_bases)]
        obsolete += incomplete
        swaps = [name for name in swaps if name not in incomplete]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            covered = _covered_by(env, path, name, names)
            txn_index = name.replace(LOG_SUFFIX, TXN_INDEX_SUFFIX)
            if txn_index not in swaps and txn_index.removesuffix(SWAP_SUFFIX) in covered:
                # An old one, or the new one, whose plain name alone outlived a power cut. Without
                # its offset index the segment is scanned, and gets what is right.
                obsolete.append(name.replace(LOG_SUFFIX, INDEX_SUFFIX))
            obsolete += covered
    swaps = [name for name in swaps if name not in obsolete]
    for name in obsolete:
        disk.delete(f"{path}/{name}")
        yield FILE_DELETION_WORK
    kept = set(names) - set(obsolete)
    for name in swaps:
        target = name.removesuffix(SWAP_SUFFIX)
        if target in kept:
            # What is left of a swap that was undone: its log file goes first.
            disk.delete(f"{path}/{name}")
        else:
            disk.rename(f"{path}/{name}", f"{path}/{target}")
    return disk.list_dir(path)


def _covered_by(env: LogEnv, path: str, swap_name: str, names: list[str]) -> list[str]:
    """Files of the segments that a swap replaces."""
    base = offset_of(swap_name)
    end = base + 1
    file = env.disk.open(f"{path}/{swap_name}")
    try:
        end = max(end, BatchFile(file, base, contiguous=False).next_offset((-1, 0)))
    except LogDamaged as error:
        env.trace.warn(path, "finish_swaps", "swap is damaged", error.message, file=swap_name)
    finally:
        file.close()
    return [name for name, offset in offsets_in(names).items() if base <= offset < end]
