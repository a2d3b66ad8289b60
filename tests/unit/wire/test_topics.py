"""Topic entries and leader hints."""

import pytest

from tidelog.errors import MalformedFrame
from tidelog.model import ZERO_TOPIC_ID, Endpoint, TopicId
from tidelog.wire.fetch import ForgottenPartition
from tidelog.wire.notation import CLASSIC, FLEXIBLE, write_tags
from tidelog.wire.produce import ProducePartition
from tidelog.wire.topics import (
    LeaderHint,
    endpoint_tags,
    pack_leader,
    read_endpoint_tags,
    read_leader,
    read_topic,
    runs_of_topics,
    write_topic,
)

TOPIC_ID = TopicId(bytes(range(16)))


@pytest.mark.parametrize("notation", [CLASSIC, FLEXIBLE])
def test_a_topic_has_a_name_or_an_id(notation) -> None:
    for has_id, expected in ((False, ("orders", ZERO_TOPIC_ID)), (True, ("", TOPIC_ID))):
        out = bytearray()
        write_topic(notation, has_id, out, [ForgottenPartition("orders", TOPIC_ID, 0)] * 3)
        view = memoryview(out + bytes(3))
        assert read_topic(notation, has_id, view, 0, 1) == (*expected, 3, len(out))


def test_a_cut_topic_id_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_topic(FLEXIBLE, True, memoryview(bytes(15)), 0, 1)


def test_an_id_of_the_wrong_size_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        write_topic(FLEXIBLE, True, bytearray(), [ForgottenPartition("", TopicId(bytes(15)), 0)])


def test_neighbours_of_one_topic_form_a_run() -> None:
    a, b, a_again = (
        ProducePartition(topic, ZERO_TOPIC_ID, partition, None)
        for topic, partition in (("a", 0), ("b", 0), ("a", 1))
    )
    other_id = a._replace(topic_id=TOPIC_ID)
    assert runs_of_topics([]) == []
    assert runs_of_topics([a]) == [[a]]
    assert runs_of_topics([a, a_again, b]) == [[a, a_again], [b]]
    assert runs_of_topics([a, b, a_again]) == [[a], [b], [a_again]]
    assert runs_of_topics([a, other_id]) == [[a], [other_id]]


def test_leader_hints() -> None:
    packed = pack_leader(LeaderHint(7, 3))
    view = memoryview(b"?" + packed)
    assert read_leader(1, view, 1, 1 + len(packed)) == LeaderHint(7, 3)
    with pytest.raises(MalformedFrame):
        read_leader(1, view, 1, len(packed))


def test_endpoints_without_their_listener_names() -> None:
    endpoints = [(1, Endpoint("PLAINTEXT", "one", 9092), None), (2, Endpoint("X", "two", 1), "r")]
    out = bytearray()
    write_tags(out, endpoint_tags(endpoints))
    expected = [(1, Endpoint("", "one", 9092), None), (2, Endpoint("", "two", 1), "r")]
    assert read_endpoint_tags(True, memoryview(out), 0) == (expected, len(out))
    assert read_endpoint_tags(False, memoryview(out), 0) == ([], len(out))
    with pytest.raises(MalformedFrame):
        out[2] += 1
        read_endpoint_tags(True, memoryview(out + b"\x00"), 0)
