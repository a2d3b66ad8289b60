"""`spark.read.format("tidelog")` as a user sees it, over brokers that hold known batches."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, PythonException

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tidelog.model import TopicPartition
from tidelog.records.batch import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record

pytestmark = pytest.mark.spark


def _batch(base_offset: int, codec: Codec = Codec.NONE) -> bytes:
    records = [
        Record(
            1_700_000_000_123 + i,
            None if i == 3 else b"key-%d" % i,
            None if i == 4 else b"value of %d" % (base_offset + i),
            (("h", b"1"), ("h", None)) if i == 5 else (),
        )
        for i in range(10)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=7, codec=codec)


@pytest.fixture(scope="module")
def brokers():
    partitions = {
        TopicPartition("t", 0): ScriptedPartition([_batch(b) for b in range(0, 100, 10)]),
        TopicPartition("t", 1): ScriptedPartition(
            [_batch(b, Codec.LZ4) for b in range(0, 50, 10)], leader=2
        ),
        TopicPartition("t", 2): ScriptedPartition([]),
    }
    with ScriptedCluster(partitions) as started:
        yield started


def _read(spark, brokers, schema: str | None = None, **options: str):
    reader = (
        spark.read.format("tidelog")
        if schema is None
        else (spark.read.format("tidelog").schema(schema))
    )
    return (
        reader.option("kafka.bootstrap.servers", brokers.bootstrap_servers)
        .option("subscribe", "t")
        .options(**options)
        .load()
    )


def test_every_column_of_every_record(spark, brokers):
    records = _read(spark, brokers)
    assert [f"{field.name} {field.dataType.simpleString()}" for field in records.schema] == [
        "topic string",
        "partition int",
        "offset bigint",
        "leader_epoch int",
        "timestamp timestamp",
        "timestamp_type int",
        "key binary",
        "value binary",
        "headers array<struct<key:string,value:binary>>",
    ]
    rows = records.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [
        *((0, offset) for offset in range(100)),
        *((1, offset) for offset in range(50)),
    ]
    row = rows[105]
    assert (row.topic, row.leader_epoch, row.timestamp_type) == ("t", 7, 0)
    assert row.timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 128000, UTC)
    assert (bytes(row.key), bytes(row.value)) == (b"key-5", b"value of 5")
    assert [(h.key, h.value and bytes(h.value)) for h in row.headers] == [("h", b"1"), ("h", None)]
    assert rows[3].key is None
    assert rows[4].value is None
    assert rows[4].headers is None


def test_ranges_splits_and_chosen_columns(spark, brokers):
    records = _read(
        spark,
        brokers,
        "offset bigint, partition int",
        startingOffsets=json.dumps({"t": {"0": 5, "1": -2, "2": 0}}),
        endingOffsets=json.dumps({"t": {"0": 95, "1": 7, "2": -1}}),
        minPartitions="5",
    )
    assert records.columns == ["offset", "partition"]
    assert records.rdd.getNumPartitions() >= 5
    rows = sorted((row.partition, row.offset) for row in records.collect())
    assert rows == [*((0, offset) for offset in range(5, 95)), *((1, o) for o in range(7))]


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_decide_what_is_fetched(spark, brokers, pushed):
    as_in_every_session = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    assert as_in_every_session == "true"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    fetches = {tp.partition: state.fetches for tp, state in brokers.partitions.items()}
    for seen in fetches.values():
        seen.clear()
    late = "timestamp >= timestamp_millis(1700000000130)"
    rows = (
        _read(spark, brokers, columns="partition,offset")
        .where("partition in (0, 7) and offset >= 42 and offset < 45")
        .collect()
    )
    times = _read(spark, brokers).where(late).where("partition = 1").select("offset").collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", as_in_every_session)
    assert sorted((row.partition, row.offset) for row in rows) == [(0, 42), (0, 43), (0, 44)]
    assert sorted(row.offset % 10 for row in times) == sorted([7, 8, 9] * 5)
    begun = {number: {offset for _, offset in seen} for number, seen in fetches.items()}
    if pushed == "true":
        assert begun == {0: {42}, 1: {7}, 2: set()}
    else:
        assert begun[0] >= {0}
        assert begun[1] >= {0}


def test_partitions_may_be_assigned_and_columns_named(spark, brokers):
    reader = spark.read.format("tidelog").options(
        **{
            "kafka.bootstrap.servers": brokers.bootstrap_servers,
            "assign": '{"t": [1]}',
            "columns": "offset,base_offset,partition",
            "endingTimestamp": "1700000000128",
            "kafka.isolation.level": "read_committed",
        }
    )
    frame = reader.load()
    assert frame.columns == ["offset", "base_offset", "partition"]
    assert sorted(tuple(row) for row in frame.collect()) == [(n, 0, 1) for n in range(5)]


def test_headers_may_be_left_out(spark, brokers):
    assert "headers" not in _read(spark, brokers, includeHeaders="false").columns


def test_an_empty_range_is_an_empty_frame(spark, brokers):
    ends = json.dumps({"t": {"0": 0, "1": 0, "2": 0}})
    assert _read(spark, brokers, endingOffsets=ends).collect() == []


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (None, {"startingOffset": "earliest"}, "no option `startingoffset`"),
        (None, {"startingOffsets": "latest"}, "`startingOffsets` may not be latest"),
        (None, {"subscribe": "nope"}, "topic `nope` does not exist"),
        (None, {"columns": "offset,size"}, "`columns` names `size`"),
        (None, {"startingTimestamp": "1800000000000"}, "no record of `t-0` has a timestamp"),
        ("value string", {}, "no column `value string`"),
        ("values binary", {}, "no column `values binary`"),
        (None, {"endingOffsets": '{"t": {"0": 101, "1": 0, "2": 0}}'}, "the log has [0, 100)"),
    ],
)
def test_wrong_use_is_one_message_with_a_hint(spark, brokers, schema, options, message):
    with pytest.raises(AnalysisException) as caught:
        _read(spark, brokers, schema, **options).collect()
    assert message in str(caught.value)
    assert "hint: " in str(caught.value)


def test_a_loss_names_topic_partition_and_ranges(spark):
    partition = ScriptedPartition([_batch(0), _batch(20)])
    with (
        ScriptedCluster({TopicPartition("t", 0): partition}) as broken,
        pytest.raises(PythonException) as caught,
    ):
        _read(spark, broken).collect()
    assert "DataLoss: `t-0` [0, 30): offset 10 should follow" in str(caught.value)
