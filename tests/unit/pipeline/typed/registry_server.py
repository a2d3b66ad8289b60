"""A schema registry for tests: a small server of ours that speaks the REST interface of Confluent's
as far as readers use it. It is not a mock: the client asks it through a socket."""

import base64
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from google.protobuf import descriptor_pb2


class RegistryServer:
    """Schemas by subject; ids count up from 1."""

    def __init__(self) -> None:
        # By id, and the ids of each subject in the order of their versions.
        self.schemas: list[dict] = []
        self.subjects: dict[str, list[int]] = {}
        # Paths that were asked for, and what it answers to all of them, if it is broken, or to
        # those of a part of its interface.
        self.asked: list[str] = []
        self.broken: int | None = None
        self.broken_part = ""
        self.authorization: str | None = None
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def register(self, subject: str, schema: object, references: Iterable[dict] = ()) -> int:
        """An Avro schema, or a file descriptor; the id."""
        if isinstance(schema, descriptor_pb2.FileDescriptorProto):
            text = base64.b64encode(schema.SerializeToString()).decode()
            found = {"schema": text, "schemaType": "PROTOBUF"}
        else:
            found = {"schema": json.dumps(schema)}
        self.schemas.append(found | {"references": list(references)})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, object]:
        self.asked.append(path)
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if self.broken is not None and path.strip("/").startswith(self.broken_part):
            return self.broken, {"error_code": self.broken * 100, "message": "broken"}
        if parts[:2] == ["schemas", "ids"] and 0 < int(parts[2]) <= len(self.schemas):
            return 200, self.schemas[int(parts[2]) - 1]
        versions = self.subjects.get(parts[1], []) if parts[0] == "subjects" else []
        number = len(versions) if parts[-1] == "latest" else int(parts[-1])
        if 0 < number <= len(versions):
            return 200, self.schemas[versions[number - 1] - 1]
        return 404, {"error_code": 40403, "message": "not found"}


class _Handler(BaseHTTPRequestHandler):
    registry: RegistryServer

    def do_GET(self) -> None:
        self.registry.authorization = self.headers["Authorization"]
        status, answer = self.registry.answer(self.path)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A running one."""
    server = RegistryServer()
    try:
        yield server
    finally:
        server.close()


def framed(number: int, value: bytes) -> bytes:
    """A value with the id of its schema before it."""
    return b"\0" + number.to_bytes(4) + value
