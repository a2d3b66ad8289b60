"""Whole scenarios of a controller: leadership, deaths, departures, failovers, and its trace."""

from dataclasses import replace

import pytest

from tests.unit.controller.controller_orders import Orders
from tests.unit.controller.harness import CONFIG, NODE_ID, Stage, a_stage, code_of
from tidelog.controller import configs, slices
from tidelog.controller.acl_messages import CreateAcls
from tidelog.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResult,
    BrokerHeartbeat,
    BrokerHeartbeatResult,
    Refused,
    RegisterBrokerResult,
    Request,
    UnregisterBroker,
)
from tidelog.controller.topic_messages import CreateTopics, CreateTopicsResult, NewTopic
from tidelog.env.instant import Instant
from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.kraft.messages import CommittedBatch
from tidelog.limits import MAX_PENDING_DECISIONS
from tidelog.metadata.acls import AclEntry
from tidelog.metadata.records import NoOpRecord, PartitionChangeRecord

SESSION_MS = CONFIG.broker_session_timeout_ms
LOOK_MS = SESSION_MS // 8
GRACE_MS = CONFIG.disconnect_grace_ms


def new_topic(name: str) -> CreateTopics:
    return CreateTopics((NewTopic(name, 1, 1),))


def codes(stage: Stage) -> list[tuple[str, str]]:
    """(request, code) of the answers so far, and forgets them."""
    found = []
    for name, answer in stage.answers:
        if isinstance(answer, CreateTopicsResult):
            code = answer.topics[0].error_code
        else:
            code = code_of(answer) if isinstance(answer, Refused) else ErrorCode.NONE
        found.append((name, code.name))
    stage.answers.clear()
    return found


# Leadership --------------------------------------------------------------------------------


def test_only_the_active_controller_decides() -> None:
    """Goal: every other node answers NOT_CONTROLLER at once."""
    stage = Stage()
    stage.send(new_topic("a"), "a")
    stage.lead()
    stage.lose()
    stage.send(new_topic("b"), "b")
    assert codes(stage) == [("a", "NOT_CONTROLLER"), ("b", "NOT_CONTROLLER")]


def test_active_when_the_beginning_of_the_epoch_is_committed() -> None:
    """Goal: an elected leader that may lack committed records does not decide."""
    stage = Stage()
    start = stage.log.lead(1)
    stage.controller.on_leader_change(NODE_ID, 1, start, stage.now)
    assert not stage.controller.active
    assert stage.controller.deadline() is None
    stage.settle()
    assert stage.controller.active


def test_active_at_once_when_everything_is_committed_already() -> None:
    """Goal: the order of the two signals does not matter."""
    stage = Stage()
    start = stage.log.lead(1)
    stage.settle()
    stage.controller.on_leader_change(NODE_ID, 1, start, stage.now)
    assert stage.controller.active


def test_the_same_leadership_reported_twice() -> None:
    """Goal: a repeated signal does not end a leadership."""
    stage = a_stage(1)
    epoch_start = 0
    stage.send(new_topic("a"), "a")
    stage.controller.on_leader_change(NODE_ID, 1, epoch_start, stage.now)
    stage.settle()
    assert codes(stage)[-1] == ("a", "NONE")


def test_a_lost_leadership_takes_back_what_was_not_committed() -> None:
    """Goal: NOT_CONTROLLER to all who wait, in order; the image is the committed one."""
    stage = a_stage(1)
    stage.ask(new_topic("a"))
    stage.answers.clear()
    stage.send(new_topic("b"), "b")
    stage.send(new_topic("b"), "b again")
    assert codes(stage) == []
    stage.lose()
    assert codes(stage) == [("b", "NOT_CONTROLLER"), ("b again", "NOT_CONTROLLER")]
    assert list(stage.controller.image.topics_by_name) == ["a"]
    stage.lead(epoch=3)
    stage.send(new_topic("b"), "b")
    stage.settle()
    assert codes(stage) == [("b", "NONE")]


