"""Writing records, each once and in order, with acks=all: for scripts.

A writer has a producer id, and each batch its sequence numbers. So a batch whose answer was lost is
sent again, and the leader knows it (KIP-98). One batch a partition is under way at a time.

Source: KIP-98, KIP-360; Kafka's protocol guide, Produce.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.client.blocking import Brokers, now_ms, retrying
from tidelog.client.coordinators import metadata_of
from tidelog.client.core.calls import produce_call, request
from tidelog.client.core.errors import RETRIABLE_READ, Retry, TryAgain, Unreachable, check
from tidelog.client.core.partitions import Metadata
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.model import NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from tidelog.records.batch import SEQUENCE_COUNT, build_batch
from tidelog.records.record import Record
from tidelog.wire import produce
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

_ALL: Final = -1
_RETRIABLE: Final = RETRIABLE_READ | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
_WRITTEN: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Writer:
    """Writes to one topic."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        """Raises `AdminError` when the topic does not exist, `Unreachable`."""
        # The connections; not closed here.
        self._brokers = brokers
        self._topic = topic
        # Leaders as last known; `None` when they must be asked for.
        self._metadata: Metadata | None = metadata_of(brokers, [topic])
        # How many partitions the topic has.
        self.partition_count = len(self._metadata.partitions_of(topic))
        # Who writes; asked for with the first record.
        self._producer: tuple[int, int] | None = None
        # The sequence number of the next record of each partition.
        self._sequences: dict[int, int] = {}

    def write(self, records: Mapping[int, Sequence[Record]]) -> dict[int, int]:
        """Writes records to partitions, and returns the offset of the first in each; -1 where the
        answer that had it was lost. Raises `AdminError`, `Unreachable`, `TryAgain` (no leader until
        the deadline)."""
        producer_id, epoch = self._producer = self._producer or self._identity()
        batches = {}
        for partition, each in records.items():
            sequence = self._sequences.get(partition, 0)
            batches[partition] = build_batch(
                each, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
            )
            self._sequences[partition] = (sequence + len(each)) % SEQUENCE_COUNT
        offsets: dict[int, int] = {}

        def send_the_rest() -> None:
            rest = {each: batches[each] for each in batches if each not in offsets}
            self._send(rest, offsets)

        retrying(send_the_rest, Retry(now_ms(), self._brokers.timeout_s))
        return offsets

    def _identity(self) -> tuple[int, int]:
        call = request(
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout=millis(0),
            producer_id=-1,
            producer_epoch=-1,
        )

        def ask() -> tuple[int, int]:
            answer = self._brokers.any(call)
            check(error_of(answer.error_code), None, "get a producer id")
            return int(answer.producer_id), int(answer.producer_epoch)

        return retrying(ask, Retry(now_ms(), self._brokers.timeout_s))

    def _send(self, batches: Mapping[int, bytes], offsets: dict[int, int]) -> None:
        """Sends each batch to its leader; those that are written get their offset."""
        try:
            for address, led in self._by_leader(batches).items():
                partitions = [
                    produce.ProducePartition(
                        self._topic, ZERO_TOPIC_ID, each, memoryview(batches[each])
                    )
                    for each in led
                ]
                timeout_ms = round(self._brokers.timeout_s * 1000)
                call = produce_call(produce.ProduceRequest(None, _ALL, timeout_ms, partitions))
                for answer in self._brokers.node(address, call).partitions:
                    self._accept(answer, offsets)
        except (TryAgain, Unreachable):
            self._metadata = None
            raise

    def _by_leader(self, batches: Mapping[int, bytes]) -> Mapping[Address, Sequence[int]]:
        if self._metadata is None:
            self._metadata = metadata_of(self._brokers, [self._topic])
        metadata, found = self._metadata, dict[Address, list[int]]()
        for partition in batches:
            leader = metadata.leader_of(TopicPartition(self._topic, partition))
            found.setdefault(metadata.address_of(leader.node_id), []).append(partition)
        return found

    def _accept(self, answer: produce.ProducedPartition, offsets: dict[int, int]) -> None:
        what = f"write to `{self._topic}-{answer.partition}`"
        if answer.error_code in _RETRIABLE:
            raise TryAgain(f"{what}: {answer.error_code.name}")
        if answer.error_code not in _WRITTEN:
            check(answer.error_code, answer.error_message, what)
        known = answer.error_code is ErrorCode.NONE
        offsets[answer.partition] = answer.base_offset if known else NO_OFFSET
