"""What requests of clients lead to, as events."""

from dataclasses import dataclass
from typing import ClassVar

from tidelog.env.event import Event, Level
from tidelog.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEvent(Event):
    """An event about an accepted connection."""

    level: ClassVar = Level.WARN
    about: ClassVar[tuple[str, ...]] = ("connection_id",)

    connection_id: int

    @property
    def subject(self) -> str:
        """`connection 17`."""
        return f"connection {self.connection_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMalformed(ConnectionEvent):
    """A frame is not a request that is served here; the connection is closed."""

    handler: ClassVar = "on_frame"
    decision: ClassVar = "closed"
    reason: str
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesRefused(ConnectionEvent):
    """Batches of a Produce request are at fault, which only the sender can fix."""

    about: ClassVar = ("connection_id", "error_code", "message")
    handler: ClassVar = "on_reply"
    decision: ClassVar = "refused"
    error_code: ErrorCode
    """Of the first batch that was refused."""
    message: str
    partition: str
    """Of the same batch."""
    batches: int
    peer: str

    def why(self) -> str:
        """The first error."""
        return f"{self.error_code.name}: {self.message or 'no record batch'}"
