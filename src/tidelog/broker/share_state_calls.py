"""What group coordinators ask of share coordinators: that states begin, that they end, how far they
are.

A question is about partitions of one group, which may have different coordinators, so it becomes a
call for each of them (`share_calls.py`). It ends when all of these have.

Source: KIP-932.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tidelog.broker.peers import PeerChannels, Purpose
from tidelog.broker.share_calls import ShareCall, ShareCalls
from tidelog.config import NodeConfig
from tidelog.env.instant import Instant, earliest
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.sharing.values import ShareKey
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import Entity

Fields = Mapping[str, int]
"""What is said about one partition in a request, beside its number."""


class StateAnswer(NamedTuple):
    """What a share coordinator says about one partition."""

    error_code: ErrorCode
    row: Entity | None = None
    """The partition in the answer."""


Answers = Mapping[IdPartition, StateAnswer]


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
