"""The follower's side of snapshots: download, check, make durable, install.

The leader answers a fetch with a snapshot's id when its log cannot help. From then on the follower
asks for the snapshot, piece by piece, each at the position where the last one ended, and writes the
pieces into a `.part` file. When all are there:

1. The whole file is checked (*SnapshotWhole*); a damaged one is given up, and fetching begins anew.
2. It is flushed and renamed. From here on a restart installs it.
3. The log is emptied and begins at the snapshot's end; everything below is committed. Of many
   segments a turn deletes a few, the oldest first; nothing is fetched or handed out meanwhile. For
   votes the log is what it was. A start in between finds the snapshot and empties the log.
4. The state machine gets the snapshot in place of all it had.

A change of role gives the download up: another leader has other snapshots. So does a restart.
Nothing is fetched while a complete file waits for its flush.

What a snapshot stands for is committed, so its end is never below this replica's high watermark;
with a lower one, the node stops (*NoCommittedTruncation*). A leader never installs one.

Source: KIP-630; Kafka's `KafkaRaftClient.handleFetchSnapshotResponse`.
"""

from typing import Final

from tidelog.env.instant import LONG_AGO, Instant
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.kraft.committed import CommittedReader
from tidelog.kraft.control_records import on_snapshot_loaded
from tidelog.kraft.core import QuorumCore
from tidelog.kraft.events import SUBJECT, SnapshotInstalled
from tidelog.kraft.leader import Leader
from tidelog.kraft.log_cleaning import LogCleaner
from tidelog.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId
from tidelog.kraft.roles import Follower
from tidelog.kraft.snapshot_format import BOOTSTRAP_SNAPSHOT, SnapshotContent, read_snapshot
from tidelog.kraft.snapshots import PartFile, SnapshotFlush
from tidelog.limits import MAX_SEGMENTS_CUT_PER_TURN, MAX_SNAPSHOT_BYTES

_NO_SIZE: Final = -1


