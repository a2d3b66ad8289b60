"""What nodes of both kinds do beside each other, item by item.

Node 1 has the controller: Kafka's first, then ours on the same disk. Node 2 is ours and node 3 is
Kafka's all the time. Each item has topics of its own, whose replicas are on nodes 2 and 3, one kind
leading and the other following, and both ways. They fetch from each other with other settings
(`FETCHES`).
"""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.java_tools import run_tool
from tests.interop.kafka_node import format_node
from tests.interop.mixed import Mixed
from tests.interop.prepare import KAFKA_JARS
from tests.interop.records import WAIT_S, values_of
from tidelog.client import AdminClient
from tidelog.client.core.descriptions import PartitionDescription
from tidelog.client.security_options import PLAINTEXT
from tidelog.testing.waiting import wait_until

OURS, KAFKAS = 2, 3
BOTH_WAYS: Final = ([OURS, KAFKAS], [KAFKAS, OURS])
SOME: Final = 200
ROUNDS: Final = 4
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SETTINGS: Final = """\
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=3
group.initial.rebalance.delay.ms=0
auto.leader.rebalance.enable=false
broker.session.timeout.ms=6000
controller.quorum.election.timeout.ms=5000
controller.quorum.fetch.timeout.ms=10000
broker.heartbeat.interval.ms=1000
log.cleaner.backoff.ms=1000
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
"""
FETCHES: Final = {
    1: "",
    OURS: """\
max.incremental.fetch.session.cache.slots=0
replica.fetch.max.bytes=2048
replica.fetch.response.max.bytes=4096
replica.fetch.min.bytes=1
replica.fetch.wait.max.ms=100
""",
    KAFKAS: """\
max.incremental.fetch.session.cache.slots=0
replica.fetch.max.bytes=5000
replica.fetch.response.max.bytes=9000
replica.fetch.min.bytes=100
replica.fetch.wait.max.ms=400
""",
}
"""How each node follows; nodes 2 and 3 without fetch sessions, in answers smaller than a record."""


