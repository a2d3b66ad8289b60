"""What clients, the supervisor and the end of a run complain of: each by its name."""

from dataclasses import replace
from typing import Any

import pytest

from tidelog.env.prng import Prng
from tidelog.errors import ErrorCode
from tidelog.groups.consumer_records import IdPartition
from tidelog.model import TopicId
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.sim.engine.world import World
from tidelog.sim.evidence.history import History, Key
from tidelog.sim.faults.budget import Budget
from tidelog.sim.faults.nemesis import Nemesis
from tidelog.sim.runs.cluster import ClusterRun
from tidelog.sim.runs.data_loss import DataLossRun
from tidelog.sim.scenarios.swarm import Swarm, draw_plain
from tidelog.sim.workloads.cluster_view import ClusterView
from tidelog.sim.workloads.consumer import Consumer, ReadOptions, records_of
from tidelog.sim.workloads.members import Member, Owners
from tidelog.sim.workloads.producer import Acks, Lane, Producer, _Batch
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.fetch import FetchedPartition
from tidelog.wire.values import millis

K = Key("t.010203", 0)


def rejects(name: str):
    return pytest.raises(AssertionError, match=f"^{name}: ")


def a_view() -> ClusterView:
    return ClusterView(World(1), "c", Prng(1), 1_000)


def answer(
    *batches: bytes, high_watermark: int = 9, code: ErrorCode = ErrorCode.NONE
) -> FetchedPartition:
    """What a node says of a partition."""
    topic_id, size_bytes = TopicId(bytes(16)), sum(map(len, batches))
    return FetchedPartition(
        "", topic_id, 0, code, high_watermark, high_watermark, 0, list(batches), size_bytes
    )


def batch(base_offset: int, *values: bytes) -> bytes:
    records = [Record(1, None, value) for value in values]
    return build_batch(records, base_offset=base_offset, leader_epoch=0)


# Members of groups ----------------------------------------------------------------------------


def test_two_members_of_one_epoch_have_a_partition():
    """The next owner gets it in a later epoch; the former owner need not know."""
    owners, partition = Owners(), IdPartition(TopicId(b"t" * 16), 0)
    owners.give("a", 1, {partition})
    owners.give("a", 1, {partition})
    owners.give("b", 2, {partition})
    with rejects("SingleOwner"):
        owners.give("c", 2, {partition})


@pytest.mark.parametrize(
    ("code", "epoch", "name"),
    [(ErrorCode.NONE, 4, "GroupEpochsRise"), (ErrorCode.UNSUPPORTED_VERSION, 5, "ErrorCodeTruth")],
)
def test_what_a_member_complains_of(code, epoch, name):
    member = Member(a_view(), Prng(1), Owners())
    answered = codec.response_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    values = {"throttle_time": millis(0), "heartbeat_interval": millis(1)}
    first = make(answered, error_code=ErrorCode.NONE, member_epoch=5, **values)
    member._take(first, joins=True)
    assert member.is_member
    with rejects(name):
        member._take(make(answered, error_code=code, member_epoch=epoch, **values), joins=False)


# Consumers ------------------------------------------------------------------------------------


def test_records_between_two_batches_are_missing():
    found = records_of(answer(batch(0, b"a", b"b"), batch(2, b"c")), 1, "c")
    assert [(one.offset, one.value) for one in found] == [(1, "b"), (2, "c")]
    with rejects("DenseOffsets"):
        records_of(answer(batch(0, b"a", b"b"), batch(3, b"c")), 0, "c")


def test_an_answer_begins_above_what_was_asked_for():
    with rejects("DenseOffsets"):
        records_of(answer(batch(5, b"a")), 4, "c")


def test_an_answer_shows_what_is_not_committed():
    records_of(answer(batch(3, b"a", b"b"), high_watermark=5), 3, "c")
    with rejects("ReadsBelowHighWatermark"):
        records_of(answer(batch(3, b"a", b"b"), high_watermark=4), 3, "c")


