"""ConsumerGroupHeartbeat, rule by rule, and with members that come and go at random."""

from dataclasses import replace

import pytest

from tests.unit.groups.consumer_rig import (
    REVOKE_MS,
    SESSION_MS,
    Client,
    Consumers,
    image,
    partitions,
    settle,
)
from tests.unit.groups.rig import DELAY_MS, commit, heartbeat, join, leave
from tidelog.config import GroupsConfig
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import MemberState
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import ConsumerGroupHeartbeat
from tidelog.metadata.image import GROUP_RESOURCE, ConfigResource

ALL = partitions("t", *range(6))


def trio(rig):
    """A settled group of three."""
    clients = [Client(rig, name) for name in "abc"]
    settle(*clients)
    return clients


# Joining, reconciling and leaving ------------------------------------------------------------


def test_the_first_member_has_everything():
    rig = Consumers()
    answer = rig.join("a")
    assert answer.error_code is ErrorCode.NONE and answer.member_id == "a"
    assert answer.member_epoch == 2 and set(answer.assigned) == ALL
    assert answer.heartbeat_interval_ms == GroupsConfig().consumer_heartbeat_interval_ms
    assert rig.group().state is GroupState.STABLE


def test_another_one_gets_its_part_when_the_first_has_given_it_back():
    rig = Consumers()
    a, b = Client(rig, "a"), Client(rig, "b")
    a.beat()
    b.beat()
    assert b.epoch == 3 and not b.held
    assert rig.group().state is GroupState.RECONCILING
    a.beat()
    assert a.epoch == 2 and len(a.held) == 3
    b.beat()
    assert not b.held, "the first has not said yet that it has given them back"
    a.beat()
    b.beat()
    assert a.epoch == b.epoch == 3 and a.held | b.held == ALL and not a.held & b.held
    assert rig.group().state is GroupState.STABLE


def test_heartbeats_that_change_nothing_write_nothing():
    rig = Consumers()
    clients = trio(rig)
    end = rig.partition.end_offset
    settle(*clients)
    assert rig.partition.end_offset == end


def test_an_assignment_is_sent_when_it_changes_or_when_it_is_asked_for():
    rig = Consumers()
    rig.join("a")
    assert rig.beat(member_id="a", member_epoch=2).assigned is None
    full = {"rebalance_timeout_ms": REVOKE_MS, "topic_names": ("t",), "held": tuple(sorted(ALL))}
    assert set(rig.beat(member_id="a", member_epoch=2, **full).assigned) == ALL


def test_one_that_leaves_frees_what_it_has():
    rig = Consumers()
    a, b, c = trio(rig)
    assert b.leave() is ErrorCode.NONE
    settle(a, c)
    assert a.held | c.held == ALL and len(a.held) == len(c.held) == 3
    a.leave()
    c.leave()
    assert rig.group().state is GroupState.EMPTY and rig.group().group_epoch == 7


