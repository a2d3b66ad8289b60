"""Goal: members of a share group share its partitions, all of which have a state."""

from dataclasses import replace

import pytest

from tests.unit.groups.consumer_rig import image, partitions
from tests.unit.groups.share_rig import RETRY_MS, SESSION_MS, Sharers
from tidelog.config import GroupsConfig
from tidelog.errors import ErrorCode
from tidelog.groups.group_state import GroupState
from tidelog.groups.messages import (
    ConsumerGroupHeartbeat,
    DescribeGroup,
    FetchOffsets,
    GroupProtocol,
    JoinGroup,
    StatesInitialized,
    StatesResult,
)
from tidelog.metadata.image import GROUP_RESOURCE, ConfigResource
from tidelog.model import NO_OFFSET


def test_nothing_is_assigned_before_it_is_initialised():
    """InitialisedBeforeAssigned."""
    rig = Sharers()
    first = rig.beat("m", 0, "t")
    assert (first.error_code, first.member_epoch, first.assigned) == (ErrorCode.NONE, 2, ())
    wanted = first.wanted
    assert wanted is not None and (wanted.group_id, wanted.state_epoch) == ("g", 2)
    asked = dict.fromkeys(partitions("t", 0, 1, 2, 3), NO_OFFSET)
    assert dict(wanted.partitions) == asked
    assert rig.beat("m", 2).wanted is None, "it is under way"
    rig.report(wanted)
    second = rig.beat("m", 2)
    assert (second.member_epoch, set(second.assigned)) == (3, set(asked))
    third = rig.beat("m", 3)
    assert (third.member_epoch, third.assigned, third.wanted) == (3, None, None)
    assert rig.group().state is GroupState.STABLE


def test_states_that_are_not_reported_are_asked_for_again():
    rig = Sharers()
    first = rig.beat("m", 0, "t")
    rig.advance(RETRY_MS - 1)
    assert rig.beat("m", 2).wanted is None
    rig.advance(1)
    assert rig.beat("m", 2).wanted == first.wanted
    assert Sharers(rig.partition, now=rig.now).beat("m", 2).wanted == first.wanted


def test_states_that_are_refused_are_asked_for_again():
    rig = Sharers()
    first = rig.beat("m", 0, "t")
    rig.report(first.wanted, is_done=False)
    assert not rig.group().known_states.initializing
    again = rig.beat("m", 2)
    assert again.wanted == first.wanted and again.assigned is None


def test_members_share_partitions():
    rig = Sharers(topics={"t": 2})
    answers = rig.begin("a", "b", "c", "d")
    shares = [rig.group().current(each).assigned for each in "abcd"]
    assert sorted(shares) == [*[(min(partitions("t", 0)),)] * 2, *[(min(partitions("t", 1)),)] * 2]
    assert len({each.member_epoch for each in answers.values()}) == 1


def test_a_topic_that_grows_is_initialised_and_assigned():
    rig = Sharers(topics={"t": 1})
    epoch = rig.begin("m")["m"].member_epoch
    rig.coordinator.topics.update(image(2, t=2))
    grown = rig.beat("m", epoch)
    assert grown.wanted is not None
    assert [each for each, _ in grown.wanted.partitions] == list(partitions("t", 1))
    rig.report(grown.wanted)
    assert set(rig.beat("m", grown.member_epoch).assigned) == partitions("t", 0, 1)


def test_a_deleted_topic_is_dropped():
    rig = Sharers(topics={"t": 1, "u": 1})
    first = rig.beat("m", 0, "t", "u")
    rig.report(first.wanted)
    epoch = rig.beat("m", 2).member_epoch
    rig.coordinator.topics.update(image(2, t=1))
    last = rig.beat("m", epoch)
    assert set(last.assigned) == partitions("t", 0)
    assert len(rig.group().known_states.initialized) == 1
    assert rig.beat("m", last.member_epoch).member_epoch == last.member_epoch


