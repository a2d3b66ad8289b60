"""What protection costs, on Tidelog and on Apache Kafka 4.3.1 in the same run.

    make bench-security
    python -m bench.security --figures throughput handshakes --json build/security.json

One node of each with the same settings, both up all the time and asked in turn, so that what else
the machine does meets both. The first round only warms up. What is measured:

- `throughput`: records of 1 KiB written (acks=all) and read with librdkafka, plaintext and TLS;
- `handshakes`: full TLS handshakes without a client's certificate, four at a time;
- `logins`: connections that log in by SCRAM-SHA-256 and SCRAM-SHA-512, four at a time;
- `rights`: Metadata requests for one topic by a user who has its right by an entry, on four
  connections with twenty requests under way each, with that entry alone and with 9,999 others;
- `quotas`: what a writer and a reader get that want more than their quotas, in the first ten
  seconds and in ten seconds after twenty others.

Clients are one process, which shares the cores with the nodes. So rates are given twice: for a
second, and for a second of the node's processor time.
"""

import argparse
import json
import os
import platform
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.kafka_cluster import HEAP, START_TIMEOUT_S
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.interop.kafka_node import ALONE, format_node, start_node

from tidelog.client import AdminClient, AdminError, ClientSecurity, Unreachable
from tidelog.client.acls import Acl, AclQuery
from tidelog.config.values import STANDARD_AUTHORIZER
from tidelog.model import Mechanism, Secret
from tidelog.security.jaas import SCRAM_MODULE
from tidelog.testing import LocalCluster
from tidelog.testing.certificates import Authority
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until
from tidelog.wire import codec
from tidelog.wire.acl_values import Operation
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make

HOST: Final = "127.0.0.1"
PLAIN: Final = "CLIENTS"
TLS: Final = "TLS"
LOGIN: Final = "LOGIN"
PROTOCOLS: Final = {
    PLAIN: "PLAINTEXT",
    TLS: "SSL",
    LOGIN: "SASL_PLAINTEXT",
    "PEERS": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
USER: Final = "ada"
PASSWORD: Final = Secret("s3cret")
MECHANISMS: Final = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
RECORD: Final = os.urandom(1024)
MB: Final = 1_000_000
THREADS: Final = 4
UNDER_WAY: Final = 20
OTHER_ENTRIES: Final = 9_999
BATCH: Final = 500
QUOTA: Final = 4 * MB
EARLY_S: Final = 10
LATE_S: Final = 20
PATIENCE_S: Final = 60
HERTZ: Final = os.sysconf("SC_CLK_TCK")


class Node(NamedTuple):
    """A running node of one of the two."""

    system: str
    pid: int
    ports: Mapping[str, int]
    ca: Path

    def address(self, listener: str) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.ports[listener]}"

    def admin(self) -> AdminClient:
        """Clients that come by plaintext may do everything."""
        return AdminClient([self.address(PLAIN)], timeout_s=PATIENCE_S)

    def client(self, listener: str) -> dict[str, object]:
        """The properties of librdkafka."""
        more = {"ssl.ca.location": str(self.ca)} if listener == TLS else {}
        servers = {"bootstrap.servers": self.address(listener), "log_level": 0}
        return {**servers, "security.protocol": PROTOCOLS[listener], **more}

    def cpu_s(self) -> float:
        """Processor time of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / HERTZ


@dataclass(frozen=True, slots=True)
class Sample:
    """So much was done in this time."""

    amount: float
    wall_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """In a second."""
        return self.amount / self.wall_s

    @property
    def per_cpu_s(self) -> float:
        """In a second of the node's processor time."""
        return self.amount / max(self.cpu_s, 1 / HERTZ)


def clocked(node: Node, work: Callable[[], float]) -> Sample:
    """Does something that returns how much it was."""
    cpu_s, began = node.cpu_s(), time.monotonic()
    amount = work()
    return Sample(amount, time.monotonic() - began, node.cpu_s() - cpu_s)


Figures = dict[str, dict[str, list[Sample]]]
"""By figure and system."""


class Taken:
    """The samples of all rounds but the first."""

    def __init__(self) -> None:
        self.figures: Figures = {}

    def add(self, number: int, figure: str, node: Node, sample: Sample) -> None:
        """One more, of the round with this number."""
        print(f"{number} {node.system} {figure}: {sample.rate:.1f}/s", flush=True)
        if number:
            self.figures.setdefault(figure, {}).setdefault(node.system, []).append(sample)


# Nodes ----------------------------------------------------------------------------------------


