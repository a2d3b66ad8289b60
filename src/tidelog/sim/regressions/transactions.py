"""Scenarios of transactions: what comes late, what waits, and what a new coordinator must know.

Source: KIP-447, KIP-890; KAFKA-17754, KAFKA-19367, KAFKA-9666, KAFKA-5600; Redpanda 6018, 9571.
"""

from typing import Any

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.regressions.coordinators import (
    ATTEMPTS,
    GROUP,
    NAME,
    TRANSACTION,
    WAIT_MS,
    CoordinatorClient,
)
from tidelog.sim.regressions.testbed import Testbed
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of, millis

_REPEATED = 10
"""Requests for one epoch."""


class _Writer(CoordinatorClient):
    """A client with one transactional id, and a group of the same name."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__(testbed)
        found = self.begin()
        self.who = {
            "transactional_id": NAME,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
        }

    def begin(self, producer_id: int = -1, producer_epoch: int = -1) -> Any:
        """Asks for the next epoch, as a new producer or as one that goes on."""
        return self.ask(
            TRANSACTION,
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=NAME,
            transaction_timeout=millis(60_000),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    def add_partition(self) -> None:
        """Adds `t-0` to the transaction."""
        who = {f"v3_and_below_{name}": value for name, value in self.who.items()}
        topics = [{"name": "t", "partitions": (0,)}]
        found = self.ask(
            TRANSACTION, ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=topics, **who
        )
        row = found.results_by_topic_v3_and_below[0].results_by_partition[0]
        assert error_of(row.partition_error_code) is ErrorCode.NONE, f"Setup: {row}"

    def produce(self) -> ErrorCode:
        """The first batch of the transaction in `t-0`."""
        records = build_batch(
            [Record(WALL_START_MS + self.world.now, None, b"late")],
            producer_id=self.who["producer_id"],
            producer_epoch=self.who["producer_epoch"],
            base_sequence=0,
            is_transactional=True,
        )
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        client = SimClient(self.world, self.cluster.leader)
        found = client.call(
            ApiKey.PRODUCE,
            11,
            transactional_id=NAME,
            acks=-1,
            timeout=millis(5_000),
            topic_data=data,
        )
        return error_of(found.responses[0].partition_responses[0].error_code)

    def commit_offset(self, offset: int) -> None:
        """Commits an offset in the transaction."""
        asked = {**self.who, "group_id": NAME}
        found = self.ask(TRANSACTION, ApiKey.ADD_OFFSETS_TO_TXN, 3, **asked)
        assert error_of(found.error_code) is ErrorCode.NONE, f"Setup: {found}"
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        for _ in range(ATTEMPTS):
            found = self.ask(
                GROUP,
                ApiKey.TXN_OFFSET_COMMIT,
                3,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": "t", "partitions": [row]}],
                **asked,
            )
            if error_of(found.topics[0].partitions[0].error_code) is ErrorCode.NONE:
                return
            self.world.run_for(WAIT_MS)
        raise AssertionError(f"Setup: {found}")

    def end(self, *, is_commit: bool) -> None:
        """Ends the transaction."""
        found = self.ask(TRANSACTION, ApiKey.END_TXN, 3, committed=is_commit, **self.who)
        assert error_of(found.error_code) is ErrorCode.NONE, f"Setup: {found}"

    def stable_offset(self) -> tuple[ErrorCode, int]:
        """What a member that takes over gets."""
        topics = [{"name": "t", "partition_indexes": (0,)}]
        asked = {"group_id": NAME, "topics": topics, "require_stable": True}
        found = self.ask(GROUP, ApiKey.OFFSET_FETCH, 7, **asked)
        row = found.topics[0].partitions[0]
        return error_of(row.error_code), row.committed_offset


def r29_late_produce(testbed: Testbed) -> None:
    """A batch that comes after the end of its transaction opens none.

    Origin: KAFKA-17754, KIP-890
    Case: a producer adds a partition to its transaction; its first batch is on the way for long;
    the transaction is aborted, and then the batch arrives.
    Must: it is refused, and readers of committed data are not stopped.
    """
    writer = _Writer(testbed)
    writer.add_partition()
    writer.end(is_commit=False)
    writer.world.run_for(1_000)
    _must_not_hang(writer, writer.produce().name)


def _must_not_hang(writer: _Writer, what: str) -> None:
    writer.world.run_for(500)
    host = writer.world.hosts[writer.cluster.leader]
    assert host.node is not None, "Setup: the leader is down"
    log = host.node.broker.replicas.partitions[TopicPartition("t", 0)].log
    bounds = (log.last_stable_offset, log.high_watermark)
    is_decided = bounds[0] == bounds[1]
    writer.testbed.must(is_decided, "NoHangingTransaction", f"{what}, ends are {bounds}")


def r30_no_second_epoch(testbed: Testbed) -> None:
    """A producer that gives up its transaction for the next epoch gets it, and is not fenced by it.

    Origin: KAFKA-19367, KAFKA-18575
    Case: a producer has added a partition and met an error; it asks for the next epoch; its
    transaction is aborted first, so the answer is to ask again, and the client does.
    Must: it gets the epoch behind its own, and its next transaction commits.
    """
    writer = _Writer(testbed)
    writer.add_partition()
    producer_id, epoch = writer.who["producer_id"], writer.who["producer_epoch"]
    found = writer.begin(producer_id, epoch)
    code, got = error_of(found.error_code), found.producer_epoch
    is_next = code is ErrorCode.NONE and got == epoch + 1
    testbed.must(is_next, "ProducerGoesOn", f"{code.name}, epoch {got} behind {epoch}")
    writer.who["producer_epoch"] = got
    writer.add_partition()
    assert writer.produce() is ErrorCode.NONE, "Setup: refused"
    writer.end(is_commit=True)
    _must_not_hang(writer, "the next transaction")


def r31_no_epoch_is_burnt(testbed: Testbed) -> None:
    """Asking again for an epoch that cannot be committed uses up no more of them.

    Origin: KAFKA-9666, KAFKA-6119
    Case: the peers of a coordinator are dead; a producer asks for its next epoch, gets no answer
    and asks again, many times; the peers come back.
    Must: the first request gets the next epoch, and one that comes later the one behind it.
    """
    writer = _Writer(testbed)
    world, epoch = writer.world, writer.who["producer_epoch"]
    coordinator = writer.coordinator(TRANSACTION)
    peers = [each for each in writer.live() if each != coordinator]
    for each in peers:
        world.kill(each)
    asked = make(
        codec.request_class(ApiKey.INIT_PRODUCER_ID, 4),
        transactional_id=NAME,
        transaction_timeout=millis(60_000),
        producer_id=-1,
        producer_epoch=-1,
    )
    clients = [SimClient(world, coordinator) for _ in range(_REPEATED)]
    for number, client in enumerate(clients):
        client.send_frame(codec.encode_request(asked, number, NAME))
        world.run_for(10)
    assert not clients[0].waiting, "Setup: committed without peers"
    for each in peers:
        world.start(each)
    world.run_for(5_000)
    answered = sum(each.waiting for each in clients)
    assert answered == _REPEATED, f"Setup: {answered} are answered"
    found = writer.begin()
    got = found.producer_epoch if error_of(found.error_code) is ErrorCode.NONE else None
    testbed.must(got == epoch + 2, "NoEpochIsBurnt", f"epoch {got} behind {epoch}, asked for twice")


def r32_open_transaction_fails_over(testbed: Testbed) -> None:
    """A transaction that is open when its coordinator dies is ended by the next one as a whole.

    Origin: Redpanda 6018, 10669
    Case: a producer has written in a transaction; its coordinator dies; the producer commits.
    Must: the next coordinator commits what was written before, or says that it is lost.
    """
    writer = _Writer(testbed)
    writer.add_partition()
    assert writer.produce() is ErrorCode.NONE, "Setup: refused"
    writer.fail_over(TRANSACTION)
    found = writer.ask(TRANSACTION, ApiKey.END_TXN, 3, committed=True, **writer.who)
    code = error_of(found.error_code)
    testbed.must(code is ErrorCode.NONE, "OpenTransactionIsKnown", f"its end gets {code.name}")
    writer.world.run_for(1_000)
    _must_not_hang(writer, "the commit")


def r33_offsets_that_wait(testbed: Testbed) -> None:
    """A member that takes over does not begin before offsets that are being committed.

    Origin: Redpanda 9571, KIP-447
    Case: a group has offset 3; its client has committed 8 in a transaction that is not over;
    another member asks where to begin, and wants stable offsets.
    Must: it has to ask again, until the transaction is over; then it gets 8.
    """
    writer = _Writer(testbed)
    writer.commit_offset(3)
    writer.end(is_commit=True)
    _settle(writer, 3)
    writer.commit_offset(8)
    code, offset = writer.stable_offset()
    testbed.must(code is ErrorCode.UNSTABLE_OFFSET_COMMIT, "NoReprocessing", f"begins at {offset}")
    writer.end(is_commit=True)
    _settle(writer, 8)


def r34_loading_between_commit_and_marker(testbed: Testbed) -> None:
    """A group coordinator that loads in the middle of a transaction knows its offsets.

    Origin: KAFKA-5600
    Case: a client has committed offset 8 in a transaction; the group's coordinator dies, another
    one loads; then the transaction commits.
    Must: the group has 8.
    """
    writer = _Writer(testbed)
    writer.commit_offset(8)
    writer.fail_over(GROUP)
    writer.end(is_commit=True)
    _settle(writer, 8)


def _settle(writer: _Writer, expected: int) -> None:
    """Waits until the offset is stable, which must then be the expected one."""
    end = Instant(writer.world.now + 20_000)
    code, offset = writer.stable_offset()
    while code is not ErrorCode.NONE and writer.world.now < end:
        writer.world.run_for(100)
        code, offset = writer.stable_offset()
    writer.testbed.must(
        (code, offset) == (ErrorCode.NONE, expected),
        "OffsetsWithTheirTransaction",
        f"{OFFSETS_TOPIC} has {offset} ({code.name}), {expected} was committed",
    )
