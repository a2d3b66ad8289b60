"""Reading one range of one partition as raw record batches, whole and without gaps.

While the caller works on what one Fetch brought, the next Fetch is already under way on the same
connection. A read survives leader changes: it goes on at the offset it had reached, so a failover
shows as a pause.

Completeness is checked here, where batches are still whole: the first batch must hold the first
offset wanted and each batch must begin where the one before ended. A gap is `DataLoss`, unless
the topic is compacted, where gaps are how it works (`allow_gaps`). Every batch's CRC is checked,
so bytes that changed on the way or on the broker's disk are `CorruptBatch`, never records.

Left out: everything about records; `decode.py` does that.
"""

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from tidelog.errors import CorruptBatch, ErrorCode, MalformedFrame
from tidelog.model import NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.pipeline.batches import BatchTable, check_crcs, read_batches
from tidelog.pipeline.client import TRY_AGAIN, Client, Leader, TryAgain
from tidelog.pipeline.connection import CLIENT_ID, BrokerConnection
from tidelog.pipeline.errors import ClusterUnavailable, DataLoss
from tidelog.pipeline.values import EARLIEST, LATEST, OffsetRange
from tidelog.wire.api import ApiKey
from tidelog.wire.fetch import (
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    pack_request,
    parse_response,
)

FETCH_BYTES: Final = 8 << 20
"""Record bytes per fetch: enough for the decoder to work on many records at once."""
_MAX_FETCH_BYTES: Final = 64 << 20
_FETCH_WAIT_MS: Final = 500
_BACKOFF_S: Final = 0.1


