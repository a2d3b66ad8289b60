"""The metadata log that Apache Kafka 4.3.1 wrote, as batches of decoded records."""

from functools import cache
from typing import NamedTuple

from tests.fixtures import kafka_files
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage
from tidelog.metadata.record_codec import decode_record
from tidelog.metadata.records import MetadataRecord
from tidelog.records.batch import decode_batch, iter_headers


class Step(NamedTuple):
    """One batch between two images."""

    before: MetadataImage
    records: tuple[tuple[int, MetadataRecord], ...]
    """(offset, record); none for a control batch."""
    delta: MetadataDelta
    after: MetadataImage


@cache
def kafka_steps() -> tuple[Step, ...]:
    """Every batch of node 1's metadata log, replayed."""
    data = kafka_files("node1")["__cluster_metadata-0/00000000000000000000.log"]
    image = EMPTY_IMAGE
    steps = []
    for position, header in iter_headers(data):
        records: list[tuple[int, MetadataRecord]] = []
        if not header.is_control:
            for record in decode_batch(data[position : position + header.size_bytes]):
                assert record.value is not None
                records.append((record.offset, decode_record(bytes(record.value))))
        delta = MetadataDelta(image)
        for offset, entity in records:
            delta.replay(entity, offset)
        after = delta.apply(header.last_offset, header.leader_epoch)
        steps.append(Step(image, tuple(records), delta, after))
        image = after
    return tuple(steps)