def test_a_silent_member_is_removed():
    rig = Consumers()
    a, b, c = trio(rig)
    rig.advance(SESSION_MS - 1)
    settle(a, c)
    assert b.held and len(rig.group().subscriptions) == 3
    rig.advance(1)
    settle(a, c)
    assert a.held | c.held == ALL
    assert b.beat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_member_whose_connection_ended_is_removed_earlier_unless_it_is_static(instance_id):
    rig = Consumers(disconnect_grace_ms=100)
    a, b = Client(rig, "a"), Client(rig, "b", instance_id=instance_id)
    settle(a, b)
    rig.coordinator.on_disconnected("g", "b", rig.now)
    rig.advance(SESSION_MS // 3 + 99)
    assert set(rig.group().subscriptions) == {"a", "b"}
    rig.advance(1)
    assert set(rig.group().subscriptions) == ({"a", "b"} if instance_id else {"a"})


def test_one_that_does_not_give_back_in_time_is_removed():
    rig = Consumers()
    rig.join("a")
    b = Client(rig, "b")
    b.beat()
    for _ in range(4):
        # It says that it still uses all of them.
        answer = rig.beat(member_id="a", member_epoch=2, held=tuple(sorted(ALL)))
        rig.advance(REVOKE_MS // 4)
        b.beat()
    assert answer.member_epoch == 2
    settle(b)
    assert list(rig.group().subscriptions) == ["b"] and b.held == ALL


def test_one_whose_removal_could_not_be_written_is_removed_later():
    """It is alive, and its heartbeats do not make up for the step that it owes."""
    rig = Consumers()
    rig.join("a")
    b = Client(rig, "b")
    b.beat()
    rig.beat(member_id="a", member_epoch=2, held=tuple(sorted(ALL)))
    rig.coordinator._kernel._max_pending = 0
    rig.advance(REVOKE_MS)
    rig.coordinator._kernel._max_pending = 100
    for _ in range(3):
        rig.beat(member_id="a", member_epoch=2, held=tuple(sorted(ALL)))
        b.beat()
        rig.advance(SESSION_MS // 4)
    assert list(rig.group().subscriptions) == ["b"]


def test_nothing_is_answered_before_it_is_committed():
    rig = Consumers()
    a = Client(rig, "a")
    a.beat()
    joins = ConsumerGroupHeartbeat("g", "b", 0, "c", "/h", None, None, REVOKE_MS, ("t",), held=())
    waits = rig.send(joins)
    # The first receives nothing of it before the log has it.
    also = rig.send(ConsumerGroupHeartbeat("g", "a", 2, "c", "/h"))
    assert not {waits, also} & rig.answers.keys()
    rig.commit()
    assert {waits, also} <= rig.answers.keys()


# Epochs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "held", "code"),
    [
        (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (3, None, ErrorCode.NONE),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, partitions("t", 5), ErrorCode.FENCED_MEMBER_EPOCH),
        (2, (), ErrorCode.NONE),
    ],
)
def test_epochs(epoch, held, code):
    """The former epoch will do for one that has no more than it shall have."""
    rig = Consumers()
    a, b = Client(rig, "a"), Client(rig, "b")
    settle(a, b)
    assert a.epoch == 3 and not a.held & partitions("t", 5)
    held = None if held is None else tuple(held)
    assert rig.beat(member_id="a", member_epoch=epoch, held=held).error_code is code


@pytest.mark.parametrize("wanted", [{"topic_names": ()}, {"topic_names": None, "regex": "x.*"}])
def test_a_first_member_that_wants_nothing_begins_no_epoch(wanted):
    """As in Kafka, whose groups begin with the epoch 1."""
    rig = Consumers()
    asked = {"may_describe": lambda topic: True, **wanted}
    assert rig.join("a", **asked).member_epoch == 1
    assert rig.beat(member_id="a", member_epoch=1).error_code is ErrorCode.NONE
    assert rig.join("b").member_epoch == 2


def test_who_joins_again_is_taken_in_anew():
    rig = Consumers()
    a = trio(rig)[0]
    held = a.held
    answer = rig.join("a")
    assert answer.member_epoch == a.epoch and set(answer.assigned) == held


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"held": None}, ErrorCode.INVALID_REQUEST),
        ({"held": tuple(ALL)}, ErrorCode.INVALID_REQUEST),
        ({"topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1, "group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1, "group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        (
            {"member_id": "", "member_epoch": -1, "must_name_itself": False},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"member_id": "", "member_epoch": -2, "must_name_itself": False, "instance_id": "i"},
            ErrorCode.UNKNOWN_MEMBER_ID,
        ),
        ({"member_epoch": 1, "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({}, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_refusals_change_nothing(values, code):
    rig = Consumers(consumer_max_size=2 if values else 1)
    rig.join("a")
    end = rig.partition.end_offset
    answer = rig.join(values.pop("member_id", "b"), **values)
    assert answer.error_code is code and answer.error_message
    assert rig.partition.end_offset == end


def test_an_older_client_gets_its_member_id():
    rig = Consumers()
    answer = rig.join("", must_name_itself=False)
    assert answer.error_code is ErrorCode.NONE and answer.member_id
    assert list(rig.group().subscriptions) == [answer.member_id]


# Subscriptions ------------------------------------------------------------------------------


def test_a_topic_that_comes_or_grows_is_dealt_out():
    rig = Consumers(topics={})
    a = Client(rig, "a", "t", "u")
    settle(a)
    assert not a.held and a.epoch == 2
    rig.coordinator.topics.update(image(2, t=2, other=1))
    settle(a)
    assert a.held == partitions("t", 0, 1) and a.epoch == 3
    rig.coordinator.topics.update(image(3, t=3, u=1, other=2))
    settle(a)
    assert a.held == partitions("t", 0, 1, 2) | partitions("u", 0) and a.epoch == 4
    rig.coordinator.topics.update(image(4, t=3, u=1, other=3))
    settle(a)
    assert a.epoch == 4, "nothing has changed for this group"
    rig.coordinator.topics.update(image(5, u=1))
    settle(a)
    assert a.held == partitions("u", 0)


def test_a_regular_expression_finds_topics_that_come():
    rig = Consumers(topics={"orders.eu": 1, "people": 1})
    rig.join("a", topic_names=None, regex="orders.*")
    assert rig.group().regexes["orders.*"].topics == ("orders.eu",)
    rig.coordinator.topics.update(image(2, **{"orders.eu": 1, "orders.us": 1}))
    rig.advance(SESSION_MS // 2)
    assert rig.beat(member_id="a", member_epoch=2).member_epoch == 2, "it was just looked at"
    for _ in range(3):
        rig.advance(SESSION_MS - 1)
        answer = rig.beat(member_id="a", member_epoch=2, held=())
    assert set(answer.assigned) == partitions("orders.eu", 0) | partitions("orders.us", 0)
    rig.beat(member_id="a", member_epoch=3, regex="", topic_names=("people",))
    assert not rig.group().regexes


def test_a_regular_expression_that_matches_nothing_begins_no_epoch():
    rig = Consumers(topics={"people": 1})
    epoch = rig.join("a", topic_names=("people",)).member_epoch
    answer = rig.beat(member_id="a", member_epoch=epoch, regex="nothing.*")
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch)
    assert "nothing.*" in rig.group().regexes


def test_what_a_member_does_not_want_any_more_goes_at_once():
    rig = Consumers(topics={"t": 2, "u": 2})
    a = Client(rig, "a", "t", "u")
    settle(a)
    answer = rig.beat(member_id="a", member_epoch=2, topic_names=("u",))
    assert set(answer.assigned) == partitions("u", 0, 1)
    assert rig.group().current("a").state is MemberState.UNREVOKED


def test_the_assignor_that_most_want():
    rig = Consumers(topics={"t": 3, "u": 3})
    clients = [Client(rig, name, "t", "u", assignor="range") for name in "ab"]
    settle(*clients)
    assert clients[0].held == partitions("t", 0, 1) | partitions("u", 0, 1)


# Static members -----------------------------------------------------------------------------


def test_a_static_member_comes_back_to_its_place():
    rig = Consumers()
    a, b = Client(rig, "a", instance_id="i"), Client(rig, "b")
    settle(a, b)
    held, epoch = a.held, rig.group().group_epoch
    assert a.leave(-2) is ErrorCode.NONE
    settle(b)
    assert len(b.held) == 3, "its partitions wait for it"
    again = Client(rig, "a2", instance_id="i")
    again.beat()
    assert again.held == held and rig.group().group_epoch == epoch
    assert a.beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    former = rig.beat(member_id="a", member_epoch=epoch, instance_id="i")
    assert former.error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_removed():
    rig = Consumers()
    a, b = Client(rig, "a", instance_id="i"), Client(rig, "b")
    settle(a, b)
    a.leave(-2)
    for _ in range(3):
        rig.advance(SESSION_MS // 2)
        settle(b)
    assert b.held == ALL


def test_a_static_member_may_come_back_under_its_own_id():
    rig = Consumers()
    a, b = Client(rig, "a", instance_id="i"), Client(rig, "b")
    settle(a, b)
    held, epoch = a.held, rig.group().group_epoch
    a.leave(-2)
    assert a.beat() is ErrorCode.NONE
    assert a.held == held and rig.group().group_epoch == epoch
    rig.advance(SESSION_MS - 1)
    assert a.beat() is ErrorCode.NONE
    rig.advance(SESSION_MS - 1)
    assert list(rig.group().subscriptions) == ["a"], "its session has begun anew"
    rig.advance(1)
    assert not rig.group().subscriptions


@pytest.mark.parametrize("member_id", ["b", "a"])
def test_an_instance_id_is_in_use_until_its_process_leaves(member_id):
    """As in Kafka, also for that process itself when it joins again."""
    rig = Consumers()
    Client(rig, "a", instance_id="i").beat()
    end = rig.partition.end_offset
    answer = rig.join(member_id, instance_id="i")
    assert answer.error_code is ErrorCode.UNRELEASED_INSTANCE_ID and answer.error_message
    assert rig.partition.end_offset == end
    rig.advance(SESSION_MS)
    assert rig.join(member_id, instance_id="i").error_code is ErrorCode.NONE


# Other coordinators, and other protocols ----------------------------------------------------


def test_the_next_coordinator_knows_everything():
    rig = Consumers()
    a, _, c = trio(rig)
    before = rig.group()
    after = Consumers(rig.partition, now=rig.now)
    assert after.group() == before
    for each in (a, c):
        each.rig = after
    after.advance(SESSION_MS - 1)
    settle(a, c)
    after.advance(1)
    settle(a, c)
    assert a.held | c.held == ALL, "the one that did not come is removed"


def test_what_was_not_committed_is_not_known_to_the_next_coordinator():
    rig = Consumers()
    a = Client(rig, "a")
    a.beat()
    rig.send(ConsumerGroupHeartbeat("g", "b", 0, "c", "/h", None, None, REVOKE_MS, ("t",), held=()))
    after = Consumers(rig.partition, now=rig.now)
    assert list(after.group().subscriptions) == ["a"]


def test_empty_groups_change_their_protocol():
    """Others do not, where that is forbidden."""
    rig = Consumers(migration_policy="disabled")
    assert rig.ask(commit(7)) is not None
    a = Client(rig, "a")
    a.beat()
    assert rig.ask(join()).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert rig.ask(heartbeat("a", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    a.leave()
    (member,) = rig.group_of("x")
    assert rig.coordinator.committed.get("g").consumer is None
    assert rig.join("b").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.ask(leave(member))
    rig.advance(2 * DELAY_MS)
    assert set(rig.join("b").assigned) == ALL
    assert rig.coordinator.committed.get("g").value is None
    assert rig.committed() == {next(iter(rig.committed())): 7}


def test_a_group_has_timeouts_of_its_own():
    """Within the bounds of the node."""
    rig = Consumers(consumer_min_session_timeout_ms=1, consumer_max_session_timeout_ms=SESSION_MS)
    own = {"consumer.session.timeout.ms": "500", "consumer.heartbeat.interval.ms": "1"}
    configs = {ConfigResource(GROUP_RESOURCE, "g"): own}
    rig.coordinator.topics.update(replace(image(2, t=6), configs=configs))
    assert rig.join("a").heartbeat_interval_ms == GroupsConfig().consumer_min_heartbeat_interval_ms
    rig.advance(499)
    assert rig.group().subscriptions
    rig.advance(1)
    assert not rig.group().subscriptions


# Anything, in any order -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_no_partition_is_ever_with_two_members(seed):
    """Members come, leave, fall silent, lose answers; coordinators change; topics grow."""
    prng = Prng(seed)
    rig, sizes = Consumers(), {"t": 6, "u": 2}
    clients = []

    def fresh(number):
        wants = prng.choice((("t",), ("t", "u"), ("u",)))
        static = {"instance_id": f"i{number}"} if prng.chance(1, 3) else {}
        return Client(rig, f"m{number}", *wants, **static)

    for number in range(120):
        what = prng.below(12)
        if what == 0 and len(clients) < 6:
            clients.append(fresh(number))
        elif what == 1 and clients:
            one = clients.pop(prng.below(len(clients)))
            if prng.chance(1, 2):
                one.leave()
        elif what == 2:
            sizes = {name: size + prng.below(2) for name, size in sizes.items()}
            rig.coordinator.topics.update(image(number, **sizes))
        elif what == 3:
            rig = Consumers(rig.partition, now=rig.now, topics=sizes)
            for each in clients:
                each.rig = rig
        elif what == 4:
            rig.advance(prng.below(SESSION_MS // 2))
        elif clients:
            one = prng.choice(clients)
            held, reported = set(one.held), one.reported
            one.beat()
            if prng.chance(1, 8) and one.epoch:
                # The answer was lost.
                one.held, one.reported = held & one.held, reported
        live = [each for each in clients if each.epoch]
        current = rig.coordinator.committed.get("g")
        known = {} if current is None or current.consumer is None else current.consumer.currents
        live_held = [
            partition for each in live if each.member_id in known for partition in each.held
        ]
        assert len(live_held) == len(set(live_held)), f"SingleOwner, step {number}: {live_held}"
    settle(*clients)
    rig.advance(SESSION_MS)
    settle(*clients, rounds=12)
    wanted = {topic for each in clients for topic in each.topics}
    held = [partition for each in clients for partition in each.held]
    assert sorted(held) == sorted(
        partition for name in wanted for partition in partitions(name, *range(sizes[name]))
    )
