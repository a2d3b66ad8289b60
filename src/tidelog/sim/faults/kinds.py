"""The kinds of faults, by name. A seed draws which of them exist in its run."""

from enum import Enum


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
    PAUSE = "pause"
    """SIGSTOP and, later, SIGCONT."""
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
    CUT_CLIENTS = "cut-clients"
    """One node from all clients."""
    FLAP = "flap"
    """A link between two nodes that goes and comes."""
    SLOW_LINK = "slow-link"
    """Long and varying delays from one node to another."""
    SLOW_DISK = "slow-disk"
    """Flushes that take seconds."""
    DISK_FULL = "disk-full"
    """Writes fail for want of space."""
    DISK_ERROR = "disk-error"
    """Everything on the disk fails."""
    FLUSH_ERROR = "flush-error"
    """A flush fails, and what it should have saved is lost."""
    CLOCK_JUMP = "clock-jump"
    """The wall clock of one machine."""

    @property
    def needs_group_commit(self) -> bool:
        """Only within the promise when every acknowledged record is on the device."""
        return self in (FaultKind.POWER_CUT_ALL, FaultKind.FLUSH_ERROR)
