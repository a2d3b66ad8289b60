"""Moving partitions: what is written, what is refused, and how a move ends."""

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
    code_of,
    directory_of,
)
from tidelog.controller.events import UncleanLeaderElected
from tidelog.controller.messages import (
    AlterReassignments,
    AlterReassignmentsResult,
    ListReassignments,
    ListReassignmentsResult,
    Reassignment,
    ReassignmentInProgress,
)
from tidelog.controller.reassignments import decide_alter_reassignments, decide_list_reassignments
from tidelog.env.trace import Trace, TraceList
from tidelog.errors import ErrorCode
from tidelog.metadata.image import ConfigResource, MetadataImage, PartitionImage

HOME = tuple(directory_of(node_id) for node_id in (1, 2, 3))
PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, 4, 8, directories=HOME)
LIVE = tuple(a_broker(node_id) for node_id in (1, 2, 3, 4, 5))
MOVING = replace(
    PARTITION,
    replicas=(4, 5, 1, 2, 3),
    isr=(1, 4),
    adding_replicas=(4, 5),
    removing_replicas=(1, 2, 3),
    directories=tuple(directory_of(node_id) for node_id in (4, 5, 1, 2, 3)),
)


def alter(
    image: MetadataImage, *wishes: Reassignment, factor: bool = True
) -> tuple[list[ErrorCode], MetadataImage]:
    """The codes, and the image afterwards."""
    decision = at_once(
        decide_alter_reassignments(a_view(image), AlterReassignments(wishes, factor))
    )
    assert isinstance(decision.response, AlterReassignmentsResult)
    codes = [result.error_code for result in decision.response.results]
    return codes, after(image, decision.records)


class Case(NamedTuple):
    """A wish for one partition and what becomes of it."""

    name: str
    partition: PartitionImage
    target: tuple[int, ...] | None
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    isr: tuple[int, ...] = (1, 2, 3)
    leader: int = 1
    code: ErrorCode = ErrorCode.NONE
    elected: bool = False
    """Whether the leader epoch grows."""


INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT
CASES = [
    Case("a move begins", PARTITION, (4, 5), (4, 5, 1, 2, 3), (4, 5), (1, 2, 3)),
    Case("a reordering is done at once", PARTITION, (3, 2, 1), (3, 2, 1)),
    Case("the same place", PARTITION, (1, 2, 3), (1, 2, 3)),
    Case(
        "a smaller set in sync is done at once, with a new leader",
        PARTITION,
        (3, 2),
        (3, 2),
        isr=(2, 3),
        leader=3,
        elected=True,
    ),
    Case(
        "a follower is dropped: a new epoch of the same leader",
        PARTITION,
        (1, 2),
        (1, 2),
        isr=(1, 2),
        elected=True,
    ),
    Case("the move is cancelled", MOVING, None, (1, 2, 3), isr=(1,), elected=True),
    Case(
        "cancelled with a newcomer as leader",
        replace(MOVING, leader=4, isr=(1, 4)),
        None,
        (1, 2, 3),
        isr=(1,),
        elected=True,
    ),
    Case(
        "cancelling would lose records",
        replace(MOVING, leader=4, isr=(4,)),
        None,
        MOVING.replicas,
        (4, 5),
        (1, 2, 3),
        isr=(4,),
        leader=4,
        code=INVALID,
    ),
    Case(
        "nothing to cancel", PARTITION, None, (1, 2, 3), code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    ),
    Case("another target", MOVING, (5, 1), (5, 1, 2, 3), (5,), (2, 3), isr=(1,), elected=True),
    Case("no replica", PARTITION, (), (1, 2, 3), code=INVALID),
    Case("a stranger", PARTITION, (1, 9), (1, 2, 3), code=INVALID),
    Case("twice the same", PARTITION, (4, 4), (1, 2, 3), code=INVALID),
]


