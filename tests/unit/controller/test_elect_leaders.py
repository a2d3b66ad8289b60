"""Elections that an operator asks for: which replica leads then, and the answers."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.unit.controller.harness import (
    CONFIG,
    Stage,
    a_broker,
    a_stage,
    a_view,
    after,
    an_image,
    at_once,
)
from tidelog.config import ControllerConfig
from tidelog.controller.elect_leaders import decide_balance, decide_elect_leaders, decide_unclean
from tidelog.controller.messages import (
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ElectionType,
    ElectLeaders,
    ElectLeadersResult,
    IncrementalAlterConfigs,
    Request,
)
from tidelog.controller.records import config_record
from tidelog.controller.view import ControllerDecision
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import ConfigResource, MetadataImage, PartitionImage
from tidelog.metadata.record_codec import encode_record

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
LED_BY_2 = PartitionImage((1, 2, 3), (1, 2, 3), 2, 4, 8)
LEADERLESS = PartitionImage((1, 2, 3), (), -1, 4, 8, eligible_leaders=(1,))
FENCED_1 = (a_broker(1, fenced=True), a_broker(2), a_broker(3))
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3))


def elect(
    image: MetadataImage, kind: int, partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
) -> ControllerDecision:
    return at_once(decide_elect_leaders(a_view(image), ElectLeaders(kind, partitions)))


def codes_of(decision: ControllerDecision) -> list[tuple[str, int, ErrorCode]]:
    assert isinstance(decision.response, ElectLeadersResult)
    return [(item.topic, item.partition, item.error_code) for item in decision.response.results]


class Case(NamedTuple):
    """An election and what must come of it."""

    name: str
    kind: ElectionType
    partition: PartitionImage
    brokers: tuple[object, ...]
    code: ErrorCode
    leader: int
    isr: tuple[int, ...]
    recovering: bool = False


CASES = [
    Case("back to the first", PREFERRED, LED_BY_2, LIVE, ErrorCode.NONE, 1, (1, 2, 3)),
    Case(
        "the first leads already",
        PREFERRED,
        replace(LED_BY_2, leader=1),
        LIVE,
        ErrorCode.ELECTION_NOT_NEEDED,
        1,
        (1, 2, 3),
    ),
    Case(
        "the first is not in sync",
        PREFERRED,
        replace(LED_BY_2, isr=(2, 3)),
        LIVE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        2,
        (2, 3),
    ),
    Case(
        "the first is dead",
        PREFERRED,
        replace(LED_BY_2, isr=(2, 3)),
        FENCED_1,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        2,
        (2, 3),
    ),
    Case(
        "unclean is for the leaderless",
        UNCLEAN,
        LED_BY_2,
        LIVE,
        ErrorCode.ELECTION_NOT_NEEDED,
        2,
        (1, 2, 3),
    ),
    Case("unclean gives up records", UNCLEAN, LEADERLESS, FENCED_1, ErrorCode.NONE, 2, (2,), True),
    Case("but not without need", UNCLEAN, LEADERLESS, LIVE, ErrorCode.NONE, 1, (1,)),
    Case(
        "no replica is alive",
        UNCLEAN,
        LEADERLESS,
        (),
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        -1,
        (),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_partition(case: Case) -> None:
    image = an_image(*case.brokers, t=[case.partition])  # type: ignore[arg-type]
    decision = elect(image, case.kind, (("t", (0,)),))
    assert codes_of(decision) == [("t", 0, case.code)]
    assert bool(decision.records) == (case.code is ErrorCode.NONE)
    partition = after(image, decision.records).topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (case.leader, case.isr)
    assert partition.recovering == case.recovering
    assert partition.leader_epoch == case.partition.leader_epoch + bool(decision.records)


def test_each_partition_is_answered_once_in_the_order_of_the_request() -> None:
    image = an_image(*LIVE, t=[LED_BY_2, replace(LED_BY_2, leader=1)])
    decision = elect(image, PREFERRED, (("gone", (0,)), ("t", (1, 0, 0, 9)), ("t", (0,))))
    assert codes_of(decision) == [
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("t", 0, ErrorCode.NONE),
        ("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(decision.records) == 1


def test_a_request_for_all_is_silent_about_those_that_need_nothing() -> None:
    image = an_image(
        *LIVE, a=[replace(LED_BY_2, leader=1), LED_BY_2], b=[replace(LED_BY_2, isr=(2, 3))]
    )
    assert codes_of(elect(image, PREFERRED, None)) == [
        ("a", 1, ErrorCode.NONE),
        ("b", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]


def test_an_unknown_type_is_an_invalid_request() -> None:
    with pytest.raises(ProtocolError) as refused:
        elect(an_image(*LIVE, t=[LED_BY_2]), 2, None)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_election_is_answered_when_it_is_committed() -> None:
    stage = a_stage(1, 2, 3)
    stage.create("t", (1, 2, 3))
    stage.propose("t", 0, 1, 2, 3)
    stage.heartbeat(1, fence=True)
    assert stage.partition("t").leader == 2
    stage.heartbeat(1)
    stage.propose("t", 0, 2, 3, 1)
    stage.send(ElectLeaders(PREFERRED, (("t", (0,)),)))
    assert stage.answers == []
    stage.settle()
    assert stage.partition("t").leader == 1
    assert [answer.results[0].error_code for _, answer in stage.answers] == [ErrorCode.NONE]


# Balance -----------------------------------------------------------------------------------


def test_balancing_moves_what_it_can_up_to_its_bound() -> None:
    image = an_image(
        *LIVE,
        a=[LED_BY_2, replace(LED_BY_2, isr=(2, 3)), LED_BY_2],
        b=[replace(LED_BY_2, leader=1), LED_BY_2],
    )
    first = decide_balance(a_view(image), 2)
    image = after(image, first)
    leaders = [p.leader for topic in image.topics_by_id.values() for p in topic.partitions.values()]
    assert leaders == [1, 2, 1, 1, 2]
    rest = decide_balance(a_view(image), 2)
    assert len(rest) == 1
    assert decide_balance(a_view(after(image, rest)), 2) == []


def test_balancing_leaves_alone_whose_preferred_replica_is_away() -> None:
    assert decide_balance(a_view(an_image(*FENCED_1, t=[replace(LED_BY_2, isr=(2, 3))]))) == []


def displaced(config: ControllerConfig = CONFIG) -> Stage:
    """A partition that its second replica leads, with all replicas in sync, and brokers whose
    sessions never end."""
    stage = a_stage(1, 2, config=replace(config, broker_session_timeout_ms=10_000_000))
    stage.create("t", (1, 2))
    stage.heartbeat(1, fence=True)
    stage.heartbeat(1)
    stage.propose("t", 0, 2, 1)
    assert stage.partition("t").leader == 2
    return stage


def test_leaders_go_back_after_the_interval() -> None:
    stage = displaced()
    stage.pass_time(stage.now + 299_999)
    assert stage.partition("t").leader == 2
    stage.pass_time(stage.now + 1)
    assert stage.partition("t").leader == 1
    assert stage.partition("t").isr == (2, 1)


def test_leaders_stay_where_the_operator_wants_it() -> None:
    stage = displaced(replace(CONFIG, auto_leader_rebalance_enable=False))
    stage.pass_time(stage.now + 1_000_000)
    assert stage.partition("t").leader == 2


def test_a_new_controller_waits_a_whole_interval() -> None:
    stage = displaced()
    stage.pass_time(stage.now + 299_000)
    stage.lose()
    assert stage.controller.deadline() is None
    stage.lead(3)
    stage.pass_time(stage.now + 299_999)
    assert stage.partition("t").leader == 2
    stage.pass_time(stage.now + 1)
    assert stage.partition("t").leader == 1


# Unclean -----------------------------------------------------------------------------------

UNCLEAN_ENABLE = "unclean.leader.election.enable"
LONG_SESSIONS = replace(CONFIG, broker_session_timeout_ms=10_000_000)


def leaderless(config: ControllerConfig = LONG_SESSIONS) -> Stage:
    """A partition that lost its first replica, then with the second every eligible one; the first
    is back, and lacks what the second may have acknowledged."""
    stage = a_stage(1, 2, config=replace(config, min_insync_replicas=1))
    stage.create("t", (1, 2))
    stage.heartbeat(1, fence=True)
    stage.heartbeat(2, fence=True)
    stage.heartbeat(1)
    assert stage.partition("t").leader == -1
    assert stage.controller.unclean_elections == 0
    stage.lines()
    return stage


def allow(resource_type: int, name: str, value: str, *, validate_only: bool = False) -> Request:
    change = ConfigChange(UNCLEAN_ENABLE, ConfigOperation.SET, value)
    resource = ConfigResourceChange(resource_type, name, (change,))
    return IncrementalAlterConfigs((resource,), validate_only)


@pytest.mark.parametrize("resource", [(2, "t"), (4, "")], ids=["topic", "cluster"])
def test_allowing_unclean_elections_elects_at_once_and_logs_what_was_given_up(
    resource: tuple[int, str],
) -> None:
    stage = leaderless()
    stage.ask(allow(*resource, "true", validate_only=True))
    stage.ask(allow(*resource, "false"))
    assert stage.partition("t").leader == -1
    stage.ask(allow(*resource, "true"))
    assert (stage.partition("t").leader, stage.partition("t").isr) == (1, (1,))
    assert stage.partition("t").recovering
    assert stage.controller.unclean_elections == 1
    warned = [line for line in stage.lines() if "gave up records" in line]
    assert warned == [
        "t-0 change_partition: gave up records (unclean) leader=1 instead_of=(2,) last_leader=(2,) "
        "cause=unclean elections were allowed"
    ]


def test_allowing_them_for_one_topic_elects_in_no_other() -> None:
    stage = leaderless()
    stage.create("other", (1,))
    stage.ask(allow(2, "other", "true"))
    assert stage.partition("t").leader == -1


def test_the_sweep_elects_where_it_is_allowed() -> None:
    allowed = replace(LEADERLESS, leader=-1)
    configs = {ConfigResource(2, "yes"): {UNCLEAN_ENABLE: "true"}}
    image = an_image(*FENCED_1, configs=configs, yes=[allowed, LED_BY_2], no=[allowed])
    records = at_once(decide_unclean(a_view(image), "test")).records
    image = after(image, records)
    assert len(records) == 1
    assert image.topics_by_name["yes"].partitions[0].leader == 2
    assert image.topics_by_name["no"].partitions[0].leader == -1


def test_the_sweep_comes_round_after_its_interval() -> None:
    stage = leaderless()
    start = stage.now
    # Behind the controller's back: as if it had failed between this record and the elections.
    topic = ConfigResource(2, "t")
    stage.log.append([encode_record(config_record(topic, UNCLEAN_ENABLE, "true"))])
    stage.settle()
    stage.pass_time(start + 299_999)
    assert stage.partition("t").leader == -1
    stage.pass_time(start + 300_000)
    assert stage.partition("t").leader == 1
    assert stage.controller.unclean_elections == 1
