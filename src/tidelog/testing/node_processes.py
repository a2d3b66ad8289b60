"""The node processes of a cluster's directory: start, kill, stop, pause, resume.

Every action reads the state file first and acts on the process that stands there, identified by
pid and start time. Nothing here knows the protocol; what is called "stopped" has exited.
"""

import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError
from tidelog.testing.cluster_state import ClusterState, LocalNode, read_state, write_state
from tidelog.testing.launching import Launcher
from tidelog.testing.processes import ProcessState
from tidelog.testing.security import LocalSecurity
from tidelog.testing.waiting import wait_until

STOP_TIMEOUT_S: Final = 15.0
_KILL_TIMEOUT_S: Final = 10.0


class NodeProcesses:
    """The nodes of the cluster in one directory."""

    def __init__(self, data_dir: Path, *, lifeline: int | None = None) -> None:
        """`lifeline` is inherited by nodes that are started here; see `launching`."""
        self.data_dir = data_dir
        self._lifeline = lifeline

    @property
    def state(self) -> ClusterState:
        """The cluster as its file has it now; raises `UsageError` when there is none."""
        state = read_state(self.data_dir)
        if state is None:
            raise UsageError(
                f"there is no cluster in `{self.data_dir}`",
                "start one with `tidelog up`, or give its directory with `--data-dir DIR`",
            )
        return state

    def node(self, node_id: int) -> LocalNode:
        """One node; raises `UsageError`."""
        return self.state.node(node_id)

    def alive(self) -> list[LocalNode]:
        """Nodes whose process runs (a paused one does not)."""
        return [node for node in self.state.nodes if node.state is ProcessState.RUNNING]

    def start(self, node_ids: Collection[int], launcher: Launcher | None = None) -> None:
        """Starts nodes that are stopped, on their ports and directories.

        Returns when each has its ports and its logs open. Raises `StartFailed`, or
        `KeyboardInterrupt` once all are known; nodes that did start go on. Raises `UsageError` for
        a node that runs already.
        """
        state = self.state
        nodes = [state.node(node_id) for node_id in node_ids]
        for node in nodes:
            if node.state is not ProcessState.STOPPED:
                if launcher is not None:
                    launcher.cancel()
                raise UsageError(
                    f"node `{node.node_id}` is {node.state.value} (pid `{node.pid}`)",
                    "stop it first, or resume it if it is paused",
                )
        launcher = launcher or Launcher(self._lifeline)
        users = LocalSecurity(self.data_dir.resolve()).first_users() if state.secure else ()
        processes, failure = launcher.launch(nodes, state.cluster_id, users)
        for node_id, process in processes.items():
            state = state.with_process(node_id, process)
        write_state(self.data_dir, state)
        if failure is not None:
            raise failure

    def kill(self, node_id: int) -> None:
        """SIGKILL, and waits until it is gone."""
        node = self._living(node_id)
        self._send(node, signal.SIGKILL)
        self._wait_gone([node], _KILL_TIMEOUT_S)

    def stop(self, node_ids: Collection[int], timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """Clean stops, all at once; nodes that do not end in time are killed and returned."""
        nodes = [self.node(node_id) for node_id in node_ids]
        for node in nodes:
            # A paused process would get the second signal only after the first.
            self._send(node, signal.SIGTERM)
            self._send(node, signal.SIGCONT)
        with suppress(TimeoutError):
            self._wait_gone(nodes, timeout_s)
        killed = [node for node in nodes if node.state is not ProcessState.STOPPED]
        for node in killed:
            self._send(node, signal.SIGKILL)
        self._wait_gone(killed, _KILL_TIMEOUT_S)
        return [node.node_id for node in killed]

    def pause(self, node_id: int) -> None:
        """SIGSTOP, and waits until it stands still."""
        self._signal(node_id, signal.SIGSTOP, ProcessState.PAUSED)

    def resume(self, node_id: int) -> None:
        """SIGCONT, and waits until it runs."""
        self._signal(node_id, signal.SIGCONT, ProcessState.RUNNING)

    def _living(self, node_id: int) -> LocalNode:
        node = self.node(node_id)
        if node.state is ProcessState.STOPPED:
            hint = f"start it with `tidelog nodes start {node_id}`"
            raise UsageError(f"node `{node_id}` is not running", hint)
        return node

    @staticmethod
    def _send(node: LocalNode, number: signal.Signals) -> None:
        if node.process is not None:
            node.process.send(number)

    def _signal(self, node_id: int, number: signal.Signals, state: ProcessState) -> None:
        node = self._living(node_id)
        self._send(node, number)
        wait_until(
            lambda: node.state in (state, ProcessState.STOPPED),
            _KILL_TIMEOUT_S,
            f"{state.value} node {node.node_id}",
            last_seen=lambda: node.state.value,
        )

    @staticmethod
    def _wait_gone(nodes: Collection[LocalNode], timeout_s: float) -> None:
        wait_until(
            lambda: all(node.state is ProcessState.STOPPED for node in nodes),
            timeout_s,
            "end of the processes",
        )
