"""The kinds of faults, by name: plain ones, and those of disks; and what faults can be aimed at. A
seed draws which of them exist in its run."""

from enum import Enum
from typing import Final


class FaultKind(Enum):
    """One kind; what it does is in `nemesis`."""

    KILL = "kill"
    """SIGKILL; streams are closed by the kernel."""
    KILL_RESET = "kill-reset"
    """SIGKILL; what is under way is lost, perhaps in the middle of a frame."""
    KILL_IN_WRITE = "kill-in-write"
    """SIGKILL at a chosen append or replacement of a file."""
    KILL_ALL = "kill-all"
    """Every process at once."""
    RESTART_STORM = "restart-storm"
    """One process is killed again and again as soon as it is back."""
    CLEAN_STOP = "clean-stop"
    """SIGTERM."""
    ROLLING_RESTART = "rolling-restart"
    """SIGTERM to one node after the other, each when the one before is back."""
    PAUSE = "pause"
    """SIGSTOP and, later, SIGCONT."""
    PAUSE_LONG = "pause-long"
    """So long that no peer remembers the process when it goes on."""
    SLOW_CPU = "slow-cpu"
    """A process that gets a moment of its processor now and then."""
    WIPE = "wipe"
    """A process dies and its next life finds an empty, newly formatted disk."""
    POWER_CUT = "power-cut"
    """A machine loses what was not flushed, and says nothing."""
    POWER_CUT_ALL = "power-cut-all"
    """All machines at once."""
    CUT_ONE_WAY = "cut-one-way"
    """One direction between two nodes."""
    CUT = "cut"
    """Both directions between two nodes."""
    ISOLATE = "isolate"
    """One node from all others; clients still reach it."""
    BRIDGE = "bridge"
    """Two halves that both see one node, and not each other."""
    CUT_CLIENTS = "cut-clients"
    """One node from all clients."""
    CUT_CONTROLLER = "cut-controller"
    """The controllers' listeners between one node and all others: it replicates and looks dead."""
    CUT_REPLICATION = "cut-replication"
    """The brokers' listeners between one node and all others: it looks well and does not
    replicate."""
    FLAP = "flap"
    """A link between two nodes that goes and comes."""
    SWIZZLE = "swizzle"
    """Machines lose the network one by one and get it back in another order."""
    SLOW_LINK = "slow-link"
    """Long and varying delays from one node to another."""
    STALL = "stall"
    """Streams that keep everything back for seconds while new ones work: messages of another
    time arrive."""
    RESET_MID_FRAME = "reset-mid-frame"
    """A stream that breaks within a frame."""
    HALF_OPEN = "half-open"
    """A stream that is gone at one end only."""
    DRIBBLE = "dribble"
    """Bytes that arrive one by one."""
    CLOT = "clot"
    """Sends that arrive together, late."""
    SLOW_DISK = "slow-disk"
    """Flushes that take seconds."""
    DISK_FULL = "disk-full"
    """Writes fail for want of space."""
    DISK_ERROR = "disk-error"
    """Everything on the disk fails."""
    FLUSH_ERROR = "flush-error"
    """A flush fails, and what it should have saved is lost."""
    CLOCK_JUMP = "clock-jump"
    """The wall clock of one machine, up to an hour off."""
    CLOCK_DRIFT = "clock-drift"
    """The clock of one machine goes up to 5 % too fast or too slow."""

    @property
    def needs_group_commit(self) -> bool:
        """Only within the promise when every acknowledged record is on the device."""
        return self in (FaultKind.POWER_CUT_ALL, FaultKind.FLUSH_ERROR)


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
    DISK_DIES = "disk-dies"
    """One of several disks of a node fails for good, until the node is started again on it."""
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


class Aim(Enum):
    """What a node does right before an aimed fault; how it is seen is in `faults/aims`."""

    LOG_RESTARTED = "log-restarted"
    """A follower emptied its log, to begin where its leader's does."""
    LOG_CUT = "log-cut"
    """A follower cut what its leader does not have, or a start cut a torn tail."""
    FILE_CUT = "file-cut"
    """A file lost its end."""
    GAPS_NOTED = "gaps-noted"
    """A log notes that a batch is missing in it, before it takes the one behind."""
    LOG_CLEANED = "log-cleaned"
    """A round of compaction is over."""
    LOG_RENAMED = "log-renamed"
    """A directory or a file got another name."""
    LOG_DROPPED = "log-dropped"
    """A replica is gone, and its log is to be deleted."""
    SEGMENT_MADE = "segment-made"
    """A log has a new file."""
    DAMAGE_FOUND = "damage-found"
    """A log is out of service."""
    DAMAGE_REPAIRED = "damage-repaired"
    """A log is back in service, or is reported as lost."""
    CHECKPOINT = "checkpoint"
    """Offsets of all logs of a disk, or the epochs of one, were written."""
    COPY_BEGAN = "copy-began"
    """A replica begins to move to another disk."""
    COPY_SWAPPED = "copy-swapped"
    """The copy of a replica has taken the log's name."""
    COPY_ENDED = "copy-ended"
    """The former log of a replica that has moved is gone."""
    DISK_OFFLINE = "disk-offline"
    """A node goes on without one of its disks."""
    LEADERSHIP = "leadership"
    """A replica leads in a new leader epoch."""
    ISR_CHANGED = "isr-changed"
    """A leader takes another ISR over."""
    STARTED = "started"
    """A process has read the logs of a disk."""
    STOPPING = "stopping"
    """A process ends as it was asked to."""
    QUORUM_CUT = "quorum-cut"
    """A voter cut what its leader does not have."""
    QUORUM_LED = "quorum-led"
    """A voter leads the quorum, or has changed its set of voters."""
    SNAPSHOT = "snapshot"
    """A snapshot took the place of the head of the metadata log, or counts from now on."""