def test_what_the_next_controller_inherits_is_there() -> None:
    """Goal: a refused request may have survived; asking again shows it."""
    stage = a_stage(1)
    stage.answers.clear()
    stage.send(new_topic("a"), "a")
    stage.lose(keep=1)
    stage.settle()
    assert codes(stage) == [("a", "NOT_CONTROLLER")]
    stage.lead(epoch=3)
    stage.send(new_topic("a"), "a")
    stage.settle()
    assert codes(stage) == [("a", "TOPIC_ALREADY_EXISTS")]


def test_a_log_that_refuses_ends_the_leadership() -> None:
    """Goal: the quorum may know first; the controller does not stay active in a dead epoch."""
    stage = a_stage(1)
    stage.answers.clear()
    stage.send(new_topic("a"), "a")
    stage.log.lose()
    stage.send(new_topic("b"), "b")
    assert codes(stage) == [("a", "NOT_CONTROLLER"), ("b", "NOT_CONTROLLER")]
    assert not stage.controller.active
    stage.log.follow([b"\x01\x14\x00\x00"], epoch=2)
    stage.settle()
    assert not stage.controller.active
    stage.controller.on_leader_change(NODE_ID + 1, 2, -1, stage.now)
    stage.lead(epoch=3)
    assert stage.controller.active


def test_a_later_decision_sees_the_earlier_one() -> None:
    """Goal: decided against what is appended, answered in order when it is committed."""
    stage = a_stage(1)
    stage.answers.clear()
    stage.send(new_topic("a"), "first")
    stage.send(new_topic("a"), "second")
    assert codes(stage) == []
    stage.settle()
    assert codes(stage) == [("first", "NONE"), ("second", "TOPIC_ALREADY_EXISTS")]


def test_of_a_decision_with_a_text_that_no_record_holds_nothing_is_written() -> None:
    """Goal: its sender is refused, and the controller decides on."""
    stage = a_stage(1)
    stage.answers.clear()
    entries = [
        AclEntry(2, "orders", 3, f"User:{name}", "*", 3, 3) for name in ("ada", "x" * 40_000)
    ]
    end = stage.log.end_offset
    stage.send(CreateAcls(tuple(entries)), "acls")
    assert stage.log.end_offset == end
    stage.send(new_topic("a"), "topic")
    stage.settle()
    assert codes(stage) == [("acls", "UNKNOWN_SERVER_ERROR"), ("topic", "NONE")]


def test_what_waits_is_bounded() -> None:
    """Goal: a quorum that commits nothing is answered with a code that clients retry."""
    stage = a_stage(1)
    stage.answers.clear()
    beat = BrokerHeartbeat(1, stage.epochs[1], stage.controller.image.offset, False, False)
    stage.send(new_topic("a"), "a")
    for _ in range(MAX_PENDING_DECISIONS - 1):
        stage.controller.handle(beat, "beat", stage.now)
    assert stage.controller.take_outputs() == []
    stage.send(beat, "one more")
    assert codes(stage) == [("one more", "REQUEST_TIMED_OUT")]
    stage.settle()
    assert len(stage.answers) == MAX_PENDING_DECISIONS


def test_a_standby_replays_a_kafka_style_gap_as_a_bug() -> None:
    """Goal: batches arrive in order and each once."""
    stage = a_stage(1)
    late = CommittedBatch(stage.log.end_offset + 1, stage.log.end_offset + 1, 1, 0, [b""], False)
    with pytest.raises(AssertionError, match="expected offset"):
        stage.controller.on_committed(late, stage.now)


# Idle --------------------------------------------------------------------------------------


def test_an_idle_controller_writes_no_ops() -> None:
    """Goal: one per interval of silence; none while there is other work; none when turned off."""
    stage = a_stage()
    before = len(stage.log.records)
    stage.pass_time(stage.now + 1999)
    assert stage.records()[before:] == [NoOpRecord()] * 3
    stage.ask(UnregisterBroker(9))
    stage.pass_time(stage.now + 1)
    assert len(stage.log.records) == before + 4
    stage.pass_time(stage.now + 400)
    stage.register(1)
    stage.pass_time(stage.now + 499)
    assert len(stage.log.records) == before + 5
    quiet = a_stage(config=replace(CONFIG, max_idle_interval_ms=0))
    end = quiet.log.end_offset
    quiet.pass_time(quiet.now + 10_000)
    assert quiet.log.end_offset == end


