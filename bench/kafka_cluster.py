"""Nodes of Apache Kafka 4.3.1, mostly three, for figures that stand beside ours.

The jars and a JVM are those of `make interop`. The class has what the benches need of
`LocalCluster`, under the same names, so that one measurement serves both. The settings are Kafka's
own except for ports and directories, and the heap is the one that Kafka's start script gives.
"""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.interop.kafka_node import PROPERTIES, format_node, start_node

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.testing import LocalCluster
from tidelog.testing.ports import ports_from
from tidelog.testing.waiting import wait_until

HEAP: Final = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC")
START_TIMEOUT_S: Final = 120


class KafkaCluster:
    """Running nodes, brokers and controllers at once. Use it in a `with` block."""

    def __init__(self, directory: Path, brokers: int = 3, more_properties: str = "") -> None:
        self._directory = directory
        # By node.
        self._ports = dict(enumerate(ports_from(0, brokers), start=1))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        voters = ",".join(f"{n}@127.0.0.1:{ports.controller}" for n, ports in self._ports.items())
        for node_id, ports in self._ports.items():
            text = PROPERTIES.format(
                node_id=node_id,
                voters=voters,
                port=ports.broker,
                controller_port=ports.controller,
                directory=directory / f"data-{node_id}",
            )
            format_node(self._file(node_id), text + more_properties)

    def __enter__(self) -> Self:
        for node_id in self._ports:
            self.start_node(node_id)
        self.wait_until_ready(START_TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node_id in self._processes:
            self.kill(node_id)

    @property
    def bootstrap_servers(self) -> str:
        """Every node's address."""
        return ",".join(f"127.0.0.1:{ports.broker}" for ports in self._ports.values())

    @property
    def data_dirs(self) -> list[Path]:
        """Every node's log directory."""
        return [self._directory / f"data-{node_id}" for node_id in self._ports]

    def pid(self, node_id: int) -> int:
        """The process of a node."""
        return self._processes[node_id].pid

    def start_node(self, node_id: int) -> None:
        """Starts a node; it is not waited for."""
        self._processes[node_id] = start_node(
            self._file(node_id), self._directory / f"log-{node_id}", HEAP
        )

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self._processes[node_id].kill()
        self._processes[node_id].wait()

    def terminate(self, node_id: int, timeout_s: float = 60.0) -> None:
        """A clean stop."""
        self._processes[node_id].terminate()
        self._processes[node_id].wait(timeout_s)

    def admin(self, timeout_s: float = 10.0) -> AdminClient:
        """Our own client; it speaks Kafka's protocol."""
        return AdminClient(self.bootstrap_servers.split(","), timeout_s=timeout_s)

    def wait_until_ready(self, timeout_s: float) -> None:
        """Until all brokers are unfenced."""

        def ready() -> bool:
            try:
                with self.admin() as admin:
                    brokers = admin.describe_cluster().nodes
            except (Unreachable, AdminError):
                return False
            return sum(not one.fenced for one in brokers) == len(self._ports)

        wait_until(ready, timeout_s, "brokers of Apache Kafka")

    def _file(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.properties"


def pid_of(cluster: LocalCluster | KafkaCluster, node_id: int) -> int:
    """The process of a node of either system."""
    if isinstance(cluster, KafkaCluster):
        return cluster.pid(node_id)
    process = cluster.node(node_id).process
    assert process is not None, f"node {node_id} runs"
    return process.pid
