"""Apache Kafka's own command line tools, as a user runs them: one Java process a call."""

import os
import subprocess
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

    def run(self, tool: str, *arguments: str, option: str = "--bootstrap-server") -> str:
        """The output of a tool that succeeded; `option` is the one that names the cluster."""
        return run_tool(tool, option, self.bootstrap_servers, *arguments)


def run_tool(tool: str, *arguments: str, jars: Path = KAFKA_JARS) -> str:
    """What a tool printed; a name without dots is one of `org.apache.kafka.tools`."""
    name = tool if "." in tool else f"org.apache.kafka.tools.{tool}"
    done = subprocess.run(
        java_command(name, *arguments, jars=jars),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{tool} {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def java_command(
    name: str, *arguments: str, options: Sequence[str] = SHORT_LIVED, jars: Path = KAFKA_JARS
) -> list[str]:
    """How a class of Apache Kafka is started, with these options of Java."""
    java = str(find_java(os.environ).executable)
    return [java, *options, QUIET, "-cp", f"{jars}/*", name, *arguments]