class Trio(Mixed):
    """A controller with a broker, node 1, a broker of ours, node 2, and one of Kafka, node 3."""

    security = PLAINTEXT
    """What clients of ours need to reach the brokers."""

    def __init__(
        self,
        place: Path,
        jars: Path = KAFKA_JARS,
        features: Sequence[str] = (),
        more_properties: str = "",
    ) -> None:
        super().__init__(place, jars, nodes=3, more_properties=SETTINGS + more_properties)
        for node_id in self.ports:
            text = f"{self.file(node_id).read_text()}broker.rack=rack-{node_id}\n"
            text += FETCHES[node_id]
            format_node(self.file(node_id), text, *features, jars=jars)

    def start(self, node_id: int) -> None:
        """Starts node 2 or 3 as what it is."""
        (self.start_ours if node_id == OURS else self.start_kafka)(node_id)

    def start_all(self, controller: Callable[[int], None]) -> None:
        """Starts whatever does not run, node 1 as one of the controller's kind."""
        for node_id in self.ports:
            if node_id not in self.running:
                (controller if node_id == 1 else self.start)(node_id)
        self.wait_for_brokers()

    def tool(self, node_id: int, name: str, *arguments: str) -> str:
        """One of Kafka's tools against one node."""
        server = f"127.0.0.1:{self.ports[node_id]}"
        return run_tool(name, "--bootstrap-server", server, *arguments, jars=self.jars)

    @contextmanager
    def asking(self, *nodes: int) -> Iterator[AdminClient]:
        """Our own client, at these nodes or at all that run."""
        addresses = [f"127.0.0.1:{self.ports[each]}" for each in nodes or self.running]
        with AdminClient(addresses, timeout_s=30, security=self.security) as admin:
            yield admin

    def create(self, topic: str, *assignment: Sequence[int], **configs: str) -> None:
        """Makes a topic with these replicas, and waits until all are in sync."""
        with self.asking() as admin:
            admin.create_topic(
                topic,
                assignment=assignment,
                configs={name.replace("_", "."): value for name, value in configs.items()},
            )
        for number, replicas in enumerate(assignment):
            self.wait(topic, number, isr=replicas)

    def partition(self, topic: str, number: int = 0) -> PartitionDescription:
        """How a partition is now, as the node with the newest metadata describes it."""
        found = []
        for node_id in self.running:
            with self.asking(node_id) as admin:
                found.append(admin.describe_topic(topic).partitions[number])
        return max(found, key=lambda one: one.leader_epoch)

    def wait(
        self,
        topic: str,
        number: int = 0,
        *,
        isr: Sequence[int] = (),
        leader: int = 0,
        replicas: Sequence[int] = (),
    ) -> None:
        """Until a partition has what is given: the members of the ISR, the leader, the replicas."""

        def is_so() -> bool:
            try:
                one = self.partition(topic, number)
            except Exception:
                return False
            return (
                (not isr or set(one.isr) == set(isr))
                and (not replicas or set(one.replicas) == set(replicas))
                and leader in (0, one.leader)
            )

        try:
            wait_until(is_so, WAIT_S, f"`{topic}-{number}`")
        except TimeoutError:
            raise AssertionError(f"{topic}-{number} is {self.partition(topic, number)}") from None

    def send(
        self,
        topic: str,
        numbers: Sequence[int],
        partition: int = -1,
        size: int = 0,
        timestamp: int = 0,
    ) -> None:
        """Numbers, padded to a size, each acknowledged by all replicas in sync."""
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "log_level": 2})
        errors: list[object] = []
        for number in numbers:
            value = str(number).zfill(size).encode()
            producer.produce(
                topic,
                value,
                key=b"%d" % (number % 10),
                partition=partition,
                timestamp=timestamp,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * len(numbers), errors[:3]

    def wait_for_equal_segments(self, topic: str) -> None:
        """Until the replicas' segments on nodes 2 and 3 are the same bytes."""

        def equal() -> bool:
            return self.sums(OURS, topic) == self.sums(KAFKAS, topic) != {}

        wait_until(equal, WAIT_S, f"equal segments of `{topic}`")

    def coordinated_by(self, node_id: int, topic: str, prefix: str) -> str:
        """An id whose group or transactions the node coordinates; the topic has three partitions
        and is made by the first id that is looked up."""
        self.elect_preferred()
        leaders = [self.partition(topic, number).leader for number in range(3)]
        assert node_id in leaders, f"node {node_id} leads nothing of {topic}: {leaders}"
        names = (f"{prefix}{number}" for number in range(100))
        return next(name for name in names if leaders[java_hash(name) % 3] == node_id)

    def elect_preferred(self) -> None:
        """The first replicas lead again, everywhere."""
        preferred = ("--election-type", "preferred", "--all-topic-partitions")
        self.tool(OURS, "LeaderElectionCommand", *preferred)


def java_hash(text: str) -> int:
    """What Kafka makes of an id to find the partition of its coordinator."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


# The items ------------------------------------------------------------------------------------


def replicate(t: Trio, name: str) -> None:
    """Records larger than what a follower asks for."""
    t.create(name, *BOTH_WAYS)
    t.send(name, range(SOME), size=6_000)
    t.wait_for_equal_segments(name)


def read_from_followers(t: Trio, name: str) -> None:
    """A reader in a follower's rack fetches from it, whatever kind leads."""
    t.create(name, *BOTH_WAYS)
    for partition, follower in ((0, KAFKAS), (1, OURS)):
        t.send(name, range(SOME), partition)
        fetches: list[int] = []

        def note(text: str, node_id: int = follower, found: list[int] = fetches) -> None:
            brokers = json.loads(text)["brokers"].values()
            found += [each["req"].get("Fetch", 0) for each in brokers if each["nodeid"] == node_id]

        consumer = Consumer(
            {
                "bootstrap.servers": t.servers,
                "group.id": "near",
                "client.rack": f"rack-{follower}",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "statistics.interval.ms": 200,
                "stats_cb": note,
            }
        )
        consumer.assign([TopicPartition(name, partition, 0)])
        count = 0

        def polled(reader: Consumer = consumer, found: list[int] = fetches) -> bool:
            nonlocal count
            count += reader.poll(0.1) is not None
            return count >= SOME and max(found, default=0) > 0

        wait_until(polled, WAIT_S, f"fetches from node {follower}")
        consumer.close()


def reassign(t: Trio, name: str) -> None:
    """A replica moves from one kind to the other, and back."""
    t.create(name, [KAFKAS])
    t.send(name, range(SOME))
    plan = t.place / "plan.json"
    for node_id in (OURS, KAFKAS):
        row = {"topic": name, "partition": 0, "replicas": [node_id]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        t.tool(OURS, REASSIGN, "--execute", "--reassignment-json-file", str(plan))
        t.wait(name, isr=[node_id], replicas=[node_id])
        assert values_of(t.servers, name, 1) == list(range(SOME))


def delete_records(t: Trio, name: str) -> None:
    """Followers of the other kind take over the leader's new log start."""
    t.create(name, *BOTH_WAYS)
    for partition in (0, 1):
        t.send(name, range(SOME), partition)
        with t.asking() as admin:
            assert admin.delete_records(name, partition, 50) == 50

    def deleted() -> bool:
        with t.asking() as admin:
            found = admin.describe_topic(name, replica_logs=True).partitions
        return all(log.log_start_offset == 50 for one in found for log in one.replica_logs)

    wait_until(deleted, WAIT_S, "the log start of all replicas")


def transactions(t: Trio, name: str) -> None:
    """A coordinator of either kind; one transaction is committed, with offsets, one aborted."""
    t.create(name, *BOTH_WAYS)
    # The topic of the coordinators is made.
    _transact(t, name, "first", 0)
    for number, node_id in enumerate((OURS, KAFKAS), 1):
        _transact(t, name, t.coordinated_by(node_id, "__transaction_state", name), number)
    wanted = sorted(one for start in range(3) for one in range(start * 1000, start * 1000 + SOME))
    assert sorted(values_of(t.servers, name, 2)) == wanted
    t.wait_for_equal_segments(name)


def _transact(t: Trio, topic: str, transactional_id: str, number: int) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": t.servers, "log_level": 2}
    producer = Producer({**settings, "transactional.id": transactional_id})
    group = {**settings, "group.id": f"of-{transactional_id}"}
    consumer = Consumer(group)
    position = TopicPartition(topic, 0, number + 1)
    producer.init_transactions(WAIT_S)
    for is_committed in (True, False):
        producer.begin_transaction()
        start = number * 1000 + (0 if is_committed else SOME)
        for value in range(start, start + SOME):
            producer.produce(topic, b"%d" % value)
        if is_committed:
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
            producer.commit_transaction(WAIT_S)
        else:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert committed.offset == number + 1
    consumer.close()


def compact(t: Trio, name: str) -> None:
    """Each kind cleans its replica; readers of either see the newest value of each key."""
    settings = {"cleanup_policy": "compact", "segment_ms": "1000", "max_compaction_lag_ms": "1000"}
    t.create(name, *BOTH_WAYS, min_cleanable_dirty_ratio="0.01", **settings)
    now = int(time.time() * 1000)
    # Each time later than a segment's age: the ones before are not active any more.
    for number in range(ROUNDS):
        first, timestamp = number * SOME, now + number * 5_000
        for partition in (0, 1):
            t.send(name, range(first, first + SOME), partition, timestamp=timestamp)

    def cleaned() -> bool:
        checkpoints = [t.data(each) / "cleaner-offset-checkpoint" for each in (OURS, KAFKAS)]
        texts = [each.read_text() for each in checkpoints if each.exists()]
        wanted = [f"{name} {partition} " for partition in (0, 1)]
        return len(texts) == 2 and all(each in text for text in texts for each in wanted)

    wait_until(cleaned, WAIT_S, "cleaned logs of both kinds")
    newest = set(range(ROUNDS * SOME - 10, ROUNDS * SOME))
    for node_id in (OURS, KAFKAS):
        values = _values_near(t, name, node_id)
        assert newest <= set(values)
        assert len(values) < 2 * ROUNDS * SOME, "nothing is gone"


def _values_near(t: Trio, topic: str, node_id: int) -> list[int]:
    """What a reader in the node's rack finds."""
    settings = {"bootstrap.servers": t.servers, "group.id": "near", "enable.partition.eof": True}
    consumer = Consumer({**settings, "client.rack": f"rack-{node_id}"})
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    found: list[int] = []
    ended: set[int | None] = set()
    while len(ended) < 2:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found.append(int(message.value()))
    consumer.close()
    return found


def stop_cleanly(t: Trio, name: str) -> None:
    """A node that stops has given its leaders away; its groups go on with the other kind's
    coordinator; when it is back, it is elected as the preferred leader."""
    t.create(name, *BOTH_WAYS)
    # The topic of the coordinators is made.
    _group(t, name, name).close()
    for node_id, other in BOTH_WAYS:
        topic = f"{name}-{node_id}"
        t.create(topic, [node_id, other])
        t.send(topic, range(SOME))
        consumer = _group(t, t.coordinated_by(node_id, "__consumer_offsets", topic), topic)
        _poll_and_commit(consumer, topic, SOME)
        t.stop(node_id)
        t.wait(topic, isr=[other], leader=other)
        t.send(topic, range(SOME))
        _poll_and_commit(consumer, topic, 2 * SOME)
        consumer.close()
        t.start(node_id)
        t.wait(topic, isr=[OURS, KAFKAS])
        t.elect_preferred()
        t.wait(topic, leader=node_id)
        t.wait_for_equal_segments(topic)


def _group(t: Trio, group: str, topic: str) -> Consumer:
    settings = {"bootstrap.servers": t.servers, "group.id": group, "log_level": 2}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.2) is not None or consumer.assignment(), WAIT_S, group)
    return consumer


