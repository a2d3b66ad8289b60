"""Long decisions: what a turn does at most, what comes first, and what a failover leaves undone."""

from dataclasses import replace

from tests.unit.controller.harness import CONFIG, NODE_ID, Stage, a_stage, code_of, directory_of
from tidelog.controller.messages import (
    AlterPartition,
    AlterReassignments,
    AssignReplicas,
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    ElectionType,
    ElectLeaders,
    IsrMember,
    IsrProposal,
    Reassignment,
    ReplicaDirectory,
    UnregisterBroker,
)
from tidelog.controller.topic_messages import CreateTopics, DeleteTopics, NewTopic, TopicRef
from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_CHANGES_PER_TURN, MAX_LONG_DECISIONS
from tidelog.metadata.records import (
    FENCE,
    LEADER_UNCHANGED,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tidelog.model import NO_LEADER, Uuid

MANY = 3 * MAX_CHANGES_PER_TURN
GRACE_MS = 1000


def many_partitions(*broker_ids: int) -> Stage:
    """A topic with `MANY` partitions on all of these brokers, led in turn."""
    return with_many(a_stage(*broker_ids), *broker_ids)


def with_many(stage: Stage, *broker_ids: int) -> Stage:
    """The same on a stage that has these brokers."""
    count = len(broker_ids)
    replicas = [tuple(broker_ids[(n + k) % count] for k in range(count)) for n in range(MANY)]
    assert stage.create("orders", *replicas).error_code is ErrorCode.NONE
    return stage


def suspect(stage: Stage, broker_id: int) -> int:
    """The broker's connections are gone; how many batches the log had."""
    stage.now = Instant(stage.now + GRACE_MS)
    for other in stage.epochs:
        if other != broker_id:
            stage.heartbeat(other)
    stage.controller.wake(stage.now)
    stage.settle()
    before = len(stage.log.batch_sizes)
    stage.controller.on_broker_suspected(broker_id, stage.now)
    return before


def test_a_turn_decides_no_more_than_a_slice() -> None:
    """Goal: the work of a turn is bounded, whatever a broker held."""
    stage = many_partitions(1, 2, 3)
    before = suspect(stage, 1)
    assert stage.log.batch_sizes[before:] == [MAX_CHANGES_PER_TURN]
    for turn in (2, 3):
        assert stage.controller.deadline() == Instant(0)
        stage.controller.wake(stage.now)
        assert len(stage.log.batch_sizes) == before + turn
    stage.settle()
    assert stage.log.batch_sizes[before:] == [MAX_CHANGES_PER_TURN] * 2 + [MAX_CHANGES_PER_TURN + 1]
    assert stage.broker(1).fenced


def test_what_the_dead_broker_led_is_led_again_first() -> None:
    """Goal: elections, then ISR changes, the fencing last."""
    stage = many_partitions(1, 2, 3)
    suspect(stage, 1)
    stage.settle()
    *changes, last = stage.records()[-MANY - 1 :]
    assert last == BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=stage.epochs[1], fenced=FENCE
    )
    elections = [
        isinstance(change, PartitionChangeRecord) and change.leader != LEADER_UNCHANGED
        for change in changes
    ]
    assert elections == [True] * (MANY // 3) + [False] * (MANY - MANY // 3)
    assert all(one.leader in (2, 3) for one in stage.topic("orders").partitions.values())


def test_a_small_topic_does_not_wait_for_a_large_one() -> None:
    """Goal: the first slice elects for topics with few partitions, whenever they were made."""
    stage = many_partitions(1, 2, 3)
    stage.create("small", (1, 2), (1, 3))
    suspect(stage, 1)
    stage.lose(keep=1)
    stage.settle()
    assert [stage.partition("small", number).leader for number in (0, 1)] == [2, 3]
    led = [one.leader for one in stage.topic("orders").partitions.values()]
    assert led.count(1) == MANY // 3 - (MAX_CHANGES_PER_TURN - 2)


def test_the_next_controller_finishes_what_a_failover_left() -> None:
    """Goal: after any slice the broker is still unfenced, so that it is fenced once more, and the
    partitions that changed already are left alone."""
    stage = many_partitions(1, 2)
    suspect(stage, 1)
    stage.lose(keep=1)
    stage.settle()
    led = [one.leader for one in stage.topic("orders").partitions.values()]
    assert led.count(1) == (MANY + 1) // 2 - MAX_CHANGES_PER_TURN
    assert not stage.broker(1).fenced
    stage.lead(epoch=3)
    known = len(stage.log.records)
    stage.controller.on_broker_suspected(1, stage.now)
    stage.settle()
    assert stage.broker(1).fenced
    assert len(stage.log.records) == known + MANY - MAX_CHANGES_PER_TURN + 1
    assert all(one.isr == (2,) for one in stage.topic("orders").partitions.values())


def test_a_departing_broker_is_not_elected() -> None:
    """Goal: between two slices it is unfenced in the log, and counts as gone. Method: the round
    that moves leaders to their preferred replicas is due in the midst of it."""
    config = replace(CONFIG, leader_imbalance_check_interval_seconds=5)
    stage = a_stage(1, 2, 3, config=config)
    start = stage.now
    with_many(stage, 1, 2, 3)
    stage.create("preferred", (2, 1))
    stage.ask(AlterReassignments((Reassignment("preferred", 0, (1, 2)),)))
    assert stage.partition("preferred").leader == 2
    suspect(stage, 1)
    known = len(stage.log.records)
    stage.now = Instant(start + 5000)
    stage.controller.wake(stage.now)
    assert not stage.controller.image.brokers[1].fenced
    stage.settle()
    changes = [r for r in stage.records()[known:] if isinstance(r, PartitionChangeRecord)]
    assert not any(change.leader == 1 for change in changes)
    assert stage.partition("preferred").isr == (2,)
    assert stage.broker(1).fenced


def test_requests_wait_for_a_departure_and_are_decided_by_what_it_left() -> None:
    """Goal: a broker that departs is not taken into an ISR, and no partition is placed on it."""
    stage = many_partitions(1, 2, 3)
    stage.create("payments", (2, 1, 3))
    stage.propose("payments", 0, 2, 3)
    suspect(stage, 1)
    assert not stage.controller.image.brokers[1].fenced
    partition = stage.partition("payments")
    members = tuple(IsrMember(each, stage.epochs[each]) for each in (2, 3, 1))
    proposal = IsrProposal(
        stage.topic("payments").topic_id,
        0,
        partition.leader_epoch,
        partition.partition_epoch,
        members,
    )
    stage.answers.clear()
    stage.send(AlterPartition(2, stage.epochs[2], (proposal,)), "join")
    stage.send(CreateTopics((NewTopic("new", 4, 3),)), "create")
    stage.send(UnregisterBroker(2), "other departure")
    stage.settle()
    answers = dict(stage.answers)
    assert answers["join"].results[0].error_code is ErrorCode.INELIGIBLE_REPLICA
    assert all(one.isr == (3,) for one in stage.topic("new").partitions.values())
    assert all(one.leader == 3 for one in stage.topic("orders").partitions.values())
    assert 2 not in stage.controller.image.brokers


def test_heartbeats_go_between_the_slices() -> None:
    """Goal: no broker loses its session to the work; the departing broker's own heartbeat does not
    bring it back before it is fenced, and does after that."""
    stage = many_partitions(1, 2)
    suspect(stage, 1)
    stage.answers.clear()
    seen = stage.controller.image.offset
    for broker_id in (2, 1):
        beat = BrokerHeartbeat(broker_id, stage.epochs[broker_id], seen, False, False)
        stage.send(beat, f"beat {broker_id}")
    stage.settle()
    alive = BrokerHeartbeatResult(True, False, False)
    assert stage.answers == [("beat 2", alive), ("beat 1", alive)]
    assert stage.broker(1).fenced
    assert not stage.heartbeat(1).is_fenced


def test_a_broker_that_returns_while_its_directory_goes_leads_what_waits_for_it() -> None:
    """Goal: a heartbeat that has waited its turn departs with nothing, if another one has named the
    failed directory meanwhile: it unfences its sender, which is elected."""
    stage = a_stage(2, 3)
    other = Uuid(b"o" * 16)
    stage.register(1, log_dirs=(directory_of(1), other))
    stage.heartbeat(1)
    stage.create("alone", (1,))
    row = ReplicaDirectory(stage.topic("alone").topic_id, 0, directory_of(1))
    stage.ask(AssignReplicas(1, stage.epochs[1], (row,)))
    stage.heartbeat(1, fence=True)
    assert stage.partition("alone").leader == NO_LEADER
    with_many(stage, 2, 3)
    seen = stage.controller.image.offset
    stage.send(BrokerHeartbeat(2, stage.epochs[2], seen, False, True))
    for _ in range(2):
        stage.send(BrokerHeartbeat(1, stage.epochs[1], seen, False, False, (other,)))
    stage.settle()
    assert stage.broker(1).log_dirs == (directory_of(1),)
    assert not stage.broker(1).fenced
    assert stage.partition("alone").leader == 1


def test_a_controller_with_too_much_to_do_fences_no_broker_for_that() -> None:
    """Goal: a heartbeat that is refused because too much waits still is a sign of life. Method: no
    turn has time for what waits, and that is as much as may wait."""
    stage = many_partitions(1, 2, 3)
    suspect(stage, 1)
    for _ in range(MAX_LONG_DECISIONS):
        stage.send(DeleteTopics((TopicRef("nowhere"),)))
    stage.answers.clear()
    seen = stage.controller.image.offset
    timeout_ms = stage.config.broker_session_timeout_ms
    for broker_id in (2, 3) * 3:
        stage.now = Instant(stage.now + timeout_ms // 3)
        stage.send(BrokerHeartbeat(broker_id, stage.epochs[broker_id], seen, False, False))
        stage.send(BrokerHeartbeat(broker_id, stage.epochs[broker_id] - 1, seen, False, False))
        stage.controller.wake(stage.now, goes_on=False)
    assert {code_of(answer) for _, answer in stage.answers} == {ErrorCode.REQUEST_TIMED_OUT}
    stage.settle()
    assert [each.node_id for each in stage.controller.image.brokers.values() if each.fenced] == [1]


def test_a_new_incarnation_registers_when_its_predecessor_has_left() -> None:
    """Goal: the cleaning up comes first, in slices; its epoch is the offset of its record."""
    stage = many_partitions(1, 2)
    suspect(stage, 1)
    stage.register(1, b"b")
    *_, record = stage.records()
    assert isinstance(record, RegisterBrokerRecord)
    assert record.broker_epoch == stage.epochs[1] == stage.log.end_offset - 1
    assert all(one.isr == (2,) for one in stage.topic("orders").partitions.values())


def test_a_request_for_many_partitions_has_one_answer() -> None:
    """Goal: all results in order, when the last slice is committed."""
    stage = many_partitions(1, 2, 3)
    suspect(stage, 1)
    stage.settle()
    stage.register(1, b"b")
    stage.heartbeat(1)
    topic = stage.topic("orders")
    for leader in (2, 3):
        members = tuple(IsrMember(each, stage.epochs[each]) for each in (leader, 5 - leader, 1))
        proposals = tuple(
            IsrProposal(topic.topic_id, number, one.leader_epoch, one.partition_epoch, members)
            for number, one in topic.partitions.items()
            if one.leader == leader
        )
        answer = stage.ask(AlterPartition(leader, stage.epochs[leader], proposals))
        assert [one.partition for one in answer.results] == [one.partition for one in proposals]
        assert {one.error_code for one in answer.results} == {ErrorCode.NONE}
    before = len(stage.log.batch_sizes)
    answer = stage.ask(ElectLeaders(ElectionType.PREFERRED, None))
    assert {one.error_code for one in answer.results} == {ErrorCode.NONE}
    assert len(answer.results) == MANY // 3
    assert max(stage.log.batch_sizes[before:]) <= MAX_CHANGES_PER_TURN
    assert all(one.leader == one.replicas[0] for one in stage.topic("orders").partitions.values())


def test_many_topics_are_deleted_in_slices() -> None:
    """Goal: one answer in order, and a topic that was deleted a slice ago counts as named twice."""
    stage = a_stage(1)
    names = [f"t{number}" for number in range(MANY)]
    stage.ask(CreateTopics(tuple(NewTopic(name, 1, 1) for name in names)))
    first_id = stage.topic("t0").topic_id
    before = len(stage.log.batch_sizes)
    refs = (*(TopicRef(name) for name in names), TopicRef(None, first_id))
    *deleted, again = stage.ask(DeleteTopics(refs)).topics
    assert [(one.name, one.error_code) for one in deleted] == [
        (name, ErrorCode.NONE) for name in names
    ]
    assert again.error_code is ErrorCode.INVALID_REQUEST
    assert stage.log.batch_sizes[before:] == [MAX_CHANGES_PER_TURN] * 3
    assert not stage.controller.image.topics_by_id


def test_a_lost_leadership_ends_long_decisions() -> None:
    """Goal: one NOT_CONTROLLER each, begun or not."""
    stage = many_partitions(1, 2)
    stage.answers.clear()
    stage.send(UnregisterBroker(1), "first")
    stage.send(UnregisterBroker(2), "second")
    stage.log.lose()
    stage.controller.on_leader_change(NODE_ID + 1, 2, -1, stage.now)
    stage.collect()
    assert [(name, code_of(answer)) for name, answer in stage.answers] == [
        ("first", ErrorCode.NOT_CONTROLLER),
        ("second", ErrorCode.NOT_CONTROLLER),
    ]
    stage.lead(epoch=3)
    assert {1, 2} <= set(stage.controller.image.brokers)


def test_a_controlled_shutdown_of_many_partitions() -> None:
    """Goal: answered at once; the broker goes when all are handed over, and others know it."""
    stage = many_partitions(1, 2)
    assert not stage.heartbeat(1, stop=True).should_shut_down
    assert not stage.controller.image.leads(1)
    moved = stage.controller.image.offset
    stage.heartbeat(2, offset=moved - 1)
    assert not stage.heartbeat(1, stop=True).should_shut_down
    stage.heartbeat(2, offset=moved)
    assert stage.heartbeat(1, stop=True).should_shut_down
