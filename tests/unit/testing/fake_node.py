"""A tiny wire server for the client's tests: it answers each API from a table.

It speaks real frames through the real codec; what it answers is given by the test.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.wire import codec
from tidelog.wire.api import ApiKey, RequestHeader, parse_header

Answer = Callable[[Any], Any]
"""From a request entity to a response entity, bytes to send as they are, or `None` to hang up."""


class ScriptedNode:
    """Listens on a free port and answers until it is closed."""

    def __init__(self, answers: dict[ApiKey, Answer]) -> None:
        self.answers = answers
        self.requests: list[Any] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self._sockets.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        reader = sock.makefile("rb")
        while prefix := reader.read(4):
            frame = reader.read(int.from_bytes(prefix, "big"))
            header, body = parse_header(frame)
            answer = self._answer(header, frame, body)
            if answer is None:
                sock.close()
                return
            sock.sendall(answer)

    def _answer(self, header: RequestHeader, frame: bytes, body: int) -> bytes | None:
        answer = self.answers.get(header.api_key)
        if answer is None:
            return None
        if header.api_key is ApiKey.FETCH:
            self.requests.append(frame)
            result = answer((header, frame, body))
        else:
            request = codec.decode_request(header, frame, body)
            self.requests.append(request)
            result = answer(request)
        if result is None or isinstance(result, bytes):
            return result
        return codec.encode_response(header, result)

    def close(self) -> None:
        """Ends it and every connection."""
        # Wakes the thread that accepts, which a close alone does not.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for sock in self._sockets:
            sock.close()


@contextmanager
def scripted_node(answers: dict[ApiKey, Answer]) -> Iterator[ScriptedNode]:
    """A node for the time of a test."""
    node = ScriptedNode(answers)
    try:
        yield node
    finally:
        node.close()
