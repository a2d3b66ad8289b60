"""Compacted logs change hands: Apache Kafka's tools read ours, and our log opens Kafka's."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.interop.java_tools import run_tool
from tests.interop.kafka_node import KafkaNode, format_node
from tests.interop.mixed import NOT_SERVED, Mixed
from tests.unit.log.cleaning.bench import CleaningBench, committed_records, draw_history, full
from tests.unit.log.harness import PARTITION
from tidelog.broker.opening import open_directories
from tidelog.config import LogConfig
from tidelog.env.effects import EffectQueue
from tidelog.env.prng import Prng
from tidelog.env.trace import Trace, TraceList
from tidelog.log.checkpoint import CLEANER_FILE, HIGH_WATERMARK_FILE, decode_offsets
from tidelog.log.directory import LogDirectory
from tidelog.log.file_names import GAPS_FILE
from tidelog.model import TopicPartition
from tidelog.runtime.node_file import read_node_config
from tidelog.runtime.os_disk import OsDisk
from tidelog.testing.waiting import wait_until

WAIT_S = 120
COMPACTED = TopicPartition("compacted", 0)
AT_ONCE = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
NEVER = {
    "segment.ms": str(1 << 40),
    "min.cleanable.dirty.ratio": "1",
    "max.compaction.lag.ms": str((1 << 63) - 1),
}


def clean(servers: str, data: Path) -> None:
    """Produces until the cleaner of the node with this directory was there."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "log_level": 0})
    count = 0

    def is_cleaned() -> bool:
        nonlocal count
        for _ in range(20):
            value = None if count % 17 == 0 else b"v%d" % count
            producer.produce("compacted", value, key=b"k%d" % (count % 10))
            count += 1
        producer.flush()
        return is_in_checkpoint(data)

    wait_until(is_cleaned, WAIT_S, "a cleaned log")


def is_in_checkpoint(data: Path) -> bool:
    """Whether the cleaner has noted the log."""
    file = data / CLEANER_FILE
    return file.exists() and b"compacted 0" in file.read_bytes()


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
        made = admin.create_topics([NewTopic("compacted", 1, 1, config=AT_ONCE)])
        made["compacted"].result(timeout=WAIT_S)
        clean(kafka.bootstrap_servers, place / "data")
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
    assert COMPACTED not in log_directory.damaged
    log = log_directory.logs[COMPACTED]
    log.verify()
    marks = decode_offsets((kafka_directory / HIGH_WATERMARK_FILE).read_bytes())
    assert log.cleaned_to > 0 and log.log_end_offset == marks[COMPACTED]
    records = committed_records(log)
    below = [record for record in records if record[0] < log.cleaned_to]
    assert len({key for _, key, _ in below}) == len(below) <= 10
    assert {key for _, key, _ in records} == {b"k%d" % number for number in range(10)}


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[Mixed]:
    """Of Apache Kafka; the second is not the controller."""
    nodes = Mixed(tmp_path)
    for node_id in (1, 2):
        format_node(nodes.file(node_id), nodes.file(node_id).read_text(), *NOT_SERVED)
        nodes.start_kafka(node_id)
    nodes.wait_for_brokers()
    yield nodes
    nodes.stop_all()


def test_we_keep_what_a_killed_follower_of_kafka_has_fetched(two_nodes: Mixed) -> None:
    """Its leader has cleaned and it has not, so that no file there speaks of the gaps."""
    place, admin = two_nodes.data(2), two_nodes.admin(1)
    topic = NewTopic("compacted", 1, 2, config=AT_ONCE)
    admin.create_topics([topic])["compacted"].result(WAIT_S)
    two_nodes.stop(2)
    clean(f"127.0.0.1:{two_nodes.ports[1]}", two_nodes.data(1))
    change = AlterConfigOpType.SET
    entries = [ConfigEntry(*each, incremental_operation=change) for each in NEVER.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "compacted", incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    # One batch alone behind a gap is not believed: its offset may be a flipped one.
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{two_nodes.ports[1]}", "log_level": 0})
    for number in range(2):
        producer.produce("compacted", b"last", key=b"k%d" % number)
        assert producer.flush(WAIT_S) == 0
    two_nodes.start_kafka(2)
    two_nodes.wait_for_brokers()
    two_nodes.wait_for_isr("compacted")
    two_nodes.stop(2, signal.SIGKILL)
    assert not is_in_checkpoint(place)
    before = two_nodes.sums(2, "compacted")
    directories = open_directories(
        read_node_config(two_nodes.file(2)),
        [OsDisk(str(place))],
        EffectQueue(),
        Prng(1),
        Trace(TraceList()),
        wall_ms=0,
    )
    assert directories.is_loaded and not directories.damaged
    assert two_nodes.sums(2, "compacted") == before
    assert (place / str(COMPACTED) / GAPS_FILE).exists()
    log = directories.logs[COMPACTED]
    log.verify()
    log.update_high_watermark(log.log_end_offset)
    records = committed_records(log)
    assert {key for _, key, _ in records} == {b"k%d" % number for number in range(10)}
