"""What can go wrong between a client and a cluster."""

from typing import Final

from tidelog.errors import ErrorCode

_TEXTS: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic does not exist"}
"""For codes that come without a message."""


class Unreachable(Exception):
    """A broker did not take the connection, broke it, or did not give a sound answer in time. Its
    connection is of no more use."""


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
