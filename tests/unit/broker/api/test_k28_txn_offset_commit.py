"""TxnOffsetCommit: the transaction's coordinator is asked; offsets count when it commits."""

import pytest

from tests.unit.broker.api.group_client import commit, fetch, join, one_node, sync
from tests.unit.broker.api.test_k27_write_txn_markers import mark
from tests.unit.broker.api.wire_turns import versions
from tests.unit.broker.scripted_coordinator import ScriptedCoordinator
from tidelog.errors import ErrorCode
from tidelog.rsm.placement import partition_of
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

KEY = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = versions(KEY)
OFFSETS = ("__consumer_offsets", partition_of("g", 3))


class Bench:
    """A node that coordinates all groups, and a script that coordinates transactions."""

    def __init__(self):
        self.node = one_node()
        self.coordinator = ScriptedCoordinator(self.node)
        self.wire = self.node.client()
        self._asked = 0

    def send(self, version, offset, number=0, *, epoch=0, topic="t", **values):
        row = {
            "partition_index": number,
            "committed_offset": offset,
            "committed_leader_epoch": 1,
            "committed_metadata": "note",
        }
        self._asked += 1
        asked = {
            "transactional_id": "tx",
            "group_id": "g",
            "producer_id": 5,
            "producer_epoch": epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [row]}],
        }
        entity = make(codec.request_class(KEY, version), **{**asked, **values})
        self.wire.send(codec.encode_request(entity, self._asked, "c"))

    def codes(self, version):
        return [
            error_of(row.error_code).name
            for frame in self.wire.frames()
            for topic in codec.decode_response(KEY, version, frame)[1].topics
            for row in topic.partitions
        ]

    def commit(self, version, offset, **values):
        """Commits; the transaction is asked about if it has to be."""
        self.send(version, offset, **values)
        if self.coordinator.listen():
            self.coordinator.answer()
        (found,) = self.codes(version)
        return found

    def end(self, *, is_commit, epoch=0):
        topics = {OFFSETS[0]: (OFFSETS[1],)}
        return mark(self.node.client(), 2, (epoch, is_commit, 0, 0, topics))[0][OFFSETS]

    def stable(self, version=9):
        """What a consumer that wants stable offsets gets of partition 0."""
        return fetch(self.node.client(), version, {"t": [0]}, require_stable=True)[1]["t", 0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_count_when_the_transaction_commits(version, is_commit):
    bench = Bench()
    assert commit(bench.wire, 9, {"t": {0: 3}}) == {("t", 0): ErrorCode.NONE}
    assert bench.commit(version, 7) == "NONE"
    assert bench.stable() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetch(bench.wire, 9, {"t": [0]})[1]["t", 0] == (3, ErrorCode.NONE)
    assert bench.end(is_commit=is_commit) == "NONE"
    assert bench.stable() == (7 if is_commit else 3, ErrorCode.NONE)


@pytest.mark.parametrize(("version", "verify_only"), [(4, True), (5, False)])
def test_the_partition_of_the_group_has_to_be_in_the_transaction(version, verify_only):
    bench = Bench()
    bench.send(version, 7)
    (asked,) = bench.coordinator.listen()
    (transaction,) = asked.transactions
    assert transaction.verify_only is verify_only
    assert [(each.name, each.partitions) for each in transaction.topics] == [
        (OFFSETS[0], (OFFSETS[1],))
    ]
    bench.coordinator.answer(ErrorCode.TRANSACTION_ABORTABLE)
    assert bench.codes(version) == ["TRANSACTION_ABORTABLE"]
    assert bench.stable() == (-1, ErrorCode.NONE)


def test_an_answer_after_the_end_of_the_transaction_is_void():
    bench = Bench()
    bench.send(5, 7)
    bench.coordinator.listen()
    assert bench.end(is_commit=False, epoch=1) == "NONE"
    bench.coordinator.answer()
    assert bench.codes(5) == ["INVALID_TXN_STATE"]
    assert bench.stable() == (-1, ErrorCode.NONE)


@pytest.mark.parametrize("version", [each for each in VERSIONS if each >= 3])
def test_only_the_generation_commits(version):
    bench = Bench()
    wire = bench.node.client()
    joined = join(wire, 5)
    sync(wire, 3, joined)
    member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    assert bench.commit(version, 1, **{**member, "generation_id": 77}) == "ILLEGAL_GENERATION"
    assert bench.commit(version, 1, **{**member, "member_id": "x"}) == "UNKNOWN_MEMBER_ID"
    assert bench.commit(version, 1, **member) == "NONE"
    assert bench.commit(version, 2) == "NONE"
    stranger = {"group_id": "other", "generation_id": 1, "member_id": "m"}
    assert bench.commit(version, 1, **stranger) == "ILLEGAL_GENERATION"


def test_an_older_producer_and_an_unknown_topic_are_refused():
    bench = Bench()
    assert bench.commit(5, 1, epoch=4) == "NONE"
    assert bench.end(is_commit=True, epoch=4) == "NONE"
    assert bench.commit(5, 9, epoch=3) == "INVALID_PRODUCER_EPOCH"
    bench.send(5, 9, topic="nothing")
    bench.send(5, 9, number=9)
    bench.send(5, 9, group_id="")
    assert bench.codes(5) == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2 + ["INVALID_GROUP_ID"]
    assert bench.stable() == (1, ErrorCode.NONE)


def test_a_new_coordinator_knows_what_waits():
    bench = Bench()
    assert bench.commit(5, 7) == "NONE"
    (coordinator,) = [
        each for each in bench.node.broker.groups.coordinators() or () if len(each.entries)
    ]
    assert list(coordinator.committed.open) == [5]
    number = OFFSETS[1]
    seat = bench.node.broker.groups._seats[number]
    bench.node.broker.groups._leave(number, seat)
    bench.node.broker.groups._keep(dict.fromkeys(range(3), seat.leader_epoch))
    bench.node.settle()
    assert bench.stable() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert bench.end(is_commit=True) == "NONE"
    assert bench.stable() == (7, ErrorCode.NONE)


def test_without_its_coordinator_a_marker_has_to_come_again():
    bench = Bench()
    seat = bench.node.broker.groups._seats[OFFSETS[1]]
    bench.node.broker.groups._leave(OFFSETS[1], seat)
    assert bench.end(is_commit=True) == "NOT_LEADER_OR_FOLLOWER"
