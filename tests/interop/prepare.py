"""What `make interop` needs and the project does not bring: foreign clients, each in its own place.

    python -m tests.interop.prepare

makes, below `build/interop/`:

- `jars/kafka`, `jars/connector` and `jars/streams`, by Maven, as `jars.xml` lists them;
- `venv`, with the pyspark that the connector was built for; it is older than the project's own;
- `java`, a program of ours with Apache Kafka's client, from `clients/`;
- `kafkajs` and `franz_go`, the same with the clients of Node and Go, where Node and Go are.

Each part is made once and remade when what it was made from has changed: a stamp file holds the
reason. A part that failed leaves no stamp. Maven and kcat are Debian packages; where they are
missing and this process may install packages, it does. Without kcat, Node or Go the tests of their
clients are left out and a line says so, since they are a convenience; without Maven there is
nothing to test.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError
from tidelog.pipeline.spark.java import find_java

HERE: Final = Path(__file__).parent
PLACE: Final = HERE.parent.parent / "build" / "interop"
KAFKA_JARS: Final = PLACE / "jars" / "kafka"
CONNECTOR_JARS: Final = PLACE / "jars" / "connector"
STREAMS_JARS: Final = PLACE / "jars" / "streams"
CONNECTOR_PYTHON: Final = PLACE / "venv" / "bin" / "python"
CLIENTS: Final = HERE / "clients"
JAVA: Final = PLACE / "java"
KAFKAJS: Final = PLACE / "kafkajs"
FRANZ_GO: Final = PLACE / "franz_go"
GO_TEST: Final = ("go", "test", "-C", str(CLIENTS / FRANZ_GO.name))
FRANZ_GO_PACKAGE: Final = "github.com/twmb/franz-go/pkg/kgo"
KAFKA_VERSION: Final = "4.3.1"
_VERSION: Final = "<kafka.version>{}</kafka.version>"
PYSPARK: Final = "pyspark==4.0.0"
_INSTALL_TIMEOUT_S: Final = 120
_DOWNLOAD_TIMEOUT_S: Final = 600
_OUTPUT_LINES: Final = 15


def main() -> int:
    """Makes what is missing; 2 with a message and a hint when something cannot be made."""
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        _have_programs()
        with ThreadPoolExecutor() as pool:
            made = (make_java, make_venv, make_kafkajs, make_franz_go)
            for part in [pool.submit(make) for make in made]:
                part.result()
    except UsageError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return 2
    return 0


def make_jars() -> None:
    """Apache Kafka's jars, and those of the connector and of Kafka Streams."""
    source = HERE / "jars.xml"

    def make() -> None:
        shutil.rmtree(PLACE / "jars", ignore_errors=True)
        pom = shutil.copy(source, PLACE / "pom.xml")
        _run(
            ["mvn", "--quiet", "--batch-mode", "--file", str(pom), "generate-resources"],
            "Maven does not fetch the jars",
            "Maven needs a repository: look whether its settings and the network allow one",
        )

    _once("jars", source.read_text(), make)


def make_java() -> None:
    """All jars, and our program, compiled against Kafka's client by the Java that will run it."""
    make_jars()
    source = CLIENTS / JAVA.name

    def make() -> None:
        shutil.rmtree(JAVA, ignore_errors=True)
        compiler = ("--module", "jdk.compiler/com.sun.tools.javac.Main")
        client = next(KAFKA_JARS.glob("kafka-clients-*.jar"))
        where = ("-cp", str(client), "-d", str(JAVA))
        _run(
            [java, *compiler, *where, *map(str, sorted(source.glob("*.java")))],
            "Java does not compile the client",
            "install a JDK: this Java may have no compiler (module `jdk.compiler`)",
        )

    java = str(find_java(os.environ).executable)
    _once(JAVA.name, java + (HERE / "jars.xml").read_text() + _text_of(source), make)


