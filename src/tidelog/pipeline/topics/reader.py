"""Reading one range of one partition as raw record batches, whole and without gaps.

While the caller works on the batches of one Fetch, the next Fetch is already in flight on the same
connection. A read survives leader changes: it goes on at the offset it had reached, so a failover
is only a pause.

*Racks* (KIP-392). The reader sends its rack, and the leader may name a follower of the same rack;
the reader then fetches there. At the first error of a follower it returns to the leader and stays
with it for the rest of the range, which is short because it is one task's work.

*Completeness* is checked here, where batches are still whole. Offsets of a partition have no gaps
unless the topic is compacted. So batches must follow each other without a gap, and a batch must
hold as many records as it spans offsets; the decoder checks that its records ascend within that
span. Together: no record is missing. Control batches and aborted transactions take offsets like
any other. Missing offsets are `DataLoss`; the reader asks for the topic's policy at the first gap
only. It checks every batch's CRC, so bytes that changed on the way or on the broker's disk are
`CorruptBatch`, never records. With `failOnDataLoss=false` both are warnings, and the read goes on
behind them.

*Transactions*: with `read_committed` the batches of aborted transactions are marked as no data
(`transactions.py`).
Left out: everything about records; `decode.py` does that.
"""

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from tidelog.client.blocking import Connection
from tidelog.client.core.calls import fetch_call
from tidelog.client.core.errors import RETRIABLE_READ, TryAgain, Unreachable
from tidelog.client.core.partitions import Leader
from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.model import NO_EPOCH, NO_OFFSET
from tidelog.pipeline.batches import BatchTable, computed_crcs, read_batches
from tidelog.pipeline.cluster import Client, not_allowed
from tidelog.pipeline.errors import LOG, ClusterUnavailable, DataLoss, fail_or_warn
from tidelog.pipeline.topics.transactions import hide_aborted
from tidelog.pipeline.values import PlannedRange, ReadRules, is_other_topic
from tidelog.wire import fetch

FETCH_BYTES: Final = 8 << 20
"""Record bytes per fetch: enough for the decoder to work on many records at once."""
_MAX_FETCH_BYTES: Final = 64 << 20
_FETCH_WAIT_MS: Final = 500
_BACKOFF_S: Final = 0.1
_DAMAGE_CHOICES: Final = (
    "`tidelog spark audit` shows which replicas are sound; or read around the batch (a batch by "
    "`endingOffsets` and `startingOffsets`), or leave it out with `failOnDataLoss=false`"
)


