"""Starts the nodes of a local cluster: imports the node's code once, forks once per node.

    echo '{"nodes": [{"properties": "...", "log_file": "...", "cluster_id": "..."}]}' \
        | python -m tidelog.runtime.launch

The parent reads the order from stdin *after* it has imported the node, so the caller can write
properties files while the imports run. Each child leaves the terminal (`setsid`), sends its output
to its log file and becomes a node; the parent waits until each has reported whether it started,
prints `{"nodes": [{"node_id", "pid", "error", "hint"}]}` and exits. The nodes live on, unless it
cannot print that because the caller has ended.

With a `cluster_id`, a node formats its data directory first if that is not formatted, and leaves
the `first_users` there, written as `--add-scram` has them. With a
`lifeline`, a file descriptor for reading that the nodes inherit, they stop when its other end is
closed: the nodes of a test end with the process of the test, however that ends.

Forking after the imports is what makes three nodes start in the time of one, and they share the
memory of the code they do not change. It is safe here: no thread runs before the fork.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from tidelog.errors import StorageError, UsageError
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.runtime.driver import EXIT_BUG
from tidelog.runtime.first_users import parse_first_users
from tidelog.runtime.formatting import format_node
from tidelog.runtime.node_file import read_node_config
from tidelog.runtime.process import require_assertions
from tidelog.runtime.server import EXIT_FAILED, EXIT_USAGE, Started, import_node, run_node

_PIPE_BYTES: Final = 1 << 16
_Users: TypeAlias = Sequence[UserScramCredentialRecord]


def _import_shared() -> None:
    """Imports everything that a node runs, so that the children share it."""
    # What is imported stays; to look for garbage meanwhile is a twentieth of the time.
    gc.disable()
    import_node()
    gc.enable()
    gc.collect()
    gc.freeze()


def launch(order: dict[str, Any]) -> list[dict[str, Any]]:
    """Starts the nodes of an order and waits until each runs or has given up. A node that could not
    start has `error` and `hint`, and its process is gone."""
    lifeline = order.get("lifeline")
    # Read once, so that all nodes have the same salts.
    users = parse_first_users(order.get("first_users", ()))
    started = [_fork(item, lifeline, users) for item in order["nodes"]]
    return [_report_of(pid, pipe) for pid, pipe in started]


def _fork(item: dict[str, Any], lifeline: int | None, users: _Users) -> tuple[int, int]:
    """Forks one node; returns its pid and the pipe on which it will report."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = EXIT_BUG
    try:
        os.close(reading)
        os.setsid()
        code = _become_node(item, lifeline, writing, users)
    except BaseException:
        traceback.print_exc()
    finally:
        # Never back into the parent's code, whatever happened.
        os._exit(code)


def _become_node(item: dict[str, Any], lifeline: int | None, pipe: int, users: _Users) -> int:
    def report(started: Started) -> None:
        os.write(pipe, json.dumps(asdict(started)).encode()[:_PIPE_BYTES])
        os.close(pipe)

    try:
        _redirect(Path(item["log_file"]))
        config = read_node_config(Path(item["properties"]))
        if item.get("cluster_id"):
            format_node(config, item["cluster_id"], ignore_formatted=True, first_users=users)
    except UsageError as error:
        report(Started(-1, error.message, error.hint))
        return EXIT_USAGE
    except StorageError as error:
        report(Started(-1, str(error), "check the disk and its permissions"))
        return EXIT_FAILED
    return run_node(config, on_started=report, lifeline=lifeline)


def _redirect(log_file: Path) -> None:
    try:
        log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(
            f"the log file `{log_file}` cannot be written: {error.strerror}",
            "make its directory writable",
        ) from None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _report_of(pid: int, pipe: int) -> dict[str, Any]:
    """What a child reported; a child that ended without a report counts as not started."""
    parts = []
    while part := os.read(pipe, _PIPE_BYTES):
        parts.append(part)
    os.close(pipe)
    text = b"".join(parts)
    nothing = {"node_id": -1, "error": "it ended while it was starting"}
    report = json.loads(text) if text else nothing
    report.setdefault("hint", "see the node's log")
    if report["error"]:
        os.waitpid(pid, 0)
    return {"pid": pid, **report}


def main() -> int:
    """Reads an order from stdin, prints the report on stdout."""
    try:
        require_assertions()
        _import_shared()
    except UsageError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return EXIT_USAGE
    order = json.load(sys.stdin)
    nodes = launch(order)
    try:
        sys.stdout.write(json.dumps({"nodes": nodes}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Who ordered them is gone and does not know them.
        for node in nodes:
            if not node["error"]:
                os.kill(node["pid"], signal.SIGTERM)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
