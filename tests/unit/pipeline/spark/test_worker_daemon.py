"""A worker whose rows are not wanted any more ends without a word; other errors are PySpark's."""

import pytest

from tidelog.pipeline.spark.worker_daemon import ended_quietly


def _failing(error):
    def worker(connection, authenticated):
        raise error

    return worker


def test_a_closed_connection_ends_the_worker():
    codes = []
    ended_quietly(_failing(BrokenPipeError(32, "Broken pipe")), codes.append)(None, True)
    assert codes == [1]


def test_all_else_is_as_it_was():
    assert ended_quietly(lambda connection, authenticated: 7)(None, True) == 7
    with pytest.raises(ConnectionResetError):
        ended_quietly(_failing(ConnectionResetError(104, "reset")))(None, True)
