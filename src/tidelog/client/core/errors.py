"""What can go wrong between a client and a cluster, what of it passes, and when to give up.

Kafka marks errors as retriable. A reader also retries errors that mean only that its metadata, or
the broker's, is old.
"""

from typing import Final

from tidelog.errors import ErrorCode, UsageError

POLL_S: Final = 0.01

RETRIABLE: Final = frozenset(
    (
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    )
)
"""After these the same request may get another answer."""

RETRIABLE_READ: Final = RETRIABLE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""After these a fetch or a look-up of offsets may succeed with fresh metadata."""

RETRIABLE_COMMIT: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""After these a commit may succeed with the coordinator that is there then."""

_TEXTS: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist"}
"""For codes that come without a message."""


class Unreachable(Exception):
    """A broker did not take the connection, broke it, or did not give a sound answer in time. Its
    connection is of no more use."""


class AuthenticationFailed(UsageError):
    """The broker does not accept this client, or this client the broker: certificates or passwords
    are wrong, and another attempt would end the same."""


class TryAgain(Exception):
    """Fresh metadata and another attempt may help; the text is what happened."""


class TopicError(TryAgain):
    """A broker has no metadata of a topic: it does not exist, or the broker is not up to date."""

    def __init__(self, topic: str, code: ErrorCode) -> None:
        super().__init__(f"topic `{topic}`: {code.name}")
        # The name that was asked for, and Kafka's code.
        self.topic = topic
        self.code = code


class AdminError(Exception):
    """The cluster refused; `code` is Kafka's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def refusal(code: ErrorCode, message: str | None, what: str) -> AdminError:
    """The error for a refusal of `what`."""
    return AdminError(code, f"{what}: {message or _TEXTS.get(code, 'refused')} ({code.name})")


def check(code: ErrorCode, message: str | None, what: str) -> None:
    """Raises `AdminError` unless the code is `NONE`; `what` is what was asked for."""
    if code is not ErrorCode.NONE:
        raise refusal(code, message, what)


class Retry:
    """Attempts at one thing, until it is done or a deadline has passed."""

    def __init__(self, now_ms: int, timeout_s: float, pause_s: float = POLL_S) -> None:
        # The instant after which no attempt begins.
        self._deadline_ms = now_ms + round(timeout_s * 1000)
        # How long to wait between two attempts.
        self.pause_s = pause_s

    def left_s(self, now_ms: int) -> float:
        """Seconds that are left, never below zero."""
        return max(0, self._deadline_ms - now_ms) / 1000

    def is_over(self, now_ms: int) -> bool:
        """Whether the deadline has passed."""
        return now_ms >= self._deadline_ms

    def pause_after(self, error: Exception, now_ms: int) -> float:
        """How long to wait before the next attempt. Raises the error when there shall be none."""
        if self.is_over(now_ms) or (isinstance(error, AdminError) and error.code not in RETRIABLE):
            raise error
        return self.pause_s
