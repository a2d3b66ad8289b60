"""What a person reads of a job that failed."""

import signal
from pathlib import Path

import pytest
import typer
from pyspark.errors import PySparkException

from tidelog.cli.spark_job import failures_name, interruptible, spark_failure
from tidelog.cli.terminal import BadAnswer, WorkFailed
from tidelog.errors import UsageError
from tidelog.pipeline.errors import JobFailed

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
    ("text", "message", "hint"),
    [
        (
            _TRACE,
            "`/d/t-0/0.log` (broker 2, `t-0`): batch at offset 40 is damaged",
            "run it again with `--debug` for the whole trace",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
            '  File "x.py", line 1\n'
            "ValueError: `/no` holds no log directory\n"
            "hint: give the `--data-dir` of `tidelog up`\n",
            "`/no` holds no log directory",
            "give the `--data-dir` of `tidelog up`",
        ),
        (
            "Job aborted due to stage failure\n\tat org.apache.Thing.run(Thing.scala:1)",
            "Job aborted due to stage failure",
            "run it again with `--debug` for the whole trace",
        ),
    ],
)
def test_the_innermost_error_is_shown_with_its_hint(text, message, hint):
    assert spark_failure(text) == (message, hint)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_asks_and_the_second_insists(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible() as is_over:
        assert not is_over()
        signal.raise_signal(number)
        assert is_over()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


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
    "ending", [UsageError("no", "yes"), BadAnswer(), typer.Exit(1), KeyboardInterrupt()]
)
def test_an_ending_that_is_not_a_failure_names_no_log(ending: BaseException) -> None:
    log = _Log()
    with pytest.raises(type(ending)), failures_name(log):
        raise ending
    assert not log.is_named


def test_a_failure_of_spark_names_its_log_in_the_hint() -> None:
    with pytest.raises(WorkFailed, match="Job aborted") as caught, failures_name(_Log()):
        raise PySparkException("Job aborted")
    assert caught.value.hint.endswith("; see it")


def test_any_other_failure_names_it_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JobFailed), failures_name(_Log()):
        raise JobFailed("it ended")
    assert capsys.readouterr().err == "see it\n"
