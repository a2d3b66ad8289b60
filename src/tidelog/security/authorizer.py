"""Who may do what: the decision about one operation on one resource, and its reason.

The rules are those of Kafka's StandardAuthorizer, in this order:

1. `super.users` may do everything.
2. The entries count that protect the resource (its name, `*`, or a prefix of the name) and are of
   the principal or of everybody, of the address or of every address, and of the operation or of
   ALL.
3. One that denies decides (`DenyWins`), then one that allows. READ, WRITE, DELETE and ALTER imply
   DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, where they are allowed; a denial implies
   nothing.
4. A resource that no entry protects, of whatever principal, is as
   `allow.everyone.if.no.acl.found` says.
5. Otherwise the answer is no.

`Access` is what one principal at one address may do. A connection keeps one, which remembers what
was decided; when the entries change, a new one takes its place.

Until the entries of the metadata are loaded, only super users are decided about
(`Authorizer.is_loaded`).

Source: KIP-11, KIP-290, KIP-679 (any resource of a type), KIP-430 (authorized operations); Kafka's
`StandardAuthorizerData`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from tidelog.limits import MAX_KEPT_DECISIONS, MAX_KEPT_NAME
from tidelog.metadata.acls import WILDCARD, AclEntry
from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.model import ANONYMOUS, Principal, Uuid
from tidelog.security.acl_index import EVERYBODY, AclIndex, Patterns, canonical_host
from tidelog.security.rights import NOT_ASKED, SUPPORTED_OPERATIONS, Requirement
from tidelog.wire.acl_values import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

_IMPLIED_BY: Final[Mapping[int, tuple[int, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}

_ANY_NAME: Final = "hardcode"
"""The name that Kafka tries first when it asks about any resource of a type."""


class DefaultRule(StrEnum):
    """Reasons that are no entry, in Kafka's words."""

    SUPER_USER = "SuperUser"
    ALLOW = "DefaultAllow"
    DENY = "DefaultDeny"


class Decision(NamedTuple):
    """Yes or no, and why."""

    allowed: bool
    rule: DefaultRule | AclEntry


class Authorizer:
    """The decisions of one node."""

    def __init__(self, super_users: Iterable[str], *, allow_everyone: bool) -> None:
        # `super.users`, as `Type:name`.
        self._super_users = frozenset(super_users)
        # `allow.everyone.if.no.acl.found`.
        self._no_acl = (
            Decision(True, DefaultRule.ALLOW)
            if allow_everyone
            else Decision(False, DefaultRule.DENY)
        )
        self.index = AclIndex()
        # Whether the index has the entries of the metadata.
        self.is_loaded = False
        # Grows with every change of the entries: an `Access` of another version is old.
        self.version = 0

    def follow(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        """Decides by these entries from now on."""
        if self.index.follow(acls) or not self.is_loaded:
            self.version += 1
        self.is_loaded = True

    def is_super(self, principal: Principal) -> bool:
        """Whether the principal is one of `super.users`."""
        return str(principal) in self._super_users

    def decide(
        self, principal: Principal, host: str, operation: int, resource_type: int, name: str
    ) -> Decision:
        """The decision about a resource; the host is canonical."""
        who = str(principal)
        if who in self._super_users:
            return Decision(True, DefaultRule.SUPER_USER)
        denials = (operation, Operation.ALL)
        permits = (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))
        allowed: AclEntry | None = None
        is_protected = False
        for patterns in self.index.protecting(resource_type, name):
            is_protected = True
            denied = _find(patterns, resource_type, who, host, Permission.DENY, denials)
            if denied is not None:
                return Decision(False, denied)
            if allowed is None:
                allowed = _find(patterns, resource_type, who, host, Permission.ALLOW, permits)
        if allowed is not None:
            return Decision(True, allowed)
        return Decision(False, DefaultRule.DENY) if is_protected else self._no_acl

    def decide_any(
        self, principal: Principal, host: str, operation: int, resource_type: int
    ) -> Decision:
        """Whether there can be a resource of the type with which the principal may do it: an
        allowance that no denial covers as a whole."""
        tried = self.decide(principal, host, operation, resource_type, _ANY_NAME)
        if tried.allowed:
            return tried
        who, operations = str(principal), (operation, Operation.ALL)
        allowed: list[AclEntry] = []
        denied: set[tuple[int, str]] = set()
        for patterns in self.index.of_principals(resource_type, (who, EVERYBODY)):
            if _find(patterns, resource_type, who, host, Permission.DENY, operations):
                denied.add((patterns.pattern_type, patterns.name))
            entry = _find(patterns, resource_type, who, host, Permission.ALLOW, operations)
            if entry is not None:
                allowed.append(entry)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return Decision(False, DefaultRule.DENY)
        for entry in allowed:
            if not _is_covered(entry, denied):
                return Decision(True, entry)
        return Decision(False, DefaultRule.DENY)

    def check(self) -> None:
        """IndexIsRebuilt."""
        self.index.check()


