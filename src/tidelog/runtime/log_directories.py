"""The log directories of a node as disks: opened, locked, and known to lie apart.

The first has the metadata log: without it a node does not start. Another one that cannot be opened
or written to is an `OfflineDisk`; the node starts without it (`broker/opening.py`). One that is
missing is made, as Kafka makes it.

What a start finds in a disk's own files is durable before anything is done by it.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tidelog.env.disk import OfflineDisk
from tidelog.errors import StorageError, UsageError
from tidelog.model import METADATA_PARTITION
from tidelog.runtime.open_files import OpenFiles
from tidelog.runtime.os_disk import OsDisk

_TRUSTED: Final = ("", str(METADATA_PARTITION))
"""Where files are that are replaced as a whole and believed as they are found: the checkpoints, and
`quorum-state`, which has the vote. Those of a partition are synced with its log."""


def require_different(directories: Sequence[str]) -> None:
    """Raises `UsageError` when two of them are the same directory, under two names perhaps, or one
    lies in another, which may take it for the log of a partition and rename it."""
    found: dict[str, str] = {}
    for directory in directories:
        other = found.setdefault(os.path.realpath(directory), directory)
        if other != directory:
            raise UsageError(
                f"`{other}` and `{directory}` are the same directory",
                "name each directory once in `log.dirs`",
            )
    for place, directory in found.items():
        above = next((found[str(each)] for each in Path(place).parents if str(each) in found), None)
        if above is not None:
            raise UsageError(
                f"the log directory `{directory}` lies in `{above}`, which is another one",
                "name directories in `log.dirs` that lie beside each other",
            )


def open_disks(
    directories: Sequence[str], file_limit: int, stack: ExitStack
) -> tuple[list[OsDisk | OfflineDisk], list[OpenFiles]]:
    """The disks, each locked until the stack is closed, and the open files of each. `file_limit`:
    how many descriptors all of them may have.

    Raises `UsageError` for a directory that is missing, used by another process, named twice or in
    another one, `StorageError` where the first cannot be used.
    """
    first = directories[0]
    if not Path(first).is_dir():
        raise UsageError(
            f"the data directory `{first}` does not exist",
            "format it with `tidelog format FILE --cluster-id ID`, or correct `log.dirs`",
        )
    require_different(directories)
    disks: list[OsDisk | OfflineDisk] = []
    files = [OpenFiles(max(1, file_limit // len(directories))) for _ in directories]
    for directory, open_files in zip(directories, files, strict=True):
        try:
            disk = OsDisk(directory, open_files)
            disk.lock()
            disk.settle(_TRUSTED)
        except StorageError as error:
            if directory is first:
                raise
            disks.append(OfflineDisk(directory, str(error)))
        else:
            stack.callback(disk.unlock)
            disks.append(disk)
    return disks, files
