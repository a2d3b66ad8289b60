"""Goal: only who may commit commits, and only what may be deleted is."""

from dataclasses import replace

import pytest

from tests.unit.groups.consumer_rig import Consumers, image, topic_id
from tests.unit.groups.rig import T0, T1, Rig, commit, join
from tests.unit.rsm.coordinator_rig import WALL_MS
from tidelog.errors import ErrorCode
from tidelog.groups import coordinator
from tidelog.groups.messages import CommitOffsets, DeleteOffsets, FetchOffsets, GroupProtocol
from tidelog.groups.records import CommittedOffset
from tidelog.model import ZERO_TOPIC_ID, TopicPartition
from tidelog.rsm.coordinator import Refused

OTHER_TOPIC = TopicPartition("u", 0)


@pytest.fixture
def rig():
    return Rig()


def test_anyone_commits_for_a_group_without_members(rig):
    rig.advance(5)
    assert rig.ask(commit(3)).partitions == ((T0, ErrorCode.NONE),)
    answer = rig.ask(FetchOffsets("g", (T0, T1)))
    assert answer.offsets == ((T0, CommittedOffset(3, commit_timestamp_ms=WALL_MS + 5)), (T1, None))
    # It may go back: that is what resetting is.
    rig.ask(commit(1))
    assert rig.committed() == {T0: 1}


def test_members_commit_for_their_generation(rig):
    (member,) = rig.group_of("a")
    assert rig.ask(commit(3, member, 1)).partitions == ((T0, ErrorCode.NONE),)
    rig.ask(join(member))
    # In between, and until the assignment: a commit could be that of another member's partition.
    assert rig.ask(commit(4, member, 2)) == Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    assert rig.committed() == {T0: 3}


