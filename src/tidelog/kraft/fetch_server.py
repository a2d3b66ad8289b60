"""The leader's answer to fetches: data, divergence, or a wait until there is news.

A fetch is answered at once when it is wrong, when the logs part, when there is data, or when the
leader's high watermark is above what the fetcher believes (KIP-1166). Otherwise it is parked until
one of these comes true or its wait is over. Parked fetches are looked at once at the end of a tick,
however much was appended in it. When the leadership ends, all of them fail at once, so that
followers learn it immediately.

Where logs part. The fetcher names the epoch of its last record. If in the leader's log that epoch
ends before the fetch offset, or is not there, the answer is the epoch and end offset at which
the fetcher must look for common ground (KIP-595), no data, and no progress is credited
(*LogMatching*).

A follower that needs records that are gone from the log, or begins with an empty log, is referred
to the newest snapshot (KIP-630): that is cheaper than the log even where the log would do. So is a
fetcher whose last epoch is older than the oldest snapshot, because the log does not have the end of
that epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.kraft.committed import read_own
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT, FetchDiverged, FetcherReferred
from tidelog.kraft.leader import Leader
from tidelog.kraft.messages import QuorumFetchRequest, QuorumFetchResponse, ReplicaKey, SnapshotId
from tidelog.limits import MAX_PARKED_QUORUM_FETCHES
from tidelog.model import EpochEndOffset

MAX_WAIT_MS: Final = 60_000
"""A fetcher may ask for a longer wait but does not get it."""


@dataclass(frozen=True, slots=True)
class _Parked:
    request: QuorumFetchRequest
    reply_to: object
    deadline: Instant


class FetchServer:
    """Serves fetches of the metadata log while this replica leads."""

    def __init__(self, core: QuorumCore) -> None:
        self._core = core
        # Fetches that wait for news, oldest first; empty unless this replica leads.
        self._parked: list[_Parked] = []

    def on_fetch(self, request: QuorumFetchRequest, reply_to: object, now: Instant) -> None:
        """Answers or parks."""
        core = self._core
        error = self._error(request)
        role = core.role
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            self._reply(reply_to, error)
            return
        replica = ReplicaKey(request.replica_id, request.replica_directory_id)
        snapshot_id = self._snapshot_for(request)
        if snapshot_id is not None:
            role.on_contact(replica, now)
            self._unpark_older(request)
            core.env.trace.event(
                FetcherReferred(
                    replica=request.replica_id,
                    fetch_offset=request.fetch_offset,
                    last_fetched_epoch=request.last_fetched_epoch,
                    snapshot=str(snapshot_id),
                    log_start=core.log.log_start_offset,
                )
            )
            self._reply(reply_to, snapshot_id=snapshot_id)
            return
        diverging = self._diverging_epoch(request)
        if diverging is None:
            role.on_fetch(replica, request.fetch_offset, core.log.log_end_offset, now)
            self.maybe_raise_high_watermark()
        else:
            core.env.trace.event(
                FetchDiverged(
                    replica=request.replica_id,
                    fetch_offset=request.fetch_offset,
                    last_fetched_epoch=request.last_fetched_epoch,
                    epoch_end=tuple(diverging),
                )
            )
        role.on_contact(replica, now)
        self._unpark_older(request)
        if diverging is not None or self._has_news(role, request) or not self._may_park(request):
            self._reply_records(request, reply_to, diverging)
            return
        deadline = Instant(now + min(request.max_wait_ms, MAX_WAIT_MS))
        self._parked.append(_Parked(request, reply_to, deadline))

    def on_tick_end(self, now: Instant) -> None:
        """Answers the parked fetches for which there is news or no time left."""
        role = self._core.role
        if not self._parked or not isinstance(role, Leader):
            return
        waiting: list[_Parked] = []
        for parked in self._parked:
            if parked.deadline <= now or self._has_news(role, parked.request):
                self._reply_records(parked.request, parked.reply_to, None)
            else:
                waiting.append(parked)
        self._parked = waiting

    def fail_all_unless_leading(self) -> None:
        """The leadership is over: every parked fetch fails, with the leader now in the answer."""
        if self._parked and not isinstance(self._core.role, Leader):
            for parked in self._parked:
                self._reply(parked.reply_to, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._parked.clear()

    def maybe_raise_high_watermark(self) -> None:
        """The leader's own flush or a follower's fetch may have committed something."""
        core = self._core
        role = core.role
        if not isinstance(role, Leader):
            return
        role.count_own(core.durable_end_offset)
        if not role.maybe_raise_high_watermark():
            core.env.trace.debug(
                SUBJECT,
                "maybe_raise_high_watermark",
                "stands",
                high_watermark=role.high_watermark,
                epoch_start=role.epoch_start_offset,
                own_end=role.own_end_offset,
                voters={key: voter.log_end_offset for key, voter in role.voters.items()},
            )
        elif role.high_watermark > core.high_watermark:
            core.raise_high_watermark(role.high_watermark)

    def deadline(self) -> Instant | None:
        """When the next parked fetch is due, at once if there is news."""
        role = self._core.role
        if not self._parked or not isinstance(role, Leader):
            return None
        if any(self._has_news(role, parked.request) for parked in self._parked):
            return Instant(0)
        return earliest(*(parked.deadline for parked in self._parked))

    @property
    def parked_count(self) -> int:
        """Fetches that wait."""
        return len(self._parked)

    # Checks ------------------------------------------------------------------------------------

    def _error(self, request: QuorumFetchRequest) -> ErrorCode:
        core = self._core
        if not core.is_my_cluster(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if min(request.fetch_offset, request.last_fetched_epoch, request.max_wait_ms) < 0:
            return ErrorCode.INVALID_REQUEST
        if request.epoch < 0 or request.last_fetched_epoch > request.epoch:
            return ErrorCode.INVALID_REQUEST
        error = core.leadership_error(request.epoch)
        if error is not ErrorCode.NONE:
            return error
        if core.snapshots.latest is None and self._came_before_the_log(request):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.NONE

    def _came_before_the_log(self, request: QuorumFetchRequest) -> bool:
        """Whether the log cannot judge what the fetcher has: its offset is below the start, or
        its last epoch is older than the oldest one here. Where that epoch ended only a snapshot
        could show, and a guess would leave the fetcher with records that were never committed."""
        log = self._core.log
        start = log.log_start_offset
        if request.fetch_offset < start:
            return True
        return start > 0 and request.last_fetched_epoch < log.epoch_at(start)

    def _snapshot_for(self, request: QuorumFetchRequest) -> SnapshotId | None:
        """The snapshot to fetch instead, if the fetcher needs one."""
        snapshots, start = self._core.snapshots, self._core.log.log_start_offset
        earliest, latest = snapshots.earliest, snapshots.latest
        if earliest is None or latest is None:
            return None
        epoch = request.last_fetched_epoch
        at_start = request.fetch_offset == start == earliest.end_offset
        needed = (
            request.fetch_offset == 0
            or request.fetch_offset < start
            or (at_start and epoch != earliest.epoch)
            or epoch < earliest.epoch
        )
        return latest if needed else None

    def _diverging_epoch(self, request: QuorumFetchRequest) -> EpochEndOffset | None:
        if request.fetch_offset == 0:
            return None
        end = self._core.log.end_offset_for_epoch(request.last_fetched_epoch)
        if (
            end.leader_epoch == request.last_fetched_epoch
            and end.end_offset >= request.fetch_offset
        ):
            return None
        # An epoch before all of ours: nothing is common but the empty log.
        return end if end.end_offset >= 0 else EpochEndOffset(request.last_fetched_epoch, 0)

    def _has_news(self, role: Leader, request: QuorumFetchRequest) -> bool:
        if request.fetch_offset < self._core.log.log_end_offset:
            return True
        return role.high_watermark > request.high_watermark

    def _may_park(self, request: QuorumFetchRequest) -> bool:
        return request.max_wait_ms > 0 and len(self._parked) < MAX_PARKED_QUORUM_FETCHES

    def _unpark_older(self, request: QuorumFetchRequest) -> None:
        """A replica that fetches again does not wait for its older fetch any more."""
        if request.replica_id < 0:
            return
        older = list(self._parked_by(request.replica_id))
        for parked in older:
            self._parked.remove(parked)
            self._reply_records(parked.request, parked.reply_to, None)

    def _parked_by(self, replica_id: int) -> Iterator[_Parked]:
        return (parked for parked in self._parked if parked.request.replica_id == replica_id)

    # Answers -----------------------------------------------------------------------------------

    def _reply(self, reply_to: object, error: ErrorCode = ErrorCode.NONE, **content: Any) -> None:
        core = self._core
        if isinstance(core.role, Leader) and error is ErrorCode.NONE:
            content["high_watermark"] = core.role.high_watermark
        content["log_start_offset"] = core.log.log_start_offset
        core.reply(reply_to, QuorumFetchResponse, error, **content)

    def _reply_records(
        self, request: QuorumFetchRequest, reply_to: object, diverging: EpochEndOffset | None
    ) -> None:
        core = self._core
        assert isinstance(core.role, Leader), f"{core.role.name.value} answers with records"
        content: dict[str, Any] = {"diverging_epoch": diverging}
        log_end_offset = core.log.log_end_offset
        if diverging is None and request.fetch_offset < log_end_offset:
            max_bytes = max(1, min(request.max_bytes, core.config.fetch_max_bytes))
            read = read_own(core.log, request.fetch_offset, max_bytes, log_end_offset)
            content |= {"records": tuple(read.chunks), "records_bytes": read.size_bytes}
        self._reply(reply_to, **content)
