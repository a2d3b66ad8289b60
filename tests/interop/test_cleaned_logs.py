"""Compacted logs change hands: Apache Kafka's tools read ours, and our log opens Kafka's."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.java_tools import run_tool
from tests.interop.kafka_node import KafkaNode
from tests.unit.log.cleaning.bench import CleaningBench, committed_records, draw_history, full
from tests.unit.log.harness import PARTITION
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.log.checkpoint import CLEANER_FILE, HIGH_WATERMARK_FILE, decode_offsets
from tidelog.log.directory import LogDirectory
from tidelog.model import TopicPartition
from tidelog.runtime.os_disk import OsDisk
from tidelog.testing.waiting import wait_until

WAIT_S = 120


def test_kafka_reads_what_we_cleaned(tmp_path: Path) -> None:
    """Batches without records, delete horizons, markers and indexes included."""
    bench = CleaningBench(OsDisk(str(tmp_path)), segment_bytes=2000)
    for number in range(4):
        draw_history(bench, Prng(number), 40)
        full(bench, number)
        bench.clean()
        bench.wall_ms += 700
    records = committed_records(bench.log)
    cleaned_to = bench.log.cleaned_to
    bench.stop()
    directory = tmp_path / str(PARTITION)
    payloads: list[str] = []
    for file in sorted(directory.glob("*.log")):
        dumped = run_tool("DumpLogSegments", "--files", str(file), "--print-data-log")
        assert "isvalid: false" not in dumped
        payloads += re.findall(r"offset: (\d+) .*?CreateTime", dumped)
    assert {str(offset) for offset, _, _ in records} <= set(payloads)
    for file in (*directory.glob("*.index"), *directory.glob("*.timeindex")):
        checked = run_tool("DumpLogSegments", "--files", str(file), "--index-sanity-check")
        assert "mismatch" not in checked.lower()
    assert cleaned_to > 0


@pytest.fixture(scope="module")
def kafka_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a node of Apache Kafka leaves behind that has compacted a topic."""
    place = tmp_path_factory.mktemp("kafka")
    with KafkaNode(place) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "1000",
        }
        made = admin.create_topics([NewTopic("compacted", 1, 1, config=config)])
        made["compacted"].result(timeout=WAIT_S)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 1})
        count = 0

        def is_cleaned() -> bool:
            nonlocal count
            for _ in range(20):
                value = None if count % 17 == 0 else b"v%d" % count
                producer.produce("compacted", value, key=b"k%d" % (count % 10))
                count += 1
            producer.flush()
            data = place / "data" / CLEANER_FILE
            return data.exists() and b"compacted 0" in data.read_bytes()

        wait_until(is_cleaned, WAIT_S, "a cleaned log")
    yield place / "data"


def test_we_open_what_kafka_cleaned(kafka_directory: Path) -> None:
    """As it lies there, gaps and all; the newest of each key is there, and our cleaner goes on."""
    log_directory = LogDirectory.open(
        OsDisk(str(kafka_directory)),
        effects=EffectQueue(),
        trace=Trace(TraceList()),
        default_config=LogConfig(),
        wall_ms=0,
    )
    partition = TopicPartition("compacted", 0)
    assert partition not in log_directory.damaged
    log = log_directory.logs[partition]
    log.verify()
    marks = decode_offsets((kafka_directory / HIGH_WATERMARK_FILE).read_bytes())
    assert log.cleaned_to > 0 and log.log_end_offset == marks[partition]
    records = committed_records(log)
    below = [record for record in records if record[0] < log.cleaned_to]
    assert len({key for _, key, _ in below}) == len(below) <= 10
    assert {key for _, key, _ in records} == {b"k%d" % number for number in range(10)}
