"""Reading ranges from brokers that lead, fail over, hang up, lose and lie."""

import numpy as np
import pytest

from tests.unit.client.scripted_brokers import TOPIC_ID, ScriptedCluster, ScriptedPartition
from tidelog.client.core.values import EARLIEST, LATEST, Address
from tidelog.errors import CorruptBatch, ErrorCode, UsageError
from tidelog.model import TopicId, TopicPartition
from tidelog.pipeline.batches import read_batches
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.errors import ClusterUnavailable, DataLoss
from tidelog.pipeline.topics.reader import RangeReader, first_gap
from tidelog.pipeline.topics.source import SOURCE_SCHEMA, plan_rows, planned_ranges, read_ranges
from tidelog.pipeline.values import OffsetRange, PlannedRange, ReadRules
from tidelog.records.batch import build_batch
from tidelog.records.record import Record

_TP = TopicPartition("t", 0)


def _batch(base_offset: int, count: int = 10) -> bytes:
    records = [Record(1000, b"k", b"v%d" % (base_offset + i)) for i in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=3)


def _partition(**behaviour: object) -> ScriptedPartition:
    return ScriptedPartition([_batch(base) for base in range(0, 100, 10)], **behaviour)


def _client(cluster: ScriptedCluster, retry_s: float = 5.0) -> Client:
    return Client([Address(*address) for address in cluster.addresses], retry_s=retry_s)


def _rules(cluster: ScriptedCluster, **rules: object) -> ReadRules:
    return ReadRules(tuple(Address(*address) for address in cluster.addresses), **rules)


def _planned(start: int, end: int) -> PlannedRange:
    return PlannedRange(OffsetRange("t", 0, start, end), TOPIC_ID)


def _read(cluster: ScriptedCluster, start: int, end: int, **rules: object) -> list[int]:
    """The base offsets of the batches that a range brings."""
    with _client(cluster) as client:
        reader = RangeReader(client, _planned(start, end), _rules(cluster, **rules), patience_s=1.0)
        bases = [table.base_offsets for table in reader.tables()]
    return np.concatenate(bases).tolist() if bases else []


def _values(cluster: ScriptedCluster, start: int, end: int, **rules: object):
    columns = ["offset", "value", "topic"]
    batches = list(read_ranges([_planned(start, end)], _rules(cluster, **rules), columns))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_a_range_is_read_from_the_leader_in_several_fetches():
    partition = _partition(leader=2, max_batches_per_fetch=3)
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 25, 75) == [20, 30, 40, 50, 60, 70]
        assert partition.fetches == [(2, 25), (2, 50)]
        assert _values(cluster, 25, 28) == [(o, b"v%d" % o, "t") for o in (25, 26, 27)]
        assert _read(cluster, 25, 25) == []


def test_the_next_fetch_is_sent_before_the_first_is_worked_on():
    partition = _partition(max_batches_per_fetch=2)
    with ScriptedCluster({_TP: partition}) as cluster, _client(cluster) as client:
        tables = RangeReader(client, _planned(0, 100), _rules(cluster)).tables()
        next(tables)
        next(tables)
        assert [offset for _, offset in partition.fetches][:2] == [0, 20]
        tables.close()
        assert client.list_offsets([_TP], LATEST) == {_TP: 100}


def test_a_read_goes_on_at_the_new_leader_where_it_was():
    partition = _partition(max_batches_per_fetch=2)

    def fail_over(node: int, offset: int) -> ErrorCode | None:
        if node == 1 and offset >= 40:
            partition.leader, partition.epoch = 2, 1
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    partition.on_fetch = fail_over
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 0, 100) == list(range(0, 100, 10))
    nodes = [node for node, _ in partition.fetches]
    assert set(nodes) == {1, 2}
    assert nodes == sorted(nodes)


