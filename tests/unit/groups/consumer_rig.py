"""Members of consumer groups over a `Rig`: clients that obey the protocol, step by step."""

from dataclasses import replace
from typing import Any

from tests.unit.groups.rig import MemoryPartition, Rig
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResult
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from tidelog.model import TopicId

SESSION_MS, REVOKE_MS = 3000, 2000


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"\0"))


def image(offset: int = 1, **topics: int) -> MetadataImage:
    """These topics with so many partitions."""
    partition = PartitionImage((1,), (1,), 1, 0, 0)
    images = [
        TopicImage(name, topic_id(name), dict.fromkeys(range(count), partition))
        for name, count in topics.items()
    ]
    return replace(
        EMPTY_IMAGE,
        offset=offset,
        topics_by_name={each.name: each for each in images},
        topics_by_id={each.topic_id: each for each in images},
    )


def partitions(name: str, *numbers: int) -> set[IdPartition]:
    return {IdPartition(topic_id(name), number) for number in numbers}


class Consumers(Rig):
    """A coordinator that knows topics."""

    def __init__(
        self, partition: MemoryPartition | None = None, *, now: int = 0, **settings: Any
    ) -> None:
        topics = settings.pop("topics", {"t": 6})
        settings = {"consumer_session_timeout_ms": SESSION_MS, **settings}
        super().__init__(partition, now=now, **settings)
        self.coordinator.topics.update(image(**topics))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        found = self.coordinator.committed.get(group_id)
        assert found is not None and found.consumer is not None
        return found.consumer

    def beat(self, **values: Any) -> ConsumerGroupHeartbeatResult:
        asked: dict[str, Any] = {
            "group_id": "g",
            "member_epoch": 0,
            "client_id": "c",
            "client_host": "/h",
            **values,
        }
        answer = self.ask(ConsumerGroupHeartbeat(**asked))
        assert isinstance(answer, ConsumerGroupHeartbeatResult), answer
        return answer

    def join(self, member_id: str, *topics: str, **values: Any) -> ConsumerGroupHeartbeatResult:
        return self.beat(
            member_id=member_id,
            **{
                "rebalance_timeout_ms": REVOKE_MS,
                "topic_names": topics or ("t",),
                "held": (),
                **values,
            },
        )


class Client:
    """A member that gives back at once."""

    def __init__(self, rig: Consumers, member_id: str, *topics: str, **values: Any) -> None:
        self.rig, self.member_id, self.topics, self.values = rig, member_id, topics, values
        self.epoch = 0
        self.held: set[IdPartition] = set()
        # What it has reported to the coordinator.
        self.reported: set[IdPartition] | None = None

    def beat(self) -> ErrorCode:
        """One heartbeat; gives back at once what it is to give back."""
        if self.epoch == 0:
            answer = self.rig.join(self.member_id, *self.topics, **self.values)
        else:
            held = None if self.reported == self.held else tuple(sorted(self.held))
            answer = self.rig.beat(
                member_id=self.member_id,
                member_epoch=self.epoch,
                held=held,
                instance_id=self.values.get("instance_id"),
            )
        if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.held, self.reported = 0, set(), None
        if answer.error_code is not ErrorCode.NONE:
            return answer.error_code
        self.epoch, self.reported = answer.member_epoch, set(self.held)
        if answer.assigned is not None:
            self.held = set(answer.assigned)
        return ErrorCode.NONE

    def leave(self, epoch: int = -1) -> ErrorCode:
        answer = self.rig.beat(
            member_id=self.member_id, member_epoch=epoch, instance_id=self.values.get("instance_id")
        )
        self.epoch, self.held, self.reported = 0, set(), None
        return answer.error_code


def settle(*clients: Client, rounds: int = 6) -> None:
    """Heartbeats until everyone should have what it shall have."""
    for _ in range(rounds):
        for each in clients:
            each.beat()
