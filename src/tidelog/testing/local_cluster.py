"""A cluster of real node processes on this machine.

For tests, demos and the command line alike: start, kill, pause, restart on the same port and
directory, wait for a leader or an ISR. Every node is broker and controller. What the cluster is
lies in its data directory (`cluster_state`), so another process can act on it:

    with LocalCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        leader = cluster.wait_for_leader("orders", 0)
        cluster.kill(leader)
        cluster.wait_for_leader("orders", 0, exclude=[leader])

Without a data directory the cluster is ephemeral: its directory is removed when the `with` block
ends well or is interrupted. Unless the cluster is detached, its nodes end with this process,
however that ends.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.client.blocking import now_ms
from tidelog.client.core.descriptions import PartitionDescription, TopicDescription
from tidelog.client.core.errors import Retry
from tidelog.client.security_options import PLAINTEXT
from tidelog.errors import UsageError
from tidelog.testing.cluster_state import HOST, LocalNode, write_state
from tidelog.testing.launching import Launcher
from tidelog.testing.node_processes import STOP_TIMEOUT_S, NodeProcesses
from tidelog.testing.processes import ProcessState
from tidelog.testing.security import LocalSecurity
from tidelog.testing.shape import plan_cluster
from tidelog.testing.waiting import wait_until

START_TIMEOUT_S: Final = 30.0
WAIT_TIMEOUT_S: Final = 15.0
_POLL_TIMEOUT_S: Final = 2.0
_LOG_LINES: Final = 15

T = TypeVar("T")


class LocalCluster:
    """See the module's docstring."""

    def __init__(
        self,
        brokers: int | None = None,
        *,
        data_dir: str | Path | None = None,
        base_port: int | None = None,
        config: Mapping[str, str] | None = None,
        profile: str = "test",
        racks: Sequence[str] = (),
        detached: bool = False,
        secure: bool | None = None,
    ) -> None:
        """Plans a cluster, or the one that `data_dir` holds; starts nothing.

        `brokers` is three, or as many as the directory has. Without `base_port` a directory keeps
        its ports, and a new one gets free ports. `config` holds Kafka's node properties for all
        nodes, on top of the profile (`test` has short timers). `racks` are given to the nodes in
        turn. `detached` nodes outlive this process. A `secure` cluster has TLS, logins and an
        authorizer (`security`); `None` is as the directory was.

        Raises `UsageError` for a directory that holds another number of brokers or is protected
        otherwise, whose nodes run, or that holds something else, and for properties that no node
        would take.
        """
        # Whether the directory goes with the cluster.
        self._ephemeral = data_dir is None
        # The cluster's directory, absolute.
        self.data_dir = Path(data_dir or tempfile.mkdtemp(prefix="tidelog-")).resolve()
        # Both ends of the pipe whose closing stops the nodes, unless they are detached.
        self._lifeline = None if detached else os.pipe()
        try:
            state = plan_cluster(
                self.data_dir,
                brokers=brokers,
                base_port=base_port,
                config=config or {},
                profile=profile,
                racks=racks,
                secure=secure,
            )
            write_state(self.data_dir, state)
        except BaseException:
            self._discard(keep_directory=False)
            raise
        # The files of a protected cluster; `None` without.
        self.security = LocalSecurity(self.data_dir) if state.secure else None
        # What the cluster's own administrator obeys.
        self._reach = PLAINTEXT if self.security is None else self.security.client()
        # The processes; shared with the command line, which has no more than a directory.
        self.processes = NodeProcesses(
            self.data_dir, lifeline=None if self._lifeline is None else self._lifeline[0]
        )

    # Life -------------------------------------------------------------------------------------

    def __enter__(self) -> "LocalCluster":
        try:
            self.start()
        except KeyboardInterrupt:
            self._discard(keep_directory=False)
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            logs = ", ".join(str(node.log_file) for node in self.nodes)
            error.add_note(f"node logs: {logs}")
        failed = error is not None and not isinstance(error, KeyboardInterrupt)
        self.close(keep_directory=failed)

    def start(
        self, timeout_s: float = START_TIMEOUT_S, *, launcher: Launcher | None = None
    ) -> None:
        """Starts all nodes that are stopped, and waits until every node is unfenced.

        `launcher` is one that is importing already. Raises `StartFailed` when a node refuses to
        start, and `TimeoutError`; what was started is stopped again.
        """
        deadline = Retry(now_ms(), timeout_s)
        stopped = [n.node_id for n in self.nodes if n.state is ProcessState.STOPPED]
        try:
            if stopped:
                self.processes.start(stopped, launcher)
            self.wait_until_ready(deadline.left_s(now_ms()))
        except BaseException:
            self.processes.stop(stopped)
            raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stops all nodes cleanly, all at once; a node that does not end in time is killed. The
        data stays, and `start` takes it up."""
        self.processes.stop([node.node_id for node in self.nodes], timeout_s)

    def close(self, *, keep_directory: bool = False) -> None:
        """Stops the nodes and, for an ephemeral cluster, removes its directory."""
        self.stop()
        self._discard(keep_directory=keep_directory)

    # Nodes ------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[LocalNode, ...]:
        """All nodes by id, with their processes as they are now."""
        return self.processes.state.nodes

    def node(self, node_id: int) -> LocalNode:
        """One node; raises `UsageError`."""
        return self.processes.node(node_id)

    @property
    def bootstrap_servers(self) -> str:
        """Every node's address, as clients want it."""
        return ",".join(node.address for node in self.nodes)

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self.processes.kill(node_id)

    def terminate(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """A clean stop; raises `TimeoutError` when it had to be killed."""
        if self.processes.stop([node_id], timeout_s):
            raise TimeoutError(f"node {node_id} did not stop within {timeout_s:g} s")

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the kernel keeps its connections open, and the node does not answer."""
        self.processes.pause(node_id)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        self.processes.resume(node_id)

    def start_node(self, node_id: int) -> None:
        """Starts a stopped node on its port and directory; returns when its ports are open."""
        self.processes.start([node_id])

    def restart(self, node_id: int) -> None:
        """Stops a node cleanly if it runs, and starts it."""
        if self.node(node_id).state is not ProcessState.STOPPED:
            self.terminate(node_id)
        self.start_node(node_id)

    # The cluster ------------------------------------------------------------------------------

    def admin(self, timeout_s: float = 10.0) -> AdminClient:
        """A client that asks the nodes that run now; close it."""
        alive = self.processes.alive()
        if not alive:
            raise UsageError(
                f"no node of the cluster in `{self.data_dir}` runs", "start a node first"
            )
        return AdminClient(
            [node.address for node in alive], timeout_s=timeout_s, security=self._reach
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Creates a topic and waits until every partition has a leader."""
        with self.admin() as admin:
            admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                assignment=assignment,
            )
        self._wait_for_topic(
            name,
            lambda topic: all(partition.leader >= 0 for partition in topic.partitions) or None,
            WAIT_TIMEOUT_S,
            f"leader of every partition of `{name}`",
        )

    def describe_topic(self, name: str, *, replica_logs: bool = False) -> TopicDescription:
        """A topic as the cluster sees it; `replica_logs` adds every replica's own offsets."""
        with self.admin() as admin:
            return admin.describe_topic(name, replica_logs=replica_logs)

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until every node that runs sees every node of the cluster that runs unfenced.

        Raises `TimeoutError`, and `UsageError` with the end of its log when a node has died.
        """
        expected = {node.node_id for node in self.nodes if node.state is ProcessState.RUNNING}
        waiting = {node.node_id: node for node in self.nodes if node.node_id in expected}
        seen: dict[int, set[int]] = {}

        def ready() -> bool:
            for node_id in list(waiting):
                self._check_alive(waiting[node_id])
                seen[node_id] = self._unfenced_seen_by(waiting[node_id])
                if expected <= seen[node_id]:
                    del waiting[node_id]
            return not waiting

        wait_until(ready, timeout_s, "ready cluster", last_seen=lambda: f"unfenced by node: {seen}")

    def wait_for_leader(
        self,
        topic: str,
        partition: int,
        *,
        exclude: Collection[int] = (),
        timeout_s: float = WAIT_TIMEOUT_S,
    ) -> int:
        """Waits until a partition has a leader that is none of `exclude`, and returns it."""

        def leader(found: PartitionDescription) -> int | None:
            return found.leader if found.leader >= 0 and found.leader not in exclude else None

        return self._wait_for_partition(topic, partition, leader, timeout_s, "leader")

    def wait_for_isr(
        self, topic: str, partition: int, isr: Collection[int], *, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Waits until the in-sync replicas are exactly these."""
        wanted = set(isr)
        self._wait_for_partition(
            topic,
            partition,
            lambda found: set(found.isr) == wanted or None,
            timeout_s,
            f"ISR {sorted(wanted)}",
        )

    # Inside -----------------------------------------------------------------------------------

    def _discard(self, *, keep_directory: bool) -> None:
        if self._lifeline is not None:
            for end in self._lifeline:
                os.close(end)
            self._lifeline = None
        if self._ephemeral and not keep_directory:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _unfenced_seen_by(self, node: LocalNode) -> set[int]:
        with AdminClient([node.address], timeout_s=1.0, security=self._reach) as admin:
            try:
                cluster = admin.describe_cluster((HOST, node.port))
            except (Unreachable, AdminError):
                return set()
        return {found.node_id for found in cluster.nodes if not found.fenced}

    def _check_alive(self, node: LocalNode) -> None:
        if node.state is ProcessState.STOPPED:
            lines = node.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
            tail = "\n".join(lines[-_LOG_LINES:])
            raise UsageError(
                f"node `{node.node_id}` has stopped; the end of its log:\n{tail}",
                f"read `{node.log_file}`",
            )

    def _wait_for_partition(
        self,
        topic: str,
        partition: int,
        read: Callable[[PartitionDescription], T | None],
        timeout_s: float,
        what: str,
    ) -> T:
        def read_topic(found: TopicDescription) -> T | None:
            for described in found.partitions:
                if described.partition == partition:
                    return read(described)
            return None

        return self._wait_for_topic(
            topic, read_topic, timeout_s, f"{what} of `{topic}-{partition}`"
        )

    def _wait_for_topic(
        self, name: str, read: Callable[[TopicDescription], T | None], timeout_s: float, what: str
    ) -> T:
        seen: list[object] = ["nothing"]

        def poll() -> T | None:
            try:
                with self.admin(_POLL_TIMEOUT_S) as admin:
                    found = admin.describe_topic(name)
            except (Unreachable, AdminError) as error:
                # A node has just died, or does not know the topic yet.
                seen[0] = error
                return None
            seen[0] = found.partitions
            return read(found)

        return wait_until(poll, timeout_s, what, last_seen=lambda: seen[0])
