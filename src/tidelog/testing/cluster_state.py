"""`cluster.json`: what a local cluster is and which processes it has.

It lies in the cluster's data directory, so that `tidelog nodes kill 2` in one shell acts on what
`tidelog up` started in another. It is read before every action and replaced as a whole, never
edited.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tidelog.errors import UsageError
from tidelog.testing.files import replace_file
from tidelog.testing.processes import ProcessId, ProcessState

STATE_FILE: Final = "cluster.json"
PROPERTIES_FILE: Final = "server.properties"
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node of a local cluster."""

    node_id: int
    port: int
    controller_port: int
    directory: str
    """Absolute; holds the properties, the log file and the data directory."""
    rack: str | None = None
    process: ProcessId | None = None
    """The process that was started last; it may have ended."""
    peer_port: int = 0
    """Where the brokers of a protected cluster call it, by mutual TLS; 0 in a file of before."""

    @property
    def properties_file(self) -> Path:
        """Kafka's `server.properties`."""
        return Path(self.directory) / PROPERTIES_FILE

    @property
    def data_dir(self) -> Path:
        """The node's log directory."""
        return Path(self.directory) / "data"

    @property
    def log_file(self) -> Path:
        """What the process wrote, over all its lives."""
        return Path(self.directory) / "server.log"

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process while it lives."""
        alive = self.process is not None and self.state is not ProcessState.STOPPED
        return self.process.pid if alive and self.process is not None else None

    @property
    def state(self) -> ProcessState:
        """What the process does now."""
        return ProcessState.STOPPED if self.process is None else self.process.state


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A local cluster: its shape, its settings, its nodes."""

    cluster_id: str
    profile: str
    config: Mapping[str, str]
    """Properties of every node, on top of the profile's."""
    nodes: tuple[LocalNode, ...]
    secure: bool = False
    """Whether its listeners are protected (`security.py`)."""

    def node(self, node_id: int) -> LocalNode:
        """The node with this id; raises `UsageError`."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        ids = ", ".join(str(node.node_id) for node in self.nodes)
        raise UsageError(f"unknown node `{node_id}`", f"use one of {ids}")

    def with_process(self, node_id: int, process: ProcessId | None) -> "ClusterState":
        """The same with another process for a node."""
        nodes = tuple(
            replace(node, process=process) if node.node_id == node_id else node
            for node in self.nodes
        )
        return replace(self, nodes=nodes)


def read_state(data_dir: Path) -> ClusterState | None:
    """The state in a directory; `None` when there is none. Raises `UsageError` for a damaged
    file."""
    path = data_dir / STATE_FILE
    try:
        return _decode(json.loads(path.read_text(encoding="utf-8")), data_dir)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UsageError(
            f"`{data_dir}` cannot be used: it is not a directory",
            "name another one with `--data-dir DIR`",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"`{path}` cannot be read: {error}",
            "stop the nodes by hand and remove the file, or use another data directory",
        ) from None


def write_state(data_dir: Path, state: ClusterState) -> None:
    """Replaces the state file."""
    path = data_dir / STATE_FILE
    encoded = {
        "version": 1,
        "cluster_id": state.cluster_id,
        "profile": state.profile,
        "config": dict(state.config),
        "secure": state.secure,
        # Directories are relative, so that they may be moved while the cluster is down.
        "nodes": [asdict(node) | {"directory": Path(node.directory).name} for node in state.nodes],
    }
    replace_file(path, json.dumps(encoded, indent=2) + "\n")


def _decode(encoded: Any, data_dir: Path) -> ClusterState:
    nodes = tuple(
        LocalNode(
            node_id=int(node["node_id"]),
            port=int(node["port"]),
            controller_port=int(node["controller_port"]),
            directory=str(data_dir.resolve() / node["directory"]),
            rack=node["rack"],
            process=None if node["process"] is None else ProcessId(**node["process"]),
            peer_port=int(node.get("peer_port", 0)),
        )
        for node in encoded["nodes"]
    )
    return ClusterState(
        encoded["cluster_id"],
        encoded["profile"],
        encoded["config"],
        nodes,
        encoded.get("secure", False),
    )
