"""SIGINT and SIGTERM end every command: with 130, without a stack trace, a process or a file left.

Method: the real script with a directory for temporary files of its own, and the signal at a moment
that the command itself shows: its request has reached a server that never answers, or a node, a
worker or a Java of its own runs. The jobs on Spark are interrupted in `tests/pipeline`.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest
import typer
from click import Command
from typer.core import TyperGroup

from tidelog.cli.app import app
from tidelog.runtime.formatting import FirstVoters, format_node
from tidelog.runtime.node_file import read_node_config
from tidelog.testing.waiting import wait_until

pytestmark = pytest.mark.process

TIMEOUT_S = 60
INTERRUPTED = 130
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Processes of a demonstration whose launcher imports, and of one whose nodes start.
MOMENTS = {"launcher": 2, "nodes": 4}

# What each command needs that asks a cluster, beside its address.
CLIENTS = {
    "produce": "t",
    "consume": "t --follow",
    "topics create": "t",
    "topics list": "",
    "topics describe": "",
    "topics alter": "t --partitions 3",
    "topics delete": "t",
    "brokers unregister": "--id 3",
    "records delete": "--topic t --partition 0 --before-offset 5",
    "groups list": "",
    "groups describe": "g",
    "groups reset-offsets": "g --topic t --to earliest",
    "groups delete": "g",
    "transactions list": "",
    "transactions describe": "x",
    "transactions find-hanging": "--topic t",
    "transactions abort": "--topic t --partition 0 --start-offset 5",
    "acls list": "",
    "acls add": "--operation read --topic t --allow-principal User:u",
    "acls remove": "--topic t",
    "users list": "",
    "users add": "u --password-file {password}",
    "users remove": "u",
    "quotas list": "",
    "quotas add": "--quota producer_byte_rate=1000 --user u",
    "quotas remove": "--quota producer_byte_rate --user u",
    "quorum describe": "",
    "quorum add-controller": "{properties}",
    "quorum remove-controller": "--controller-id 3 --controller-directory-id {directory_id}",
    "migrate check": "",
    "migrate plan": "--to tidelog",
}
ON_SPARK = ("spark ingest", "spark health")
PROPERTIES = """
process.roles=controller
node.id=3
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:19093
controller.quorum.bootstrap.servers=127.0.0.1:19094
log.dirs={directory}
"""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and so does all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def commands(group: Command, path: str = "") -> Iterator[tuple[str, Command]]:
    """Every command with its name."""
    if isinstance(group, TyperGroup):
        for name, command in group.commands.items():
            yield from commands(command, f"{path} {name}".strip())
    else:
        yield path, group


def processes_with(temporary: Path) -> set[int]:
    """Those that have this directory for temporary files; not those that have ended. A node leads a
    session of its own, so that does not mark it."""
    mark, found = f"TMPDIR={temporary}\0".encode(), set()
    for entry in Path("/proc").iterdir():
        # Others than its own may end, or belong to another user.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found


@contextmanager
def running(directory: Path, *arguments: object) -> "Iterator[subprocess.Popen[bytes]]":
    """A command; killed at the end, with all that it started, if it still runs."""
    temporary = directory / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            for pid in processes_with(temporary):
                os.kill(pid, signal.SIGKILL)


def interrupt(
    process: "subprocess.Popen[bytes]", number: signal.Signals, directory: Path, code: int
) -> None:
    """Sends the signal, and looks at what it leaves."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, (output, errors)
    assert b"Traceback" not in errors
    # A launcher that was just being made ends with its input.
    wait_until(lambda: not processes_with(directory / "temporary"), TIMEOUT_S, "end of all")
    assert list((directory / "temporary").iterdir()) == []


def has_processes(directory: Path, count: int) -> Callable[[], bool]:
    """Whether the command has so many processes, its own included."""
    return lambda: len(processes_with(directory / "temporary")) >= count


