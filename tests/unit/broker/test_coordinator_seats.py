"""Goal: a coordinator is where its partition is led, and answers only what it can stand for."""

import pytest

from tests.unit.broker.api.group_client import (
    SETTINGS,
    commit,
    fetch,
    find,
    join,
    one_node,
    refused_everywhere,
    sync,
)
from tests.unit.broker.one_node import OneNode
from tidelog.broker.group_seats import GroupCall, GroupSeats
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace
from tidelog.errors import ErrorCode, LogDamaged
from tidelog.groups.messages import FetchOffsets
from tidelog.groups.records import CommittedOffset, OffsetRecord, encode
from tidelog.limits import COORDINATOR_LOAD_BYTES_PER_TURN
from tidelog.metadata.image import MetadataImage
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.rsm.coordinator import Refused
from tidelog.wire.api import ApiKey
from tidelog.wire.values import millis

P0 = TopicPartition(OFFSETS_TOPIC, 0)
ONE_PARTITION = {"offsets_topic_num_partitions": "1"}


def restarted(node, **settings):
    """The node after a kill, on the same disk."""
    again = OneNode(disk=node.disk, **{**SETTINGS, **settings})
    again.advance(100)
    return again


def test_offsets_and_members_are_there_after_a_restart():
    node = one_node()
    wire = node.client()
    joined = join(wire, 9)
    sync(wire, 5, joined)
    member = {"generation_id": 1, "member_id": joined.member_id}
    assert commit(wire, 9, {"t": {0: 7}}, **member) == {("t", 0): ErrorCode.NONE}
    commit(wire, 9, {"t": {1: 8}}, group_id="other")
    again = restarted(node)
    wire = again.client()
    assert fetch(wire, 9, None)[1] == {("t", 0): (7, ErrorCode.NONE)}
    assert fetch(wire, 9, None, "other")[1] == {("t", 1): (8, ErrorCode.NONE)}
    assert commit(wire, 9, {"t": {0: 9}}, **member) == {("t", 0): ErrorCode.NONE}
    # Its session began with the new coordinator, and ends like any other.
    again.advance(10_001)
    assert commit(wire, 9, {"t": {0: 9}}, **member) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}


def seats_of(node):
    """Coordinators of their own over the replicas of a node, before they have loaded."""
    seats = GroupSeats(
        config=node.broker.config,
        replicas=node.broker.replicas,
        prng=Prng(1),
        trace=Trace(node.trace),
    )
    seats.on_image(node.broker.image)
    seats.flow(node.now)
    return seats


def asked(seats, node, group_id="g"):
    answers = []
    seats.ask(FetchOffsets(group_id, None), GroupCall(answers.append), node.now)
    seats.flow(node.now)
    return answers[0]


def commit_notes(wire, group_id, offset, partitions=1, size=3000):
    """A commit with a text of so many bytes for each partition: one batch."""
    rows = [
        {"partition_index": each, "committed_offset": offset, "committed_metadata": "x" * size}
        for each in range(partitions)
    ]
    wire.call(
        ApiKey.OFFSET_COMMIT,
        9,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": rows}],
    )


def test_a_turn_begins_no_batch_that_may_be_too_large_for_it():
    node = one_node(**ONE_PARTITION, offset_metadata_max_bytes="20000")
    for number in range(5):
        commit_notes(node.client(), f"g{number}", number, partitions=2, size=20_000)
    size = node.broker.replicas.partitions[P0].log.size_bytes
    assert COORDINATOR_LOAD_BYTES_PER_TURN // 2 < size // 5 < COORDINATOR_LOAD_BYTES_PER_TURN
    seats = seats_of(node)
    steps = 0
    while isinstance(asked(seats, node), Refused):
        seats.wake(node.now)
        steps += 1
    # Three batches are read in the first turn, the others in the second, in which two of the ten
    # records are replayed; then four a turn, and one in which the coordinator begins.
    assert steps == 5


def overwritten(node, rounds):
    """A log in which each round is overwritten by the next one."""
    wire = node.client()
    for offset in range(rounds):
        for number in range(10):
            commit_notes(wire, f"g{number}", offset)
    return node.broker.replicas.partitions[P0].log.size_bytes


def test_what_is_overwritten_is_read_and_not_replayed():
    node = one_node(**ONE_PARTITION)
    size = overwritten(node, 20)
    seats = seats_of(node)
    steps = 0
    while isinstance(asked(seats, node), Refused):
        seats.wake(node.now)
        seats.check()
        steps += 1
    assert steps < size // COORDINATOR_LOAD_BYTES_PER_TURN
    assert asked(seats, node, "g9").offsets[0][1].offset == 19


def test_a_load_that_is_cut_short_leaves_nothing():
    """Another broker led meanwhile, for all that the next load knows."""
    node = one_node(**ONE_PARTITION)
    overwritten(node, 20)
    seats = seats_of(node)
    seats.wake(node.now)
    seats.on_image(MetadataImage())
    assert asked(seats, node) == Refused(ErrorCode.NOT_COORDINATOR)
    seats.on_image(node.broker.image)
    while isinstance(asked(seats, node), Refused):
        seats.wake(node.now)
        seats.check()
    assert sorted(each.group_id for each in seats.list_groups()) == [f"g{n}" for n in range(10)]
    assert asked(seats, node, "g9").offsets[0][1].offset == 19


