"""A cluster whose nodes are each of either kind: Apache Kafka in some version, or ours.

The scenario of two nodes is in steps, so that `versions.py` can say which of them fails with which
version. What three nodes do beside each other is in `items.py`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.interop.java_tools import SHORT_LIVED, JavaTools
from tests.interop.kafka_node import ALONE, CLUSTER_ID, PROPERTIES, format_node, start_node
from tests.interop.prepare import KAFKA_JARS
from tests.interop.records import WAIT_S, values_of
from tidelog.client import AdminClient as OurAdminClient
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until

TIDELOG = str(Path(sys.executable).with_name("tidelog"))
RECORDS = 2_000
NOT_SERVED = ("streams.version=0",)
BROKER_ONLY = "process.roles=broker\n"


class Mixed:
    """Nodes from 1 on, brokers all, each of either kind; those of `voters` are controllers too."""

    login: Mapping[str, str] = MappingProxyType({})
    """What clients need to reach the brokers, as Kafka's clients have it; nothing here."""

    def __init__(
        self,
        place: Path,
        jars: Path = KAFKA_JARS,
        *,
        nodes: int = 2,
        voters: Sequence[int] = (1,),
        more_properties: str = ALONE,
        java_options: Sequence[str] = SHORT_LIVED,
    ) -> None:
        self.place = place
        # How nodes of Kafka are started.
        self.java_options = java_options
        # Of the version of Kafka.
        self.jars = jars
        ports = dict(enumerate(ports_from(0, nodes), 1))
        # Of the brokers, by node.
        self.ports = {node_id: each.broker for node_id, each in ports.items()}
        quorum = ",".join(f"{each}@127.0.0.1:{ports[each].controller}" for each in voters)
        for node_id, (port, controller_port, _) in ports.items():
            text = PROPERTIES.format(
                node_id=node_id,
                voters=quorum,
                port=port,
                controller_port=controller_port,
                directory=self.data(node_id),
            )
            if node_id not in voters:
                text = text.replace(f",CONTROLLER://127.0.0.1:{controller_port}", "")
                text = text.replace("process.roles=broker,controller\n", BROKER_ONLY)
            self.file(node_id).write_text(text + more_properties)
        # What runs, by node.
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def servers(self) -> str:
        """Of all nodes."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def running(self) -> list[int]:
        """The nodes whose processes run."""
        return sorted(self._processes)

    def file(self, node_id: int) -> Path:
        """The properties, which both kinds read."""
        return self.place / f"node{node_id}.properties"

    def log(self, node_id: int) -> Path:
        """What the processes of a node printed."""
        return self.place / f"node{node_id}.log"

    def data(self, node_id: int) -> Path:
        """The directory that changes hands."""
        return self.place / f"data{node_id}"

    def start_kafka(self, node_id: int) -> None:
        """Apache Kafka takes the node's place."""
        self._processes[node_id] = start_node(
            self.file(node_id), self.log(node_id), self.java_options, jars=self.jars
        )

    def start_ours(self, node_id: int) -> None:
        """A node of ours takes the node's place."""
        with self.log(node_id).open("ab") as log:
            self._processes[node_id] = subprocess.Popen(
                [TIDELOG, "server", str(self.file(node_id))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ.copy(),
            )

    def run_ours(self, *words: str) -> str:
        """One of our commands that ends well; its output."""
        command = [TIDELOG, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def stop(self, node_id: int, signal_number: int = signal.SIGTERM) -> None:
        """Ends a node, and waits for it."""
        process = self._processes.pop(node_id)
        process.send_signal(signal_number)
        process.wait(WAIT_S)

    def stop_all(self) -> None:
        """Whatever runs."""
        for node_id in list(self._processes):
            self.stop(node_id, signal.SIGKILL)

    def admin(self, node_id: int) -> AdminClient:
        """A client that knows one node."""
        address = f"127.0.0.1:{self.ports[node_id]}"
        return AdminClient({"bootstrap.servers": address, "log_level": 0, **self.login})

    def wait_for_brokers(self) -> None:
        """All that run are unfenced, as each of them says."""

        def unfenced() -> bool:
            for node_id, process in self._processes.items():
                assert process.poll() is None, self.log(node_id).read_text()[-2000:]
            try:
                return all(
                    len(self.admin(node_id).list_topics(timeout=2).brokers) == len(self._processes)
                    for node_id in self._processes
                )
            except Exception:
                return False

        wait_until(unfenced, WAIT_S, "brokers of all nodes")

    def wait_for_isr(self, topic: str) -> None:
        """Every partition has both replicas in sync."""

        def full() -> bool:
            found = self.admin(2).list_topics(topic, timeout=10).topics[topic]
            return all(len(each.isrs) == 2 for each in found.partitions.values())

        wait_until(full, WAIT_S, f"a full ISR of `{topic}`")

    def produce(self, topic: str, first: int) -> None:
        """`RECORDS` with acks=all, each acknowledged, with keys that spread over all partitions.

        Without keys a partition may get none, and of an empty log our node has no file yet.
        """
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "linger.ms": 5})
        errors: list[object] = []
        for number in range(first, first + RECORDS):
            value = b"%d" % number
            producer.produce(
                topic, value, key=value, on_delivery=lambda error, _: errors.append(error)
            )
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * RECORDS

    def values(self, topic: str, partitions: int) -> list[int]:
        """All records of a topic, through the client of node 2."""
        return sorted(values_of(f"127.0.0.1:{self.ports[2]}", topic, partitions))

    def sums(self, node_id: int, topic: str) -> dict[str, str]:
        """The MD5 of each log of a topic."""
        return {
            f"{file.parent.name}/{file.name}": md5(file.read_bytes()).hexdigest()
            for file in sorted(self.data(node_id).glob(f"{topic}-*/*.log"))
        }

    # The scenario ----------------------------------------------------------------------------

    def form(self, features: tuple[str, ...] = NOT_SERVED) -> None:
        """Kafka on node 1, with the controller, and ours on node 2, which is admitted."""
        format_node(self.file(1), self.file(1).read_text(), *features, jars=self.jars)
        self.run_ours("format", str(self.file(2)), "--cluster-id", CLUSTER_ID)
        self.start_kafka(1)
        self.start_ours(2)
        self.wait_for_brokers()

    def administrate(self, topic: str) -> None:
        """At node 2 and no other, which forwards it: a topic is made, changed, and another is
        deleted."""
        with OurAdminClient([f"127.0.0.1:{self.ports[2]}"], timeout_s=WAIT_S) as admin:
            admin.create_topic(topic, partitions=2, replication_factor=2)
            admin.create_partitions(topic, 3)
            admin.alter_topic_configs(topic, {"min.insync.replicas": "2"})
            admin.create_topic(f"gone-{topic}", partitions=1, replication_factor=1)
            admin.delete_topic(f"gone-{topic}")
        self.wait_for_isr(topic)

    def administrate_through_ours(self) -> None:
        """While Kafka's controller decides."""
        self.administrate("orders")
        described = JavaTools(f"127.0.0.1:{self.ports[2]}").run("TopicCommand", "--describe")
        assert "PartitionCount: 3" in described
        assert "min.insync.replicas=2" in described
        assert "gone-orders" not in described

    def replicate(self) -> None:
        """Every replica is the same, byte for byte."""
        self.produce("orders", 0)
        assert self.values("orders", 3) == list(range(RECORDS))
        self.stop_both_and_compare()

    def exchange_disks(self) -> None:
        """Ours takes the controller's disk, Kafka the other, and both go on."""
        self.start_ours(1)
        self.start_kafka(2)
        self.wait_for_brokers()
        self.wait_for_isr("orders")
        self.produce("orders", RECORDS)

    def administrate_through_kafka(self) -> None:
        """While our controller decides."""
        self.administrate("later")
        with OurAdminClient([f"127.0.0.1:{self.ports[1]}"], timeout_s=WAIT_S) as admin:
            assert set(admin.list_topics()) >= {"orders", "later"}
            assert "gone-later" not in admin.list_topics()
            (later,) = admin.describe_topics(["later"], configs=True)
        assert later.configs["min.insync.replicas"] == "2" and len(later.partitions) == 3
        assert self.values("orders", 3) == list(range(2 * RECORDS))

    def take_over_cleanly(self, *starts: Callable[[int], None]) -> list[bool]:
        """Node 2 stops, and the next kind takes its place, while the controller goes on. Of each
        whether the controller refused it at first, because its former life had not ended."""
        refused = []
        for start in starts:
            said = len(self.log(2).read_text())
            self.stop(2)
            start(2)
            self.wait_for_brokers()
            self.wait_for_isr("orders")
            refused.append("DUPLICATE_BROKER_REGISTRATION" in self.log(2).read_text()[said:])
        return refused

    def take_over_under_kafka(self) -> None:
        """Kafka's controller admits each; not before `broker.session.timeout.ms` has passed since
        the last heartbeat of the former life, whatever its kind and its end were."""
        self.take_over_cleanly(self.start_kafka, self.start_ours)

    def take_over_under_ours(self) -> None:
        """Our controller admits each at once."""
        assert self.take_over_cleanly(self.start_ours, self.start_kafka) == [False, False]

    def take_over_from_killed(self) -> None:
        """Kafka's end is not a clean one, which our controller must see; ours takes its disk."""
        self.stop(2, signal.SIGKILL)
        self.start_ours(2)
        self.wait_for_brokers()
        self.wait_for_isr("orders")
        assert self.values("orders", 3) == list(range(2 * RECORDS))
        self.stop_both_and_compare()

    def stop_both_and_compare(self) -> None:
        """Clean stops; then the replicas' segments are equal."""
        self.stop(2)
        self.stop(1)
        assert self.sums(1, "orders") == self.sums(2, "orders") != {}
