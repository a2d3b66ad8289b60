"""The page "From Kafka to Tidelog and back", followed word by word but for the ports.

Three nodes of Kafka run; each block of the page that is marked as `sh` is a shell's input. While
nodes change, a producer goes on, and every record that was acknowledged must be there in the end.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.java_tools import java_command
from tests.interop.kafka_node import PROPERTIES, format_node, free_ports
from tests.interop.records import WAIT_S, values_of
from tidelog.testing.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "from-kafka.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FEATURES = ("streams.version=1",)
TOOLS = {
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
}
STEP_S = 600
INTERNAL = """\
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


class Place:
    """A directory with what the page starts from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ports = free_ports(6)
        # The page's ports, and those of this test: brokers, then controllers.
        self.ports = dict(zip((9092, 9094, 9096), ports[:3], strict=True))
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports[3:], 1))
        for node, (port, controller_port) in enumerate(zip(ports[:3], ports[3:], strict=True), 1):
            text = PROPERTIES.format(
                node_id=node,
                voters=voters,
                port=port,
                controller_port=controller_port,
                directory=root / f"data-{node}",
            )
            format_node(root / f"node-{node}.properties", text + INTERNAL, *FEATURES)
        tools = root / "bin"
        tools.mkdir()
        for name, java in TOOLS.items():
            command = " ".join(f"'{word}'" for word in java_command(java))
            (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (tools / name).chmod(0o755)
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path}

    @property
    def servers(self) -> str:
        """Of all nodes."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def shell(self, text: str) -> str:
        """Runs a block that ends well; its output."""
        code, said = self.run(text)
        assert code == 0, f"{text}\n{said}"
        return said

    def run(self, text: str) -> tuple[int, str]:
        """Runs a block: exit code and output."""
        for on_page, port in self.ports.items():
            text = text.replace(f"localhost:{on_page}", f"127.0.0.1:{port}")
        output = self.root / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=STEP_S,
                check=False,
            )
        return done.returncode, output.read_text(errors="replace")

    def start_kafka(self) -> None:
        """All nodes, and waits until they are brokers."""
        start = (
            "kafka-server-start.sh node-$n.properties >> node-$n.log 2>&1 & echo $! > node-$n.pid"
        )
        self.shell(f"for n in 1 2 3; do {start}; done")
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

        def all_there() -> bool:
            try:
                return len(admin.list_topics(timeout=2).brokers) == 3
            except Exception:
                return False

        wait_until(all_there, WAIT_S, "three brokers of Kafka")
        admin.create_topics([NewTopic("orders", 2, 3)])["orders"].result(WAIT_S)

    def stop(self) -> None:
        """Whatever runs."""
        for file in self.root.glob("node-*.pid"):
            try:
                os.kill(int(file.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                continue


class Writer(threading.Thread):
    """A producer with the client's default settings, until `stop`."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self._over = threading.Event()
        # What was acknowledged, and how many were not.
        self.written: list[int] = []
        self.failed = 0

    def run(self) -> None:
        number = 0
        while not self._over.wait(0.01):
            self._producer.produce(
                "orders", b"%d" % number, on_delivery=lambda e, m, n=number: self._on_end(e, n)
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(WAIT_S)

    def _on_end(self, error: object, number: int) -> None:
        if error is None:
            self.written.append(number)
        else:
            self.failed += 1

    def stop(self) -> None:
        self._over.set()
        self.join(WAIT_S + 10)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.stop()


def test_the_page_is_followed_while_a_producer_goes_on(place: Place) -> None:
    check, downgrade, plan, forth, back = BLOCK.findall(PAGE.read_text())
    place.start_kafka()
    writer = Writer(place.servers)
    writer.start()
    # The feature that the page names is on, as in a cluster of Kafka's defaults.
    code, said = place.run(check)
    assert code == 1
    assert "`streams.version` is 1" in said
    place.shell(downgrade)
    wait_until(lambda: place.run(check)[0] == 0, WAIT_S, "a cluster that fits")
    assert "the active controller last" in place.shell(plan)
    place.shell(forth)
    place.shell(back)
    writer.stop()
    assert writer.failed == 0
    # A producer that is not idempotent may send a record twice.
    assert set(values_of(place.servers, "orders", 2)) == set(writer.written) != set()
