"""Java starts with the arguments of Spark's own launcher, and does not outlive Python.

`spark-submit` is a script here that notes how it was called and answers as Spark's gateway does.
"""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tidelog.pipeline.spark.gateway import Gateway, NoGateway, end_java, is_given, why_ended

_SUBMIT = """\
#!/bin/sh
printf '%s\\n' "$@" >"$NOTED"
[ "$ANSWER" = none ] && exit 3
printf '\\0\\0\\022\\064\\0\\0\\0\\006secret' >"$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
cat >>"$NOTED"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a machine whose Spark is the script."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(_SUBMIT)
    script.chmod(0o755)
    noted = str(tmp_path / "noted")
    return {"PATH": os.defpath, "SPARK_HOME": str(tmp_path / "spark"), "NOTED": noted}


def test_it_gets_the_conf_and_gives_port_and_secret(environ):
    gateway = Gateway({"spark.app.name": "a b", "spark.master": "local[2]"}, environ)
    found = gateway.variables()
    assert found == {"PYSPARK_GATEWAY_PORT": "4660", "PYSPARK_GATEWAY_SECRET": "secret"}
    assert is_given(found)
    assert not is_given(environ)
    gateway.end()
    called = Path(environ["NOTED"]).read_text().splitlines()
    conf = ["--conf", "spark.app.name=a b", "--conf", "spark.master=local[2]"]
    assert called == [*conf, "pyspark-shell"]


def test_submit_arguments_of_the_environment_count(environ):
    gateway = Gateway({}, {**environ, "PYSPARK_SUBMIT_ARGS": "--name 'a b' pyspark-shell"})
    gateway.variables()
    gateway.end()
    called = Path(environ["NOTED"]).read_text().splitlines()
    assert called == ["--name", "a b", "pyspark-shell"]


def test_it_ends_when_its_stdin_closes(environ):
    gateway = Gateway({}, environ)
    gateway.variables()
    assert gateway.process.poll() is None
    gateway.process.communicate()
    assert gateway.process.returncode == 0


def test_a_java_that_ends_is_not_a_gateway(environ):
    gateway = Gateway({}, {**environ, "ANSWER": "none"})
    with pytest.raises(NoGateway, match="code 3"):
        gateway.variables()


@pytest.mark.parametrize(
    ("command", "why", "hint"),
    [
        ("kill -TERM $$", "was ended by SIGTERM", "run it again"),
        ("exit 143", "was ended by SIGTERM", "run it again"),
        ("kill -KILL $$", "was killed (SIGKILL)", "out of memory"),
        ("exit 1", "ended with code 1", "its log"),
    ],
)
def test_the_exit_code_says_why_java_is_gone(command, why, hint):
    """SIGTERM is not a lack of memory."""
    found, advice = why_ended(subprocess.Popen(["sh", "-c", command]))
    assert found == why
    assert hint in advice
    assert ("memory" in advice) == (why != "was ended by SIGTERM")


def test_java_is_ended_in_the_middle_of_its_work():
    process = subprocess.Popen(["sleep", "600"])
    end_java(process)
    assert process.returncode == -signal.SIGTERM


def test_java_is_in_a_group_of_its_own(environ):
    """So that Ctrl-C, and a signal to the whole group, reach Python only."""
    gateway = Gateway({}, environ)
    gateway.variables()
    assert os.getpgid(gateway.process.pid) == gateway.process.pid != os.getpgrp()
    gateway.end()
