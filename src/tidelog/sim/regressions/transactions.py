"""Scenarios of transactions: what comes late, what waits, and what a new coordinator must know.

Source: KIP-447, KIP-890; KAFKA-17754, KAFKA-5600; Redpanda 9571.
"""

from typing import Any

from tidelog.env.instant import Instant
from tidelog.errors import ErrorCode
from tidelog.model import OFFSETS_TOPIC, TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.record import Record
from tidelog.sim.engine.client import SimClient
from tidelog.sim.engine.formation import WALL_START_MS
from tidelog.sim.regressions.testbed import SmallCluster, Testbed
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of, millis

NAME = "tx"
GROUP, TRANSACTION = 0, 1
WAIT_MS = 200
ATTEMPTS = 100


class _Writer:
    """A client with one transactional id, and a group of the same name."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.world = testbed.world()
        self.cluster = SmallCluster(self.world)
        found = self.ask(
            TRANSACTION,
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=NAME,
            transaction_timeout=millis(60_000),
            producer_id=-1,
            producer_epoch=-1,
        )
        self.who = {
            "transactional_id": NAME,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
        }

    def coordinator(self, kind: int) -> int:
        """The node that coordinates, once there is one."""
        for _ in range(ATTEMPTS):
            live = [node_id for node_id, host in self.world.hosts.items() if host.node is not None]
            client = SimClient(self.world, live[-1])
            found = client.call(ApiKey.FIND_COORDINATOR, 2, key=NAME, key_type=kind)
            is_live = error_of(found.error_code) is ErrorCode.NONE and found.node_id in live
            if is_live:
                return int(found.node_id)
            self.world.run_for(WAIT_MS)
        raise AssertionError("Setup: no coordinator")

    def ask(self, kind: int, key: ApiKey, version: int, **values: Any) -> Any:
        """Asks a coordinator until it is there and has nothing else to do."""
        for _ in range(ATTEMPTS):
            client = SimClient(self.world, self.coordinator(kind))
            found = client.call(key, version, **values)
            if getattr(found, "error_code", None) is None or found.error_code.value not in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            ):
                return found
            self.world.run_for(WAIT_MS)
        raise AssertionError(f"Setup: {key.name} was not answered")

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
    code = writer.produce()
    writer.world.run_for(500)
    host = writer.world.hosts[writer.cluster.leader]
    assert host.node is not None, "Setup: the leader is down"
    log = host.node.broker.replicas.partitions[TopicPartition("t", 0)].log
    bounds = (log.last_stable_offset, log.high_watermark)
    testbed.must(bounds[0] == bounds[1], "NoHangingTransaction", f"{code.name}, ends are {bounds}")


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
    former = writer.coordinator(GROUP)
    writer.world.kill(former)
    writer.world.run_for(3_000)
    writer.world.start(former)
    writer.world.run_for(2_000)
    testbed.must(writer.coordinator(GROUP) != former, "Setup", "the former one coordinates")
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
