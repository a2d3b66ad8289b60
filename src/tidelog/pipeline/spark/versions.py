"""Which Spark is here, read from files: whether Tidelog runs on it, and whether its two halves, the
Python package and the jars, are of one version.

With `SPARK_HOME` the jars are those of another installation, and Python's pyspark calls methods
that they may not have: an error of py4j, minutes later, which names neither version.

| from | what Spark's Python data sources can do |
| --- | --- |
| 4.0 | be read, in batches and streams |
| 4.1 | be written with Arrow batches; take filters |
| 4.2 | have limits of a stream's batches |

`pyspark_tidelog` refuses what a Spark that is older than that is asked for.
"""

import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.errors import UsageError

Version = tuple[int, ...]

OLDEST: Final = (4, 0)
BELOW: Final = (4, 4)
"""The first version that nothing here was tried on."""
_CORE: Final = re.compile(r"spark-core_[\d.]+-(.+)\.jar")


def check_versions(environ: Mapping[str, str]) -> None:
    """Raises `UsageError` when pyspark is too old, or `SPARK_HOME` another Spark than it."""
    try:
        text = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return  # `spark-submit` brings its own, with its own jars.
    if parsed(text) < OLDEST:
        raise UsageError(
            f"pyspark is `{text}`, and Python data sources need Spark {dotted(OLDEST)} or newer",
            f"pip install 'pyspark>={dotted(OLDEST)},<{dotted(BELOW)}'",
        )
    other = other_spark(text, environ)
    if other is not None:
        raise UsageError(
            f"SPARK_HOME `{environ['SPARK_HOME']}` is Spark `{other}`, and pyspark is `{text}`",
            same_spark(other),
        )


def other_spark(pyspark: str, environ: Mapping[str, str]) -> str | None:
    """The version of `SPARK_HOME` where it is another than pyspark's in its first two numbers."""
    jars = Path(environ.get("SPARK_HOME") or "/nowhere") / "jars"
    found = [match[1] for jar in jars.glob("spark-core_*.jar") if (match := _CORE.match(jar.name))]
    differs = found and parsed(found[0])[:2] != parsed(pyspark)[:2]
    return found[0] if differs else None


def same_spark(other: str) -> str:
    """What to do about `other_spark`."""
    return f"pip install 'pyspark=={other}', or unset SPARK_HOME to use pyspark's own Spark"


def parsed(text: str) -> Version:
    """`4.3.0.dev1` is (4, 3, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def dotted(version: Version) -> str:
    """`(4, 0)` is 4.0."""
    return ".".join(map(str, version))
