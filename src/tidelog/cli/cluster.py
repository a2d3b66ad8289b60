"""`tidelog up`, `down`, `status`, and `tidelog nodes …`: a local cluster's life."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from tidelog.cli import terminal
from tidelog.cli.arguments import (
    DEFAULT_DATA_DIR,
    ConfigItems,
    DataDir,
    argument,
    assignments,
    command,
    command_group,
    option,
)
from tidelog.cli.terminal import TABLE, BadAnswer, Output, OutputFormat

if TYPE_CHECKING:
    from tidelog.client.groups import GroupLag
    from tidelog.testing.cluster_state import LocalNode
    from tidelog.testing.launching import Launcher
    from tidelog.testing.local_cluster import LocalCluster
    from tidelog.testing.node_processes import NodeProcesses

DEFAULT_BASE_PORT: Final = 9092
_WATCH_S: Final = 0.2

nodes_app = command_group(
    "Kill, stop, pause, resume or start single nodes of a local cluster.", "nodes kill 2"
)

NodeId = Annotated[int, argument("ID", "The node's id.")]
Timeout = Annotated[float, option("--timeout", "Kill what has not stopped by then.", "SECONDS")]


def up(
    brokers: Annotated[int | None, option("--brokers", "Number of nodes. [default: 3]")] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    base_port: Annotated[
        int | None,
        option(
            "--base-port",
            "Port of the first broker; the others follow. 0: any free ports. "
            f"[default: {DEFAULT_BASE_PORT}]",
        ),
    ] = None,
    config: ConfigItems = None,
    profile: Annotated[
        str, option("--profile", "`default`, or `test` for short timers.")
    ] = "default",
    racks: Annotated[
        str | None, option("--racks", "Racks, given to the nodes in turn.", "A,B,…")
    ] = None,
    secure: Annotated[
        bool,
        option(
            "--secure",
            "TLS, logins and an authorizer, with users and passwords of the cluster's own.",
        ),
    ] = False,
    detach: Annotated[bool, option("--detach", "Return when all nodes are ready.")] = False,
    output: Output = TABLE,
) -> None:
    """Start a local cluster, one process a node.

    An empty directory is formatted; one that holds a cluster is started again. In the foreground
    the nodes stop with Ctrl-C.
    """
    # It imports the node's code while this process imports and prepares its own.
    from tidelog.testing.launching import take_launcher

    launcher = take_launcher()
    try:
        from tidelog.testing.cluster_state import read_state
        from tidelog.testing.local_cluster import LocalCluster

        if base_port is None and read_state(data_dir) is None:
            base_port = DEFAULT_BASE_PORT
        cluster = LocalCluster(
            brokers,
            data_dir=data_dir,
            base_port=base_port,
            config={"tidelog.events.enable": "true"} | assignments(config),
            profile=profile,
            racks=racks.split(",") if racks else (),
            detached=True,
            secure=secure or None,
        )
    except BaseException:
        launcher.cancel()
        raise
    _run(cluster, launcher, output, detach=detach)


def _run(
    cluster: "LocalCluster", launcher: "Launcher", output: OutputFormat, *, detach: bool
) -> None:
    """Starts the nodes and, in the foreground, stays until Ctrl-C or until another process has
    stopped them all. An interruption at any point stops what was started."""
    ready = False
    try:
        with terminal.progress(f"starting {len(cluster.nodes)} nodes"):
            cluster.start(launcher=launcher)
        ready = True
        _report_up(cluster, output)
        if detach:
            return
        if output is TABLE:
            terminal.print_line("Ctrl-C stops the nodes.")
        while any(node.pid is not None for node in cluster.nodes):
            time.sleep(_WATCH_S)
    except KeyboardInterrupt:
        with terminal.progress("stopping"):
            cluster.stop()
        if not ready:
            raise


def _report_up(cluster: "LocalCluster", output: OutputFormat) -> None:
    nodes, security = cluster.nodes, cluster.security
    if output is OutputFormat.JSON:
        answer: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "data_dir": str(cluster.data_dir),
            "nodes": [{"node_id": n.node_id, "pid": n.pid, "port": n.port} for n in nodes],
        }
        terminal.print_json(
            answer if security is None else answer | {"security": security.describe()}
        )
        return
    terminal.print_table(
        f"Cluster in {cluster.data_dir}",
        ("node", "pid", "address", "log"),
        [(n.node_id, n.pid, n.address, n.log_file) for n in nodes],
    )
    terminal.print_line(f"bootstrap servers: {cluster.bootstrap_servers}")
    if security is not None:
        for line in security.usage(cluster.bootstrap_servers):
            terminal.print_line(line)


def down(
    data_dir: DataDir = DEFAULT_DATA_DIR, timeout_s: Timeout = 15.0, output: Output = TABLE
) -> None:
    """Stop all nodes of a local cluster cleanly; the data stays."""
    processes = _processes(data_dir)
    running = [node.node_id for node in processes.state.nodes if node.pid is not None]
    with terminal.progress("stopping"):
        killed = processes.stop(running, timeout_s)
    if output is OutputFormat.JSON:
        terminal.print_json({"stopped": [i for i in running if i not in killed], "killed": killed})
    elif not running:
        terminal.print_line("no node was running")
    else:
        terminal.print_line(f"stopped {terminal.counted(len(running), 'node')}")
        if killed:
            terminal.print_line(f"killed, because they did not stop in {timeout_s:g} s: {killed}")


def status(data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE) -> None:
    """Show a local cluster's nodes, its metadata quorum and how far groups are behind.

    Exit code 1 unless all nodes are well.
    """
    from tidelog.client import AdminClient, AdminError, Unreachable
    from tidelog.testing.security import local_security

    processes = _processes(data_dir)
    nodes = processes.state.nodes
    fenced: dict[int, bool] = {}
    quorum = None
    groups: Sequence[GroupLag] | None = None
    alive = [node.address for node in processes.alive()]
    if alive:
        try:
            security = local_security(data_dir)
            with AdminClient(alive, timeout_s=1.0, security=security) as admin:
                fenced = {node.node_id: node.fenced for node in admin.describe_cluster().nodes}
                quorum = admin.describe_quorum()
                groups = admin.groups.lags()
        except (Unreachable, AdminError):
            # Shown as unknown: a status must work when the cluster does not.
            pass
    healthy = quorum is not None and all(
        node.state.value == "running" and fenced.get(node.node_id) is False for node in nodes
    )
    rows = [_status_row(node, fenced) for node in nodes]
    if output is OutputFormat.JSON:
        terminal.print_json(
            {
                "cluster_id": processes.state.cluster_id,
                "bootstrap_servers": ",".join(node.address for node in nodes),
                "healthy": healthy,
                "quorum_leader": None if quorum is None else quorum.leader_id,
                "quorum_epoch": None if quorum is None else quorum.leader_epoch,
                "nodes": rows,
                "groups": terminal.plain(groups),
            }
        )
    else:
        leader = "unknown" if quorum is None else f"node {quorum.leader_id}"
        columns = ("node", "pid", "port", "process", "broker")
        keys = ("node_id", "pid", "port", "state", "broker")
        cells = [["-" if row[key] is None else row[key] for key in keys] for row in rows]
        terminal.print_table(f"Cluster in {data_dir}", columns, cells)
        if groups:
            lags = [(g.group_id, g.state, "?" if g.lag is None else g.lag) for g in groups]
            terminal.print_table("Groups", ("group", "state", "lag"), lags)
        terminal.print_line(f"quorum leader: {leader}; {'healthy' if healthy else 'not healthy'}")
    if not healthy:
        raise BadAnswer


def _status_row(node: "LocalNode", fenced: dict[int, bool]) -> dict[str, Any]:
    names = {None: "unknown", True: "fenced", False: "unfenced"}
    return {
        "node_id": node.node_id,
        "pid": node.pid,
        "port": node.port,
        "state": node.state.value,
        "broker": names[fenced.get(node.node_id)],
    }


@command(nodes_app, "kill", "nodes kill 2")
def kill(node_id: NodeId, data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE) -> None:
    """Kill a node at once (SIGKILL)."""
    _act(data_dir, node_id, output, lambda processes: processes.kill(node_id))


@command(nodes_app, "stop", "nodes stop 2")
def stop(
    node_id: NodeId,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    timeout_s: Timeout = 15.0,
    output: Output = TABLE,
) -> None:
    """Stop a node cleanly: it hands leadership over first."""
    _act(data_dir, node_id, output, lambda processes: processes.stop([node_id], timeout_s))


@command(nodes_app, "pause", "nodes pause 2")
def pause(node_id: NodeId, data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE) -> None:
    """Freeze a node (SIGSTOP): its connections stay open, and it does not answer."""
    _act(data_dir, node_id, output, lambda processes: processes.pause(node_id))


@command(nodes_app, "resume", "nodes resume 2")
def resume(node_id: NodeId, data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE) -> None:
    """Let a frozen node continue (SIGCONT)."""
    _act(data_dir, node_id, output, lambda processes: processes.resume(node_id))


@command(nodes_app, "start", "nodes start 2")
def start(node_id: NodeId, data_dir: DataDir = DEFAULT_DATA_DIR, output: Output = TABLE) -> None:
    """Start a stopped node again, on its port and directory."""
    _act(data_dir, node_id, output, lambda processes: processes.start([node_id]))


def _act(
    data_dir: Path, node_id: int, output: OutputFormat, action: "Callable[[NodeProcesses], object]"
) -> None:
    processes = _processes(data_dir)
    with terminal.progress(f"node {node_id}"):
        action(processes)
    node = processes.node(node_id)
    pid, state = node.pid, node.state.value
    named = "" if pid is None else f" (pid {pid})"
    value = {"node_id": node_id, "pid": pid, "port": node.port, "state": state}
    terminal.print_answer(output, value, f"node {node_id} is {state}{named}")


def _processes(data_dir: Path) -> "NodeProcesses":
    from tidelog.testing.node_processes import NodeProcesses

    return NodeProcesses(data_dir)
