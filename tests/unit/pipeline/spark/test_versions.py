"""Versions are compared before Java starts: a mixture would fail later, and name neither."""

import importlib.metadata

import pytest

from tidelog.errors import UsageError
from tidelog.pipeline.spark import versions
from tidelog.pipeline.spark.doctor import examine
from tidelog.pipeline.spark.versions import check_versions, parsed


@pytest.fixture
def home(tmp_path):
    """A directory like that of a Spark 4.0.1."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.1.jar").touch()
    return {"SPARK_HOME": str(tmp_path), "PATH": ""}


def pretend(monkeypatch, version):
    monkeypatch.setattr(versions.importlib.metadata, "version", lambda package: version)


def test_a_spark_without_python_sources_is_refused(monkeypatch):
    pretend(monkeypatch, "3.5.6")
    with pytest.raises(UsageError, match=r"3\.5\.6`, and .* need Spark 4\.0") as refused:
        check_versions({})
    assert refused.value.hint == "pip install 'pyspark>=4.0,<4.4'"


def test_jars_of_another_spark_than_pysparks_are_refused_by_session_and_doctor(monkeypatch, home):
    with pytest.raises(UsageError, match=r"is Spark `4\.0\.1`, and pyspark is `") as refused:
        check_versions(home)
    assert refused.value.hint.startswith("pip install 'pyspark==4.0.1', or unset SPARK_HOME")
    (found,) = (one for one in examine(home) if one.name == "spark jars")
    assert (found.verdict, found.fix) == ("bad", refused.value.hint)
    pretend(monkeypatch, "4.0.3")
    check_versions(home)


def test_what_is_installed_here_fits():
    check_versions({})
    check_versions({"SPARK_HOME": "/a/spark/that/is/not/there"})
    assert versions.OLDEST <= parsed(importlib.metadata.version("pyspark")) < versions.BELOW
