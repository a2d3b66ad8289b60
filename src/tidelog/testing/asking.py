"""Asking nodes: open connections by address, the first broker that answers, passing errors again.

Not for several threads.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tidelog.errors import ErrorCode, UsageError
from tidelog.testing.waiting import POLL_S, Deadline
from tidelog.testing.wire_client import NodeConnection, Unreachable
from tidelog.wire import codec
from tidelog.wire.api import ApiKey
from tidelog.wire.entities import make
from tidelog.wire.values import error_of

T = TypeVar("T")
Address = tuple[str, int]

# Fixed: the oldest that carry what is needed, so that any Kafka 4 broker answers.
VERSIONS: Final = {
    ApiKey.METADATA: 12,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.UNREGISTER_BROKER: 0,
}

ATTEMPT_S: Final = 1.5
"""How long one node may take over a question that every node can answer at once."""

PASSING: Final = frozenset(
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
"""Errors after which the same question may get another answer."""


_WORDS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
}
"""For codes that come without a message."""


class AdminError(Exception):
    """The cluster refused; `code` is Kafka's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check(code: ErrorCode, message: str | None, what: str) -> None:
    """Raises `AdminError` unless the code is `NONE`; `what` is what was asked for."""
    if code is not ErrorCode.NONE:
        text = message or _WORDS.get(code, "refused")
        raise AdminError(code, f"{what}: {text} ({code.name})")


def request_type(key: ApiKey) -> Any:
    """The entity class of the version that is used."""
    return codec.request_class(key, VERSIONS[key])


def request(key: ApiKey, **values: object) -> Any:
    """A request entity of the version that is used."""
    return make(request_type(key), **values)


def _ping() -> Any:
    return request(
        ApiKey.DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=False,
        endpoint_type=1,
        include_fenced_brokers=False,
    )


def parse_address(text: str) -> Address:
    """`host:port` as a pair; raises `UsageError`."""
    host, separator, port = text.strip().rpartition(":")
    if not (separator and host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"`{text}` is no `host:port`", "write it like `localhost:9092`")
    return host.strip("[]"), int(port)


class Asking:
    """Connections to the nodes of one cluster, and the ways of asking them."""

    def __init__(self, bootstrap: Sequence[str], timeout_s: float) -> None:
        # Where to ask what any broker can answer, in this order.
        self._bootstrap = [parse_address(item) for item in bootstrap]
        # How long one question may take, retries included.
        self.timeout_s = timeout_s
        # One open connection per address.
        self._connections: dict[Address, NodeConnection] = {}

    def close(self) -> None:
        """Ends all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def until_done(
        self,
        request: Any,
        result_of: Callable[[Any], Any],
        what: str,
        *,
        done_before: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Asks for a change until its one result is no passing error; raises `AdminError` for what
        stays. A change may take its time, so it is asked of a node that is known to answer. Asked
        again after a passing error it may turn out to be made: `done_before` says so."""
        deadline = Deadline(self.timeout_s)
        if len(self._bootstrap) > 1:
            self.any(_ping())
        fine = {ErrorCode.NONE}
        while True:
            result = result_of(self.any(request, attempt_s=self.timeout_s))
            code = error_of(result.error_code)
            if code in fine:
                return
            if code not in PASSING or deadline.passed():
                check(code, result.error_message, what)
            fine.add(done_before)
            time.sleep(POLL_S)

    def any(self, request: Any, *, attempt_s: float = ATTEMPT_S) -> Any:
        """The answer of the first broker that gives one within `attempt_s`; who does not is asked
        last from then on. Raises `Unreachable` at the deadline."""
        deadline = Deadline(self.timeout_s)
        while True:
            failures = []
            for address in list(self._bootstrap):
                try:
                    return self.node(
                        address, request, max(POLL_S, min(attempt_s, deadline.left_s()))
                    )
                except Unreachable as error:
                    failures.append(error)
                    self._bootstrap.remove(address)
                    self._bootstrap.append(address)
            if deadline.passed():
                raise Unreachable("; ".join(map(str, failures)))
            time.sleep(POLL_S)

    def perhaps(self, request: Any) -> Any | None:
        """The answer of the broker that answered last, if it gives one within one attempt: for what
        is good to know and not worth waiting for."""
        try:
            return self.node(self._bootstrap[0], request, min(ATTEMPT_S, self.timeout_s))
        except Unreachable:
            return None

    def node(self, address: Address, request: Any, timeout_s: float | None = None) -> Any:
        """The answer of one node; raises `Unreachable`."""
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        return self.guarded(address, lambda c: c.call(request, timeout_s))

    def guarded(self, address: Address, call: Callable[[NodeConnection], T]) -> T:
        """Uses the connection to a node, which ends when the call fails."""
        if address not in self._connections:
            self._connections[address] = NodeConnection(*address, min(ATTEMPT_S, self.timeout_s))
        try:
            return call(self._connections[address])
        except Unreachable:
            # Half an answer may still be on its way: the connection is of no more use.
            self._connections.pop(address).close()
            raise