class SnapshotFetcher:
    """At most one download from the leader."""

    def __init__(self, core: QuorumCore, reader: CommittedReader, cleaner: LogCleaner) -> None:
        self._core = core
        # Lets the log begin where an installed snapshot ends.
        self._cleaner = cleaner
        # Begins anew with an installed snapshot.
        self._reader = reader
        # The file of the download; `None` while there is none.
        self._part: PartFile | None = None
        # The epoch of the leader it comes from.
        self._epoch: int = 0
        # The size of the whole, by the leader's answers; -1 before its first answer.
        self._size_bytes: int = _NO_SIZE
        # What a complete download holds; `None` before it is complete.
        self._content: SnapshotContent | None = None
        # A snapshot that counts and waits for the segments to go whose place it takes.
        self._next: SnapshotContent | None = None
        # When the last of them went.
        self._deleted_at: Instant = LONG_AGO

    @property
    def is_downloading(self) -> bool:
        """Whether pieces are missing: they are asked for instead of records."""
        return self._part is not None and self._content is None

    @property
    def is_waiting(self) -> bool:
        """Whether a complete download waits for its flush, or for the log to be emptied: nothing
        is asked for."""
        return self._content is not None or self.deadline() is not None

    @property
    def is_emptying(self) -> bool:
        """Whether the oldest segments of the log are gone, and the snapshot is not installed."""
        return self._next is not None

    def deadline(self) -> Instant | None:
        """When the next segments go: not while a campaign is under way."""
        if self._next is None or not isinstance(self._core.role, Follower):
            return None
        return Instant(self._deleted_at + 1)

    def begin(self, snapshot_id: SnapshotId, now: Instant) -> None:
        """The leader has named this snapshot in place of records."""
        core = self._core
        role = core.role
        assert isinstance(role, Follower), f"{role.name.value} fetches a snapshot"
        if snapshot_id.epoch < 0 or snapshot_id.end_offset <= BOOTSTRAP_SNAPSHOT.end_offset:
            self._retry_later(role, f"useless snapshot {snapshot_id}", now)
            return
        if snapshot_id.end_offset < core.log.log_start_offset and (
            not core.lacks_base or snapshot_id.end_offset <= self._reader.next_offset
        ):
            # The own log begins later: the leader will have a newer one.
            self._retry_later(role, f"snapshot {snapshot_id} is older than the log", now)
            return
        assert snapshot_id.end_offset >= core.high_watermark or core.lacks_base, (
            f"NoCommittedTruncation: snapshot {snapshot_id} below {core.high_watermark}"
        )
        if snapshot_id in core.snapshots.ids:
            content = core.snapshots.load(snapshot_id)
            if content is not None:
                self._begin_install(content)
                return
        core.env.trace.info(
            SUBJECT,
            "begin",
            "begun",
            snapshot=str(snapshot_id),
            leader=role.leader_id,
            log_end=core.log.log_end_offset,
        )
        self._part = core.snapshots.begin_part(snapshot_id)
        self._epoch = role.epoch
        self._size_bytes = _NO_SIZE

    def make_request(self) -> FetchSnapshotRequest:
        """Asks for the next piece."""
        core, part = self._core, self._part
        assert part is not None, "no snapshot is being fetched"
        return FetchSnapshotRequest(
            cluster_id=core.identity.cluster_id,
            replica_id=core.own_id,
            replica_directory_id=core.identity.directory_id,
            epoch=core.epoch,
            snapshot_id=part.snapshot_id,
            position=part.size_bytes,
            max_bytes=core.config.fetch_snapshot_max_bytes,
        )

    def on_piece(self, role: Follower, response: FetchSnapshotResponse, now: Instant) -> bool:
        """Takes a piece from the followed leader; returns whether it was of use. Anything but the
        next piece of the same snapshot gives the download up."""
        part = self._part
        if part is None or self._content is not None:
            return False
        fault = self._fault(part, response)
        if fault:
            self.give_up(fault)
            self._retry_later(role, fault, now)
            return False
        self._size_bytes = response.size_bytes
        part.append(response.data)
        if part.size_bytes == response.size_bytes:
            return self._complete(part, role, now)
        return True

    def _fault(self, part: PartFile, response: FetchSnapshotResponse) -> str:
        if response.error_code is not ErrorCode.NONE:
            return response.error_code.name
        if response.snapshot_id != part.snapshot_id or response.position != part.size_bytes:
            return f"got {response.snapshot_id} at {response.position}, not at {part.size_bytes}"
        if self._size_bytes not in (_NO_SIZE, response.size_bytes):
            return f"size changed from {self._size_bytes} to {response.size_bytes}"
        if response.size_bytes > MAX_SNAPSHOT_BYTES:
            return f"snapshot of {response.size_bytes} bytes, at most {MAX_SNAPSHOT_BYTES} are read"
        end = part.size_bytes + len(response.data)
        if not len(response.data) or end > response.size_bytes:
            return f"piece of {len(response.data)} bytes at {part.size_bytes}"
        return ""

    def _complete(self, part: PartFile, role: Follower, now: Instant) -> bool:
        core = self._core
        try:
            self._content = read_snapshot(part.read(), part.snapshot_id)
        except CorruptBatch as error:
            core.env.trace.warn(
                SUBJECT,
                "complete",
                "refused",
                f"damaged: {error.message}; hint: it is fetched again; if this repeats, check "
                f"the disk of node {role.leader_id}",
                snapshot=str(part.snapshot_id),
            )
            self.give_up("damaged")
            self._retry_later(role, "damaged snapshot", now)
            return False
        core.snapshots.seal(part)
        return True

    def give_up(self, reason: str) -> None:
        """Forgets the download, if there is one."""
        part = self._part
        if part is None:
            return
        core = self._core
        core.env.trace.info(SUBJECT, "give_up", "given up", reason, snapshot=str(part.snapshot_id))
        self._part = self._content = None
        core.snapshots.give_up()

    def give_up_unless_following(self) -> None:
        """Another role, leader or epoch: what was fetched is of no use."""
        role = self._core.role
        if self._part is None:
            return
        if not isinstance(role, Follower) or role.epoch != self._epoch:
            self.give_up(f"{role.name.value} in epoch {role.epoch}")

    def on_published(self, flush: SnapshotFlush) -> bool:
        """A snapshot counts; returns whether it was the download."""
        content, part = self._content, self._part
        if part is None or content is None or part.flush != flush:
            return False
        self._part = self._content = None
        self._begin_install(content)
        return True

    def _begin_install(self, content: SnapshotContent) -> None:
        if self._keeps_log(content) or len(self._core.log.segments) <= MAX_SEGMENTS_CUT_PER_TURN:
            self._install(content)
        else:
            self._next = content

    def wake(self, now: Instant) -> None:
        """Deletes a few segments whose place a snapshot takes, and installs it behind the last."""
        content, due_at = self._next, self.deadline()
        if content is None or due_at is None or now < due_at:
            return
        self._deleted_at = now
        log = self._core.log
        log.delete_segments_below(log.log_end_offset, MAX_SEGMENTS_CUT_PER_TURN)
        if len(log.segments) <= MAX_SEGMENTS_CUT_PER_TURN:
            self._next = None
            self._install(content)

    def _keeps_log(self, content: SnapshotContent) -> bool:
        """Whether the snapshot is a part of what the log lacks before its start, or its log."""
        end_offset, epoch = content.snapshot_id
        core, log = self._core, self._core.log
        if end_offset < log.log_start_offset:
            return True
        return (
            core.lacks_base
            and end_offset <= log.log_end_offset
            and (end_offset == log.log_start_offset or log.epoch_at(end_offset - 1) == epoch)
        )

    def _install(self, content: SnapshotContent) -> None:
        core = self._core
        end_offset = content.snapshot_id.end_offset
        assert isinstance(core.role, Follower), f"{core.role.name.value} installs a snapshot"
        log = core.log
        if end_offset < log.log_start_offset:
            # A part of what is missing before the own log; the rest is fed.
            assert core.lacks_base, f"snapshot {content.snapshot_id} below the log's start"
            core.snapshots.forget_before(log.log_start_offset, "ends below the log's start")
            on_snapshot_loaded(core, content)
            self._reader.restart(content)
            return
        if not self._keeps_log(content):
            assert end_offset >= core.high_watermark, (
                f"NoCommittedTruncation: snapshot {content.snapshot_id} below {core.high_watermark}"
            )
            log.truncate_fully_and_start_at(end_offset, start_is_durable=True)
            core.snapshots.forget_before(end_offset, "replaced by the leader's")
        core.env.trace.event(
            SnapshotInstalled(
                snapshot=str(content.snapshot_id),
                records=len(content.records),
                log_start=log.log_start_offset,
                log_end=log.log_end_offset,
            )
        )
        core.lacks_base = False
        on_snapshot_loaded(core, content)
        if end_offset > core.high_watermark:
            core.raise_high_watermark(end_offset)
        self._cleaner.align()
        self._reader.restart(content)

    def _retry_later(self, role: Follower, reason: str, now: Instant) -> None:
        core = self._core
        role.fetch_at = Instant(now + core.config.retry_backoff_ms)
        core.env.trace.debug(SUBJECT, "retry_later", "retried", reason, leader=role.leader_id)

    def check(self) -> None:
        """Asserts that a download belongs to the role, and that no leader empties its log."""
        assert not (self.is_emptying and isinstance(self._core.role, Leader)), "ValidRoles: emptied"
        if self._part is not None:
            role = self._core.role
            assert isinstance(role, Follower), f"ValidRoles: {role.name.value} fetches a snapshot"
            assert role.epoch == self._epoch, f"ValidRoles: download of {self._epoch} in {role}"
