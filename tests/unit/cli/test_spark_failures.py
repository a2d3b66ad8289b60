"""What a person reads of a job that failed, and what its exit code says."""

from pathlib import Path

import pytest
import typer
from pyspark.errors import PySparkException

from tidelog.cli.spark_failures import PACKAGE_HINT, failures_named, spark_failure
from tidelog.cli.terminal import BadAnswer, NoAnswer, WorkFailed
from tidelog.errors import UsageError
from tidelog.pipeline.errors import ClusterUnavailable

_AGAIN = "run it again with `--debug` for the whole trace"
_NONE = "Spark's workers have no Tidelog"
_TRACE = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/a/worker.py", line 12, in main
    process()
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/a/scan.py", line 3, in scan
tidelog.errors.CorruptBatch: `/d/t-0/0.log` (broker 2, `t-0`): batch at offset 40 is damaged
"""


@pytest.mark.parametrize(
    ("text", "kind", "message", "hint"),
    [
        (
            _TRACE,
            WorkFailed,
            "`/d/t-0/0.log` (broker 2, `t-0`): batch at offset 40 is damaged",
            "run it again with `--debug` for the whole trace",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
            '  File "x.py", line 1\n'
            "ValueError: `/no` holds no log directory\n"
            "hint: give the `--data-dir` of `tidelog up`\n",
            UsageError,
            "`/no` holds no log directory",
            "give the `--data-dir` of `tidelog up`",
        ),
        (
            "Job aborted due to stage failure\n\tat org.apache.Thing.run(Thing.scala:1)",
            NoAnswer,
            "Job aborted due to stage failure",
            "run it again with `--debug` for the whole trace",
        ),
        (
            "tidelog.pipeline.errors.ClusterUnavailable: no broker\nhint: look\n",
            NoAnswer,
            "no broker",
            "look",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/t/a.parquet. SQLSTATE: 42K03\nmore",
            WorkFailed,
            "Path does not exist: file:/t/a.parquet. SQLSTATE: 42K03",
            "bring back the file, which the table names",
        ),
        ("ValueError: a bug\n", NoAnswer, "a bug", _AGAIN),
        ("ModuleNotFoundError: No module named 'pyspark_tidelog'", UsageError, _NONE, PACKAGE_HINT),
    ],
)
def test_the_innermost_error_is_shown_with_its_hint_and_decides_the_code(text, kind, message, hint):
    found = spark_failure(text)
    assert (type(found), found.message, found.hint) == (kind, message, hint)


class _Log:
    """A log that has something, and knows whether it was named."""

    path = Path("spark.log")

    def __init__(self) -> None:
        self.is_named = False

    def named(self, hint: str) -> str:
        self.is_named = True
        return f"{hint}; see it"

    def mute(self) -> None:
        """Nothing disturbs."""

    def close(self) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize(
    "ending",
    [
        UsageError("no", "yes"),
        BadAnswer(),
        typer.Exit(1),
        KeyboardInterrupt(),
        WorkFailed("no", "yes"),
    ],
)
def test_an_ending_that_is_not_a_failure_names_no_log(ending: BaseException) -> None:
    log = _Log()
    with pytest.raises(type(ending)), failures_named(log):
        raise ending
    assert not log.is_named


def test_a_failure_of_spark_names_its_log_in_the_hint() -> None:
    with pytest.raises(NoAnswer, match="Job aborted") as caught, failures_named(_Log()):
        raise PySparkException("Job aborted")
    assert caught.value.hint.endswith("; see it")


def test_any_other_failure_names_it_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), failures_named(_Log()):
        raise ZeroDivisionError
    assert capsys.readouterr().err == "see it\n"


def test_a_cluster_and_a_java_that_do_not_answer_are_try_again() -> None:
    with pytest.raises(NoAnswer, match="silence") as caught, failures_named(_Log()):
        raise ClusterUnavailable("silence\nhint: look")
    assert caught.value.hint == "look"
    with pytest.raises(NoAnswer, match="Spark's Java process"), failures_named(_Log()):
        raise ConnectionRefusedError(111, "refused")
