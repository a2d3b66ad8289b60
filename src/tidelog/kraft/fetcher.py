"""The follower's side of replication: fetch, append, flush, fetch again.

A fetch at offset X acknowledges that everything below X is on this replica's disk, so the next
fetch waits until what the last one brought is flushed (*DurableBeforeCounted*), and there is never
more than one (*SingleFetchInFlight*). Its answer is used only by the role that asked, in the
epoch in which it asked, and only at the offset it asked for.

Truncation. When the leader answers that the logs part, the follower cuts its log back to the end of
the last common epoch and asks again, until both agree; of many segments it cuts a few before it
asks again. Nothing committed is ever cut: truncating
below the own high watermark is a bug somewhere in the quorum, and stops the node
(*NoCommittedTruncation*).

Snapshots. A leader whose log cannot help names a snapshot instead (`snapshot_fetcher.py`). A
replica that lost the snapshot before its own log's start cannot report that in a fetch: its log is
in order, and anything else would take back what it has acknowledged. Every other of its fetches is
therefore anonymous: without a replica id, from where its state ends. The leader's records of that
time, or the snapshot that it names, give the state back.

A replica without a leader uses the same request to find it: it asks one random voter
after the other, without waiting there.
"""

from dataclasses import replace
from typing import Final

from tidelog.env.instant import Instant
from tidelog.errors import CorruptBatch, ErrorCode, ProtocolError
from tidelog.kraft import elections, messages, transitions
from tidelog.kraft.committed import CommittedReader, contiguous
from tidelog.kraft.control_records import on_appended, on_truncated
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import (
    SUBJECT,
    DoubtReason,
    LogTruncated,
    RoleCause,
    RoleReason,
    VotesAgain,
)
from tidelog.kraft.roles import Follower, Unattached
from tidelog.kraft.snapshot_fetcher import SnapshotFetcher
from tidelog.model import ZERO_UUID, EpochEndOffset
from tidelog.records.batch import batch_size_at, read_header

MAX_PROBE_WAIT_MS: Final = 500
"""The longest pause of a replica that asks other replicas and learns of no leader."""

NO_REPLICA: Final = -1
"""The replica id of a fetch that acknowledges nothing."""

_LEADER_GONE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)
"""From the leader of this very epoch these mean: no more."""


def check_contiguous(records: bytes, offset: int) -> None:
    """Raises `CorruptBatch` unless the first batch begins at `offset` and each other one where
    the one before ends: the metadata log is never compacted, so it has no holes. A last batch
    that is cut is left to the log, which ignores it."""
    position = 0
    while True:
        size_bytes = batch_size_at(records, position)
        if size_bytes is None or position + size_bytes > len(records):
            return
        header = read_header(records, position)
        if header.base_offset != offset:
            raise CorruptBatch(f"fetched offset `{header.base_offset}` where `{offset}` was due")
        offset = header.last_offset + 1
        position += header.size_bytes