@pytest.mark.parametrize(
    ("name", "generation_id", "code"),
    [
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("who", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", 0, ErrorCode.ILLEGAL_GENERATION),
        ("member", 2, ErrorCode.ILLEGAL_GENERATION),
        ("member", -1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_others_do_not(rig, name, generation_id, code):
    """OnlyTheGeneration: the process that was replaced does not move its successor back."""
    (member,) = rig.group_of("a")
    member_id = member if name == "member" else name
    assert rig.ask(commit(3, member_id, generation_id)) == Refused(code)
    assert rig.committed() == {}


def test_a_generation_of_a_group_that_does_not_exist(rig):
    assert rig.ask(commit(3, "who", 4)) == Refused(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_static_member_that_was_replaced_commits_nothing(rig):
    number = rig.send(join(group_instance_id="x"))
    rig.advance(20)
    member = rig.answers[number].member_id
    rig.send(join(group_instance_id="x"))
    request = CommitOffsets("g", 1, member, "x", ((T0, CommittedOffset(1)),))
    assert rig.ask(request) == Refused(ErrorCode.FENCED_INSTANCE_ID)


def test_a_commit_renews_the_session(rig):
    (member,) = rig.group_of("a")
    for offset in range(5):
        rig.advance(9_000)
        assert rig.ask(commit(offset, member, 1)).partitions == ((T0, ErrorCode.NONE),)


def test_texts_that_are_too_long_are_refused_one_by_one(rig):
    request = CommitOffsets(
        "g",
        -1,
        "",
        None,
        (
            (T0, CommittedOffset(1, metadata="x" * 4096)),
            (T1, CommittedOffset(1, metadata="x" * 4097)),
        ),
    )
    assert rig.ask(request).partitions == (
        (T0, ErrorCode.NONE),
        (T1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    )
    assert rig.committed() == {T0: 1}


def test_what_is_too_large_for_the_partition_is_refused(rig):
    rig.partition.max_batch_bytes = 10
    assert rig.ask(commit(1)) == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert rig.committed() == {}


def test_more_rows_than_a_batch_may_have_are_refused(monkeypatch):
    """Nothing else bounds the rows of a request: it may name one partition again and again."""
    monkeypatch.setattr(coordinator, "MAX_GROUP_RECORDS_PER_BATCH", 3)
    rig = Rig()
    rows = commit(3).offsets
    assert rig.ask(commit(3)._replace(offsets=rows * 4)) == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert rig.committed() == {}
    rig.ask(commit(3)._replace(offsets=rows * 3))
    assert rig.committed() == {T0: 3}


def test_while_too_many_wait_for_replicas_more_are_refused(rig):
    rig.coordinator._kernel._max_pending = 2
    numbers = [rig.send(commit(offset)) for offset in range(3)]
    assert rig.answers == {numbers[2]: Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
    rig.commit()
    assert rig.committed() == {T0: 1}


def test_nothing_is_known_of_an_unknown_group(rig):
    assert rig.ask(FetchOffsets("nothing", (T0,))).offsets == ((T0, None),)
    assert rig.ask(FetchOffsets("nothing", None)).offsets == ()


def test_an_offset_of_a_former_topic_is_none_of_its_successor():
    """It is forgotten soon. Until then, and while replicas do not follow, a consumer that took it
    would begin behind records of the new topic."""
    rig = Consumers(topics={"t": 2})
    for partition, known in ((T0, topic_id("t")), (T1, ZERO_TOPIC_ID)):
        value = CommittedOffset(7, topic_id=known)
        rig.ask(CommitOffsets("g", -1, "", None, ((partition, value),)))
    assert rig.committed() == {T0: 7, T1: 7}
    again = replace(image(t=2).topics_by_name["t"], topic_id=topic_id("the next t"))
    topics = {"topics_by_name": {"t": again}, "topics_by_id": {again.topic_id: again}}
    rig.coordinator.topics.update(replace(image(), deleted_topics=1, **topics))
    # An old record does not say of which topic it is.
    assert rig.committed() == {T1: 7}
    assert rig.answers[rig.send(FetchOffsets("g", (T0,)))].offsets == ((T0, None),)
    assert rig.answers[rig.send(FetchOffsets("g", None))].offsets[0][0] == T1
    # Where there is no such topic at all, an administrator sees what there was.
    rig.coordinator.topics.update(image())
    assert rig.committed() == {T0: 7, T1: 7}


# Deletions ---------------------------------------------------------------------------------


def test_offsets_of_topics_without_subscribers_are_deleted(rig):
    (member,) = rig.group_of("a")
    for partition in (T0, OTHER_TOPIC):
        rig.ask(commit(3, member, 1, partition=partition))
    result = rig.ask(DeleteOffsets("g", (T0, OTHER_TOPIC, T1)))
    assert result.partitions == (
        (T0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (OTHER_TOPIC, ErrorCode.NONE),
        (T1, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
    )
    assert rig.committed() == {T0: 3}


@pytest.mark.parametrize("metadata", [b"", b"\x00\x00\x00\x00\x00\x01\x00\x09t"])
def test_consumers_whose_topics_are_not_known_may_read_all(rig, metadata):
    """As Kafka's `ClassicGroup.isSubscribedToTopic`: what cannot be read is not nothing."""
    rig.ask(commit(3))
    number = rig.send(join(protocols=(GroupProtocol("odd", metadata),), requires_member_id=False))
    for _ in range(2):
        # Before the first generation, too.
        refused = ((OTHER_TOPIC, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),)
        assert rig.ask(DeleteOffsets("g", (OTHER_TOPIC,))).partitions == refused
        rig.advance(20)
    assert rig.answers[number].error_code is ErrorCode.NONE


def test_the_protocol_of_the_generation_says_what_members_read(rig):
    other = GroupProtocol("other", b"\x00\x00\x00\x00\x00\x01\x00\x01u")
    both = (*join().protocols, other)
    rig.send(join(protocols=both, requires_member_id=False))
    rig.advance(20)
    result = rig.ask(DeleteOffsets("g", (T0, OTHER_TOPIC)))
    assert result.partitions == (
        (T0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (OTHER_TOPIC, ErrorCode.NONE),
    )


def test_offsets_of_a_group_without_members_are_deleted(rig):
    rig.ask(commit(3))
    assert rig.ask(DeleteOffsets("g", (T0,))).partitions == ((T0, ErrorCode.NONE),)
    assert rig.committed() == {}
    assert rig.ask(DeleteOffsets("g", (T0,))).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_of_others_than_consumers_must_be_empty(rig):
    kind = {"protocol_type": "connect", "protocols": (GroupProtocol("v1", b""),)}
    number = rig.send(join(requires_member_id=False, **kind))
    rig.advance(20)
    assert rig.answers[number].error_code is ErrorCode.NONE
    assert rig.ask(DeleteOffsets("g", (T0,))).error_code is ErrorCode.NON_EMPTY_GROUP
    assert rig.ask(DeleteOffsets("", ())).error_code is ErrorCode.INVALID_GROUP_ID
