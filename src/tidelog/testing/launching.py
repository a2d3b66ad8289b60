"""Starting node processes through `runtime.launch`, which imports while we prepare."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tidelog.errors import UsageError
from tidelog.testing.cluster_state import LocalNode
from tidelog.testing.processes import ProcessId


class StartFailed(UsageError):
    """A node did not start; the other nodes of the same order may run."""


class Launcher:
    """A launcher process that has begun its imports and waits for its order."""

    def __init__(self, lifeline: int | None = None) -> None:
        """Starts it. `lifeline` is inherited by the nodes: they stop when its other end closes."""
        self._lifeline = lifeline
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.runtime.launch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=() if lifeline is None else (lifeline,),
            # Ctrl-C in a terminal is for the command, which then stops the nodes.
            start_new_session=True,
        )

    def cancel(self) -> None:
        """Ends it if it still waits for an order."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def launch(
        self, nodes: Sequence[LocalNode], cluster_id: str, first_users: Sequence[str] = ()
    ) -> tuple[dict[int, ProcessId], StartFailed | KeyboardInterrupt | None]:
        """Starts the nodes, formatting what is not formatted with these users (`--add-scram`).

        Returns the processes of those that run, and the first failure if there is one. Interrupted,
        it waits for them all the same: only the report says which nodes are to be stopped.
        """
        order = {
            "lifeline": self._lifeline,
            "first_users": list(first_users),
            "nodes": [
                {
                    "properties": str(node.properties_file),
                    "log_file": str(node.log_file),
                    "cluster_id": cluster_id,
                }
                for node in nodes
            ],
        }
        interruption = None
        try:
            text, errors = self._process.communicate(json.dumps(order))
        except KeyboardInterrupt as error:
            text, errors = self._process.communicate()
            interruption = error
        if self._process.returncode != 0 or not text:
            lines = errors.strip().splitlines() or ["it ended without a message"]
            return {}, interruption or StartFailed(
                f"the launcher failed: {lines[-1]}",
                "`python -m tidelog.runtime.launch </dev/null` shows the whole trace",
            )
        processes, failure = read_report(nodes, json.loads(text)["nodes"])
        return processes, interruption or failure


def read_report(
    nodes: Sequence[LocalNode], reports: list[dict[str, Any]]
) -> tuple[dict[int, ProcessId], StartFailed | None]:
    """The processes of those that run, and the first failure."""
    processes: dict[int, ProcessId] = {}
    failure = None
    for node, report in zip(nodes, reports, strict=True):
        process = ProcessId.of(report["pid"])
        if not report["error"] and process is not None:
            processes[node.node_id] = process
        elif failure is None:
            text = report["error"] or f"it ended at once, see `{node.log_file}`"
            failure = StartFailed(f"node `{node.node_id}`: {text}", report["hint"])
    return processes, failure


_prepared: list[Launcher] = []


def prepare_launcher() -> Launcher:
    """Starts a launcher for the next `take_launcher` of this process."""
    _prepared.append(Launcher())
    return _prepared[0]


def take_launcher() -> Launcher:
    """The prepared launcher, or a new one."""
    return _prepared.pop() if _prepared else Launcher()
