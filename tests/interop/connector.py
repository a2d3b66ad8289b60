"""Spark's official Kafka connector as seen from a test: a process that gets commands.

The connector was built for an older pyspark than the project's own, so it runs in a virtual
environment of its own (`prepare`), where `connector_worker` reads the commands. Nothing of Tidelog
is in that process.
"""

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.interop.prepare import CONNECTOR_JARS, CONNECTOR_PYTHON
from tidelog.pipeline.spark.java import find_java, make_java_home
from tidelog.testing.waiting import wait_until

STREAM_TIMEOUT_S = 300
ANSWER_TIMEOUT_S = 600
STOP_TIMEOUT_S = 30
LOG_LINES = 40


class ConnectorError(Exception):
    """Spark failed at a command; with its error."""


class Connector:
    """A Spark with the connector. Use it in a `with` block."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # Spark's output besides its answers.
        self.log_file = directory / "connector.log"
        make_java_home(find_java(os.environ), directory / "java")
        jars = sorted(str(jar) for jar in CONNECTOR_JARS.glob("*.jar"))
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [CONNECTOR_PYTHON, Path(__file__).with_name("connector_worker.py"), *jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={
                    **os.environ,
                    "JAVA_HOME": str(directory / "java"),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYSPARK_PYTHON": str(CONNECTOR_PYTHON),
                },
                cwd=directory,
            )
        self._answer()

    def __enter__(self) -> "Connector":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def do(self, what: str, **arguments: Any) -> Any:
        """The answer to one command. Raises `ConnectorError` with Spark's error."""
        assert self._process.stdin is not None
        print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def wait_for_rows(self, stream: str, rows: int) -> Mapping[str, Any]:
        """Waits until a stream has brought so many rows, and returns what it brought.

        Fails at once when the stream has died.
        """
        seen: dict[str, Any] = {}

        def arrived() -> bool:
            seen.update(self.do("look", name=stream))
            assert seen["failure"] is None, seen["failure"]
            return int(seen["rows"]) >= rows

        wait_until(arrived, STREAM_TIMEOUT_S, f"{rows} rows of `{stream}`", last_seen=lambda: seen)
        return seen

    def wait_for_end(self, stream: str) -> None:
        """Waits until a stream that has an end has ended well."""

        def ended() -> bool:
            seen = self.do("look", name=stream)
            assert seen["failure"] is None, seen["failure"]
            return not seen["active"]

        wait_until(ended, STREAM_TIMEOUT_S, f"end of `{stream}`")

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        patience = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        patience.start()
        line = self._process.stdout.readline()
        patience.cancel()
        if not line:
            end = self.log_file.read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise ConnectorError("the process has ended; the end of its log:\n" + "\n".join(end))
        answer = json.loads(line)
        if "error" in answer:
            raise ConnectorError(answer["error"])
        return answer["result"]
