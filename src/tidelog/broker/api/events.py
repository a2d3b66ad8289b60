"""What requests of clients lead to, as events."""

from tidelog.env.event import Event, Level, event
from tidelog.errors import ErrorCode


@event(level=Level.WARN, about=("connection_id",))
class ConnectionEvent(Event):
    """An event about an accepted connection."""

    connection_id: int

    @property
    def subject(self) -> str:
        """`connection 17`."""
        return f"connection {self.connection_id}"


@event("on_frame", "closed")
class RequestMalformed(ConnectionEvent):
    """A frame is not a request that is served here; the connection is closed."""

    reason: str
    peer: str


@event("on_reply", "refused", about=("connection_id", "error_code", "message"))
class BatchesRefused(ConnectionEvent):
    """Batches of a Produce request are at fault, which only the sender can fix."""

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
