"""Goal: offsets expire when the rules say so, never earlier, and in slices."""

from dataclasses import replace

import pytest

from tests.unit.groups.consumer_rig import Client, Consumers, image, topic_id
from tests.unit.groups.rig import DELAY_MS, T0, Rig, commit, heartbeat, join, leave, sync
from tidelog.errors import ErrorCode
from tidelog.groups.messages import CommitOffsets, GroupProtocol
from tidelog.groups.records import CommittedOffset, GroupRecord, decode
from tidelog.limits import OFFSETS_EXPIRED_PER_TURN
from tidelog.model import TopicPartition

MINUTE_MS = 60_000
CONFIG = {"offsets_retention_minutes": 10, "offsets_retention_check_interval_ms": MINUTE_MS}
OTHER = TopicPartition("u", 0)


@pytest.fixture
def rig():
    return Rig(**CONFIG)


def stay(rig, member, duration_ms):
    """Time passes, and the member is alive."""
    for _ in range(duration_ms // 5_000):
        rig.advance(5_000)
        rig.send(heartbeat(member, 1))


def test_offsets_of_a_group_that_never_had_members_expire_after_their_commit(rig):
    rig.ask(commit(3))
    rig.advance(5 * MINUTE_MS)
    rig.ask(commit(4, partition=OTHER))
    rig.advance(5 * MINUTE_MS - 1)
    assert rig.committed() == {T0: 3, OTHER: 4}
    rig.advance(MINUTE_MS)
    assert rig.committed() == {OTHER: 4}


def test_offsets_of_a_group_without_members_expire_after_the_last_one_left(rig):
    (member,) = rig.group_of("a")
    rig.ask(commit(3, member, 1))
    stay(rig, member, 9 * MINUTE_MS)
    rig.ask(leave(member))
    rig.advance(9 * MINUTE_MS)
    assert rig.committed() == {T0: 3}
    rig.advance(2 * MINUTE_MS)
    assert rig.committed() == {}
    # And with them the group.
    last = decode(rig.partition.batches[-1].records[-1])
    assert last == GroupRecord("g", None)


def test_a_fresh_commit_to_a_group_that_has_long_been_empty_stays(rig):
    (member,) = rig.group_of("a")
    rig.ask(commit(3, member, 1))
    rig.ask(leave(member))
    rig.advance(9 * MINUTE_MS)
    rig.ask(commit(4))
    rig.advance(9 * MINUTE_MS)
    assert rig.committed() == {T0: 4}


def test_what_members_are_subscribed_to_never_expires(rig):
    (member,) = rig.group_of("a")
    for partition in (T0, OTHER):
        rig.ask(commit(3, member, 1, partition=partition))
    stay(rig, member, 20 * MINUTE_MS)
    assert rig.committed() == {T0: 3}


def test_nothing_expires_while_the_topics_of_members_are_not_known(rig):
    number = rig.send(join(requires_member_id=False, protocols=(GroupProtocol("odd", b""),)))
    rig.advance(2 * DELAY_MS)
    member = rig.answers[number].member_id
    rig.ask(sync(member, 1))
    rig.ask(commit(3, member, 1, partition=OTHER))
    stay(rig, member, 20 * MINUTE_MS)
    assert rig.committed() == {OTHER: 3}


def test_an_expiry_of_its_own_counts(rig):
    value = CommittedOffset(3, expire_timestamp_ms=rig.coordinator.wall_offset_ms + 90_000)
    rig.ask(CommitOffsets("g", -1, "", None, ((T0, value),)))
    rig.advance(MINUTE_MS + 1)
    assert rig.committed() == {T0: 3}
    rig.advance(MINUTE_MS)
    assert rig.committed() == {}


def test_a_member_id_that_was_given_out_keeps_the_group(rig):
    (member,) = rig.group_of("a")
    rig.ask(leave(member))
    rig.join_new(session_timeout_ms=100_000)
    rig.advance(MINUTE_MS)
    assert rig.coordinator.committed.get("g") is not None
    rig.advance(2 * MINUTE_MS)
    assert rig.coordinator.committed.get("g") is None


def test_many_offsets_are_looked_at_in_slices(rig):
    for number in range(30):
        offsets = tuple((TopicPartition("t", each), CommittedOffset(1)) for each in range(100))
        rig.ask(CommitOffsets(f"g{number}", -1, "", None, offsets))
    rig.advance(10 * MINUTE_MS)
    before = len(rig.coordinator.committed.groups)
    while len(rig.coordinator.committed.groups) == before:
        rig.now += 1
        rig.coordinator.wake(rig.now)
        rig.commit()
    expired = before - len(rig.coordinator.committed.groups)
    assert 0 < expired * 100 <= OFFSETS_EXPIRED_PER_TURN + 100
    rig.advance(100)
    assert not len(rig.coordinator.committed.groups)


def test_more_offsets_expire_than_one_batch_takes(rig):
    """A group with too many was kept for good, and so were all behind it in the look."""
    many = [TopicPartition("u", number) for number in range(2 * OFFSETS_EXPIRED_PER_TURN + 1)]
    rows = tuple((each, CommittedOffset(3)) for each in many)
    rig.ask(commit(3)._replace(offsets=rows))
    others = ("e", "f", "h")
    for group_id in others:
        rig.ask(commit(3, group_id=group_id))
    # A tombstone has 11 bytes.
    rig.partition.max_batch_bytes = 12 * OFFSETS_EXPIRED_PER_TURN
    rig.advance(11 * MINUTE_MS)
    assert not rig.coordinator.entries


def test_what_cannot_be_written_keeps_no_other_group(rig):
    for group_id in ("e", "f" * 3000, "g", "h"):
        rig.ask(commit(3, group_id=group_id))
    rig.partition.max_batch_bytes = 2000
    rig.advance(11 * MINUTE_MS)
    assert [group_id for group_id, _ in rig.coordinator.entries.items()] == ["f" * 3000]


def test_offsets_of_a_consumer_group_expire_where_no_member_is_subscribed():
    rig = Consumers(consumer_session_timeout_ms=1 << 30, **CONFIG)
    member = Client(rig, "a", "t")
    member.beat()
    for partition in (T0, OTHER):
        rig.ask(commit(3, "a", member.epoch, partition=partition))
    rig.advance(12 * MINUTE_MS)
    assert rig.committed() == {T0: 3}
    member.leave()
    rig.advance(2 * MINUTE_MS)
    assert rig.coordinator.committed.get("g") is None


def test_offsets_of_a_deleted_topic_go_at_once():
    rig = Consumers(topics={"t": 1, "u": 1}, **CONFIG)
    member = Client(rig, "a", "t", "u")
    member.beat()
    for partition in (T0, OTHER):
        value = CommittedOffset(3, topic_id=topic_id(partition.topic))
        rig.ask(CommitOffsets("g", member.epoch, "a", None, ((partition, value),), True))
    # Another topic came in the same image.
    rig.coordinator.topics.update(replace(image(t=1, v=1), deleted_topics=1))
    assert rig.coordinator.deadline() == 0
    rig.advance(1)
    assert rig.committed() == {T0: 3}
    assert rig.coordinator.deadline() > rig.now, "it is looked at once"


def test_a_group_whose_members_were_silent_stays_when_topics_are_deleted():
    """Its members may come back, and begin anew (seed cluster all 46470739)."""
    rig = Consumers(topics={"t": 1, "u": 1}, consumer_session_timeout_ms=1000, **CONFIG)
    member = Client(rig, "a", "t")
    member.beat()
    rig.advance(1001)
    rig.coordinator.topics.update(replace(image(t=1), deleted_topics=1))
    rig.advance(1)
    assert member.beat() is ErrorCode.UNKNOWN_MEMBER_ID
