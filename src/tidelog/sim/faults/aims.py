"""How it is seen that a node does what a fault is aimed at: by its events, or at its disk.

Most of it is an event that the node emits for its log. What has none is an operation of a disk on a
certain kind of file: `has-gaps` is made, a directory gets another name, a checkpoint is replaced.

An event counts by its type, and only from `INFO` on: whether a fault strikes must not depend on how
much of the trace is written.
"""

from typing import Final

from tidelog.broker import events as broker
from tidelog.env.event import Event
from tidelog.env.memory_disk import Operation
from tidelog.env.trace import TraceLine
from tidelog.kraft import events as kraft
from tidelog.log import events as log
from tidelog.log.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.log.file_names import GAPS_FILE, LOG_SUFFIX
from tidelog.log.partition_directories import FUTURE_SUFFIX
from tidelog.replication.events import damage, following, in_sync, moves, roles
from tidelog.sim.scenarios.fault_kinds import Aim

_BY_AIM: Final[dict[Aim, tuple[type[Event], ...]]] = {
    Aim.LOG_RESTARTED: (following.LogRestarted, log.LogRestarted),
    Aim.LOG_CUT: (
        following.LogTruncated,
        following.LogTruncatedBelowHighWatermark,
        log.TailCut,
        log.EpochsRebuilt,
    ),
    Aim.LOG_CLEANED: (roles.CleaningEnded,),
    Aim.LOG_RENAMED: (log.LogDeleted, log.LogSetAside),
    Aim.LOG_DROPPED: (roles.ReplicaDropped, roles.OldLogDeleted, roles.CopySetAside),
    Aim.DAMAGE_FOUND: (log.LogQuarantined, damage.LogFoundDamaged),
    Aim.DAMAGE_REPAIRED: (damage.DamagedLogCut, damage.LogReportedLost, damage.LostLogSound),
    Aim.COPY_BEGAN: (moves.MoveBegan,),
    Aim.COPY_ENDED: (moves.MoveEnded, moves.MoveGivenUp),
    Aim.DISK_OFFLINE: (broker.DirectoryWentOffline, broker.DirectoryOfflineAtStart),
    Aim.LEADERSHIP: (roles.LeadershipBegan,),
    Aim.ISR_CHANGED: (in_sync.IsrCommitted, in_sync.IsrUpdated),
    Aim.STARTED: (log.DirectoryLoaded, broker.BrokerRegistered, broker.BrokerUnfenced),
    Aim.STOPPING: (broker.ShutdownBegun, broker.ShutdownGranted),
    Aim.QUORUM_CUT: (kraft.LogTruncated,),
    Aim.QUORUM_LED: (kraft.BecameLeader, kraft.VotersChanged),
    Aim.SNAPSHOT: (kraft.SnapshotMade, kraft.SnapshotInstalled, kraft.LogCleaned),
}
OF_EVENTS: Final[dict[type, Aim]] = {
    event: aim for aim, events in _BY_AIM.items() for event in events
}
AT_DISKS: Final = (
    *(Aim.FILE_CUT, Aim.GAPS_NOTED, Aim.LOG_RENAMED, Aim.SEGMENT_MADE),
    *(Aim.CHECKPOINT, Aim.COPY_SWAPPED, Aim.STOPPING),
)
"""Those that operations of a disk show."""
assert {*_BY_AIM, *AT_DISKS} == {*Aim}, "some aim is never seen"


def aim_of_event(event: Event | TraceLine) -> Aim | None:
    """What a node's event shows."""
    return OF_EVENTS.get(type(event))


def aim_of_operation(operation: Operation, path: str) -> Aim | None:
    """What an operation of a disk is, by the name of the file; a renaming has the former one."""
    match operation:
        case Operation.TRUNCATE:
            return Aim.FILE_CUT
        case Operation.CREATE if path.endswith(GAPS_FILE):
            return Aim.GAPS_NOTED
        case Operation.CREATE if path.endswith(LOG_SUFFIX):
            return Aim.SEGMENT_MADE
        case Operation.RENAME if path.endswith(FUTURE_SUFFIX):
            return Aim.COPY_SWAPPED
        case Operation.RENAME | Operation.LINK:
            return Aim.LOG_RENAMED
        case Operation.REPLACE | Operation.DELETE if path == CLEAN_SHUTDOWN_FILE:
            return Aim.STOPPING
        case Operation.REPLACE if path.endswith("checkpoint"):
            return Aim.CHECKPOINT
    return None
