"""A random order of what happens to the groups of one node, and a model of what they must say."""

from typing import Any, NamedTuple

from tests.unit.broker.api.group_client import SETTINGS, one_node
from tests.unit.broker.one_node import OneNode
from tidelog.broker.group_seats import GroupCall
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.messages import (
    CommitInTransaction,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndTransaction,
    FetchOffsets,
    Request,
)
from tidelog.groups.records import CommittedOffset
from tidelog.model import TopicPartition
from tidelog.records.control import EndTxnMarker

PARTITIONS = TopicPartition("t", 0), TopicPartition("t", 1)
GROUPS, PRODUCERS = ("g", "h"), (11, 12)
COMPACTED = {
    **SETTINGS,
    "offsets_topic_num_partitions": "1",
    "log_roll_ms": "100",
    "log_cleaner_backoff_ms": "200",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_segment_delete_delay_ms": "100",
}

Key = tuple[str, TopicPartition]


class Model(NamedTuple):
    """What was acknowledged."""

    # What is in force, with the number of its commit.
    offsets: dict[Key, tuple[int, int]]
    # What waits, by producer.
    waiting: dict[int, dict[Key, tuple[int, int]]]

    def delete(self, key: Key) -> None:
        """Also what waits goes."""
        self.offsets.pop(key, None)
        for commits in self.waiting.values():
            commits.pop(key, None)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """What waits counts where it was written."""
        for key, found in self.waiting.pop(producer_id, {}).items():
            if is_commit and self.offsets.get(key, (0, 0)) < found:
                self.offsets[key] = found

    def known(self, group_id: str) -> list[Key]:
        """What a group has, be it what waits."""
        every = {*self.offsets, *(key for each in self.waiting.values() for key in each)}
        return sorted(key for key in every if key[0] == group_id)


class Order:
    """One order of events on a node whose offsets topic is compacted all the time."""

    def __init__(self, seed: int) -> None:
        self.prng = prng = Prng(seed)
        self.settings = {
            **COMPACTED,
            "log_cleaner_delete_retention_ms": str(prng.choice((0, 0, 1000))),
        }
        self.node = one_node(**self.settings)
        self.model = Model({}, {})
        self.count = 0

    def _ask(self, request: Request) -> Any:
        answers: list[Any] = []
        self.node.broker.groups.ask(request, GroupCall(answers.append), self.node.now)
        self.node.settle()
        return answers[0]

    def step(self) -> None:
        """One event; then each group says what the model does."""
        prng, model = self.prng, self.model
        self.count += 1
        group_id, partition = prng.choice(GROUPS), prng.choice(PARTITIONS)
        key, producer_id = (group_id, partition), prng.choice(PRODUCERS)
        value = CommittedOffset(self.count)
        commit = CommitOffsets(group_id, -1, "", None, ((partition, value),))
        match prng.below(16):
            case 0 | 1 | 2 | 3:
                assert self._ask(commit).partitions == ((partition, ErrorCode.NONE),)
                model.offsets[key] = self.count, self.count
            case 4 | 5:
                asked = CommitInTransaction(group_id, producer_id, 0, commit)
                assert self._ask(asked).partitions == ((partition, ErrorCode.NONE),)
                model.waiting.setdefault(producer_id, {})[key] = self.count, self.count
            case 6 | 7 | 8 | 9 | 10:
                self._end(producer_id, is_commit=prng.chance(2, 3))
            case 11:
                self._ask(DeleteOffsets(group_id, (partition,)))
                model.delete(key)
            case 12 if prng.chance(1, 2):
                self._ask(DeleteGroup(group_id))
                for each in model.known(group_id):
                    model.delete(each)
            case 13:
                self._restart()
            case _:
                self.node.advance(prng.choice((50, 300, 600)))
        self._compare()

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        answers: list[Any] = []
        ended = EndTransaction(producer_id, 0, EndTxnMarker(is_commit, 0), False)
        groups = self.node.broker.groups
        groups.end_transaction(0, ended, GroupCall(answers.append), self.node.now)
        self.node.settle()
        assert answers[0].error_code is ErrorCode.NONE
        self.model.end(producer_id, is_commit=is_commit)

    def _restart(self) -> None:
        again = OneNode(disk=self.node.disk, **self.settings)
        again.advance(50)
        self.node = again

    def _compare(self) -> None:
        for group_id in GROUPS:
            found = self._ask(FetchOffsets(group_id, PARTITIONS, require_stable=True))
            values = {key: it and it.offset for key, it in found.offsets}
            for each in PARTITIONS:
                waits = any((group_id, each) in it for it in self.model.waiting.values())
                assert (each in found.unstable) == waits, (group_id, each, found, self.model)
                expected = self.model.offsets.get((group_id, each), (0, None))[1]
                assert waits or values[each] == expected, (group_id, each, found, self.model)
