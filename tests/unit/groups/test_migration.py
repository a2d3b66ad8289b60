"""A group with members goes to the consumer protocol and back, and no partition has two owners."""

import pytest

from tests.unit.groups.consumer_rig import (
    REVOKE_MS,
    SESSION_MS,
    ClassicClient,
    Client,
    Consumers,
    partitions,
    polled,
    said,
)
from tests.unit.groups.rig import commit, heartbeat, join
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import CommitOffsets, GroupProtocol
from tidelog.groups.records import CommittedOffset
from tidelog.model import TopicPartition
from tidelog.wire.consumer_protocol import assignment_of

ALL = partitions("t", *range(6))


def classics(rig, *names, **values):
    """A settled classic group."""
    clients = [ClassicClient(rig, name, **values) for name in names]
    polled(*clients)
    assert rig.coordinator.groups["g"].state is GroupState.STABLE
    return clients


def covered(*clients):
    """Whether these have all partitions, each of them once."""
    held = [each for client in clients for each in client.held]
    return sorted(held) == sorted(ALL)


def upgraded(cooperative=True):
    """A classic member and one of the consumer protocol in one settled group."""
    rig = Consumers()
    (old,) = classics(rig, "old", cooperative=cooperative)
    new = Client(rig, "new")
    polled(old, new)
    return rig, old, new


# To the consumer protocol ---------------------------------------------------------------------


@pytest.mark.parametrize("cooperative", [True, False])
def test_members_of_both_protocols_share_the_partitions(cooperative):
    rig = Consumers()
    old = classics(rig, "a", "b", cooperative=cooperative)
    new = Client(rig, "new")
    assert new.beat() is ErrorCode.NONE
    group = rig.group()
    assert "g" not in rig.coordinator.groups
    assert {each.member_id for each in old} == group.subscriptions.keys() - {"new"}
    assert not new.held, "the others have not given anything back"
    polled(*old, new)
    assert covered(*old, new) and len(new.held) == 2
    assert rig.group().state is GroupState.STABLE
    assert rig.coordinator.committed.get("g").value is None


def test_the_generation_goes_on_as_the_epoch():
    rig = Consumers()
    (old,) = classics(rig, "old", cooperative=True)
    generation = old.generation
    assert rig.join("new").member_epoch == generation + 1
    current = rig.group().current(old.member_id)
    assert (current.epoch, set(current.assigned)) == (generation, ALL)
    assert old.poll() is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_wait_for_a_generation_are_to_join_again():
    rig = Consumers()
    (old,) = classics(rig, "old")
    late = ClassicClient(rig, "late")
    late.poll()
    late.poll()
    assert rig.coordinator.groups["g"].state is GroupState.PREPARING
    rig.join("new")
    assert late.poll() is ErrorCode.REBALANCE_IN_PROGRESS
    new = Client(rig, "new")
    polled(old, late, new)
    assert covered(old, late, new)


def test_offsets_stay():
    rig = Consumers()
    (old,) = classics(rig, "old")
    rig.ask(commit(7, old.member_id, old.generation))
    rig.join("new")
    assert set(rig.committed().values()) == {7}


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"migration_policy": "disabled"}, {}),
        ({"migration_policy": "downgrade"}, {}),
        ({"consumer_max_size": 1}, {}),
        ({}, {"protocol_type": "connect"}),
        ({}, {"protocols": (GroupProtocol("range", b"\0\1"),)}),
    ],
)
def test_what_stays_classic(settings, values):
    rig = Consumers(**settings)
    clients = [ClassicClient(rig, name, **values) for name in "ab"]
    polled(*clients)
    answer = rig.join("new")
    assert answer.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.coordinator.committed.get("g").consumer is None
    polled(*clients)
    assert covered(*clients)


# Classic members in a consumer group ----------------------------------------------------------


def test_a_classic_member_joins_a_consumer_group():
    rig = Consumers()
    new = Client(rig, "new")
    new.beat()
    old = ClassicClient(rig, "old", cooperative=True)
    polled(new, old)
    assert covered(new, old) and len(old.held) == 3
    member = rig.group().subscriptions[old.member_id]
    assert member.classic.session_timeout_ms == SESSION_MS


