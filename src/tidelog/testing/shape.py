"""Planning a local cluster: which nodes, on which ports, with which properties.

A data directory keeps its number of nodes for good, because the quorum's voters are static. Ports,
profile and properties may change between two lives.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.config import format_properties, parse_node_config, profile_settings, require_known
from tidelog.errors import UsageError
from tidelog.model import uuid_to_text
from tidelog.testing.cluster_state import (
    HOST,
    PROPERTIES_FILE,
    STATE_FILE,
    ClusterState,
    LocalNode,
    read_state,
)
from tidelog.testing.files import UNFINISHED, replace_file
from tidelog.testing.ports import NodePorts, ports_from
from tidelog.testing.processes import ProcessState
from tidelog.testing.security import DIRECTORY, PEERS, PROTOCOL, LocalSecurity

MAX_BROKERS: Final = 50


def plan_cluster(
    data_dir: Path,
    *,
    brokers: int | None,
    base_port: int | None,
    config: Mapping[str, str],
    profile: str,
    racks: Sequence[str],
    secure: bool | None = None,
) -> ClusterState:
    """The cluster that a directory shall hold, its properties files written.

    `brokers` `None` is as many as there were, else three; `base_port` `None` the ports there
    were, else free ones; `secure` `None` is as it was. Raises `UsageError` for another number of
    brokers or another protection than the directory has, while nodes of it run, for properties
    that no node would take, and for a directory that cannot be written.
    """
    previous = _previous(data_dir, brokers)
    if brokers is None:
        brokers = len(previous.nodes) if previous is not None else 3
    count = brokers
    if not 1 <= count <= MAX_BROKERS:
        raise UsageError(f"`{count}` brokers", f"use 1 to {MAX_BROKERS}")
    if previous is not None and base_port in (None, 0):
        ports = [NodePorts(n.port, n.controller_port, n.peer_port) for n in previous.nodes]
    else:
        ports = ports_from(base_port or 0, count)
    nodes = tuple(
        LocalNode(
            node_id=i + 1,
            port=ports[i].broker,
            controller_port=ports[i].controller,
            directory=str(data_dir.resolve() / f"node-{i + 1}"),
            rack=racks[i % len(racks)] if racks else None,
            peer_port=ports[i].peer,
        )
        for i in range(count)
    )
    cluster_id = previous.cluster_id if previous is not None else _new_cluster_id()
    secure = _protection(data_dir, previous, secure)
    state = ClusterState(cluster_id, profile, dict(config), nodes, secure)
    security = LocalSecurity(data_dir.resolve()) if secure else None
    settings = {node.node_id: node_settings(state, node, security) for node in nodes}
    # Wrong properties are refused here, before anything is written or started.
    require_known(config)
    for node in nodes:
        parse_node_config(settings[node.node_id])
    try:
        secrets: Mapping[str, str] = {}
        if security is not None:
            security.prepare([node.node_id for node in nodes])
            secrets = security.node_secrets()
        for node in nodes:
            _write_properties(node, {**settings[node.node_id], **secrets}, secret=bool(secrets))
    except OSError as error:
        raise UsageError(
            f"`{data_dir}` cannot be written: {error.strerror}",
            "free space, give it to this user, or use another directory with `--data-dir DIR`",
        ) from None
    return state


def _write_properties(node: LocalNode, settings: Mapping[str, str], *, secret: bool) -> None:
    Path(node.directory).mkdir(parents=True, exist_ok=True)
    text = format_properties(settings, "Written by tidelog for a local cluster.")
    replace_file(node.properties_file, text, secret=secret)


def node_settings(
    state: ClusterState, node: LocalNode, security: LocalSecurity | None = None
) -> dict[str, str]:
    """The properties of one node."""
    voters = ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in state.nodes)
    ports = {PROTOCOL: node.port, PEERS: node.peer_port} if security else {"PLAINTEXT": node.port}
    listeners = (ports | {"CONTROLLER": node.controller_port}).items()
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": str(node.data_dir),
    }
    if security is not None:
        settings |= security.node_settings(node.node_id, [each.node_id for each in state.nodes])
    if node.rack is not None:
        settings["broker.rack"] = node.rack
    return {**settings, **profile_settings(state.profile, len(state.nodes)), **state.config}


def _previous(data_dir: Path, brokers: int | None) -> ClusterState | None:
    state = read_state(data_dir)
    if state is None:
        if data_dir.is_dir() and not all(map(_is_unfinished_plan, data_dir.iterdir())):
            raise UsageError(
                f"`{data_dir}` is not empty and holds no cluster",
                "use an empty directory with `--data-dir DIR`",
            )
        return None
    if brokers is not None and brokers != len(state.nodes):
        raise UsageError(
            f"`{data_dir}` holds a cluster of {len(state.nodes)} brokers, not {brokers}",
            f"use `--brokers {len(state.nodes)}`, or another `--data-dir`",
        )
    for node in state.nodes:
        if node.state is not ProcessState.STOPPED:
            raise UsageError(
                f"the cluster in `{data_dir}` is running: node `{node.node_id}` has pid "
                f"`{node.pid}`",
                "`tidelog nodes start` brings back a node that is down, `tidelog down` stops "
                "all; or use another `--data-dir`",
            )
    return replace(state, nodes=tuple(sorted(state.nodes, key=lambda node: node.node_id)))


def _protection(data_dir: Path, previous: ClusterState | None, secure: bool | None) -> bool:
    """Whether the cluster is protected. A directory stays as it began, because its users come from
    formatting. Raises `UsageError`."""
    if previous is None:
        return bool(secure)
    if secure not in (None, previous.secure):
        known = "protected" if previous.secure else "not protected"
        raise UsageError(
            f"the cluster in `{data_dir}` is {known}",
            "it stays as it was made; use another directory with `--data-dir DIR`",
        )
    return previous.secure


def _is_unfinished_plan(path: Path) -> bool:
    """Whether this is what a plan leaves behind that ended half-way, on a full disk for example."""
    if path.name.startswith(f"{STATE_FILE}."):
        return True
    if path.name == DIRECTORY:
        return True
    is_node = path.name.startswith("node-") and path.is_dir()
    return is_node and all(
        inside.name == PROPERTIES_FILE or inside.suffix == UNFINISHED for inside in path.iterdir()
    )


def _new_cluster_id() -> str:
    text = uuid_to_text(uuid.uuid4().bytes)
    # A dash in front would look like an option to Kafka's own tools.
    return text if not text.startswith("-") else "A" + text[1:]
