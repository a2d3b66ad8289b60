"""Goal: the topics of consumers are found in what they say, whatever it is."""

import pytest

from tidelog.groups.classic_group import ClassicGroup, Member
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import GroupProtocol
from tidelog.groups.subscriptions import subscribed_topics, topics_of

ONE = b"\x00\x03\x00\x00\x00\x01\x00\x05plain\xff\xff\xff\xff"
TWO = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x01b"


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (ONE, ["plain"]),
        (TWO, ["a", "b"]),
        (b"", []),
        (b"\x00", []),
        (TWO[:-1], []),
        (b"\x00\x00\x7f\xff\xff\xff", []),
        (b"\x00\x00\xff\xff\xff\xff", []),
        (b"\x00\x00\x00\x00\x00\x01\x00\x01\xff", []),
    ],
)
def test_topics_of_one_member(metadata, topics):
    assert topics_of(metadata) == topics


def group(protocol_type):
    found = ClassicGroup("g", GroupState.STABLE, protocol_type=protocol_type)
    for member_id, metadata in (("m", ONE), ("n", TWO)):
        found.add(
            Member(
                member_id=member_id,
                group_instance_id=None,
                client_id="",
                client_host="",
                session_timeout_ms=1,
                rebalance_timeout_ms=1,
                protocols=(GroupProtocol("range", metadata),),
            )
        )
    return found


def test_topics_of_a_group():
    assert subscribed_topics(group("consumer")) == {"plain", "a", "b"}
    assert subscribed_topics(group("connect")) is None
    assert subscribed_topics(ClassicGroup("g")) == frozenset()
