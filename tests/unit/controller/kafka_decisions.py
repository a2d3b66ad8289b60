"""Apache Kafka's own metadata log, cut into what its controller decided each time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tests.unit.controller.harness import a_view
from tests.unit.metadata.kafka_log import Step, kafka_steps
from tidelog.config import ControllerConfig
from tidelog.controller.view import View
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records import (
    FENCE,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
)


class KafkaDecision(NamedTuple):
    """What one event of Kafka's controller wrote: a broker's change, or nothing of that kind,
    and the partition changes beside it."""

    before: MetadataImage
    broker: BrokerRegistrationChangeRecord | None
    changes: tuple[PartitionChangeRecord, ...]


def kafka_decisions() -> Iterator[KafkaDecision]:
    """Kafka's log cut into decisions: one batch may join several of them. A fencing stands
    behind its partition changes, an unfencing and a controlled shutdown before them."""
    for step in kafka_steps():
        broker: BrokerRegistrationChangeRecord | None = None
        changes: list[PartitionChangeRecord] = []
        start = step.before
        for offset, record in step.records:
            if isinstance(record, BrokerRegistrationChangeRecord):
                if record.fenced == FENCE:
                    yield KafkaDecision(start, record, tuple(changes))
                    broker, changes = None, []
                else:
                    yield KafkaDecision(start, broker, tuple(changes))
                    broker, changes = record, []
                start = _copy(step, offset)
            elif isinstance(record, PartitionChangeRecord):
                changes.append(record)
        yield KafkaDecision(start, broker, tuple(changes))


def _copy(step: Step, last_offset: int) -> MetadataImage:
    """The image in the midst of a batch."""
    delta = MetadataDelta(step.before)
    for offset, record in step.records:
        if offset <= last_offset:
            delta.replay(record, offset)
    return delta.apply(max(last_offset, step.before.offset), 1)


def comparable(records: Sequence[MetadataRecord]) -> list[str]:
    """The records in an order of their own: Kafka walks hash maps."""
    ordered = []
    for record in records:
        assert isinstance(record, PartitionChangeRecord)
        eligible = record.eligible_leader_replicas
        eligible = None if eligible is None else tuple(sorted(eligible))
        ordered.append(repr(replace(record, eligible_leader_replicas=eligible)))
    return sorted(ordered)


def kafka_view(image: MetadataImage) -> View:
    return a_view(image, config=ControllerConfig(min_insync_replicas=2))
