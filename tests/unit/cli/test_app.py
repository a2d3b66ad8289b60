"""Goal: every command explains itself, and every error is one message, one hint, one code."""

import subprocess
import sys
from types import ModuleType

import pytest
import typer

from tests.unit.cli.command import tidelog
from tidelog import __version__
from tidelog.cli import app as app_module
from tidelog.cli.app import run
from tidelog.cli.terminal import NoAnswer, WorkFailed
from tidelog.client import AdminError, Unreachable
from tidelog.errors import ErrorCode, StorageError, UnwritableText, UsageError

COMMANDS = [
    "up",
    "down",
    "status",
    "nodes kill",
    "nodes stop",
    "nodes pause",
    "nodes resume",
    "nodes start",
    "server",
    "format",
    "topics create",
    "topics list",
    "topics describe",
    "topics alter",
    "topics delete",
    "quorum describe",
    "dump-log",
]
SILENT = ("server",)
"""Commands that report nothing."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    done = tidelog(capsys, *command.split(), "--help")
    assert done.code == 0
    assert f"Usage: tidelog {command}" in done.out
    assert f"Example: tidelog {command}" in done.out
    assert ("--output" in done.out) == (command not in SILENT)


@pytest.mark.parametrize("group", ["", "nodes", "topics", "quorum"])
def test_every_group_has_help_with_an_example(
    capsys: pytest.CaptureFixture[str], group: str
) -> None:
    done = tidelog(capsys, *group.split(), "--help")
    assert done.code == 0
    assert f"Example: tidelog {group}" in done.out


def test_no_arguments_show_the_help_and_the_version_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "Commands:" in tidelog(capsys).out
    assert tidelog(capsys, "--version").out == f"tidelog {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["upp"], "upp", "run `tidelog --help`"),
        (["nodes"], "Missing command", "run `tidelog nodes --help`"),
        (["nodes", "kill"], "ID", "run `tidelog nodes kill --help`"),
        (["nodes", "kill", "two"], "two", "run `tidelog nodes kill --help`"),
        (["status", "--output", "xml"], "xml", "run `tidelog status --help`"),
        (["status", "--colour"], "--colour", "run `tidelog status --help`"),
        (["topics", "create", "t", "--config", "x"], "`x` is not NAME=VALUE", "min.insync"),
        (["topics", "alter", "t"], "nothing to change of `t`", "--partitions"),
        (
            ["topics", "list", "--bootstrap-server", "here"],
            "`here` is not a `host:port` address",
            ":9092",
        ),
    ],
)
def test_wrong_use_is_code_2_with_a_hint(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    done = tidelog(capsys, *arguments)
    assert done.code == 2
    assert done.out == ""
    error, hinted = done.err.strip().splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert hinted.startswith("hint: ")
    assert hint in hinted


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("what", "do this"), 2),
        (AdminError(ErrorCode.INVALID_CONFIG, "what"), 1),
        (WorkFailed("what", "do this"), 1),
        (NoAnswer("what", "do this"), 3),
        (UnwritableText("what"), 2),
        (Unreachable("what"), 3),
        (TimeoutError("what"), 3),
        (StorageError("file", "what"), 3),
        (PermissionError(13, "not yours", "what"), 3),
        (OSError("what"), 3),
        (KeyboardInterrupt(), 130),
        (typer.Exit(5), 5),
    ],
)
def test_errors_become_codes_and_stack_traces_need_debug(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
) -> None:
    """Method: a demo that fails in the given way."""

    def fail() -> None:
        raise error

    install_demo(monkeypatch, fail)
    done = tidelog(capsys, "demo")
    assert done.code == code
    assert "Traceback" not in done.err
    if code in (1, 2, 3):
        assert "what" in done.err
        assert "hint: " in done.err
    if isinstance(error, Exception) and not isinstance(error, typer.Exit):
        with pytest.raises(type(error)):
            run(["demo", "--debug"])


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    install_demo(monkeypatch, fail)
    with pytest.raises(ZeroDivisionError):
        run(["demo"])


def install_demo(monkeypatch: pytest.MonkeyPatch, command: object) -> None:
    """Puts a demo in the place of the real one."""
    module = ModuleType("tidelog.cli.demo")
    module.app = typer.Typer()  # type: ignore[attr-defined]
    module.app.command()(command)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tidelog.cli.demo", module)


def test_the_demo_gets_its_own_arguments_and_gives_its_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def demo(input: str = "", quick: bool = False) -> None:
        seen.append((input, quick))
        raise typer.Exit(1)

    install_demo(monkeypatch, demo)
    assert tidelog(capsys, "demo", "--input", "f.csv", "--quick").code == 1
    assert seen == [("f.csv", True)]


def test_a_missing_extra_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(app_module, "import_module", missing)
    done = tidelog(capsys, "demo")
    assert done.code == 2
    assert "needs the package `pyspark`" in done.err
    assert "pip install tidelog[demo]" in done.err


def test_help_loads_no_protocol_and_no_tables() -> None:
    """Goal: `tidelog --help` is quick. Method: look at what a process has imported."""
    code = (
        "import sys\nfrom tidelog.cli.app import run\nrun(['up', '--help'])\n"
        "heavy = {'kio', 'rich.table', 'uvloop', 'tidelog.broker', 'tidelog.config'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
