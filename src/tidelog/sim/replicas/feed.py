"""A scripted metadata feed: records in, images and deltas out, as a committed log would give them.

It decides nothing about a cluster but one thing: which ISR proposals fit the newest metadata.
Everything else is what a test says.
"""

from typing import Any, Final

from tidelog.config import LogConfig
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, MetadataImage, PartitionImage
from tidelog.metadata.records import (
    LEADER_UNCHANGED,
    ConfigRecord,
    EndpointEntry,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from tidelog.model import TopicId, Uuid
from tidelog.replication.messages import AlterPartitionProposal, IsrResult, SendAlterPartition
from tidelog.replication.replicas import Replicas

LISTENER: Final = "PLAINTEXT"
"""Where clients reach the brokers; each broker has a rack of its own, `rack-1` and so on."""


def topic_id_of(number: int) -> TopicId:
    """A topic id that differs from all others."""
    return TopicId(b"topic-id" + number.to_bytes(8, "big"))


class MetadataFeed:
    """The metadata log and how far each broker has read it."""

    def __init__(self) -> None:
        # All records; the index is the offset.
        self._records: list[MetadataRecord] = []
        # The fold of all records.
        self.image: MetadataImage = EMPTY_IMAGE
        # What each broker has applied.
        self._applied: dict[int, MetadataImage] = {}
        # Topics made so far.
        self._topics = 0

    @property
    def record_count(self) -> int:
        """Records so far: the offset of the next one."""
        return len(self._records)

    def write(self, *records: MetadataRecord) -> None:
        """Appends committed records."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record, len(self._records))
            self._records.append(record)
        self.image = delta.apply(len(self._records) - 1, 1)

    def register(self, node_id: int) -> int:
        """A broker process registers: fenced, with a new broker epoch, which is returned."""
        epoch = len(self._records)
        endpoint = EndpointEntry(
            name=LISTENER, host=f"host{node_id}", port=9092, security_protocol=0
        )
        self.write(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=Uuid(epoch.to_bytes(16, "big")),
                broker_epoch=epoch,
                end_points=(endpoint,),
                rack=f"rack-{node_id}",
            )
        )
        return epoch

    def unfence(self, node_id: int) -> None:
        """The broker may lead and join ISRs."""
        self.write(UnfenceBrokerRecord(id=node_id, epoch=self.image.brokers[node_id].broker_epoch))

    def fence(self, node_id: int) -> None:
        """The broker may not lead, nor join ISRs."""
        self.write(FenceBrokerRecord(id=node_id, epoch=self.image.brokers[node_id].broker_epoch))

    def create_topic(
        self, name: str, replicas: tuple[int, ...], *, partitions: int = 1, **configs: str
    ) -> TopicId:
        """A topic whose first replica leads; everybody is in sync."""
        self._topics += 1
        topic_id = topic_id_of(self._topics)
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [_config(name, key, configs[key]) for key in configs]
        records += [
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(partitions)
        ]
        self.write(*records)
        return topic_id

    def delete_topic(self, name: str) -> None:
        """The topic is gone."""
        self.write(RemoveTopicRecord(topic_id=self.image.topics_by_name[name].topic_id))

    def configure(self, name: str, key: str, value: str) -> None:
        """Sets a topic config."""
        self.write(_config(name, key, value))

    def change(
        self,
        name: str,
        *,
        partition: int = 0,
        leader: int | None = None,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
    ) -> None:
        """Changes a partition; naming a leader begins a leader epoch."""
        self.write(
            PartitionChangeRecord(
                partition_id=partition,
                topic_id=self.image.topics_by_name[name].topic_id,
                isr=isr,
                replicas=replicas,
                leader=LEADER_UNCHANGED if leader is None else leader,
            )
        )

    def partition(self, name: str, partition: int = 0) -> PartitionImage:
        """The newest metadata of a partition."""
        return self.image.topics_by_name[name].partitions[partition]

    def forget(self, node_id: int) -> None:
        """The broker's process is gone; the next one reads from the beginning."""
        self._applied.pop(node_id, None)

    def publish(self, node_id: int, replicas: Replicas, now: Instant, upto: int = 2**62) -> None:
        """Applies what the broker has not seen, in one delta."""
        image = self._applied.get(node_id, EMPTY_IMAGE)
        last = min(upto, len(self._records) - 1)
        if image.offset >= last:
            return
        delta = MetadataDelta(image)
        for offset in range(image.offset + 1, last + 1):
            delta.replay(self._records[offset], offset)
        applied = self._applied[node_id] = delta.apply(last, 1)
        replicas.apply(delta, applied, lambda topic: log_config(applied, topic), now)

    def decide(self, sender: int, request: SendAlterPartition) -> list[IsrResult]:
        """Commits the proposals that fit the newest metadata, refuses the others."""
        return [self._decide(sender, proposal) for proposal in request.proposals]

    def _decide(self, sender: int, proposal: AlterPartitionProposal) -> IsrResult:
        number = proposal.topic_partition.partition
        result = IsrResult(proposal.topic_id, number, self._objection(sender, proposal))
        if result.error_code is not ErrorCode.NONE:
            return result
        isr = tuple(member.broker_id for member in proposal.new_isr)
        self.change(proposal.topic_partition.topic, partition=number, isr=isr)
        known = self.partition(proposal.topic_partition.topic, number)
        return result._replace(
            leader_id=known.leader,
            leader_epoch=known.leader_epoch,
            isr=isr,
            partition_epoch=known.partition_epoch,
        )

    def _objection(self, sender: int, proposal: AlterPartitionProposal) -> ErrorCode:
        known = self.image.partition(proposal.topic_id, proposal.topic_partition.partition)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if proposal.leader_epoch != known.leader_epoch or known.leader != sender:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != known.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in proposal.new_isr:
            broker = self.image.brokers[member.broker_id]
            if not broker.active or member.broker_epoch not in (-1, broker.broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE


def log_config(image: MetadataImage, topic: str) -> LogConfig:
    """The topic configs that scenarios set, with smaller segments than a broker would allow."""
    values: dict[str, Any] = {
        key.replace(".", "_"): int(value) if value.isdecimal() else value
        for key, value in image.topic_configs(topic).items()
    }
    return LogConfig(**values)


def refused(request: SendAlterPartition, code: ErrorCode) -> list[IsrResult]:
    """The same answer to every proposal."""
    return [
        IsrResult(proposal.topic_id, proposal.topic_partition.partition, code)
        for proposal in request.proposals
    ]


def _config(topic: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=key, value=value)
