"""Spark's official Kafka connector against Tidelog: the strictest reader there is.

It plans every batch by the latest offsets, remembers them, and stops its query when one of them
ever goes back, a partition is gone for a moment, or a record that it was promised is not there:
`failOnDataLoss` stays at its default, `true`.
"""

import json

import pytest

from tests.interop.connector import Connector, ConnectorError
from tests.interop.records import START_TIMEOUT_S, produce
from tidelog.testing import LocalCluster

PARTITIONS = 3
ROWS = 3000
LONG_AGO_MS = 1_700_000_000_000
ALL = {1, 2, 3}
# The client inside the connector may wait for a dead leader until its call times out
# (KAFKA-20673), which is a minute by default; shorter calls have to be tried more often to last
# through a restart of the whole cluster on a slow machine.
IMPATIENT = {
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "5000",
    "fetchOffset.numRetries": "30",
}


@pytest.fixture(scope="module")
def options(cluster: LocalCluster) -> dict[str, str]:
    """A topic with records in three partitions, and how the connector reads it."""
    create(cluster, "flights")
    produce(cluster, "flights", values(0, ROWS), partitions=PARTITIONS, timestamp=LONG_AGO_MS)
    return reading(cluster, "flights")


def create(cluster: LocalCluster, topic: str) -> None:
    # Records of `LONG_AGO_MS` are older than the default retention, which would delete them.
    configs = {"min.insync.replicas": "2", "retention.ms": "-1"}
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3, configs=configs)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr(topic, partition, ALL, timeout_s=START_TIMEOUT_S)


def values(first: int, count: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(first, first + count)]


def reading(cluster: LocalCluster, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}


def everything(rows: int, values_: list[bytes]) -> dict[str, int]:
    return {"rows": rows, "distinct": rows, "bytes": sum(map(len, values_))}


def test_a_batch_gives_every_record_once(connector: Connector, options):
    assert connector.do("counts", options=options) == everything(ROWS, values(0, ROWS))


def test_a_record_has_its_key_value_place_time_and_headers(connector: Connector, options):
    columns = [
        "partition",
        "offset",
        "CAST(key AS STRING) key",
        "CAST(value AS STRING) value",
        "unix_millis(timestamp) ms",
        "timestampType",
        "transform(headers, h -> concat(h.key, '=', coalesce(CAST(h.value AS STRING), 'NULL'))) h",
    ]
    ends = json.dumps({"flights": {"0": 2, "1": 0, "2": 0}})
    rows = connector.do(
        "rows",
        options={**options, "includeHeaders": "true", "endingOffsets": ends},
        columns=columns,
    )
    assert rows == [
        {
            "partition": 0,
            "offset": offset,
            "key": f"kvalue-{number}",
            "value": f"value-{number}",
            "ms": LONG_AGO_MS,
            "timestampType": 0,
            "h": [f"index={number}", "nothing=NULL"],
        }
        for offset, number in ((0, 0), (1, 3))
    ]


def test_read_committed_gives_what_no_transaction_wrote(connector: Connector, options):
    committed = {**options, "kafka.isolation.level": "read_committed"}
    assert connector.do("counts", options=committed) == everything(ROWS, values(0, ROWS))


def test_offsets_are_found_by_time(connector: Connector, cluster: LocalCluster):
    create(cluster, "hours")
    produce(cluster, "hours", values(0, 30), partitions=PARTITIONS, timestamp=LONG_AGO_MS)
    hour = LONG_AGO_MS + 3_600_000
    produce(cluster, "hours", values(30, 60), partitions=PARTITIONS, timestamp=hour)
    options = reading(cluster, "hours")
    late = connector.do("counts", options={**options, "startingTimestamp": str(hour)})
    early = connector.do("counts", options={**options, "endingTimestamp": str(hour)})
    assert (late["rows"], early["rows"]) == (60, 30)


def test_topics_are_found_by_pattern(connector: Connector, cluster: LocalCluster):
    for topic in ("pattern-a", "pattern-b", "other-pattern"):
        create(cluster, topic)
        produce(cluster, topic, values(0, 30), partitions=PARTITIONS)
    found = connector.do(
        "rows",
        options={
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribePattern": "pattern-.*",
        },
        columns=["topic"],
    )
    assert sorted(row["topic"] for row in found) == ["pattern-a"] * 30 + ["pattern-b"] * 30


def test_a_topic_that_does_not_exist_is_an_error(connector: Connector, cluster: LocalCluster):
    with pytest.raises(ConnectorError, match="UnknownTopicOrPartition"):
        connector.do("counts", options=reading(cluster, "no-such-topic"))


def test_a_batch_is_written_with_keys_headers_and_partitions(
    connector: Connector, cluster: LocalCluster
):
    create(cluster, "written")
    schema = (
        "key string, value string, partition int, headers array<struct<key:string,value:binary>>"
    )
    rows = [["a", "1", 0, None], [None, "2", 1, None], ["c", None, 2, None]]
    connector.do(
        "write",
        rows=rows,
        schema=schema,
        options={"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "written"},
    )
    columns = ["CAST(key AS STRING) key", "CAST(value AS STRING) value", "partition"]
    found = connector.do("rows", options=reading(cluster, "written"), columns=columns)
    assert [list(row.values()) for row in found] == [row[:3] for row in rows]


def test_a_stream_is_copied_from_topic_to_topic(
    connector: Connector, cluster: LocalCluster, options, tmp_path
):
    create(cluster, "copied")
    connector.do(
        "copy",
        name="copy",
        options={**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"},
        sink={
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "topic": "copied",
            "checkpointLocation": str(tmp_path / "checkpoint"),
        },
        trigger={"availableNow": True},
    )
    connector.wait_for_end("copy")
    copied = connector.do("counts", options=reading(cluster, "copied"))
    assert copied == everything(ROWS, values(0, ROWS))


def test_a_stream_survives_the_death_of_a_leader_and_of_the_whole_cluster(
    connector: Connector, cluster: LocalCluster
):
    topic = "stream"
    create(cluster, topic)
    produce(cluster, topic, values(0, 300), partitions=PARTITIONS)
    connector.do(
        "start",
        name="survivor",
        options={**reading(cluster, topic), "startingOffsets": "earliest", **IMPATIENT},
        trigger={"processingTime": "200 milliseconds"},
    )
    connector.wait_for_rows("survivor", 300)

    leader = cluster.wait_for_leader(topic, 0)
    cluster.kill(leader)
    produce(cluster, topic, values(300, 300), partitions=PARTITIONS)
    connector.wait_for_rows("survivor", 600)
    cluster.start_node(leader)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr(topic, partition, ALL, timeout_s=START_TIMEOUT_S)
    produce(cluster, topic, values(600, 300), partitions=PARTITIONS)
    connector.wait_for_rows("survivor", 900)

    cluster.stop()
    cluster.start(START_TIMEOUT_S)
    produce(cluster, topic, values(900, 300), partitions=PARTITIONS)
    found = connector.wait_for_rows("survivor", 1200)
    connector.do("stop", name="survivor")
    assert found["active"]
    assert {name: found[name] for name in ("rows", "distinct", "bytes")} == everything(
        1200, values(0, 1200)
    )
