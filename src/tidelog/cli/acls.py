"""`tidelog acls …`: see, add and remove access control entries of any Kafka cluster."""

from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from tidelog.cli.arguments import command, command_group, option
from tidelog.cli.terminal import TABLE, Output, print_found
from tidelog.errors import ErrorCode, UsageError

if TYPE_CHECKING:
    from tidelog.client import AdminClient
    from tidelog.client.acls import Acl, AclQuery

acls_app = command_group(
    "See, add and remove access control entries.",
    "acls add --allow-principal User:ada --operation read --topic orders",
)

_Enum = TypeVar("_Enum", bound=IntEnum)
_HINTS: Final = {
    ErrorCode.SECURITY_DISABLED: "the cluster has no authorizer: set `authorizer.class.name`",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "a principal of `super.users` may do it",
}

Topic = Annotated[str | None, option("--topic", "Of this topic; `*` is every topic.", "NAME")]
Group = Annotated[str | None, option("--group", "Of this group; `*` is every group.", "NAME")]
TransactionalId = Annotated[
    str | None, option("--transactional-id", "Of this transactional id.", "ID")
]
Cluster = Annotated[bool, option("--cluster", "Of the cluster.")]
PatternName = Annotated[
    str | None,
    option(
        "--resource-pattern-type",
        "`literal` or `prefixed`; to list or remove also `any` and `match`.",
        "PATTERN",
    ),
]
Principal = Annotated[
    str | None, option("--principal", "Of this principal, `User:NAME`.", "PRINCIPAL")
]
Allowed = Annotated[
    str | None, option("--allow-principal", "Whom it allows, `User:NAME`.", "PRINCIPAL")
]
Denied = Annotated[
    str | None, option("--deny-principal", "Whom it denies, `User:NAME`.", "PRINCIPAL")
]
Host = Annotated[str | None, option("--host", "From this address; `*` is every address.", "HOST")]
Operations = Annotated[
    list[str] | None,
    option("--operation", "Kafka's name of an operation; may be repeated.", "OPERATION"),
]


@command(acls_app, "list", "acls list --topic orders --output json", hints=_HINTS)
def list_(
    admin: "AdminClient",
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternName = None,
    principal: Principal = None,
    output: Output = TABLE,
) -> None:
    """List entries: all of them, or those of a resource or a principal."""
    resources = _resources(topic, group, transactional_id, cluster)
    wanted = _query(resources, resource_pattern_type, principal)
    _print(output, admin.acls.list(wanted))


@command(
    acls_app,
    "add",
    "acls add --allow-principal User:ada --operation read --topic orders",
    hints=_HINTS,
)
def add(
    admin: "AdminClient",
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternName = None,
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    host: Host = None,
    output: Output = TABLE,
) -> None:
    """Add entries, one for each operation and resource."""
    from tidelog.client.acls import Acl
    from tidelog.wire.acl_values import Operation, PatternType

    if (allow_principal is None) == (deny_principal is None):
        raise UsageError(
            "an entry allows or denies", "give `--allow-principal` or `--deny-principal`"
        )
    pattern = _named(PatternType, resource_pattern_type or "literal", "--resource-pattern-type")
    resources = _resources(topic, group, transactional_id, cluster)
    if not resources or not operation:
        raise UsageError(
            "an entry needs a resource and an operation", "give `--topic NAME --operation read`"
        )
    entries = [
        Acl(
            kind,
            name,
            pattern.name,
            allow_principal or deny_principal or "",
            host or "*",
            _named(Operation, each, "--operation").name,
            "DENY" if allow_principal is None else "ALLOW",
        )
        for kind, name in resources
        for each in operation
    ]
    admin.acls.add(entries)
    _print(output, entries)


@command(acls_app, "remove", "acls remove --principal User:ada --topic orders", hints=_HINTS)
def remove(
    admin: "AdminClient",
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    resource_pattern_type: PatternName = None,
    principal: Principal = None,
    output: Output = TABLE,
) -> None:
    """Remove the entries of a resource, of a principal, or of a principal on a resource."""
    resources = _resources(topic, group, transactional_id, cluster)
    if not resources and principal is None:
        raise UsageError(
            "which entries are to be removed?", "give a resource, `--principal`, or both"
        )
    wanted = _query(resources, resource_pattern_type, principal)
    _print(output, admin.acls.remove(wanted))


def _resources(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> list[tuple[str, str]]:
    from tidelog.wire.acl_values import CLUSTER_NAME

    named = {"TOPIC": topic, "GROUP": group, "TRANSACTIONAL_ID": transactional_id}
    found = [(kind, name) for kind, name in named.items() if name is not None]
    return [*found, ("CLUSTER", CLUSTER_NAME)] if cluster else found


def _query(
    resources: list[tuple[str, str]], pattern: str | None, principal: str | None
) -> "AclQuery":
    from tidelog.client.acls import AclQuery
    from tidelog.wire.acl_values import PatternType, ResourceType

    if len(resources) > 1:
        raise UsageError("entries of several resources", "name one resource at a time")
    wanted = _named(PatternType, pattern or "any", "--resource-pattern-type")
    if not resources:
        return AclQuery(pattern=wanted, principal=principal)
    kind, name = resources[0]
    return AclQuery(ResourceType[kind], name, wanted, principal)


def _named(kind: type[_Enum], text: str, where: str) -> _Enum:
    """The member of an enumeration that an option names, in upper or lower case."""
    words = text.upper().replace("-", "_")
    if words not in kind.__members__:
        known = ", ".join(name.lower() for name in kind.__members__)
        raise UsageError(f"`{where}` is `{text}`", f"it is one of {known}")
    return kind[words]


def _print(output: Output, entries: "list[Acl]") -> None:
    columns = ("permission", "operation", "resource", "pattern", "name", "principal", "host")
    what = ("permission", "operation", "resource_type", "pattern_type", "resource_name")
    fields = attrgetter(*what, "principal", "host")
    print_found(output, entries, columns, fields)
