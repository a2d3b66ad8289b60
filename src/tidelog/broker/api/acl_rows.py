"""How the entries of access control lists, and filters of them, lie in requests and answers."""

from typing import Final

from tidelog.broker.api.checks import Asked, Check
from tidelog.errors import ErrorCode
from tidelog.metadata.acls import AclEntry, AclFilter
from tidelog.wire.shapes import Shape

ENTRY: Final = Shape(AclEntry, pattern_type="resource_pattern_type")
"""An entry to create."""
FOUND: Final = Shape(AclEntry)
"""An entry that a filter found."""
FILTER: Final = Shape(
    AclFilter,
    resource_type="resource_type_filter",
    resource_name="resource_name_filter",
    pattern_type="pattern_type_filter",
    principal="principal_filter",
    host="host_filter",
)
"""A filter of entries."""


class Secured(Check):
    """Without an authorizer entries would protect nothing: the request is refused."""

    rights = ()
    without_authorizer = True

    def apply(self, asked: Asked) -> None:
        """Refuses the request."""
        if asked.access.is_unlimited:
            asked.refuse(ErrorCode.SECURITY_DISABLED)
