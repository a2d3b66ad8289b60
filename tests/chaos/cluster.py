"""A local cluster whose links go through proxies and one of whose disks is small."""

import ctypes
import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.chaos.kinds import KafkaProcesses, Kind, Kinds
from tests.chaos.links import HOST, Links, Route
from tests.chaos.protection import SETTINGS, Protection
from tests.chaos.replicas import DISK, directories_of
from tidelog.client import AdminClient, AdminError, Unreachable
from tidelog.client.blocking import Brokers
from tidelog.client.core.calls import request
from tidelog.client.core.descriptions import PartitionDescription
from tidelog.client.core.values import parse_addresses
from tidelog.client.security_options import PLAINTEXT
from tidelog.config import format_properties, parse_properties
from tidelog.errors import ErrorCode
from tidelog.testing import LocalCluster
from tidelog.testing.cluster_state import write_state
from tidelog.testing.ports import ports_from
from tidelog.testing.processes import ProcessState
from tidelog.testing.security import PEERS, PROTOCOL
from tidelog.testing.waiting import wait_until
from tidelog.wire.api import ApiKey
from tidelog.wire.values import error_of

PROXY_DISTANCE: Final = 200
"""With a base port, how far a proxy's port is from the listener's."""

KAFKA_START_S: Final = 180
_ASK_S: Final = 1.0
_UNLIMITED: Final = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class ChaosCluster:
    """A running cluster, its links and its small disk. A context manager."""

    def __init__(
        self,
        brokers: int,
        data_dir: Path,
        *,
        base_port: int | None = None,
        profile: str = "test",
        config: Mapping[str, str] | None = None,
        small_disk_mb: int = 0,
        proxied: bool = True,
        kinds: Kinds = (),
        disks: int = 1,
        protected_topics: Sequence[str] = (),
    ) -> None:
        """With several `disks`, each node has as many log directories, all on the same device.
        `small_disk_mb` gives the first node a disk of that size (0: none is small); not
        `proxied` leaves the links as they are, and nothing can be done to them. Without `kinds`
        every node is one of Tidelog, for good. With `protected_topics`, clients log in, and these
        topics are what they have rights for (`protection.py`)."""
        secure = bool(protected_topics)
        self.local = LocalCluster(
            brokers,
            data_dir=data_dir,
            base_port=base_port,
            profile=profile,
            config={**(config or {}), **(SETTINGS if secure else {})},
            secure=secure,
        )
        self.protection = Protection(self.local, protected_topics) if secure else None
        # How this process reaches the nodes.
        self._reach = self.local.security.client() if self.local.security else PLAINTEXT
        self.ids = tuple(node.node_id for node in self.local.nodes)
        # How many log directories a node has.
        self.disks = disks
        if disks > 1:
            self._divide_disks()
        self.links = Links(self._plan_routes(base_port) if proxied else (), self._pids)
        self.small_disk = SmallDisk(self, self.ids[0], small_disk_mb) if small_disk_mb else None
        # What runs, or will run, on each node's directory; empty: Tidelog everywhere, for good.
        self.kinds: dict[int, Kind] = dict(zip(self.ids, kinds, strict=True)) if kinds else {}
        # Whether nodes change their kind, or only restart when they are to.
        self._is_mixed = len(set(kinds)) > 1
        self._kafka = KafkaProcesses()

    def __enter__(self) -> "ChaosCluster":
        self.links.__enter__()
        try:
            if self.small_disk is not None:
                self.small_disk.mount()
            for node_id in filter(self.is_kafka, self.ids):
                self.start_node(node_id)
            self.local.start(KAFKA_START_S if self.kinds else 60)
            if self.protection is not None:
                self.protection.admit()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops all nodes, and the proxies. The directory stays."""
        self.local.close(keep_directory=True)
        self.links.__exit__()
        if self.small_disk is not None:
            self.small_disk.unmount()

    @property
    def bootstrap_servers(self) -> str:
        """The proxies if there are any, as clients want them."""
        if not self.links.routes:
            return self.local.bootstrap_servers
        ports = self._client_ports()
        return ",".join(f"{HOST}:{ports[node_id]}" for node_id in self.ids)

    def is_kafka(self, node_id: int) -> bool:
        """Whether the node is one of Apache Kafka."""
        return self.kinds.get(node_id) is Kind.KAFKA

    def change_kind(self, node_id: int) -> None:
        """When the node starts again, it is one of the other kind; in a cluster of one kind it
        stays what it is."""
        if self._is_mixed:
            self.kinds[node_id] = self.kinds[node_id].other

    def start_node(self, node_id: int) -> None:
        """Starts a stopped node. Raises `StartFailed`. A node of Kafka is not waited for."""
        if not self.is_kafka(node_id):
            self.local.start_node(node_id)
            return
        processes = self.local.processes
        process = self._kafka.start(processes.node(node_id), processes.state.cluster_id)
        write_state(processes.data_dir, processes.state.with_process(node_id, process))

    def wait_for_listeners(self, timeout_s: float) -> bool:
        """Waits until every running node listens; whether that came."""

        def listen() -> bool:
            return all(_listens(node.port) for node in self.local.processes.alive())

        with suppress(TimeoutError):
            return wait_until(listen, timeout_s, "listening nodes")
        return False

    def is_running(self, node_id: int) -> bool:
        """Whether its process runs and is not paused."""
        return self.local.node(node_id).state is ProcessState.RUNNING

    def is_stopped(self, node_id: int) -> bool:
        """Whether its process is gone."""
        return self.local.node(node_id).state is ProcessState.STOPPED

    # Disks ------------------------------------------------------------------------------------

    def _divide_disks(self) -> None:
        for node in self.local.nodes:
            settings = parse_properties(node.properties_file.read_text(encoding="utf-8"))
            names = [str(node.data_dir / f"{DISK}{number}") for number in range(self.disks)]
            settings["log.dirs"] = ",".join(names)
            node.properties_file.write_text(format_properties(settings), encoding="utf-8")

    def move(self, node_id: int, topic: str, number: int) -> bool:
        """Asks a node to move a replica to its next disk, past all links; whether it begins."""
        node = self.local.node(node_id)
        lies_in = directories_of(node.data_dir, f"{topic}-{number}")
        if len(lies_in) != 1 or self.disks == 1:
            return False
        disk = int(lies_in[0].parent.name.removeprefix(DISK))
        path = node.data_dir / f"{DISK}{(disk + 1) % self.disks}"
        wanted = [{"path": str(path), "topics": [{"name": topic, "partitions": [number]}]}]
        (address,) = parse_addresses([node.address])
        brokers = Brokers([address], client_id="chaos", timeout_s=_ASK_S, security=self._reach)
        try:
            answer = brokers.node(address, request(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=wanted))
        except Unreachable:
            return False
        finally:
            brokers.close()
        return all(
            error_of(one.error_code) is ErrorCode.NONE
            for row in answer.results
            for one in row.partitions
        )

    # Leaders ----------------------------------------------------------------------------------

    def partition(self, topic: str, number: int) -> PartitionDescription | None:
        """The newest description of a partition that any running node has, past all links."""
        found = []
        for admin in self._askers():
            with admin:
                try:
                    described = admin.describe_topic(topic).partitions[number]
                except (Unreachable, AdminError, IndexError):
                    continue
                found.append(described)
        return max(found, key=lambda one: one.leader_epoch, default=None)

    def controller(self) -> int | None:
        """The quorum's leader as the node with the newest epoch knows it."""
        found = []
        for admin in self._askers():
            with admin:
                try:
                    quorum = admin.describe_quorum()
                except (Unreachable, AdminError):
                    continue
                found.append((quorum.leader_epoch, quorum.leader_id))
        leader = max(found, default=(-1, -1))[1]
        return leader if leader in self.ids else None

    def _askers(self) -> list[AdminClient]:
        alive = self.local.processes.alive()
        return [
            AdminClient([node.address], timeout_s=_ASK_S, security=self._reach) for node in alive
        ]

    # Proxies ----------------------------------------------------------------------------------

    def _pids(self) -> dict[int, int]:
        return {node.node_id: node.pid for node in self.local.nodes if node.pid is not None}

    def _client_ports(self) -> dict[int, int]:
        direct = {node.port for node in self.local.nodes}
        return {r.node_id: r.port for r in self.links.routes if r.target_port in direct}

    def _plan_routes(self, base_port: int | None) -> list[Route]:
        """Proxies for all listeners of each node, written into the properties of all nodes."""
        nodes, secure = self.local.nodes, self.protection is not None
        own = {port for n in nodes for port in (n.port, n.controller_port, n.peer_port)}
        proxied = ports_from(base_port + PROXY_DISTANCE if base_port else 0, len(nodes))
        while own & {port for each in proxied for port in each}:
            proxied = ports_from(0, len(nodes))
        voters = ",".join(
            f"{node.node_id}@{HOST}:{ports.controller}"
            for node, ports in zip(nodes, proxied, strict=True)
        )
        routes = []
        for node, ports in zip(nodes, proxied, strict=True):
            settings = parse_properties(node.properties_file.read_text(encoding="utf-8"))
            listeners = {PROTOCOL if secure else "PLAINTEXT": ports.broker}
            if secure:
                listeners[PEERS] = ports.peer
                routes.append(Route(node.node_id, ports.peer, node.peer_port))
            settings["advertised.listeners"] = ",".join(
                f"{name}://{HOST}:{port}" for name, port in listeners.items()
            )
            settings["controller.quorum.voters"] = voters
            node.properties_file.write_text(format_properties(settings), encoding="utf-8")
            routes.append(Route(node.node_id, ports.broker, node.port))
            routes.append(Route(node.node_id, ports.controller, node.controller_port))
        return routes


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