# Death -------------------------------------------------------------------------------------


def keep_alive(stage: Stage, *broker_ids: int, until: int) -> None:
    """Time passes while these brokers heartbeat every two seconds."""
    while stage.now < until:
        stage.pass_time(min(stage.now + 2000, until))
        for broker_id in broker_ids:
            stage.heartbeat(broker_id)


def test_a_silent_broker_is_fenced_and_its_partitions_move() -> None:
    """Goal: session, one batch of changes, a new leader with a new epoch, and its return."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2, 3), (2, 3, 1))
    start = stage.now
    keep_alive(stage, 2, 3, until=start + SESSION_MS + LOOK_MS)
    assert stage.broker(1).fenced
    led, followed = stage.partition("orders", 0), stage.partition("orders", 1)
    assert (led.isr, led.leader, led.leader_epoch, led.partition_epoch) == ((2, 3), 2, 1, 1)
    assert (followed.isr, followed.leader, followed.leader_epoch) == ((2, 3), 2, 0)
    answer = stage.heartbeat(1)
    assert answer == BrokerHeartbeatResult(True, False, False)
    assert stage.propose("orders", 0, 2, 3, 1).error_code is ErrorCode.NONE
    back = stage.partition("orders", 0)
    assert (back.isr, back.leader, back.leader_epoch, back.partition_epoch) == ((2, 3, 1), 2, 1, 2)


def test_all_brokers_die_and_the_last_one_leads_again() -> None:
    """Goal: below the min ISR the ELR holds who may lead; a clean return needs no data loss."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    keep_alive(stage, 1, until=stage.now + SESSION_MS + LOOK_MS)
    partition = stage.partition("orders")
    assert (partition.isr, partition.eligible_leaders) == ((1,), (2,))
    stage.pass_time(stage.now + SESSION_MS + LOOK_MS)
    partition = stage.partition("orders")
    assert (partition.isr, partition.leader) == ((), -1)
    assert set(partition.eligible_leaders) == {1, 2}
    assert partition.last_known_eligible_leaders == (1,)
    stage.heartbeat(2)
    partition = stage.partition("orders")
    assert (partition.isr, partition.leader, partition.recovering) == ((2,), 2, False)
    assert partition.eligible_leaders == (1,)
    assert partition.last_known_eligible_leaders == ()