class RangeReader:
    """One pass over one range."""

    def __init__(
        self,
        client: Client,
        wanted: OffsetRange,
        *,
        allow_gaps: bool = False,
        patience_s: float = 60.0,
    ) -> None:
        # Whose connections and metadata are used; not closed here.
        self._client = client
        # What to read; fixed.
        self._wanted = wanted
        self._tp = TopicPartition(wanted.topic, wanted.partition)
        # Whether missing offsets are normal, as after compaction.
        self._allow_gaps = allow_gaps
        # How long the read may stand still before it fails.
        self._patience_s = patience_s
        # The next offset to read: everything below it was handed out.
        self._position = wanted.start
        # The connection on which one Fetch is under way, and the leader it was sent to.
        self._under_way: BrokerConnection | None = None
        # What the last answer said of the partition, for messages.
        self._available = "not answered"
        # How much to ask for; grows when a single batch is larger.
        self._fetch_bytes = FETCH_BYTES

    def tables(self) -> Iterator[BatchTable]:
        """The batches of the range in order, CRC checked. The first and the last may reach
        beyond the range.

        Raises `DataLoss`, `CorruptBatch`, `ClusterUnavailable`, `UsageError` (the topic is gone).
        """
        self._client.metadata([self._wanted.topic])
        try:
            while self._position < self._wanted.end:
                table = self._next_table()
                self._advance(table)
                if self._position < self._wanted.end:
                    self._send_ahead()
                yield table
        finally:
            self._forget_under_way()

    def _next_table(self) -> BatchTable:
        """Fetches until there are batches at the position, through leader changes."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                table = self._fetch_once()
                if len(table):
                    return table
                trouble = f"no records; the leader has {self._available}"
            except (TryAgain, ClusterUnavailable, MalformedFrame) as error:
                trouble = str(error)
                self._start_afresh(error)
            if time.monotonic() > deadline:
                raise ClusterUnavailable(
                    f"{self._wanted}: stood at offset {self._position} for "
                    f"{self._patience_s:g} s: {trouble}"
                )

    def _start_afresh(self, error: Exception) -> None:
        """Forgets what may be wrong: connections after a broken one, and who leads."""
        if not isinstance(error, TryAgain):
            self._under_way = None
            self._client.close()
        time.sleep(_BACKOFF_S)
        try:
            self._client.refresh([self._wanted.topic])
        except (TryAgain, ClusterUnavailable, MalformedFrame):
            # The next fetch fails as well, and the deadline decides.
            self._client.close()

    def _fetch_once(self) -> BatchTable:
        """Receives the Fetch under way, or sends one and receives that."""
        if self._under_way is None:
            self._send()
        connection = self._under_way
        assert connection is not None, "a fetch was just sent"
        version = connection.version_of(ApiKey.FETCH)
        _, response = parse_response(version, connection.receive())
        self._under_way = None
        if response.error_code is not ErrorCode.NONE:
            raise TryAgain(response.error_code.name)
        (answer,) = response.partitions
        if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range()
        if answer.error_code in TRY_AGAIN:
            raise TryAgain(f"`{self._tp}`: {answer.error_code.name}")
        if answer.error_code is not ErrorCode.NONE:
            raise ClusterUnavailable(f"{self._wanted}: {answer.error_code.name}")
        return self._batches(answer)

    def _batches(self, answer: FetchedPartition) -> BatchTable:
        """The whole batches of an answer that reach the position, checked."""
        self._available = f"[{answer.log_start_offset}, {answer.high_watermark})"
        try:
            table = read_batches(answer.records[0] if answer.records else b"")  # type: ignore[arg-type]
            if not len(table) and answer.records_bytes:
                self._fetch_bytes = min(self._fetch_bytes * 2, _MAX_FETCH_BYTES)
            table = table.select(table.last_offsets >= self._position)
            check_crcs(table)
        except CorruptBatch as error:
            where = f"{self._wanted} at offset {self._position}"
            raise CorruptBatch(f"{where}: {error.message}", error.code) from error
        return table

    def _advance(self, table: BatchTable) -> None:
        """Moves the position behind the batches after checking that none is missing."""
        lasts = table.last_offsets
        expected = np.concatenate(([self._position], lasts[:-1] + 1))
        bases = table.base_offsets
        gaps = bases > expected
        gaps |= (np.arange(len(table)) > 0) & (bases < expected)
        gaps &= expected < self._wanted.end
        if gaps.any() and not self._allow_gaps:
            first = int(np.flatnonzero(gaps)[0])
            raise DataLoss(
                self._wanted,
                f"offset {int(expected[first])} should follow, but the leader's next batch "
                f"begins at {int(bases[first])}",
            )
        self._position = int(lasts[-1]) + 1

    # The fetch under way ---------------------------------------------------------------------

    def _send(self) -> None:
        leader = self._client.leader_of(self._tp)
        connection = self._client.connection_to(leader.node_id)
        version = connection.version_of(ApiKey.FETCH)
        connection.send(
            pack_request(
                version, connection.next_correlation_id(), CLIENT_ID, self._request(leader)
            )
        )
        self._under_way = connection

    def _send_ahead(self) -> None:
        """Sends the next Fetch; trouble is left to whoever wants its answer."""
        try:
            self._send()
        except TryAgain:
            return
        except ClusterUnavailable:
            self._client.close()

    def _forget_under_way(self) -> None:
        """Drops the connection if an answer is under way on it that nobody will read."""
        if self._under_way is not None:
            self._client.drop(self._under_way)
            self._under_way = None

    def _request(self, leader: Leader) -> FetchRequest:
        partition = FetchPartition(
            topic=self._wanted.topic,
            topic_id=leader.topic_id,
            partition=self._wanted.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=NO_EPOCH,
            log_start_offset=NO_OFFSET,
            max_bytes=self._fetch_bytes,
        )
        return FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=READ_UNCOMMITTED,
            session_id=0,
            session_epoch=-1,
            partitions=[partition],
            forgotten=[],
        )

    def _out_of_range(self) -> DataLoss:
        """Says what the leader has instead."""
        earliest = self._client.list_offsets([self._tp], EARLIEST)[self._tp]
        latest = self._client.list_offsets([self._tp], LATEST)[self._tp]
        return DataLoss(
            self._wanted,
            f"offset {self._position} is not there; the leader has [{earliest}, {latest})",
        )
