"""Goal: each call to share coordinators ends once, whatever they do."""

from tests.unit.broker.api.share_client import SETTINGS, one_node
from tests.unit.broker.one_node import OneNode
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.model import SHARES_TOPIC, TopicId
from tidelog.wire.api import ApiKey

KEY = ApiKey.INITIALIZE_SHARE_GROUP_STATE
FIELDS = {"state_epoch": 1, "start_offset": 0}


def ask(node, *partitions):
    """The answers are in the list when the call has ended."""
    ended = []
    node.broker.share_states.ask(
        KEY, "g", dict.fromkeys(partitions, FIELDS), lambda found, _: ended.append(found), node.now
    )
    return ended


def test_partitions_of_several_coordinators_are_one_answer():
    node = one_node()
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    known = [IdPartition(topic_id, number) for number in range(2)]
    unknown = IdPartition(TopicId(b"x" * 16), 0)
    ended = ask(node, *known, unknown)
    node.run_until(lambda: ended)
    codes = {each: found.error_code for each, found in ended[0].items()}
    assert codes == {
        **dict.fromkeys(known, ErrorCode.NONE),
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(ended) == 1


def test_nothing_is_answered_at_once():
    node = one_node()
    ended = ask(node)
    node.run_until(lambda: ended)
    assert ended == [{}]


def test_the_first_call_creates_the_topic():
    node = OneNode(reaches_itself=True, **SETTINGS)
    node.client().create_topic("t", 1)
    topic_id = node.broker.image.topics_by_name["t"].topic_id
    ended = ask(node, IdPartition(topic_id, 0))
    node.run_until(lambda: ended)
    assert SHARES_TOPIC in node.broker.image.topics_by_name
    assert [each.error_code for each in ended[0].values()] == [ErrorCode.NONE]


def ask_ends(node, *partitions):
    ended = []
    node.broker.share_states.ask_ends(partitions, lambda found, _: ended.append(found), node.now)
    return ended


def test_ends_of_partitions():
    node = one_node()
    known = IdPartition(node.broker.image.topics_by_name["t"].topic_id, 1)
    unknown = IdPartition(known.topic_id, 9)
    ended, nothing = ask_ends(node, known, unknown), ask_ends(node)
    node.run_until(lambda: ended and nothing)
    (found,) = ended
    assert (found[known].error_code, found[known].row.offset) == (ErrorCode.NONE, 0)
    assert found[unknown].error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert nothing == [{}]


def test_a_leader_that_cannot_be_reached_has_no_end():
    node = OneNode(**SETTINGS, request_timeout_ms="2000")
    node.client().create_topic("t", 1)
    ended = ask_ends(node, IdPartition(node.broker.image.topics_by_name["t"].topic_id, 0))
    node.run_until(lambda: ended)
    codes = [each.error_code for each in ended[0].values()]
    assert codes in ([ErrorCode.LEADER_NOT_AVAILABLE], [ErrorCode.NETWORK_EXCEPTION])


def test_a_coordinator_that_cannot_be_reached_ends_the_call():
    node = OneNode(**SETTINGS, request_timeout_ms="2000")
    node.client().create_topic(SHARES_TOPIC, 3)
    topic_id = node.broker.image.topics_by_name[SHARES_TOPIC].topic_id
    begun = node.now
    ended = ask(node, IdPartition(topic_id, 0))
    node.run_until(lambda: ended)
    assert [each.error_code for each in ended[0].values()] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert node.now - begun >= 2000
