"""One connection as a state: calls become bytes to send, bytes that arrive become answers.

A shell owns the socket. It sends what `greeting` gives until that is `None`, then what `send`
gives; it receives into `buffer` and reports how much to `received`, which returns each frame when
its last byte is there. `answer` decodes the frame. Calls may be pipelined: several are sent, then
as many answers come, in the same order. An answer of many megabytes is received into its place, and
nothing is copied.

The greeting asks for the API versions that the broker serves (KIP-35), in version 0, which every
broker answers. Where the listener asks for a login, the client logs in then.

After any `Unreachable` the connection is of no use. Source: the Kafka protocol guide.
"""

from collections import deque
from dataclasses import replace
from itertools import count
from struct import Struct
from typing import Any, Final

from tidelog.client.core.calls import Call, request
from tidelog.client.core.errors import AuthenticationFailed, Unreachable
from tidelog.client.core.values import Address
from tidelog.errors import MalformedFrame
from tidelog.security.client_login import ClientLogin, LoginRefused
from tidelog.wire.api import ApiKey, VersionRange

MAX_ANSWER_BYTES: Final = 256 << 20
_LENGTH: Final = Struct(">i")


_API_VERSIONS: Final = replace(request(ApiKey.API_VERSIONS), newest=0)


class Exchange:
    """The state of one connection: its calls under way, and the frame that is being received."""

    def __init__(self, address: Address, client_id: str, login: ClientLogin | None = None) -> None:
        # Where the connection leads, for messages.
        self.address = address
        # The name that requests carry.
        self._client_id = client_id
        self._correlation_ids = count(1)
        # What was sent and not answered, the oldest first: correlation id, call, version.
        self._under_way: deque[tuple[int, Call[Any], int]] = deque()
        # What the broker serves by API key; `None` before it has answered.
        self._served: dict[int, VersionRange] | None = None
        # The login that is to come or under way; `None` when it is over, or there is none.
        self._login = login
        # Its next request, framed.
        self._login_request = b"" if login is None else login.start()
        # The answer that is being received, or the four bytes of its length.
        self._incoming = memoryview(bytearray(_LENGTH.size))
        # Bytes received so far, and whether we read the length or the body.
        self._received_bytes = 0
        self._in_length = True

    # Requests --------------------------------------------------------------------------------

    def greeting(self) -> bytes | None:
        """The next request that goes before all calls; `None` when calls may be sent."""
        if self._served is None:
            return self._framed(_API_VERSIONS, _API_VERSIONS.newest)
        return None if self._login is None else self._login_request

    def serves(self, key: ApiKey) -> bool:
        """Whether the broker serves the API in any version."""
        assert self._served is not None, "asked before the greeting"
        return key in self._served

    def send(self, call: Call[Any]) -> bytes:
        """The bytes of a call, in the newest version that both sides know. Raises `Unreachable`
        for an API that the broker does not serve."""
        assert self._served is not None, "a call before the greeting"
        served = self._served.get(call.key)
        if served is None or served.min_version > call.newest:
            raise self._failed(f"does not serve {call.key.name}")
        return self._framed(call, min(call.newest, served.max_version))

    def _framed(self, call: Call[Any], version: int) -> bytes:
        correlation_id = next(self._correlation_ids)
        framed = call.encode(version, correlation_id, self._client_id)
        self._under_way.append((correlation_id, call, version))
        return framed

    # Answers ---------------------------------------------------------------------------------

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty, never beyond one answer."""
        return self._incoming[self._received_bytes :]

    def received(self, count_bytes: int) -> memoryview | None:
        """So many bytes were put into `buffer`, 0 for the end of the stream; the frame that is now
        complete. Raises `Unreachable`."""
        if count_bytes == 0:
            raise self._failed("closed the connection")
        self._received_bytes += count_bytes
        if self._received_bytes < len(self._incoming):
            return None
        complete, self._received_bytes = self._incoming, 0
        self._in_length = not self._in_length
        if self._in_length:
            self._incoming = memoryview(bytearray(_LENGTH.size))
            return complete
        (length,) = _LENGTH.unpack(complete)
        if not 0 < length <= MAX_ANSWER_BYTES:
            raise self._failed(f"answered with a frame of {length} bytes")
        self._incoming = memoryview(bytearray(length))
        return None

    def answer(self, frame: memoryview) -> Any:
        """The answer to the oldest call that has none. Raises `Unreachable`."""
        if self._login is not None and not self._under_way:
            self._on_login_answer(self._login, frame)
            return None
        assert self._under_way, "an answer to nothing"
        correlation_id, call, version = self._under_way.popleft()
        try:
            answered_id, answer = call.decode(version, frame)
        except MalformedFrame as error:
            raise self._failed(f"answered with a bad frame: {error}") from None
        if answered_id != correlation_id:
            raise self._failed(f"answered request {answered_id}, not {correlation_id}")
        if call is _API_VERSIONS:
            self._served = {
                int(row.api_key): VersionRange(int(row.min_version), int(row.max_version))
                for row in answer.api_keys
            }
        return answer

    def _on_login_answer(self, login: ClientLogin, frame: memoryview) -> None:
        try:
            request = login.on_frame(frame)
        except LoginRefused as refused:
            raise AuthenticationFailed(
                f"broker `{self.address}` and this client do not accept each other: {refused}",
                "check the name, the password and the mechanism; the broker's log has the reason",
            ) from None
        except MalformedFrame as error:
            raise self._failed(f"answered with a bad frame: {error}") from None
        if request is None:
            self._login = None
        else:
            self._login_request = request

    def _failed(self, what: str) -> Unreachable:
        return Unreachable(f"broker `{self.address}` {what}")
