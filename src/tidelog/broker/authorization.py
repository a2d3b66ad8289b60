"""What the node knows about rights: the authorizer, and what each connection may do.

The router asks for the `Access` of a connection before a request is looked at. A connection keeps
its own until the entries of the metadata change, or its principal does; a request inside of an
envelope gets one of its own, with the principal and address that the envelope names.

Each denial is an event. Texts of clients in it are escaped, and cut at `MAX_AUDIT_TEXT`.

Without `authorizer.class.name` there is no authorizer, and everybody may do everything.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from tidelog.broker.events import AccessDenied, AdministrativeChange
from tidelog.config.values import AuthorizationConfig
from tidelog.env.trace import Trace
from tidelog.limits import MAX_AUDIT_TEXT
from tidelog.metadata.acls import AclEntry
from tidelog.metadata.image import MetadataImage
from tidelog.model import Principal
from tidelog.security.authorizer import Access, Authorizer, Decision
from tidelog.wire.acl_values import Operation, PatternType, Permission, ResourceType


class Asker(Protocol):
    """The other end of a connection."""

    principal: Principal
    peer_host: str
    access: Access


class Authorization:
    """The rights of those who ask one node."""

    def __init__(self, config: AuthorizationConfig, trace: Trace) -> None:
        # `None` when no authorizer is configured.
        self.authorizer: Authorizer | None = None
        if config.authorizer_class:
            self.authorizer = Authorizer(
                config.super_users.split(";"), allow_everyone=config.allow_everyone_if_no_acl_found
            )
        self._trace = trace

    def on_image(self, image: MetadataImage) -> None:
        """The node has published this image."""
        if self.authorizer is not None:
            self.authorizer.follow(image.acls)

    def of(self, asker: Asker) -> Access:
        """What the other end of a connection may do now."""
        access, authorizer = asker.access, self.authorizer
        if authorizer is None:
            return access
        version = authorizer.version
        if access.version != version or access.principal != asker.principal:
            access = asker.access = self.at(asker.principal, asker.peer_host)
        return access

    def at(self, principal: Principal, host: str) -> Access:
        """What a principal at an address may do now."""
        return Access(self.authorizer, principal, host, self.on_denied)

    def on_denied(
        self,
        principal: Principal,
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        decision: Decision,
    ) -> None:
        self._trace.event(
            AccessDenied(
                principal=escaped(str(principal)),
                host=escaped(host),
                operation=Operation(operation).name,
                resource=escaped(f"{ResourceType(resource_type).name}:{name}"),
                rule=_reason(decision),
            )
        )

    def on_change(self, access: Access, operation: str, subjects: Iterable[str]) -> None:
        """A principal has the rights for a change, which is decided next. Values of configurations
        are no subjects: they may be secrets."""
        if access.decided is not None:
            self._trace.event(
                AdministrativeChange(
                    principal=escaped(str(access.principal)),
                    host=escaped(access.host),
                    operation=operation,
                    resource=escaped(", ".join(subjects)),
                    rule=_reason(access.decided),
                )
            )

    def check(self) -> None:
        """IndexIsRebuilt."""
        if self.authorizer is not None:
            self.authorizer.check()


def _reason(decision: Decision) -> str:
    rule = decision.rule
    return described(rule) if isinstance(rule, AclEntry) else rule.value


def described(entry: AclEntry) -> str:
    """An entry in one line: `ALLOW READ TOPIC:PREFIXED:orders to User:ada from *`. A client may ask
    for one with numbers that name nothing."""
    permission = _name_of(Permission, entry.permission_type)
    operation = _name_of(Operation, entry.operation)
    resource = _name_of(ResourceType, entry.resource_type)
    pattern = _name_of(PatternType, entry.pattern_type)
    return escaped(
        f"{permission} {operation} {resource}:{pattern}:{entry.resource_name} "
        f"to {entry.principal} from {entry.host}"
    )


def _name_of(kind: type[IntEnum], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)


def escaped(text: str) -> str:
    """A text of a client on one line: control characters and what is not ASCII are escaped, and
    what is too long is cut."""
    safe = text.encode("unicode_escape").decode("ascii")
    return safe if len(safe) <= MAX_AUDIT_TEXT else f"{safe[:MAX_AUDIT_TEXT]}…"