@pytest.mark.parametrize("elr", [True, False], ids=["elr", "no elr"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_partition(case: Case, elr: bool) -> None:
    codes, image = alter(
        an_image(*LIVE, elr=elr, t=[case.partition]), Reassignment("t", 0, case.target)
    )
    partition = image.topics_by_name["t"].partitions[0]
    assert codes == [case.code]
    assert partition.replicas == case.replicas
    assert (partition.adding_replicas, partition.removing_replicas) == (case.adding, case.removing)
    assert (partition.isr, partition.leader) == (case.isr, case.leader)
    assert partition.leader_epoch == case.partition.leader_epoch + case.elected
    assert partition.directories == tuple(directory_of(node_id) for node_id in case.replicas)
    assert set(partition.eligible_leaders) <= set(partition.replicas)


def test_where_records_may_be_lost_even_a_costly_cancel_goes_through() -> None:
    configs = {ConfigResource(2, "t"): {"unclean.leader.election.enable": "true"}}
    for elr in (True, False):
        image = an_image(*LIVE, elr=elr, configs=configs, t=[replace(MOVING, leader=4, isr=(4,))])
        codes, image = alter(image, Reassignment("t", 0, None))
        partition = image.topics_by_name["t"].partitions[0]
        assert codes == [ErrorCode.NONE]
        assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (1,), 1)
        assert partition.recovering


@pytest.mark.parametrize("leader", [4, -1])
def test_a_costly_cancel_while_the_origin_is_away_is_warned_of_and_makes_no_clean_leader(
    leader: int,
) -> None:
    """Without ELR the ISR must name a replica, so the first of the origin; what it lacks is
    given up: a warning, and it must report its recovery."""
    configs = {ConfigResource(2, "t"): {"unclean.leader.election.enable": "true"}}
    moving = replace(MOVING, leader=leader, isr=(4,))
    brokers = [a_broker(node_id, fenced=node_id not in (leader, 5)) for node_id in range(1, 6)]
    image = an_image(*brokers, elr=False, configs=configs, t=[moving])
    seen = TraceList()
    view, cancel = replace(a_view(image), trace=Trace(seen)), Reassignment("t", 0, None)
    decision = at_once(decide_alter_reassignments(view, AlterReassignments((cancel,))))
    partition = after(image, decision.records).topics_by_name["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 3), (1,), -1)
    assert partition.recovering
    (warning,) = [each for each in seen.events if isinstance(each, UncleanLeaderElected)]
    assert warning.instead_of == (4,)


def test_the_factor_stays_where_the_request_says_so() -> None:
    image = an_image(*LIVE, t=[PARTITION, MOVING])
    grow, move = Reassignment("t", 0, (1, 2, 3, 4)), Reassignment("t", 1, (2, 3, 4))
    assert alter(image, grow, move, factor=False)[0] == [
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.NONE,
    ]


def test_each_partition_stands_for_itself_and_once() -> None:
    image = an_image(*LIVE, t=[PARTITION])
    wish = Reassignment("t", 0, (4, 5))
    codes, _ = alter(image, Reassignment("no", 0, None), Reassignment("t", 7, (1,)), wish, wish)
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]


def test_the_list_names_what_moves() -> None:
    image = an_image(*LIVE, a=[PARTITION, MOVING], b=[MOVING])
    a1 = ReassignmentInProgress("a", 1, (4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    for asked, found in (
        (None, (a1, a1._replace(topic="b", partition=0))),
        ((("a", (0, 1, 1, 5)), ("gone", (0,))), (a1,)),
        ((), ()),
    ):
        response = decide_list_reassignments(a_view(image), ListReassignments(asked)).response
        assert response == ListReassignmentsResult(found)


# To the end --------------------------------------------------------------------------------


def moving_stage() -> Stage:
    """A partition on its way from 1 and 2 to 3 and 4."""
    stage = a_stage(1, 2, 3, 4)
    stage.create("t", (1, 2))
    stage.ask(AlterReassignments((Reassignment("t", 0, (3, 4)),)))
    return stage


def test_the_last_newcomer_in_sync_completes_it_and_another_replica_leads() -> None:
    stage = moving_stage()
    assert stage.partition("t").replicas == (3, 4, 1, 2)
    assert stage.propose("t", 0, 1, 2, 3).error_code is ErrorCode.NONE
    assert stage.partition("t").leader == 1
    stage.lines()
    assert stage.propose("t", 0, 1, 2, 3, 4).error_code is ErrorCode.NEW_LEADER_ELECTED
    partition = stage.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
    assert partition.directories == (directory_of(3), directory_of(4))
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 3)
    assert [line for line in stage.lines() if "reassign" in line] == [
        "t-0 change_partition: reassignment complete (its newcomers are in sync) "
        "replicas=(3, 4) was=(3, 4, 1, 2) adding=() removing=() isr=(3, 4) leader=3"
    ]


def test_a_leader_that_stays_has_a_new_epoch() -> None:
    stage = a_stage(1, 2, 3)
    stage.create("t", (1, 2))
    stage.ask(AlterReassignments((Reassignment("t", 0, (1, 3)),)))
    result = stage.propose("t", 0, 1, 2, 3)
    assert (result.error_code, result.leader_id, result.isr) == (ErrorCode.NONE, 1, (1, 3))
    assert result.leader_epoch == stage.partition("t").leader_epoch == 1


def test_a_broker_that_dies_underway_neither_ends_nor_completes_it() -> None:
    stage = moving_stage()
    stage.propose("t", 0, 1, 2, 3)
    stage.heartbeat(1, fence=True)
    partition = stage.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4, 1, 2), (2, 3), 3)
    stage.propose("t", 0, 3, 2, 4)
    partition = stage.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)


def test_too_many_for_one_batch_are_refused_as_a_whole() -> None:
    stage = a_stage(1, 2, config=replace(CONFIG, max_records_per_batch=20))
    stage.create("a", *[(1,)] * 12)
    stage.create("b", *[(1,)] * 12)
    wishes = tuple(Reassignment(name, number, (2,)) for name in "ab" for number in range(12))
    assert code_of(stage.ask(AlterReassignments(wishes))) is ErrorCode.POLICY_VIOLATION
    assert stage.partition("a").replicas == (1,)
