"""`tidelog quotas …`: see, add and remove quotas of any Kafka cluster."""

from typing import TYPE_CHECKING, Annotated, Final

from tidelog.cli.arguments import command, command_group, option
from tidelog.cli.terminal import TABLE, Output, print_found
from tidelog.errors import ErrorCode, UsageError

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.quotas import Quota

quotas_app = command_group(
    "See, add and remove quotas of users, client ids and addresses.",
    "quotas add --user ada --quota producer_byte_rate=1000000",
)

_HINTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "a principal of `super.users` may do it",
    ErrorCode.INVALID_REQUEST: (
        "users and client ids have `producer_byte_rate`, `consumer_byte_rate`, "
        "`request_percentage` and `controller_mutation_rate`, addresses have "
        "`connection_creation_rate`; all are above 0"
    ),
}
_DEFAULT: Final = "default"

User = Annotated[str | None, option("--user", "Of this user, without `User:`.", "NAME")]
ClientId = Annotated[str | None, option("--client-id", "Of this client id.", "ID")]
Ip = Annotated[str | None, option("--ip", "Of this address.", "ADDRESS")]
Defaults = Annotated[
    list[str] | None,
    option(
        "--default",
        "Of all `user`s, `client-id`s or `ip`s without one of their own; may be repeated.",
        "TYPE",
    ),
]
Values = Annotated[
    list[str] | None,
    option("--quota", "Kafka's name of a quota, and its value; may be repeated.", "NAME=VALUE"),
]
Names = Annotated[
    list[str] | None, option("--quota", "Kafka's name of a quota; may be repeated.", "NAME")
]


@command(quotas_app, "list", "quotas list --user ada --output json", hints=_HINTS)
def list_(
    admin: "AdminClient",
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Defaults = None,
    output: Output = TABLE,
) -> None:
    """List quotas: all of them, or those of a user, a client id or an address."""
    entity = _entity(user, client_id, ip, default)
    _print(output, admin.quotas.list(entity))


@command(
    quotas_app, "add", "quotas add --user ada --quota producer_byte_rate=1000000", hints=_HINTS
)
def add(
    admin: "AdminClient",
    quota: Values = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Defaults = None,
    output: Output = TABLE,
) -> None:
    """Set quotas of a user, a client id, a user with a client id, or an address."""
    from tidelog.client.quotas import Quota

    entity = _needed(_entity(user, client_id, ip, default))
    if not quota:
        raise UsageError("which quotas?", "give `--quota producer_byte_rate=1000000`")
    values = dict(map(_value, quota))
    admin.quotas.alter(entity, values)
    _print(output, [Quota(entity, name, value) for name, value in values.items()])


@command(quotas_app, "remove", "quotas remove --user ada --quota producer_byte_rate", hints=_HINTS)
def remove(
    admin: "AdminClient",
    quota: Names = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Defaults = None,
    output: Output = TABLE,
) -> None:
    """Remove quotas: those that are named, or all of this user, client id, pair or address."""
    entity = _needed(_entity(user, client_id, ip, default))
    found = admin.quotas.list(entity)
    gone = [
        each for each in found if dict(each.entity) == entity and (not quota or each.name in quota)
    ]
    missing = set(quota or ()) - {each.name for each in gone}
    if missing:
        text = ", ".join(f"`{name}`" for name in sorted(missing))
        raise UsageError(f"there is no quota {text}", "see `tidelog quotas list`")
    if gone:
        admin.quotas.alter(entity, dict.fromkeys(e.name for e in gone))
    _print(output, gone)


def _entity(
    user: str | None, client_id: str | None, ip: str | None, default: list[str] | None
) -> dict[str, str | None]:
    """The names by type; `None` is the default."""
    given = {"user": user, "client-id": client_id, "ip": ip}
    entity = {kind: name for kind, name in given.items() if name is not None}
    found: dict[str, str | None] = {**entity}
    for kind in default or ():
        if kind not in given:
            raise UsageError(f"`--default` is `{kind}`", "it is one of user, client-id, ip")
        if kind in entity:
            raise UsageError(f"`{kind}` is given and its default too", "give one of them")
        found[kind] = None
    return found


def _needed(entity: dict[str, str | None]) -> dict[str, str | None]:
    if not entity:
        raise UsageError("whose quotas?", "give `--user`, `--client-id`, `--ip` or `--default`")
    return entity


def _value(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        hint = "write it like `producer_byte_rate=1000000`"
        raise UsageError(f"`--quota` is `{text}`", hint) from None


def _print(output: Output, quotas: "list[Quota]") -> None:
    def fields(quota: "Quota") -> tuple[object, ...]:
        names = [quota.entity.get(kind, "") for kind in ("user", "client-id", "ip")]
        shown = [_DEFAULT if name is None else name for name in names]
        value = int(quota.value) if quota.value.is_integer() else quota.value
        return (*shown, quota.name, value)

    print_found(output, quotas, ("user", "client id", "ip", "quota", "value"), fields)
