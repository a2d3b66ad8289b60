"""What group coordinators ask of share coordinators: that states begin, that they end, how far they
are; and of the leaders of partitions, where these end.

A question is about partitions of one group, which may have different coordinators, so it becomes a
call for each of them (`share_calls.py`). It ends when all of these have. Leaders are asked once:
the client that wants to know the lag of a group may ask again.

Source: KIP-932, KIP-1226.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.broker.offset_questions import offsets_answer, offsets_request
from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.share_calls import ShareCall, ShareCalls
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.model import NO_EPOCH, TopicPartition
from tidelog.replication.messages import LATEST_TIMESTAMP, ListOffsetsQuery
from tidelog.sharing.values import ShareKey
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

Fields = Mapping[str, int]
"""What is said about one partition in a request, beside its number."""


class StateAnswer(NamedTuple):
    """What a share coordinator or a leader says about one partition."""

    error_code: ErrorCode
    row: Any = None
    """The partition in the answer, if it is there."""


Answers = Mapping[IdPartition, StateAnswer]

_CONSUMER: Final = -1


class _Question:
    """A question that has not ended."""

    def __init__(self, count: int, on_done: Callable[[Answers, Instant], None]) -> None:
        # How many partitions it is about.
        self._count = count
        self._on_done = on_done
        self._found: dict[IdPartition, StateAnswer] = {}

    def take(self, each: IdPartition, code: ErrorCode, row: Entity | None, now: Instant) -> None:
        """One partition has its answer."""
        self._found[each] = StateAnswer(code, row)
        self.settle(now)

    def settle(self, now: Instant) -> None:
        """Ends, if all partitions have their answers."""
        if len(self._found) == self._count:
            self._on_done(self._found, now)


@dataclass(slots=True, eq=False)
class _Ends:
    """Partitions that one leader is asked about, and what takes its answers."""

    takes: dict[TopicPartition, Callable[[ErrorCode, Any, Instant], None]]


class ShareStateCalls(ShareCalls):
    """The calls of one node."""

    purpose = Purpose.SHARE_GROUPS
    client = "share-groups"

    def __init__(
        self, config: NodeConfig, peers: PeerChannels, create_topic: Callable[[Instant], None]
    ) -> None:
        super().__init__(config, peers)
        # Has the topic created.
        self._create_topic = create_topic
        # Questions about no partition at all. They end with the next round, because a coordinator
        # that asks is in the middle of a decision.
        self._empty: list[_Question] = []

    def ask(
        self,
        key: ApiKey,
        group_id: str,
        partitions: Mapping[IdPartition, Fields],
        on_done: Callable[[Answers, Instant], None],
        now: Instant,
    ) -> None:
        """Asks about these partitions of a group; `on_done` is called once, when all of them have
        an answer."""
        question = _Question(len(partitions), on_done)
        if not partitions:
            self._empty.append(question)
        for each, fields in partitions.items():
            call = ShareCall(key, self._deadline_of(now), partial(question.take, each), fields)
            self._add(ShareKey(group_id, *each), call)

    def ask_ends(
        self,
        partitions: Collection[IdPartition],
        on_done: Callable[[Answers, Instant], None],
        now: Instant,
    ) -> None:
        """Asks the leaders of these partitions for their high watermarks; `on_done` is called once,
        with a `ListOffsetsResult` of each that has one."""
        question = _Question(len(partitions), on_done)
        if not partitions:
            self._empty.append(question)
        asked: dict[int, _Ends] = {}
        for each in partitions:
            found = self._image.partition(*each)
            if found is None or not self._peers.knows(found.leader, self.purpose):
                question.take(each, ErrorCode.LEADER_NOT_AVAILABLE, None, now)
                continue
            name = self._image.topics_by_id[each.topic_id].name
            takes = asked.setdefault(found.leader, _Ends({})).takes
            takes[TopicPartition(name, each.partition)] = partial(question.take, each)
        for leader, ends in asked.items():
            queries = [ListOffsetsQuery(*each, NO_EPOCH, LATEST_TIMESTAMP) for each in ends.takes]
            self._ask(leader, offsets_request(queries, _CONSUMER), ends, now)

    def on_answered(self, token: object, frame: memoryview | bytes, now: Instant) -> None:
        """A coordinator or a leader answered. Raises `MalformedFrame`."""
        if not isinstance(token, _Ends):
            super().on_answered(token, frame, now)
            return
        results = {each[:2]: each for each in offsets_answer(frame)}
        for each, take in token.takes.items():
            found = results.get(each)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            take(unknown if found is None else found.error_code, found, now)

    def on_failed(self, token: object, now: Instant) -> None:
        """A coordinator or a leader did not answer."""
        if not isinstance(token, _Ends):
            super().on_failed(token, now)
            return
        for take in token.takes.values():
            take(ErrorCode.NETWORK_EXCEPTION, None, now)

    def _on_no_coordinator(self, now: Instant) -> None:
        self._create_topic(now)

    def flow(self, now: Instant) -> bool:
        """Sends what is to be sent now; returns whether there was anything."""
        empty, self._empty = self._empty, []
        for question in empty:
            question.settle(now)
        return super().flow(now) or bool(empty)

    def deadline(self) -> Instant | None:
        """When something is tried again."""
        return earliest(super().deadline(), Instant(0) if self._empty else None)
