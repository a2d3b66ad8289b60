"""An S3 server: moto's, in a process of its own, because delta-rs may hold Python's lock while it
waits. Requests run one after the other, so that its conditional puts are as atomic as S3's.

A test may have the server refuse requests, lose an answer, or kill who asked (`Rule`).
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import count
from typing import Any
from urllib.request import Request, urlopen

from werkzeug.wrappers import Response

SECRET = "a-secret-that-nothing-prints"
COMMITS = r"PUT .*{}/_delta_log/\d+\.json"
"""The requests that commit to a table."""
_RULES = "/_rules"


@dataclass(frozen=True)
class Rule:
    """What becomes of the next requests of a kind."""

    pattern: str
    """Matches method and path of a request, whole."""
    code: str = ""
    """How S3 names the error with which it is answered; none with ""."""
    status: int = 503
    is_done: bool = False
    """Whether the request is carried out before."""
    kills: int = 0
    """The process that is killed before it gets the answer; none with 0."""
    times: int = 1 << 30


class S3Server:
    """The running server, from the side of the test."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.s3_server"]
        # It ends when its standard input does: a test process that is killed leaves none.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()
        self._numbers = count()
        self._send("/lake", b"")

    @property
    def options(self) -> dict[str, str]:
        """How delta-rs reaches it; with few retries, as tests make it fail."""
        return {
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "tests",
            "aws_secret_access_key": SECRET,
            "max_retries": "2",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables, as far as there are any."""
        return {name.upper(): text for name, text in self.options.items() if "aws_" in name}

    def place(self) -> str:
        """An address that nothing uses, in a bucket that is there."""
        return f"s3://lake/table-{next(self._numbers)}"

    @contextmanager
    def obeying(self, rule: Rule) -> Iterator[None]:
        """Requests obey the rule meanwhile."""
        self._send(_RULES, json.dumps([asdict(rule)]).encode())
        try:
            yield
        finally:
            self._send(_RULES, b"[]")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, path: str, body: bytes) -> None:
        urlopen(Request(self.endpoint + path, body, method="PUT")).close()


class _Application:
    """The server's side."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._rules: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        with self._lock:
            if environ["PATH_INFO"] == _RULES:
                self._rules = json.loads(body)
                return Response()(environ, start)
            return self._answer(environ)(environ, start)

    def _answer(self, environ: dict[str, Any]) -> Response:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        for rule in self._rules:
            if rule["times"] and re.fullmatch(rule["pattern"], request):
                rule["times"] -= 1
                done = self._served(environ) if rule["is_done"] else None
                if rule["kills"]:
                    os.kill(rule["kills"], signal.SIGKILL)
                if rule["code"] or done is None:
                    text = f"<Error><Code>{rule['code']}</Code><Message>no</Message></Error>"
                    return Response(text, rule["status"], content_type="application/xml")
                return done
        return self._served(environ)

    def _served(self, environ: dict[str, Any]) -> Response:
        from werkzeug.test import run_wsgi_app

        body, status, headers = run_wsgi_app(self._app, environ)
        served = Response(list(body), status, headers)
        # The answer to HEAD has the size of what it does not bring.
        served.automatically_set_content_length = False
        return served


def _serve() -> None:
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    class Handler(MotoRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    server = make_server("127.0.0.1", 0, _Application(), threaded=True, request_handler=Handler)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
