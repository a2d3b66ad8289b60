"""The leader's side of FetchSnapshot: bytes of a snapshot, by position.

A follower asks for one piece after the other and puts them together; pieces are cut anywhere. The
leader keeps no state for it. Before the first piece leaves, the file is read and checked whole: a
damaged snapshot is put aside and never spreads (*SnapshotWhole*), and the follower is answered
SNAPSHOT_NOT_FOUND.

The order of checks is Kafka's: cluster, epoch and leadership, then whether the snapshot is there,
then the position.

Source: KIP-630; Kafka's `KafkaRaftClient.handleFetchSnapshotRequest`.
"""

from typing import Any

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.kraft import messages
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT
from tidelog.kraft.leader import Leader
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT


class SnapshotServer:
    """Serves snapshots while this replica leads."""

    def __init__(self, core: QuorumCore, cleaner: LogCleaner) -> None:
        self._core = core
        # Aligns the log's start when a snapshot is gone.
        self._cleaner = cleaner
        # The snapshot that was found whole last.
        self._checked: messages.SnapshotId | None = None

    def on_fetch_snapshot(
        self, request: messages.FetchSnapshotRequest, reply_to: object, now: Instant
    ) -> None:
        """Answers at once."""
        core, snapshot_id = self._core, request.snapshot_id
        content: dict[str, Any] = {"snapshot_id": snapshot_id, "position": request.position}
        error = self._error(request)
        if error is ErrorCode.NONE:
            assert isinstance(core.role, Leader), f"{core.role.name.value} serves a snapshot"
            replica = messages.ReplicaKey(request.replica_id, request.replica_directory_id)
            core.role.on_contact(replica, now)
            error = self._snapshot_error(request)
        if error is not ErrorCode.NONE:
            core.env.trace.info(
                SUBJECT,
                "on_fetch_snapshot",
                "refused",
                error.name,
                replica=request.replica_id,
                snapshot=str(snapshot_id),
                position=request.position,
            )
        else:
            max_bytes = max(1, min(request.max_bytes, core.config.fetch_snapshot_max_bytes))
            content["data"] = core.snapshots.read_at(snapshot_id, request.position, max_bytes)
            content["size_bytes"] = core.snapshots.size_of(snapshot_id)
        core.reply(reply_to, messages.FetchSnapshotResponse, error, **content)

    def _error(self, request: messages.FetchSnapshotRequest) -> ErrorCode:
        core = self._core
        if not core.is_my_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        return core.leadership_error(request.epoch)

    def _snapshot_error(self, request: messages.FetchSnapshotRequest) -> ErrorCode:
        snapshots, snapshot_id = self._core.snapshots, request.snapshot_id
        if snapshot_id == BOOTSTRAP_SNAPSHOT or snapshot_id not in snapshots.ids:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        if request.position == 0 or snapshot_id != self._checked:
            if snapshots.load(snapshot_id) is None:
                self._cleaner.align()
                return ErrorCode.SNAPSHOT_NOT_FOUND
            self._checked = snapshot_id
        if not 0 <= request.position < snapshots.size_of(snapshot_id):
            return ErrorCode.POSITION_OUT_OF_RANGE
        return ErrorCode.NONE
