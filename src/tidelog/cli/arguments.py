"""Options that several commands share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tidelog.errors import UsageError

if TYPE_CHECKING:
    from tidelog.client import AdminClient

Command = TypeVar("Command", bound=Callable[..., object])

DEFAULT_DATA_DIR: Final = Path("tidelog-data")
DEFAULT_BOOTSTRAP: Final = "localhost:9092"


def option(name: str, text: str = "", metavar: str | None = None, **bounds: Any) -> Any:
    """An option's name, its help and what stands for its value, as `Annotated` takes them."""
    return typer.Option(name, metavar=metavar, help=text or None, **bounds)


def argument(metavar: str, text: str = "", **bounds: Any) -> Any:
    """The same of an argument, which has no name."""
    return typer.Argument(metavar=metavar, help=text or None, **bounds)


def command_group(text: str, example: str = "", **more: Any) -> typer.Typer:
    """Commands under one name."""
    epilog = f"Example: tidelog {example}" if example else None
    return typer.Typer(help=text, epilog=epilog, rich_markup_mode=None, **more)


def command(group: typer.Typer, name: str, example: str) -> Callable[[Command], Command]:
    """Adds a command, with an example of a command line below its help."""
    return group.command(name, epilog=f"Example: tidelog {example}")


DataDir = Annotated[Path, option("--data-dir", "Directory of the local cluster.", "DIR")]
Bootstrap = Annotated[
    str | None,
    option(
        "--bootstrap-server",
        "Any brokers of the cluster. Default: the cluster in --data-dir, if there is one, "
        f"else {DEFAULT_BOOTSTRAP}.",
        "HOST:PORT,…",
    ),
]
ConfigItems = Annotated[
    list[str] | None, option("--config", "A property; may be given many times.", "NAME=VALUE")
]


def assignments(items: Sequence[str] | None) -> dict[str, str]:
    """The `NAME=VALUE`s of a repeated option; raises `UsageError` for a malformed one."""
    if not items:
        return {}
    from tidelog.config import parse_assignment

    return dict(map(parse_assignment, items))


def admin_client(
    bootstrap: str | None, data_dir: Path, *, timeout_s: float = 10.0
) -> "AdminClient":
    """An administrator's client of the cluster that the options name; see `find_bootstrap`."""
    from tidelog.client import AdminClient

    return AdminClient(find_bootstrap(bootstrap, data_dir), timeout_s=timeout_s)


def find_bootstrap(given: str | None, data_dir: Path) -> list[str]:
    """Addresses to ask: the given ones, the running nodes of the local cluster, or the default.

    Raises `UsageError` for a local cluster of which no node runs, and for a directory without a
    cluster that the user named: another cluster must not answer for it.
    """
    if given is not None:
        return given.split(",")
    from tidelog.testing.cluster_state import read_state
    from tidelog.testing.processes import ProcessState

    state = read_state(data_dir)
    if state is None and data_dir != DEFAULT_DATA_DIR:
        raise UsageError(
            f"there is no cluster in `{data_dir}`",
            f"start one with `tidelog up --data-dir {data_dir}`, or give `--bootstrap-server`",
        )
    if state is None:
        return [DEFAULT_BOOTSTRAP]
    running = [node.address for node in state.nodes if node.state is ProcessState.RUNNING]
    if not running:
        raise UsageError(
            f"no node of the cluster in `{data_dir}` runs",
            f"start it with `tidelog up --data-dir {data_dir}`, or give `--bootstrap-server`",
        )
    return running
