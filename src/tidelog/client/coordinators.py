"""Questions to coordinators, which may move at any time.

The coordinator of a group or a transactional id is looked for with each question. A question that
finds none, or one that is being loaded, is asked again until the deadline. Errors that stay are
`AdminError`.

Source: Kafka's protocol guide, FindCoordinator.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidelog.client.blocking import Brokers, now_ms, retrying
from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import RETRIABLE_COMMIT, Retry, TopicError, check, refusal
from tidelog.client.core.partitions import Metadata, metadata_request, read_metadata
from tidelog.client.core.values import Address
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import field
from tidelog.wire.values import error_of

GROUP: Final = 0
TRANSACTION: Final = 1
"""What a coordinator is for."""


class Coordinators:
    """The coordinators of one kind."""

    def __init__(self, brokers: Brokers, kind: int) -> None:
        self._brokers = brokers
        # `GROUP` or `TRANSACTION`.
        self._kind = kind

    def ask(
        self, key: str, call: Call[Any], what: str, result_of: Any = lambda answer: answer
    ) -> Any:
        """The result of the coordinator of `key`. Raises `AdminError`."""
        return self.retrying(lambda: result_of(self._brokers.node(self._of(key, what), call)), what)

    def ask_each(self, call: Call[Any], what: str) -> Sequence[tuple[int, Any]]:
        """The answers of all brokers, each with its id, to a question about what they
        coordinate."""
        answers = []
        for node_id, address in sorted(metadata_of(self._brokers, []).brokers.items()):
            ask = partial(self._brokers.node, address, call)
            answers.append((node_id, self.retrying(ask, f"{what} of broker {node_id}")))
        return answers

    def retrying(self, ask: Callable[[], Any], what: str) -> Any:
        """Asks until the error is not a passing one of coordinators. Raises `AdminError`."""

        def attempt() -> Any:
            result = ask()
            code = error_of(field(result, "error_code", ErrorCode.NONE))
            if code in RETRIABLE_COMMIT:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            check(code, field(result, "error_message", None), what)
            return result

        return retrying(attempt, Retry(now_ms(), self._brokers.timeout_s))

    def _of(self, key: str, what: str) -> Address:
        call = request(
            ApiKey.FIND_COORDINATOR, key=key, key_type=self._kind, coordinator_keys=[key]
        )
        answer = self._brokers.any(call)
        found: Any = (field(answer, "coordinators", None) or (answer,))[0]
        check(error_of(found.error_code), found.error_message, what)
        return Address(found.host, int(found.port))


def metadata_of(brokers: Brokers, topics: Sequence[str] | None) -> Metadata:
    """The leaders of the partitions of these topics; `None` for all topics. Raises `AdminError`
    for a topic that does not exist."""
    try:
        return read_metadata(brokers.any(metadata_request(topics)))
    except TopicError as error:
        raise refusal(error.code, None, f"find `{error.topic}`") from None
