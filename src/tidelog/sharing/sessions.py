"""Share sessions: the partitions that each member of a share group fetches from this broker.

A member names a partition once, and from then on only what it adds or forgets; each of its requests
carries the session's epoch, which grows by one. A session belongs to a member of a group, so it has
no id. It ends with the request that carries `FINAL_EPOCH` or with the member's connection, and what
the member has acquired is released; or when the member begins another one.

| epoch | in ShareFetch | in ShareAcknowledge |
| --- | --- | --- |
| 0 | begins a session | INVALID_SHARE_SESSION_EPOCH |
| -1 | ends it | ends it |
| expected | goes on | goes on |
| any other | INVALID_SHARE_SESSION_EPOCH | INVALID_SHARE_SESSION_EPOCH |

Without a session the answer is SHARE_SESSION_NOT_FOUND. Bound: `group.share.max.share.sessions`; at
the bound a new one is refused as SHARE_SESSION_LIMIT_REACHED, since none of the others can be taken
from its member.

Source: KIP-932.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.errors import ErrorCode, ProtocolError
from tidelog.model import TopicId

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1


class Member(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class SharedPartition(NamedTuple):
    """A partition that a member asks for."""

    topic_id: TopicId
    partition: int


@dataclass(slots=True, eq=False)
class ShareSession:
    """What one member fetches."""

    member: Member
    # The connection that it was begun on.
    connection_id: int
    # In the order in which they were named.
    partitions: dict[SharedPartition, None] = field(default_factory=dict)
    # What its next request must carry.
    next_epoch: int = 1


class ShareSessions:
    """All share sessions of a broker."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._by_member: dict[Member, ShareSession] = {}
        # The members whose sessions were begun on a connection.
        self._by_connection: dict[int, set[Member]] = {}

    def __len__(self) -> int:
        return len(self._by_member)

    def get(self, member: Member) -> ShareSession | None:
        """The session of a member, if it has one."""
        return self._by_member.get(member)

    def begin(
        self, member: Member, connection_id: int, partitions: Iterable[SharedPartition]
    ) -> ShareSession:
        """A new session in the place of the member's last one. Raises
        SHARE_SESSION_LIMIT_REACHED."""
        self.end(member)
        if len(self._by_member) >= self._max_sessions:
            raise ProtocolError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(member, connection_id, dict.fromkeys(partitions))
        self._by_member[member] = session
        self._by_connection.setdefault(connection_id, set()).add(member)
        return session

    def resume(self, member: Member, epoch: int) -> ShareSession:
        """The session that a request goes on with, or ends. Raises SHARE_SESSION_NOT_FOUND and
        INVALID_SHARE_SESSION_EPOCH."""
        session = self._by_member.get(member)
        if session is None:
            raise ProtocolError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.next_epoch:
            raise ProtocolError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.next_epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def end(self, member: Member) -> ShareSession | None:
        """Forgets the session of a member; returns it if there was one."""
        session = self._by_member.pop(member, None)
        if session is not None:
            members = self._by_connection[session.connection_id]
            members.discard(member)
            if not members:
                del self._by_connection[session.connection_id]
        return session

    def on_connection(self, connection_id: int) -> list[Member]:
        """The members whose sessions were begun on a connection."""
        return sorted(self._by_connection.get(connection_id, ()))

    def check(self) -> None:
        """Asserts that both registers agree."""
        listed = {each for members in self._by_connection.values() for each in members}
        assert listed == self._by_member.keys(), "a session without a connection"
