"""Goals: commands find the cluster that the user means; an option that is given is used or refused.

Method of the second: walk the tree of commands that the command line itself is made of, so that a
new command is under the rule at once.
"""

import dis
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.unit.cli.command import tidelog
from tests.unit.testing.test_cluster_state import example
from tidelog.cli.app import app
from tidelog.cli.arguments import DEFAULT_DATA_DIR, assignments, find_bootstrap
from tidelog.cli.demo import app as demo_app
from tidelog.errors import UsageError
from tidelog.testing.cluster_state import ClusterState, write_state


def test_given_addresses_are_asked_and_a_directory_beside_them_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path, example(tmp_path))
    assert find_bootstrap("a:1,b:2", DEFAULT_DATA_DIR) == ["a:1", "b:2"]
    with pytest.raises(UsageError, match="each name a cluster"):
        find_bootstrap("a:1,b:2", tmp_path)


def test_running_nodes_of_the_directory_come_next(tmp_path: Path) -> None:
    state = example(tmp_path)
    write_state(tmp_path, state)
    assert find_bootstrap(None, tmp_path) == ["127.0.0.1:93"]
    stopped = ClusterState(state.cluster_id, "test", {}, state.with_process(1, None).nodes)
    write_state(tmp_path, stopped)
    with pytest.raises(UsageError, match="no node of the cluster"):
        find_bootstrap(None, tmp_path)


def test_without_a_cluster_it_is_the_usual_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_bootstrap(None, DEFAULT_DATA_DIR) == ["localhost:9092"]


def test_another_cluster_does_not_answer_for_a_named_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no cluster in"):
        find_bootstrap(None, tmp_path)


def test_assignments_are_a_mapping() -> None:
    assert assignments(None) == {}
    assert assignments(["a=1", "b=2=3"]) == {"a": "1", "b": "2=3"}
    with pytest.raises(UsageError):
        assignments(["a"])
    with pytest.raises(UsageError, match="`a` is given twice"):
        assignments(["a=1", "a=2"])


# The rule of all options ---------------------------------------------------------------------

_DELEGATES = ("demo",)
"""Hands its arguments to a command line of its own, which is walked in its place."""


def _walk(found: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, below in getattr(found, "commands", {}).items():
        yield from _walk(below, *path, name)
    if not hasattr(found, "commands") and path not in [(name,) for name in _DELEGATES]:
        yield path, found


COMMANDS = dict(_walk(typer.main.get_command(app)))
COMMANDS[_DELEGATES] = typer.main.get_command(demo_app)

_OPTIONS = [
    pytest.param(path, one, id=" ".join((*path, one.name)))
    for path, command in COMMANDS.items()
    for one in command.params
    if one.param_type_name == "option" and one.name != "help"
]


def _name(option: Any) -> str:
    return max(option.opts, key=len)


def _annotation(command: Any, option: Any) -> Any:
    """That of the function, or of what is added to every command that connects."""
    own = inspect.signature(inspect.unwrap(command.callback)).parameters
    added = command.callback.__wrapped__.__annotations__
    return own[option.name].annotation if option.name in own else added[option.name]


def test_the_walk_finds_the_commands() -> None:
    assert {("up",), ("spark", "ingest"), ("spark", "checkpoint", "show"), ("demo",)} <= set(
        COMMANDS
    )
    assert len(_OPTIONS) > 100


@pytest.mark.parametrize(("path", "option"), _OPTIONS)
def test_an_option_of_one_value_that_is_given_twice_is_refused(capsys, path, option) -> None:
    if option.multiple:
        return
    given = [_name(option)] if option.is_flag else [_name(option), "1"]
    done = tidelog(capsys, *path, *given, *given)
    assert (done.code, done.out) == (2, "")
    assert f"`{_name(option)}` is given twice" in done.err


@pytest.mark.parametrize(("path", "command"), COMMANDS.items(), ids=map(" ".join, COMMANDS))
def test_every_parameter_is_read(path, command) -> None:
    """A parameter whose value no instruction loads is ignored."""
    function = inspect.unwrap(command.callback)
    parameters = set(inspect.signature(function).parameters)
    read = {one.argval for one in dis.get_instructions(function) if one.opname.startswith("LOAD_")}
    read |= {name for names in read if isinstance(names, tuple) for name in names}
    read |= set(function.__code__.co_cellvars)
    assert parameters <= read


@pytest.mark.parametrize(
    ("path", "option"),
    [
        pytest.param(path, one, id=" ".join((*path, one.name)))
        for path, command in COMMANDS.items()
        for one in command.params
        if one.name != "help" and "Path" in str(_annotation(command, one))
    ],
)
def test_an_address_whose_scheme_is_not_served_is_refused(
    capsys, tmp_path, monkeypatch, path, option
) -> None:
    monkeypatch.chdir(tmp_path)
    address = "s3://bucket/place"
    command = COMMANDS[path]
    given: list[str] = []
    for one in command.params:
        names = [] if one.param_type_name == "argument" else [_name(one)]
        if one is option:
            given += [*names, address]
        elif one.required:
            given += [*names, "1"]
    done = tidelog(capsys, *path, *given)
    assert (done.code, done.out) == (2, "")
    assert "`s3:`, which is not served" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=" ".join(path))
        for path, command in COMMANDS.items()
        if any(one.name in ("bootstrap", "bootstrap_server") for one in command.params)
    ],
)
def test_brokers_by_a_scheme_are_refused(capsys, tmp_path, monkeypatch, path) -> None:
    monkeypatch.chdir(tmp_path)
    given: list[str] = ["--bootstrap-server", "ssl://localhost:9093"]
    for one in COMMANDS[path].params:
        if one.required:
            if one.param_type_name == "argument":
                given += ["1"]
            elif one.name not in ("bootstrap", "bootstrap_server"):
                given += [_name(one), "1"]
    done = tidelog(capsys, *path, *given)
    assert (done.code, done.out) == (2, "")
    assert "ssl://localhost:9093" in done.err


@pytest.mark.parametrize(
    ("mode", "line", "code", "said"),
    [
        (0o644, 'sasl.jaas.config=X required password="s3cret";', 2, "chmod 600"),
        (0o644, "security.protocol=PLAINTEXT", 3, "localhost:1"),
        (0o640, 'sasl.jaas.config=X required password="s3cret";', 3, "localhost:1"),
    ],
)
def test_passwords_that_everybody_may_read_are_refused(
    capsys, tmp_path, mode, line, code, said
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    file.chmod(mode)
    where = ("--bootstrap-server", "localhost:1", "--command-config", file)
    done = tidelog(capsys, "topics", "list", *where)
    assert (done.code, said in done.err, "hint: " in done.err) == (code, True, True)
    assert "s3cret" not in done.err