def test_a_suspected_broker_is_fenced_at_once() -> None:
    """Goal: no session timeout for a process that the node saw die; its leaders move in one
    batch."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", *[(1, 2, 3)] * 20)
    stage.now = Instant(stage.now + GRACE_MS)
    stage.controller.on_broker_suspected(1, stage.now)
    assert stage.log.batch_sizes[-1] == 21
    stage.settle()
    assert stage.broker(1).fenced
    assert all(p.leader == 2 for p in stage.topic("orders").partitions.values())
    stage.controller.on_broker_reachable(1, stage.now)
    assert not stage.heartbeat(1).is_fenced


def test_a_suspicion_is_refuted_by_a_heartbeat() -> None:
    """Goal: a broker that sent something since the suspicion began is not fenced."""
    stage = a_stage(1)
    stage.pass_time(stage.now + 5000)
    stage.heartbeat(1)
    stage.pass_time(stage.now + GRACE_MS - 1)
    stage.controller.on_broker_suspected(1, stage.now)
    stage.settle()
    assert not stage.broker(1).fenced
    stage.controller.on_broker_reachable(1, stage.now)
    stage.pass_time(stage.now + SESSION_MS - GRACE_MS)
    assert not stage.broker(1).fenced


def test_a_flapping_network_does_not_become_churn() -> None:
    """Goal: the number of elections stays small however often the suspicion comes.

    Method: for five minutes a live broker loses its connections every 3 seconds and heartbeats
    every 2; without protection each loss would fence it.
    """
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    end = stage.now + 300_000
    while stage.now < end:
        stage.pass_time(stage.now + 600)
        stage.controller.on_broker_suspected(1, stage.now)
        stage.settle()
        stage.pass_time(stage.now + 1400)
        stage.controller.on_broker_reachable(1, stage.now)
        stage.heartbeat(1)
        stage.heartbeat(2)
        if 1 not in stage.partition("orders").isr:
            leader = stage.partition("orders").leader
            stage.propose("orders", 0, leader, 1)
    fenced = [line for line in stage.lines() if "fence: fenced" in line]
    assert 1 <= len(fenced) <= 3


def test_a_long_list_of_changes_is_split_and_the_fencing_is_last() -> None:
    """Goal: batches of the bound; a failover between them leaves the broker unfenced, and the
    next controller finishes the work."""
    stage = a_stage(1, 2, config=replace(CONFIG, max_records_per_batch=8))
    for name in "abc":
        stage.create(name, *[(1, 2)] * 7)
    stage.now = Instant(stage.now + GRACE_MS)
    stage.controller.on_broker_suspected(1, stage.now)
    assert stage.log.batch_sizes[-3:] == [8, 8, 6]
    stage.lose(keep=2)
    stage.settle()
    leaders = [stage.partition(name, n).leader for name in "abc" for n in range(7)]
    assert leaders == [2] * 16 + [1] * 5
    assert not stage.broker(1).fenced
    stage.lead(epoch=3)
    keep_alive(stage, 2, until=stage.now + SESSION_MS + LOOK_MS)
    assert stage.broker(1).fenced
    assert all(stage.partition(name, n).leader == 2 for name in "abc" for n in range(7))


def test_two_dead_brokers_are_fenced_one_after_the_other() -> None:
    """Goal: one decision each, without waiting for the next look."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2, 3))
    start = stage.now
    keep_alive(stage, 3, until=start + SESSION_MS + LOOK_MS)
    assert stage.broker(1).fenced
    assert stage.broker(2).fenced
    assert stage.partition("orders").leader == 3
    fencings = [line for line in stage.lines() if "fence: fenced" in line]
    assert [line.split()[1] for line in fencings] == ["1", "2"]
    assert all("session expired, silent for" in line for line in fencings)


# Departure ---------------------------------------------------------------------------------


def test_a_controlled_shutdown() -> None:
    """Goal: leaderships move first; the broker may go when all brokers have seen it."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2, 3))
    answer = stage.heartbeat(1, stop=True)
    assert answer == BrokerHeartbeatResult(True, False, False)
    assert stage.broker(1).in_controlled_shutdown
    assert (stage.partition("orders").isr, stage.partition("orders").leader) == ((2, 3), 2)
    moved = stage.controller.image.offset
    assert not stage.heartbeat(1, stop=True).should_shut_down
    stage.heartbeat(2, offset=moved)
    stage.heartbeat(3, offset=moved - 1)
    assert not stage.heartbeat(1, stop=True).should_shut_down
    stage.heartbeat(3, offset=moved)
    assert stage.heartbeat(1, stop=True) == BrokerHeartbeatResult(True, True, True)
    assert stage.broker(1).fenced
    assert isinstance(stage.register(1, b"b"), RegisterBrokerResult)


def test_a_broker_that_leads_nothing_goes_at_once() -> None:
    """Goal: no detour; it leaves the ISRs with its fencing."""
    stage = a_stage(1, 2)
    stage.create("orders", (2, 1))
    assert stage.heartbeat(1, stop=True).should_shut_down
    assert stage.partition("orders").isr == (2,)
    assert stage.broker(1).fenced


def test_a_leaving_broker_joins_no_isr_and_gets_no_replicas() -> None:
    """Goal: from the first record on it is on its way out."""
    stage = a_stage(1, 2, 3)
    stage.create("orders", (1, 2, 3))
    stage.heartbeat(1, stop=True)
    assert stage.propose("orders", 0, 2, 3, 1).error_code is ErrorCode.INELIGIBLE_REPLICA
    [result] = stage.ask(CreateTopics((NewTopic("payments", 6, 2),))).topics
    assert result.error_code is ErrorCode.NONE
    placed = {r for p in stage.topic("payments").partitions.values() for r in p.replicas}
    assert placed == {2, 3}


def test_a_controlled_shutdown_that_a_failover_cut_in_two() -> None:
    """Goal: the next controller moves the leaderships that were left behind."""
    stage = a_stage(1, 2, config=replace(CONFIG, max_records_per_batch=8))
    stage.create("orders", *[(1, 2)] * 5)
    stage.create("payments", *[(1, 2)] * 5)
    beat = BrokerHeartbeat(1, stage.epochs[1], stage.controller.image.offset, False, True)
    stage.send(beat)
    stage.controller.wake(stage.now)
    assert stage.log.batch_sizes[-2:] == [8, 3]
    stage.lose(keep=1)
    stage.settle()
    assert not stage.broker(1).in_controlled_shutdown
    assert stage.controller.image.leads(1)
    stage.lead(epoch=3)
    stage.heartbeat(2)
    assert not stage.heartbeat(1, stop=True).should_shut_down
    assert not stage.controller.image.leads(1)
    assert stage.broker(1).in_controlled_shutdown
    stage.heartbeat(2)
    assert stage.heartbeat(1, stop=True).should_shut_down


def test_a_fence_on_request_and_back() -> None:
    """Goal: a broker may ask to be fenced, keeps its session, and asks to return."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    assert stage.heartbeat(1, fence=True).is_fenced
    assert stage.partition("orders").leader == 2
    answer = stage.register(1, b"b")
    assert code_of(answer) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert not stage.heartbeat(1).is_fenced


