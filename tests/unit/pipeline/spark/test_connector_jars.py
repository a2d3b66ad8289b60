"""The connector's jars: fetched once, recorded, and held against the record."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.spark.connector_jars import (
    connector_conf,
    fetch_jars,
    jars_directory,
    kafka_clients_version,
)


class Maven:
    """Copies what a pom names into its directory, as the plugin does, or fails."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls = 0

    def __call__(self, command):
        self.calls += 1
        pom = Path(command[command.index("--file") + 1]).read_text()
        directory = Path(re.search("<outputDirectory>(.*)</output", pom)[1])
        item = r"<artifactId>([^<]*)</artifactId><version>([^<]*)</version></artifactItem>"
        if not self.code:
            directory.mkdir()
            for name, version in re.findall(item, pom):
                (directory / f"{name}-{version}.jar").write_text(name)
        return subprocess.CompletedProcess(command, self.code, "", "[ERROR] no repository")


@pytest.fixture
def environ(tmp_path):
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("")
    maven.chmod(0o755)
    return {"PATH": str(maven.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_jars_are_fetched_once(environ):
    maven = Maven()
    jars = fetch_jars("4.0.0", environ, maven)
    assert [jar.name for jar in jars] == [
        "commons-pool2-2.12.0.jar",
        "kafka-clients-3.9.0.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]
    assert fetch_jars("4.0.0", environ, maven) == jars
    assert maven.calls == 1
    assert connector_conf(jars)["spark.jars"].count(",") == 3


def test_the_sums_are_those_of_the_files(environ):
    jars = fetch_jars("4.0.0", environ, Maven())
    sums = (jars_directory("4.0.0", environ) / "SHA256SUMS").read_text().splitlines()
    assert sums[1] == f"{hashlib.sha256(b'kafka-clients').hexdigest()}  {jars[1].name}"


def test_a_jar_that_changed_is_refused_by_name(environ):
    jars = fetch_jars("4.0.0", environ, Maven())
    jars[1].write_text("something else")
    with pytest.raises(UsageError) as caught:
        fetch_jars("4.0.0", environ, Maven())
    assert f"`{jars[1]}`" in caught.value.message
    assert "fetch-jars" in caught.value.hint


def test_a_missing_maven_is_an_error(environ):
    with pytest.raises(UsageError) as caught:
        fetch_jars("4.0.0", {**environ, "PATH": "/nowhere"})
    assert "`mvn` is not on the PATH" in caught.value.message


def test_an_error_of_maven_is_reported_and_leaves_no_files(environ):
    with pytest.raises(UsageError) as caught:
        fetch_jars("4.0.0", environ, Maven(code=1))
    assert "no repository" in caught.value.message
    place = jars_directory("4.0.0", environ)
    assert list(place.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("spark", "clients"), [("4.0.0", "3.9.0"), ("4.0.2", "3.9.1"), ("4.3.0", "3.9.2")]
)
def test_the_client_is_the_one_of_that_spark(spark, clients):
    assert kafka_clients_version(spark) == clients
