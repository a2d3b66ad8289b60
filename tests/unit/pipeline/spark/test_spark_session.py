"""Workers import pyspark from where it is installed, and everything else as Spark wants it."""

import os
import subprocess
import sys

import pyspark
import pytest

from tidelog.pipeline.spark.java import find_java, spark_home
from tidelog.pipeline.spark.spark_session import (
    _warn_of_shadowing,
    default_conf,
    launch_variables,
    worker_python,
)

_PRINT = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:], sys.executable, sep='|')"


def test_what_spark_put_on_the_path_is_taken_off_again(tmp_path):
    home = spark_home({})
    added = [str(home / "python/lib/pyspark.zip"), str(home / "jars/spark-core.jar")]
    own = [str(tmp_path / "a b"), str(tmp_path / "*")]
    script = worker_python("local[2]", tmp_path, {})
    done = subprocess.run(
        [script, "-c", _PRINT, "x y", "*"],
        env={"PYTHONPATH": os.pathsep.join([*added, *own]), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    fields = done.stdout.strip().split("|")
    assert fields == [os.pathsep.join(own), "['x y', '*']", sys.executable]


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn"])
def test_workers_of_a_cluster_are_left_alone(tmp_path, master):
    assert worker_python(master, tmp_path, {}) == sys.executable
    assert not list(tmp_path.iterdir())


def test_on_a_cluster_the_user_says_what_python_is_called(tmp_path):
    said = {"PYSPARK_PYTHON": "/python/bin/python3.11"}
    assert worker_python("spark://host:7077", tmp_path, said) == "/python/bin/python3.11"


@pytest.mark.parametrize(
    ("master", "is_bound"),
    [
        ("local[2]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://host:7077", False),
        ("k8s://https://host:443", False),
        ("yarn", False),
    ],
)
def test_executors_of_other_machines_reach_the_driver(master, is_bound):
    """An address of this machine alone would be the driver's for them."""
    variables = launch_variables(find_java(os.environ), master, None)
    given = {**default_conf(master), **variables}
    bound = {name for name, value in given.items() if value == "127.0.0.1"}
    assert bound == (_ADDRESSES if is_bound else set())


_ADDRESSES = {"spark.driver.host", "spark.driver.bindAddress", "SPARK_LOCAL_IP"}


def test_a_session_beside_a_file_that_shadows_a_standard_module_says_so(tmp_path, monkeypatch):
    (tmp_path / "csv.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.warns(RuntimeWarning, match=r"csv\.py` in the place of Python's own `csv`"):
        _warn_of_shadowing()


def test_another_spark_than_the_installed_one_keeps_its_own_pyspark(tmp_path):
    assert worker_python("local[*]", tmp_path, {"SPARK_HOME": "/spark"}) == sys.executable


def test_the_installed_spark_is_found():
    assert str(spark_home({}) / "__init__.py") == pyspark.__file__
    assert str(spark_home({"SPARK_HOME": "/spark"})) == "/spark"


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        (
            "-m pyspark.daemon pyspark.worker",
            "-m tidelog.pipeline.spark.worker_daemon pyspark.worker",
        ),
        ("-m pyspark.worker", "-m pyspark.worker"),
        ("job.py a:b", "job.py a:b"),
    ],
)
def test_workers_that_plan_have_our_daemon_too(tmp_path, monkeypatch, asked, run):
    """Spark names `pyspark.daemon` for them, whatever its conf says."""
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    script = worker_python("local[2]", tmp_path, {})
    done = subprocess.run([script, *asked.split()], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == run


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077", "local-cluster[2,1,1024]"])
def test_spark_plans_with_the_python_of_its_workers_here_and_of_the_driver_elsewhere(
    master, monkeypatch
):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/bare/python")
    variables = launch_variables(find_java(os.environ), master, None)
    is_script = variables["PYSPARK_DRIVER_PYTHON"] == variables["PYSPARK_PYTHON"]
    assert is_script == (master == "local[2]")
    assert is_script or variables["PYSPARK_DRIVER_PYTHON"] == sys.executable