def partner_jars(version: str) -> Path:
    """The jars of another version of Apache Kafka, fetched when they are missing; where they are.
    Its own binding of the logging interface is left out: nothing configures it."""
    place = PLACE / "partners" / version

    def make() -> None:
        shutil.rmtree(place, ignore_errors=True)
        pom = PLACE / f"pom-{version}.xml"
        text = (HERE / "jars.xml").read_text()
        pom.write_text(text.replace(_VERSION.format(KAFKA_VERSION), _VERSION.format(version)))
        goal = "dependency:copy-dependencies@kafka"
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), f"-Ddirectory={place}"]
        _run([*command, goal], f"Maven does not fetch Kafka {version}", "look at its settings")
        for jar in (place / "kafka").glob("slf4j-reload4j-*.jar"):
            jar.unlink()

    if version != KAFKA_VERSION:
        _once(f"partner-{version}", (HERE / "jars.xml").read_text(), make)
    return KAFKA_JARS if version == KAFKA_VERSION else place / "kafka"


def make_venv() -> None:
    """The virtual environment of the connector's pyspark."""

    def make() -> None:
        shutil.rmtree(PLACE / "venv", ignore_errors=True)
        _run(
            [sys.executable, "-m", "venv", str(PLACE / "venv")],
            "no virtual environment can be made",
            "install Python's `venv` module",
        )
        _run(
            [str(CONNECTOR_PYTHON), "-m", "pip", "install", "--quiet", PYSPARK],
            f"`{PYSPARK}` cannot be installed",
            "look whether pip reaches a package index",
        )

    _once("venv", PYSPARK + sys.version, make)


def make_kafkajs() -> None:
    """The client of Node, beside our program."""
    source = CLIENTS / KAFKAJS.name

    def make() -> None:
        shutil.rmtree(KAFKAJS, ignore_errors=True)
        shutil.copytree(source, KAFKAJS)
        _run(
            ["npm", "ci", "--no-audit", "--no-fund", "--prefix", str(KAFKAJS)],
            "npm does not fetch kafkajs",
            "look whether npm reaches a registry",
        )

    if shutil.which("npm") is not None:
        _once(KAFKAJS.name, _text_of(source), make)


def make_franz_go() -> None:
    """Our program with the client of Go in it; and the client's own tests are compiled."""
    source = CLIENTS / FRANZ_GO.name

    def make() -> None:
        own = ("go", "build", "-C", str(source), "-o", str(FRANZ_GO), ".")
        tests = (*GO_TEST, "-run=^$", FRANZ_GO_PACKAGE)
        for command in (own, tests):
            _run(command, "Go does not build it", "look whether Go reaches a module proxy")

    if shutil.which("go") is not None:
        _once(FRANZ_GO.name, _text_of(source), make)


def _text_of(directory: Path) -> str:
    return "".join(each.read_text() for each in sorted(directory.iterdir()) if each.is_file())


def _have_programs() -> None:
    if shutil.which("mvn") is None:
        _install_packages("maven", "default-jdk-headless")
    if shutil.which("kcat") is None:
        _install_packages("kcat")
    if shutil.which("mvn") is None:
        raise UsageError(
            "`mvn` is not on the PATH", "install Maven, for example `apt install maven`"
        )
    find_java(os.environ)
    for program, package in (("kcat", "kcat"), ("npm", "npm"), ("go", "golang")):
        if shutil.which(program) is None:
            print(f"{program} is not here: its tests are left out (`apt install {package}`)")


def _install_packages(*names: str) -> None:
    """Debian packages, where that is possible; whether it was, the caller looks."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *names]
    for command in (install, ["apt-get", "update", "--quiet"], install):
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                timeout=_INSTALL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return
        if command is install and done.returncode == 0:
            return


def _once(name: str, made_from: str, make: Callable[[], None]) -> None:
    stamp = PLACE / f"{name}.stamp"
    reason = hashlib.sha256(made_from.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == reason:
        return
    stamp.unlink(missing_ok=True)
    make()
    stamp.write_text(reason)


def _run(command: Sequence[str], problem: str, hint: str) -> None:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        lines = "\n".join(done.stdout.strip().splitlines()[-_OUTPUT_LINES:])
        raise UsageError(f"{problem}; `{' '.join(command)}` says:\n{lines}", hint)


if __name__ == "__main__":
    sys.exit(main())