def test_what_a_leaving_member_had_goes_to_the_others():
    rig = Sharers()
    answers = rig.begin("a", "b")
    left = rig.beat("b", -1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)
    assert set(rig.beat("a", answers["a"].member_epoch).assigned) == partitions("t", 0, 1, 2, 3)
    assert rig.beat("b", -1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed():
    rig = Sharers()
    rig.begin("a")
    rig.advance(SESSION_MS)
    assert rig.group().state is GroupState.EMPTY
    assert rig.beat("a", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_connection_ended_is_removed_earlier():
    rig = Sharers(disconnect_grace_ms=100)
    rig.begin("a")
    rig.coordinator.on_disconnected("g", "a", rig.now)
    rig.advance(SESSION_MS // 3 + 99)
    assert set(rig.group().members) == {"a"}
    rig.advance(1)
    assert rig.group().state is GroupState.EMPTY


def test_the_next_coordinator_knows_the_members():
    rig = Sharers()
    epoch = rig.begin("a")["a"].member_epoch
    rig = Sharers(rig.partition, now=rig.now)
    rig.advance(SESSION_MS - 1)
    assert rig.beat("a", epoch).error_code is ErrorCode.NONE
    rig.advance(SESSION_MS)
    assert not rig.group().members


def test_epochs_fence():
    rig = Sharers()
    epoch = rig.begin("a")["a"].member_epoch
    assert rig.beat("a", epoch + 1).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    previous = rig.group().current("a").previous_epoch
    assert rig.beat("a", previous).error_code is ErrorCode.NONE
    rig.beat("b", 0, "t")
    later = rig.beat("a", epoch).member_epoch
    assert later > epoch
    assert rig.beat("a", previous).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.beat("a", 0, "t").member_epoch == later


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"group_id": ""},
        {"rack_id": ""},
        {"topic_names": None},
        {"member_epoch": -2},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    rig = Sharers()
    asked = {"member_id": "m", "topic_names": ("t",), **wrong}
    epoch = asked.pop("member_epoch", 0)
    answer = rig.beat(asked.pop("member_id"), epoch, **asked)
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert not rig.partition.batches


def test_a_group_has_so_many_members():
    rig = Sharers(share_max_size=1)
    rig.beat("a", 0, "t")
    assert rig.beat("b", 0, "t").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.beat("a", 2).error_code is ErrorCode.NONE


def test_a_group_has_one_type():
    rig = Sharers()
    assert rig.beat("a", 1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.beat("a", 0, "t")
    join = JoinGroup(
        "g", "", None, "c", "/h", 3000, 3000, "consumer", (GroupProtocol("range", b""),)
    )
    assert rig.ask(join).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    hasty = join._replace(session_timeout_ms=1)
    assert rig.ask(hasty).error_code is ErrorCode.INVALID_SESSION_TIMEOUT
    consumer = ConsumerGroupHeartbeat(
        "g", "x", 0, "c", "/h", rebalance_timeout_ms=1000, topic_names=("t",), held=()
    )
    assert rig.ask(consumer).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.ask(consumer._replace(held=None)).error_code is ErrorCode.INVALID_REQUEST
    assert rig.ask(FetchOffsets("g", None)).offsets == ()
    assert rig.ask(DescribeGroup("g")).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.ask(join._replace(group_id="classic", requires_member_id=False))
    other = rig.beat("a", 0, "t", group_id="classic")
    assert other.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_reports_about_no_group_are_refused():
    rig = Sharers()
    answer = rig.ask(StatesInitialized("g", tuple(partitions("t", 0))))
    assert answer == StatesResult(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_heartbeat_without_news_writes_nothing():
    rig = Sharers()
    epoch = rig.begin("a")["a"].member_epoch
    end = rig.partition.end_offset
    rig.beat("a", epoch)
    assert rig.partition.end_offset == end


def test_a_group_has_timeouts_of_its_own():
    """Within the bounds of the node."""
    rig = Sharers(share_min_session_timeout_ms=1)
    own = {"share.session.timeout.ms": "500", "share.heartbeat.interval.ms": "1"}
    configs = {ConfigResource(GROUP_RESOURCE, "g"): own}
    rig.coordinator.topics.update(replace(image(2, t=4), configs=configs))
    answer = rig.beat("m", 0, "t")
    assert answer.heartbeat_interval_ms == GroupsConfig().share_min_heartbeat_interval_ms
    rig.advance(499)
    assert rig.group().members
    rig.advance(1)
    assert not rig.group().members
