"""Members of share groups over a `Rig`; share coordinators answer when the test says so."""

from typing import Any

from tests.unit.groups.consumer_rig import image
from tests.unit.groups.rig import MemoryPartition, Rig
from tidelog.groups.messages import (
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
    StatesInitialized,
    StatesResult,
    WantedStates,
)
from tidelog.groups.share_group import ShareGroup

SESSION_MS, RETRY_MS = 3000, 1000


class Sharers(Rig):
    """A coordinator that knows topics."""

    def __init__(
        self, partition: MemoryPartition | None = None, *, now: int = 0, **settings: Any
    ) -> None:
        topics = settings.pop("topics", {"t": 4})
        times = {"share_session_timeout_ms": SESSION_MS, "share_initialize_retry_ms": RETRY_MS}
        super().__init__(partition, now=now, **{**times, **settings})
        self.coordinator.topics.update(image(**topics))

    def group(self, group_id: str = "g") -> ShareGroup:
        """What is committed about a group."""
        found = self.coordinator.committed.get(group_id)
        assert found is not None and found.shares is not None
        return found.shares

    def beat(
        self, member_id: str = "m", epoch: int = 0, *topics: str, **values: Any
    ) -> ShareGroupHeartbeatResult:
        """A heartbeat; with topics it subscribes."""
        asked = {
            "group_id": "g",
            "member_id": member_id,
            "member_epoch": epoch,
            "client_id": "c",
            "client_host": "/h",
            "topic_names": topics or None,
            **values,
        }
        answer = self.ask(ShareGroupHeartbeat(**asked))
        assert isinstance(answer, ShareGroupHeartbeatResult), answer
        return answer

    def report(self, wanted: WantedStates | None, *, is_done: bool = True) -> None:
        """The share coordinators have answered."""
        assert wanted is not None, "nothing was wanted"
        partitions = tuple(each for each, _ in wanted.partitions)
        assert self.ask(StatesInitialized("g", partitions, is_done)) == StatesResult()

    def begin(self, *member_ids: str) -> dict[str, ShareGroupHeartbeatResult]:
        """Members of one topic that have what they shall have."""
        answers = {each: self.beat(each, 0, "t") for each in member_ids}
        wanted = [it.wanted for it in answers.values() if it.wanted is not None]
        self.report(wanted[0])
        for _ in range(2):
            answers = {each: self.beat(each, it.member_epoch) for each, it in answers.items()}
        return answers