def _poll_and_commit(consumer: Consumer, topic: str, end: int) -> None:
    """Up to an offset."""
    where = TopicPartition(topic, 0)

    def done() -> bool:
        message = consumer.poll(0.2)
        return message is not None and not message.error() and message.offset() == end - 1

    wait_until(done, WAIT_S, f"record {end - 1} in the group")

    def committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, end)], asynchronous=False)
            return bool(consumer.committed([where], 10)[0].offset == end)
        except Exception:
            consumer.poll(0.2)
            return False

    wait_until(committed, WAIT_S, f"the commit of {end}")


class NotOffered(Exception):
    """The partner's version does not have it."""


def require_feature(t: Trio, feature: str, level: int) -> None:
    """Raises `NotOffered` where Kafka's broker cannot run this level."""
    # Kafka's tool may ask another broker than the one that it is given.
    with t.asking(KAFKAS) as admin:
        offered = admin.describe_features(("127.0.0.1", t.ports[KAFKAS])).supported
    if offered.get(feature, (0, 0))[1] < level:
        raise NotOffered(feature)


def features(t: Trio, name: str) -> None:
    """Levels go down and up while both kinds are brokers."""
    require_feature(t, "group.version", 1)
    for feature, low, high in (("group.version", 0, 1), ("transaction.version", 1, 2)):
        for word, level in (("downgrade", low), ("upgrade", high)):
            t.tool(OURS, "FeatureCommand", word, "--feature", f"{feature}={level}")
            described = t.tool(KAFKAS, "FeatureCommand", "describe")
            (line,) = [each for each in described.splitlines() if feature in each]
            assert f"FinalizedVersionLevel: {level}" in line


