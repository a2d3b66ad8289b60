"""One blocking TCP connection to one broker, for jobs that read.

A Spark task is a process of its own that does one thing after another, so this is plain blocking
code: no event loop, no threads. Requests may be pipelined: `send` several, then `receive` the
answers in the same order, which is how a reader has the next fetch under way while it decodes.

After any exception the connection is of no use; close it. Source: the Kafka protocol guide.
"""

import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_REQUEST_BYTES
from tidelog.pipeline.errors import ClusterUnavailable
from tidelog.pipeline.values import Address
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decode_response, encode_request, request_class
from tidelog.wire.entities import make

CLIENT_ID: Final = "tidelog-pipeline"

OUR_VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.FETCH: 17,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
}
"""The newest version of each API that the pipeline speaks."""

_API_VERSIONS_VERSION: Final = 0
"""Every broker serves it, and its answer says all that a reader needs."""
_LENGTH: Final = struct.Struct(">i")


class BrokerConnection:
    """A connection over which the broker's API versions are already known."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        # For messages, and to connect again.
        self.address = address
        # The number of the last request sent; answers come back in the same order.
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, timeout_s)
        except OSError as error:
            raise ClusterUnavailable(f"broker `{address}` cannot be reached: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # API key -> newest version that the broker serves.
        self._broker_versions = self._ask_versions()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket; may be called again."""
        self._socket.close()

    def version_of(self, api_key: ApiKey) -> int:
        """The version to speak: the newest that both sides know.

        Raises `ClusterUnavailable` when the broker does not serve the API at all.
        """
        if not self.serves(api_key):
            raise ClusterUnavailable(f"broker `{self.address}` does not serve {api_key.name}")
        return min(OUR_VERSIONS[api_key], self._broker_versions[api_key])

    def serves(self, api_key: ApiKey) -> bool:
        """Whether the broker serves the API in any version."""
        return api_key in self._broker_versions

    def next_correlation_id(self) -> int:
        """The number for a request that is packed elsewhere and passed to `send`."""
        self._correlation_id += 1
        return self._correlation_id

    def ask(self, entity: Any) -> Any:
        """Sends a request entity and waits for its answer. Nothing else may be under way."""
        self.send(encode_request(entity, self.next_correlation_id(), CLIENT_ID))
        _, answer = decode_response(ApiKey(entity.__api_key__), entity.__version__, self.receive())
        return answer

    def send(self, request: bytes) -> None:
        """Sends a request with its length prefix. Raises `ClusterUnavailable`."""
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> memoryview:
        """The next answer, without its length prefix. Raises `ClusterUnavailable`."""
        length: int = _LENGTH.unpack(self._receive_exactly(_LENGTH.size))[0]
        if not 0 < length <= MAX_REQUEST_BYTES:
            raise MalformedFrame(f"broker `{self.address}` answered with {length} bytes")
        return self._receive_exactly(length)

    def _receive_exactly(self, length: int) -> memoryview:
        view = memoryview(bytearray(length))
        filled = 0
        try:
            while filled < length:
                received = self._socket.recv_into(view[filled:])
                if received == 0:
                    raise ConnectionError("closed by the broker")
                filled += received
        except OSError as error:
            raise self._lost(error) from error
        return view

    def _lost(self, error: OSError) -> ClusterUnavailable:
        return ClusterUnavailable(f"lost the connection to broker `{self.address}`: {error}")

    def _ask_versions(self) -> dict[int, int]:
        request_type = request_class(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION)
        answer = self.ask(make(request_type))
        return {int(api.api_key): int(api.max_version) for api in answer.api_keys}
