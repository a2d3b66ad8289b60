"""What clients ask of the controller about access control entries, and what it answers; see
`messages.py`."""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.metadata.acls import AclEntry, AclFilter


class CreateAcls(NamedTuple):
    """Access control entries to write (API 30)."""

    entries: tuple[AclEntry, ...]


class AclOutcome(NamedTuple):
    """What became of one entry."""

    error_code: ErrorCode
    message: str | None = None


class CreateAclsResult(NamedTuple):
    """In the order of the request. An entry that exists already is a success."""

    results: tuple[AclOutcome, ...]


class DeleteAcls(NamedTuple):
    """Filters whose entries go (API 31)."""

    filters: tuple[AclFilter, ...]


class DeletedAcls(NamedTuple):
    """The entries that one filter found."""

    error_code: ErrorCode
    message: str | None = None
    found: tuple[AclEntry, ...] = ()


class DeleteAclsResult(NamedTuple):
    """In the order of the request. Two filters may have found the same entry."""

    results: tuple[DeletedAcls, ...]
