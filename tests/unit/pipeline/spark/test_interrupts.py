"""Ctrl-C in a session: one `KeyboardInterrupt`, jobs cancelled, no stacks of py4j."""

import logging
import signal
import threading

import pytest

from tidelog.pipeline.spark.interrupts import (
    drop_end_of_accumulators,
    drop_logs_of_py4j,
    replace_spark_handler,
)


@pytest.fixture
def handler():
    """Puts a handler in the place of the process's, as PySpark does."""
    before = signal.getsignal(signal.SIGINT)

    def of_spark(number, frame) -> None:
        raise AssertionError("it would call Java in the middle of a call")

    of_spark.__module__ = "pyspark.core.context"
    signal.signal(signal.SIGINT, of_spark)
    yield of_spark
    signal.signal(signal.SIGINT, before)


class _Context:
    """A context whose Java is gone."""

    def __init__(self) -> None:
        self.asked_by = None
        self.asked = threading.Event()

    def cancelAllJobs(self) -> None:
        self.asked_by = threading.current_thread()
        self.asked.set()
        raise ConnectionRefusedError


def test_the_jobs_are_cancelled_by_another_thread(handler):
    context = _Context()
    replace_spark_handler(context)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert context.asked.wait(30)
    assert context.asked_by is not threading.main_thread()


def test_a_handler_that_is_not_sparks_stays(handler):
    handler.__module__ = "a.user"
    replace_spark_handler(_Context())
    assert signal.getsignal(signal.SIGINT) is handler


class _Server:
    """A server of accumulators that counts what it reports."""

    def __init__(self) -> None:
        self.reported = 0

    def handle_error(self, request, client_address) -> None:
        self.reported += 1


@pytest.mark.parametrize(
    ("error", "reported"), [(EOFError(), 0), (ConnectionResetError(), 0), (ValueError(), 1)]
)
def test_the_end_of_java_is_not_an_error_of_the_accumulators(error, reported):
    context, server = _Context(), _Server()
    drop_end_of_accumulators(context)
    context._accumulatorServer = server
    drop_end_of_accumulators(context)
    try:
        raise error
    except Exception:
        server.handle_error(None, None)
    assert server.reported == reported


def test_what_py4j_logs_is_dropped_and_nothing_else(caplog):
    drop_logs_of_py4j()
    drop_logs_of_py4j()
    root = logging.getLogger()
    try:
        for place in ("/a/py4j/java_gateway.py", "/a/job.py"):
            root.handle(root.makeRecord("root", logging.ERROR, place, 1, place, (), None))
        assert [record.getMessage() for record in caplog.records] == ["/a/job.py"]
    finally:
        del root.filters[-1]
        assert not root.filters