@pytest.mark.parametrize("outcome", ["close", ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_broken_connection_or_a_passing_error_loses_nothing(outcome):
    failures = iter([outcome, None, outcome, outcome, None, None, outcome])
    partition = _partition(
        max_batches_per_fetch=2, on_fetch=lambda node, offset: next(failures, None)
    )
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 0, 100) == list(range(0, 100, 10))
        assert next(failures, "used") == "used"


def test_a_read_without_progress_fails_and_names_the_offset():
    partition = _partition(on_fetch=lambda node, offset: ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with ScriptedCluster({_TP: partition}) as cluster, pytest.raises(ClusterUnavailable) as caught:
        _read(cluster, 5, 100)
    assert "`t-0` [5, 100): stood at offset 5" in str(caught.value)
    assert "NOT_LEADER_OR_FOLLOWER" in str(caught.value)


def test_offsets_that_are_gone_are_a_loss_that_names_both_ranges():
    partition = _partition(log_start=30)
    with ScriptedCluster({_TP: partition}) as cluster, pytest.raises(DataLoss) as caught:
        _read(cluster, 10, 100)
    assert "`t-0` [10, 100): offset 10 is not there; the leader has [30, 100)" in str(caught.value)


@pytest.mark.parametrize(
    ("batches", "offset"),
    [
        ([_batch(0), _batch(20), _batch(30)], 10),
        ([_batch(10), _batch(20), _batch(30)], 0),
        ([_batch(0), _batch(10), _batch(15), _batch(25)], 20),
    ],
)
def test_missing_and_repeated_offsets_are_a_loss(batches, offset):
    with (
        ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster,
        pytest.raises(DataLoss, match=f"offset {offset} should follow"),
    ):
        _read(cluster, 0, 35)


def test_a_compacted_topic_may_have_gaps():
    batches = [_batch(0), _batch(20), _batch(40)]
    with ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster:
        cluster.cleanup_policy = "compact,delete"
        assert len(_values(cluster, 0, 50)) == 30


def test_batches_that_hold_fewer_records_than_offsets_are_a_loss():
    """As a cleaner leaves them, in a topic that is not compacted."""
    thinned = bytearray(_batch(10, count=4))
    thinned[23:27] = (9).to_bytes(4, "big")
    batches = [_batch(0), _recrc(thinned), _batch(20)]
    with ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster:
        with pytest.raises(DataLoss, match="offsets 10 to 19 holds 4 records"):
            _values(cluster, 0, 30)
        assert len(_values(cluster, 0, 30, fail_on_data_loss=False)) == 24
        cluster.cleanup_policy = "compact"
        assert len(_values(cluster, 0, 30)) == 24


def _recrc(batch: bytearray) -> bytes:
    from crc32c import crc32c

    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_control_batches_take_offsets_and_are_not_missed():
    marker = build_batch([Record(5, b"\0\0\0\1", b"")], base_offset=10, is_control=True)
    batches = [_batch(0), marker, _batch(11)]
    with ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster:
        assert [offset for offset, *_ in _values(cluster, 0, 21)] == [*range(10), *range(11, 21)]
        assert _values(cluster, 10, 11) == []


def test_bytes_that_changed_are_never_records():
    damaged = bytearray(_batch(10))
    damaged[-3] ^= 1
    with (
        ScriptedCluster({_TP: ScriptedPartition([_batch(0), bytes(damaged)])}) as cluster,
        pytest.raises(CorruptBatch) as caught,
    ):
        _read(cluster, 0, 20)
    assert "`t-0` [0, 20): the batch of offsets 10 to 19 does not match" in str(caught.value)
    assert "hint: " in str(caught.value)


def test_offsets_wait_for_a_new_leaders_high_watermark():
    answers = iter([ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE])
    slow = _partition(on_list_offsets=lambda: next(answers, ErrorCode.NONE))
    other = TopicPartition("t", 1)
    with (
        ScriptedCluster({_TP: slow, other: ScriptedPartition([_batch(0)], leader=2)}) as cluster,
        _client(cluster) as client,
    ):
        client.metadata(["t"])
        assert client.list_offsets([_TP, other], LATEST) == {_TP: 100, other: 10}
        assert client.list_offsets([_TP, other], EARLIEST) == {_TP: 0, other: 0}


def test_a_topic_that_does_not_exist_is_named():
    with (
        ScriptedCluster({_TP: _partition()}) as cluster,
        _client(cluster) as client,
        pytest.raises(UsageError, match="topic `nope` does not exist"),
    ):
        client.metadata(["t", "nope"])


def test_a_topic_that_is_not_known_for_a_moment_is_waited_for():
    """A new topic, or a broker that has just started."""
    partitions = {_TP: _partition(leader=2)}
    with ScriptedCluster(partitions) as cluster, _client(cluster) as client:
        hidden = partitions.pop(_TP)
        answers = iter(range(3))

        def appear() -> None:
            if next(answers, None) is None:
                partitions[_TP] = hidden

        cluster.on_metadata = appear
        assert client.metadata(["t"]).partitions_of("t") == [0]
        assert client.list_offsets([_TP], LATEST) == {_TP: 100}


def test_brokers_that_cannot_be_reached_are_named():
    with ScriptedCluster({_TP: _partition()}) as cluster:
        addresses = [Address(*address) for address in cluster.addresses]
    with Client(addresses, retry_s=0.2) as client, pytest.raises(ClusterUnavailable) as caught:
        client.metadata(["t"])
    assert all(f"`{address}`" in str(caught.value) for address in addresses)


def test_all_columns_are_there_in_the_types_that_spark_wants():
    with ScriptedCluster({_TP: _partition()}) as cluster:
        (batch,) = read_ranges([_planned(98, 100)], _rules(cluster), SOURCE_SCHEMA.names)
    assert batch.schema == SOURCE_SCHEMA
    row = batch.to_pylist()[1]
    assert (row["topic"], row["partition"], row["offset"], row["leader_epoch"]) == ("t", 0, 99, 3)


def test_a_reader_in_a_rack_reads_where_the_leader_sends_it():
    partition = _partition(racks={"r2": 2}, max_batches_per_fetch=4)
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 0, 100, rack="r2") == list(range(0, 100, 10))
        assert partition.fetches == [(1, 0), (2, 0), (2, 40), (2, 80)]
        partition.fetches.clear()
        assert _read(cluster, 0, 100, rack="r9") == list(range(0, 100, 10))
        assert {node for node, _ in partition.fetches} == {1}


@pytest.mark.parametrize(
    "outcome", ["close", ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_trouble_with_a_follower_leads_back_to_the_leader(outcome):
    def fail(node: int, offset: int) -> ErrorCode | str | None:
        return outcome if node == 2 and offset >= 40 else None

    partition = _partition(racks={"r2": 2}, max_batches_per_fetch=2, on_fetch=fail)
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 0, 100, rack="r2") == list(range(0, 100, 10))
    nodes = [node for node, _ in partition.fetches]
    assert nodes[:4] == [1, 2, 2, 2]
    assert set(nodes[4:]) == {1}


def test_only_committed_records_come_up_to_the_last_stable_offset():
    aborted = build_batch(
        [Record(5, None, b"no")] * 10,
        base_offset=10,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    marker = build_batch(
        [Record(5, b"\0\0\0\0", b"\0" * 6)],
        base_offset=20,
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    partition = ScriptedPartition([_batch(0), aborted, marker, _batch(21)], aborted=[(7, 10)])
    with ScriptedCluster({_TP: partition}) as cluster:
        everything = [offset for offset, *_ in _values(cluster, 0, 31)]
        committed = [offset for offset, *_ in _values(cluster, 0, 31, read_committed=True)]
    assert everything == [*range(20), *range(21, 31)]
    assert committed == [*range(10), *range(21, 31)]


def test_a_topic_created_again_since_the_plan_is_data_loss():
    partition = _partition(topic_id=TopicId(b"another topic id"))
    with ScriptedCluster({_TP: partition}) as cluster:
        with pytest.raises(DataLoss, match="deleted and created again since the plan"):
            _read(cluster, 0, 100)
        assert _read(cluster, 0, 100, fail_on_data_loss=False) == []
    assert partition.fetches == []


def test_allowed_losses_are_logged_and_skipped(caplog):
    damaged = bytearray(_batch(50))
    damaged[-3] ^= 1
    batches = [_batch(20), _batch(40), bytes(damaged), _batch(60), _batch(90)]
    partition = ScriptedPartition(batches, log_start=20, max_batches_per_fetch=1)
    with ScriptedCluster({_TP: partition}) as cluster:
        assert _read(cluster, 0, 100, fail_on_data_loss=False) == [20, 40, 60, 90]
    for message in (
        "offset 0 is not there; the leader has [20, 100)",
        "offset 30 should follow, but the next batch begins at 40",
        "the batch of offsets 50 to 59 does not match its CRC-32C",
        "offset 70 should follow, but the next batch begins at 90",
    ):
        assert message in caplog.text


def test_a_header_that_lies_of_its_last_offset_hides_nothing_in_a_compacted_topic():
    """The CRC is checked before anything in the header is believed."""
    liar = bytearray(_batch(10))
    liar[23:27] = (0).to_bytes(4, "big")
    with ScriptedCluster({_TP: ScriptedPartition([_batch(0), bytes(liar), _batch(20)])}) as cluster:
        cluster.cleanup_policy = "compact"
        with pytest.raises(CorruptBatch, match="the batch of offsets 10 to 10 does not match"):
            _read(cluster, 0, 30)


def test_a_batch_that_cannot_be_decoded_is_named_with_the_choice():
    strange = bytearray(_batch(10))
    strange[22] |= 7
    batches = [_batch(0), _recrc(strange), _batch(20)]
    with (
        ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster,
        pytest.raises(CorruptBatch) as caught,
    ):
        _values(cluster, 0, 30)
    assert "`t-0` [0, 30): the batch of offsets 10 to 19 cannot be decoded: " in str(caught.value)
    assert "hint: its checksum is right" in str(caught.value)


def test_records_of_the_wanted_times_only():
    batches = [
        build_batch([Record(base + i, None, b"v") for i in range(10)], base_offset=base)
        for base in (0, 10, 20)
    ]
    with ScriptedCluster({_TP: ScriptedPartition(batches)}) as cluster:
        found = read_ranges([_planned(0, 30)], _rules(cluster), ["offset"], (8, 21))
        assert [o for batch in found for o in batch.column(0).to_pylist()] == [*range(8, 22)]


def test_several_ranges_are_read_over_the_same_connections():
    other = ScriptedPartition([_batch(0)], leader=2)
    with ScriptedCluster({_TP: _partition(), TopicPartition("t", 1): other}) as cluster:
        asked = iter(range(1000))
        cluster.on_metadata = lambda: next(asked)
        planned = [_planned(0, 20), PlannedRange(OffsetRange("t", 1, 5, 10)), _planned(30, 40)]
        batches = list(read_ranges(planned, _rules(cluster), ["partition", "offset"]))
        assert next(asked) == 1
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert rows == [
        *((0, offset) for offset in range(20)),
        *((1, offset) for offset in range(5, 10)),
        *((0, offset) for offset in range(30, 40)),
    ]


# Holes ---------------------------------------------------------------------------------------


def _span(base: int, count: int = 10, *, last_delta: int | None = None) -> bytes:
    batch = bytearray(build_batch([Record(1, None, b"v")] * count, base_offset=base))
    if last_delta is not None:
        batch[23:27] = last_delta.to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize(
    ("batches", "position", "end", "missing"),
    [
        ([_span(0), _span(10)], 0, 20, None),
        ([_span(0), _span(10)], 5, 20, None),
        ([_span(10)], 0, 20, "offset 0 should follow, but the next batch begins at 10"),
        ([_span(0), _span(20)], 0, 30, "offset 10 should follow, but the next batch begins at 20"),
        ([_span(0), _span(20)], 0, 10, None),
        ([_span(0), _span(5)], 0, 30, "offset 10 should follow, but the next batch begins at 5"),
        ([_span(0), _span(10, 4, last_delta=9)], 0, 20, "offsets 10 to 19 holds 4 records"),
        ([_span(0), _span(10, 4, last_delta=9)], 0, 10, None),
    ],
)
def test_a_hole_is_named_where_it_matters(batches, position, end, missing):
    found = first_gap(read_batches(b"".join(batches)), position, end)
    assert found is None if missing is None else found is not None and missing in found


def test_a_plan_travels_as_rows():
    plan = [_planned(0, 30), PlannedRange(OffsetRange("é", 7, 2**40, 2**41))]
    assert planned_ranges(plan_rows(plan)) == plan
    assert planned_ranges(plan_rows([])) == []
