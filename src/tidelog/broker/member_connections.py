"""Which members of groups send their heartbeats on which connection.

The kernel of a machine closes the connections of a process that dies. So the end of a connection is
the first sign that a member may be gone, long before its session ends. It proves nothing, since
networks and proxies end connections, too: the coordinator only gives such a member less time
(`groups/coordinator.py` `on_disconnected`).

A member counts on the connection of its last request that the coordinator accepted. When its client
has connected again, the end of the former connection says nothing.
"""

from typing import Final, Protocol

from tidelog.broker.connections import Connection
from tidelog.errors import ErrorCode
from tidelog.limits import MAX_MEMBERS_PER_CONNECTION

Key = tuple[str, str]
"""A group id and a member id."""

_ALIVE: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


class FromMember(Protocol):
    """A request of a member."""

    @property
    def group_id(self) -> str: ...
    @property
    def member_id(self) -> str: ...


class MemberConnections:
    """The members that this node coordinates, by connection."""

    __slots__ = ("_connections", "_members")

    def __init__(self) -> None:
        # The connection of each member's last request.
        self._connections: dict[Key, int] = {}
        # The members of each connection, the one that was noted first at the head.
        self._members: dict[int, dict[Key, None]] = {}

    def note(self, connection: Connection, request: FromMember, code: ErrorCode) -> None:
        """A coordinator has answered a member's request. Of a client that is more members than a
        connection may have, those that were noted first are forgotten."""
        connection_id, key = connection.connection_id, (request.group_id, request.member_id)
        is_known = self._connections.get(key) == connection_id
        if is_known or code not in _ALIVE or not connection.open:
            return
        self._forget(key)
        members = self._members.setdefault(connection_id, {})
        if len(members) == MAX_MEMBERS_PER_CONNECTION:
            oldest = next(iter(members))
            del members[oldest], self._connections[oldest]
        members[key] = None
        self._connections[key] = connection_id

    def take(self, connection_id: int) -> list[Key]:
        """The members of a connection that has ended."""
        members = self._members.pop(connection_id, {})
        for key in members:
            del self._connections[key]
        return list(members)

    def _forget(self, key: Key) -> None:
        connection_id = self._connections.pop(key, None)
        if connection_id is None:
            return
        members = self._members[connection_id]
        del members[key]
        if not members:
            del self._members[connection_id]

    def check(self) -> None:
        """Asserts that both maps say the same."""
        pairs = {(key, each) for each, keys in self._members.items() for key in keys}
        assert pairs == set(self._connections.items()), "members and connections"
