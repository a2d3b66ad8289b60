"""Apache Kafka 4.3.1's own tools against Tidelog, and its reader of segments on Tidelog's files.

Left out are the tools that talk to no broker.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.hanging import ALLOWED, begin_without_coordinator
from tests.interop.java_tools import JavaTools, run_tool
from tests.interop.records import START_TIMEOUT_S, STOP_TIMEOUT_S, produce
from tidelog.testing import LocalCluster

ALL = {1, 2, 3}
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
TRANSACTIONS = "TransactionsCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture
def tools(cluster: LocalCluster) -> JavaTools:
    return JavaTools(cluster.bootstrap_servers)


def create(
    cluster: LocalCluster, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    cluster.create_topic(topic, partitions=partitions, replication_factor=3, configs=configs)
    for partition in range(partitions):
        cluster.wait_for_isr(topic, partition, ALL, timeout_s=START_TIMEOUT_S)


def test_topics_are_created_described_extended_and_deleted(tools: JavaTools):
    topic = ("--topic", "java-topic")
    tools.run(
        *("TopicCommand", "--create", *topic, "--partitions", "2"),
        *("--replication-factor", "3", "--config", "min.insync.replicas=2"),
    )
    tools.run("TopicCommand", "--alter", *topic, "--partitions", "4")
    described = tools.run("TopicCommand", "--describe", *topic)
    assert re.search(r"PartitionCount: 4\s+ReplicationFactor: 3", described)
    assert "min.insync.replicas=2" in described
    assert len(re.findall(r"Leader: [123]\s+Replicas: [123],[123],[123]", described)) == 4
    tools.run("TopicCommand", "--delete", *topic)
    assert "java-topic" not in tools.run("TopicCommand", "--list").split()


def test_what_is_produced_is_counted_by_offsets(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-load", partitions=3)
    said = tools.run(
        *("ProducerPerformance", "--topic", "java-load", "--num-records", "5000"),
        *("--record-size", "100", "--throughput", "-1", "--command-property", "acks=all"),
    )
    assert "5000 records sent" in said
    ends = tools.run("GetOffsetShell", "--topic", "java-load").split()
    assert [line.rpartition(":")[0] for line in ends] == [f"java-load:{n}" for n in range(3)]
    assert sum(int(line.rpartition(":")[2]) for line in ends) == 5000


def test_every_acknowledgement_is_verified_and_read_back(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-verified")
    events = [
        json.loads(line)
        for line in tools.run(
            *("VerifiableProducer", "--topic", "java-verified", "--max-messages", "500"),
            *("--acks", "-1"),
        ).splitlines()
    ]
    assert Counter(event["name"] for event in events)["producer_send_success"] == 500
    assert events[-1]["sent"] == events[-1]["acked"] == 500
    offsets = [event["offset"] for event in events if "offset" in event]
    assert sorted(offsets) == list(range(500))
    read = tools.run(
        *(CONSOLE_CONSUMER, "--topic", "java-verified", "--partition", "0"),
        *("--offset", "earliest", "--max-messages", "500", "--isolation-level", "read_committed"),
    )
    assert read.split() == [str(number) for number in range(500)]


def test_configs_are_altered_and_described(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-config")
    entity = ("--entity-type", "topics", "--entity-name", "java-config")
    tools.run(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=3600000")
    assert "retention.ms=3600000" in tools.run(CONFIGS, "--describe", *entity)
    broker = ("--entity-type", "brokers", "--entity-name", "1", "--all")
    assert re.search(r"node\.id=1\b", tools.run(CONFIGS, "--describe", *broker))


def test_replicas_are_reassigned_and_leaders_elected(
    tools: JavaTools, cluster: LocalCluster, tmp_path: Path
):
    create(cluster, "java-moved")
    plan = tmp_path / "plan.json"
    moved = {"topic": "java-moved", "partition": 0, "replicas": [3, 1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    what = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in tools.run(REASSIGN, "--execute", *what)
    cluster.wait_for_isr("java-moved", 0, {1, 3}, timeout_s=START_TIMEOUT_S)
    assert "java-moved-0 is completed" in tools.run(REASSIGN, "--verify", *what)
    tools.run(
        *("LeaderElectionCommand", "--election-type", "preferred"),
        *("--topic", "java-moved", "--partition", "0"),
    )
    assert cluster.wait_for_leader("java-moved", 0) == 3


def test_the_quorum_and_the_log_directories_are_described(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-dirs")
    status = tools.run("MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+[123]\n", status)
    assert len(re.findall(r'"id": [123]', status)) == 3
    replicas = tools.run("MetadataQuorumCommand", "describe", "--replication").splitlines()
    assert {line.split()[0] for line in replicas[1:] if line.strip()} == {"1", "2", "3"}
    directories = tools.run("LogDirsCommand", "--describe", "--topic-list", "java-dirs")
    found = json.loads(directories[directories.index("{") :])
    assert {broker["broker"] for broker in found["brokers"]} == ALL


def test_versions_and_features_are_known_to_the_tools(tools: JavaTools):
    versions = tools.run("BrokerApiVersionsCommand")
    assert len(re.findall(r"\(id: [123] rack", versions)) == 3
    assert "UNSUPPORTED" in versions
    assert "Produce(0)" in versions
    features = tools.run("FeatureCommand", "describe")
    assert re.search(r"Feature: metadata\.version\s.*FinalizedVersionLevel: \S+", features)


def test_the_voters_move_to_the_metadata_log(tools: JavaTools):
    """`kraft.version` 0 to 1 in a running cluster; there is no way back."""
    upgrade = ("FeatureCommand", "upgrade", "--feature", "kraft.version=1")
    assert "can be upgraded to 1" in tools.run(*upgrade, "--dry-run")
    assert "was upgraded to 1" in tools.run(*upgrade)
    features = tools.run("FeatureCommand", "describe")
    assert re.search(r"Feature: kraft\.version\s.*FinalizedVersionLevel: 1\s", features)
    with pytest.raises(AssertionError, match="cannot become 0"):
        tools.run("FeatureCommand", "downgrade", "--feature", "kraft.version=0")
    directories = re.findall(
        r'"directoryId": "([^"]+)"', tools.run("MetadataQuorumCommand", "describe", "--status")
    )
    assert len(set(directories)) == 3


def test_kafka_reads_our_segments(cluster: LocalCluster):
    """DumpLogSegments checks every batch, every record and the offset index; a node writes the
    index of its active segment when it stops."""
    create(cluster, "java-dump", configs={"index.interval.bytes": "100"})
    for first in range(0, 200, 20):
        produce(
            cluster, "java-dump", [b"value-%d" % n for n in range(first, first + 20)], partitions=1
        )
    cluster.terminate(1, STOP_TIMEOUT_S)
    segment = Path(cluster.node(1).data_dir) / "java-dump-0" / f"{0:020}.log"
    dumped = run_tool("DumpLogSegments", "--files", str(segment), "--print-data-log")
    assert re.findall(r"payload: (value-\d+)", dumped) == [f"value-{n}" for n in range(200)]
    assert "isvalid: false" not in dumped
    index = run_tool("DumpLogSegments", "--files", str(segment.with_suffix(".index")))
    assert len(re.findall(r"offset: \d+ position: \d+", index)) > 2
    assert "Mismatches" not in index
    cluster.start_node(1)
    cluster.wait_for_isr("java-dump", 0, ALL, timeout_s=START_TIMEOUT_S)


def test_the_clients_compatibility_test_passes(tools: JavaTools, cluster: LocalCluster):
    """Kafka's own examination of a broker by its client, made for releases that differ."""
    create(cluster, "java-compatible")
    tools.run(
        *("ClientCompatibilityTest", "--topic", "java-compatible", "--num-cluster-nodes", "3"),
        *("--offsets-for-times-supported", "true", "--cluster-id-supported", "true"),
        *("--create-topics-supported", "true", "--describe-configs-supported", "true"),
        *("--describe-acls-supported", "true", "--idempotent-producer-supported", "true"),
        *("--expect-record-too-large-exception", "false"),
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_and_is_described_reset_and_deleted(
    cluster: LocalCluster, tools: JavaTools, protocol: str
):
    topic, name = f"java-group-{protocol}", f"java-readers-{protocol}"
    create(cluster, topic, partitions=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    values = [f"v{index}" for index in range(30)]
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % 3)
    assert producer.flush(60) == 0
    group = ("--group", name)
    read = tools.run(
        *(CONSOLE_CONSUMER, "--topic", topic, *group, "--from-beginning"),
        *("--command-property", f"group.protocol={protocol}"),
        *("--max-messages", "30", "--timeout-ms", "60000"),
    )
    assert sorted(read.split()) == sorted(values)
    assert f"{name} " in tools.run(GROUPS, "--list", "--type") + " "
    (state,) = [
        each
        for each in tools.run(GROUPS, "--describe", *group, "--state").splitlines()
        if name in each
    ]
    assert " Empty " in f"{state} "
    lags = [line.split()[5] for line in tools.run(GROUPS, "--describe", *group).splitlines()[2:]]
    assert lags == ["0", "0", "0"]
    tools.run(*(GROUPS, "--reset-offsets", "--to-earliest", "--topic", topic, *group), "--execute")
    lags = [line.split()[5] for line in tools.run(GROUPS, "--describe", *group).splitlines()[2:]]
    assert sum(map(int, lags)) == 30
    tools.run(GROUPS, "--delete-offsets", *group, "--topic", f"{topic}:0")
    tools.run(GROUPS, "--delete", *group)
    assert name not in tools.run(GROUPS, "--list")


def test_share_groups_are_read_listed_described_moved_and_deleted(
    tools: JavaTools, cluster: LocalCluster
):
    create(cluster, "java-queue", partitions=2)
    group, topic = ("--group", "java-sharers"), ("--topic", "java-queue")
    tools.run(*(SHARE_GROUPS, "--reset-offsets", "--to-earliest", *topic, *group), "--execute")
    for first, count in ((0, 200), (200, 50)):
        values = [b"%d" % number for number in range(first, first + count)]
        produce(cluster, "java-queue", values, partitions=2)
        bounds = ("--max-messages", str(count), "--timeout-ms", "60000")
        # What was acknowledged does not come again.
        assert sorted(map(int, tools.run(SHARE_CONSUMER, *topic, *group, *bounds).split())) == list(
            range(first, first + count)
        )
    assert "java-sharers" in tools.run(SHARE_GROUPS, "--list").split()
    assert "Empty" in tools.run(SHARE_GROUPS, "--describe", *group, "--state").split()
    described = tools.run(SHARE_GROUPS, "--describe", *group, "--offsets")
    rows = [line.split() for line in described.splitlines() if "java-sharers" in line]
    assert sorted(row[2] for row in rows) == ["0", "1"]
    assert "Successful" in tools.run(SHARE_GROUPS, "--delete-offsets", *topic, *group)
    tools.run(SHARE_GROUPS, "--delete", *group)
    assert "java-sharers" not in tools.run(SHARE_GROUPS, "--list")


def rows_of(printed: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    return [line.split() for line in printed.splitlines()[1:] if line.strip()]


def test_transactions_are_listed_described_and_a_hanging_one_is_aborted(tmp_path: Path):
    with LocalCluster(1, data_dir=tmp_path, profile="default", config=ALLOWED) as cluster:
        tools, servers = JavaTools(cluster.bootstrap_servers), cluster.bootstrap_servers
        for topic in ("java-alive", "java-hanging"):
            cluster.create_topic(topic, partitions=1)
        start = begin_without_coordinator(cluster, "java-hanging")
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "java-tx"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("java-alive", b"value", partition=0)
        assert producer.flush(60) == 0
        (listed,) = rows_of(tools.run(TRANSACTIONS, "list"))
        assert (listed[0], listed[-1]) == ("java-tx", "Ongoing")
        described = tools.run(TRANSACTIONS, "describe", "--transactional-id", "java-tx")
        assert rows_of(described)[0][-1] == "java-alive-0"
        place = ("--topic", "java-hanging", "--partition", "0")
        (active,) = rows_of(tools.run(TRANSACTIONS, "describe-producers", *place))
        assert active[-1] == str(start)
        for where in (("--topic", "java-hanging"), ("--broker-id", "1")):
            search = ("find-hanging", *where, "--max-transaction-timeout", "0")
            (found,) = rows_of(tools.run(TRANSACTIONS, *search))
            assert (found[:2], found[5]) == (["java-hanging", "0"], str(start))
        tools.run(TRANSACTIONS, "abort", *place, "--start-offset", str(start))
        assert rows_of(tools.run(TRANSACTIONS, *search)) == []
        force = ("forceTerminateTransaction", "--transactionalId", "java-tx")
        tools.run(TRANSACTIONS, *force)
        (ended,) = rows_of(tools.run(TRANSACTIONS, "list"))
        assert ended[-1] in ("CompleteAbort", "Empty")


def test_lines_are_produced_and_consumers_of_all_kinds_count_them(
    tools: JavaTools, cluster: LocalCluster
):
    create(cluster, "java-lines")
    topic, count = ("--topic", "java-lines"), ("--num-records", "20")
    tools.run("ConsoleProducer", *topic, given="".join(f"line {n}\n" for n in range(20)))
    read = tools.run(
        CONSOLE_CONSUMER,
        *topic,
        *("--partition", "0", "--offset", "earliest"),
        *("--max-messages", "20"),
    )
    assert read.splitlines() == [f"line {number}" for number in range(20)]
    measured = tools.run("ConsumerPerformance", *topic, *count, "--timeout", "30000")
    assert measured.splitlines()[1].split(", ")[4] == "20"
    for tool in ("VerifiableConsumer", "VerifiableShareConsumer"):
        options = ("--group-id", f"java-{tool}", *topic, "--max-messages", "20")
        earliest = () if tool == "VerifiableConsumer" else ("--offset-reset-strategy", "earliest")
        lines = tools.run(tool, *options, *earliest).splitlines()
        events = [json.loads(line) for line in lines]
        consumed = [each["count"] for each in events if each["name"] == "records_consumed"]
        assert sum(consumed) == 20
        assert events[-1]["name"] in ("shutdown_complete", "shutdown_requested")
    types = {row[0]: row[1] for row in rows_of(tools.run("GroupsCommand", "--list"))}
    assert types["java-VerifiableConsumer"] == "Classic"
    assert types["java-VerifiableShareConsumer"] == "Share"


def test_latency_is_measured_from_end_to_end(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-latency")
    sizes = ("--num-records", "20", "--record-size", "100")
    said = tools.run("EndToEndLatency", "--topic", "java-latency", *sizes, "--producer-acks", "all")
    assert "Percentiles: 50th" in said


def test_records_are_deleted_and_replicas_verified(
    tools: JavaTools, cluster: LocalCluster, tmp_path: Path
):
    create(cluster, "java-deleted")
    produce(cluster, "java-deleted", [b"%d" % number for number in range(20)], partitions=1)
    plan = tmp_path / "plan.json"
    place = {"topic": "java-deleted", "partition": 0, "offset": 5}
    plan.write_text(json.dumps({"version": 1, "partitions": [place]}))
    said = tools.run("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert re.search(r"java-deleted-0\s+low_watermark: 5", said)
    what = ("--topics-include", "java-deleted", "--report-interval-ms", "500")
    found = tools.watch(
        "ReplicaVerificationTool", *what, option="--broker-list", until="at offset 20"
    )
    assert "max lag is 0 for partition java-deleted-0" in found


def test_the_cluster_is_named_and_its_brokers_are_listed(tools: JavaTools):
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\s*", tools.run_verb("ClusterTool", "cluster-id"))
    brokers = rows_of(tools.run_verb("ClusterTool", "list-endpoints"))
    assert {(row[0], row[4], row[5]) for row in brokers} == {
        (str(number), "unfenced", "broker") for number in ALL
    }


def test_a_streams_application_is_reset(tools: JavaTools, cluster: LocalCluster):
    create(cluster, "java-input")
    produce(cluster, "java-input", [b"%d" % number for number in range(20)], partitions=1)
    app = ("--application-id", "java-app", "--input-topics", "java-input")
    assert "Partition: 0 Offset: 0" in tools.run("StreamsResetter", *app)
    described = tools.run(GROUPS, "--describe", "--group", "java-app")
    assert rows_of(described.lstrip())[0][3:6] == ["0", "20", "20"]


def test_what_is_not_served_lists_nothing_and_is_refused(tools: JavaTools):
    """Goal: as `docs/compat.md` says, an error and no wait."""
    assert tools.run("ClientMetricsCommand", "--list").strip() == ""
    assert tools.run(STREAMS_GROUPS, "--list").strip() == ""
    change = ("--alter", "--name", "m", "--metrics", "org.apache.kafka.", "--interval", "10000")
    with pytest.raises(AssertionError, match="Unsupported config resource type 16"):
        tools.run("ClientMetricsCommand", *change)
    with pytest.raises(AssertionError, match="Unsupported"):
        tools.run(STREAMS_GROUPS, "--describe", "--group", "java-app")
