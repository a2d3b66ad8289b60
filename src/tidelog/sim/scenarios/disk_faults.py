"""The kinds of disk faults, by name, beside the plain ones in `kinds`."""

from enum import Enum
from typing import Final


class DiskFault(Enum):
    """One kind; what it does is in `faults/disks`. Power cuts have kinds of their own: what they
    tear, drop and reorder is drawn by the disk (`env.crash_image`)."""

    READ_ERROR = "read-error"
    """One read fails."""
    READS_FAIL = "reads-fail"
    """All reads fail for a while."""
    WRITE_ERROR = "write-error"
    """One append, creation or cut fails."""
    WRITES_FAIL = "writes-fail"
    """All of them fail for a while."""
    FLUSH_ERROR = "flush-error-once"
    """One fsync fails and later ones succeed, without what the first should have saved."""
    STALL = "disk-stall"
    """Flushes take up to thirty seconds."""
    BIT_FLIP_ON_READ = "bit-flip-on-read"
    """A read gives a wrong bit, once."""
    BIT_FLIP = "bit-flip"
    """A bit of a file changes where it lies."""
    TRUNCATION = "truncation"
    """A file loses its end."""
    MISSING = "file-missing"
    """A file is gone."""
    MISDIRECTED = "misdirected-write"
    """A page went to another file, over what lay there."""
    LOST_PAGE = "lost-page"
    """A page that was written is zeros."""

    @property
    def damages(self) -> bool:
        """Whether bytes change without a word: only within the promise (P4) while all other
        replicas are intact and complete."""
        return self in DAMAGE

    @property
    def loses(self) -> bool:
        """Whether what was not flushed may be lost."""
        return self is DiskFault.FLUSH_ERROR


REPORTED: Final = (
    DiskFault.READ_ERROR,
    DiskFault.READS_FAIL,
    DiskFault.WRITE_ERROR,
    DiskFault.WRITES_FAIL,
    DiskFault.FLUSH_ERROR,
)
DAMAGE: Final = (
    DiskFault.BIT_FLIP_ON_READ,
    DiskFault.BIT_FLIP,
    DiskFault.TRUNCATION,
    DiskFault.MISSING,
    DiskFault.MISDIRECTED,
    DiskFault.LOST_PAGE,
)