def test_a_new_broker_is_unfenced_when_it_has_seen_its_registration() -> None:
    """Goal: caught up first, alive afterwards."""
    stage = a_stage()
    stage.register(1)
    registered = stage.broker(1).registration_offset
    behind = stage.heartbeat(1, offset=registered - 1)
    assert behind == BrokerHeartbeatResult(False, True, False)
    assert stage.heartbeat(1, offset=registered) == BrokerHeartbeatResult(True, False, False)


# Failover ----------------------------------------------------------------------------------


def test_sessions_start_fresh_with_a_new_controller() -> None:
    """Goal: no broker is fenced for silence towards the old controller."""
    stage = a_stage(1)
    stage.pass_time(stage.now + SESSION_MS - 1)
    stage.lose()
    stage.pass_time(stage.now + 60_000)
    stage.lead(epoch=3)
    stage.pass_time(stage.now + SESSION_MS - 1)
    assert not stage.broker(1).fenced
    stage.pass_time(stage.now + LOOK_MS + 1)
    assert stage.broker(1).fenced


def test_elections_that_a_failover_left_undone() -> None:
    """Goal: unfencing and electing may be cut in two; the next controller elects."""
    stage = a_stage(1, config=replace(CONFIG, max_records_per_batch=8))
    stage.create("orders", *[(1,)] * 5)
    stage.create("payments", *[(1,)] * 5)
    stage.heartbeat(1, fence=True)
    assert {p.leader for p in stage.topic("orders").partitions.values()} == {-1}
    seen = stage.controller.image.offset
    stage.send(BrokerHeartbeat(1, stage.epochs[1], seen, False, False))
    stage.lose(keep=1)
    stage.settle()
    assert not stage.broker(1).fenced
    assert stage.partition("payments", 4).leader == -1
    stage.lead(epoch=3)
    assert {p.leader for p in stage.topic("payments").partitions.values()} == {1}


# Producer ids and stale brokers ------------------------------------------------------------


def test_blocks_of_producer_ids() -> None:
    """Goal: each block once, also over a failover that loses one."""
    stage = a_stage(1, 2)
    first = stage.ask(AllocateProducerIds(1, stage.epochs[1]))
    second = stage.ask(AllocateProducerIds(2, stage.epochs[2]))
    assert first == AllocateProducerIdsResult(0, 1000)
    assert second == AllocateProducerIdsResult(1000, 1000)
    stage.send(AllocateProducerIds(1, stage.epochs[1]))
    stage.lose()
    stage.lead(epoch=3)
    third = stage.ask(AllocateProducerIds(1, stage.epochs[1]))
    assert third == AllocateProducerIdsResult(2000, 1000)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda broker_id, epoch: BrokerHeartbeat(broker_id, epoch, 0, False, False),
        lambda broker_id, epoch: AllocateProducerIds(broker_id, epoch),
    ],
    ids=["heartbeat", "producer ids"],
)
def test_a_stale_broker_must_register(request_of: object) -> None:
    """Goal: an earlier epoch, a later one and an unknown broker are all stale."""
    assert callable(request_of)
    stage = a_stage(1)
    epoch = stage.epochs[1]
    for broker_id, broker_epoch in ((1, epoch - 1), (1, epoch + 1), (9, epoch)):
        request: Request = request_of(broker_id, broker_epoch)
        assert code_of(stage.ask(request)) is ErrorCode.STALE_BROKER_EPOCH


