"""Nodes of Apache Kafka, 4.3.1 unless other jars are given: alone, or beside nodes of ours."""

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.interop.java_tools import SHORT_LIVED, java_command, run_tool
from tests.interop.prepare import KAFKA_JARS
from tidelog.testing.waiting import wait_until

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LOG_LINES = 30
PROPERTIES = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=BROKER://127.0.0.1:{port}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={directory}
"""
ALONE = """\
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
"""


def format_node(
    file: Path, properties: str, *features: str, jars: Path = KAFKA_JARS, more: Sequence[str] = ()
) -> None:
    """Writes a node's properties file and formats its directory; `features` as `name=level`, `more`
    as the tool takes it."""
    file.write_text(properties)
    levels = [text for each in features for text in ("--feature", each)]
    command = ["format", "-t", CLUSTER_ID, "-c", str(file), *levels, *more]
    run_tool("kafka.tools.StorageTool", *command, jars=jars)


def start_node(
    file: Path,
    log_file: Path,
    options: Sequence[str] = SHORT_LIVED,
    *,
    prefix: Sequence[str] = (),
    jars: Path = KAFKA_JARS,
) -> "subprocess.Popen[bytes]":
    """Starts a node; it is not waited for. What it prints is added to the log file. `prefix` is a
    command that replaces itself by the node."""
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [*prefix, *java_command("kafka.Kafka", str(file), options=options, jars=jars)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=file.parent,
        )


class KafkaNode:
    """A running broker. Use it in a `with` block."""

    def __init__(
        self, directory: Path, more_properties: str = ALONE, ports: tuple[int, int] | None = None
    ) -> None:
        """Starts it; of a line that comes twice the last counts. `ports` are the broker's and the
        controller's."""
        port, controller_port = ports or free_ports(2)
        # For clients.
        self.bootstrap_servers = f"127.0.0.1:{port}"
        file = directory / "kafka.properties"
        properties = PROPERTIES.format(
            node_id=1,
            voters=f"1@127.0.0.1:{controller_port}",
            port=port,
            controller_port=controller_port,
            directory=directory / "data",
        )
        format_node(file, properties + more_properties)
        # The node's output.
        self._log_file = directory / "kafka.log"
        self._process = start_node(file, self._log_file)

    def __enter__(self) -> "KafkaNode":
        try:
            wait_until(self._answers, START_TIMEOUT_S, "answer of Apache Kafka")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _answers(self) -> bool:
        lines = self._log_file.read_text(errors="replace").splitlines()[-LOG_LINES:]
        assert self._process.poll() is None, "Apache Kafka has ended:\n" + "\n".join(lines)
        host, _, port = self.bootstrap_servers.rpartition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
