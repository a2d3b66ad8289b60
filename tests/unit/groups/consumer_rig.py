"""Members of consumer groups over a `Rig`: clients that obey the protocol, step by step."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tests.unit.groups.rig import DELAY_MS, Rig, heartbeat, join, leave, sync
from tests.unit.rsm.coordinator_rig import MemoryPartition
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_group import ConsumerGroup
from tidelog.groups.consumer_records import IdPartition
from tidelog.groups.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    GroupProtocol,
)
from tidelog.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from tidelog.model import TopicId, TopicPartition
from tidelog.wire.consumer_protocol import assignment_of, pack_assignment

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


def said(*topics: str, owned: Collection[IdPartition] = (), version: int = 1) -> bytes:
    """What a classic consumer says about itself: the topics it wants, and what it uses."""
    out = bytearray(version.to_bytes(2, "big") + len(topics).to_bytes(4, "big"))
    for each in topics:
        out += len(each).to_bytes(2, "big") + each.encode()
    out += b"\xff\xff\xff\xff"
    if version:
        names = [TopicPartition(each.topic_id.rstrip(b"\0").decode(), each[1]) for each in owned]
        # An assignment without its version and its user data has the same form.
        out += pack_assignment(0, names)[2:-4]
    return bytes(out)


class ClassicClient:
    """A consumer of the classic protocol, which gives back all it has before it joins, or, where it
    is cooperative, only what it is to give back."""

    def __init__(
        self, rig: Consumers, name: str, *, cooperative: bool = False, **values: Any
    ) -> None:
        self.rig, self.name, self.cooperative, self.values = rig, name, cooperative, values
        self.member_id, self.generation = "", -1
        self.held: set[IdPartition] = set()
        # The question that is not answered yet, and what to do with the answer.
        self._asked: tuple[int, Any] | None = None

    def poll(self) -> ErrorCode:
        """Takes the answer that it waits for, if it is there, and asks what comes next."""
        if self._asked is None and self.generation < 0:
            self._join()
        elif self._asked is None:
            self._ask(heartbeat(self.member_id, self.generation, **self._instance), self._beaten)
        self.rig.commit()
        assert self._asked is not None
        number, then = self._asked
        if number not in self.rig.answers:
            return ErrorCode.REBALANCE_IN_PROGRESS
        answer, self._asked = self.rig.answers[number], None
        code: ErrorCode = answer.error_code
        if code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        ):
            self.generation, self.held = -1, set()
            if code is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join()
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
        elif code is ErrorCode.NONE:
            then(answer)
        return code

    def leave(self) -> Any:
        answer = self.rig.ask(leave(self.member_id))
        self.member_id, self.generation, self.held, self._asked = "", -1, set(), None
        return answer

    def forget_question(self) -> None:
        """The coordinator that was asked is gone."""
        self._asked = None

    @property
    def _instance(self) -> dict[str, Any]:
        return {"instance_id": self.values.get("group_instance_id")}

    def _ask(self, request: Any, then: Any) -> None:
        self._asked = self.rig.send(request), then

    def _beaten(self, _: Any) -> None:
        """Nothing is to be done."""

    def _join(self) -> None:
        if not self.cooperative:
            self.held = set()
        protocol = GroupProtocol("range", said("t", owned=self.held))
        values = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REVOKE_MS}
        values |= {"client_id": self.name, "protocols": (protocol,), **self.values}
        self._ask(join(self.member_id, **values), self._joined)

    def _joined(self, answer: Any) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assigned = ()
        if answer.leader == self.member_id and not answer.skip_assignment:
            names = [each.member_id for each in answer.members]
            assigned = tuple(
                (
                    name,
                    pack_assignment(1, [TopicPartition("t", n) for n in range(at, 6, len(names))]),
                )
                for at, name in enumerate(names)
            )
        self._ask(sync(self.member_id, self.generation, assigned, **self._instance), self._synced)

    def _synced(self, answer: Any) -> None:
        found = {
            IdPartition(topic_id(tp.topic), tp.partition)
            for tp in assignment_of(answer.assignment).partitions
        }
        is_less = self.cooperative and self.held - found
        self.held = found
        if is_less:
            self._join()


def polled(*clients: "ClassicClient | Client", rounds: int = 12) -> None:
    """Everyone goes on until all should have what they shall have."""
    for _ in range(rounds):
        for each in clients:
            each.poll() if isinstance(each, ClassicClient) else each.beat()
        clients[0].rig.advance(2 * DELAY_MS)