def elect_uncleanly(t: Trio, name: str) -> None:
    """The one replica in sync is killed, the other is elected all the same: what only the first
    had is gone, and the first cuts its log when it is back. Ours says from where to where."""
    for killed, stopped in BOTH_WAYS:
        topic = f"{name}-{killed}"
        t.create(topic, [killed, stopped])
        t.send(topic, range(SOME))
        t.stop(stopped)
        t.wait(topic, isr=[killed])
        t.send(topic, range(SOME, 2 * SOME))
        t.stop(killed, signal.SIGKILL)
        t.start(stopped)
        t.wait(topic, leader=-1)
        t.wait_for_brokers()
        unclean = ("--election-type", "unclean", "--topic", topic, "--partition", "0")
        t.tool(stopped, "LeaderElectionCommand", *unclean)
        t.wait(topic, leader=stopped)
        assert values_of(t.servers, topic, 1) == list(range(SOME))
        t.start(killed)
        t.wait(topic, isr=[OURS, KAFKAS])
        t.wait_for_equal_segments(topic)
        if killed == OURS:
            loss = rf"{topic}-0 truncate: truncated.* log_end={2 * SOME}->{SOME} "
            assert re.search(loss, t.log(killed).read_text())


def keep_eligible(t: Trio, name: str) -> None:
    """With ELR, a replica that stopped below the minimum ISR stays eligible; without, it does not.
    Nodes of both kinds describe it."""
    require_feature(t, "eligible.leader.replicas.version", 1)
    for level, node_id, other in ((0, OURS, KAFKAS), (1, OURS, KAFKAS), (1, KAFKAS, OURS)):
        word, feature = "upgrade" if level else "downgrade", "eligible.leader.replicas.version"
        t.tool(OURS, "FeatureCommand", word, "--feature", f"{feature}={level}")
        topic = f"{name}-{node_id}-{level}"
        t.create(topic, [node_id, other], min_insync_replicas="2")
        t.stop(node_id)
        t.wait(topic, isr=[other])
        eligible = (node_id,) if level else ()
        for asked in t.running:
            with t.asking(asked) as admin:
                (found,) = admin.describe_topic(topic).partitions
                assert found.eligible_leaders == eligible
        t.start(node_id)
        t.wait(topic, isr=[OURS, KAFKAS])


