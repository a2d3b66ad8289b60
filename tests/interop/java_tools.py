"""Apache Kafka's own command line tools, as a user runs them: one Java process a call."""

import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.prepare import KAFKA_JARS
from tidelog.pipeline.spark.java import find_java

TIMEOUT_S = 120
# A tool runs for a second or two.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


@dataclass(frozen=True)
class JavaTools:
    """The tools, pointed at one cluster."""

    bootstrap_servers: str

    def run(
        self, tool: str, *arguments: str, option: str = "--bootstrap-server", given: str = ""
    ) -> str:
        """The output of a tool that succeeded; `option` is the one that names the cluster, and what
        is `given` goes to its input."""
        return run_tool(tool, option, self.bootstrap_servers, *arguments, given=given)

    def run_verb(self, tool: str, verb: str, *arguments: str) -> str:
        """The same, of a tool whose verb stands before the cluster."""
        return run_tool(tool, verb, "--bootstrap-server", self.bootstrap_servers, *arguments)

    def watch(self, tool: str, *arguments: str, until: str, option: str) -> str:
        """The first line with these words of a tool that never ends; it is ended then."""
        command = java_command(_class_of(tool), option, self.bootstrap_servers, *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            timer = threading.Timer(TIMEOUT_S, process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                return next((line for line in process.stdout if until in line), "")
            finally:
                timer.cancel()
                process.kill()


def run_tool(tool: str, *arguments: str, jars: Path = KAFKA_JARS, given: str = "") -> str:
    """What a tool printed; a name without dots is one of `org.apache.kafka.tools`."""
    done = subprocess.run(
        java_command(_class_of(tool), *arguments, jars=jars),
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{tool} {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _class_of(tool: str) -> str:
    return tool if "." in tool else f"org.apache.kafka.tools.{tool}"


def java_command(
    name: str,
    *arguments: str,
    options: Sequence[str] = SHORT_LIVED,
    jars: Path = KAFKA_JARS,
    beside: Sequence[str] = (),
) -> list[str]:
    """How a class of Apache Kafka is started, with these options of Java, or one that is on the
    class path `beside` the jars."""
    java = str(find_java(os.environ).executable)
    return [java, *options, QUIET, "-cp", ":".join([f"{jars}/*", *beside]), name, *arguments]