@contextmanager
def both(place: Path) -> Iterator[list[Node]]:
    """A node of each, with a topic's and the users' entries."""
    authority = Authority.create()
    store, ca = place / "node.pem", place / "ca.pem"
    store.write_text(authority.issue("node", (HOST, "localhost")))
    store.chmod(0o600)
    ca.write_text(authority.pem)
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(start(place, store, ca)) for start in (running_kafka, running_ours)
        ]
        for node in nodes:
            wait_until(lambda node=node: _answers(node), START_TIMEOUT_S, node.system)
            with node.admin() as admin:
                for mechanism in MECHANISMS:
                    admin.users.add(USER, mechanism, PASSWORD)
                admin.create_topic("asked", partitions=1, replication_factor=1)
                admin.acls.add([_entry("asked", USER, "DESCRIBE")])
        yield nodes


def _answers(node: Node) -> bool:
    try:
        with node.admin() as admin:
            return len(admin.describe_cluster().nodes) == 1
    except (Unreachable, AdminError):
        return False


def _entry(topic: str, user: str, operation: str) -> Acl:
    return Acl("TOPIC", topic, "LITERAL", f"User:{user}", "*", operation, "ALLOW")


def _ports() -> dict[str, int]:
    one, other = ports_from(0, 2)
    return dict(zip(PROTOCOLS, (*one, *other), strict=False))


def _settings(ports: Mapping[str, int], store: Path) -> dict[str, str]:
    """The same for both."""
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    advertised = [text for name, text in listeners.items() if name != "CONTROLLER"]
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    return {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
        "inter.broker.listener.name": "PEERS",
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "sasl.enabled.mechanisms": ",".join(map(str, MECHANISMS)),
        "super.users": "User:ANONYMOUS",
        **stores,
        **dict(line.split("=") for line in ALONE.splitlines()),
    }


