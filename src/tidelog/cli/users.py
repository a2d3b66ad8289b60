"""`tidelog users …`: see, add and remove users of SCRAM of any Kafka cluster.

A password is typed at a prompt, or stands in a file that only its owner reads. It is not an option:
every user of the machine sees the options of a process.
"""

import sys
from getpass import getpass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import argument, command, command_group, option
from tidelog.cli.terminal import TABLE, Output, print_found
from tidelog.errors import ErrorCode, UsageError
from tidelog.limits import MAX_SCRAM_ITERATIONS, MIN_SCRAM_ITERATIONS

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.users import Credential
    from tidelog.model import Mechanism, Secret

users_app = command_group(
    "See, add and remove users that log in by SCRAM.", "users add ada --password-file ada.password"
)

_HINTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "a principal of `super.users` may do it",
    ErrorCode.RESOURCE_NOT_FOUND: "`tidelog users list` shows the users that there are",
}
_FILE: Final = "--password-file"
_MAX_PASSWORD_BYTES: Final = 4096
_NAMES: Final = "SCRAM-SHA-256, SCRAM-SHA-512"

Name = Annotated[str, argument("NAME", "The user, without `User:`.")]
Names = Annotated[list[str] | None, argument("[NAME]…", "These users; all without one.")]


@command(users_app, "list", "users list ada --output json", hints=_HINTS)
def list_(admin: "AdminClient", names: Names = None, output: Output = TABLE) -> None:
    """List users: all of them, or those that are named. Nothing shows a password."""
    _print(output, admin.users.list(names or ()))


@command(users_app, "add", "users add ada --password-file ada.password", hints=_HINTS)
def add(
    admin: "AdminClient",
    name: Name,
    password_file: Annotated[
        Path | None,
        option(_FILE, "The password, in a file; without it a prompt asks for it.", "FILE"),
    ] = None,
    mechanism: Annotated[
        str, option("--mechanism", f"By which the user logs in: {_NAMES}.", "MECHANISM")
    ] = "SCRAM-SHA-512",
    iterations: Annotated[
        int,
        option(
            "--iterations",
            "What a guess of the password costs.",
            min=MIN_SCRAM_ITERATIONS,
            max=MAX_SCRAM_ITERATIONS,
        ),
    ] = MIN_SCRAM_ITERATIONS,
    output: Output = TABLE,
) -> None:
    """Add a user, or give one another password. Connections that are open go on."""
    wanted = _mechanism(mechanism)
    password = _asked(name) if password_file is None else _read(password_file)
    _print(output, [admin.users.add(name, wanted, password, iterations)])


@command(users_app, "remove", "users remove ada", hints=_HINTS)
def remove(
    admin: "AdminClient",
    name: Name,
    mechanism: Annotated[
        str | None, option("--mechanism", f"Only for this one: {_NAMES}.", "MECHANISM")
    ] = None,
    output: Output = TABLE,
) -> None:
    """Remove a user: what it has for a mechanism, or all. Open connections go on until they have
    to log in again (`connections.max.reauth.ms`)."""
    wanted = None if mechanism is None else _mechanism(mechanism)
    found = [
        each for each in admin.users.list([name]) if wanted is None or each.mechanism == str(wanted)
    ]
    if not found:
        raise UsageError(f"`{name}` does not log in by `{mechanism}`", "see `tidelog users list`")
    for each in found:
        admin.users.remove(name, _mechanism(each.mechanism))
    _print(output, found)


def _mechanism(text: str) -> "Mechanism":
    from tidelog.model import Mechanism

    if text.upper() not in _NAMES.split(", "):
        raise UsageError(f"`--mechanism` is `{text}`", f"it is one of {_NAMES}")
    return Mechanism(text.upper())


def _asked(name: str) -> "Secret":
    """The password that is typed twice and not shown."""
    from tidelog.model import Secret

    if not sys.stdin.isatty():
        raise UsageError(
            f"there is no terminal to ask for the password of `{name}`", f"give `{_FILE} FILE`"
        )
    first = getpass(f"password of {name}: ")
    if getpass("the same again: ") != first:
        raise UsageError("the two passwords differ", "type the same one twice")
    return _nonempty(Secret(first), "the password")


def _read(path: Path) -> "Secret":
    """The first line of a file that no other user may read."""
    from tidelog.model import Secret
    from tidelog.tls.stores import read_file

    data = read_file(_FILE, str(path), is_secret=True, max_bytes=_MAX_PASSWORD_BYTES)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"`{_FILE}`: `{path}` is not UTF-8 text", "write a line of text") from None
    if len(lines) > 1:
        raise UsageError(f"`{_FILE}`: `{path}` has {len(lines)} lines", "the password is one line")
    return _nonempty(Secret(lines[0] if lines else ""), f"the password in `{path}`")


def _nonempty(password: "Secret", what: str) -> "Secret":
    if not password:
        raise UsageError(f"{what} is empty", "a user needs a password")
    return password


def _print(output: Output, found: "list[Credential]") -> None:
    columns = ("user", "mechanism", "iterations")
    print_found(output, found, columns, attrgetter(*columns))
