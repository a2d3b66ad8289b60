"""One node of Apache Kafka 4.3.1, for what Tidelog does not have yet: transactions."""

import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.interop.java_tools import java_command, run_tool
from tidelog.testing.waiting import wait_until

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LOG_LINES = 30
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=BROKER://127.0.0.1:{port}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={directory}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
"""


class KafkaNode:
    """A running broker. Use it in a `with` block."""

    def __init__(self, directory: Path) -> None:
        port, controller_port = _free_ports(2)
        # For clients.
        self.bootstrap_servers = f"127.0.0.1:{port}"
        properties = directory / "kafka.properties"
        properties.write_text(
            PROPERTIES.format(
                port=port, controller_port=controller_port, directory=directory / "data"
            )
        )
        run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        # The node's output.
        self._log_file = directory / "kafka.log"
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                java_command("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
            )

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


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