def a_consumer(**options: Any) -> Consumer:
    return Consumer(a_view(), History(), Prng(1), ReadOptions(**options))


def test_a_leader_does_not_know_a_position():
    out_of_range = answer(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    with rejects("NoSpuriousReset"):
        a_consumer()._take(K, 3, out_of_range, 1)
    assert a_consumer(from_followers=True)._take(K, 3, out_of_range, 1) == ()


def test_a_consumer_gets_an_error_that_should_not_be():
    consumer = a_consumer()
    assert consumer._take(K, 3, answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), 1) == ()
    with rejects("ErrorCodeTruth"):
        consumer._take(K, 3, answer(code=ErrorCode.CORRUPT_MESSAGE), 1)


# Producers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.INVALID_REQUIRED_ACKS, "ErrorCodeTruth"),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "SequenceContinuity"),
    ],
)
def test_an_idempotent_producer_gets_an_error_that_should_not_be(code, name):
    producer = Producer(a_view(), History(), Prng(1), Acks.IDEMPOTENT, codec=Codec.NONE)
    oldest, next_one = _Batch(["a"], 1, 0, 0), _Batch(["b"], 1, 1, 1)
    lane = Lane(K)
    lane.batches.extend((oldest, next_one))
    producer._fail(lane, next_one, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved")
    producer._fail(lane, next_one, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "behind the oldest")
    with rejects(name):
        producer._fail(lane, oldest, code, code.name)


# Processes ------------------------------------------------------------------------------------


def test_a_process_gives_up_by_itself():
    world = World(1)
    nemesis = Nemesis(world, draw_plain(1), Prng(1), Budget(world, group_commit=False))
    for blameless in (0, None):
        world.hosts[2].exit_code = blameless
        nemesis._supervise()
    world.hosts[2].exit_code, world.hosts[2].exit_message = 1, "tired"
    world.hosts[2].disk.hurt = True
    nemesis._supervise()
    world.hosts[2].exit_code, world.hosts[2].disk.hurt = 1, False
    with rejects("NoSpontaneousExit"):
        nemesis._supervise()


# The end of a run
# -----------------------------------------------------------------------------------


def quick() -> Swarm:
    """A run of hardly anything."""
    return replace(
        draw_plain(1),
        nodes=3,
        controllers=0,
        profile="test",
        producers=("all",),
        admin_gap_ms=0,
        operator_gap_ms=0,
        voter_gap_ms=0,
        flush_ms=2,
        fault_phase_ms=1_000,
    )


class Deaf(ClusterRun):
    """All processes stop to run before one of the last steps."""

    def __init__(self, deaf_at: str) -> None:
        super().__init__(1, quick())
        self._deaf_at = deaf_at

    def _stop(self, step: str) -> None:
        for node_id in self.world.hosts if step == self._deaf_at else ():
            self.world.pause(node_id)

    def _probe(self) -> None:
        self._stop("probe")
        super()._probe()

    def _read_all(self, name: str) -> Any:
        self._stop(name)
        return super()._read_all(name)


@pytest.mark.parametrize(
    ("deaf_at", "violated"),
    [("never", None), ("probe", "ProducesAfterHealing"), ("final", "ReadsAfterHealing")],
)
def test_a_cluster_that_looks_well_and_does_not_answer(deaf_at, violated):
    assert Deaf(deaf_at).run().violated == violated


class Uneven(DataLossRun):
    """A follower loses its end just before the judgement."""

    def _judge(self, image: Any) -> None:
        for topic in image.topics_by_name.values():
            for number, partition in topic.partitions.items():
                follower = next(n for n in partition.replicas if n != partition.leader)
                replicas = self.world.hosts[follower].node.broker.replicas.partitions
                log = replicas[topic.name, number].log
                log.truncate_to(log.log_end_offset // 2)
        super()._judge(image)


def test_survivors_differ():
    assert Uneven(2).run().violated == "SurvivorsEqual"