@pytest.mark.parametrize(
    ("settings", "values", "code"),
    [
        ({"migration_policy": "disabled"}, {}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"consumer_max_size": 1}, {}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({}, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({}, {}, ErrorCode.MEMBER_ID_REQUIRED),
        (
            {},
            {"requires_member_id": False, "protocols": (GroupProtocol("range", b"\0\1"),)},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
    ],
)
def test_who_may_not_join(settings, values, code):
    rig = Consumers(**settings)
    rig.join("new")
    answer = rig.ask(join(**{"protocols": (GroupProtocol("range", said("t")),), **values}))
    assert answer.error_code is code
    assert list(rig.group().subscriptions) == ["new"]


def test_a_protocol_that_no_other_classic_member_has():
    rig, _, _ = upgraded()
    member_id = next(iter(rig.group().subscriptions))
    answer = rig.ask(join(member_id, protocols=(GroupProtocol("other", said("t")),)))
    assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.member_id == ""


def test_a_static_member_has_one_process():
    rig = Consumers()
    rig.join("new")
    former = ClassicClient(rig, "s", cooperative=True, group_instance_id="i")
    polled(former)
    place = rig.group().current(former.member_id).assigned
    later = ClassicClient(rig, "s", cooperative=True, group_instance_id="i")
    polled(later)
    assert rig.group().static_member("i") == later.member_id != former.member_id
    assert rig.group().current(later.member_id).assigned.keys() == place.keys()
    assert former.poll() is ErrorCode.FENCED_INSTANCE_ID


def test_commits_of_classic_members():
    rig, old, _ = upgraded()

    def committed(generation, **more):
        value = CommittedOffset(5, topic_id=next(iter(ALL)).topic_id)
        offsets = ((TopicPartition("t", min(old.held)[1]), value),)
        request = CommitOffsets("g", generation, old.member_id, None, offsets, **more)
        return getattr(rig.ask(request), "error_code", ErrorCode.NONE)

    assert committed(old.generation, may_name_epoch=False) is ErrorCode.NONE
    assert committed(old.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert committed(0) is ErrorCode.ILLEGAL_GENERATION


def test_a_silent_classic_member_is_removed():
    rig, old, new = upgraded()
    for _ in range(4):
        rig.advance(SESSION_MS // 2)
        polled(new, rounds=2)
    assert list(rig.group().subscriptions) == ["new"]
    assert new.held == ALL
    assert old.poll() is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_does_not_join_when_it_is_asked_to():
    rig, old, new = upgraded()
    rig.join("third")
    assert old.poll() is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(8):
        rig.ask(heartbeat(old.member_id, old.generation))
        new.beat()
        rig.advance(REVOKE_MS // 4)
    assert old.member_id not in rig.group().subscriptions


# Back to the classic protocol -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["leaves", "is silent"])
def test_the_last_of_the_consumer_protocol_goes(how):
    rig, old, new = upgraded()
    epoch = rig.group().group_epoch
    if how == "leaves":
        new.leave()
    else:
        for _ in range(4):
            rig.advance(SESSION_MS // 2 - 1)
            old.poll()
    image = rig.coordinator.committed.get("g")
    assert image.consumer is None and image.value.generation_id >= epoch
    polled(old)
    assert covered(old)
    assert rig.coordinator.groups["g"].state is GroupState.STABLE


def test_it_stays_where_that_is_forbidden_and_classic_members_go_on():
    rig = Consumers(migration_policy="upgrade")
    old = classics(rig, "a", "b", cooperative=True)
    new = Client(rig, "new")
    polled(*old, new)
    new.leave()
    polled(*old)
    assert covered(*old)
    assert len(rig.group().subscriptions) == 2


def test_a_classic_process_takes_the_place_of_the_last_static_member():
    rig = Consumers()
    new = Client(rig, "new", instance_id="i")
    new.beat()
    old = ClassicClient(rig, "old", group_instance_id="i")
    polled(old, rounds=4)
    assert rig.coordinator.committed.get("g").consumer is None
    assert list(rig.coordinator.groups["g"].members) == [old.member_id]
    assert covered(old)


def test_who_takes_that_place_has_no_generation_before_the_classic_group_has_one():
    """As in Kafka, that group goes on from the epoch and the assignment of the former member."""
    rig = Consumers()
    former = rig.join("new", "t", instance_id="i")
    values = {"group_instance_id": "i", "protocols": (GroupProtocol("range", said("none")),)}
    taken = rig.ask(join(**values))
    assert (taken.error_code, taken.generation_id) == (ErrorCode.NONE, 0)
    held = assignment_of(rig.coordinator.groups["g"].members[taken.member_id].assignment)
    assert len(held.partitions) == len(former.assigned) == 6
    again = rig.ask(join(taken.member_id, **values))
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, former.member_epoch + 1)


def test_the_next_coordinator_goes_on_with_either():
    """It has the members rebalance when the former one could not."""
    rig, old, new = upgraded()
    after = Consumers(rig.partition, now=rig.now)
    old.rig = new.rig = after
    polled(old, new)
    assert covered(old, new)
    new.leave()
    last = Consumers(rig.partition, now=after.now)
    old.rig = last
    polled(old)
    assert covered(old)


# Anything, in any order -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_no_partition_is_ever_with_two_members(seed):
    """Members of both protocols come, leave and fall silent; coordinators change."""
    prng = Prng(seed)
    rig = Consumers()
    clients = []
    for number in range(150):
        what = prng.below(12)
        if what == 0 and len(clients) < 6:
            if prng.chance(1, 2):
                clients.append(Client(rig, f"m{number}"))
            else:
                clients.append(ClassicClient(rig, f"c{number}", cooperative=prng.chance(1, 2)))
        elif what == 1 and clients:
            one = clients.pop(prng.below(len(clients)))
            if prng.chance(1, 2):
                one.leave()
        elif what == 2:
            rig = Consumers(rig.partition, now=rig.now)
            for each in clients:
                each.rig = rig
                if isinstance(each, ClassicClient):
                    each.forget_question()
        elif what == 3:
            rig.advance(prng.below(SESSION_MS // 3))
        elif clients:
            one = prng.choice(clients)
            one.poll() if isinstance(one, ClassicClient) else one.beat()
        check_owners(rig, clients, number)
    if not clients:
        return
    for _ in range(8):
        polled(*clients, rounds=3)
        rig.advance(SESSION_MS // 3)
    polled(*clients, rounds=20)
    assert covered(*clients)


def check_owners(rig, clients, step):
    """SingleOwner, of the members that the coordinator knows in the epoch that they name."""
    image = rig.coordinator.committed.get("g")
    if image is None or image.consumer is None:
        return
    held = [
        partition
        for each in clients
        for partition in each.held
        if each.member_id in image.consumer.subscriptions
    ]
    assert len(held) == len(set(held)), f"SingleOwner, step {step}: {held}"
