"""Principals: who a connection belongs to, as access control lists name it."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A principal, `User:alice`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The client of a connection without authentication."""
