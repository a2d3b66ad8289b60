"""What clients send to brokers."""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model import TopicId
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.wire.produce import ProducePartition


class Producer(NamedTuple):
    """Who sends a batch, and which of his batches it is."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_transactional: bool = False


NO_PRODUCER_ID = Producer()


def produce_batch(
    topic: str, topic_id: TopicId, partition: int, values: Iterable[bytes], producer: Producer
) -> ProducePartition:
    """One batch of records for one partition."""
    records = build_batch(
        [Record(1000, None, value) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        is_transactional=producer.is_transactional,
    )
    return ProducePartition(topic, topic_id, partition, memoryview(records))
