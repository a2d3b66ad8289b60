"""Options that several commands share, and the rule that all options keep.

An option that is given is used or refused. What a single command cannot see is refused here: an
option with one value that is given twice, of which the last would win, and an address of a scheme
that is not served, which would become a path.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand

from tidelog.cli.terminal import WorkFailed
from tidelog.errors import ErrorCode, UsageError
from tidelog.pipeline.places import local_path

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.blocking import Brokers
    from tidelog.client.security_options import ClientSecurity

Command = TypeVar("Command", bound=Callable[..., object])

DEFAULT_DATA_DIR: Final = Path("tidelog-data")
_BROKERS: Final = frozenset(("bootstrap", "bootstrap_server"))
"""The parameters that are addresses of brokers."""
_CONFIG_FILE: Final = "command_config"
_command_config: Final[ContextVar[Path | None]] = ContextVar(_CONFIG_FILE, default=None)
"""The file that the command which runs was given; see `security`."""
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
"""The largest numbers that a request can carry."""

T = TypeVar("T")


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


class _OnceOnly(TyperCommand):
    """A command that refuses an option of one value that is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments. Raises `UsageError`."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        single = [
            one
            for one in given
            if one.param_type_name == "option"
            and not (getattr(one, "multiple", False) or getattr(one, "count", False))
        ]
        for index, one in enumerate(single):
            if one in single[:index]:
                raise UsageError(
                    f"`{max(one.opts, key=len)}` is given twice",
                    f"give it once; `{ctx.command_path}` takes one value of it",
                )
        return super().parse_args(ctx, args)


def command(
    group: typer.Typer,
    name: str,
    example: str,
    *,
    hints: Mapping[ErrorCode, str] = MappingProxyType({}),
    timeout_s: float = 10.0,
) -> Callable[[Command], Command]:
    """Adds a command, with an example of a command line below its help.

    The function gets paths and brokers' addresses that are some. One with a parameter `admin` gets
    an administrator's client, and its command the options that name the cluster; see `hinted` for
    `hints`, which may have values of options: `{topic}`.
    """

    def add(function: Command) -> Command:
        has_admin = "admin" in signature(function).parameters

        @wraps(function)
        def checked(**given: Any) -> object:
            for name in _BROKERS & given.keys():
                _check_brokers(given[name])
            _command_config.set(_local(given.pop(_CONFIG_FILE, None)))
            values = {name: _local(value) for name, value in given.items()}
            if not has_admin:
                return function(**values)
            cluster = (values.pop("bootstrap"), values.pop("data_dir"))
            with admin_client(*cluster, timeout_s=timeout_s) as admin:
                return hinted(hints, lambda: function(admin=admin, **values), values)

        if has_admin or "bootstrap" in signature(function).parameters:
            _add_options_of_the_cluster(checked)
        group.command(name, epilog=f"Example: tidelog {example}", cls=_OnceOnly)(checked)
        return function

    return add


def _add_options_of_the_cluster(function: Callable[..., object]) -> None:
    """Gives a command `--command-config`, which `security` reads, and in place of `admin` the
    options that name its cluster."""
    seen = signature(function)
    own = [each for each in seen.parameters.values() if each.name != "admin"]
    new = [("bootstrap", Bootstrap, None), ("data_dir", DataDir, DEFAULT_DATA_DIR)]
    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (
            *(new if "admin" in seen.parameters else ()),
            (_CONFIG_FILE, _CommandConfig, None),
        )
    ]
    parameters = [*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own), *added]
    function.__signature__ = seen.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}


def _check_brokers(given: str | None) -> None:
    if given is not None:
        from tidelog.client.core.values import parse_addresses

        parse_addresses(given.split(","))


def _local(value: Any) -> Any:
    if isinstance(value, list):
        return [_local(one) for one in value]
    return local_path(value) if isinstance(value, Path) else value


_CommandConfig = Annotated[
    Path | None,
    option(
        "--command-config",
        "Properties of the connection, by the names of Kafka's clients: `security.protocol`, …",
        "FILE",
    ),
]
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
    """The `NAME=VALUE`s of a repeated option; raises `UsageError` for a malformed one
    and for a name that comes twice."""
    if not items:
        return {}
    from tidelog.config import parse_assignment

    given: dict[str, str] = {}
    for name, value in map(parse_assignment, items):
        if name in given:
            raise UsageError(f"`{name}` is given twice", "give it once: one value has one effect")
        given[name] = value
    return given


def admin_client(
    bootstrap: str | None, data_dir: Path, *, timeout_s: float = 10.0
) -> "AdminClient":
    """An administrator's client of the cluster that the options name; see `find_bootstrap`."""
    from tidelog.client import AdminClient

    return AdminClient(
        find_bootstrap(bootstrap, data_dir),
        timeout_s=timeout_s,
        security=security(bootstrap, data_dir),
    )


def brokers_of(bootstrap: str | None, data_dir: Path, client_id: str) -> "Brokers":
    """Connections to the brokers of the cluster that the options name; see `find_bootstrap`."""
    from tidelog.client.blocking import Brokers
    from tidelog.client.core.values import parse_addresses

    addresses = parse_addresses(find_bootstrap(bootstrap, data_dir))
    reach = security(bootstrap, data_dir)
    return Brokers(addresses, client_id=client_id, timeout_s=10.0, security=reach)


def security(bootstrap: str | None, data_dir: Path) -> "ClientSecurity":
    """What the connections of this command obey: its `--command-config`, else the administrator's
    properties of the local cluster, if that is the one that is asked."""
    from tidelog.client.security_options import PLAINTEXT, ClientSecurity

    path = _command_config.get()
    if path is None and bootstrap is not None:
        return PLAINTEXT
    if path is None:
        from tidelog.testing.security import local_security

        return local_security(data_dir)
    from tidelog.config import parse_properties
    from tidelog.config.secret_properties import secrets_in
    from tidelog.tls.stores import is_open_to_all

    try:
        settings = parse_properties(path.read_text(encoding="utf-8"))
        exposed = secrets_in(settings) if is_open_to_all(path) else ()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"`{path}` cannot be read: {reason}", "give a file like `security.protocol=SSL`"
        ) from None
    if exposed:
        raise UsageError(
            f"every user of the machine may read the secrets in `{path}`: {', '.join(exposed)}",
            f"run `chmod 600 {path}`",
        )
    return ClientSecurity(settings)


def hinted(
    hints: Mapping[ErrorCode, str],
    ask: Callable[[], T],
    values: Mapping[str, object] = MappingProxyType({}),
) -> T:
    """What the cluster answers; a refusal that is expected ends the command with its hint."""
    from tidelog.client import AdminError

    try:
        return ask()
    except AdminError as error:
        if error.code not in hints:
            raise
        raise WorkFailed(error.message, hints[error.code].format_map(values)) from None


def find_bootstrap(given: str | None, data_dir: Path) -> list[str]:
    """Addresses to ask: the given ones, the running nodes of the local cluster, or the default.

    Raises `UsageError` where both are named, for a local cluster of which no node runs, and for a
    directory without a cluster that the user named: another cluster must not answer for it.
    """
    if given is not None and data_dir != DEFAULT_DATA_DIR:
        raise UsageError(
            f"`--bootstrap-server` and `--data-dir {data_dir}` each name a cluster",
            "give one of the two",
        )
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