# What it says ------------------------------------------------------------------------------


def test_every_state_change_says_why() -> None:
    """Goal: the lines of a broker's death and return, in the order of the decisions."""
    stage = a_stage(1, 2)
    stage.create("orders", (1, 2))
    stage.lines()
    stage.now = Instant(stage.now + GRACE_MS)
    stage.controller.on_broker_suspected(1, stage.now)
    stage.settle()
    stage.heartbeat(1)
    epoch = stage.epochs[1]
    assert stage.lines() == [
        "broker 1 on_broker_suspected: suspected",
        "orders-0 change_partition: elected (from isr) leader=2 was=1 leader_epoch=1 isr=(2,) "
        "elr=(1,) cause=broker 1 fenced: connections lost and refused, silent for 500 ms",
        "broker 1 fence: fenced (connections lost and refused, silent for 500 ms) "
        f"broker_epoch={epoch} partitions=1",
        f"broker 1 unfence: unfenced (it caught up) broker_epoch={epoch} elections=0",
    ]


def test_the_same_seed_writes_the_same_log() -> None:
    """Goal: a scenario run twice gives the same bytes."""

    def scenario() -> list[bytes]:
        stage = a_stage(1, 2, 3)
        stage.ask(CreateTopics(tuple(NewTopic(f"t{n}", 3, 2) for n in range(20))))
        stage.pass_time(stage.now + 2 * SESSION_MS)
        return stage.log.records

    assert scenario() == scenario()


def test_random_requests_keep_the_invariants() -> None:
    """Goal: whatever order events come in, every image is sound, and the standby agrees.

    Method: 15 random scenarios of 60 events each: heartbeats, deaths, suspicions, proposals,
    restarts, failovers with a part of the tail lost. The harness checks after every commit.
    """
    for seed in range(15):
        stage = a_stage(1, 2, 3)
        stage.create("orders", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        _live(stage, seed)
        assert any(isinstance(r, PartitionChangeRecord) for r in stage.records())


def _live(stage: Stage, seed: int) -> None:
    prng = Prng(seed)
    epoch = 1
    for _ in range(60):
        broker_id = prng.between(1, 3)
        event = prng.below(10)
        if event < 4:
            stage.heartbeat(broker_id, fence=prng.chance(1, 8), stop=prng.chance(1, 10))
        elif event < 6:
            stage.pass_time(stage.now + prng.between(1, 4000))
        elif event == 6:
            stage.controller.on_broker_suspected(broker_id, stage.now)
            stage.settle()
        elif event == 7:
            previous = stage.epochs[broker_id] if prng.chance(1, 2) else -1
            stage.register(broker_id, bytes((prng.below(200),)), previous_broker_epoch=previous)
        elif event == 8:
            partition = stage.partition("orders", number := prng.below(3))
            if partition.leader != -1:
                wanted = [r for r in partition.replicas if prng.chance(2, 3)]
                isr = dict.fromkeys((partition.leader, *wanted))
                stage.propose("orders", number, *isr)
        else:
            epoch += 2
            stage.lose(epoch, keep=prng.below(2))
            stage.settle()
            stage.lead(epoch + 1)


# In any order ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_each_leader_has_what_was_acknowledged_and_who_can_lead_leads(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Goal: decisions lose no record, in whatever order brokers, operators and failovers come.
    Method: a seed is one order; slices of two changes, so that much comes between them."""
    monkeypatch.setattr(slices, "MAX_CHANGES_PER_TURN", 2)
    monkeypatch.setattr(configs, "MAX_CHANGES_PER_TURN", 2)
    orders = Orders(seed)
    for _ in range(orders.prng.between(200, 500)):
        orders.step()
    orders.settle()