class Fetcher:
    """Fetches the metadata log from the leader, or looks for one."""

    def __init__(
        self, core: QuorumCore, snapshots: SnapshotFetcher, reader: CommittedReader
    ) -> None:
        self._core = core
        # Takes over when the leader names a snapshot.
        self._snapshots = snapshots
        # Is fed with what came before the log's start, where that was lost.
        self._reader = reader
        # Whether the next fetch is for that.
        self._asks_for_base: bool = False
        # Voters that have answered as members of another cluster; each is reported once.
        self._strangers: set[int] = set()

    @property
    def may_fetch(self) -> bool:
        """Whether everything in the log is on disk, so that a fetch would not promise too much."""
        return self._core.durable_end_offset >= self._core.log.log_end_offset

    def make_request(self) -> messages.QuorumFetchRequest:
        """The next fetch of the present role."""
        core = self._core
        assert self.may_fetch, (
            f"DurableBeforeCounted: fetch at {core.log.log_end_offset}, "
            f"durable {core.durable_end_offset}"
        )
        is_probe = isinstance(core.role, Unattached)
        request = messages.QuorumFetchRequest(
            cluster_id=core.identity.cluster_id,
            replica_id=core.own_id,
            replica_directory_id=core.identity.directory_id,
            epoch=core.epoch,
            fetch_offset=core.log.log_end_offset,
            last_fetched_epoch=core.last_epoch,
            high_watermark=core.known_high_watermark,
            max_wait_ms=0 if is_probe else core.config.fetch_max_wait_ms,
            max_bytes=core.config.fetch_max_bytes,
        )
        if is_probe or not core.lacks_base:
            return request
        self._asks_for_base = not self._asks_for_base
        if not self._asks_for_base:
            return request
        return replace(
            request,
            replica_id=NO_REPLICA,
            replica_directory_id=ZERO_UUID,
            fetch_offset=self._reader.next_offset,
            last_fetched_epoch=self._reader.last_epoch,
            high_watermark=messages.UNKNOWN_HIGH_WATERMARK,
            max_wait_ms=0,
        )

    def on_fetch_response(
        self,
        peer_id: int,
        request: messages.QuorumFetchRequest,
        response: messages.QuorumFetchResponse,
        now: Instant,
    ) -> None:
        """An answer that was waited for."""
        core = self._core
        if response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            if peer_id not in self._strangers:
                self._strangers.add(peer_id)
                elections.warn_of_other_cluster(core, peer_id)
            self.on_failure(peer_id, now)
            return
        core.addresses.learn(response.leader_id, response.leader_endpoint)
        if transitions.heed(core, response, now, RoleCause(RoleReason.NAMED_BY_PEER, peer_id)):
            return
        role = core.role
        if isinstance(role, Unattached):
            self.on_probe_over(role, now)
        elif isinstance(role, Follower) and role.leader_id == peer_id:
            assert request.epoch == role.epoch, f"fetch of {request.epoch} answered in {role.epoch}"
            if not role.leader_has_resigned:
                self._on_leader_response(role, request, response, now)

    def on_failure(self, peer_id: int, now: Instant) -> None:
        """The fetch was lost, with its connection or in time."""
        core = self._core
        role = core.role
        if isinstance(role, Unattached):
            self.on_probe_over(role, now)
        elif isinstance(role, Follower) and core.is_voter and not core.timers.has_known_leader:
            assert role.leader_id == peer_id, f"fetch from {peer_id}, not {role.leader_id}"
            elections.doubt_leader(core, now, DoubtReason.NEVER_REACHED)

    def on_probe_over(self, role: Unattached, now: Instant) -> None:
        """That peer knew no leader: ask another one, a little later each time."""
        wait_ms = max(self._core.config.retry_backoff_ms, 2 * role.probe_wait_ms)
        role.probe_wait_ms = min(wait_ms, MAX_PROBE_WAIT_MS)
        role.probe_at = Instant(now + role.probe_wait_ms)
        role.probe_peer = self._core.draw_probe_peer()

    # The leader's answer -----------------------------------------------------------------------

    def _on_leader_response(
        self,
        role: Follower,
        request: messages.QuorumFetchRequest,
        response: messages.QuorumFetchResponse,
        now: Instant,
    ) -> None:
        core = self._core
        is_of_epoch = response.leader_epoch == role.epoch
        if response.error_code is not ErrorCode.NONE or not is_of_epoch:
            self._retry_later(role, response.error_code.name, now)
            if response.error_code in _LEADER_GONE and is_of_epoch and core.is_voter:
                elections.doubt_leader(core, now, DoubtReason(response.error_code.name))
            return
        if request.replica_id == NO_REPLICA:
            self._on_base_response(role, response, now)
            return
        assert request.fetch_offset == core.log.log_end_offset, (
            f"fetched at {request.fetch_offset}, log ends at {core.log.log_end_offset}"
        )
        if response.snapshot_id is not None:
            self._snapshots.begin(response.snapshot_id, now)
        elif response.diverging_epoch is not None:
            self._truncate(role, response.diverging_epoch, now)
        elif not self._append(role, response, now):
            return
        self._on_success(role, now)
        if response.diverging_epoch is None and response.snapshot_id is None:
            is_at_end = not response.records and response.high_watermark > 0
            if is_at_end and core.must_catch_up:
                # All that the leader had is durable here. So what this replica acknowledged to it
                # before the loss is below, and what was committed by that; also where such a fetch
                # reaches the leader only now. One to an earlier leader is fenced.
                core.must_catch_up = False
                core.env.trace.event(
                    VotesAgain(log_end=request.fetch_offset, high_watermark=response.high_watermark)
                )
            high_watermark = min(response.high_watermark, core.log.log_end_offset)
            if high_watermark > core.high_watermark:
                core.raise_high_watermark(high_watermark)

    def _on_success(self, role: Follower, now: Instant) -> None:
        core = self._core
        core.timers.has_known_leader = True
        role.is_in_doubt = False
        role.fetch_deadline = Instant(now + core.config.fetch_timeout_ms)

    def _on_base_response(
        self, role: Follower, response: messages.QuorumFetchResponse, now: Instant
    ) -> None:
        """What came before the own log's start, or a snapshot."""
        core = self._core
        if not core.lacks_base:
            return
        if response.snapshot_id is not None:
            self._snapshots.begin(response.snapshot_id, now)
        elif response.diverging_epoch is not None:
            self._retry_later(role, "another log before its start", now)
        else:
            try:
                self._reader.feed(contiguous(response.records))
            except ProtocolError as error:
                core.env.trace.warn(SUBJECT, "on_fetch_response", "refused", error.message)
                self._retry_later(role, "refused", now)
            core.lacks_base = self._reader.next_offset < core.log.log_start_offset
        self._on_success(role, now)

    def on_snapshot_response(
        self,
        peer_id: int,
        request: messages.FetchSnapshotRequest,
        response: messages.FetchSnapshotResponse,
        now: Instant,
    ) -> None:
        """A piece of a snapshot, or an error."""
        core = self._core
        if transitions.heed(core, response, now, RoleCause(RoleReason.NAMED_BY_PEER, peer_id)):
            return
        role = core.role
        if not isinstance(role, Follower) or role.leader_id != peer_id or role.leader_has_resigned:
            return
        assert request.epoch == role.epoch, f"piece of {request.epoch} answered in {role.epoch}"
        is_of_epoch = response.leader_epoch == role.epoch
        if response.error_code in _LEADER_GONE and is_of_epoch and core.is_voter:
            self._snapshots.give_up(response.error_code.name)
            self._retry_later(role, response.error_code.name, now)
            elections.doubt_leader(core, now, DoubtReason(response.error_code.name))
        elif self._snapshots.on_piece(role, response, now):
            self._on_success(role, now)

    def _retry_later(self, role: Follower, reason: str, now: Instant) -> None:
        core = self._core
        role.fetch_at = Instant(now + core.config.retry_backoff_ms)
        core.env.trace.debug(
            SUBJECT, "on_fetch_response", "retried", reason, leader=role.leader_id, epoch=role.epoch
        )

    def _append(self, role: Follower, response: messages.QuorumFetchResponse, now: Instant) -> bool:
        """Appends what came; returns False when it was not what was asked for."""
        core = self._core
        if not response.records:
            return True
        records = contiguous(response.records)
        try:
            check_contiguous(records, core.log.log_end_offset)
            appended = core.log.append_as_follower(records, role.epoch)
            on_appended(core, records, core.log.log_end_offset)
        except ProtocolError as error:
            core.env.trace.warn(
                SUBJECT, "on_fetch_response", "refused", error.message, leader=role.leader_id
            )
            self._retry_later(role, "refused", now)
            return False
        core.env.trace.debug(
            SUBJECT,
            "on_fetch_response",
            "appended",
            first=appended.first_offset,
            last=appended.last_offset,
        )
        return True

    def _truncate(self, role: Follower, diverging: EpochEndOffset, now: Instant) -> None:
        """Cuts the log back to where it may agree with the leader's."""
        core = self._core
        log_end_offset = core.log.log_end_offset
        if log_end_offset and not core.last_epoch:
            self._retry_later(role, "the epoch of the own log's end is unknown", now)
            return
        own = core.log.end_offset_for_epoch(diverging.leader_epoch)
        if own.leader_epoch == diverging.leader_epoch:
            offset = min(own.end_offset, diverging.end_offset)
        elif own.end_offset >= 0:
            offset = own.end_offset
        else:
            offset = diverging.end_offset
        offset = min(offset, log_end_offset)
        assert offset >= core.high_watermark, (
            f"NoCommittedTruncation: to {offset} below {core.high_watermark}, "
            f"leader {role.leader_id} answered {diverging}"
        )
        if offset == log_end_offset:
            # The leader's answer does not help; do not ask again at once.
            self._retry_later(role, f"useless divergence {tuple(diverging)}", now)
            return
        if not core.log.shorten(offset):
            core.log.truncate_to(offset)
        offset = core.log.log_end_offset
        core.env.trace.event(
            LogTruncated(to=offset, log_end=log_end_offset, leader=role.leader_id, epoch=role.epoch)
        )
        on_truncated(core)
