"""What a person reads of a job that failed."""

import signal

import pytest

from tidelog.cli.spark_job import interruptible, told_by_spark

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
def test_the_innermost_error_is_told_with_its_hint(text, message, hint):
    assert told_by_spark(text) == (message, hint)


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
