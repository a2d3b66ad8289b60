"""The official connector's jars, fetched once: `format("kafka")` beside our own sources.

pyspark comes without them. Maven fetches the four that it lacks into the user's cache, by name and
for the installed Spark's version. A file beside them records their checksums (`SHA256SUMS`), which
are compared at every use. A session takes the jars by path (`connector_conf`), so it asks no
repository when it starts.
Left out: anything that resolves dependencies. Spark's pom names repositories that not every
network reaches, and all else that the connector needs is in pyspark.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError
from tidelog.pipeline.spark.user_cache import cache_directory

ARTIFACTS: Final = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13")
CLIENTS: Final = "kafka-clients"
POOL: Final = "commons-pool2"
SUMS: Final = "SHA256SUMS"
_LOG_TAIL: Final = 600

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]

_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tidelog</groupId><artifactId>connector</artifactId><version>1</version>
  <packaging>pom</packaging>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId>
    <artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version>
    <executions><execution>
      <phase>generate-resources</phase><goals><goal>copy</goal></goals>
      <configuration>
        <outputDirectory>{directory}</outputDirectory>
        <artifactItems>{items}</artifactItems>
      </configuration>
    </execution></executions>
  </plugin></plugins></build>
</project>
"""
_ITEM: Final = (
    "<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "</artifactItem>"
)


def jars_directory(spark_version: str, environ: Mapping[str, str]) -> Path:
    """Where the jars for a Spark version are kept."""
    return cache_directory(environ) / "connector-jars" / spark_version


def kafka_clients_version(spark_version: str) -> str:
    """The client that this Spark was built with."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", spark_version)[:3])
    if numbers <= (4, 0, 0):
        return "3.9.0"
    return "3.9.1" if numbers < (4, 3) else "3.9.2"


def fetch_jars(
    spark_version: str, environ: Mapping[str, str], run: Run | None = None
) -> list[Path]:
    """The jars for a Spark version, from the cache or through Maven, and their sums recorded.
    Raises `UsageError` where there is no Maven, and for what Maven cannot fetch."""
    place = jars_directory(spark_version, environ)
    if (place / SUMS).is_file():
        return checked_jars(place)
    maven = shutil.which("mvn", path=environ.get("PATH"))
    if maven is None:
        raise UsageError(
            "`mvn` is not on the PATH",
            'install Maven (`apt install maven`), or do without: `format("tidelog")` needs no jars',
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        made = Path(name) / "jars"
        pom = Path(name) / "pom.xml"
        pom.write_text(_pom(spark_version, made))
        command = [maven, "--quiet", "--batch-mode", "--file", str(pom), "generate-resources"]
        done = (run or _run)(command)
        if done.returncode:
            log = (done.stdout + done.stderr).strip()[-_LOG_TAIL:]
            raise UsageError(
                f"Maven does not fetch the connector for Spark `{spark_version}`:\n{log}",
                "check that Maven's settings and the network allow a repository that has it, "
                "or give another `--spark-version`",
            )
        jars = sorted(made.glob("*.jar"))
        (made / SUMS).write_text("".join(f"{_sum(jar)}  {jar.name}\n" for jar in jars))
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    return checked_jars(place)


def checked_jars(place: Path) -> list[Path]:
    """The jars of a directory, checked by its sums. Raises `UsageError`, which names the jar."""
    jars = []
    for line in (place / SUMS).read_text().splitlines():
        recorded, _, name = line.partition("  ")
        jar = place / name
        if not jar.is_file() or _sum(jar) != recorded:
            raise UsageError(
                f"`{jar}` is not the file that was fetched",
                f"delete `{place}` and run `tidelog spark fetch-jars` again",
            )
        jars.append(jar)
    return jars


def connector_conf(jars: Sequence[Path]) -> dict[str, str]:
    """The conf by which a session has the connector."""
    return {"spark.jars": ",".join(str(jar) for jar in jars)}


def _pom(spark_version: str, directory: Path) -> str:
    wanted = [("org.apache.spark", name, spark_version) for name in ARTIFACTS]
    wanted.append(("org.apache.kafka", CLIENTS, kafka_clients_version(spark_version)))
    wanted.append(("org.apache.commons", POOL, "2.12.0"))
    items = "".join(_ITEM.format(*one) for one in wanted)
    return _POM.format(directory=directory, items=items)


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