def _find(
    patterns: Patterns,
    resource_type: int,
    who: str,
    host: str,
    permission: Permission,
    operations: Iterable[int],
) -> AclEntry | None:
    """An entry at one place that says this of one of the operations."""
    for principal in (who, EVERYBODY):
        counts = patterns.rules.get(principal)
        if counts is None:
            continue
        for operation in operations:
            for each in (host, WILDCARD):
                if (int(permission), int(operation), each) in counts:
                    return AclEntry(
                        resource_type,
                        patterns.name,
                        patterns.pattern_type,
                        principal,
                        each,
                        operation,
                        permission,
                    )
    return None


def _is_covered(entry: AclEntry, denied: set[tuple[int, str]]) -> bool:
    """Whether a denial takes away all that the entry allows."""
    name = entry.resource_name
    if entry.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(len(name) + 1))


Audit = Callable[[Principal, str, int, int, str, Decision], None]
"""Takes a denial: principal, address, operation, resource type, name, decision."""


class Access:
    """What one principal at one address may do."""

    __slots__ = ("_audit", "_authorizer", "_decisions", "decided", "host", "principal", "version")

    def __init__(
        self, authorizer: Authorizer | None, principal: Principal, host: str, audit: Audit
    ) -> None:
        """Without an authorizer everything is allowed."""
        self._authorizer = authorizer
        self._audit = audit
        self.principal = principal
        self.host = canonical_host(host)
        # The version of the entries that the decisions are from.
        self.version = -1 if authorizer is None else authorizer.version
        # The last decision; `None` without an authorizer, and before the first.
        self.decided: Decision | None = None
        # What was decided, by operation, resource type and name; a name of None is any.
        self._decisions: dict[tuple[int, int, str | None], Decision] = {}

    @property
    def is_unlimited(self) -> bool:
        """Whether everything is allowed to everybody: there is no authorizer."""
        return self._authorizer is None

    @property
    def is_known(self) -> bool:
        """Whether there can be decisions at all: the entries are loaded, or do not matter."""
        authorizer = self._authorizer
        return authorizer is None or authorizer.is_loaded or authorizer.is_super(self.principal)

    def allows(
        self, operation: Operation, resource: ResourceType, name: str | None, *, audits: bool = True
    ) -> bool:
        """Whether the principal may do this; with `None` as the name, to any resource. A denial is
        an event, unless the question is only which rows to show."""
        if self._authorizer is None:
            return True
        key = (operation, resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(self._authorizer, operation, resource, name)
            if len(self._decisions) >= MAX_KEPT_DECISIONS:
                self._decisions.clear()
            if name is None or len(name) <= MAX_KEPT_NAME:
                self._decisions[key] = decision
        self.decided = decision
        if not decision.allowed and audits:
            self._audit(self.principal, self.host, operation, resource, name or WILDCARD, decision)
        return decision.allowed

    def _decide(
        self, authorizer: Authorizer, operation: int, resource: int, name: str | None
    ) -> Decision:
        if not self.is_known:
            return Decision(False, DefaultRule.DENY)
        who, host = self.principal, self.host
        if name is None:
            return authorizer.decide_any(who, host, operation, resource)
        return authorizer.decide(who, host, operation, resource, name)

    def meets(self, rights: Requirement, name: str | None, *, audits: bool = True) -> bool:
        """Whether one of the rights is there. One on the cluster needs no name."""
        last = len(rights) - 1
        return any(
            self.allows(
                right.operation,
                right.resource,
                CLUSTER_NAME if right.resource is ResourceType.CLUSTER else name,
                audits=audits and place == last,
            )
            for place, right in enumerate(rights)
        )

    def operations(self, resource: ResourceType, name: str, *, asked: bool) -> int:
        """The operations that are allowed on a resource, as a sum of powers of two (KIP-430), or
        `NOT_ASKED`."""
        if not asked:
            return NOT_ASKED
        if resource is ResourceType.CLUSTER and not self.allows(
            Operation.DESCRIBE, resource, name, audits=False
        ):
            return 0
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource]
            if self.allows(operation, resource, name, audits=False)
        )


def _no_audit(*_: object) -> None:
    """Nothing is denied."""


UNLIMITED: Final = Access(None, ANONYMOUS, "", _no_audit)
"""Everybody's, without an authorizer."""
