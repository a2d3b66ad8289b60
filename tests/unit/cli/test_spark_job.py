"""A session for a command: its master, and how it is interrupted."""

import signal

import pytest

from tidelog.cli.spark_job import check_master, interruptible
from tidelog.errors import UsageError


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


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*,4]", "local-cluster[2,1,1024]", "spark://h:1", "yarn"]
)
def test_masters_of_spark_are_taken(master: str) -> None:
    check_master(master, {})


@pytest.mark.parametrize(
    "master",
    ["", "locally", "h:7077", "http://h:1", "local[2", "local[x]", "local-cluster[2]", "spark://"],
)
def test_other_masters_are_refused_before_java_starts(master: str) -> None:
    with pytest.raises(UsageError, match="not an address of a Spark cluster"):
        check_master(master, {})
