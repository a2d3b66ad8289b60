"""One broker of the two: a connection for each slot, and what is under way on it."""

import socket
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from tests.differential.steps import Answers, Step, resolve
from tests.long_texts import MARK, encode_long_request
from tidelog.errors import MalformedFrame
from tidelog.limits import MAX_TEXT_BYTES
from tidelog.wire import codec
from tidelog.wire.api import ApiKey, VersionRange
from tidelog.wire.entities import make, plain
from tidelog.wire.frames import FrameReader

CLOSED: Final = "the connection was closed"
_RAW_HEADER: Final = Struct(">ihhih")
CONNECT_S: Final = 5
ANSWER_S: Final = 60
API_VERSIONS_VERSION: Final = 4


class Side:
    """See the module's docstring."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._sockets: dict[int, socket.socket] = {}
        self._readers: dict[int, FrameReader] = {}
        # The request that each slot waits for, with what its answer is decoded by.
        self.under_way: dict[int, Step] = {}
        # What was answered in this run, by step.
        self.answers: dict[int, Any] = {}

    def begin(self) -> None:
        """Forgets the last run; a connection that still waits for something is ended."""
        for slot in list(self.under_way):
            self.end(slot)
        self.under_way.clear()
        self.answers.clear()

    def close(self) -> None:
        """Ends all connections."""
        for slot in list(self._sockets):
            self.end(slot)

    def versions(self) -> dict[int, VersionRange]:
        """What the broker says that it serves."""
        body = {"client_software_name": "differential", "client_software_version": "1"}
        answer = self.ask(Step(0, 0, int(ApiKey.API_VERSIONS), API_VERSIONS_VERSION, body))
        return {
            int(row["api_key"]): VersionRange(row["min_version"], row["max_version"])
            for row in answer["api_keys"]
        }

    def ask(self, step: Step, prefix: str = "") -> Any:
        """The answer to a request that is not a step of a run."""
        self.send(step, prefix)
        while step.slot in self.under_way:
            self.receive(step.slot)
        return self.answers.pop(step.number)

    def send(self, step: Step, prefix: str) -> None:
        """Sends a step's request; its slot must not wait."""
        assert step.slot not in self.under_way
        framed = encoded(step, self.answers, prefix)
        if step.slot not in self._sockets:
            connection = socket.create_connection(self._address, CONNECT_S)
            connection.settimeout(ANSWER_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[step.slot] = connection
            self._readers[step.slot] = FrameReader()
        self.under_way[step.slot] = step
        try:
            self._sockets[step.slot].sendall(framed)
        except OSError:
            self._ended(step.slot)

    def waiting_sockets(self) -> dict[socket.socket, int]:
        """Connections that wait for an answer, and their slots."""
        return {self._sockets[slot]: slot for slot in self.under_way}

    def receive(self, slot: int) -> None:
        """Takes what has arrived on a connection; a whole answer goes to `answers`."""
        try:
            data = self._sockets[slot].recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._ended(slot)
            return
        for frame in self._readers[slot].feed(data):
            step = self.under_way.pop(slot)
            self.answers[step.number] = _decoded(step, frame)

    def _ended(self, slot: int) -> None:
        self.answers[self.under_way.pop(slot).number] = CLOSED
        self.end(slot)

    def end(self, slot: int) -> None:
        """Ends one connection."""
        self._sockets.pop(slot).close()
        self._readers.pop(slot)


def encoded(step: Step, answers: Answers, prefix: str) -> bytes:
    """The bytes of a request; a step without a body is a header that nothing follows."""
    if not step.body:
        return _RAW_HEADER.pack(10, step.key, step.version, step.number, 0)
    too_long: list[str] = []
    body = _marked(resolve(step.body, answers, prefix), too_long)
    entity = make(codec.request_class(step.key, step.version), **body)
    return encode_long_request(
        entity, step.number, f"client-{step.slot}", too_long[0] if too_long else ""
    )


def _marked(value: Any, too_long: list[str]) -> Any:
    """The value with `MARK` for a text that our codec does not write, of which there is one."""
    if isinstance(value, str) and len(value) > MAX_TEXT_BYTES:
        too_long.append(value)
        return MARK
    if isinstance(value, Mapping):
        return {name: _marked(each, too_long) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_marked(each, too_long) for each in value)
    return value


def _decoded(step: Step, frame: memoryview) -> Any:
    version = step.version
    if step.key == ApiKey.API_VERSIONS and version > API_VERSIONS_VERSION:
        version = 0
    try:
        _, entity = codec.decode_response(ApiKey(step.key), version, frame)
    except MalformedFrame as error:
        return f"an answer that cannot be read: {error}"
    return plain(entity)