class SmallDisk:
    """One node's disk that can be filled.

    Where this process may mount (root), the node's data directory is a tmpfs of fixed size, in a
    mount namespace of this process, so that nothing stays mounted whatever happens. Elsewhere the
    node's files must not grow beyond what the largest has now (`RLIMIT_FSIZE`): a write past that
    fails just as well, with EFBIG.
    """

    def __init__(self, cluster: ChaosCluster, node_id: int, size_mb: int) -> None:
        self.node_id = node_id
        self._cluster = cluster
        self._size_mb = size_mb
        # Whether it is a mount; decided by `mount`.
        self.is_mounted = False

    @property
    def kind(self) -> str:
        """How the disk gets full."""
        return "tmpfs" if self.is_mounted else "file size limit"

    def mount(self) -> None:
        """Tries to mount; without the right to, the limit on files takes its place."""
        directory = self._node.data_dir
        directory.mkdir(parents=True, exist_ok=True)
        if not _own_mounts():
            return
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._size_mb}m", "chaos", str(directory)]
        done = subprocess.run(command, capture_output=True, check=False)
        self.is_mounted = done.returncode == 0

    def unmount(self) -> None:
        """Copies the files to where other processes can read them."""
        if not self.is_mounted:
            return
        directory = self._node.data_dir
        kept = directory.with_name("data-kept")
        shutil.copytree(directory, kept, ignore=shutil.ignore_patterns("ballast"))
        subprocess.run(["umount", "-l", str(directory)], capture_output=True, check=True)
        directory.rmdir()
        kept.rename(directory)
        self.is_mounted = False

    def fill(self) -> None:
        """From now on the node cannot write."""
        if not self.is_mounted:
            self._limit(self._largest_file_bytes())
            return
        with (self._node.data_dir / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while ballast.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """From now on the node can write again."""
        if self.is_mounted:
            (self._node.data_dir / "ballast").unlink(missing_ok=True)
        else:
            self._limit(None)

    @property
    def _node(self):
        return self._cluster.local.node(self.node_id)

    def _largest_file_bytes(self) -> int:
        files = self._node.data_dir.rglob("*.log")
        return max((path.stat().st_size for path in files), default=1)

    def _limit(self, size_bytes: int | None) -> None:
        pid = self._node.pid
        if pid is None:
            return
        limits = _UNLIMITED if size_bytes is None else (size_bytes, resource.RLIM_INFINITY)
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        except (OSError, ValueError):
            return


_NEW_MOUNTS: Final = 0x00020000


def _own_mounts() -> bool:
    """Gives this process mounts of its own; the nodes that it starts inherit them."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0:
        return False
    private = ["mount", "--make-rprivate", "/"]
    return subprocess.run(private, capture_output=True, check=False).returncode == 0
