"""Answers to repeated requests, judged by the metadata before and after."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import a_broker, an_image, topic_id_of
from tidelog.controller.acl_messages import DeleteAcls, DeleteAclsResult, DeletedAcls
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    ElectionResult,
    ElectLeaders,
    ElectLeadersResult,
    Reassignment,
    ReassignmentResult,
    Refused,
    UnregisterBroker,
    UnregisterBrokerResult,
)
from tidelog.controller.repeats import settle
from tidelog.controller.topic_messages import (
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    MorePartitions,
    MorePartitionsResult,
    NewTopic,
    NewTopicResult,
    TopicRef,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import AclFilter, entry_of
from tidelog.metadata.image import ConfigResource, MetadataImage, PartitionImage
from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.model import Uuid

ONE = PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0)
MOVING = PartitionImage((2, 3, 1), (1, 3), 1, 0, 0, adding_replicas=(2,), removing_replicas=(1,))
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))
NOTHING = an_image(*LIVE)
CONFIGS = {ConfigResource(2, "t"): {"retention.ms": "9"}}
EXISTS = NewTopicResult("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


def with_t(*partitions: PartitionImage, configured: bool = False) -> MetadataImage:
    """An image with a topic `t`."""
    return an_image(*LIVE, configs=CONFIGS if configured else None, t=partitions)


CREATED = with_t(ONE, ONE)


@pytest.mark.parametrize(
    ("before", "after", "wish", "code"),
    [
        (NOTHING, CREATED, NewTopic("t", 2, 3), ErrorCode.NONE),
        (NOTHING, CREATED, NewTopic("t", -1, -1), ErrorCode.NONE),
        (NOTHING, CREATED, NewTopic("t", assignments=((0, (1, 2, 3)), (1, (1, 2, 3)))), "NONE"),
        (
            NOTHING,
            with_t(ONE, configured=True),
            NewTopic("t", configs=(("retention.ms", "9"),)),
            "NONE",
        ),
        # It was there, is not there yet, or is another one.
        (CREATED, CREATED, NewTopic("t", 2, 3), EXISTS.error_code),
        (NOTHING, NOTHING, NewTopic("t", 2, 3), None),
        (NOTHING, CREATED, NewTopic("t", 3, 3), EXISTS.error_code),
        (NOTHING, CREATED, NewTopic("t", 2, 2), EXISTS.error_code),
        (NOTHING, CREATED, NewTopic("t", assignments=((0, (1, 2, 3)),)), EXISTS.error_code),
        (NOTHING, CREATED, NewTopic("t", configs=(("retention.ms", "9"),)), EXISTS.error_code),
        (NOTHING, with_t(ONE, configured=True), NewTopic("t"), EXISTS.error_code),
    ],
)
def test_a_creation(
    before: MetadataImage, after: MetadataImage, wish: NewTopic, code: ErrorCode | str | None
) -> None:
    settled = settle(before, after, CreateTopics((wish,)), CreateTopicsResult((EXISTS,)))
    if code is None:
        assert settled is None
        return
    assert isinstance(settled, CreateTopicsResult)
    [result] = settled.topics
    assert result.error_code is (ErrorCode[code] if isinstance(code, str) else code)
    if result.error_code is ErrorCode.NONE:
        topic = after.topics_by_name["t"]
        assert (result.topic_id, result.message) == (topic.topic_id, None)
        assert (result.num_partitions, result.replication_factor) == (len(topic.partitions), 3)


def test_a_validation_created_nothing() -> None:
    request = CreateTopics((NewTopic("t", 2, 3),), validate_only=True)
    answer = CreateTopicsResult((EXISTS,))
    assert settle(NOTHING, CREATED, request, answer) == answer


@pytest.mark.parametrize("by_id", [False, True])
def test_a_deletion(by_id: bool) -> None:
    """Goal: by name and by id; one that was unknown before stays unknown."""
    topic_id = topic_id_of("t")
    ref = TopicRef(None, topic_id) if by_id else TopicRef("t")
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = DeleteTopicsResult((DeletedTopic(*ref, code, "not here"),))
    request = DeleteTopics((ref,))
    deleted = DeleteTopicsResult((DeletedTopic("t", topic_id, ErrorCode.NONE),))
    assert settle(CREATED, NOTHING, request, answer) == deleted
    assert settle(CREATED, CREATED, request, answer) is None
    assert settle(NOTHING, NOTHING, request, answer) == answer


def test_more_partitions() -> None:
    """Goal: success when there are as many as were asked for and there were less."""
    request = CreatePartitions((MorePartitions("t", 2),))
    refused = MorePartitionsResult("t", ErrorCode.INVALID_PARTITIONS, "has 2 already")
    answer = CreatePartitionsResult((refused,))
    done = CreatePartitionsResult((MorePartitionsResult("t", ErrorCode.NONE),))
    assert settle(with_t(ONE), with_t(ONE, ONE), request, answer) == done
    assert settle(with_t(ONE), with_t(ONE), request, answer) is None
    assert settle(with_t(ONE, ONE), with_t(ONE, ONE), request, answer) == answer
    assert settle(with_t(ONE), with_t(ONE, ONE, ONE), request, answer) == answer


def test_an_election() -> None:
    request = ElectLeaders(0, (("t", (0,)),))
    answer = ElectLeadersResult((ElectionResult("t", 0, ErrorCode.ELECTION_NOT_NEEDED, "no"),))
    done = ElectLeadersResult((ElectionResult("t", 0, ErrorCode.NONE),))
    led_by_2 = with_t(replace(ONE, leader=2))
    assert settle(led_by_2, with_t(ONE), request, answer) == done
    assert settle(with_t(ONE), with_t(ONE), request, answer) == answer
    assert settle(led_by_2, NOTHING, request, answer) == answer


def test_a_topic_that_was_made_anew_says_nothing_of_the_one_before() -> None:
    """It may not even have the partition (seed cluster all 23656803)."""
    request = ElectLeaders(0, (("t", (1,)),))
    refused = ElectionResult("t", 1, ErrorCode.ELECTION_NOT_NEEDED, "no")
    answer = ElectLeadersResult((refused,))
    for partitions in ((ONE,), (ONE, replace(ONE, leader=3))):
        after = with_t(*partitions)
        made_anew = replace(after.topics_by_name["t"], topic_id=topic_id_of("another"))
        after = replace(after, topics_by_name={"t": made_anew})
        assert settle(CREATED, after, request, answer) == answer


@pytest.mark.parametrize(("election_type", "leader", "new"), [(0, 2, 1), (1, -1, 2)])
def test_an_election_that_this_node_has_not_received(
    election_type: int, leader: int, new: int
) -> None:
    """Goal: who still sees an election to hold knows too little for an answer."""
    request = ElectLeaders(election_type, (("t", (0,)),))
    answer = ElectLeadersResult((ElectionResult("t", 0, ErrorCode.ELECTION_NOT_NEEDED, "no"),))
    before = with_t(replace(ONE, leader=leader))
    assert settle(before, before, request, answer) is None
    done = ElectLeadersResult((ElectionResult("t", 0, ErrorCode.NONE),))
    assert settle(before, with_t(replace(ONE, leader=new)), request, answer) == done


def test_entries_that_the_first_attempt_deleted_are_named() -> None:
    """Goal: the answer names what the request has deleted, not what its repetition found."""
    records = [
        AccessControlEntryRecord(
            id=Uuid(bytes((number,)) * 16),
            resource_type=2,
            resource_name=name,
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number, name in enumerate(("mine", "others"))
    ]
    before = replace(NOTHING, acls={record.id: record for record in records})
    after = replace(before, acls={records[1].id: records[1]})
    wanted = AclFilter(2, "mine", 3, None, None, 1, 1)
    request = DeleteAcls((wanted, wanted._replace(resource_name="absent")))
    nothing, entry = DeletedAcls(ErrorCode.NONE), entry_of(records[0])
    answer = DeleteAclsResult((nothing, nothing))
    done = DeleteAclsResult((nothing._replace(found=(entry,)), nothing))
    assert settle(before, after, request, answer) == done
    assert settle(before, before, request, answer) is None
    assert settle(after, after, request, answer) == answer
    assert settle(before, after, request, done) == done


def test_a_cancelled_reassignment() -> None:
    request = AlterReassignments((Reassignment("t", 0, None),))
    refused = ReassignmentResult("t", 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none")
    answer = AlterReassignmentsResult((refused,))
    done = AlterReassignmentsResult((ReassignmentResult("t", 0, ErrorCode.NONE),))
    origin = PartitionImage((3, 1), (1, 3), 1, 0, 0)
    assert settle(with_t(MOVING), with_t(origin), request, answer) == done
    assert settle(with_t(MOVING), with_t(MOVING), request, answer) is None
    completed = PartitionImage((2, 3), (2, 3), 3, 0, 0)
    assert settle(with_t(MOVING), with_t(completed), request, answer) == answer
    assert settle(with_t(origin), with_t(origin), request, answer) == answer


def test_an_unregistered_broker() -> None:
    gone, request = an_image(*LIVE[1:]), UnregisterBroker(1)
    answer = Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, "no such broker")
    assert settle(NOTHING, gone, request, answer) == UnregisterBrokerResult()
    assert settle(NOTHING, NOTHING, request, answer) is None
    assert settle(gone, gone, request, answer) == answer
    busy = Refused(ErrorCode.REQUEST_TIMED_OUT, "busy")
    assert settle(NOTHING, gone, request, busy) == busy


def test_requests_whose_repetition_says_the_same_are_left_alone() -> None:
    answer = Refused(ErrorCode.POLICY_VIOLATION, "too many")
    assert settle(NOTHING, CREATED, CreateTopics((NewTopic("t"),)), answer) == answer