@contextmanager
def running_kafka(place: Path, store: Path, ca: Path) -> Iterator[Node]:
    """Apache Kafka."""
    ports, file = _ports(), place / "kafka.properties"
    more = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(place / "kafka-data"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    lines = {**_settings(ports, store), **more}
    format_node(file, "".join(f"{name}={value}\n" for name, value in lines.items()))
    process = start_node(file, place / "kafka.log", HEAP)
    try:
        yield Node("kafka", process.pid, ports, ca)
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_ours(place: Path, store: Path, ca: Path) -> Iterator[Node]:
    """Tidelog."""
    ports = _ports()
    config = {**_settings(ports, store), "authorizer.class.name": STANDARD_AUTHORIZER}
    with LocalCluster(
        1, base_port=ports[PLAIN], config=config, profile="default", data_dir=place / "tidelog"
    ) as cluster:
        pid = cluster.nodes[0].pid
        assert pid is not None, "a node that does not run"
        yield Node("tidelog", pid, ports, ca)


# Throughput -----------------------------------------------------------------------------------


def throughput(nodes: Sequence[Node], rounds: int, taken: Taken, records: int) -> None:
    """See the module's docstring; the amounts are MB."""
    for number in range(rounds + 1):
        for listener in (PLAIN, TLS):
            for node in nodes:
                topic = f"records-{listener}-{number}"
                with node.admin() as admin:
                    admin.create_topic(topic, partitions=1, replication_factor=1)
                for what, work in (("produce", write), ("fetch", read)):
                    sample = clocked(node, partial(work, node, listener, topic, records))
                    taken.add(number, f"{what}, {PROTOCOLS[listener]}, MB", node, sample)
                with node.admin() as admin:
                    admin.delete_topic(topic)


def write(node: Node, listener: str, topic: str, records: int) -> float:
    """Writes records; how many MB."""
    failed = []
    more = {"linger.ms": 5, "queue.buffering.max.messages": 20_000}
    producer = Producer({**node.client(listener), **more})
    for number in range(records):
        while True:
            try:
                producer.produce(
                    topic, RECORD, partition=0, on_delivery=lambda e, _: e and failed.append(e)
                )
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0 and not failed, failed[:1]
    return records * len(RECORD) / MB


def read(node: Node, listener: str, topic: str, records: int) -> float:
    """Reads them; how many MB."""
    consumer = Consumer({**node.client(listener), "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    count, deadline = 0, time.monotonic() + PATIENCE_S
    while count < records:
        assert time.monotonic() < deadline, f"{count} of {records} records"
        count += len(consumer.consume(10_000, 1))
    consumer.close()
    return records * len(RECORD) / MB


# Handshakes and logins ------------------------------------------------------------------------


def together(step: Callable[[], int], span_s: float) -> float:
    """Threads repeat a step for so long; the sum of what it returns."""
    ends_at, done = time.monotonic() + span_s, [0] * THREADS

    def repeat(place: int) -> None:
        while time.monotonic() < ends_at:
            done[place] += step()

    threads = [threading.Thread(target=repeat, args=(place,)) for place in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(done)


def connected(node: Node, listener: str) -> socket.socket:
    """A connection without anything on it."""
    sock = socket.create_connection((HOST, node.ports[listener]), PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def handshakes(nodes: Sequence[Node], rounds: int, taken: Taken, span_s: float) -> None:
    """See the module's docstring."""
    context = ssl.create_default_context(cafile=str(nodes[0].ca))

    def shake(node: Node) -> int:
        context.wrap_socket(connected(node, TLS), server_hostname=HOST).close()
        return 1

    for number in range(rounds + 1):
        for node in nodes:
            sample = clocked(node, lambda node=node: together(lambda: shake(node), span_s))
            taken.add(number, "TLS handshakes", node, sample)


def security_of(mechanism: Mechanism) -> ClientSecurity:
    """The user's."""
    jaas = f'{SCRAM_MODULE} required username="{USER}" password="{PASSWORD.reveal()}";'
    names = {"sasl.mechanism": str(mechanism), "sasl.jaas.config": jaas}
    return ClientSecurity({"security.protocol": "SASL_PLAINTEXT", **names})


def logged_in(node: Node, security: ClientSecurity) -> socket.socket:
    """A connection of the user."""
    sock, login = connected(node, LOGIN), security.login("bench")
    assert login is not None, "a login is what is wanted"
    request: bytes | None = login.start()
    while request is not None:
        sock.sendall(request)
        size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
        request = login.on_frame(sock.recv(size, socket.MSG_WAITALL))
    return sock


def logins(nodes: Sequence[Node], rounds: int, taken: Taken, span_s: float) -> None:
    """See the module's docstring."""

    def log_in(node: Node, security: ClientSecurity) -> int:
        logged_in(node, security).close()
        return 1

    for mechanism in MECHANISMS:
        # It keeps the salted password, for which a client computes for milliseconds.
        security = {node.system: security_of(mechanism) for node in nodes}
        for number in range(rounds + 1):
            for node in nodes:
                own = security[node.system]
                sample = clocked(
                    node, lambda node=node, own=own: together(lambda: log_in(node, own), span_s)
                )
                taken.add(number, f"logins, {mechanism}", node, sample)


# Rights ---------------------------------------------------------------------------------------


def rights(nodes: Sequence[Node], rounds: int, taken: Taken, span_s: float) -> None:
    """See the module's docstring."""
    others = [_entry(f"topic-{n}", f"user-{n}", "READ") for n in range(OTHER_ENTRIES)]
    for number in range(rounds + 1):
        for count in (1, 1 + OTHER_ENTRIES):
            for node in nodes:
                with node.admin() as admin:
                    if count > 1:
                        for first in range(0, len(others), BATCH):
                            admin.acls.add(others[first : first + BATCH])
                    else:
                        admin.acls.remove(AclQuery(operation=Operation.READ))
                    listed = partial(admin.acls.list, AclQuery())
                    wait_until(lambda c=count, f=listed: len(f()) == c, PATIENCE_S, "entries")
                sample = clocked(node, lambda node=node: ask(node, span_s))
                name = f"requests, {count:,} entr{'ies' if count > 1 else 'y'}"
                taken.add(number, name, node, sample)


def ask(node: Node, span_s: float) -> float:
    """Asks for as long; how many answers came."""
    values = {"topics": [{"topic_id": None, "name": "asked"}], "allow_auto_topic_creation": False}
    values["include_topic_authorized_operations"] = False
    one = codec.encode_request(make(codec.request_class(ApiKey.METADATA, 12), **values), 7, "bench")
    security, idle = security_of(MECHANISMS[0]), []
    for _ in range(THREADS):
        idle.append(sock := logged_in(node, security))
        sock.sendall(one)
        size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
        code = (
            codec.decode_response(ApiKey.METADATA, 12, sock.recv(size, socket.MSG_WAITALL))[1]
            .topics[0]
            .error_code
        )
        assert int(code) == 0, f"the user gets {code}"

    def step() -> int:
        sock = idle.pop()
        sock.sendall(one * UNDER_WAY)
        left = (size + 4) * UNDER_WAY
        while left:
            left -= len(sock.recv(left))
        idle.append(sock)
        return UNDER_WAY

    done = together(step, span_s)
    for sock in idle:
        sock.close()
    return done


# Quotas ---------------------------------------------------------------------------------------


def quotas(nodes: Sequence[Node], taken: Taken) -> None:
    """See the module's docstring; the amounts are parts of the quota."""
    threads = []
    for node in nodes:
        with node.admin() as admin:
            for topic in ("read", "written"):
                admin.create_topic(topic, partitions=1, replication_factor=1)
            admin.quotas.alter({"client-id": "reader"}, {"consumer_byte_rate": QUOTA})
            admin.quotas.alter({"client-id": "writer"}, {"producer_byte_rate": QUOTA})
        write(node, PLAIN, "read", (EARLY_S * 2 + LATE_S + EARLY_S) * QUOTA // len(RECORD))
        threads += [
            threading.Thread(target=limited, args=(node, kind, taken))
            for kind in (_Writer, _Reader)
        ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def limited(node: Node, kind: "type[_Writer | _Reader]", taken: Taken) -> None:
    """One client that wants more than it may."""
    client, began = kind(node), time.monotonic()
    done: list[tuple[float, int]] = []
    while (passed := time.monotonic() - began) < LATE_S + EARLY_S:
        done.append((passed, client.work()))
    for begins_s in (0, LATE_S):
        ends_s = begins_s + EARLY_S
        records = sum(count for at, count in done if begins_s <= at < ends_s)
        part = records * len(RECORD) / QUOTA
        name = f"{kind.what}, part of the quota, from {begins_s} s on"
        taken.add(1, name, node, Sample(part, EARLY_S, EARLY_S))


class _Writer:
    what: Final = "writer"

    def __init__(self, node: Node) -> None:
        more = {"client.id": "writer", "batch.size": 64_000, "linger.ms": 5}
        more |= {"queue.buffering.max.messages": 2000, "acks": "all"}
        self._producer = Producer({**node.client(PLAIN), **more})
        self._acked = 0

    def _on_delivery(self, error: object, _: object) -> None:
        self._acked += error is None

    def work(self) -> int:
        """Fills the queue; how many records were acknowledged meanwhile."""
        before = self._acked
        for _ in range(100):
            try:
                self._producer.produce(
                    "written", RECORD, partition=0, on_delivery=self._on_delivery
                )
            except BufferError:
                break
        self._producer.poll(0.01)
        return self._acked - before


class _Reader:
    what: Final = "reader"

    def __init__(self, node: Node) -> None:
        more = {"client.id": "reader", "group.id": "reader", "max.partition.fetch.bytes": 128_000}
        self._consumer = Consumer({**node.client(PLAIN), **more})
        self._consumer.assign([TopicPartition("read", 0, 0)])

    def work(self) -> int:
        """How many records came."""
        return sum(each.error() is None for each in self._consumer.consume(1000, 0.01))


# The report -----------------------------------------------------------------------------------


def rows(figures: Figures) -> list[dict[str, object]]:
    """The medians of each figure, and how they compare."""
    found: list[dict[str, object]] = []
    for figure, systems in figures.items():
        row: dict[str, object] = {"figure": figure}
        for system, samples in systems.items():
            row[system] = round(statistics.median(each.rate for each in samples), 3)
            each_cpu = statistics.median(each.per_cpu_s for each in samples)
            row[f"{system}, CPU"] = round(each_cpu, 3)
            row[f"{system}, all"] = [round(each.rate, 2) for each in samples]
        if {"kafka", "tidelog"} <= set(systems):
            pairs = zip(systems["tidelog"], systems["kafka"], strict=True)
            ratio = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
            row["of Kafka's"] = round(ratio, 2)
        found.append(row)
    return found


def main() -> None:
    known = ("throughput", "handshakes", "logins", "rights", "quotas")
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--figures", nargs="+", choices=known, default=list(known))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=4, help="of one sample")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    taken, rounds, span_s = Taken(), options.rounds, options.seconds
    measures: dict[str, Callable[[Sequence[Node]], None]] = {
        "throughput": lambda nodes: throughput(nodes, rounds, taken, options.records),
        "handshakes": lambda nodes: handshakes(nodes, rounds, taken, span_s),
        "logins": lambda nodes: logins(nodes, rounds, taken, span_s),
        "rights": lambda nodes: rights(nodes, rounds, taken, span_s),
        "quotas": lambda nodes: quotas(nodes, taken),
    }
    with (
        tempfile.TemporaryDirectory(prefix="bench-security-") as directory,
        both(Path(directory)) as nodes,
    ):
        for name in options.figures:
            measures[name](nodes)
    report(rows(taken.figures), options.json)


def report(table: list[dict[str, object]], file: Path | None) -> None:
    """Prints the table, and writes it down."""
    columns = ("kafka", "tidelog", "of Kafka's", "kafka, CPU", "tidelog, CPU")
    print(f"{'figure':<44}" + "".join(f"{column:>14}" for column in columns))
    for row in table:
        print(f"{row['figure']:<44}" + "".join(f"{row.get(name, ''):>14}" for name in columns))
    if file is not None:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        )
        machine = f"{os.cpu_count()} cores, {platform.machine()}, heap {HEAP[0]}"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = {"rows": table, "machine": machine, "at": at, "commit": head.stdout.strip()}
        file.write_text(json.dumps({**said, "load": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
