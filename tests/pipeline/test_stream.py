"""`spark.readStream.format("tidelog")`: nothing twice, nothing missing, across restarts."""

from threading import Event

import pytest
from pyspark.errors import StreamingQueryException

from tests.unit.client.scripted_brokers import ScriptedCluster, ScriptedPartition
from tests.unit.pipeline.log_directories import batches
from tidelog.model import TopicId, TopicPartition
from tidelog.pipeline.topics.progress import LagReporter
from tidelog.wire.api import ApiKey

pytestmark = pytest.mark.spark

_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def brokers():
    partitions = {_P0: ScriptedPartition(batches(5)), _P1: ScriptedPartition(batches(2), leader=2)}
    with ScriptedCluster(partitions) as started:
        yield started


@pytest.fixture
def run(spark, brokers, tmp_path):
    """Runs the query until it has read what is there; gives the sizes of its batches."""

    def run(**options: str) -> list[int]:
        records = (
            spark.readStream.format("tidelog")
            .schema("partition int, offset bigint, value binary")
            .option("kafka.bootstrap.servers", brokers.bootstrap_servers)
            .option("subscribe", "t")
            .options(**{"startingOffsets": "earliest"} | options)
            .load()
        )
        query = (
            records.writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    return run


def _places(spark, tmp_path):
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    return sorted((row["partition"], row["offset"]) for row in rows)


def test_each_run_reads_what_came_since_the_one_before(spark, run, brokers, tmp_path):
    assert run() == [70]
    assert run() == []
    brokers.partitions[_P1].batches.extend(batches(4)[2:])
    assert run() == [20]
    expected = [(0, offset) for offset in range(50)] + [(1, offset) for offset in range(40)]
    assert _places(spark, tmp_path) == expected


class Listener(LagReporter):
    """Keeps the reports; Spark brings them some time after the query has ended."""

    def __init__(self):
        self.reports = []
        self.ended = Event()
        super().__init__(self.reports.append)

    def onQueryTerminated(self, event):
        self.ended.set()


def test_a_limit_makes_batches_whose_progress_is_reported(spark, run, brokers, tmp_path):
    listener = Listener()
    spark.streams.addListener(listener)
    sizes = run(maxOffsetsPerTrigger="30", **{"kafka.group.id": "dashboards"})
    assert listener.ended.wait(60)
    spark.streams.removeListener(listener)
    assert brokers.committed == {"dashboards": {_P0: 50, _P1: 20}}
    lags = [report["lag"] for report in listener.reports]
    assert lags[-1] == 0
    assert [lag for lag in lags if lag] == [41, 12]
    assert sum(sizes) == 70
    assert len(sizes) >= 3
    assert max(sizes) <= 32
    assert len(set(_places(spark, tmp_path))) == 70


def test_a_partition_that_is_added_is_read_from_its_beginning(spark, run, brokers, tmp_path):
    run()
    brokers.partitions[TopicPartition("t", 2)] = ScriptedPartition(batches(1))
    assert run(startingOffsets="latest") == [10]
    assert _places(spark, tmp_path)[-10:] == [(2, offset) for offset in range(10)]


def test_lost_records_stop_the_query_with_a_hint(run, brokers):
    run()
    brokers.partitions[_P0].batches[:] = batches(2)
    with pytest.raises(StreamingQueryException) as caught:
        run()
    message = str(caught.value)
    assert "`t-0` [50, 50): the log ends at 20\nhint: " in message
    assert "failOnDataLoss=false" in message
    brokers.partitions[_P1].batches.extend(batches(3)[2:])
    assert run(failOnDataLoss="false") == [10]
    brokers.partitions[_P0].batches.extend(batches(3)[2:])
    assert run() == [10]


def test_a_topic_made_anew_stops_the_query_though_its_offsets_fit(run, brokers):
    run()
    for partition in brokers.partitions.values():
        partition.topic_id = TopicId(b"another topic id")
    with pytest.raises(StreamingQueryException) as caught:
        run()
    assert "`t-0` [50, 50): the topic was deleted and created again" in str(caught.value)
    assert run(failOnDataLoss="false") == [70]


def test_brokers_without_groups_are_refused_before_anything_is_read(run, brokers):
    del brokers.served[ApiKey.OFFSET_COMMIT]
    with pytest.raises(
        StreamingQueryException, match=r"`kafka\.group\.id` is `g`, but the brokers"
    ):
        run(**{"kafka.group.id": "g"})
    assert brokers.partitions[_P0].fetches == []
