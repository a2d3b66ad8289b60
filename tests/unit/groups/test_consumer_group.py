"""A consumer group as its records make it."""

import pytest

from tidelog.env.prng import Prng
from tidelog.groups.consumer_group import EMPTY, ConsumerGroup
from tidelog.groups.consumer_records import (
    ConsumerRecord,
    Current,
    GroupEpoch,
    IdPartition,
    Kind,
    MemberState,
    ResolvedRegex,
    Subscription,
    TargetEpoch,
)
from tidelog.groups.group_state import GroupState
from tidelog.model import TopicId

A = TopicId(b"a" * 16)
A0, A1 = IdPartition(A, 0), IdPartition(A, 1)


def record(kind, value, name=""):
    return ConsumerRecord(kind, "g", name, value)


RECORDS = [
    record(Kind.SUBSCRIPTION, Subscription(topic_names=("t",), assignor="range"), "x"),
    record(Kind.SUBSCRIPTION, Subscription(regex="u.*", instance_id="i"), "y"),
    record(Kind.REGEX, ResolvedRegex(("u1", "u2")), "u.*"),
    record(Kind.EPOCH, GroupEpoch(2, 7)),
    record(Kind.TARGET, (A0,), "x"),
    record(Kind.TARGET, (A1,), "y"),
    record(Kind.TARGET_EPOCH, TargetEpoch(2)),
    record(Kind.CURRENT, Current(2, 1, MemberState.STABLE, {A0: 2}), "x"),
    record(Kind.CURRENT, Current(2, 1, MemberState.STABLE, {A1: 2}), "y"),
]


@pytest.fixture
def group():
    return EMPTY.after(RECORDS)


def test_what_its_records_say(group):
    assert (group.group_epoch, group.assignment_epoch, group.state) == (2, 2, GroupState.STABLE)
    assert group.owners() == {A0: "x", A1: "y"}
    assert group.static_member("i") == "y" and group.static_member("other") is None
    assert group.topics() == {"t", "u1", "u2"}
    assert group.assignor("uniform") == "range"
    assert ConsumerGroup().assignor("uniform") == "uniform"
    one_each = {name: Subscription(assignor=name) for name in ("range", "uniform")}
    assert ConsumerGroup(subscriptions=one_each).assignor("range") == "uniform", "as in Kafka"


def test_the_order_of_its_records_does_not_matter(group):
    """A compacted log has each key's last record only, wherever that stands."""
    for seed in range(10):
        shuffled = list(RECORDS)
        Prng(seed).shuffle(shuffled)
        assert EMPTY.after(shuffled[:4]).after(shuffled[4:]) == group


def test_its_tombstones_leave_nothing(group):
    assert group.after(group.tombstones("g")) is None
    assert EMPTY.after([record(Kind.CURRENT, None, "x")]) is None


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([record(Kind.EPOCH, GroupEpoch(3))], GroupState.ASSIGNING),
        ([record(Kind.CURRENT, Current(1), "x")], GroupState.RECONCILING),
        ([record(Kind.CURRENT, None, "x")], GroupState.RECONCILING),
        ([record(Kind.SUBSCRIPTION, None, each) for each in "xy"], GroupState.EMPTY),
    ],
)
def test_its_state(group, records, state):
    assert group.after(records).state is state


@pytest.mark.parametrize(
    "records",
    [
        [record(Kind.CURRENT, Current(2, 1, MemberState.STABLE, {A0: 2}), "y")],
        [record(Kind.CURRENT, Current(2, 1, MemberState.UNREVOKED, {}, {A0: 2}), "y")],
        [record(Kind.CURRENT, Current(3), "y")],
        [record(Kind.TARGET, (A0, A1), "y")],
        [record(Kind.EPOCH, GroupEpoch(1))],
    ],
)
def test_what_cannot_be(group, records):
    group.check("g")
    with pytest.raises(AssertionError):
        group.after(records).check("g")
