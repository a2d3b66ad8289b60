"""Reading partitions record by record, for eyes and scripts. Jobs read tables of batches instead
(`tidelog.pipeline.topics`).

`Reader.poll` asks the leaders of all partitions at once, each with one Fetch, and gives the records
in the order of their offsets, partition by partition. A failure that may pass costs fresh metadata
and another attempt from the same positions, so a reader lives through leader changes. What is not
there any more is `OutOfRange`: a reader never jumps over records.

With `read_committed` the records of aborted transactions are left out. An answer ends below the
last stable offset and lists the aborted transactions in it, by producer and first offset; each ends
at its producer's next marker.

Source: KIP-98; Kafka's protocol guide, Fetch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.client.blocking import Brokers, now_ms, retrying
from tidelog.client.coordinators import metadata_of
from tidelog.client.core.calls import Call, fetch_call
from tidelog.client.core.errors import RETRIABLE_READ, Retry, TryAgain, Unreachable, refusal
from tidelog.client.core.partitions import CONSUMER, NEWEST_FETCH_BY_NAME, Metadata
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH, NO_OFFSET, TopicPartition
from tidelog.records.batch import batch_size_at, decode_batch, read_header
from tidelog.records.record import Record
from tidelog.wire import fetch

PARTITION_BYTES: Final = 1 << 20
ANSWER_BYTES: Final = 8 << 20


class OutOfRange(Exception):
    """A position is not in the log: it was deleted, or was never written."""

    def __init__(self, tp: TopicPartition, offset: int) -> None:
        super().__init__(f"offset `{offset}` of `{tp}` is not there")


class ReadRecord(NamedTuple):
    """A record and where it was read."""

    partition: TopicPartition
    record: Record


class Reader:
    """Reads some partitions from their positions on."""

    def __init__(
        self,
        brokers: Brokers,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
    ) -> None:
        # The connections; not closed here.
        self._brokers = brokers
        # The next offset to read of each partition: all below it is in `_found` or was given out.
        self.positions = dict(positions)
        self._isolation = fetch.READ_COMMITTED if read_committed else fetch.READ_UNCOMMITTED
        # Leaders as last known; `None` when they must be asked for.
        self._metadata: Metadata | None = None
        # Records that were read and not given out yet.
        self._found: list[ReadRecord] = []

    def poll(self, wait_ms: int) -> Sequence[ReadRecord]:
        """The next records; none when there are none within `wait_ms`. Raises `OutOfRange`,
        `AdminError`, `Unreachable`, `TryAgain` (no leader until the deadline)."""
        retry = Retry(now_ms(), self._brokers.timeout_s)
        retrying(lambda: self._fetch(wait_ms), retry)
        found, self._found = self._found, []
        return found

    def _fetch(self, wait_ms: int) -> None:
        """One Fetch to each leader. Raises after a failure, unless some records were read."""
        try:
            by_leader = self._by_leader()
            for address, wanted in by_leader.items():
                self._brokers.connection(address).send(self._request(wanted, wait_ms))
            for address in by_leader:
                response: fetch.FetchResponse = self._brokers.connection(address).receive()
                for answer in response.partitions:
                    self._accept(answer)
        except (TryAgain, Unreachable):
            # Other answers may still be under way: their connections are of no more use.
            self._brokers.close()
            self._metadata = None
            if not self._found:
                raise
        except BaseException:
            self._brokers.close()
            raise

    def _by_leader(self) -> Mapping[Address, Sequence[TopicPartition]]:
        if self._metadata is None:
            self._metadata = metadata_of(self._brokers, sorted({tp.topic for tp in self.positions}))
        metadata, found = self._metadata, dict[Address, list[TopicPartition]]()
        for tp in self.positions:
            address = metadata.address_of(metadata.leader_of(tp).node_id)
            found.setdefault(address, []).append(tp)
        return found

    def _request(self, wanted: Iterable[TopicPartition], wait_ms: int) -> Call[fetch.FetchResponse]:
        assert self._metadata is not None, "a fetch before the metadata"
        partitions = []
        for tp in wanted:
            leader = self._metadata.leader_of(tp)
            position = self.positions[tp]
            partitions.append(
                fetch.FetchPartition(
                    tp.topic,
                    leader.topic_id,
                    tp.partition,
                    leader.epoch,
                    position,
                    NO_EPOCH,
                    NO_OFFSET,
                    PARTITION_BYTES,
                )
            )
        return fetch_call(
            fetch.FetchRequest(
                CONSUMER, -1, wait_ms, 1, ANSWER_BYTES, self._isolation, 0, -1, partitions, []
            ),
            NEWEST_FETCH_BY_NAME,
        )

    def _accept(self, answer: fetch.FetchedPartition) -> None:
        tp = TopicPartition(answer.topic, answer.partition)
        position = self.positions[tp]
        if answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OutOfRange(tp, position)
        if answer.error_code in RETRIABLE_READ:
            raise TryAgain(f"`{tp}`: {answer.error_code.name}")
        if answer.error_code is not ErrorCode.NONE:
            raise refusal(answer.error_code, None, f"read `{tp}`")
        records = b"".join(map(bytes, answer.records))  # type: ignore[arg-type]
        for next_offset, visible in _batches(records, answer.aborted or ()):
            self._found += [
                ReadRecord(tp, record) for record in visible if record.offset >= position
            ]
            self.positions[tp] = max(position, next_offset)


def _batches(
    records: bytes, aborted: Sequence[fetch.AbortedTransaction]
) -> Iterator[tuple[int, Sequence[Record]]]:
    """Of each whole batch the offset behind it and the records that a reader may see."""
    pending = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    view, pos = memoryview(records), 0
    while (size_bytes := batch_size_at(records, pos)) is not None:
        if pos + size_bytes > len(records):
            return
        header = read_header(records, pos)
        while pending and pending[-1].first_offset <= header.last_offset:
            aborting.add(pending.pop().producer_id)
        is_hidden = header.is_transactional and header.producer_id in aborting
        if header.is_control:
            aborting.discard(header.producer_id)
        hidden = header.is_control or is_hidden
        yield (header.last_offset + 1, () if hidden else decode_batch(view[pos : pos + size_bytes]))
        pos += size_bytes