def test_a_value_that_cannot_be_read_is_passed_over_where_it_is_overwritten():
    node = one_node(**ONE_PARTITION)
    wire = node.client()
    replicas = node.broker.replicas
    key, value = encode(OffsetRecord("g", TopicPartition("t", 0), CommittedOffset(7)))
    for each in (b"\x00\x63", value):
        batch = build_batch([Record(0, key, each)])
        replicas.append_as_coordinator(P0, replicas.partitions[P0].leader_epoch, batch, 0)
    node.settle()
    assert fetch(wire, 9, None)[1] == {}
    again = restarted(node, **ONE_PARTITION)
    assert fetch(again.client(), 9, None)[1] == {("t", 0): (7, ErrorCode.NONE)}


def test_a_large_log_is_loaded_in_steps():
    node = one_node(**ONE_PARTITION)
    wire = node.client()
    for number in range(120):
        commit_notes(wire, f"g{number}", number)
    size = node.broker.replicas.partitions[P0].log.size_bytes
    assert size > 5 * COORDINATOR_LOAD_BYTES_PER_TURN
    seats = seats_of(node)
    steps = 0
    while isinstance(asked(seats, node), Refused):
        assert asked(seats, node) == Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert seats.deadline() is not None and seats.list_groups() is None
        seats.wake(node.now)
        seats.check()
        steps += 1
    assert steps >= size // (COORDINATOR_LOAD_BYTES_PER_TURN + 4000)
    assert asked(seats, node, "g119").offsets[0][1].offset == 119
    assert len(seats.list_groups() or ()) == 120
    assert seats.deadline() > node.now


def test_a_log_whose_beginning_goes_meanwhile_is_loaded_from_there_on():
    """An administrator may set a retention for it."""
    node = one_node(**ONE_PARTITION)
    overwritten(node, 20)
    seats = seats_of(node)
    seats.wake(node.now)
    log = node.broker.replicas.partitions[P0].log
    assert log.maybe_raise_log_start_offset(log.log_end_offset - 5)
    while isinstance(asked(seats, node), Refused):
        seats.wake(node.now)
        seats.check()
    assert asked(seats, node, "g9").offsets[0][1].offset == 19


def test_a_log_that_goes_when_all_of_it_is_read_has_no_coordinator():
    """A client reads damage in it before the turn in which the coordinator would begin."""
    node = one_node(**ONE_PARTITION)
    overwritten(node, 20)
    seats = seats_of(node)
    loader = seats._seats[0].loader
    while not loader.is_done:
        seats.wake(node.now)
    replicas = node.broker.replicas
    damage = LogDamaged("`1` bad byte", base_offset=0)
    replicas._roles.on_failure(replicas.partitions[P0], damage, node.now)
    assert P0 not in replicas.partitions
    seats.wake(node.now)
    seats.flow(node.now)
    seats.check()
    assert asked(seats, node) == Refused(ErrorCode.NOT_COORDINATOR)
    assert seats.deadline() is None


def test_what_is_not_committed_is_not_loaded():
    """LoadedFirst: a new leader waits until its replicas have what it took over."""
    node = one_node(**ONE_PARTITION)
    commit(node.client(), 9, {"t": {0: 7}})
    log = node.broker.replicas.partitions[P0].log
    log.high_watermark = 0
    seats = seats_of(node)
    for _ in range(5):
        seats.wake(node.now)
        seats.flow(node.now)
    assert asked(seats, node) == Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert seats.deadline() is None
    log.high_watermark = log.log_end_offset
    seats.flow(node.now)
    for _ in range(2):
        seats.wake(node.now)
    assert asked(seats, node).offsets[0][1].offset == 7


def test_a_record_that_cannot_be_read_leaves_its_groups_without_a_coordinator():
    """A wrong answer would be one that was made up from half a log."""
    node = one_node(**ONE_PARTITION)
    wire = node.client()
    commit(wire, 9, {"t": {0: 7}})
    replicas = node.broker.replicas
    epoch = replicas.partitions[P0].leader_epoch
    bad = build_batch([Record(0, b"\x00\x02\x00\x01g", b"\x00\x63")])
    replicas.append_as_coordinator(P0, epoch, bad, 0)
    node.settle()
    again = restarted(node, **ONE_PARTITION)
    assert refused_everywhere(again.client()) == {ErrorCode.NOT_COORDINATOR}
    (found,) = [each for each in again.trace.events if "CoordinatorNotLoaded" in repr(each)]
    assert "hint" in repr(found)


def test_what_is_answered_is_not_kept():
    """For the length of a time-out it would be as much memory as clients like to send."""
    node = one_node()
    wire = node.client()
    for offset in range(20):
        commit(wire, 9, {"t": {0: offset}})
    assert not node.broker.groups._held


def test_a_topic_that_is_created_again_has_other_coordinators():
    node = one_node()
    wire = node.client()
    commit(wire, 9, {"t": {0: 7}})
    replicas = node.broker.replicas.partitions
    before = {key: each.topic_id for key, each in replicas.items() if key.topic == OFFSETS_TOPIC}
    wire.call(ApiKey.DELETE_TOPICS, 4, topic_names=(OFFSETS_TOPIC,), timeout=millis(1000))
    assert refused_everywhere(wire) == {ErrorCode.NOT_COORDINATOR}
    find(wire)
    node.run_until(lambda: OFFSETS_TOPIC in node.broker.image.topics_by_name)
    node.settle()
    after = {key: each.topic_id for key, each in replicas.items() if key.topic == OFFSETS_TOPIC}
    assert set(before.values()).isdisjoint(after.values())
    assert fetch(wire, 9, {"t": [0]})[1] == {("t", 0): (-1, ErrorCode.NONE)}


def test_the_check_can_fail():
    node = one_node()
    seats = node.broker.groups
    seats.check()
    for seat in seats._seats.values():
        seat.coordinator.resign()
    seats._forget_deadlines()
    with pytest.raises(AssertionError, match="EveryRequestEnds"):
        seats.check()
