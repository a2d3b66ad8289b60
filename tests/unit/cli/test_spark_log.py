"""Where Spark's own lines go: a file that is removed or named, or the terminal until the end."""

from pathlib import Path

import pytest

from tidelog.cli.spark_log import LogFile, Relay


def test_a_log_that_no_failure_named_is_removed(tmp_path):
    log = LogFile(tmp_path)
    log.path.write_text("a complaint\n")
    log.mute()
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_a_failure_named_stays(tmp_path):
    log = LogFile(tmp_path)
    log.path.write_text("a complaint\n")
    assert log.named("try again") == f"try again; Spark's log is `{log.path}`"
    log.close()
    assert log.path.read_text() == "a complaint\n"


def test_an_empty_log_is_not_named(tmp_path):
    log = LogFile(tmp_path)
    assert log.named("try again") == "try again"
    log.path.write_text("")
    assert log.named("try again") == "try again"
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_left_is_not_ours(tmp_path):
    LogFile(tmp_path).path.write_text("of another life\n")
    assert LogFile(tmp_path).named("try again") == "try again"


def _say(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_prompt_shows_what_is_said_until_it_is_muted(tmp_path, capsys: pytest.CaptureFixture):
    relay = Relay(tmp_path)
    _say(relay.path, "one\n")
    _say(relay.path, "two\n" * 10_000)
    relay.mute()
    assert capsys.readouterr().err == "one\n" + "two\n" * 10_000
    # More than the pipe holds: who writes does not wait for ever.
    _say(relay.path, "x" * 1_000_000)
    relay.close()
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
