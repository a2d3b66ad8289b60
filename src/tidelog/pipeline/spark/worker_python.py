"""The Python that Spark's workers run: the caller's, importing pyspark from where it is installed.

Spark puts a zip of pyspark in front of its workers' path. The zip has no compiled modules,
so each new worker process compiles what it imports, which takes several times as long as importing
it. Workers of this machine and this installation get a script instead, which takes what Spark added
off the path again and becomes the caller's Python.
"""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.pipeline.spark.java import spark_home

_SCRIPT: Final = """\
#!/bin/sh
# Python without {home}/python/lib and {home}/jars on its path.
set -f
kept=
IFS=:
for place in $PYTHONPATH; do
    case $place in
        {home}/python/lib/*|{home}/jars/*) ;;
        *) kept=$kept${{kept:+:}}$place ;;
    esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(master: str, directory: Path, environ: Mapping[str, str]) -> str:
    """What to call Python on Spark's workers; a script in the directory where that helps."""
    if master.partition("[")[0] != "local" or environ.get("SPARK_HOME"):
        return sys.executable
    home = shlex.quote(str(spark_home(environ)))
    script = directory / "python"
    script.write_text(_SCRIPT.format(home=home, python=shlex.quote(sys.executable)))
    script.chmod(0o755)
    return str(script)
