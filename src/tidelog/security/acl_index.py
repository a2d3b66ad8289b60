"""The access control entries, arranged for questions.

A question names a principal, an address, an operation and a resource; an answer must not depend on
how many entries there are. So entries are not looked through: each is one key of a set.

- The entries of a literal name, of the name `*` and of each prefix stand together. A name of n
  characters has at most n prefixes, and only those lengths are tried that some entry has.
- What may be done with any resource at all is asked of the places where the principal or everybody
  has an entry; so the entries of others do not count there either.
- Among these, the entries of one principal stand together, as a count of (permission, operation,
  host). A question tries its few combinations: the operation, ALL and the operations that imply it,
  the address and `*`.

Invariant `IndexIsRebuilt`: after any changes the index equals one that is made of the present
entries. (CVE-2024-27309: an index lost entries on removal.)

Source: KIP-11, KIP-290, KIP-1212.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from tidelog.limits import MAX_KEPT_HOSTS
from tidelog.metadata.acls import WILDCARD, AclEntry, entry_of
from tidelog.metadata.records import AccessControlEntryRecord
from tidelog.model import Uuid
from tidelog.wire.acl_values import PatternType

EVERYBODY: Final = "User:*"
"""The principal of an entry for everybody, whatever the type of a principal."""

Rule = tuple[int, int, str]
"""Permission, operation, host."""
Rules = dict[str, Counter[Rule]]
"""What stands at one name or prefix, by principal."""


@lru_cache(maxsize=MAX_KEPT_HOSTS)
def canonical_host(host: str) -> str:
    """One text for all ways to write an address; an IPv4 address in IPv6 is that IPv4 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class Patterns(NamedTuple):
    """The entries that protect one resource: where they stand, and what stands there."""

    pattern_type: PatternType
    name: str
    rules: Rules


class _OfType:
    """The entries for resources of one type."""

    __slots__ = ("lengths", "literal", "places", "prefixed")

    def __init__(self) -> None:
        # By name; `*` is there too.
        self.literal: dict[str, Rules] = {}
        # By prefix.
        self.prefixed: dict[str, Rules] = {}
        # How many prefixes have each length.
        self.lengths: Counter[int] = Counter()
        # By principal, the names and prefixes with its entries; the values say nothing.
        self.places: dict[str, dict[tuple[PatternType, str], None]] = {}


class AclIndex:
    """The entries of one image of the metadata, or of none."""

    def __init__(self) -> None:
        # The entries that are in the index, by id.
        self.acls: Mapping[Uuid, AccessControlEntryRecord] = {}
        self._types: dict[int, _OfType] = {}

    def follow(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> bool:
        """Becomes the index of these entries; whether anything has changed. An id that comes back
        with another entry is changed."""
        if acls is self.acls:
            return False
        before = self.acls
        gone = [each for acl_id, each in before.items() if acls.get(acl_id) is not each]
        new = [each for acl_id, each in acls.items() if before.get(acl_id) is not each]
        for record in gone:
            self._remove(entry_of(record))
        for record in new:
            self._add(entry_of(record))
        self.acls = acls
        return bool(gone or new)

    def _add(self, entry: AclEntry) -> None:
        of_type = self._types.setdefault(entry.resource_type, _OfType())
        place = of_type.literal
        if entry.pattern_type == PatternType.PREFIXED:
            place = of_type.prefixed
            if entry.resource_name not in place:
                of_type.lengths[len(entry.resource_name)] += 1
        rules = place.setdefault(entry.resource_name, {})
        rules.setdefault(entry.principal, Counter())[_rule(entry)] += 1
        of_type.places.setdefault(entry.principal, {})[_place(entry)] = None

    def _remove(self, entry: AclEntry) -> None:
        of_type = self._types[entry.resource_type]
        is_prefix = entry.pattern_type == PatternType.PREFIXED
        place = of_type.prefixed if is_prefix else of_type.literal
        rules = place[entry.resource_name]
        counts = rules[entry.principal]
        counts[_rule(entry)] -= 1
        if counts[_rule(entry)]:
            return
        del counts[_rule(entry)]
        if not counts:
            del rules[entry.principal]
            places = of_type.places[entry.principal]
            del places[_place(entry)]
            if not places:
                del of_type.places[entry.principal]
        if not rules:
            del place[entry.resource_name]
            if is_prefix:
                length = len(entry.resource_name)
                of_type.lengths[length] -= 1
                if not of_type.lengths[length]:
                    del of_type.lengths[length]
        if not (of_type.literal or of_type.prefixed):
            del self._types[entry.resource_type]

    def protecting(self, resource_type: int, name: str) -> Iterator[Patterns]:
        """The entries that match a resource."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            rules = of_type.literal.get(literal)
            if rules is not None:
                yield Patterns(PatternType.LITERAL, literal, rules)
        for length in of_type.lengths:
            prefix = name[:length]
            rules = of_type.prefixed.get(prefix) if len(prefix) == length else None
            if rules is not None:
                yield Patterns(PatternType.PREFIXED, prefix, rules)

    def of_principals(self, resource_type: int, principals: Sequence[str]) -> Iterator[Patterns]:
        """Where these have entries for resources of a type, and what stands there."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return
        places = {place: None for who in principals for place in of_type.places.get(who, ())}
        for kind, name in places:
            by_name = of_type.prefixed if kind is PatternType.PREFIXED else of_type.literal
            yield Patterns(kind, name, by_name[name])

    def check(self) -> None:
        """IndexIsRebuilt."""
        rebuilt = AclIndex()
        rebuilt.follow(self.acls)
        assert self._state() == rebuilt._state(), "IndexIsRebuilt: the index lost an entry"

    def _state(self) -> object:
        return {
            kind: (each.literal, each.prefixed, each.lengths, each.places)
            for kind, each in self._types.items()
        }


def _place(entry: AclEntry) -> tuple[PatternType, str]:
    is_prefix = entry.pattern_type == PatternType.PREFIXED
    return PatternType.PREFIXED if is_prefix else PatternType.LITERAL, entry.resource_name


def _rule(entry: AclEntry) -> Rule:
    return entry.permission_type, entry.operation, canonical_host(entry.host)
