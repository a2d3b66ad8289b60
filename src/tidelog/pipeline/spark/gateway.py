"""The Java process of a session, started before pyspark is imported.

pyspark starts Java when it is asked for a session, and waits. Java takes a second to be there, and
Python takes most of one to import pyspark and, with the first value that it hands to Java, pandas
(Spark 4.3): so Java is started first, and Python imports meanwhile. Spark's own script makes the
command. pyspark finds the running process by `PYSPARK_GATEWAY_PORT` and `PYSPARK_GATEWAY_SECRET`,
as a Python program under `spark-submit` does.

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
"""The variable that names the file into which Spark's gateway writes its port and secret."""
_LENGTH: Final = struct.Struct(">i")
_POLL_S: Final = 0.01
_END_S: Final = 20.0
_ENDED_BY: Final = 128
"""What a shell, and Java itself, add to the number of the signal that ended them."""


class NoGateway(Exception):
    """Java ended before it could be reached; its messages went to stderr."""


class Gateway:
    """A Java process that will be, or is, Spark's driver for this Python."""

    def __init__(self, conf: Mapping[str, str], environ: Mapping[str, str]) -> None:
        # The directory of the file with port and secret; deleted once that was read.
        self._place = Path(tempfile.mkdtemp(prefix="tidelog-gateway-"))
        self._connection_file = self._place / "connection"
        file = str(self._connection_file)
        command = [str(spark_home(environ) / "bin" / "spark-submit")]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        command += shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        # Its stdin closes when this Python ends, however that ends.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**environ, "SPARK_CONNECT_MODE": "0", _CONNECTION_FILE: file},
            # Python handles Ctrl-C, and what else is sent to the whole group of processes.
            start_new_session=True,
        )

    def variables(self) -> dict[str, str]:
        """The variables by which pyspark finds the process; waits until it can be reached. Raises
        `NoGateway`."""
        try:
            while not self._connection_file.is_file():
                if self.process.poll() is not None:
                    raise NoGateway(f"Java ended with code {self.process.returncode}")
                time.sleep(_POLL_S)
            data = self._connection_file.read_bytes()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)
        port, length = _LENGTH.unpack_from(data)[0], _LENGTH.unpack_from(data, _LENGTH.size)[0]
        secret = data[2 * _LENGTH.size :]
        assert len(secret) == length, f"a secret of {len(secret)} bytes, not {length}"
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret.decode()}

    def end(self) -> None:
        """Ends the process and waits for it."""
        shutil.rmtree(self._place, ignore_errors=True)
        self.process.kill()
        self.process.communicate()


def end_java(process: "subprocess.Popen[bytes]") -> None:
    """Ends Java in the middle of a job, and waits until it has removed its files, but not long."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def why_ended(process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    """Why a Java process that is gone has ended, by its exit code, and what to do."""
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        return "does not answer", "look at the machine's load, and run it again"
    if code in (-signal.SIGTERM, _ENDED_BY + signal.SIGTERM):
        return "was ended by SIGTERM", "run it again; nothing that was committed is lost"
    if code in (-signal.SIGKILL, _ENDED_BY + signal.SIGKILL):
        return (
            "was killed (SIGKILL)",
            "run it again; if the system was out of memory, with less: "
            "`--conf spark.driver.memory=512m`, or fewer cores in `--master`",
        )
    return f"ended with code {code}", "run it again, with more memory if its log says so"


def is_given(environ: Mapping[str, str]) -> bool:
    """Whether another process, such as `spark-submit`, started Java for this Python."""
    return "PYSPARK_GATEWAY_PORT" in environ