class RangeReader:
    """One pass over one range."""

    def __init__(
        self, client: Client, planned: PlannedRange, rules: ReadRules, *, patience_s: float = 60.0
    ) -> None:
        # Whose connections and metadata are used; not closed here.
        self._client = client
        # What to read, and how; fixed.
        self._planned = planned
        self._wanted = planned.wanted
        self._tp = planned.wanted.tp
        self._rules = rules
        # How long the read may make no progress before it fails.
        self._patience_s = patience_s
        # The next offset to read: everything below it was handed out or is lost.
        self._position = planned.wanted.start
        # The connection on which one Fetch is in flight.
        self._under_way: Connection | None = None
        # The follower to read from, which the leader named; `None` for the leader.
        self._replica: int | None = None
        # The rack in requests; emptied for the rest of the range by an error of a follower.
        self._rack = rules.rack
        # The end of the log in the last response, exclusive; -1 before the first.
        self._available_end = -1
        # How much to ask for; grows when a single batch is larger.
        self._fetch_bytes = FETCH_BYTES

    def tables(self) -> Iterator[BatchTable]:
        """The batches of the range in order, CRC checked. The first and the last may reach beyond
        the range. Raises `DataLoss`, `CorruptBatch`, `ClusterUnavailable`, `UsageError` (the topic
        is gone)."""
        if self._tp not in self._client.known.leaders:
            self._client.metadata([self._wanted.topic])
        try:
            while self._position < self._wanted.end:
                found = self._next_tables()
                if self._position < self._wanted.end:
                    self._send_ahead()
                yield from found
        finally:
            self._forget_under_way()

    def _next_tables(self) -> list[BatchTable]:
        """Fetches until the position moves, through leader changes."""
        deadline = time.monotonic() + self._patience_s
        begin = self._position
        while True:
            try:
                tables = self._fetch_once()
                if self._position > begin:
                    return tables
                trouble = f"no records; the log ends at {self._available_end}"
            except (TryAgain, Unreachable, ClusterUnavailable) as error:
                trouble = str(error)
                self._reset_after(error)
            if time.monotonic() > deadline:
                raise ClusterUnavailable(
                    f"{self._wanted}: stood at offset {self._position} for "
                    f"{self._patience_s:g} s: {trouble}"
                )

    def _reset_after(self, error: Exception) -> None:
        """Drops what may be stale after an error: connections, the leader, the follower."""
        if self._replica is not None:
            self._replica, self._rack = None, ""
        if not isinstance(error, TryAgain):
            self._under_way = None
            self._client.close()
        time.sleep(_BACKOFF_S)
        try:
            self._client.refresh([self._wanted.topic])
        except (TryAgain, Unreachable):
            # The next fetch fails as well, and the deadline decides.
            self._client.close()

    def _fetch_once(self) -> list[BatchTable]:
        """Receives the Fetch under way, or sends one and receives that; moves the position."""
        if self._under_way is None:
            self._send()
        connection = self._under_way
        if connection is None:
            return []
        response: fetch.FetchResponse = connection.receive()
        self._under_way = None
        if response.error_code is not ErrorCode.NONE:
            raise TryAgain(response.error_code.name)
        (answer,) = response.partitions
        code = answer.error_code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._replica is None:
            self._out_of_range()
            return []
        if code in RETRIABLE_READ or (code is not ErrorCode.NONE and self._replica is not None):
            raise TryAgain(f"`{self._tp}`: {code.name}")
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise not_allowed(self._wanted.topic)
        if code is not ErrorCode.NONE:
            raise ClusterUnavailable(f"{self._wanted}: {code.name}")
        if answer.preferred_read_replica >= 0:
            self._replica = answer.preferred_read_replica
            return []
        return self._accept(answer)

    def _accept(self, answer: fetch.FetchedPartition) -> list[BatchTable]:
        """The sound batches of an answer; moves the position behind them."""
        committed = self._rules.read_committed
        self._available_end = answer.last_stable_offset if committed else answer.high_watermark
        table = self._whole_batches(answer)
        if not len(table):
            return []
        damaged = computed_crcs(table) != table.field("crc")
        if damaged.any():
            self._reject_damage(table, int(np.flatnonzero(damaged)[0]))
        wanted = ~damaged & (table.last_offsets >= self._position)
        end = max(int(table.last_offsets.max()), self._position) + 1 if damaged.any() else 0
        sound = table if wanted.all() else table.select(wanted)
        if len(sound):
            missing = first_gap(sound, self._position, self._wanted.end)
            if missing is not None and not self._is_compacted():
                self._lose(missing, self._position)
            end = max(end, int(sound.last_offsets[-1]) + 1)
        self._position = max(self._position, end)
        if not len(sound):
            return []
        return [hide_aborted(sound, answer.aborted or ()) if committed else sound]

    def _whole_batches(self, answer: fetch.FetchedPartition) -> BatchTable:
        """The whole batches of a response; the next Fetch asks for more bytes if there is none."""
        try:
            table = read_batches(answer.records[0] if answer.records else b"")  # type: ignore[arg-type]
        except CorruptBatch as error:
            where = f"{self._wanted} at offset {self._position}"
            message = f"{where}: {error.message}\nhint: {_DAMAGE_CHOICES}"
            raise CorruptBatch(message, error.code) from None
        if not len(table) and answer.records_bytes:
            self._fetch_bytes = min(self._fetch_bytes * 2, _MAX_FETCH_BYTES)
        return table

    def _reject_damage(self, table: BatchTable, row: int) -> None:
        """Raises `CorruptBatch` for a batch that does not match its CRC, or warns."""
        message = (
            f"{self._wanted}: the batch of offsets {int(table.base_offsets[row])} to "
            f"{int(table.last_offsets[row])} does not match its CRC-32C"
        )
        if self._rules.fail_on_data_loss:
            raise CorruptBatch(f"{message}\nhint: {_DAMAGE_CHOICES}")
        LOG.warning("%s; left out because `failOnDataLoss` is false", message)

    def _is_compacted(self) -> bool:
        return self._wanted.topic in self._client.compacted_topics([self._wanted.topic])

    def _lose(self, reason: str, resume_at: int) -> None:
        """Reports records from the position on as lost; goes on behind them, if it may."""
        fail_or_warn(DataLoss(self._wanted, reason), self._rules)
        self._position = max(self._position, min(resume_at, self._wanted.end))

    def _out_of_range(self) -> None:
        """Reports a loss, with the range that the leader has instead."""
        earliest, latest = self._client.earliest_and_latest(
            [self._tp], read_committed=self._rules.read_committed
        )
        first, end = earliest[self._tp], latest[self._tp]
        self._lose(
            f"offset {self._position} is not there; the leader has [{first}, {end})",
            first if self._position < first else self._wanted.end,
        )

    def _send(self) -> None:
        """Sends a Fetch; sends none if another topic has the name now and the options allow it."""
        leader = self._client.known.leader_of(self._tp)
        if is_other_topic(self._planned.topic_id, leader.topic_id):
            self._lose("the topic was deleted and created again since the plan", self._wanted.end)
            return
        node_id = leader.node_id if self._replica is None else self._replica
        connection = self._client.connection_to(node_id)
        connection.send(fetch_call(self._request(leader)))
        self._under_way = connection

    def _send_ahead(self) -> None:
        """Sends the next Fetch; after an error, `_fetch_once` sends it again."""
        try:
            self._send()
        except TryAgain:
            return
        except Unreachable:
            self._client.close()

    def _forget_under_way(self) -> None:
        """Drops the connection if a response is in flight on it that will not be read."""
        if self._under_way is not None:
            self._client.brokers.drop(self._under_way.address)
            self._under_way = None

    def _request(self, leader: Leader) -> fetch.FetchRequest:
        partition = fetch.FetchPartition(
            topic=self._wanted.topic,
            topic_id=leader.topic_id,
            partition=self._wanted.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=NO_EPOCH,
            log_start_offset=NO_OFFSET,
            max_bytes=self._fetch_bytes,
        )
        committed = self._rules.read_committed
        isolation = fetch.READ_COMMITTED if committed else fetch.READ_UNCOMMITTED
        return fetch.FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            partitions=[partition],
            forgotten=[],
            rack_id=self._rack,
        )


def first_gap(table: BatchTable, position: int, end: int) -> str | None:
    """The first place where offsets from `position` up to `end` are missing from these batches, as
    text; `None` when all are there."""
    bases, lasts = table.base_offsets, table.last_offsets
    expected = np.concatenate(([position], lasts[:-1] + 1))
    gaps = bases > expected
    gaps |= (np.arange(len(table)) > 0) & (bases < expected)
    gaps &= expected < end
    if gaps.any():
        first = int(np.flatnonzero(gaps)[0])
        return (
            f"offset {int(expected[first])} should follow, but the next batch begins at "
            f"{int(bases[first])}"
        )
    counts = table.field("record_count")
    thinned = (counts != lasts - bases + 1) & (bases < end)
    if thinned.any():
        first = int(np.flatnonzero(thinned)[0])
        return (
            f"the batch of offsets {int(bases[first])} to {int(lasts[first])} holds "
            f"{int(counts[first])} records"
        )
    return None
