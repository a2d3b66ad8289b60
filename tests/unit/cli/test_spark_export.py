"""`tidelog spark export`: what needs no Spark."""

from tests.unit.cli.command import tidelog


def test_a_directory_that_is_there_is_refused_before_spark_starts(capsys, tmp_path):
    done = tidelog(capsys, "spark", "export", "--data-dir", tmp_path, "--out", tmp_path)
    assert done.code == 2
    assert f"`{tmp_path}` exists already" in done.err
    assert "hint: name a new directory" in done.err
