"""The Java process of a session, started before pyspark is imported.

pyspark starts Java when it is asked for a session, and waits. Java takes a second to be there, and
Python takes most of one to import pyspark and, with the first value that it hands to Java, pandas
(Spark 4.3): so Java is started first, and Python imports meanwhile. Which command that is, is left
to Spark's own script; pyspark is told of the running process as `spark-submit` tells a Python
program, by `PYSPARK_GATEWAY_PORT` and `PYSPARK_GATEWAY_SECRET`.

The process ends when its stdin closes, so it does not outlive Python, however that ends.
"""

import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.pipeline.spark.java import spark_home

_CONNECTION_FILE: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable by which Spark's gateway is told where to say how it is reached."""
_LENGTH: Final = struct.Struct(">i")
_POLL_S: Final = 0.01


class NoGateway(Exception):
    """Java ended before it could be reached; what it had to say went to stderr."""


class Gateway:
    """A Java process that will be, or is, Spark's driver for this Python."""

    def __init__(self, conf: Mapping[str, str], environ: Mapping[str, str]) -> None:
        # Where the process says how it is reached; gone once that was read.
        self._place = Path(tempfile.mkdtemp(prefix="tidelog-gateway-"))
        self._told = self._place / "connection"
        command = [str(spark_home(environ) / "bin" / "spark-submit")]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        command += shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        # Its stdin is the sign that this Python lives.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**environ, "SPARK_CONNECT_MODE": "0", _CONNECTION_FILE: str(self._told)},
            preexec_fn=_ignore_interrupts,
        )

    def variables(self) -> dict[str, str]:
        """What pyspark needs to know of the process, once that can be reached.

        Raises `NoGateway`.
        """
        try:
            while not self._told.is_file():
                if self.process.poll() is not None:
                    raise NoGateway(f"Java ended with code {self.process.returncode}")
                time.sleep(_POLL_S)
            told = self._told.read_bytes()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)
        port, length = _LENGTH.unpack_from(told)[0], _LENGTH.unpack_from(told, _LENGTH.size)[0]
        secret = told[2 * _LENGTH.size :]
        assert len(secret) == length, f"a secret of {len(secret)} bytes, not {length}"
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret.decode()}

    def end(self) -> None:
        """Ends the process and waits for it."""
        shutil.rmtree(self._place, ignore_errors=True)
        self.process.kill()
        self.process.communicate()


def is_given(environ: Mapping[str, str]) -> bool:
    """Whether somebody else started Java for this Python."""
    return "PYSPARK_GATEWAY_PORT" in environ


def _ignore_interrupts() -> None:
    # Ctrl-C is Python's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