def use_tools(t: Trio, name: str) -> None:
    """Kafka's tools at our node, ours at Kafka's, each at its own too."""
    t.create(name, *BOTH_WAYS)
    for node_id in (OURS, KAFKAS):
        described = t.tool(node_id, "TopicCommand", "--describe", "--topic", name)
        assert "PartitionCount: 2" in described
        said = t.tool(node_id, "MetadataQuorumCommand", "describe", "--status")
        assert "LeaderId:" in said and " 1\n" in said
        t.tool(node_id, GROUPS, "--list")
        logs = t.tool(node_id, "LogDirsCommand", "--describe", "--topic-list", name)
        assert f"{name}-1" in logs
        config = ("--entity-type", "topics", "--entity-name", name)
        t.tool(node_id, "kafka.admin.ConfigCommand", "--describe", *config)
        for words in (("topics", "describe", name), ("quorum", "describe"), ("groups", "list")):
            t.run_ours(*words, "--bootstrap-server", f"127.0.0.1:{t.ports[node_id]}")


ITEMS: Final[dict[str, Callable[[Trio, str], None]]] = {
    "feature levels down and up": features,
    "replication without fetch sessions, in small answers": replicate,
    "KIP-392: reads from the other kind's follower": read_from_followers,
    "reassignment to the other kind and back": reassign,
    "DeleteRecords on both": delete_records,
    "transactions, coordinator of either kind": transactions,
    "compaction on both": compact,
    "tools of both sides": use_tools,
    "clean stop: leaders and groups move, preferred election": stop_cleanly,
    "ELR on and off": keep_eligible,
    "unclean election, the killed one cuts its log": elect_uncleanly,
}