def has_java(directory: Path) -> Callable[[], bool]:
    """Whether the command has a Java."""

    def found() -> bool:
        names = []
        for pid in processes_with(directory / "temporary"):
            with suppress(FileNotFoundError, ProcessLookupError):
                names.append((Path("/proc") / str(pid) / "comm").read_text())
        return "java\n" in names

    return found


def test_each_command_that_asks_a_cluster_is_in_the_table() -> None:
    """Goal: a new command gets its line."""
    asking = {
        name
        for name, command in commands(typer.main.get_command(app))
        if any("--bootstrap-server" in parameter.opts for parameter in command.params)
    }
    assert asking == {*CLIENTS, *ON_SPARK}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_command_whose_request_is_not_answered(name: str, tmp_path: Path) -> None:
    """Goal: by each signal in turn."""
    password, properties = tmp_path / "password", tmp_path / "server.properties"
    password.write_text("secret\n")
    password.chmod(0o600)
    properties.write_text(PROPERTIES.format(directory=tmp_path / "data"))
    format_node(
        read_node_config(properties),
        CLUSTER_ID,
        first_voters=FirstVoters(no_initial_controllers=True),
    )
    given = CLIENTS[name].format(
        password=password, properties=properties, directory_id="AAAAAAAAAAAAAAAAAAAAAQ"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        arguments = [*name.split(), *given.split(), "--bootstrap-server", address]
        with running(tmp_path, *arguments) as process:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(TIMEOUT_S)
                assert connection.recv(1), "no request"
                number = SIGNALS[list(CLIENTS).index(name) % 2]
                interrupt(process, number, tmp_path, INTERRUPTED)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("sim run --seeds 1:1000000 --jobs 2", INTERRUPTED),
        ("sim ablate --jobs 2", INTERRUPTED),
        ("sim sweep --jobs 2", INTERRUPTED),
        # It is meant to be ended by a signal.
        ("sim campaign --first 0 --jobs 2 --results {results}", 0),
    ],
)
def test_simulations_in_several_processes(
    arguments: str, code: int, number: signal.Signals, tmp_path: Path
) -> None:
    given = arguments.format(results=tmp_path / "results")
    with running(tmp_path, *given.split()) as process:
        wait_until(has_processes(tmp_path, 3), TIMEOUT_S, "two workers")
        interrupt(process, number, tmp_path, code)


@pytest.mark.parametrize(
    ("moment", "number"), [*product(["launcher", "nodes"], SIGNALS), ("java", signal.SIGTERM)]
)
def test_the_demonstration(moment: str, number: signal.Signals, tmp_path: Path) -> None:
    """Goal: its nodes, its directory and its Java are gone, however far it was."""
    condition = has_java(tmp_path) if moment == "java" else has_processes(tmp_path, MOMENTS[moment])
    with running(tmp_path, "demo", "--data-dir", tmp_path / "demo") as process:
        wait_until(condition, TIMEOUT_S, moment)
        interrupt(process, number, tmp_path, INTERRUPTED)


PROGRAM = """
import signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "tidelog.cli.app":
            exec("signal.raise_signal(signal.SIGTERM)")

sys.meta_path.insert(0, Interrupting())
from tidelog.cli.main import main
main()
"""
"""The signal comes while a text is executed, as dataclasses do it hundreds of times."""


def test_an_import_that_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, b"")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("moment", ["launcher", "nodes"])
def test_a_cluster_that_is_being_started(
    moment: str, number: signal.Signals, tmp_path: Path, data_dir: Path
) -> None:
    """Goal: nodes that were started already are stopped, though they would outlive the command."""
    arguments = ("up", "--detach", "--data-dir", data_dir, "--base-port", 0)
    with running(tmp_path, *arguments) as process:
        wait_until(has_processes(tmp_path, MOMENTS[moment]), TIMEOUT_S, moment)
        interrupt(process, number, tmp_path, INTERRUPTED)
